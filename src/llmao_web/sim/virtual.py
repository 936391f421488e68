"""Virtual time: an event loop that jumps to its next timer, a clock on it, and seeded chance.

Rule of this file: nothing waits and nothing is random. Two runs of one seed are the same, event
for event, because there is one thread, one loop and one order of everything.
"""

import asyncio
from collections.abc import Coroutine
from random import Random  # noqa: TID251  seeded, so that a run is run again
from typing import Any, TypeVar

from llmao_web.shell.clock import Steady

START_S = 1_800_000_000.0
# Sleeps that are shorter than a float can tell would be repeated for ever.
SHORTEST_S = 1e-6

T = TypeVar("T")


class _Jump:
    """Stands where a loop has its selector: no file is watched, and time moves instead."""

    def __init__(self, loop: "VirtualLoop") -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        """Move time to the next timer."""
        if timeout is None:
            raise RuntimeError("everything waits for something that never comes")
        self._loop.seconds += timeout
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop without a second of waiting. seconds: virtual, since it was made."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0
        self._selector = _Jump(self)
        self._clock_resolution = 1e-9

    def time(self) -> float:
        """Return the virtual seconds."""
        return self.seconds

    def _process_events(self, event_list: list[Any]) -> None:
        """Do nothing: there are no files."""

    def _write_to_self(self) -> None:
        """Do nothing: there is one thread."""


class SimClock:
    """The clock of one machine: implements the shell's Clock.

    offset_s: how far the machine's time is ahead of true time. frozen: the machine stands still.
    stood_still_at: when its monotonic clock last did not go on while it was frozen.
    """

    def __init__(self, loop: VirtualLoop, chance: Random) -> None:
        self.offset_s = 0.0
        self.frozen = False
        self.stood_still_at = -1.0
        self._thawed = asyncio.Event()
        self._paused_at: float | None = None
        self._paused_s = 0.0
        self._loop = loop
        self._chance = chance
        self._steady = Steady(self._wall, self.monotonic)

    def _wall(self) -> float:
        return START_S + self._loop.seconds + self.offset_s

    @property
    def slow(self) -> bool:
        """Tell whether it runs at half speed, because the machine's time was set back."""
        return self._steady.now() > self._wall()

    def now(self) -> float:
        """Return this machine's time in epoch seconds, as the shell's own clock gives it."""
        return self._steady.now()

    def monotonic(self) -> float:
        """Return the virtual seconds since the world began, but for those it stood still."""
        now = self._loop.seconds if self._paused_at is None else self._paused_at
        return now - self._paused_s

    async def sleep(self, seconds: float) -> None:
        """Return after so many virtual seconds."""
        await asyncio.sleep(max(seconds, SHORTEST_S) if seconds > 0 else 0.0)
        await self.going()

    def freeze(self, *, stands_still: bool) -> None:
        """Let the machine do nothing any more. stands_still: nor does its monotonic clock go on."""
        self.thaw()
        self.frozen = True
        if stands_still:
            self._paused_at = self.stood_still_at = self._loop.seconds

    def thaw(self) -> None:
        """Let the machine go on."""
        if self._paused_at is not None:
            self._paused_s += self._loop.seconds - self._paused_at
            self._paused_at, self.stood_still_at = None, self._loop.seconds
        self.frozen = False
        self._thawed.set()
        self._thawed = asyncio.Event()

    async def going(self) -> None:
        """Return when the machine is not frozen."""
        while self.frozen:
            await self._thawed.wait()

    def jitter(self, seconds: float) -> float:
        """Return a seeded duration from 0 to `seconds`."""
        return self._chance.uniform(0.0, seconds)


def dice(seed: int, purpose: str) -> Random:
    """Return the dice for one purpose; more throws of one purpose change no other's."""
    return Random(f"{seed} {purpose}")  # noqa: S311


def play(work: Coroutine[Any, Any, T], loop: VirtualLoop) -> T:
    """Run some work to its end on virtual time, and end what it left behind."""
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(work)
