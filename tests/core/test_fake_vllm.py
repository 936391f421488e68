"""The fake vLLM answers as the real one was seen to, and breaks as it is told."""

import asyncio
import json
from collections.abc import AsyncIterator

import httpx
import pytest

from llmao_core.secret import Secret
from llmao_core.testing.clock import VirtualClock
from llmao_core.testing.fake_http import LoopbackServer
from llmao_core.testing.fake_vllm import FakeVLLM, Mode
from llmao_core.testing.fake_vllm_metrics import Load

BEARER = Secret("sk-vllm-right")
CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "1"}], "max_tokens": 1}
HANGS_S = 0.2


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def fake(clock: VirtualClock) -> AsyncIterator[FakeVLLM]:
    fake = FakeVLLM(clock.now, BEARER)
    await fake.start()
    yield fake
    await fake.stop()


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    limits = httpx.Limits(max_keepalive_connections=0)
    async with httpx.AsyncClient(
        timeout=10.0, trust_env=False, verify=False, limits=limits
    ) as client:
        yield client


def keyed(bearer: Secret | None) -> dict[str, str]:
    return {} if bearer is None else {"Authorization": f"Bearer {bearer.reveal()}"}


async def counters(http: httpx.AsyncClient, fake: FakeVLLM) -> dict[str, float]:
    text = (await http.get(fake.base + "/metrics")).text
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name.partition("{")[0]: float(value) for name, _, value in lines if "_info" not in name}


# without, wrong, right bearer
MATRIX = [
    ("GET", "/health", (200, 200, 200)),
    ("GET", "/ping", (200, 200, 200)),
    ("GET", "/version", (200, 200, 200)),
    ("GET", "/metrics", (200, 200, 200)),
    ("GET", "/v1/models", (401, 401, 200)),
    ("POST", "/v1/chat/completions", (401, 401, 200)),
    ("POST", "/v1/completions", (401, 401, 200)),
    ("POST", "/v1/messages", (401, 401, 200)),
    ("POST", "/v1/responses", (401, 401, 200)),
    ("POST", "/invocations", (200, 200, 200)),
    ("POST", "/generative_scoring", (200, 200, 200)),
    ("GET", "/v1/models/tiny", (401, 401, 404)),
    ("GET", "//v1/models", (404, 404, 404)),
    ("GET", "/V1/models", (404, 404, 404)),
    ("OPTIONS", "/v1/chat/completions", (405, 405, 405)),
]
GUARDED = [
    ("GET", "/health", (200, 200, 200)),
    ("GET", "/metrics", (401, 401, 200)),
    ("GET", "/ping", (401, 401, 200)),
    ("POST", "/invocations", (401, 401, 200)),
    ("GET", "/v1/models", (401, 401, 200)),
]


@pytest.mark.parametrize(
    ("method", "path", "statuses", "guarded"),
    [(*row, False) for row in MATRIX] + [(*row, True) for row in GUARDED],
)
async def test_it_asks_for_the_bearer_where_vllm_does(
    http: httpx.AsyncClient,
    fake: FakeVLLM,
    method: str,
    path: str,
    statuses: tuple[int, int, int],
    guarded: bool,
) -> None:
    """A path answers each kind of caller with the status the real vLLM was seen to give."""
    fake.guarded = guarded
    got = [
        (await http.request(method, fake.base + path, headers=keyed(who), json=CHAT)).status_code
        for who in (None, Secret("sk-vllm-wrong"), BEARER)
    ]
    assert list(statuses) == got


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("Bearer sk-vllm-right", 200),
        ("bearer sk-vllm-right", 200),
        ("BEARER sk-vllm-right", 200),
        ("Bearer  sk-vllm-right", 401),
        ("sk-vllm-right", 401),
        ("Basic sk-vllm-right", 401),
    ],
)
async def test_it_reads_the_bearer_as_vllm_does(
    http: httpx.AsyncClient, fake: FakeVLLM, header: str, status: int
) -> None:
    """The scheme may be in any case; everything else must be exact."""
    answer = await http.get(fake.base + "/v1/models", headers={"Authorization": header})
    assert status == answer.status_code


async def test_the_401_is_vllms_own(http: httpx.AsyncClient, fake: FakeVLLM) -> None:
    """Its body is the odd one out: `error` is a text."""
    answer = await http.get(fake.base + "/v1/models")
    assert answer.content == b'{"error":"Unauthorized"}'
    assert answer.headers["content-type"] == "application/json"


async def test_models_are_listed_by_every_name(http: httpx.AsyncClient, fake: FakeVLLM) -> None:
    """One entry per served name, with the effective length and the root."""
    fake.served, fake.root, fake.max_model_len = ("a", "b"), "/models/x", 1152
    listed = (await http.get(fake.base + "/v1/models", headers=keyed(BEARER))).json()["data"]
    assert [(entry["id"], entry["root"], entry["max_model_len"]) for entry in listed] == [
        ("a", "/models/x", 1152),
        ("b", "/models/x", 1152),
    ]


@pytest.mark.parametrize(
    ("change", "status", "kind"),
    [
        ({"model": "other"}, 404, "NotFoundError"),
        ({"max_tokens": 10_000}, 400, "BadRequestError"),
        ({"model": None}, 200, ""),
    ],
)
async def test_it_refuses_what_vllm_refuses(
    http: httpx.AsyncClient, fake: FakeVLLM, change: dict[str, object], status: int, kind: str
) -> None:
    """Errors carry message, type, param and code; a request without `model` is served."""
    body = {**CHAT, **change}
    answer = await http.post(fake.base + "/v1/chat/completions", headers=keyed(BEARER), json=body)
    assert status == answer.status_code
    assert kind == answer.json().get("error", {}).get("type", "")


async def test_empty_and_broken_bodies_are_400(http: httpx.AsyncClient, fake: FakeVLLM) -> None:
    """What an open path says to {} is 400, never 401."""
    for path in ("/invocations", "/tokenize", "/detokenize", "/generative_scoring"):
        for body in (b"{}", b"nonsense"):
            assert (await http.post(fake.base + path, content=body)).status_code == 400


async def test_counters_follow_from_load_and_time(
    http: httpx.AsyncClient, fake: FakeVLLM, clock: VirtualClock
) -> None:
    """Nothing runs in the background: after 10 s at 100 tokens a second, 1 000 are counted."""
    fake.load = Load(running=3, kv_usage=0.5, generated_per_s=100.0, finished_per_s=1.0)
    await clock.advance(10)
    fake.load = Load(running=1, generated_per_s=1.0)
    await clock.advance(5)
    seen = await counters(http, fake)
    assert seen["vllm:generation_tokens_total"] == 1005.0
    assert seen["vllm:num_requests_running"] == 1.0
    assert seen["vllm:time_to_first_token_seconds_count"] == 11.0
    assert clock.monotonic() == 15.0


async def test_a_completion_is_counted(http: httpx.AsyncClient, fake: FakeVLLM) -> None:
    """The usage of an answer is what the counters move by."""
    answer = await http.post(fake.base + "/v1/chat/completions", headers=keyed(BEARER), json=CHAT)
    seen = await counters(http, fake)
    assert answer.json()["usage"]["completion_tokens"] == seen["vllm:generation_tokens_total"] == 1
    assert answer.json()["usage"]["prompt_tokens"] == seen["vllm:prompt_tokens_total"]


async def test_every_counter_has_its_created_trap(http: httpx.AsyncClient, fake: FakeVLLM) -> None:
    """`…_created` is there, and is not the counter."""
    seen = await counters(http, fake)
    assert seen["vllm:generation_tokens_created"] > seen["vllm:generation_tokens_total"] == 0


async def hangs(http: httpx.AsyncClient, url: str, **more: object) -> bool:
    try:
        await http.request("POST" if more else "GET", url, timeout=HANGS_S, **more)  # type: ignore[arg-type]
    except httpx.ReadTimeout:
        return True
    return False


@pytest.mark.parametrize("mode", [Mode.REFUSES, Mode.LOADING])
async def test_a_shut_port_refuses_and_is_kept(
    http: httpx.AsyncClient, fake: FakeVLLM, mode: Mode
) -> None:
    """Connections are refused, and the same port opens again."""
    base = fake.base
    await http.get(base + "/health")
    fake.mode = mode
    with pytest.raises(httpx.ConnectError):
        await http.get(base + "/health")
    fake.mode = Mode.SERVES
    assert base == fake.base
    assert (await http.get(base + "/health")).status_code == 200


async def test_coming_back_is_a_restart(
    http: httpx.AsyncClient, fake: FakeVLLM, clock: VirtualClock
) -> None:
    """Counters begin at zero again."""
    fake.load = Load(running=1, generated_per_s=10.0)
    await clock.advance(10)
    fake.mode = Mode.REFUSES
    await clock.advance(10)
    fake.mode = Mode.SERVES
    assert (await counters(http, fake))["vllm:generation_tokens_total"] == 0.0


async def test_hanging_accepts_and_never_answers(http: httpx.AsyncClient, fake: FakeVLLM) -> None:
    """The request arrives and is logged as never answered."""
    fake.mode = Mode.HANGS
    assert await hangs(http, fake.base + "/health")
    assert [(seen.path, seen.status) for seen in fake.seen] == [("/health", None)]


async def test_frozen_looks_alive_and_does_nothing(
    http: httpx.AsyncClient, fake: FakeVLLM, clock: VirtualClock
) -> None:
    """/health is 200, requests run, counters stand still, a completion hangs."""
    fake.load = Load(running=2, generated_per_s=10.0)
    await clock.advance(10)
    fake.mode = Mode.FROZEN
    await clock.advance(100)
    seen = await counters(http, fake)
    assert (await http.get(fake.base + "/health")).status_code == 200
    assert (
        seen["vllm:num_requests_running"],
        seen["vllm:generation_tokens_total"],
    ) == (2.0, 100.0)
    url = fake.base + "/v1/chat/completions"
    assert await hangs(http, url, json=CHAT, headers=keyed(BEARER))


async def test_frozen_without_load_still_shows_requests(
    http: httpx.AsyncClient, fake: FakeVLLM
) -> None:
    """A hung engine has something to hang on."""
    fake.mode = Mode.FROZEN
    assert (await counters(http, fake))["vllm:num_requests_running"] > 0


async def test_slow_moves(http: httpx.AsyncClient, fake: FakeVLLM, clock: VirtualClock) -> None:
    """/health takes its time, /metrics does not, and its counters move."""
    fake.mode = Mode.SLOW
    before = await counters(http, fake)
    await clock.advance(1)
    after = await counters(http, fake)
    assert before["vllm:generation_tokens_total"] < after["vllm:generation_tokens_total"]
    assert await hangs(http, fake.base + "/health")
    fake.slow_s = 0.01
    assert not await hangs(http, fake.base + "/health")


@pytest.mark.parametrize(
    ("mode", "health", "models", "chat"),
    [
        (Mode.SERVES, 200, 200, 200),
        (Mode.WRONG_KEY, 200, 401, 401),
        (Mode.WRONG_MODEL, 200, 200, 404),
        (Mode.DEAD_ENGINE, 503, 200, 500),
        (Mode.FULL, 200, 200, 503),
    ],
)
async def test_modes(
    http: httpx.AsyncClient, fake: FakeVLLM, mode: Mode, health: int, models: int, chat: int
) -> None:
    """Each mode breaks what it says, and nothing else."""
    fake.mode = mode
    got = [
        await http.get(fake.base + "/health"),
        await http.get(fake.base + "/v1/models", headers=keyed(BEARER)),
        await http.post(fake.base + "/v1/chat/completions", headers=keyed(BEARER), json=CHAT),
    ]
    assert [health, models, chat] == [answer.status_code for answer in got]


async def test_keyless_and_garbled(http: httpx.AsyncClient, fake: FakeVLLM) -> None:
    """Without a key everything is served to anybody; garbled is 200 and HTML."""
    fake.mode = Mode.KEYLESS
    assert (await http.get(fake.base + "/v1/models")).status_code == 200
    fake.mode = Mode.GARBLED
    answer = await http.get(fake.base + "/v1/models")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html")


async def test_its_log_shows_no_secret(http: httpx.AsyncClient, fake: FakeVLLM) -> None:
    """The bearer it was given can be compared, and is not in any repr."""
    await http.get(fake.base + "/v1/models", headers=keyed(BEARER))
    assert fake.seen[0].bearer == BEARER
    assert BEARER.reveal() not in repr(fake.seen)


async def test_stopped_refuses(clock: VirtualClock, http: httpx.AsyncClient) -> None:
    """After stop, connections are refused, a held port included."""
    for mode in (Mode.SERVES, Mode.LOADING):
        fake = FakeVLLM(clock.now, BEARER, mode=mode)
        await fake.start()
        await fake.stop()
        with pytest.raises(httpx.ConnectError):
            await http.get(fake.base + "/health")


async def test_hundreds_fit_into_one_process(clock: VirtualClock, http: httpx.AsyncClient) -> None:
    """Three hundred, each at its own address and all at one port."""
    first = FakeVLLM(clock.now, BEARER, address="127.0.3.1")
    await first.start()
    rest = [
        FakeVLLM(clock.now, BEARER, address=f"127.0.{3 + n // 200}.{2 + n % 200}", port=first.port)
        for n in range(299)
    ]
    try:
        for fake in rest:
            await fake.start()
        for fake in (first, *rest[::50]):
            assert (await http.get(fake.base + "/health")).status_code == 200
    finally:
        for fake in (first, *rest):
            await fake.stop()


async def test_it_serves_a_request_in_pieces(fake: FakeVLLM) -> None:
    """A body may come in any number of packets, and requests share a connection."""
    reader, writer = await asyncio.open_connection("127.0.0.2", fake.port)
    body = json.dumps({"prompt": "a b c"}).encode()
    head = f"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    for piece in (head[:10], head[10:], body[:4], body[4:] + b"GET /ping HTTP/1.1\r\n\r\n"):
        writer.write(piece)
        await writer.drain()
    async with asyncio.timeout(10):
        said = await reader.readuntil(b"}")
        then = await reader.readuntil(b"\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    assert b'"count":3' in said
    assert b"200 OK" in then


def test_a_fake_binds_loopback_only() -> None:
    """A test can never open a port to the world."""
    for address in ("0.0.0.0", "203.0.113.1", "::"):
        with pytest.raises(ValueError, match="loopback"):
            LoopbackServer(address, 0, lambda _: None)
