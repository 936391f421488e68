"""The loop runs reconcile when something changed, and a failing pass changes nothing."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from attrs import evolve
from structlog.testing import capture_logs

from llmao_core.actions import ActionKind, Order, Outcome, OutcomeKind, Write
from llmao_core.history import History
from llmao_core.keys import box_key
from llmao_core.plan import Action, Plan, Policy
from llmao_core.records import Kind, Lifecycle, ProbeSpec, Record, View
from llmao_core.snapshots import Snapshots
from llmao_core.testing.clock import VirtualClock
from llmao_web.shell.board import Board
from llmao_web.shell.loop import Loop
from llmao_web.shell.store import MemoryStore

KEY = box_key("127.0.0.2", 8001, "tiny")
ACTION = Action(Order(ActionKind.DELETE_LITELLM, "litellm", KEY, "llmao-1"), "rule", "because")


async def here(work: Any, *arguments: Any) -> Any:
    return work(*arguments)


class Bench:
    """A loop around a scripted reconcile; takes what the loop hands on."""

    def __init__(self, clock: VirtualClock, board: Board) -> None:
        self.clock = clock
        self.board = board
        self.store = MemoryStore()
        self.passes: list[float] = []
        self.given: list[History] = []
        self.taken: list[tuple[Plan, int]] = []
        self.followed: list[Plan] = []
        self.aimed: list[tuple[ProbeSpec, ...]] = []
        self.view = View(at=clock.now())
        self.plan = Plan((ACTION,))
        self.error: Exception | None = None
        self.loop = Loop(
            board,
            clock,
            self.store,
            self.reconcile,
            policy=Policy,
            hands=self,
            readers=self,
            prober=self,
            offload=here,
        )

    def reconcile(
        self, snapshots: Snapshots, history: History, policy: Policy, now: float
    ) -> tuple[View, Plan, History]:
        self.passes.append(self.clock.monotonic())
        self.given.append(history)
        if self.error:
            raise self.error
        return self.view, self.plan, History(items={"passes": float(len(self.passes))})

    def take(self, plan: Plan, revision: int) -> None:
        self.taken.append((plan, revision))

    def follow(self, plan: Plan) -> None:
        self.followed.append(plan)

    def aim(self, specs: tuple[ProbeSpec, ...]) -> None:
        self.aimed.append(specs)

    def record(self, lifecycle: Lifecycle) -> Record:
        return Record(KEY, Kind.INTENDED, lifecycle)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with capture_logs():
        yield


@pytest.fixture
def bench(clock: VirtualClock, board: Board) -> Bench:
    return Bench(clock, board)


@asynccontextmanager
async def running(bench: Bench) -> AsyncIterator[None]:
    task = asyncio.create_task(bench.loop.run())
    yield
    bench.loop.stop()
    await bench.clock.advance(1.0)
    await task


async def test_a_tick_every_ten_seconds(bench: Bench) -> None:
    """Nothing happens, and yet time is a fact: a pass every ten seconds."""
    async with running(bench):
        await bench.clock.advance(31.0)
    assert [0, 10, 20, 30] == [int(at) for at in bench.passes]


async def test_changes_wake_it_and_are_taken_together(bench: Bench) -> None:
    """A change is looked at within a tenth of a second, a hundred of them in one pass."""
    async with running(bench):
        await bench.clock.advance(5.0)
        for _ in range(100):
            bench.board.place({})
            bench.board.wake.set()
        await bench.clock.advance(0.05)
        assert 2 == len(bench.passes)
        for _ in range(100):
            bench.board.wake.set()
            await bench.clock.advance(0.01)
    assert 10 >= len([at for at in bench.passes if 5.05 < at <= 6.05])


@pytest.mark.parametrize(("took_s", "turn_s"), [(0.02, 0.1), (0.06, 0.18), (0.5, 0.7)])
async def test_a_pass_leaves_time_to_others(bench: Bench, took_s: float, turn_s: float) -> None:
    """Changes come without end: probes and boxes have twice its time, and 0.2 s at most."""

    async def slowly(work: Any, *arguments: Any) -> Any:
        await bench.clock.sleep(took_s)
        return work(*arguments)

    bench.loop._offload = slowly
    async with running(bench):
        for _ in range(400):
            bench.board.wake.set()
            await bench.clock.advance(0.01)
    first, second, third = bench.passes[:3]
    assert [turn_s, turn_s] == [round(second - first, 2), round(third - second, 2)]


async def test_a_change_during_a_pass_is_not_lost(bench: Bench) -> None:
    """What lands while reconcile thinks is looked at in the next pass, soon after."""
    real = bench.reconcile

    def busy(*arguments: Any) -> Any:
        if len(bench.passes) == 0:
            bench.board.wake.set()
        return real(*arguments)

    bench.loop._reconcile = busy
    async with running(bench):
        await bench.clock.advance(1.0)
    assert 2 == len(bench.passes)


async def test_history_goes_from_pass_to_pass(bench: Bench) -> None:
    """Each pass gets what the one before remembered."""
    await bench.loop.once()
    await bench.loop.once()
    assert [{}, {"passes": 1.0}] == [history.items for history in bench.given]


async def test_what_a_pass_concludes_is_handed_on(bench: Bench) -> None:
    """View and plan to readers, plan to the executor with the board's revision, reads, targets."""
    bench.board.wake.set()
    revision = bench.board.revision
    await bench.loop.once()
    assert bench.view is bench.board.view()
    assert bench.plan is bench.board.plan()
    assert [(bench.plan, revision)] == bench.taken
    assert [bench.plan] == bench.followed
    assert [bench.view.targets] == bench.aimed


async def test_a_failing_pass_changes_nothing(bench: Bench) -> None:
    """The old view stays and says so once, no action of the old plan runs, the reason is logged."""
    await bench.loop.once()
    bench.error = AssertionError("hush-hush")
    with capture_logs() as logs:
        for _ in range(3):
            await bench.loop.once()
            await bench.clock.advance(10.0)
    view = bench.board.view()
    assert view is not None
    assert bench.view == evolve(view, items=())
    assert ["reconcile"] == [item.id for item in view.items]
    assert bench.clock.now() - 30.0 == view.items[0].since
    assert [Plan()] * 3 == [plan for plan, _ in bench.taken[1:]]
    assert "critical" in {line["log_level"] for line in logs}
    assert "AssertionError" in view.items[0].sentence
    assert "hush-hush" not in f"{logs}{view}"
    assert bench.board.history.items == {"passes": 1.0}


async def test_it_recovers_from_a_failing_pass(bench: Bench) -> None:
    """The next good pass replaces the item and acts again."""
    bench.error = AssertionError()
    await bench.loop.once()
    bench.error = None
    await bench.loop.once()
    assert bench.view is bench.board.view()
    assert bench.plan is bench.taken[-1][0]


async def test_it_wakes_when_a_backoff_ends(bench: Bench) -> None:
    """A failed write is planned again when its backoff ends, not at the next tick."""
    now = bench.clock.now()
    failed = Outcome(OutcomeKind.FAILED)
    write = Write(ActionKind.DELETE_LITELLM, KEY, now, now, failed, "", 1, now + 5.0)
    async with running(bench):
        await bench.clock.advance(0.5)
        bench.board.wrote("llmao-1", write)
        await bench.clock.advance(6.0)
    assert 5.0 in [round(at, 2) for at in bench.passes]


async def test_no_plan_is_handed_out_after_stop(bench: Bench) -> None:
    """A pass that ends after SIGTERM is shown and not carried out."""
    bench.loop.stop()
    await bench.loop.once()
    assert [] == bench.taken
    assert bench.view is bench.board.view()


async def test_placements_and_transitions_are_kept(bench: Bench) -> None:
    """Where a listing placed a host outlives the process; a lifecycle's change is logged once."""
    bench.view = View(
        at=0.0, records=(bench.record(Lifecycle.LOADING),), placed={"127.0.0.2": "vast"}
    )
    await bench.loop.once()
    bench.view = View(
        at=0.0, records=(bench.record(Lifecycle.HEALTHY),), placed={"127.0.0.2": "vast"}
    )
    await bench.loop.once()
    await bench.loop.once()
    assert {"127.0.0.2": "vast"} == (await bench.store.kept()).placed
    assert {"127.0.0.2": "vast"} == bench.board.snapshots().placed
    moves = [(each.before, each.after) for each in bench.store.moves]
    assert [("Loading", "Healthy")] == moves


async def test_one_line_per_pass(bench: Bench) -> None:
    """A pass that comes to the same is a line for debugging, a new result one for people."""
    with capture_logs() as logs:
        await bench.loop.once()
        await bench.loop.once()
        bench.plan = Plan()
        await bench.loop.once()
    assert [("info", 1), ("debug", 1), ("info", 0)] == [
        (line["log_level"], line["runs"]) for line in logs if line["event"] == "pass"
    ]
