"""Sign-in without one (mode open) and at a proxy (mode proxy): whose word is taken."""

from typing import Any

import httpx
import pytest
import structlog
from attrs import evolve

from llmao_core.config import AuthConfig, ProxyConfig, ServerConfig
from llmao_core.errors import ConfigError
from llmao_web.commands.serve import _server

from .signing import BY_PROXY, PAGE, PROXY, Browser, app_of, config_of

OPEN = AuthConfig("open")


async def asked(
    headers: list[tuple[str, str]], path: str = "/models", *, auth: Any = OPEN, peer: str = ""
) -> httpx.Response:
    app, _ = app_of(config_of(auth, public_url=""))
    peer = peer or ("127.0.0.1" if auth is OPEN else PROXY)
    visitor = Browser(app, peer=peer, url="http://127.0.0.1:8080")
    return await visitor.client.get(path, headers=[*PAGE.items(), *headers])


# ---- open


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:8080", "localhost:8080", "LOCALHOST", "[::1]:8080", "127.0.0.9", "[::1]"],
)
async def test_on_this_machine_everybody_is_the_operator(host: str) -> None:
    """Mode open asks nobody who they are."""
    answer = await asked([("host", host)])
    assert 200 == answer.status_code
    assert "operator" in answer.text
    assert "/do-sign-out" not in answer.text


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example"),
        *(
            "10.0.0.1",
            "0.0.0.0",
            "",
            "[::1].evil.example",
            "localhost@evil.example",
            "[::ffff:a00:1]",
        ),
    ],
)
async def test_another_name_for_this_machine_is_refused(host: str) -> None:
    """A page elsewhere whose name is made to lead here (DNS rebinding) sees nothing."""
    for path in ("/models", "/api/v1/view", "/signin"):
        answer = await asked([("host", host)], path)
        assert 403 == answer.status_code
        assert "qwen3-8b" not in answer.text
        assert "evil" not in answer.text


@pytest.mark.parametrize(
    "header", ["x-forwarded-for", "x-forwarded-host", "forwarded", "x-real-ip"]
)
async def test_what_came_through_a_proxy_is_refused(header: str) -> None:
    """The proxy that boxes come through must not make the whole world an admin."""
    answer = await asked([(header, "198.51.100.7")])
    assert 403 == answer.status_code
    assert "auth.mode" in answer.text


@pytest.mark.parametrize("peer", ["198.51.100.7", "10.0.0.1", "2001:db8::1", "::ffff:10.0.0.1"])
async def test_an_open_llmao_answers_this_machine_only(peer: str) -> None:
    """Whatever it is bound to, and whatever name the far end calls it by."""
    assert 403 == (await asked([], peer=peer)).status_code
    assert 200 == (await asked([], peer="::1")).status_code


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "llm.example.org"])
def test_an_open_llmao_starts_on_loopback_only(host: str) -> None:
    """`--host` cannot go round what the configuration check refuses."""
    with pytest.raises(ConfigError, match="loopback"):
        _server(config_of(OPEN), host, None)
    assert host == _server(config_of(), host, None).host
    assert ServerConfig().host == _server(config_of(OPEN), None, None).host


# ---- proxy


def groups(text: str) -> tuple[str, str]:
    return ("X-Forwarded-Groups", text)


def user(name: str) -> tuple[str, str]:
    return ("X-Forwarded-User", name)


@pytest.mark.parametrize(
    ("headers", "admin"),
    [
        ([user("alice")], True),
        ([user("carol"), groups("dev, ops")], True),
        ([user("carol"), groups("dev,opsy")], False),
        ([user("carol")], False),
        ([user("Alice")], False),
        ([user("zoë")], False),
    ],
)
async def test_the_proxy_says_who_it_is(headers: list[tuple[str, str]], admin: bool) -> None:
    """An admin by name or by group; everybody else is a caller, who sees the models."""
    sent: Any = [(name.encode(), value.encode()) for name, value in headers]
    assert 200 == (await asked(sent, auth=BY_PROXY)).status_code
    api = await asked(sent, "/api/v1/view", auth=BY_PROXY)
    assert (200 if admin else 403) == api.status_code
    page = await asked(sent, auth=BY_PROXY)
    assert headers[0][1] in page.text


@pytest.mark.parametrize(
    "peer", ["198.51.100.1", "127.0.0.1", "::1", "10.9.8.70", "::ffff:10.9.8.6"]
)
async def test_a_header_from_anybody_else_says_nothing(peer: str) -> None:
    """Only the TCP peer counts; a forwarded address does not make one."""
    sent = [user("alice"), groups("ops"), ("x-forwarded-for", PROXY), ("x-real-ip", PROXY)]
    answer = await asked(sent, auth=BY_PROXY, peer=peer)
    assert (303, "/signin?next=/models") == (answer.status_code, answer.headers["location"])
    assert 401 == (await asked(sent, "/api/v1/view", auth=BY_PROXY, peer=peer)).status_code


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [groups("ops")],
        [user("")],
        [user("mallory"), user("alice")],
        [user("alice"), user("alice")],
        [user("carol"), groups("dev"), groups("ops")],
        [user("a" * 129)],
        [("X_Forwarded_User", "alice")],
        [("X-Forwarded-User-", "alice")],
    ],
)
async def test_a_header_that_is_not_plainly_one_name_says_nothing(
    headers: list[tuple[str, str]],
) -> None:
    """A second value was let through from somebody else; which one is ours cannot be told."""
    answer = await asked(headers, auth=BY_PROXY)
    assert (303, "/signin?next=/models") == (answer.status_code, answer.headers["location"])


async def test_an_ipv4_proxy_seen_as_ipv6_is_the_same() -> None:
    """A listener on `::` shows IPv4 peers as `::ffff:`."""
    answer = await asked([user("alice")], auth=BY_PROXY, peer=f"::ffff:{PROXY}")
    assert 200 == answer.status_code


async def test_other_headers_can_be_named() -> None:
    """As oauth2-proxy and others have their own; the default ones then say nothing."""
    proxy = ProxyConfig((PROXY,), "Remote-User", "Remote-Groups", admin_groups=("ops",))
    auth = evolve(BY_PROXY, proxy=proxy)
    theirs = [("remote-user", "eve"), ("remote-groups", "ops")]
    assert 200 == (await asked(theirs, "/api/v1/view", auth=auth)).status_code
    assert 303 == (await asked([user("alice")], auth=auth)).status_code


async def test_a_cookie_gives_nobody_another_name() -> None:
    """What signs in here is the proxy; forms are bound to the user it names."""
    app, _ = app_of(config_of(BY_PROXY, public_url=""))
    visitor = Browser(app, peer=PROXY, url="http://127.0.0.1:8080")
    visitor.client.headers["x-forwarded-user"] = "carol"
    token = await visitor.csrf("/signin")
    visitor.client.headers["x-forwarded-user"] = "alice"
    answer = await visitor.post("/do-sign-out", {"csrf": token})
    assert 403 == answer.status_code


async def test_a_caller_who_tries_what_admins_do_is_logged() -> None:
    """403 with a sentence, and a line that says who and what."""
    with structlog.testing.capture_logs() as lines:
        answer = await asked([user("carol")], "/deployments/x", auth=BY_PROXY)
    assert 403 == answer.status_code
    assert "Only an admin" in answer.text
    said = [line for line in lines if line["event"] == "not an admin"]
    assert [("carol", "GET", "/deployments/x")] == [
        (line["user"], line["method"], line["path"]) for line in said
    ]


@pytest.mark.parametrize("auth", [OPEN, BY_PROXY, None], ids=["open", "proxy", "password"])
@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/static/llmao.css", "/vllm/config"])
async def test_boxes_and_load_balancers_are_not_asked_who_they_are(auth: Any, path: str) -> None:
    """Whatever name they call llmao by, and without a cookie."""
    answer = await asked(
        [("host", "llm.example.org"), ("x-forwarded-for", "1.2.3.4")], path, auth=auth
    )
    assert answer.status_code in (200, 403 if path == "/vllm/config" else 200)
    assert "set-cookie" not in answer.headers
    assert "auth.mode" not in answer.text
