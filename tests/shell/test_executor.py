"""The executor: one write at a time, what hurts callers first, nothing nobody wants any more."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from llmao_core.actions import ActionKind, Order, Outcome, OutcomeKind, RowBody
from llmao_core.hooks import FetchRequest
from llmao_core.keys import box_key
from llmao_core.plan import Action, Hold, Plan
from llmao_core.testing.clock import VirtualClock
from llmao_web.shell.board import Board
from llmao_web.shell.executor import Executor, backoff_s
from llmao_web.shell.host import Ended
from llmao_web.shell.leader import Alone
from llmao_web.shell.ledger import Entry
from llmao_web.shell.store import MemoryStore

from .conftest import Script

ADD, UPDATE, REPLACE, DELETE, DUPLICATE, PRUNE, REBOOT = ActionKind
FAILED = Outcome(OutcomeKind.FAILED, "503")
LOST = Outcome(OutcomeKind.UNKNOWN, "no answer")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with capture_logs():
        yield


def action(kind: ActionKind, row: int = 1, **more: Any) -> Action:
    key = box_key(f"127.0.0.{row + 1}", 8001, "tiny")
    info = {"llmao_hash": f"hash-{row}"}
    body = None if kind.removes else RowBody("tiny", "http://127.0.0.2:8001/v1", {}, info)
    return Action(Order(kind, "litellm", key, f"llmao-{row}", body), "rule", "because", **more)


class Granted(Alone):
    """A lead that a test takes away; counts the writes that are out."""

    granted = True
    refuses = False
    out = 0

    def leads(self) -> bool:
        """Tell what the test wants."""
        return self.granted

    async def begins(self, order: Order) -> bool:
        """Note that a write begins, unless the database says that another leads."""
        self.granted = self.granted and not self.refuses
        self.out += self.granted
        return self.granted

    async def ended(self) -> None:
        """Note that it ended."""
        self.out -= 1


class Bench:
    """An executor with a scripted LiteLLM, driven by plans."""

    def __init__(self, clock: VirtualClock, script: Script) -> None:
        self.clock = clock
        self.script = script
        self.board = Board(clock)
        self.store = MemoryStore()
        self.rereads: list[float] = []
        self.lead = Granted()
        self.begun: list[tuple[str, float]] = []
        self.may_begin = True
        self.executor = Executor(
            script,
            self.board,
            self.store,
            clock,
            request=lambda order: FetchRequest(order.executor, "http://127.0.0.1:1"),
            reread=self.rereads.append,
            poll_interval_s=lambda: 30.0,
            lead=self.lead,
            begins=self._may_begin,
        )

    async def _may_begin(self, action: Action, at: float) -> bool:
        self.begun.append((action.order.target, at))
        return self.may_begin

    def take(self, *actions: Action) -> None:
        """Hand in a plan made from the board as it is."""
        self.executor.take(Plan(actions), self.board.revision)

    @property
    def wrote(self) -> list[tuple[ActionKind, str]]:
        return [(order.kind, order.target) for _, order in self.script.orders]


@pytest.fixture
def bench(clock: VirtualClock, script: Script) -> Bench:
    return Bench(clock, script)


async def test_removals_then_updates_then_adds(bench: Bench) -> None:
    """A dead route hurts callers, a wrong one less, a missing one least; a reboot comes last."""
    kinds = [REBOOT, ADD, REPLACE, PRUNE, UPDATE, DELETE, DUPLICATE]
    bench.take(*(action(kind, row) for row, kind in enumerate(kinds)))
    await bench.executor.batch()
    assert [PRUNE, DELETE, DUPLICATE, REPLACE, UPDATE, ADD, REBOOT] == [
        kind for kind, _ in bench.wrote
    ]


async def test_a_reboot_begins_when_that_is_kept(bench: Bench) -> None:
    """At the time that is kept, and not while it cannot be; nothing else asks or waits for it."""
    bench.may_begin = False
    bench.take(action(REBOOT, 1), action(DELETE, 2))
    await bench.executor.batch()
    assert [(DELETE, "llmao-2")] == bench.wrote
    assert [("llmao-1", bench.clock.now())] == bench.begun
    assert 0 == bench.lead.out
    bench.may_begin = True
    bench.take(action(REBOOT, 1))
    await bench.executor.batch()
    assert [(DELETE, "llmao-2"), (REBOOT, "llmao-1")] == bench.wrote
    assert bench.begun[-1][1] == bench.store.log[-1].entry.at


async def test_only_what_runs_runs(bench: Bench) -> None:
    """Observed, held and human actions wait; what an admin released runs."""
    bench.take(
        action(DELETE, 1, policy="observe"),
        action(DELETE, 2, hold=Hold.WITNESS),
        action(DELETE, 3, policy="needs_human"),
        action(DELETE, 4, hold=Hold.BRAKE, released_by="ada"),
    )
    await bench.executor.batch()
    assert [(DELETE, "llmao-4")] == bench.wrote
    assert ["ada"] == [each.entry.actor for each in bench.store.log]


async def test_a_new_removal_goes_before_queued_adds(bench: Bench) -> None:
    """Between two writes the newest plan counts, and what it no longer wants is not done."""

    def during(order: Order) -> Outcome:
        if order.target == "llmao-1":
            bench.take(action(ADD, 3), action(DELETE, 9))
        return Outcome(OutcomeKind.DONE)

    bench.script.outcome = during
    bench.take(action(ADD, 1), action(ADD, 2), action(ADD, 3))
    await bench.executor.batch()
    assert [(ADD, "llmao-1"), (DELETE, "llmao-9"), (ADD, "llmao-3")] == bench.wrote


async def test_a_plan_older_than_a_write_says_nothing_of_that_row(bench: Bench) -> None:
    """The plan in hand still wants what was just done; only one made after it may repeat it."""
    bench.take(action(ADD))
    before = bench.board.revision
    await bench.executor.batch()
    await bench.executor.batch()
    bench.executor.take(Plan((action(UPDATE),)), before)
    await bench.executor.batch()
    assert [(ADD, "llmao-1")] == bench.wrote
    bench.take(action(UPDATE))
    await bench.executor.batch()
    assert [(ADD, "llmao-1"), (UPDATE, "llmao-1")] == bench.wrote


async def test_a_write_is_told_when_it_begins_and_when_it_ends(bench: Bench) -> None:
    """While it is under way the row is pending; afterwards the answer stands there."""
    during = []

    async def slow(order: Order) -> Outcome:
        during.append(bench.board.snapshots().writes["llmao-1"])
        await bench.clock.sleep(2.0)
        return Outcome(OutcomeKind.DONE)

    bench.script.outcome = slow
    bench.take(action(ADD))
    began = bench.clock.now()
    task = asyncio.create_task(bench.executor.batch())
    await bench.clock.advance(3.0)
    await task
    assert [(began, None, "hash-1")] == [(each.began, each.answered, each.hash) for each in during]
    after = bench.board.snapshots().writes["llmao-1"]
    assert (began + 2.0, True) == (after.answered, after.outcome is not None and after.outcome.good)


async def test_one_read_after_a_batch(bench: Bench) -> None:
    """After the last write the deployments are read once, and once when all workers know."""
    bench.take(*(action(ADD, row) for row in range(5)))
    await bench.executor.batch()
    assert [bench.clock.now() + 30.0] == bench.rereads
    await bench.executor.batch()
    assert 1 == len(bench.rereads)


@pytest.mark.parametrize("outcome", [FAILED, LOST])
async def test_failures_back_off(outcome: Outcome, bench: Bench) -> None:
    """5 s, doubling; a plan that repeats the action in between changes nothing."""
    bench.script.outcome = outcome
    for _ in range(80):
        bench.take(action(ADD))
        await bench.executor.batch()
        await bench.clock.advance(1.0)
    assert [0.0, 5.0, 15.0, 35.0, 75.0] == [at for at, _ in bench.script.orders]
    assert 5 == bench.board.snapshots().writes["llmao-1"].failures
    assert bench.clock.now() < (bench.board.next_try() or 0.0)


async def test_one_failing_row_holds_up_no_other(bench: Bench) -> None:
    """Backoff is per key and kind: another row, and another kind for this one, goes on."""
    bench.script.outcome = FAILED
    bench.take(action(ADD))
    await bench.executor.batch()
    bench.take(action(ADD), action(DELETE), action(ADD, 2))
    await bench.executor.batch()
    assert [(ADD, "llmao-1"), (DELETE, "llmao-1"), (ADD, "llmao-2")] == bench.wrote


async def test_another_kind_in_between_does_not_shorten_the_backoff(bench: Bench) -> None:
    """A failed add backs off though a removal of the same row came after it."""
    bench.script.outcome = lambda order: FAILED if order.kind is ADD else Outcome(OutcomeKind.DONE)
    for kind in (ADD, DELETE, ADD):
        bench.take(action(kind))
        await bench.executor.batch()
    assert [ADD, DELETE] == [kind for kind, _ in bench.wrote]


async def test_forgiven_writes_are_tried_at_once(bench: Bench) -> None:
    """LiteLLM is back: nobody waits for the rest of a backoff."""
    bench.script.outcome = FAILED
    bench.take(action(ADD))
    await bench.executor.batch()
    bench.board.forgive()
    bench.take(action(ADD))
    await bench.executor.batch()
    assert 2 == len(bench.wrote)
    assert 1 == bench.board.snapshots().writes["llmao-1"].failures


async def test_a_far_end_that_asks_for_time_gets_it_within_bounds(bench: Bench) -> None:
    """What a 429 asks for counts when it is longer than ours, five minutes at most."""
    bench.script.outcome = Ended(FAILED, retry_after_s=1e9)
    bench.take(action(ADD), action(DELETE, 2))
    await bench.executor.batch()
    writes, now = bench.board.snapshots().writes, bench.clock.now()
    assert now + 300.0 == writes["llmao-1"].next_try
    assert now + 20.0 == writes["llmao-2"].next_try


def test_dead_rows_are_removed_soon() -> None:
    """However often it failed, a removal waits 20 s at most, anything else five minutes."""
    assert 20.0 == max(backoff_s(DELETE, failures) for failures in range(1, 2000))
    assert 300.0 == max(backoff_s(ADD, failures) for failures in range(1, 2000))
    assert [5.0, 10.0, 20.0] == [backoff_s(DELETE, failures) for failures in (1, 2, 3)]


async def test_who_does_not_lead_writes_nothing(bench: Bench) -> None:
    """Leadership lost in the middle of a batch ends it after the write under way."""

    def loses(order: Order) -> Outcome:
        bench.lead.granted = False
        return Outcome(OutcomeKind.DONE)

    bench.script.outcome = loses
    bench.take(action(ADD, 1), action(ADD, 2))
    await bench.executor.batch()
    assert 1 == len(bench.wrote)
    assert 1 == len(bench.rereads)


async def test_no_write_begins_without_its_permission(bench: Bench) -> None:
    """A lead that the database no longer confirms is given up before the write, not after it."""
    bench.lead.refuses = True
    bench.take(action(ADD))
    await bench.executor.batch()
    assert [] == bench.wrote
    assert [] == bench.rereads


async def test_every_permission_is_given_back(bench: Bench) -> None:
    """A write that ends in whatever way is no longer out, or a new leader waits for it."""
    outs: list[int] = []

    def breaks(order: Order) -> Outcome:
        outs.append(bench.lead.out)
        return FAILED

    bench.script.outcome = breaks
    bench.take(action(ADD, 1), action(ADD, 2))
    await bench.executor.batch()
    assert [1, 1] == outs
    assert 0 == bench.lead.out


async def test_an_old_plan_is_not_carried_out(bench: Bench) -> None:
    """When no pass has come for a minute, what the last one wanted no longer counts."""
    bench.take(action(ADD))
    await bench.clock.advance(61.0)
    await bench.executor.batch()
    assert [] == bench.wrote


async def test_stopping_lets_the_write_under_way_finish(bench: Bench) -> None:
    """After stop no write begins, the one that runs ends with its answer, and run returns."""

    async def slow(order: Order) -> Outcome:
        await bench.clock.sleep(5.0)
        return Outcome(OutcomeKind.DONE)

    bench.script.outcome = slow
    task = asyncio.create_task(bench.executor.run())
    bench.take(action(ADD, 1), action(ADD, 2))
    await bench.clock.advance(1.0)
    bench.executor.stop()
    await bench.clock.advance(10.0)
    assert task.done()
    await task
    assert [(ADD, "llmao-1")] == bench.wrote
    assert bench.board.snapshots().writes["llmao-1"].outcome is not None


async def test_a_write_cut_short_is_unknown(bench: Bench) -> None:
    """Killed in the middle of a write: whether it happened is not known, and says so."""

    async def hang(order: Order) -> Outcome:
        await asyncio.Event().wait()
        raise AssertionError

    bench.script.outcome = hang
    bench.take(action(ADD))
    task = asyncio.create_task(bench.executor.batch())
    await bench.clock.settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    outcome = bench.board.snapshots().writes["llmao-1"].outcome
    assert outcome is not None
    assert OutcomeKind.UNKNOWN is outcome.kind


async def test_a_store_that_fails_stops_no_removal(bench: Bench) -> None:
    """A full disk costs the entry in the action log, not the action."""

    async def full(*entries: Entry) -> None:
        raise OSError("no space left")

    bench.store.append = full  # type: ignore[method-assign]
    bench.take(action(DELETE, 1), action(DELETE, 2))
    await bench.executor.batch()
    assert 2 == len(bench.wrote)


PLANS = st.lists(
    st.tuples(
        st.floats(0.1, 20.0),
        st.lists(
            st.tuples(st.sampled_from(list(ActionKind)), st.integers(0, 3)),
            max_size=6,
            unique_by=lambda each: each[1],
        ),
    ),
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(plans=PLANS, takes=st.lists(st.floats(0.0, 15.0), min_size=1, max_size=8), data=st.data())
def test_never_two_writes_at_once(
    plans: list[tuple[float, list[tuple[ActionKind, int]]]],
    takes: list[float],
    data: st.DataObject,
) -> None:
    """Whatever plans come while writes run, slow or fast, good or lost: one write at a time.

    And no row is written twice on one plan.
    """

    async def world() -> None:
        clock = VirtualClock()
        bench = Bench(clock, Script(clock))
        running: Counter[str] = Counter()
        orders: Counter[tuple[str, int]] = Counter()
        ends = [Outcome(kind) for kind in OutcomeKind]

        async def write(order: Order) -> Outcome:
            running[order.target] += 1
            assert 1 == running.total()
            orders[order.target, bench.executor._taken.revision] += 1
            await clock.sleep(takes[len(bench.script.orders) % len(takes)])
            running[order.target] -= 1
            return ends[len(bench.script.orders) % len(ends)]

        bench.script.outcome = write
        task = asyncio.create_task(bench.executor.run())
        for wait_s, wanted in plans:
            bench.take(*(action(kind, row) for kind, row in wanted))
            await clock.advance(wait_s)
        bench.executor.stop()
        await clock.advance(20.0)
        await task
        assert all(count == 1 for count in orders.values())

    with capture_logs():
        asyncio.run(world())
