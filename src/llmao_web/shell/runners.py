"""Runners: one task per source that reads it again and again.

Rule of this file: a runner never dies and never waits for another. A failed read leaves the
last good snapshot where it is and is tried again, later each time.
"""

import asyncio
import math
from typing import Any

import structlog
from attrs import evolve

from llmao_core.errors import Trouble
from llmao_core.hooks import FetchRequest
from llmao_core.snapshots import Snapshot

from .board import Board
from .clock import Clock, wait_for_any
from .host import FETCH_DEADLINE_S, Failure, PluginHost
from .sources import Source
from .unexpected import log_unexpected

FIRST_BACKOFF_S = 2.0
LONGEST_RETRY_AFTER_S = 3600.0
SHORTEST_GAP_S = 1.0
# Reads out of turn take at most a fifth of the time: a long list costs LiteLLM and llmao a second.
RESTS = 4.0

log = structlog.get_logger(__name__)


class Runner:
    """Reads one source at its interval, and sooner when somebody wishes so.

    All waiting is by the monotonic clock, so that a machine whose time is set back goes on
    reading; wishes are given in epoch seconds, as reconcile gives them.
    """

    def __init__(self, source: Source, host: PluginHost, board: Board, clock: Clock) -> None:
        self.source = source
        self._host = host
        self._board = board
        self._clock = clock
        self._nudge = asyncio.Event()
        self._began = -math.inf
        self._next = -math.inf
        self._not_before = -math.inf
        self._gap_until = -math.inf
        self._rest_until = -math.inf
        self._wish: float | None = None
        self._appointments: list[float] = []

    async def run(self) -> None:
        """Read for ever."""
        while True:
            await self._wait()
            try:
                await self.read()
            except Exception as error:
                log_unexpected(self.source.name, error)
                self._next = self._clock.monotonic() + self.source.interval_s

    def wish(self, at: float | None) -> None:
        """Read once at `at`, the past meaning soon; replaces the wish before.

        A read that began after `at` has granted it. Wishes alone never make reads follow each
        other faster than one a second.
        """
        before, self._wish = self._wish, at if at is not None and at > self._began else None
        if before is not None or self._wish is not None:
            self._nudge.set()

    def appoint(self, at: float) -> None:
        """Read once at `at`, whatever else is wished.

        Later only by a backoff, or by the rest that a long read is followed by.
        """
        if at >= self._began:
            self._appointments.append(at)
            self._nudge.set()

    async def read(self) -> bool:
        """Read once, publish or note the trouble, and set the time of the next; tell which."""
        now, started = self._clock.now(), self._clock.monotonic()
        self._began = now
        self._appointments = [at for at in self._appointments if at > now]
        if self._wish is not None and self._wish <= now:
            self._wish = None
        result = await self._fetch(self._request(), now)
        if isinstance(result, Failure):
            self._missed(result)
            return False
        self._accept(result)
        interval_s = self.source.interval_s
        later = started + interval_s + self._clock.jitter(interval_s / 10)
        ended = self._clock.monotonic()
        self._rest_until = ended + RESTS * (ended - started)
        self._gap_until = max(ended + SHORTEST_GAP_S, self._rest_until)
        self._next = max(later, self._gap_until)
        self._not_before = -math.inf
        return True

    async def _fetch(
        self, request: FetchRequest, now: float, deadline_s: float = FETCH_DEADLINE_S
    ) -> Snapshot[Any] | Failure:
        try:
            return await self._host.fetch(self.source.name, request, now, deadline_s)
        except Exception as error:
            log_unexpected(self.source.name, error)
            what = f"llmao itself failed with {type(error).__name__}; the log has the place."
            return Failure(Trouble("FetchError", what, now))

    def _request(self) -> FetchRequest:
        return self.source.request

    def _accept(self, snapshot: Snapshot[Any]) -> None:
        self._board.publish(self.source.name, snapshot)

    def _missed(self, failure: Failure) -> None:
        trouble = self._board.miss(self.source.name, failure.trouble)
        wait_s = min(FIRST_BACKOFF_S * 2 ** min(trouble.count - 1, 16), self.source.interval_s)
        wait_s = max(wait_s + self._clock.jitter(wait_s / 10), _bounded(failure.retry_after_s))
        self._next = self._not_before = self._clock.monotonic() + wait_s
        log.warning(
            "source not read",
            source=self.source.name,
            kind=trouble.kind,
            said=trouble.message,
            failures=trouble.count,
            again_in_s=round(wait_s, 1),
        )

    async def _wait(self) -> None:
        while (seconds := self._due() - self._clock.monotonic()) > 0:
            self._nudge.clear()
            await wait_for_any(self._clock, seconds, self._nudge)

    def _due(self) -> float:
        appointed = (max(self._monotonic(at), self._rest_until) for at in self._appointments)
        times = [self._next, *appointed]
        if self._wish is not None:
            times.append(max(self._monotonic(self._wish), self._gap_until))
        return max(self._not_before, min(times))

    def _monotonic(self, at: float) -> float:
        return self._clock.monotonic() + at - self._clock.now()


class DeploymentsRunner(Runner):
    """Reads the LiteLLM deployments, and looks up what a list may not show yet.

    The first good read after a failed one forgives every row its failed writes.
    """

    def __init__(
        self,
        source: Source,
        host: PluginHost,
        board: Board,
        clock: Clock,
        poll_interval_s: float,
    ) -> None:
        super().__init__(source, host, board, clock)
        self._poll_interval_s = poll_interval_s

    def _request(self) -> FetchRequest:
        return evolve(self.source.request, look_up=self._board.pending(self._poll_interval_s))

    def _accept(self, snapshot: Snapshot[Any]) -> None:
        if self._board.reading(self.source.name).trouble:
            self._board.forgive()
        super()._accept(snapshot)


def _bounded(retry_after_s: float | None) -> float:
    if retry_after_s is None or not retry_after_s > 0:
        return 0.0
    return min(retry_after_s, LONGEST_RETRY_AFTER_S)
