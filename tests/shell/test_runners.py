"""Runners read again and again, each for itself, and never make a failure look like a read."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from llmao_core.actions import ActionKind, Outcome, OutcomeKind, Write
from llmao_core.hooks import FetchRequest, SourceCard, SourceKind
from llmao_core.keys import box_key
from llmao_core.snapshots import Deployments, Listing, Snapshot
from llmao_core.testing.clock import VirtualClock
from llmao_web.shell.board import Board
from llmao_web.shell.runners import DeploymentsRunner, Runner
from llmao_web.shell.sources import Source

from .conftest import Script, failure

INTERVAL_S = 60.0
KEY = box_key("127.0.0.2", 8001, "tiny")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with capture_logs():
        yield


def source(kind: SourceKind = SourceKind.LISTING, name: str = "vast") -> Source:
    card = SourceCard(name, kind, INTERVAL_S)
    return Source(card, INTERVAL_S, FetchRequest(name, "http://127.0.0.1:1"))


@asynccontextmanager
async def running(*runs: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    tasks = [asyncio.ensure_future(run()) for run in runs]
    yield
    assert not any(task.done() for task in tasks), "a runner died"
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
def runner(script: Script, board: Board, clock: VirtualClock) -> Runner:
    board.configure("vast", SourceKind.LISTING, INTERVAL_S)
    script.answers["vast"] = Listing()
    return Runner(source(), script, board, clock)  # type: ignore[arg-type]


async def test_it_reads_at_once_and_then_at_its_interval(
    runner: Runner, script: Script, clock: VirtualClock
) -> None:
    """The first read is at the start, the next ones an interval after each began."""
    async with running(runner.run):
        await clock.advance(125.0)
    assert [0.0, 60.0, 120.0] == script.times()


async def test_jitter_only_makes_it_later(script: Script, board: Board) -> None:
    """A read is never early: counters that move once per interval would miss it."""
    clock = VirtualClock(chance=1.0)
    script.clock, script.answers["vast"] = clock, Listing()
    async with running(Runner(source(), script, board, clock).run):  # type: ignore[arg-type]
        await clock.advance(140.0)
    assert [0.0, 66.0, 132.0] == script.times()


async def test_failures_back_off_up_to_the_interval(
    runner: Runner, script: Script, board: Board, clock: VirtualClock
) -> None:
    """Twice as long each time, the interval at most; the snapshot stays, the count grows."""
    board.publish("vast", good := Snapshot(1.0, Listing()))
    script.answers["vast"] = failure()
    async with running(runner.run):
        await clock.advance(185.0)
    assert [0.0, 2.0, 6.0, 14.0, 30.0, 62.0, 122.0, 182.0] == script.times()
    reading = board.reading("vast")
    assert good == reading.snapshot
    assert reading.trouble is not None
    assert len(script.fetches) == reading.trouble.count


async def test_busy_is_left_alone_as_long_as_it_asked(
    runner: Runner, script: Script, clock: VirtualClock
) -> None:
    """Not even a wish reads before the time the far end gave."""
    script.answers["vast"] = failure("Busy", retry_after_s=300.0)
    async with running(runner.run):
        await clock.advance(10.0)
        runner.wish(clock.now())
        await clock.advance(289.0)
        assert [0.0] == script.times()
        await clock.advance(2.0)
    assert [0.0, 300.0] == script.times()


@pytest.mark.parametrize("asked", [float("inf"), float("nan"), -5.0, 1e12])
async def test_a_senseless_retry_after_stops_nobody(
    asked: float, runner: Runner, script: Script, clock: VirtualClock
) -> None:
    """Whatever a far end asks for, it is tried again within the hour."""
    script.answers["vast"] = failure("Busy", retry_after_s=asked)
    async with running(runner.run):
        await clock.advance(3601.0)
    assert len(script.fetches) > 1


async def test_a_wish_is_granted_once(runner: Runner, script: Script, clock: VirtualClock) -> None:
    """A plan repeats its wish in every pass; a read that began after it has granted it."""
    async with running(runner.run):
        await clock.advance(10.0)
        at = clock.now() + 5.0
        runner.wish(at)
        await clock.advance(20.0)
        runner.wish(at)
        await clock.advance(20.0)
    assert [0.0, 15.0] == script.times()


async def test_wishes_do_not_make_it_spin(
    runner: Runner, script: Script, clock: VirtualClock
) -> None:
    """Wished for without end, a source is read once a second and no faster."""
    async with running(runner.run):
        for _ in range(50):
            runner.wish(clock.now())
            await clock.advance(0.1)
    assert 5 >= len(script.fetches)


async def test_setting_the_clock_back_delays_nothing(
    runner: Runner, script: Script, clock: VirtualClock
) -> None:
    """An hour back on the wall clock, and the next read comes an interval later all the same.

    A wish in the new time is granted in the new time.
    """
    wall = clock.now
    async with running(runner.run):
        await clock.advance(30.0)
        clock.now = lambda: wall() - 3600.0  # type: ignore[method-assign]
        await clock.advance(31.0)
        runner.wish(clock.now() + 5.0)
        await clock.advance(6.0)
    assert [0.0, 60.0, 66.0] == script.times()


async def test_the_unexpected_is_survived(
    runner: Runner, script: Script, clock: VirtualClock
) -> None:
    """An exception where none should be is logged, and the source is read again."""

    def explode(request: FetchRequest) -> Any:
        raise ZeroDivisionError(request.base_url)

    script.answers["vast"] = explode
    with capture_logs() as logs:
        async with running(runner.run):
            await clock.advance(1.0)
            script.answers["vast"] = Listing()
            await clock.advance(2.0)
    assert [0.0, 2.0] == script.times()
    assert "ZeroDivisionError" in str(logs)
    assert "127.0.0.1:1" not in str(logs)


async def test_a_hanging_source_delays_no_other(
    runner: Runner, script: Script, board: Board, clock: VirtualClock
) -> None:
    """One task per source: the other goes on at its own pace."""

    async def hang(request: FetchRequest) -> Any:
        await asyncio.Event().wait()

    script.answers["runpod"] = hang
    other = Runner(source(name="runpod"), script, board, clock)  # type: ignore[arg-type]
    async with running(other.run, runner.run):
        await clock.advance(61.0)
    assert [0.0, 60.0] == script.times(lambda request: request.source == "vast")


# ---- deployments


@pytest.fixture
def deployments(script: Script, board: Board, clock: VirtualClock) -> DeploymentsRunner:
    board.configure("litellm", SourceKind.DEPLOYMENTS, INTERVAL_S)
    script.answers["litellm"] = Deployments()
    made = source(SourceKind.DEPLOYMENTS, "litellm")
    return DeploymentsRunner(made, script, board, clock, 30.0)  # type: ignore[arg-type]


def lost(clock: VirtualClock, failures: int = 3) -> Write:
    outcome, now = Outcome(OutcomeKind.UNKNOWN), clock.now()
    later = now + 300.0
    return Write(ActionKind.ADD_LITELLM, KEY, now, now, outcome, "h", failures, later)


async def test_written_rows_are_looked_up(
    deployments: DeploymentsRunner, script: Script, board: Board, clock: VirtualClock
) -> None:
    """A list of one worker may not show a row just written, so it is asked for by id."""
    board.wrote("llmao-1", lost(clock))
    await deployments.read()
    assert ("llmao-1",) == script.fetches[-1][1].look_up


async def test_the_first_good_read_forgives_failed_writes(
    deployments: DeploymentsRunner, script: Script, board: Board, clock: VirtualClock
) -> None:
    """LiteLLM is back: what failed meanwhile may be tried again at once. Not at any good read."""
    await deployments.read()
    board.wrote("llmao-1", lost(clock))
    await deployments.read()
    assert 3 == board.snapshots().writes["llmao-1"].failures
    script.answers["litellm"] = failure()
    await deployments.read()
    script.answers["litellm"] = Deployments()
    await deployments.read()
    write = board.snapshots().writes["llmao-1"]
    assert (0, None) == (write.failures, write.next_try)
    assert board.last_try(KEY, ActionKind.ADD_LITELLM) is None


async def test_an_appointment_is_kept_though_a_read_runs(
    deployments: DeploymentsRunner, script: Script, clock: VirtualClock
) -> None:
    """A read that began before a write ended does not stand for the one after it.

    The next one follows after four times what the read took.
    """
    gate = asyncio.Event()

    async def slow(request: FetchRequest) -> Deployments:
        await gate.wait()
        return Deployments()

    script.answers["litellm"] = slow
    async with running(deployments.run):
        await clock.advance(0.5)
        deployments.appoint(clock.now())
        deployments.appoint(clock.now() + 30.0)
        gate.set()
        await clock.advance(40.0)
    assert [0.0, 2.5, 30.5] == script.times()
