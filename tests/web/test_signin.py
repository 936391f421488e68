"""Sign-in with a password: who is let in, what the cookie is like, and how it ends."""

import base64
import json
from typing import Any

import pytest
import structlog
from attrs import evolve

from llmao_core.secret import Secret
from llmao_web.auth.routes import local_place
from llmao_web.auth.session import MOST_ENDED, Sessions

from .signing import (
    BY_PASSWORD,
    OTHER_PASSWORD,
    PASSWORD,
    Browser,
    admin,
    app_of,
    config_of,
)
from .worlds import FakeDesk

NOT_IN = (303, "/signin?next=/models")


def browsers(number: int, **changes: Any) -> tuple[list[Browser], FakeDesk]:
    app, desk = app_of(config_of(**changes))
    return [Browser(app, peer=f"198.51.100.{each}") for each in range(number)], desk


def browser(**changes: Any) -> tuple[Browser, FakeDesk]:
    made, desk = browsers(1, **changes)
    return made[0], desk


def id_of(cookie: str) -> str:
    """Return the session's id, which anybody may read and nobody may write."""
    claims = cookie.split(".")[1]
    return str(json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["sid"])


async def where(visitor: Browser, path: str = "/models") -> tuple[int, str]:
    answer = await visitor.get(path)
    return answer.status_code, answer.headers.get("location", "")


async def test_an_admin_signs_in_with_a_password() -> None:
    """The form leads to the page that was asked for, as somebody known by name."""
    visitor, _ = browser()
    assert NOT_IN == await where(visitor)
    answer = await visitor.sign_in(place="/models?as=caller")
    assert (303, "/models?as=caller") == (answer.status_code, answer.headers["location"])
    page = await visitor.get("/models")
    assert 200 == page.status_code
    assert "alice" in page.text


@pytest.mark.parametrize(
    ("name", "password"),
    [
        ("alice", "wrong"),
        ("alice", ""),
        ("nobody", PASSWORD),
        ("", ""),
        ("alice", OTHER_PASSWORD),
        ("ALICE", PASSWORD),
        ("alice\x00", PASSWORD),
        ("alice", "x" * 5000),
    ],
)
async def test_a_wrong_name_and_a_wrong_password_are_told_the_same(
    name: str, password: str
) -> None:
    """Nobody is let in, and nobody learns which names there are."""
    visitor, _ = browser()
    with structlog.testing.capture_logs() as lines:
        answer = await visitor.sign_in(name, password)
    assert 403 == answer.status_code
    assert "The name or the password is wrong." in answer.text
    assert NOT_IN == await where(visitor)
    assert ["sign-in refused"] == [line["event"] for line in lines]
    assert PASSWORD not in str(lines)


async def test_an_unknown_name_costs_a_hash_like_a_known_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Time does not tell which names there are."""
    from llmao_web.auth.passwords import Passwords

    asked: list[str] = []
    verify = Passwords._verify

    def counted(self: Passwords, hashed: str, password: str) -> bool:
        asked.append(hashed)
        return verify(self, hashed, password)

    monkeypatch.setattr(Passwords, "_verify", counted)
    visitor, _ = browser()
    await visitor.sign_in("alice", "wrong")
    await visitor.sign_in("nobody", "wrong")
    assert 2 == len(asked)


async def test_the_cookie_is_for_this_host_and_no_script() -> None:
    """HttpOnly, SameSite=Lax, Secure and `__Host-` behind https; plain on loopback."""
    visitor, _ = browser()
    said = (await visitor.sign_in()).headers["set-cookie"]
    assert said.startswith("__Host-llmao=")
    parts = {part.strip().lower() for part in said.split(";")}
    assert {"httponly", "samesite=lax", "secure", "path=/"} <= parts
    assert not any(part.startswith("domain") for part in parts)
    app, _ = app_of(config_of(public_url="http://127.0.0.1:8080"))
    plain = (await Browser(app).get("/signin")).headers["set-cookie"]
    assert plain.startswith("llmao=")
    assert "secure" not in plain.lower()


async def test_the_session_is_a_new_one_after_sign_in() -> None:
    """A cookie somebody planted before gives nothing afterwards."""
    visitor, _ = browser()
    await visitor.get("/signin")
    planted = visitor.cookie
    await visitor.sign_in()
    assert id_of(planted) != id_of(visitor.cookie)
    thief = Browser(visitor.app)
    thief.client.cookies.set("__Host-llmao", planted, domain="llm.example.org")
    assert NOT_IN == await where(thief)


async def test_the_csrf_token_changes_with_the_sign_in() -> None:
    """A token from before the sign-in is good for nothing after it."""
    visitor, _ = browser()
    before = await visitor.csrf()
    await visitor.sign_in()
    assert 403 == (await visitor.post("/do-sign-out", {"csrf": before})).status_code
    assert 200 == (await visitor.get("/models")).status_code


async def test_who_signs_out_is_out_with_every_copy_of_the_cookie() -> None:
    """The session itself is ended, not only forgotten by the browser."""
    visitor, _ = browser()
    await visitor.sign_in()
    copied = visitor.cookie
    answer = await visitor.post("/do-sign-out", {"csrf": await visitor.csrf("/models")})
    assert (303, "/signin") == (answer.status_code, answer.headers["location"])
    assert NOT_IN == await where(visitor)
    thief = Browser(visitor.app)
    thief.client.cookies.set("__Host-llmao", copied, domain="llm.example.org")
    assert NOT_IN == await where(thief)


@pytest.mark.parametrize("form", [{}, {"csrf": ""}, {"csrf": "x" * 43}])
async def test_nobody_signs_another_in_or_out(form: dict[str, str]) -> None:
    """Neither form is taken without the visitor's own token."""
    visitor, _ = browser()
    full = {"name": "alice", "password": PASSWORD, **form}
    assert 403 == (await visitor.post("/do-sign-in", full)).status_code
    assert NOT_IN == await where(visitor)
    await visitor.sign_in()
    assert 403 == (await visitor.post("/do-sign-out", form)).status_code
    assert 200 == (await visitor.get("/models")).status_code


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"\xff=\xfe&csrf=%ff%00", "application/x-www-form-urlencoded"),
        (b"csrf=a&csrf=b&name=c&name=d", "application/x-www-form-urlencoded"),
        (b"&" * 60_000, "application/x-www-form-urlencoded"),
        (b"a=" * 30_000, "application/x-www-form-urlencoded"),
        (b"", "application/x-www-form-urlencoded"),
        (b'{"csrf": 3}', "application/json"),
        (b"--x\r\n", "multipart/form-data; boundary=x"),
        (b"csrf=a", ""),
    ],
)
async def test_what_is_no_form_is_refused(content: bytes, kind: str) -> None:
    """With an answer, and never a 500."""
    visitor, _ = browser()
    for path in ("/do-sign-in", "/do-sign-out"):
        answer = await visitor.client.post(path, content=content, headers={"content-type": kind})
        assert 400 <= answer.status_code < 500


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_a_form_from_another_site_is_refused(site: str) -> None:
    """Even with the right token, which a leak could have given away."""
    visitor, _ = browser()
    form = {"name": "alice", "password": PASSWORD, "csrf": await visitor.csrf()}
    answer = await visitor.post("/do-sign-in", form, headers={"sec-fetch-site": site})
    assert 403 == answer.status_code
    assert NOT_IN == await where(visitor)


async def test_a_session_ends_when_nobody_uses_it() -> None:
    """After session_idle_s without a request; each request begins that time anew."""
    visitor, desk = browser()
    await visitor.sign_in()
    for _ in range(3):
        desk.clock.at += BY_PASSWORD.session_idle_s - 61
        assert 200 == (await visitor.get("/models")).status_code
    desk.clock.at += BY_PASSWORD.session_idle_s + 61
    assert NOT_IN == await where(visitor)


async def test_a_session_ends_however_much_it_is_used() -> None:
    """After session_max_s, counted from the sign-in."""
    visitor, desk = browser()
    await visitor.sign_in()
    began = desk.clock.at
    while desk.clock.at < began + BY_PASSWORD.session_max_s:
        assert 200 == (await visitor.get("/models")).status_code
        desk.clock.at += 1800
    desk.clock.at += 1
    assert NOT_IN == await where(visitor)


async def test_a_session_holds_on_another_replica_with_the_same_key() -> None:
    """And after a restart; not with another key, and not without one."""
    visitor, desk = browser()
    await visitor.sign_in()
    keys = ((BY_PASSWORD.session_key, True), (Secret("k" * 40), False), (None, False))
    for key, holds in keys:
        app, _ = app_of(config_of(evolve(BY_PASSWORD, session_key=key)), desk)
        visitor.client._transport = Browser(app).client._transport
        cookie = visitor.cookie
        assert holds == (200 == (await visitor.get("/models")).status_code)
        visitor.client.cookies.set("__Host-llmao", cookie, domain="llm.example.org")


@pytest.mark.parametrize(
    "admins",
    [(admin("bob", OTHER_PASSWORD),), (admin(password="a new one, a longer one"),)],
    ids=["removed", "password changed"],
)
async def test_who_is_no_admin_any_more_has_no_session(admins: Any) -> None:
    """The cookie rests on the hash it was given for."""
    visitor, desk = browser()
    await visitor.sign_in()
    app, _ = app_of(config_of(evolve(BY_PASSWORD, admins=admins)), desk)
    visitor.client._transport = Browser(app).client._transport
    assert NOT_IN == await where(visitor)
    answer = await visitor.get("/signin")
    assert "/do-sign-out" not in answer.text
    assert "set-cookie" in answer.headers


@pytest.mark.parametrize("cut", [0, 5, 40, -3])
async def test_a_forged_cookie_is_none(cut: int) -> None:
    """One changed letter anywhere, or no signature at all."""
    visitor, _ = browser()
    await visitor.sign_in()
    held = visitor.cookie
    at = cut % len(held)
    forged = held[:at] + ("A" if held[at] != "A" else "B") + held[at + 1 :]
    for text in (forged, held.rpartition(".")[0] + ".", "", "x", "a.b.c", "é" * 9):
        visitor.client.cookies.clear()
        answer = await visitor.get("/models", headers={"cookie": f"__Host-llmao={text}".encode()})
        assert NOT_IN == (answer.status_code, answer.headers["location"]), text


async def test_what_was_signed_for_something_else_is_no_session() -> None:
    """A state of the way to a provider opens nothing."""
    sessions = Sessions(60, 60, Secret("k" * 40))
    text = sessions.sealed(sessions.begin(0, "alice", admin=True))
    assert sessions.opened(text, 0)
    assert None is sessions.claims("oidc state", text)
    assert None is sessions.opened(sessions.signed("oidc state", {"sid": "x"}), 0)


async def test_guessing_from_one_address_is_slowed_down() -> None:
    """Ten at once, then one every six seconds, the right one included; others are served."""
    (guesser, other), desk = browsers(2)
    for _ in range(10):
        assert 403 == (await guesser.sign_in(password="guess")).status_code
    answer = await guesser.sign_in()
    assert (429, "6") == (answer.status_code, answer.headers["retry-after"])
    assert 303 == (await other.sign_in()).status_code
    desk.clock.at += 6
    assert 303 == (await guesser.sign_in()).status_code


async def test_guessing_one_name_from_many_addresses_is_slowed_down() -> None:
    """Thirty at once, then one every two seconds; another name is not held up."""
    visitors, desk = browsers(34)
    for each in visitors[:30]:
        assert 403 == (await each.sign_in(password="guess")).status_code
    assert 429 == (await visitors[30].sign_in(password="guess")).status_code
    assert 303 == (await visitors[31].sign_in("bob", OTHER_PASSWORD)).status_code
    desk.clock.at += 2
    assert 303 == (await visitors[32].sign_in()).status_code


async def test_an_address_is_what_our_own_proxy_says_and_no_other() -> None:
    """Behind a trusted proxy each caller is counted alone; a stranger's header changes nothing."""
    app, _ = app_of(config_of(trusted_proxies=("10.0.0.1/32",)))
    for peer, expected in (("10.0.0.1", 403), ("198.51.100.9", 429)):
        answers = []
        for number in range(11):
            visitor = Browser(app, peer=peer)
            # the leftmost address is the caller's own claim
            visitor.client.headers["x-forwarded-for"] = f"6.6.6.6, 192.0.2.{number}"
            answers.append((await visitor.sign_in(f"n{number}", "x")).status_code)
        assert expected == answers[-1]


@pytest.mark.parametrize(
    "text",
    [
        *("", "models", "https://evil.example", "//evil.example", "/\\evil.example", "\\/evil"),
        *(
            "/\t/evil.example",
            "/models\r\nset-cookie: a=b",
            "javascript:alert(1)",
            "/" + "a" * 5000,
        ),
        *("/signin", "/signin/provider", "http:/x", "/models\\..\\x", " /models"),
    ],
)
async def test_next_leads_nowhere_else(text: str) -> None:
    """A link to the sign-in can send nobody to another site."""
    assert "/models" == local_place(text)
    visitor, _ = browser()
    answer = await visitor.sign_in(place=text)
    assert (303, "/models") == (answer.status_code, answer.headers["location"])


@pytest.mark.parametrize("text", ["/models", "/boxes?a=b&c=d", "/deployments/llmao-1#x"])
def test_next_leads_back(text: str) -> None:
    """A place of our own is kept as it is."""
    assert text == local_place(text)


async def test_the_page_needs_no_script_and_names_its_fields() -> None:
    """Browsers and password managers know which field is which."""
    visitor, _ = browser()
    page = (await visitor.get("/signin?next=/boxes")).text
    assert 'autocomplete="username"' in page
    assert 'autocomplete="current-password"' in page
    assert 'name="next" value="/boxes"' in page
    hostile = (await visitor.get("/signin", params={"next": '/"><script>x'})).text
    assert "<script>x" not in hostile


async def test_a_machine_is_told_to_sign_in_and_not_sent_there() -> None:
    """A redirect would look like an answer to it."""
    visitor, _ = browser()
    answer = await visitor.get("/models", headers={"accept": "application/json"})
    assert (401, "unauthorized") == (answer.status_code, answer.json()["error"]["code"])


async def test_everybody_may_see_the_models_when_that_is_configured() -> None:
    """And nothing else."""
    visitor, _ = browser(auth=evolve(BY_PASSWORD, callers="everybody"))
    assert 200 == (await visitor.get("/models")).status_code
    answer = await visitor.get("/deployments/x")
    assert (303, True) == (answer.status_code, "/signin" in answer.headers["location"])


def test_the_list_of_ended_sessions_is_bounded() -> None:
    """Whoever signs in and out for ever fills no memory."""
    sessions = Sessions(60, 600)
    for number in range(MOST_ENDED + 50):
        sessions.end(sessions.begin(number / 1000, "alice"), number / 1000)
    assert MOST_ENDED == len(sessions._ended)
    sessions.end(sessions.begin(10_000, "alice"), 10_000)
    assert 1 == len(sessions._ended)


def test_no_key_shows_itself() -> None:
    """Not in the repr of what holds it."""
    sessions = Sessions(60, 600, Secret("k" * 40))
    assert "kkkk" not in repr(sessions)
    assert "OctKey" not in repr(sessions)
