"""A clock that moves only when a test says so.

Rule of this file: deterministic. Sleepers wake in the order of their time, then of their
arrival, and chance is a fixed share of what is asked for.
"""

import asyncio
import heapq
import itertools
from collections.abc import Callable

_TURNS = 50


class VirtualClock:
    """Time by hand: implements the shell's Clock.

    start: epoch seconds. chance: the share of its argument that `jitter` returns, 0 to 1.
    """

    def __init__(self, start: float = 1_800_000_000.0, chance: float = 0.0) -> None:
        self._start = start
        self._now = start
        self._chance = chance
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def now(self) -> float:
        """Return the virtual time in epoch seconds."""
        return self._now

    def monotonic(self) -> float:
        """Return the virtual seconds since the clock was made."""
        return self._now - self._start

    def jitter(self, seconds: float) -> float:
        """Return the fixed share of `seconds`."""
        return seconds * self._chance

    async def sleep(self, seconds: float) -> None:
        """Return when the clock has been moved past so many seconds."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._order), future))
        await future

    async def settle(self) -> None:
        """Let everything that is ready run, without moving the clock."""
        for _ in range(_TURNS):
            await asyncio.sleep(0)

    async def advance(self, seconds: float) -> None:
        """Move the clock, waking each sleeper at its own time and letting it run."""
        end = self._now + seconds
        await self.settle()
        while (due := self._next_due()) is not None and due <= end:
            self._now = max(self._now, due)
            heapq.heappop(self._sleepers)[2].set_result(None)
            await self.settle()
        self._now = end
        await self.settle()

    async def until(self, condition: Callable[[], object], limit_s: float = 3600.0) -> float:
        """Move the clock from sleeper to sleeper until the condition holds; return the seconds.

        Raises AssertionError when it does not within `limit_s`, or when nobody sleeps any more.
        """
        began = self._now
        await self.settle()
        while not condition():
            due = self._next_due()
            assert due is not None, "nobody sleeps, and the condition does not hold"
            assert due - began <= limit_s, f"the condition does not hold within {limit_s} s"
            await self.advance(due - self._now)
        return self._now - began

    def _next_due(self) -> float | None:
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        return self._sleepers[0][0] if self._sleepers else None
