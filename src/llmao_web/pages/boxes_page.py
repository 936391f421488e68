"""The page `/boxes`: everything rented or intended, grouped by provider, kept current.

Rule of this file: it puts what was matched into places on a page and adds up prices; what the
board has is gathered on the event loop, and the rest may run in a thread.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from attrs import frozen
from litestar import Response
from litestar.handlers import HTTPRouteHandler

from llmao_core.records import View
from llmao_web.desk import Clock, Desk, Office

from .boxes import NOWHERE, Box, Group, Known, box_of, called, groups_of, known_of
from .forms import AnyRequest
from .live import Live, Source
from .names import element
from .overview import lost
from .render import Renderer, page
from .sheet import Sheet

RELOAD_S = 15
NAME = "boxes"
RETIRED = "retired"
_RETIRED_SHOWN = 1000
_STILL_RENTED_SHOWN = 5


@frozen
class Section:
    """One provider's place on the page. rows: id of the body of its table."""

    id: str
    provider: str
    rows: str


@frozen
class Made:
    """The page of one moment; no sections and an empty sheet before the first pass."""

    view: View | None
    sheet: Sheet
    sections: tuple[Section, ...] = ()


class BoxesPages:
    """Makes the page with and without retired hosts."""

    def __init__(
        self, desk: Desk, office: Office, clock: Clock, renderer: Renderer, fleet: str
    ) -> None:
        self._desk = desk
        self._office = office
        self._clock = clock
        self._fleet = fleet
        self._parts = renderer.macros("boxes_parts.html.j2")
        self._followed: dict[str, Made] = {}

    def sources(self) -> dict[str, Source]:
        """Return how the script of the page follows it."""
        return {NAME: Source(self._follow)}

    async def _follow(self, which: str) -> Sheet:
        """Return the sheet, made once per pass for everybody who looks."""
        before = self._followed.get(which)
        if before is None or before.view is not self._desk.view():
            before = await self.made(retired=which == RETIRED)
        return before.sheet

    async def made(self, *, retired: bool) -> Made:
        """Return the page as it is now."""
        view = self._desk.view()
        known = await known_of(self._desk, self._office, self._clock, self._fleet)
        if known is None:
            return Made(view, Sheet({}))
        made = await asyncio.to_thread(self._make, known, view, retired=retired)
        # Who looks sees what was pressed at once; no listener may take that back.
        self._followed[RETIRED if retired else ""] = made
        return made

    def _make(self, known: Known, view: View | None, *, retired: bool) -> Made:
        groups = _groups(known, retired=retired)
        parts = {"boxes-tiles": str(self._parts.tiles(_told(known, groups, retired=retired)))}
        lists: dict[str, tuple[str, ...]] = {}
        sections = []
        for group in groups:
            head = element("g", group.provider)
            rows = f"{head}-rows"
            parts[head] = str(self._parts.head(head, group))
            lines = {_row_id(box): box for box in group.shown}
            parts |= {name: str(self._parts.row(name, box)) for name, box in lines.items()}
            lists[rows] = tuple(lines)
            sections.append(Section(head, group.provider, rows))
        if retired:
            parts["boxes-gone"] = str(self._parts.gone(_gone(known)))
        return Made(view, Sheet(parts, lists), tuple(sections))


def boxes_page(pages: BoxesPages, live: Live, renderer: Renderer) -> HTTPRouteHandler:
    """Return the handler of `/boxes`."""

    @page("/boxes")
    async def boxes(request: AnyRequest) -> Response[str]:
        retired = request.query_params.get("retired") == "1"
        made = await pages.made(retired=retired)
        followed = f"{NAME}:{RETIRED if retired else ''}"
        context = {
            "ready": bool(made.sheet.parts),
            "sheet": made.sheet,
            "sections": made.sections,
            "nowhere": NOWHERE,
            "retired": retired,
            "reload_s": RELOAD_S,
            "live": live.address(followed, made.sheet),
        }
        return await asyncio.to_thread(
            lambda: renderer.page("boxes.html.j2", context, request=request)
        )

    return boxes


def _groups(known: Known, *, retired: bool) -> list[Group]:
    groups = list(groups_of(known).values())
    for group in groups:
        group.boxes.sort(key=lambda box: (box.retired and not retired, box.name))
        group.hidden = 0 if retired else sum(box.retired for box in group.boxes)
    return groups


def _row_id(box: Box) -> str:
    return element("b", f"{box.provider} {box.instance.id if box.instance else ''} {box.name}")


def _told(known: Known, groups: Sequence[Group], *, retired: bool) -> dict[str, Any]:
    """Return what the top of the page adds up."""
    boxes = [box for group in groups for box in group.boxes]
    still_rented = [box for box in boxes if box.still_rented]
    return {
        "still_rented": still_rented[:_STILL_RENTED_SHOWN],
        "more_rented": len(still_rented[_STILL_RENTED_SHOWN:]),
        "retired": retired,
        "hidden": sum(group.hidden for group in groups),
        "trouble": known.trouble,
        "alive": sum(group.alive for group in groups),
        "rented": sum(group.rented for group in groups),
        "cost": sum(group.cost for group in groups),
        "unpriced": sum(group.unpriced for group in groups),
        "lost": lost(known.view),
        "deployments": sum(len(box.served) for box in boxes),
        "unmatched": sum(box.nobodys for box in boxes),
        "any": bool(boxes),
        "listing": any(group.state for group in groups),
        "any_retired": bool(known.intended.labels.retired_hosts),
    }


def _gone(known: Known) -> list[Box]:
    """Return the retired hosts that nothing else on the page shows."""
    shown = {each.name for each in known.view.hosts} | called(known.listings)
    hosts = sorted(known.intended.labels.retired_hosts - shown)
    return [box_of(known, {}, host, NOWHERE) for host in hosts[:_RETIRED_SHOWN]]
