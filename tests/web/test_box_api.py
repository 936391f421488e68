"""`/vllm/config` and `/vllm/notice`: every row of the table of cases, asked over ASGI."""

import json
from typing import Any

import httpx
import pytest
import structlog
from attrs import evolve

from llmao_core.config import Config, FleetConfig, ServerConfig
from llmao_core.protocol import Fetch, Restarting, Unknown, WrongKey
from llmao_core.secret import Secret
from llmao_web.app import create_app
from llmao_web.limit import BURST, PEERS_KEPT, REFILL_S, Limit

from .worlds import FLEET_KEY, OLD_KEY, FakeDesk, desk_of, fleet

BOX = "203.0.113.10"
KEYED = {"authorization": f"Bearer {FLEET_KEY}"}


async def ask(
    desk: FakeDesk,
    headers: Any = (),
    *,
    method: str = "GET",
    peer: str = BOX,
    config: Config | None = None,
    path: str = "/vllm/config",
    content: bytes | None = None,
) -> httpx.Response:
    """Ask once; a new application each time, so that no limit is left over."""
    return await send(
        make(desk, config), headers, method=method, peer=peer, path=path, content=content
    )


def make(desk: FakeDesk, config: Config | None = None) -> Any:
    return create_app(desk, config or fleet(), desk.clock)


async def send(
    app: Any,
    headers: Any = (),
    *,
    method: str = "GET",
    peer: str = BOX,
    path: str = "/vllm/config",
    content: bytes | None = None,
) -> httpx.Response:
    transport = httpx.ASGITransport(app, client=(peer, 4711))
    async with httpx.AsyncClient(transport=transport, base_url="http://llmao.test") as client:
        return await client.request(method, path, headers=headers, content=content)


def code(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


@pytest.fixture
def desk() -> FakeDesk:
    return desk_of(fleet())


# ---- may it ask at all


async def test_before_configuration_is_read_it_is_told_to_come_back() -> None:
    """503 and a time: the box retries."""
    answer = await ask(FakeDesk(), KEYED)
    assert (503, "starting") == code(answer)
    assert "5" == answer.headers["retry-after"]


@pytest.mark.parametrize("keys", [(), (Secret(""),)])
async def test_without_a_fleet_key_nobody_is_served(keys: tuple[Secret, ...]) -> None:
    """503 whatever is presented, an empty bearer included."""
    desk = desk_of(fleet(key=keys))
    for headers in (KEYED, {"authorization": "Bearer "}, {}):
        assert (503, "no_fleet_key") == code(await ask(desk, headers))
    assert [] == desk.events


@pytest.mark.parametrize("key", [FLEET_KEY, OLD_KEY])
async def test_every_configured_key_is_good(desk: FakeDesk, key: str) -> None:
    """Current and previous, while keys are rotated."""
    assert 200 == (await ask(desk, {"authorization": f"Bearer {key}"})).status_code


async def test_the_scheme_is_spelt_in_any_case(desk: FakeDesk) -> None:
    """As HTTP says."""
    assert 200 == (await ask(desk, {"authorization": f"bEARER {FLEET_KEY}"})).status_code


async def test_a_key_that_is_not_ascii_is_compared_by_its_bytes() -> None:
    """UTF-8 on both sides."""
    desk = desk_of(fleet(key=(Secret("schlüssel→"),)))
    good = [(b"Authorization", "Bearer schlüssel→".encode())]
    assert 200 == (await ask(desk, good)).status_code


BAD = [
    [],
    [(b"Authorization", b"")],
    [(b"Authorization", b"Bearer")],
    [(b"Authorization", b"Bearer ")],
    [(b"Authorization", b"Bearer wrong")],
    [(b"Authorization", FLEET_KEY.encode())],
    [(b"Authorization", b"Basic " + FLEET_KEY.encode())],
    [(b"Authorization", b"Bearer " + FLEET_KEY.upper().encode())],
    [(b"Authorization", b"Bearer " + FLEET_KEY.encode() + b"x")],
    [(b"Authorization", b"Bearer \xff\xfe\xc3\xa9")],
    [(b"Authorization", "Bearer schlüssel".encode())],
    [(b"Authorization", b"Bearer " + FLEET_KEY.encode()), (b"Authorization", b"Bearer x")],
]


@pytest.mark.parametrize("headers", BAD)
async def test_a_missing_or_wrong_key_is_one_answer_for_all(
    desk: FakeDesk, headers: list[tuple[bytes, bytes]]
) -> None:
    """403 with one body, whatever was wrong, and it is noted."""
    first = await ask(desk, {"authorization": "Bearer no"})
    answer = await ask(desk, headers)
    assert (403, "forbidden") == code(answer)
    assert first.content == answer.content
    assert [WrongKey(BOX)] * 2 == desk.events


async def test_every_key_is_compared_even_after_a_match(
    desk: FakeDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No early exit: the time taken tells nothing."""
    compared: list[bytes] = []
    matches = Secret.matches

    def counted(self: Secret, said: bytes) -> bool:
        compared.append(said)
        return matches(self, said)

    monkeypatch.setattr(Secret, "matches", counted)
    for headers in (KEYED, {"authorization": "Bearer no"}, {}):
        compared.clear()
        await ask(desk, headers)
        assert 2 == len(compared)


async def test_who_is_wrong_is_noted_with_what_it_claims(desk: FakeDesk) -> None:
    """A box with an old key must not be invisible."""
    await ask(desk, {"authorization": "Bearer no", "x-llmao-host": "C.4711"})
    await ask(desk, {"authorization": "Bearer no", "x-forwarded-for": "203.0.113.7, 10.0.0.1"})
    assert [WrongKey(BOX, "c.4711"), WrongKey(BOX, "203.0.113.7")] == desk.events


# ---- how often it may be wrong


async def test_wrong_keys_are_slowed_down_and_the_right_one_never(desk: FakeDesk) -> None:
    """429 replaces only a 403, and only for that peer."""
    app = make(desk)
    wrong = {"authorization": "Bearer no"}
    codes = [(await send(app, wrong)).status_code for _ in range(BURST + 1)]
    assert [403] * BURST + [429] == codes
    slowed = await send(app, wrong)
    assert (429, "slow_down") == code(slowed)
    assert 1 <= int(slowed.headers["retry-after"]) <= REFILL_S
    assert 200 == (await send(app, KEYED)).status_code
    assert 403 == (await send(app, wrong, peer="203.0.113.11")).status_code
    assert BURST + 2 == sum(event == WrongKey(BOX) for event in desk.events)


async def test_whoever_waits_as_told_is_heard(desk: FakeDesk) -> None:
    """Being refused costs nothing more."""
    app = make(desk)
    wrong = {"authorization": "Bearer no"}
    for _ in range(BURST + 20):
        answer = await send(app, wrong)
    desk.clock.at += int(answer.headers["retry-after"])
    assert 403 == (await send(app, wrong)).status_code
    assert 429 == (await send(app, wrong)).status_code


def test_the_limit_remembers_a_bounded_number_of_peers() -> None:
    """Made-up addresses cost no memory."""
    limit = Limit()
    for each in range(PEERS_KEPT + 50):
        limit.wait_s(str(each), 0.0)
    assert PEERS_KEPT == len(limit._full_at)


# ---- in clear


@pytest.mark.parametrize(
    ("public_url", "forwarded", "status"),
    [
        ("https://llm.example.org", "http", 403),
        ("https://llm.example.org", "HTTP, https", 403),
        ("https://llm.example.org", "https", 200),
        ("https://llm.example.org", "https, http", 200),
        ("https://llm.example.org", None, 200),
        ("http://127.0.0.1:8080", "http", 200),
        ("", "http", 200),
    ],
)
async def test_secrets_do_not_go_out_in_clear(
    desk: FakeDesk, public_url: str, forwarded: str | None, status: int
) -> None:
    """Refused when the public address is https and a proxy says the caller came over http."""
    headers = KEYED | ({"x-forwarded-proto": forwarded} if forwarded else {})
    config = fleet(server=ServerConfig(public_url=public_url))
    answer = await ask(desk, headers, config=config)
    assert status == answer.status_code
    if status == 403:
        assert (403, "in_clear") == code(answer)
        assert "https" in answer.json()["error"]["message"]
        assert [] == desk.events


# ---- which host


async def test_the_header_is_the_only_name_looked_up(desk: FakeDesk) -> None:
    """No fallback to the address, however good that is."""
    headers = KEYED | {"x-llmao-host": "nobody", "x-forwarded-for": BOX}
    assert (404, "unknown_host") == code(await ask(desk, headers))
    assert [Unknown("nobody")] == desk.events


@pytest.mark.parametrize(
    ("said", "host"),
    [
        ("C.4711", "c.4711"),
        ("c.4711", "c.4711"),
        ("::ffff:203.0.113.10", BOX),
        ("old-name", "old-name"),
    ],
)
async def test_a_name_is_normalised_as_in_the_configuration(
    desk: FakeDesk, said: str, host: str
) -> None:
    """Trimmed, lower case, mapped IPv4 in its one form; a former name under that name."""
    answer = await ask(desk, KEYED | {"x-llmao-host": said}, peer="203.0.113.200")
    assert host == answer.json()["host"]


@pytest.mark.parametrize(
    "value",
    [b"", b"   ", b"a" * 254, b"a\x00b", b"a\tb", b"\x1b[31m", b"a\x7f", b"a\x85"],
)
async def test_a_header_that_makes_no_sense_is_400(desk: FakeDesk, value: bytes) -> None:
    """Empty, longer than 253 characters, or with control characters."""
    headers = [(b"authorization", f"Bearer {FLEET_KEY}".encode()), (b"x-llmao-host", value)]
    assert (400, "bad_host") == code(await ask(desk, headers))
    assert [] == desk.events


async def test_two_names_are_400(desk: FakeDesk) -> None:
    """Which one is meant is not guessed."""
    headers = [
        (b"authorization", f"Bearer {FLEET_KEY}".encode()),
        (b"x-llmao-host", b"c.4711"),
        (b"x-llmao-host", BOX.encode()),
    ]
    assert (400, "bad_host") == code(await ask(desk, headers))


@pytest.mark.parametrize("value", ["my box!", "<script>", "köln", "%2e%2e/etc", "10.0.0.300"])
async def test_a_name_that_can_be_no_host_is_said_to_be_none(desk: FakeDesk, value: str) -> None:
    """`llmao check` refuses it: adding it is no advice. The operator is shown it all the same."""
    headers = [
        (b"authorization", f"Bearer {FLEET_KEY}".encode()),
        (b"x-llmao-host", value.encode("latin-1")),
    ]
    answer = await ask(desk, headers)
    assert (400, "bad_host") == code(answer)
    assert "can name no host: set LLMAO_HOST" in answer.json()["error"]["message"]
    assert "add it" not in answer.text
    assert [Unknown(value)] == desk.events


async def test_the_longest_name_is_one_like_any_other(desk: FakeDesk) -> None:
    """404: what DNS allows may be a host."""
    headers = KEYED | {"x-llmao-host": "a" * 253}
    assert (404, "unknown_host") == code(await ask(desk, headers))


@pytest.mark.parametrize(
    ("trusted", "peer", "forwarded", "host"),
    [
        ((), BOX, None, BOX),
        ((), "10.0.0.1", f"{BOX}, 10.0.0.9", BOX),
        ((), "10.0.0.1", f"{BOX}:5123", BOX),
        ((), "10.0.0.1", f"::ffff:{BOX}", BOX),
        (("10.0.0.0/8",), "10.0.0.1", BOX, BOX),
        (("10.0.0.0/8",), "::ffff:10.0.0.1", BOX, BOX),
        (("10.0.0.0/8",), BOX, "203.0.113.99", BOX),
        (("10.0.0.0/8", "fd00::/8"), "fd00::7", f" {BOX} ", BOX),
    ],
)
async def test_without_a_header_the_address_is_looked_up(
    desk: FakeDesk, trusted: tuple[str, ...], peer: str, forwarded: str | None, host: str
) -> None:
    """The leftmost forwarded one if the peer may set it, else the peer."""
    headers = KEYED | ({"x-forwarded-for": forwarded} if forwarded else {})
    config = fleet(server=ServerConfig(trusted_proxies=trusted))
    answer = await ask(desk, headers, peer=peer, config=config)
    assert host == answer.json()["host"]


async def test_a_forwarded_address_from_a_peer_that_may_not_set_it_counts_for_nothing(
    desk: FakeDesk,
) -> None:
    """A box behind no proxy of ours is looked up by its own address."""
    config = fleet(server=ServerConfig(trusted_proxies=("10.0.0.0/8",)))
    headers = KEYED | {"x-forwarded-for": BOX}
    answer = await ask(desk, headers, peer="203.0.113.99", config=config)
    assert (404, "unknown_host") == code(answer)
    assert [Unknown("203.0.113.99")] == desk.events


@pytest.mark.parametrize("forwarded", ["unknown", "_hidden", "[", "a:b:c", ",", "x" * 5000])
async def test_a_forwarded_word_that_is_no_address_is_nobody(
    desk: FakeDesk, forwarded: str
) -> None:
    """404, and no made-up name for an operator to approve."""
    answer = await ask(desk, KEYED | {"x-forwarded-for": forwarded})
    assert (404, "unknown_host") == code(answer)
    assert [] == desk.events


async def test_a_404_says_what_to_do_and_nothing_of_others(desk: FakeDesk) -> None:
    """The operator's next step, and no other host's name."""
    body = (await ask(desk, KEYED | {"x-llmao-host": "nobody"})).text
    assert "fleet.hosts" in body
    assert "LLMAO_HOST" in body
    assert not [name for name in desk.told if name in body]


async def test_an_answer_with_an_empty_bearer_is_never_sent() -> None:
    """Without a salt a box would run open to all: 503 instead."""
    desk = desk_of(fleet(vllm_api_salt=()))
    assert (503, "no_salt") == code(await ask(desk, KEYED))
    assert [] == desk.events


# ---- the answer


async def test_a_known_host_is_given_its_answer(desk: FakeDesk) -> None:
    """The bytes the desk has, not to be stored, under their revision; a hand-out."""
    answer = await ask(desk, KEYED | {"x-llmao-revision": "r1-0a"})
    told = desk.told[BOX]
    assert 200 == answer.status_code
    assert told.body == answer.content
    assert "application/json" == answer.headers["content-type"]
    assert "no-store" == answer.headers["cache-control"]
    assert f'"{told.revision}"' == answer.headers["etag"]
    assert [Fetch(BOX, told.revision, "r1-0a")] == desk.events


async def test_what_it_is_told_is_noted_without_bearers(desk: FakeDesk) -> None:
    """A later difference can be put in words, and no bearer is kept for that."""
    await ask(desk, KEYED)
    [event] = desk.events
    assert isinstance(event, Fetch)
    assert desk.told[BOX].assignment == event.assignment
    for server in desk.told[BOX].servers:
        assert server.api_key.reveal() not in str(event.assignment)


async def test_head_has_the_revision_and_no_body_and_hands_nothing_out(desk: FakeDesk) -> None:
    """It only reports what the box runs."""
    answer = await ask(desk, KEYED | {"x-llmao-revision": "r1-0a"}, method="HEAD")
    assert (200, b"") == (answer.status_code, answer.content)
    assert f'"{desk.told[BOX].revision}"' == answer.headers["etag"]
    assert "no-store" == answer.headers["cache-control"]
    assert [Fetch(BOX, "", "r1-0a")] == desk.events


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("form", ['"{}"', 'W/"{}"', '"other", "{}"', "*"])
async def test_a_revision_the_box_has_is_304(desk: FakeDesk, method: str, form: str) -> None:
    """A cheap question, and no hand-out."""
    tag = form.replace("{}", desk.told[BOX].revision)
    answer = await ask(desk, KEYED | {"if-none-match": tag}, method=method)
    assert (304, b"") == (answer.status_code, answer.content)
    assert f'"{desk.told[BOX].revision}"' == answer.headers["etag"]
    assert [Fetch(BOX)] == desk.events


@pytest.mark.parametrize("tag", ['"r1-00"', "nonsense", ""])
async def test_another_revision_is_given_the_answer(desk: FakeDesk, tag: str) -> None:
    """What does not match is not had."""
    assert 200 == (await ask(desk, KEYED | {"if-none-match": tag})).status_code


@pytest.mark.parametrize("said", ["", "a b", "<b>", "x" * 81, "r1-é"])
async def test_a_revision_that_makes_no_sense_is_none(desk: FakeDesk, said: str) -> None:
    """It is shown on pages and kept: only what could be one gets in."""
    headers = [
        (b"authorization", f"Bearer {FLEET_KEY}".encode()),
        (b"x-llmao-revision", said.encode("latin-1")),
    ]
    await ask(desk, headers)
    assert [Fetch(BOX, desk.told[BOX].revision, "")] == desk.events


async def test_head_errors_have_no_body(desk: FakeDesk) -> None:
    """As HTTP says."""
    answer = await ask(desk, {}, method="HEAD")
    assert (403, b"") == (answer.status_code, answer.content)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
async def test_other_methods_are_405(desk: FakeDesk, method: str) -> None:
    """In the same shape as every other error."""
    assert (405, "method_not_allowed") == code(await ask(desk, KEYED, method=method))


# ---- the notice


async def notify(desk: FakeDesk, body: object, headers: Any = KEYED) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return await ask(desk, headers, method="POST", path="/vllm/notice", content=content)


async def test_a_notice_is_taken(desk: FakeDesk) -> None:
    """204; names that are no server of this host are dropped."""
    answer = await notify(desk, {"restarting": ["q", "stranger", "q"]})
    assert (204, b"") == (answer.status_code, answer.content)
    assert [Restarting(BOX, ("q",))] == desk.events


async def test_a_notice_has_the_same_rules_as_a_fetch(desk: FakeDesk) -> None:
    """Key, host and headers are checked before the body is looked at."""
    assert (403, "forbidden") == code(await notify(desk, b"{", {}))
    assert (404, "unknown_host") == code(await notify(desk, b"{", KEYED | {"x-llmao-host": "no"}))
    assert (400, "bad_host") == code(await notify(desk, b"{", KEYED | {"x-llmao-host": ""}))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff",
        b"[" * 30000,
        [],
        {},
        {"restarting": "q"},
        {"restarting": [1]},
        {"restarting": ["x"] * 65},
        {"restarting": ["x" * 129]},
    ],
)
async def test_a_notice_that_makes_no_sense_is_400(desk: FakeDesk, body: object) -> None:
    """With the shape that would be right."""
    answer = await notify(desk, body)
    assert (400, "bad_notice") == code(answer)
    assert "restarting" in answer.json()["error"]["message"]
    assert [] == desk.events


async def test_a_notice_larger_than_the_limit_is_413(desk: FakeDesk) -> None:
    """It is not read to its end."""
    answer = await notify(desk, b" " * 70_000)
    assert 413 == answer.status_code
    assert [] == desk.events


# ---- the log


async def test_every_fetch_is_logged_and_no_secret_is(desk: FakeDesk) -> None:
    """Claimed host, peer, forwarded address, outcome and applied revision."""
    with structlog.testing.capture_logs() as lines:
        await ask(desk, KEYED | {"x-llmao-revision": "r1-0a", "x-forwarded-for": BOX})
        await ask(desk, KEYED | {"x-llmao-host": "nobody"})
        await ask(desk, {"authorization": "Bearer wr0ng-key", "x-llmao-host": "c.1"})
        await notify(desk, {"restarting": ["q"]})
    assert ["handed out", "unknown_host", "forbidden", "restarting 1 servers"] == [
        line["outcome"] for line in lines
    ]
    assert (BOX, BOX, BOX, "r1-0a") == tuple(
        lines[0][name] for name in ("host", "peer", "forwarded_for", "applied")
    )
    assert ["nobody", "c.1"] == [line["host"] for line in lines[1:3]]
    for secret in (FLEET_KEY, "wr0ng-key", "sk-vllm"):
        assert secret not in str(lines)


async def test_a_changed_key_counts_at_once(desk: FakeDesk) -> None:
    """The keys are those of what is intended now, not of the start."""
    app = make(desk)
    assert desk.what is not None
    changed = FleetConfig(key=(Secret("next"),), hosts=desk.what.config.fleet.hosts)
    desk.what = evolve(desk.what, config=evolve(desk.what.config, fleet=changed))
    assert 403 == (await send(app, KEYED)).status_code
    assert 200 == (await send(app, {"authorization": "Bearer next"})).status_code
