"""When the prober asks, whom it asks at once, and what it forgets."""

import asyncio
import errno
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import pytest
import structlog
from tests.shell.probing import BEARER, CLOCK, SHORT_S, Bench, spec

from llmao_core.probes import ReplyKind
from llmao_core.testing.clock import VirtualClock
from llmao_core.testing.fake_vllm import FakeVLLM, Mode
from llmao_web.shell.probe import CONCURRENCY, _affordable

Start = Callable[..., Awaitable[FakeVLLM]]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    started: list[FakeVLLM] = []

    async def start(mode: Mode = Mode.SERVES) -> FakeVLLM:
        fake = FakeVLLM(CLOCK.now, BEARER, mode=mode)
        started.append(fake)
        await fake.start()
        return fake

    yield start
    for fake in started:
        await fake.stop()


class Stub(httpx.AsyncBaseTransport):
    """Answers at once, counts, and does what it is told first."""

    def __init__(self, first: Callable[[], None] = lambda: None) -> None:
        self.asked: list[str] = []
        self.first = first

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(str(request.url))
        self.first()
        return httpx.Response(200, content=b"{}")


def plain(base: str, due_at: float):  # type: ignore[no-untyped-def]
    return spec(base, due_at, identity=False, metrics=False)


# ---- when


async def test_a_target_is_asked_when_its_time_comes() -> None:
    """Not before `due_at`, once at it, and not again until a newer `due_at` is set."""
    clock, stub = VirtualClock(), Stub()
    bench = Bench(clock, transport=lambda: stub)
    asked = plain("http://127.0.0.5:1", clock.now() + 10)
    async with bench.running():
        bench.prober.aim((asked,))
        await clock.advance(9.9)
        assert [] == stub.asked
        await clock.advance(0.2)
        await bench.until(lambda probes: probes.reports)
        bench.prober.aim((asked,))
        await clock.advance(100)
        assert 1 == len(stub.asked)
        bench.prober.aim((plain("http://127.0.0.5:1", clock.now()),))
        await clock.settle()
        assert 2 == len(stub.asked)


async def test_a_canary_is_asked_when_it_is_newer_than_the_last() -> None:
    """The same `canary_due` asks once, a newer one again, and it moves no probe."""
    clock, stub = VirtualClock(), Stub()
    bench = Bench(clock, transport=lambda: stub)
    base = "http://127.0.0.5:1"

    def aimed(canary_due: float):  # type: ignore[no-untyped-def]
        return (spec(base, clock.now() + 1000, canaries=1, canary_due=canary_due),)

    async with bench.running():
        first = aimed(clock.now() - 1)
        for _ in range(3):
            bench.prober.aim(first)
            await clock.advance(1)
        assert [base + "/v1/chat/completions"] == stub.asked
        bench.prober.aim(aimed(clock.now()))
        await clock.settle()
    assert [base + "/v1/chat/completions"] * 2 == stub.asked
    assert {} == bench.prober.probes().reports


async def test_a_change_of_mind_before_the_time_counts() -> None:
    """Only the specs of the newest `aim` are asked."""
    clock, stub = VirtualClock(), Stub()
    bench = Bench(clock, transport=lambda: stub)
    async with bench.running():
        bench.prober.aim((plain("http://127.0.0.5:1", clock.now() + 5),))
        await clock.advance(1)
        bench.prober.aim((plain("http://127.0.0.5:2", clock.now() + 5),))
        await clock.advance(10)
    assert ["http://127.0.0.5:2/health"] == stub.asked


# ---- how many at once


async def test_a_target_is_never_asked_twice_at_once(start: Start) -> None:
    """However often a hanging target falls due, one probe of it is under way."""
    fake = await start(Mode.HANGS)
    bench = Bench(timeout_s=SHORT_S)
    async with bench.running():
        while bench.landed < 2:
            bench.prober.aim((plain(fake.base, CLOCK.now()),))
            await asyncio.sleep(0.01)
            begun = sum(seen.path == "/health" for seen in fake.seen)
            assert begun <= bench.landed + 1


async def test_a_hung_target_costs_one_slot(start: Start) -> None:
    """With two slots and one target hanging in one of them, ten others are still probed."""
    hung = await start(Mode.HANGS)
    others = [await start() for _ in range(10)]
    bench = Bench(concurrency=2)
    aimed = tuple(plain(fake.base, 1.0) for fake in (hung, *others))
    async with bench.running():
        bench.prober.aim(aimed)
        probes = await bench.until(lambda probes: len(probes.reports) == 10)
    assert aimed[0].target not in probes.reports


async def test_the_slow_leave_room_for_the_others(start: Start) -> None:
    """Targets that timed out last time never fill all slots, however many they are."""
    hung = [await start(Mode.HANGS) for _ in range(4)]
    well = await start()
    bench = Bench(timeout_s=1.0, concurrency=2)
    first = tuple(plain(fake.base, 1.0) for fake in hung)
    async with bench.running():
        bench.prober.aim(first)
        await bench.until(lambda probes: len(probes.reports) == 4)
        now, landed = CLOCK.now(), bench.landed
        bench.prober.aim(tuple(plain(fake.base, now) for fake in (*hung, well)))
        await bench.until(lambda _: bench.landed > landed)
        assert plain(well.base, 0).target in bench.prober.probes().reports
        assert landed + 1 == bench.landed


async def test_canaries_do_not_wait_for_probes(start: Start) -> None:
    """A sweep that is stuck holds no canary back."""
    hung, well = await start(Mode.HANGS), await start()
    bench = Bench(concurrency=1)
    canary = spec(well.base, CLOCK.now() + 1000, canaries=1, canary_due=1.0)
    async with bench.running():
        bench.prober.aim((plain(hung.base, 1.0), canary))
        probes = await bench.until(lambda probes: probes.canaries)
    assert {} == probes.reports


def test_slots_stay_below_the_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process with few descriptors probes fewer at once, and at least one."""
    for soft, expected in ((1024, 256), (200, 50), (1, 1)):
        monkeypatch.setattr("resource.getrlimit", lambda _, soft=soft: (soft, soft))
        assert expected == _affordable(CONCURRENCY)


# ---- what is kept


async def test_reports_are_copied_once_per_change(start: Start) -> None:
    """The same object until a report lands, and one that was handed out never changes."""
    fake = await start()
    bench = Bench()
    before = bench.prober.probes()
    assert before is bench.prober.probes()
    async with bench.running():
        bench.prober.aim((plain(fake.base, 1.0),))
        after = await bench.until(lambda probes: probes.reports)
    assert after is bench.prober.probes()
    assert {} == before.reports


async def test_what_is_no_longer_aimed_at_is_dropped(start: Start) -> None:
    """Its reports of every kind go at once, and a probe under way is given up."""
    fake, hung = await start(), await start(Mode.HANGS)
    bench = Bench()
    asked = spec(fake.base, 1.0, canaries=1, canary_due=1.0, open_due=1.0)
    async with bench.running():
        bench.prober.aim((asked, plain(hung.base, 1.0)))
        await bench.until(lambda probes: probes.canaries and probes.open_paths and probes.reports)
        bench.prober.aim(())
        probes = bench.prober.probes()
        assert ({}, {}, {}) == (probes.reports, probes.canaries, probes.open_paths)
        landed = bench.landed
        bench.prober.aim((asked,))
        await bench.until(lambda probes: asked.target in probes.reports)
    assert landed < bench.landed
    assert plain(hung.base, 1.0).target not in bench.prober.probes().reports


async def test_a_target_given_up_can_be_aimed_at_again(start: Start) -> None:
    """Dropped in the middle of a probe and aimed at in the next moment, it is probed."""
    fake = await start(Mode.HANGS)
    bench = Bench()
    async with bench.running():
        bench.prober.aim((plain(fake.base, 1.0),))
        async with asyncio.timeout(10):
            while not fake.seen:
                await asyncio.sleep(0.01)
        bench.prober.aim(())
        fake.mode = Mode.SERVES
        bench.prober.aim((plain(fake.base, 1.0),))
        probes = await bench.until(lambda probes: probes.reports)
    assert [True] == [report.health.ok for report in probes.reports.values()]


# ---- our own trouble


async def test_our_own_trouble_is_no_report() -> None:
    """Out of descriptors says nothing about the target: no report, one log line, and a retry."""

    def broken() -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    clock, stub = VirtualClock(), Stub(broken)
    bench = Bench(clock, timeout_s=3.0, transport=lambda: stub)
    targets = tuple(plain(f"http://127.0.0.5:{port}", 1.0) for port in (1, 2, 3))
    with structlog.testing.capture_logs() as logs:
        async with bench.running():
            bench.prober.aim(targets)
            await clock.advance(1)
            assert {} == bench.prober.probes().reports
            stub.first = lambda: None
            await clock.advance(3)
            probes = await bench.until(lambda probes: len(probes.reports) == 3)
    assert {ReplyKind.ANSWERED} == {report.health.kind for report in probes.reports.values()}
    assert 1 == len(logs)
    assert BEARER.reveal() not in repr((logs, bench.prober, probes))
