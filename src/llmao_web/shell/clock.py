"""The time and chance, as things that are handed in.

Rule of this file: the only place that asks what time it is or rolls dice; everything else is
given a Clock, so that tests and the simulation own time.
"""

import asyncio
import random  # noqa: TID251
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol


class Clock(Protocol):
    """What tells the time, waits, and has chance."""

    def now(self) -> float:
        """Return the time in epoch seconds."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back, for durations."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds; at once, but not before others ran, for 0 and less."""
        ...

    def jitter(self, seconds: float) -> float:
        """Return a random duration from 0 to `seconds`."""
        ...


class Steady:
    """A time that follows another and never goes back.

    Where the other is set back, it runs at half speed until the two meet: what was seen keeps its
    order, and nothing waits until the time of the past comes again. wall: epoch seconds.
    """

    def __init__(self, wall: Callable[[], float], monotonic: Callable[[], float]) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._ahead_s = 0.0
        self._last = wall(), monotonic()

    def now(self) -> float:
        """Return epoch seconds."""
        wall, at = self._wall(), self._monotonic()
        before, last = self._last
        # The lead alone is kept: epoch seconds are too coarse to add what passes between two calls.
        self._ahead_s = max(self._ahead_s + (before - wall) + (at - last) / 2, 0.0)
        self._last = wall, at
        return wall + self._ahead_s


class SystemClock:
    """The machine's own clock and chance."""

    def __init__(self) -> None:
        self._steady = Steady(time.time, time.monotonic)  # noqa: TID251

    def now(self) -> float:
        """Return the machine's time in epoch seconds; it never goes back."""
        return self._steady.now()

    def monotonic(self) -> float:
        """Return the machine's monotonic seconds."""
        return time.monotonic()  # noqa: TID251

    async def sleep(self, seconds: float) -> None:
        """Sleep on the event loop."""
        await asyncio.sleep(max(seconds, 0.0))

    def jitter(self, seconds: float) -> float:
        """Return a random duration from 0 to `seconds`."""
        return random.uniform(0.0, seconds)  # noqa: S311


@asynccontextmanager
async def deadline(clock: Clock, seconds: float) -> AsyncIterator[None]:
    """Cancel the body after `seconds` of this clock and raise TimeoutError in its place."""
    async with asyncio.timeout(None) as timeout:
        watcher = asyncio.create_task(_expire(clock, seconds, timeout))
        try:
            yield
        finally:
            watcher.cancel()


async def _expire(clock: Clock, seconds: float, timeout: asyncio.Timeout) -> None:  # noqa: ASYNC109
    await clock.sleep(seconds)
    timeout.reschedule(asyncio.get_running_loop().time())


async def wait_for_any(clock: Clock, seconds: float, *events: asyncio.Event) -> None:
    """Return when one of the events is set, or after `seconds`; clears nothing."""
    if seconds <= 0 or any(event.is_set() for event in events):
        await asyncio.sleep(0)
        return
    if not events:
        await clock.sleep(seconds)
        return
    waits: list[asyncio.Task[Any]] = [
        asyncio.create_task(clock.sleep(seconds)),
        *(asyncio.create_task(event.wait()) for event in events),
    ]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
