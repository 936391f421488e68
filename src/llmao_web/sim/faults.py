"""What may go wrong with a call, and when: windows of bad weather over each far end.

Rule of this file: it says what happens to a call and remembers when something last did; how a
fault looks on the wire is the wire's business.
"""

import enum
import math
from collections.abc import Mapping, Sequence
from random import Random  # noqa: TID251

from attrs import define, field


class Fault(enum.Enum):
    """What happens to one call. The value says what the caller sees."""

    NONE = "an answer"
    SLOW = "an answer, late"
    NOT_SENT = "no connection"
    LOST_BEFORE = "silence, and nothing was done"
    BROKEN_BEFORE = "a broken connection, and nothing was done"
    LOST_AFTER = "silence, and it was done"
    BROKEN_AFTER = "a broken connection, and it was done"
    UNAUTHORIZED = "401"
    NOT_FOUND = "404"
    BUSY = "429"
    FAILED = "500, and nothing was done"
    DONE_AND_FAILED = "500, and it was done"
    HTML = "200 and a web page"
    TRUNCATED = "200 and half of the JSON"
    HALF_PAGE = "200 and half of the rows"
    EMPTY = "200 and no rows"


class Far(enum.Enum):
    """The far ends of llmao's calls."""

    LITELLM = "litellm"
    VAST = "vast"
    RUNPOD = "runpod"
    BOXES = "boxes"


_ANY = tuple(each for each in Fault if each not in (Fault.NONE, Fault.HALF_PAGE, Fault.EMPTY))
# A gateway that refuses connections to boxes looks like boxes that refuse; that is no fault of
# the wire but a world in which llmao is told that they are down.
ON_PROBES = (
    Fault.SLOW, Fault.LOST_BEFORE, Fault.LOST_AFTER, Fault.BROKEN_BEFORE, Fault.UNAUTHORIZED,
    Fault.NOT_FOUND, Fault.BUSY, Fault.FAILED, Fault.HTML, Fault.TRUNCATED,
)  # fmt: skip
POSSIBLE: Mapping[Far, tuple[Fault, ...]] = {
    Far.LITELLM: (*_ANY, Fault.EMPTY),
    Far.VAST: (*_ANY, Fault.HALF_PAGE, Fault.EMPTY),
    Far.RUNPOD: (*_ANY, Fault.EMPTY),
    Far.BOXES: ON_PROBES,
}


@define
class Window:
    """Bad weather over one far end: each call has one of these faults at this rate."""

    far: Far
    until: float
    rate: float
    faults: Sequence[Fault]


@define
class Weather:
    """The weather of a world. clean_since: since when each far end has been without a fault.

    base_rate: of faults outside any window.
    """

    chance: Random
    base_rate: float = 0.0
    windows: list[Window] = field(factory=list)
    clean_since: dict[Far, float] = field(factory=lambda: dict.fromkeys(Far, 0.0))

    def draw(self, far: Far, now: float) -> Fault:
        """Return what happens to a call that begins now."""
        fault = self._draw(far, now)
        if fault is not Fault.NONE:
            self.mark(far, now)
        return fault

    def mark(self, far: Far, now: float) -> None:
        """Note that something went wrong, or that it has only now ended."""
        self.clean_since[far] = max(self.clean_since[far], now)

    def open(self, window: Window) -> None:
        """Let bad weather begin."""
        self.windows.append(window)

    def calm(self, now: float) -> None:
        """End all bad weather."""
        for window in self.windows:
            if window.until > now:
                self.mark(window.far, now)
        self.windows.clear()
        self.base_rate = 0.0

    def clean(self, far: Far, now: float) -> float:
        """Return since when a far end has been without a fault; infinity while there is one."""
        return math.inf if self._over(far, now) else self.clean_since[far]

    def _draw(self, far: Far, now: float) -> Fault:
        if window := self._over(far, now):
            if self.chance.random() < window.rate:
                return self.chance.choice(window.faults)
        elif self.base_rate and self.chance.random() < self.base_rate:
            return self.chance.choice(POSSIBLE[far])
        return Fault.NONE

    def _over(self, far: Far, now: float) -> Window | None:
        if not self.windows:
            return None
        for window in [one for one in self.windows if one.until <= now]:
            self.mark(window.far, window.until)
            self.windows.remove(window)
        return next((one for one in self.windows if one.far is far), None)
