"""The loop: wait for a change, have reconcile look at everything, hand on what it came to.

Rule of this file: one pass at a time, in a thread, on values that nobody changes. A pass that
fails changes nothing: the old view stays, says so, and no action of it is carried out.
"""

import asyncio
import gc
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

import structlog
from attrs import evolve

from llmao_core.history import History
from llmao_core.keys import Key
from llmao_core.plan import Hold, Plan, Policy
from llmao_core.records import AttentionItem, ItemKind, ProbeSpec, Record, View
from llmao_core.snapshots import Snapshots, SourceState

from .board import Board, Concluded
from .clock import Clock, wait_for_any
from .journal_record import Pass
from .ledger import placements
from .store import Transition, Writes
from .unexpected import log_unexpected

TICK_S = 10.0
SHORTEST_GAP_S = 0.1
# After a pass twice its time is left to probes and boxes: they share one interpreter with it.
# Not more than so long, because a pass is slow where the machine is busy.
RESTS = 2.0
LONGEST_REST_S = 0.2
FAILED = "reconcile"
_REMEDY = (
    "Go back to the version before if it came with a new one; report it with llmao's log and "
    "its journal."
)

T = TypeVar("T")
Reconcile = Callable[[Snapshots, History, Policy, float], tuple[View, Plan, History]]
Offload = Callable[..., Awaitable[Any]]

log = structlog.get_logger(__name__)


class Hands(Protocol):
    """What the loop hands a plan to."""

    def take(self, plan: Plan, revision: int) -> None:
        """Replace the plan that is carried out."""
        ...


class Readers(Protocol):
    """What reads and asks for the next pass."""

    def follow(self, plan: Plan) -> None:
        """Read and ask what a plan wants."""
        ...


class Aims(Protocol):
    """What probes."""

    def aim(self, specs: tuple[ProbeSpec, ...]) -> None:
        """Replace what is probed."""
        ...


def unrecorded(_: Pass) -> None:
    """Keep nothing of a pass."""


class Loop:
    """Runs passes. offload: runs a function elsewhere and waits for it.

    record: takes every pass for the journal, at once.
    """

    def __init__(
        self,
        board: Board,
        clock: Clock,
        store: Writes,
        reconcile: Reconcile,
        *,
        policy: Callable[[], Policy],
        hands: Hands,
        readers: Readers,
        prober: Aims,
        offload: Offload = asyncio.to_thread,
        record: Callable[[Pass], None] = unrecorded,
    ) -> None:
        self._board = board
        self._clock = clock
        self._store = store
        self._reconcile = reconcile
        self._policy = policy
        self._hands = hands
        self._readers = readers
        self._prober = prober
        self._offload = offload
        self._record = record
        self._said: Mapping[str, Any] = {}
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Begin no more passes."""
        self._stopping.set()

    async def run(self) -> None:
        """Run a pass after every change, and on the slow tick, until stopped."""
        while not self._stopping.is_set():
            started = self._clock.monotonic()
            self._board.wake.clear()
            await self.once()
            took_s = self._clock.monotonic() - started
            rest_s = max(SHORTEST_GAP_S - took_s, min(took_s * RESTS, LONGEST_REST_S))
            await wait_for_any(self._clock, rest_s, self._stopping)
            await wait_for_any(self._clock, self._until_tick(), self._board.wake, self._stopping)

    async def once(self) -> None:
        """Run one pass and hand on what it came to."""
        board, now, started = self._board, self._clock.now(), self._clock.monotonic()
        revision, snapshots = board.revision, board.snapshots()
        remembered, policy = board.history, self._policy()
        try:
            view, plan, history = await self._offload(
                uncollected, self._reconcile, snapshots, remembered, policy, now
            )
        except Exception as error:
            self._failed(error, revision, now)
            return
        before = board.view()
        reported = board.reported(now)
        shown = evolve(view, sources=(*view.sources, *reported)) if reported else view
        board.conclude(Concluded(shown, plan, revision), history)
        self._record(Pass(now, snapshots, policy, remembered, view, plan, history))
        self._prober.aim(view.targets)
        self._readers.follow(plan)
        if not self._stopping.is_set():
            self._hands.take(plan, revision)
        await self._keep(before, view, now)
        self._log(view, plan, self._clock.monotonic() - started)

    def _until_tick(self) -> float:
        next_try = self._board.next_try()
        if next_try is None:
            return TICK_S
        return min(TICK_S, max(next_try - self._clock.now(), SHORTEST_GAP_S))

    def _failed(self, error: Exception, revision: int, now: float) -> None:
        places = "".join(traceback.format_tb(error.__traceback__))
        log.critical("pass failed", error=type(error).__name__, at=places)
        old = self._board.view() or View(at=now)
        since = next((item.since for item in old.items if item.id == FAILED), now)
        sentence = (
            f"llmao cannot work out what to do ({type(error).__name__}, its log has the place);"
            " what you see is older, and nothing is changed until it can."
        )
        item = AttentionItem(FAILED, ItemKind.SOURCE_TROUBLE, sentence, since=since, remedy=_REMEDY)
        others = tuple(each for each in old.items if each.id != FAILED)
        view = evolve(old, items=(item, *others))
        self._board.conclude(Concluded(view, Plan(), revision), self._board.history)
        self._hands.take(Plan(), revision)

    async def _keep(self, before: View | None, view: View, now: float) -> None:
        try:
            if changed := placements(self._board.placed, view.placed, now):
                await self._store.append(*changed)
                self._board.place(view.placed)
            if moved := transitions(before, view, now):
                await self._store.moved(moved)
        except Exception as error:
            self._board.counts.store_failures.inc()
            log_unexpected("store", error)

    def _log(self, view: View, plan: Plan, seconds: float) -> None:
        self._board.counts.passes.observe(seconds)
        said = summary(view, plan)
        say = log.info if said != self._said else log.debug
        self._said = said
        say("pass", **said, seconds=round(seconds, 3))


def uncollected(work: Callable[..., T], *args: Any) -> T:
    """Return what some work returns, done without the garbage collector.

    A pass makes no cycles, so the collector finds nothing in its hundred thousands of objects;
    it only makes the time of a pass grow faster than the fleet (tests/bench/bench_pass.py).
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return work(*args)
    finally:
        if collects:
            gc.enable()


def summary(view: View, plan: Plan) -> Mapping[str, Any]:
    """Return what one log line says of a pass."""
    unseen = (SourceState.UNREAD, SourceState.STALE)
    return {
        "records": len(view.records),
        "lifecycles": dict(Counter(record.lifecycle.value for record in view.records)),
        "rules": dict(Counter(action.rule for action in plan.actions)),
        "runs": sum(action.runs for action in plan.actions),
        "held": sum(action.hold is not Hold.NOT_HELD for action in plan.actions),
        "failed": sum(bool(record.write_trouble) for record in view.records),
        "items": len(view.items),
        "unseen": [source.name for source in view.sources if source.state in unseen],
    }


def transitions(before: View | None, view: View, now: float) -> tuple[Transition, ...]:
    """Return how lifecycles changed between two views; none after the first pass.

    A restart is no change: what was before it is not known.
    """
    if before is None:
        return ()
    old, new = _lifecycles(before.records), _lifecycles(view.records)
    moved = [key for key in old.keys() | new.keys() if old.get(key) != new.get(key)]
    return tuple(Transition(now, key, old.get(key, ""), new.get(key, "")) for key in sorted(moved))


def _lifecycles(records: Iterable[Record]) -> Mapping[Key, str]:
    return {record.key: record.lifecycle.value for record in records}
