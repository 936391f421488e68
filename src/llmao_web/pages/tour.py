"""The line at the top of each page of the demo: what happens now, and where to look.

Rule of this file: without a tour no page differs by a byte. With one, every page has the line, and
one that nothing else keeps current is kept current for the line's sake.
"""

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from attrs import evolve, frozen
from markupsafe import Markup

from .live import Live, Source
from .render import Renderer
from .sheet import Sheet

NAME = "tour"
_SHEETS_KEPT = 32
_NOTHING = Sheet({})


@frozen
class Line:
    """One thing that happens, one or two sentences. places: address and name of where to look."""

    said: str
    places: tuple[tuple[str, str], ...] = ()


@frozen
class Step:
    """What happens now: a line for each thing."""

    lines: tuple[Line, ...]


class Tour:
    """The step that is shown, replaced by whoever tells the story."""

    def __init__(self, first: Step) -> None:
        self.step = first

    def show(self, step: Step) -> None:
        """Go on to another step."""
        self.step = step


class Guide:
    """Puts the tour on pages, and into what is sent to open ones."""

    def __init__(self, tour: Tour, renderer: Renderer, live: Live) -> None:
        self._tour = tour
        self._renderer = renderer
        self._live = live
        self._sheets: OrderedDict[tuple[int, Step], tuple[Sheet, Sheet]] = OrderedDict()
        # Pages are made in threads.
        self._lock = threading.Lock()
        live.sources[NAME] = Source(self._alone, admin=False)
        live.complete = self.on
        renderer.guide = self.frame

    def frame(self) -> Mapping[str, Any]:
        """Return what a page needs to show the line and to follow it."""
        return {"tour": self._part(self._tour.step), "live": self._live.address(NAME, _NOTHING)}

    def on(self, sheet: Sheet) -> Sheet:
        """Return a sheet with the line; the same one for as long as neither changes."""
        step = self._tour.step
        with self._lock:
            known = self._sheets.get((id(sheet), step))
            if known is not None and known[0] is sheet:
                return known[1]
            made = evolve(sheet, parts={**sheet.parts, NAME: str(self._part(step))})
            self._sheets[id(sheet), step] = (sheet, made)
            if len(self._sheets) > _SHEETS_KEPT:
                self._sheets.popitem(last=False)
            return made

    def _part(self, step: Step) -> Markup:
        return self._renderer.part("tour.html.j2", {"step": step})

    @staticmethod
    async def _alone(_: str) -> Sheet:
        return _NOTHING
