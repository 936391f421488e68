"""What the report of one probe, canary or look at open paths says, mode by mode."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from tests.shell.probing import BEARER, CLOCK, LONG_S, SHORT_S, probe_once, report_of, spec
from tests.shell.raw_server import RawServer, http

from llmao_core.config import Mode as ModelMode
from llmao_core.probes import ProbeReport, Reply, ReplyKind, ServedModel
from llmao_core.testing.fake_vllm import FakeVLLM, Mode

Start = Callable[..., Awaitable[FakeVLLM]]
OK = Reply(ReplyKind.ANSWERED, 200)
UNAUTHORIZED = Reply(ReplyKind.ANSWERED, 401, '{"error":"Unauthorized"}')
TIMED_OUT = Reply(ReplyKind.TIMED_OUT)
REFUSED = Reply(ReplyKind.REFUSED)
NO_LIST = Reply(ReplyKind.BROKEN, said="HTTP 200, and no list of models")
TINY = (ServedModel("tiny", "tiny", 256),)


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    started: list[FakeVLLM] = []

    async def start(mode: Mode = Mode.SERVES, **more: object) -> FakeVLLM:
        fake = FakeVLLM(CLOCK.now, BEARER, mode=mode, **more)  # type: ignore[arg-type]
        started.append(fake)
        await fake.start()
        return fake

    yield start
    for fake in started:
        await fake.stop()


def told(report: ProbeReport) -> tuple[Reply, Reply | None, Reply, Reply | None]:
    assert report.identity is not None
    return report.identity.keyless, report.identity.keyed, report.health, report.metrics


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (Mode.SERVES, (UNAUTHORIZED, OK, OK, OK)),
        (Mode.FROZEN, (UNAUTHORIZED, OK, OK, OK)),
        (Mode.FULL, (UNAUTHORIZED, OK, OK, OK)),
        (Mode.WRONG_MODEL, (UNAUTHORIZED, OK, OK, OK)),
        (Mode.DEAD_ENGINE, (UNAUTHORIZED, OK, Reply(ReplyKind.ANSWERED, 503), OK)),
        (Mode.WRONG_KEY, (UNAUTHORIZED, UNAUTHORIZED, OK, None)),
        (Mode.KEYLESS, (OK, None, OK, None)),
        (Mode.GARBLED, (NO_LIST, None, OK, None)),
        (Mode.REFUSES, (REFUSED, None, REFUSED, None)),
        (Mode.LOADING, (REFUSED, None, REFUSED, None)),
    ],
)
async def test_a_whole_probe_says_what_is_there(
    start: Start, mode: Mode, expected: tuple[Reply, Reply | None, Reply, Reply | None]
) -> None:
    """Keyless and keyed identity, health and metrics, each as it ended."""
    fake = await start(mode)
    began = CLOCK.now()
    report = await report_of(spec(fake.base))
    assert expected == told(report)
    assert began <= report.probed_at <= CLOCK.now()
    assert (report.metrics == OK) is (report.counters is not None)


async def test_what_it_serves_is_reported(start: Start) -> None:
    """The list with lengths comes from the answer with the bearer."""
    fake = await start()
    report = await report_of(spec(fake.base))
    assert report.identity is not None
    assert report.identity.served == TINY


@pytest.mark.parametrize("identity", [True, False])
async def test_a_silent_target_costs_one_timeout(start: Start, identity: bool) -> None:
    """All steps of a dead target end together."""
    fake = await start(Mode.HANGS)
    loop = asyncio.get_running_loop()
    started = loop.time()
    report = await report_of(spec(fake.base, identity=identity), SHORT_S)
    assert loop.time() - started < 2 * SHORT_S + 0.3
    assert TIMED_OUT == report.health
    if identity:
        assert (TIMED_OUT, None, TIMED_OUT, None) == told(report)
    else:
        assert TIMED_OUT == report.metrics


async def test_a_silent_list_of_models_does_not_hide_health() -> None:
    """/health is asked beside it, within the same time-out."""

    def respond(request: bytes) -> bytes:
        return http(b"") if b"/health" in request else b""

    async with RawServer(respond, close=False).serving() as server:
        report = await report_of(spec(server.base), 2.0)
    assert (TIMED_OUT, None, OK, None) == told(report)


@pytest.mark.parametrize("identity", [True, False])
async def test_a_busy_engine_is_heard(start: Start, identity: bool) -> None:
    """/health takes 40 s, and the counters come although nobody asked for them."""
    fake = await start(Mode.SLOW)
    report = await report_of(spec(fake.base, identity=identity, metrics=False), 2.0)
    assert TIMED_OUT == report.health
    assert report.counters is not None
    assert report.counters.running == 8


@pytest.mark.parametrize("mode", [Mode.DEAD_ENGINE, Mode.REFUSES])
async def test_a_suspect_is_asked_for_metrics_at_once(start: Start, mode: Mode) -> None:
    """Not due, but asked, because /health failed."""
    fake = await start(mode)
    report = await report_of(spec(fake.base, identity=False, metrics=False))
    assert report.metrics is not None


async def test_what_is_not_due_is_not_asked(start: Start) -> None:
    """Only /health is always asked."""
    fake = await start()
    report = await report_of(spec(fake.base, identity=False, metrics=False))
    assert ["/health"] == [seen.path for seen in fake.seen]
    assert (None, None, None) == (report.identity, report.metrics, report.counters)


# ---- the bearer


async def test_the_bearer_goes_where_it_should(start: Start) -> None:
    """Never with the first question and never to /health; after the 401 to the other two."""
    fake = await start()
    await report_of(spec(fake.base))
    assert [
        ("/v1/models", None, 401),
        ("/v1/models", BEARER, 200),
        ("/health", None, 200),
        ("/metrics", BEARER, 200),
    ] == [(seen.path, seen.bearer, seen.status) for seen in fake.seen]


STATUSES = ["200 OK", "204 None", "302 Found", "400 Bad", "403 Forbidden", "404 None", "500 Oops"]


@pytest.mark.parametrize("status", STATUSES)
async def test_no_bearer_without_a_401(status: str) -> None:
    """Whatever else the first answer is, the bearer stays here, and no redirect is followed."""
    async with RawServer(lambda _: http(b"", "204 None")).serving() as other:
        answer = http(b'{"data": []}', status, f"Location: {other.base}/v1/models")
        async with RawServer(lambda _: answer).serving() as server:
            report = await report_of(spec(server.base))
    assert report.identity is not None
    assert (None, None) == (report.identity.keyed, report.metrics)
    assert server.requests
    assert not [request for request in server.requests if b"authorization" in request.lower()]
    assert not other.requests


@pytest.mark.parametrize("status", ["302 Found", "403 Forbidden", "500 Oops"])
async def test_no_metrics_when_the_bearer_was_not_taken(status: str) -> None:
    """401 and then anything but 200 proves nothing: the bearer was sent once, and not again."""

    def respond(request: bytes) -> bytes:
        with_bearer = b"authorization" in request.lower()
        return http(b"{}", status if with_bearer else "401 Unauthorized")

    async with RawServer(respond).serving() as server:
        report = await report_of(spec(server.base))
    sent = [request for request in server.requests if b"authorization" in request.lower()]
    assert [b"GET /v1/models HTTP/1.1"] == [request.split(b"\r\n")[0] for request in sent]
    assert report.metrics is None


async def test_the_bearer_is_in_nothing_that_is_kept() -> None:
    """A server that repeats the bearer everywhere finds it masked everywhere."""
    key = BEARER.reveal()

    def respond(request: bytes) -> bytes:
        path = request.split(b" ")[1]
        if path == b"/v1/models" and b"authorization" in request.lower():
            body = f'{{"data": [{{"id": "x {key}", "root": "/{key}/y"}}]}}'
            return http(body.encode(), "200 OK", f"Set-Cookie: a={key}")
        return http(f"you sent {key}".encode(), "401 Unauthorized", f"X-Key: {key}")

    async with RawServer(respond).serving() as server:
        probes = await probe_once(spec(server.base, canaries=1, canary_due=0.0))
    report = probes.reports[spec(server.base).target]
    assert report.metrics is not None
    assert report.metrics.said == "you sent …"
    assert not re.search(re.escape(key), repr(probes))


# ---- canaries


@pytest.mark.parametrize(
    ("mode", "task", "path"),
    [
        ("chat", "generate", "/v1/chat/completions"),
        ("completion", "generate", "/v1/completions"),
        ("embedding", "embed", "/v1/embeddings"),
        ("rerank", "rerank", "/v1/rerank"),
    ],
)
async def test_a_canary_asks_what_the_model_can_do(
    start: Start, mode: ModelMode, task: str, path: str
) -> None:
    """One request for one token, with the bearer, to the path of the mode, as often as told."""
    fake = await start(task=task)
    asked = spec(fake.base, mode=mode, canaries=3, canary_due=0.0)
    canary = (await probe_once(asked)).canaries[asked.target]
    seen = [
        (seen.path, seen.bearer, seen.status) for seen in fake.seen if "models" not in seen.path
    ]
    assert 3 == seen.count((path, BEARER, 200))
    assert (OK, OK, OK) == canary.replies
    assert canary.any_byte
    assert canary.asked_at <= canary.answered_at


@pytest.mark.parametrize(
    ("mode", "kind", "status", "any_byte"),
    [
        (Mode.FROZEN, ReplyKind.TIMED_OUT, 0, False),
        (Mode.SLOW, ReplyKind.TIMED_OUT, 0, False),
        (Mode.HANGS, ReplyKind.TIMED_OUT, 0, False),
        (Mode.REFUSES, ReplyKind.REFUSED, 0, False),
        (Mode.DEAD_ENGINE, ReplyKind.ANSWERED, 500, True),
        (Mode.FULL, ReplyKind.ANSWERED, 503, True),
        (Mode.WRONG_KEY, ReplyKind.ANSWERED, 401, True),
        (Mode.WRONG_MODEL, ReplyKind.ANSWERED, 404, True),
        (Mode.GARBLED, ReplyKind.BROKEN, 0, True),
    ],
)
async def test_a_canary_that_is_not_completed(
    start: Start, mode: Mode, kind: ReplyKind, status: int, any_byte: bool
) -> None:
    """How it ended, and whether anything at all came back."""
    fake = await start(mode)
    asked = spec(fake.base, canaries=2, canary_due=0.0)
    silent = kind is ReplyKind.TIMED_OUT
    canary = (await probe_once(asked, SHORT_S if silent else LONG_S)).canaries[asked.target]
    assert [(kind, status)] * 2 == [(reply.kind, reply.status) for reply in canary.replies]
    assert any_byte is canary.any_byte


async def test_a_model_without_a_mode_is_not_asked(start: Start) -> None:
    """Mode `none` has no canary, whatever is due."""
    fake = await start()
    probes = await probe_once(spec(fake.base, mode="none", canaries=1, canary_due=0.0))
    assert {} == probes.canaries


# ---- open paths


@pytest.mark.parametrize(
    ("mode", "guarded", "expected"),
    [
        (Mode.SERVES, True, set()),
        (
            Mode.SERVES,
            False,
            {"/invocations", "/generative_scoring", "/tokenize", "/detokenize"},
        ),
        (Mode.WRONG_KEY, True, set()),
    ],
)
async def test_open_paths(start: Start, mode: Mode, guarded: bool, expected: set[str]) -> None:
    """What does work for callers without a bearer, and no bearer is sent to find out."""
    fake = await start(mode, guarded=guarded)
    asked = spec(fake.base, open_due=0.0)
    found = (await probe_once(asked)).open_paths[asked.target]
    assert expected == set(found.open_paths)
    posts = [seen for seen in fake.seen if seen.method == "POST"]
    assert posts
    assert not [seen for seen in posts if seen.bearer is not None]
    assert {b"{}"} == {seen.body for seen in posts}


async def test_a_keyless_server_is_open(start: Start) -> None:
    """Everything that runs the model is in the list."""
    fake = await start(Mode.KEYLESS)
    asked = spec(fake.base, open_due=0.0)
    found = (await probe_once(asked)).open_paths[asked.target].open_paths
    assert {"/v1/chat/completions", "/v1/completions", "/invocations"} <= set(found)


@pytest.mark.parametrize("mode", [Mode.HANGS, Mode.REFUSES])
async def test_no_answer_is_not_closed(start: Start, mode: Mode) -> None:
    """A look that failed is no look: there is no report."""
    fake = await start(mode)
    assert {} == (await probe_once(spec(fake.base, open_due=0.0), SHORT_S)).open_paths
