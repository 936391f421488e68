"""LiteLLM's own checks: the free read, and second opinions beside it.

Rule of this file: what was asked is told at once, what is answered is merged, newest check
first; a question that nobody answers leaves its mark and nothing else.
"""

import asyncio
import math
from collections.abc import Coroutine, Iterable
from typing import Any

import structlog
from attrs import evolve

from llmao_core.snapshots import Asked, Health, Opinion, Snapshot

from .board import Board
from .clock import Clock
from .host import Failure, PluginHost
from .runners import Runner
from .sources import Source
from .unexpected import log_unexpected

ASK_DEADLINE_S = 125.0
ASK_TIMEOUT_S = 120.0
ASKED_AGAIN_S = 30.0
# A question about a hung server takes LiteLLM `health_check_timeout`, 10 s, and boxes of one
# provider hang together; fewer than the plugin host's connections.
ASKS_AT_ONCE = 64
ASKED_KEPT_S = 3600.0
OPINION_COUNTS_S = 7200.0
OPINIONS_KEPT = 20_000

log = structlog.get_logger(__name__)


class HealthRunner(Runner):
    """Reads LiteLLM's own checks, and asks for a second opinion beside that.

    A question takes up to two minutes; each runs by itself, so that the free read goes on.
    paid_interval_s: between checks of everything, which cost tokens; 0 means never.
    """

    def __init__(
        self,
        source: Source,
        host: PluginHost,
        board: Board,
        clock: Clock,
        *,
        fleet: str,
        paid_interval_s: float,
    ) -> None:
        super().__init__(source, host, board, clock)
        self._fleet = fleet
        self._paid_interval_s = paid_interval_s
        self._paid_at = -math.inf
        self._asked: dict[str, Asked] = {}
        self._slots = asyncio.Semaphore(ASKS_AT_ONCE)
        self._beside: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Read for ever, with the questions beside."""
        async with asyncio.TaskGroup() as group:
            self._beside = group
            await super().run()

    def ask(self, ids: Iterable[str]) -> None:
        """Have LiteLLM check these ids now; one that is being asked is not asked twice."""
        now = self._clock.now()
        due = [each for each in ids if _may_ask(self._asked.get(each), now)]
        if not due or self._beside is None:
            return
        self._asked |= {each: Asked(now) for each in due}
        self._tell()
        for each in due:
            self._beside.create_task(self._guarded(self.ask_one(each)))

    async def ask_one(self, litellm_id: str) -> None:
        """Have LiteLLM check one id, and merge what it says."""
        async with self._slots:
            now = self._clock.now()
            self._asked[litellm_id] = Asked(now)
            request = evolve(self.source.request, ask=(litellm_id,), timeout_s=ASK_TIMEOUT_S)
            result = await self._fetch(request, now, ASK_DEADLINE_S)
            self._asked[litellm_id] = Asked(now, self._clock.now())
            self._heard(result, "no second opinion")

    async def check_all(self) -> None:
        """Have LiteLLM check everything, which costs tokens, and merge what it says."""
        now = self._paid_at = self._clock.now()
        request = evolve(self.source.request, paid=True, timeout_s=ASK_TIMEOUT_S)
        self._heard(await self._fetch(request, now, ASK_DEADLINE_S), "no check of everything")

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:
            log_unexpected(self.source.name, error)

    def _heard(self, result: Snapshot[Any] | Failure, otherwise: str) -> None:
        if isinstance(result, Failure):
            log.warning(otherwise, source=self.source.name, said=result.trouble.message)
            self._tell()
        else:
            known = self._board.health().snapshot
            body = self._merged(result.body)
            # An answer to a question proves no read of all: what was read when stays as it is.
            self._board.amend(self.source.name, evolve(known or result, body=body))

    def _accept(self, snapshot: Snapshot[Any]) -> None:
        super()._accept(evolve(snapshot, body=self._merged(snapshot.body)))
        if self._beside and self._paid_due(snapshot.taken_at):
            self._beside.create_task(self._guarded(self.check_all()))

    def _tell(self) -> None:
        known = self._board.health().snapshot
        if known:
            self._board.amend(self.source.name, evolve(known, body=self._merged(Health())))

    def _merged(self, news: Health) -> Health:
        now = self._clock.now()
        known = self._board.health().snapshot
        opinions = dict(known.body.opinions) if known else {}
        for each, opinion in news.opinions.items():
            # A check of the future is a clock that runs ahead; it must not outlive later ones.
            checked_at = min(opinion.checked_at, now)
            if each not in opinions or checked_at >= opinions[each].checked_at:
                opinions[each] = evolve(opinion, checked_at=checked_at)
        self._asked = {
            each: asked
            for each, asked in self._asked.items()
            if asked.answered_at is None or now - asked.asked_at < ASKED_KEPT_S
        }
        return Health(_bounded(opinions, self._ids()), dict(self._asked))

    def _ids(self) -> frozenset[str] | None:
        snapshot = self._board.deployments().snapshot
        return frozenset(row.id for row in snapshot.body.rows) if snapshot else None

    def _paid_due(self, now: float) -> bool:
        deployments, health = self._board.deployments().snapshot, self._board.health().snapshot
        if not self._paid_interval_s or not deployments or not health:
            return False
        if now - self._paid_at < self._paid_interval_s:
            return False
        opinions = health.body.opinions
        return any(
            row.fleet == self._fleet
            and (row.id not in opinions or now - opinions[row.id].checked_at > OPINION_COUNTS_S)
            for row in deployments.body.rows
        )


def _may_ask(asked: Asked | None, now: float) -> bool:
    if asked is None:
        return True
    return asked.answered_at is not None and now - asked.asked_at >= ASKED_AGAIN_S


def _bounded(opinions: dict[str, Opinion], rows: frozenset[str] | None) -> dict[str, Opinion]:
    if rows is not None:
        return {each: opinion for each, opinion in opinions.items() if each in rows}
    if len(opinions) <= OPINIONS_KEPT:
        return opinions
    newest = sorted(opinions, key=lambda each: opinions[each].checked_at, reverse=True)
    return {each: opinions[each] for each in newest[:OPINIONS_KEPT]}
