"""The executor: carries out what the newest plan wants, one write at a time.

Rule of this file: it trusts no write. Each is told to the board when it begins and when it
ends; only the next read of the deployments confirms it. Between two writes it looks at the
newest plan, so that a removal never waits behind a queue of adds.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

import structlog
from attrs import evolve, frozen

from llmao_core.actions import ActionKind, Order, Outcome, OutcomeKind, Write
from llmao_core.hooks import FetchRequest
from llmao_core.plan import Action, Plan

from .board import Board
from .clock import Clock
from .host import Ended
from .leader import Lead
from .ledger import carried_out
from .store import Writes
from .unexpected import log_unexpected

FIRST_BACKOFF_S = 5.0
LONGEST_BACKOFF_S = 300.0
LONGEST_REMOVAL_BACKOFF_S = 20.0
PLAN_SERVES_S = 60.0

_ADDS = frozenset({ActionKind.ADD_LITELLM})
_UPDATES = frozenset({ActionKind.UPDATE_LITELLM, ActionKind.REPLACE_LITELLM})

log = structlog.get_logger(__name__)


class Executes(Protocol):
    """The part of the plugin host that carries out orders."""

    async def execute(self, order: Order, request: FetchRequest, now: float) -> Ended:
        """Carry out one order and say how it ended; never raises."""
        ...


@frozen
class _Taken:
    """A plan as it came. revision: of the board when its pass began; at: monotonic."""

    plan: Plan
    revision: int
    at: float


class Executor:
    """Runs the actions of the newest plan that run by themselves or were released.

    request: what an order is carried out with. lead: whether this process may write now.
    reread: called after a batch with the time at which the writes must show everywhere.
    begins: keeps that a reboot begins at a time; false when it must not.
    """

    def __init__(
        self,
        host: Executes,
        board: Board,
        store: Writes,
        clock: Clock,
        *,
        request: Callable[[Order], FetchRequest],
        reread: Callable[[float], None],
        poll_interval_s: Callable[[], float],
        lead: Lead,
        begins: Callable[[Action, float], Awaitable[bool]],
    ) -> None:
        self._host = host
        self._board = board
        self._store = store
        self._clock = clock
        self._request = request
        self._reread = reread
        self._poll_interval_s = poll_interval_s
        self._lead = lead
        self._begins = begins
        self._taken = _Taken(Plan(), 0, clock.monotonic())
        self._written: dict[str, int] = {}
        self._wake = asyncio.Event()
        self._stopping = False

    def take(self, plan: Plan, revision: int) -> None:
        """Replace the plan; `revision` is the board's when its pass began."""
        self._taken = _Taken(plan, revision, self._clock.monotonic())
        self._written = {target: at for target, at in self._written.items() if at > revision}
        self._wake.set()

    def stop(self) -> None:
        """Start no more writes; `run` returns when the one under way has ended."""
        self._stopping = True
        self._wake.set()

    async def run(self) -> None:
        """Carry out plans until stopped."""
        while not self._stopping:
            await self._wake.wait()
            self._wake.clear()
            await self.batch()

    async def batch(self) -> None:
        """Write until the newest plan wants nothing more, then have the deployments read."""
        wrote = False
        while (action := self._next()) is not None and await self._lead.begins(action.order):
            try:
                began = self._clock.now()
                # Reboots come last, so nothing waits behind one.
                if not await self._may_begin(action, began):
                    break
                await self._write(action, began)
            finally:
                await self._lead.ended()
            wrote = True
        if wrote:
            self._reread(self._clock.now() + self._poll_interval_s())

    async def _may_begin(self, action: Action, at: float) -> bool:
        # All else may be done twice; and no removal waits for a store.
        if action.kind is not ActionKind.REBOOT_BOX:
            return True
        return await self._begins(action, at) and self._lead.leads()

    def _next(self) -> Action | None:
        if self._stopping or not self._lead.leads():
            return None
        if self._clock.monotonic() - self._taken.at > PLAN_SERVES_S:
            return None
        due = [action for action in self._taken.plan.actions if action.runs and self._due(action)]
        return min(due, key=_precedence, default=None)

    def _due(self, action: Action) -> bool:
        target = action.order.target
        # A plan made before the last write to a row ended knows nothing of it.
        if self._written.get(target, 0) > self._taken.revision:
            return False
        last = self._board.last_try(action.key, action.kind)
        return last is None or last.next_try is None or last.next_try <= self._clock.now()

    async def _write(self, action: Action, began: float) -> None:
        order = action.order
        write = Write(action.kind, action.key, began, hash=_hash(order))
        if before := self._board.last_try(action.key, action.kind):
            write = evolve(write, failures=before.failures)
        self._board.wrote(order.target, write)
        ended = Ended(Outcome(OutcomeKind.UNKNOWN, "The write was cut short."))
        try:
            ended = await self._host.execute(order, self._request(order), began)
        finally:
            write = self._ended(write, ended)
            self._board.wrote(order.target, write)
            self._written[order.target] = self._board.revision
        _log(action, write)
        self._board.counts.acted(action.kind, ended.outcome.kind)
        await self._keep(action, began, ended.outcome)

    async def _keep(self, action: Action, began: float, outcome: Outcome) -> None:
        try:
            await self._store.append(carried_out(action, began, outcome))
        except Exception as error:
            # A full disk must not stop removals; the log has the action all the same.
            self._board.counts.store_failures.inc()
            log_unexpected("store", error)

    def _ended(self, write: Write, ended: Ended) -> Write:
        now = self._clock.now()
        if ended.outcome.good:
            return evolve(write, answered=now, outcome=ended.outcome, failures=0, next_try=None)
        failures = write.failures + 1
        wait_s = max(backoff_s(write.kind, failures), _asked(ended.retry_after_s, write.kind))
        return evolve(
            write, answered=now, outcome=ended.outcome, failures=failures, next_try=now + wait_s
        )


def backoff_s(kind: ActionKind, failures: int) -> float:
    """Return how long to wait after so many failures in a row of one kind on one key."""
    return min(FIRST_BACKOFF_S * 2.0 ** min(failures - 1, 16), _longest(kind))


def _longest(kind: ActionKind) -> float:
    return LONGEST_REMOVAL_BACKOFF_S if kind.removes else LONGEST_BACKOFF_S


def _asked(retry_after_s: float | None, kind: ActionKind) -> float:
    if retry_after_s is None or not retry_after_s > 0:
        return 0.0
    return min(retry_after_s, _longest(kind))


def _precedence(action: Action) -> int:
    if action.kind.removes:
        return 0
    if action.kind in _UPDATES:
        return 1
    return 2 if action.kind in _ADDS else 3


def _hash(order: Order) -> str:
    return str(order.body.model_info.get("llmao_hash", "")) if order.body else ""


def _log(action: Action, write: Write) -> None:
    assert write.outcome is not None
    say = log.info if write.outcome.good else log.warning
    say(
        "action",
        kind=action.kind.value,
        key=str(action.key),
        rule=action.rule,
        reason=action.reason,
        outcome=write.outcome.kind.value,
        said=write.outcome.said,
        failures=write.failures,
        actor=action.released_by or "llmao",
    )
