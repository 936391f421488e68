"""The page of one deployment: its lifecycle and why, its history, how busy it was.

Rule of this file: the record is the newest pass's, the history is the store's; when the store
cannot be read the page says so and shows the rest. No URL of a box is shown.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from attrs import frozen
from litestar import Request, Response
from litestar.exceptions import NotFoundException
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath

from llmao_core.errors import LlmaoError
from llmao_core.keys import Key
from llmao_core.plan import Action
from llmao_core.records import AttentionItem, HostView, ItemKind, Kind, Record, View
from llmao_web.desk import Clock, Desk, Records
from llmao_web.shell.ledger import Numbered
from llmao_web.shell.store import Sample, Transition, Wanted

from .charts import HEIGHT, WIDTH, begin, charts, table
from .gone import Gone, GonePages
from .kept_out import kept_out
from .lines import drain_buttons, port_of
from .live import Live, Source
from .names import fetch_tone, page_id
from .probes import none_because, probe_lines
from .render import Renderer, page
from .sheet import Sheet
from .timeline import SHOWN, timeline
from .warnings import serving
from .work import Button, releasable, run_button

RELOAD_S = 15
HOURS: Mapping[int, str] = {1: "1 h", 6: "6 h", 24: "24 h", 168: "7 d"}
USUAL_HOURS = 6
NAME = "deployment"
CHECK = "/do-check"
_HOUR_S = 3600.0
# What was asked for and is missing by less is a sample, and no reason for a word.
_SHORT_S = 120.0


@frozen
class Kept:
    """What the store has of one key. trouble: why it could not be read, "" when it could."""

    transitions: tuple[Transition, ...] = ()
    entries: tuple[Numbered, ...] = ()
    samples: tuple[Sample, ...] = ()
    trouble: str = ""


class DeploymentPages:
    """Makes the page of any deployment of the newest pass, and of those that are gone."""

    def __init__(
        self, desk: Desk, records: Records, clock: Clock, renderer: Renderer, fleet: str
    ) -> None:
        self._desk = desk
        self._records = records
        self._clock = clock
        self._fleet = fleet
        self._parts = renderer.macros("deployment_parts.html.j2")
        self._gone = GonePages(records, renderer, fleet)
        self._found: tuple[View | None, dict[str, Record]] = (None, {})
        self._sheets: dict[str, tuple[View, Sheet]] = {}

    def record(self, name: str) -> Record | None:
        """Return the record with this id; None when the newest pass has none."""
        view = self._desk.view()
        if self._found[0] is not view:
            records = view.records if view else ()
            self._found = view, {page_id(self._fleet, one.key): one for one in records}
        return self._found[1].get(name)

    async def gone(self, name: str) -> Gone | None:
        """Return what is kept of a deployment that has no record; None for nothing."""
        return await self._gone.made(name, passed=self._desk.view() is not None)

    def sources(self) -> dict[str, Source]:
        """Return how the script of these pages follows them."""
        return {NAME: Source(self._follow)}

    async def _follow(self, rest: str) -> Sheet:
        """Return the sheet for `ID:HOURS`, of another make for one that is gone: read anew."""
        name, _, hours = rest.partition(":")
        record = self.record(name)
        if record is None:
            return await self._gone.follow(name, self._desk.view())
        chosen = int(hours) if hours.isdecimal() and int(hours) in HOURS else USUAL_HOURS
        return await self.sheet(name, record, chosen)

    async def sheet(self, name: str, record: Record, hours: int) -> Sheet:
        """Return what changes on a page, made once per pass for everybody who looks."""
        view, which = self._desk.view(), f"{name}:{hours}"
        before = self._sheets.get(which)
        if before is None or before[0] is not view or view is None:
            made = await self._make(record, hours)
            if view is not None:
                kept = {each: one for each, one in self._sheets.items() if one[0] is view}
                self._sheets = {**kept, which: (view, made)}
            return made
        return before[1]

    async def _make(self, record: Record, hours: int) -> Sheet:
        now = self._clock.now()
        asked = now - hours * _HOUR_S
        kept = await self._kept(record, asked)
        since = begin(kept.samples, asked, now)
        parts = {
            "head": self._head(record, now),
            "why": self._why(record, kept),
            "capacity": self._parts.capacity(
                charts(kept.samples, since, now),
                table(kept.samples, since, now),
                (since, now, since - asked > _SHORT_S),
                (WIDTH, HEIGHT),
                kept.trouble,
            ),
        }
        probes = probe_lines(self._desk, record)
        why_none = "" if probes else none_because(record)
        parts["probes-head"] = self._parts.probes_head(why_none)
        parts |= {each.id: self._parts.probe(each) for each in probes}
        moments = timeline(kept.transitions, kept.entries)
        parts["timeline-head"] = self._parts.timeline_head(len(moments), kept.trouble)
        parts |= {each.id: self._parts.moment(each) for each in moments}
        lists = {
            "probes": tuple(each.id for each in probes),
            "timeline": tuple(each.id for each in moments),
        }
        return Sheet({name: str(html) for name, html in parts.items()}, lists)

    async def _kept(self, record: Record, since: float) -> Kept:
        key = record.key
        try:
            transitions, of_key, of_host, samples = await asyncio.gather(
                self._records.transitions(key, SHOWN),
                self._records.entries(Wanted(key=key, limit=SHOWN)),
                self._of_host(record),
                self._records.capacity(key, since),
            )
        except LlmaoError as error:
            return Kept(trouble=str(error))
        return Kept(tuple(transitions), (*of_key, *of_host), tuple(samples))

    async def _of_host(self, record: Record) -> tuple[Numbered, ...]:
        if not record.host:
            return ()
        return tuple(await self._records.entries(Wanted(host=record.host, limit=SHOWN)))

    def _head(self, record: Record, now: float) -> Any:
        view = self._desk.view()
        host = next((one for one in view.hosts if one.name == record.host), None) if view else None
        return self._parts.head(
            record,
            host,
            port_of(record.dialable),
            fetch_tone(host.last_fetch if host else None, now),
            (*self._drain_buttons(record, host), *self._check_button(record)),
            self._adding(record),
        )

    def _adding(self, record: Record) -> bool:
        """Tell whether the timeline may know already of a row that this pass had not read yet."""
        action = self._action(record.key)
        return record.row is None and action is not None and action.runs and action.kind.writes

    def _drain_buttons(self, record: Record, host: HostView | None) -> tuple[Button, ...]:
        view = self._desk.view()
        return drain_buttons(self._fleet, record, host, serving(view.records if view else ()))

    def _check_button(self, record: Record) -> tuple[Button, ...]:
        if record.row is None:
            return ()
        name = page_id(self._fleet, record.key)
        return (Button("Let LiteLLM check it now (costs tokens)", CHECK, {"id": name}),)

    def _why(self, record: Record, kept: Kept) -> Any:
        action = self._action(record.key)
        held = action is not None and releasable(action) and not record.reached
        button = run_button(action) if action and held else None
        intended = self._desk.intended()
        out = kept_out(record, intended.labels, kept.entries) if intended else None
        return self._parts.why(record, out, self._items(record), action, button, _facts(record))

    def _items(self, record: Record) -> tuple[AttentionItem, ...]:
        """Return what is to be done about it, be it the trouble of many."""
        view = self._desk.view()
        return tuple(
            each
            for each in (view.items if view else ())
            if each.key == record.key or (record.reached and each.kind is ItemKind.CANNOT_REACH)
        )

    def _action(self, key: Key) -> Action | None:
        plan = self._desk.plan()
        return next((each for each in plan.actions if each.key == key), None) if plan else None


def deployment_page(pages: DeploymentPages, live: Live, renderer: Renderer) -> HTTPRouteHandler:
    """Return the handler of `/deployments/ID`, for admins."""

    @page("/deployments/{name:str}")
    async def deployment(name: FromPath[str], request: Request[Any, Any, Any]) -> Response[str]:
        record = pages.record(name)
        if record is None:
            kept = await pages.gone(name)
            if kept is None:
                raise NotFoundException
            address = live.address(f"{NAME}:{name}:", kept.sheet)
            context = {"key": kept.key, "sheet": kept.sheet, "live": address}
            return renderer.page("gone.html.j2", {**context, "reload_s": RELOAD_S}, request=request)
        asked = request.query_params.get("hours", "")
        hours = int(asked) if asked.isdecimal() and int(asked) in HOURS else USUAL_HOURS
        sheet = await pages.sheet(name, record, hours)
        context = {
            "record": record,
            "sheet": sheet,
            "hours": hours,
            "choices": HOURS,
            "box": record.kind is not Kind.COMMERCIAL,
            "reload_s": RELOAD_S,
            "live": live.address(f"{NAME}:{name}:{hours}", sheet),
        }
        return renderer.page("deployment.html.j2", context, request=request)

    return deployment


def _facts(record: Record) -> tuple[tuple[str, str], ...]:
    """Return what the newest decision rests on, as pairs of name and word."""
    row = record.row
    facts = (
        ("Rule", record.rule),
        ("Kind", record.kind.value),
        ("Evidence", "fresh" if record.fresh else "stale: the last verdict stands"),
        ("Signal", f"{record.signal.kind.value} {record.signal.detail}".strip()),
        ("Failures in a row", f"{record.fails}"),
        ("Not proven", record.proof),
        ("LiteLLM says", f"{record.litellm.value} {record.litellm_said}".strip()),
        ("Row in LiteLLM", row.id if row else "none"),
        ("Rows of this key", f"{len(record.rows)}"),
        ("Last write", record.write_trouble),
        ("Rule of the plan", record.action_rule),
    )
    return tuple((name, word) for name, word in facts if word)
