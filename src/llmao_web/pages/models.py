"""The page `/models`: for callers what they can call; for admins what is wrong and what to do.

Rule of this file: it sorts what a pass concluded into places on a page, and concludes nothing.
A caller's page is made from the models alone: records and hosts are never looked at for it.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from attrs import frozen
from litestar import Request, Response
from litestar.handlers import HTTPRouteHandler

from llmao_core.config import Model
from llmao_core.keys import Key
from llmao_core.plan import Action, Plan
from llmao_core.records import Availability, ItemKind, ModelView, Record, View
from llmao_core.recovery import waits
from llmao_core.snapshots import SourceState
from llmao_core.verdicts import WORST_FIRST, Lifecycle
from llmao_web.desk import Clock, Desk
from llmao_web.people import FOR_CALLERS, user_of

from .callers import about
from .lines import Lines
from .live import Live, Source
from .names import element, page_of, worst_first
from .overview import tiles
from .render import Renderer, page
from .sheet import Sheet
from .work import Work, held_by_key, releasable, run_button, tally, told_apart, work_of

# Without a script a reload shuts a warning that is being read.
RELOAD_S = 15
MORE_SHOWN = 100
ACTIONS_SHOWN = 100
# Tables that somebody has come to look into are open from the start, up to so many lines: more are
# no help on a telephone, and what needs somebody has its item on top.
OPEN_LINES = 20
ON_THE_WAY = (Lifecycle.AWAITING, Lifecycle.LOADING)
ADMIN, CALLER = "models/admin", "models/caller"
LITELLM = "litellm"
AS_INTENDED = "Nothing to do: LiteLLM is as intended."
NOT_READ = "Nothing is planned: LiteLLM cannot be read now, and was as intended when last read."
NOT_BY_ITSELF = "Nothing is planned: what is left is not in llmao's hands. See Work needed."
WAITING_SHOWN = 3
# LiteLLM may be as intended and callers still get errors: then these words would be a riddle.
_LEFT = {ItemKind.LITELLM_NO_DATABASE, ItemKind.MODEL_UNAVAILABLE, ItemKind.NOT_LIVE}
NOT_KNOWN = "Nothing is planned: what LiteLLM has is not known now."


@frozen
class Section:
    """One model's place on the page. rows: id of the body of its table, "" for none."""

    id: str
    name: str
    head: str = ""
    rows: str = ""
    open: bool = False

    @property
    def place(self) -> str:
        """Return the id of the whole section."""
        return f"{self.id}-section"


@frozen
class Made:
    """A page of one pass: what it was made of, its sheet, and what its template needs."""

    view: View | None
    sheet: Sheet
    context: dict[str, Any]


class ModelsPages:
    """Makes both pages, each once per pass."""

    def __init__(self, desk: Desk, clock: Clock, renderer: Renderer, fleet: str) -> None:
        self._desk = desk
        self._clock = clock
        self._fleet = fleet
        self._parts = renderer.macros("parts.html.j2")
        self._lines = Lines(renderer, fleet)
        self._made: dict[bool, Made] = {}
        self._kept: dict[str, tuple[Work, str]] = {}

    def made(self, *, admin: bool) -> Made:
        """Return the page of the newest pass."""
        view = self._desk.view()
        made = self._made.get(admin)
        if made is None or made.view is not view or view is None:
            made = self._make(view, admin)
            self._made[admin] = made
        return made

    def sources(self) -> dict[str, Source]:
        """Return how the script of either page follows it."""

        async def for_admins(_: str) -> Sheet:
            return (await asyncio.to_thread(self.made, admin=True)).sheet

        async def for_callers(_: str) -> Sheet:
            return (await asyncio.to_thread(self.made, admin=False)).sheet

        return {ADMIN: Source(for_admins), CALLER: Source(for_callers, admin=False)}

    def _make(self, view: View | None, admin: bool) -> Made:
        if view is None:
            return Made(None, Sheet({}), {"ready": False, "untried": self._desk.ready()[1]})
        return self._for_admins(view) if admin else self._for_callers(view)

    def _for_callers(self, view: View) -> Made:
        sections = tuple(Section(element("m", each.name), each.name) for each in view.models)
        parts = self._cards(view, admin=False)
        return Made(view, Sheet(parts), {"ready": True, "sections": sections})

    def _cards(self, view: View, *, admin: bool) -> dict[str, str]:
        intended = self._desk.intended()
        models: dict[str, Model] = {}
        for model in intended.config.models if intended else ():
            models.setdefault(model.model_name, model)
        cards = {}
        for each in view.models:
            name = element("m", each.name)
            told = about(each, models.get(each.name))
            cards[name] = str(self._parts.card(name, each, told, admin))
        return cards

    def _for_admins(self, view: View) -> Made:
        plan = self._desk.plan()
        by_key = _by_key(view)
        lines = self._lines.of(
            view.records,
            {host.name: host for host in view.hosts},
            held_by_key(plan),
            self._clock.now(),
        )
        parts = {**self._cards(view, admin=True), **lines}
        lists: dict[str, tuple[str, ...]] = {}
        models = sorted(view.models, key=_how_bad)
        opened = _opened(models, by_key)
        sections = tuple(self._section(each, by_key, parts, lists, opened) for each in models)
        lists["models"] = tuple(each.place for each in sections)
        named = {key for model in view.models for key in (*model.keys, *model.orphans)}
        others = [one for key, some in by_key.items() if key not in named for one in some]
        if others:
            lists["others"] = self._ids(others)
        self._add_work(view, plan, parts, lists)
        self._add_plan(view, plan, parts, lists)
        self._add_sources(view, parts, lists)
        parts["overview"] = str(self._parts.overview(tiles(view, plan), view.at))
        context = {
            "ready": True,
            "sections": sections,
            "others": bool(others),
            "sources": bool(view.sources),
            "plan_open": 0 < len(lists["plan"]) <= OPEN_LINES,
            "sources_open": any(one.state is not SourceState.FRESH for one in view.sources),
        }
        return Made(view, Sheet(parts, lists), context)

    def _section(
        self,
        model: ModelView,
        by_key: dict[Key, list[Record]],
        parts: dict[str, str],
        lists: dict[str, tuple[str, ...]],
        opened: Set[str],
    ) -> Section:
        name, records = element("m", model.name), _records(model, by_key)
        if not records:
            return Section(name, model.name)
        head, rows = f"{name}-head", f"{name}-rows"
        parts[head] = str(self._parts.rows_head(head, "Deployments", len(records)))
        lists[rows] = self._ids(records)
        return Section(name, model.name, head, rows, model.name in opened)

    def _ids(self, records: list[Record]) -> tuple[str, ...]:
        ordered = sorted(records, key=worst_first)
        return tuple(dict.fromkeys(self._lines.id_of(record) for record in ordered))

    def _add_work(
        self,
        view: View,
        plan: Plan | None,
        parts: dict[str, str],
        lists: dict[str, tuple[str, ...]],
    ) -> None:
        shown, more = told_apart(work_of(view, plan, self._fleet))
        parts["work-head"] = str(self._parts.work_head(len(view.items)))
        parts["work-more-head"] = str(self._parts.more_head(tally(more), MORE_SHOWN))
        parts |= self._items((*shown, *more[:MORE_SHOWN]))
        lists["work"] = tuple(each.id for each in shown)
        lists["work-more"] = tuple(each.id for each in more[:MORE_SHOWN])

    def _items(self, work: Sequence[Work]) -> dict[str, str]:
        """Return the items by id; what has not changed since the pass before is not made again."""
        kept = {}
        for each in work:
            before = self._kept.get(each.id)
            same = before is not None and before[0] == each
            kept[each.id] = before if before and same else (each, str(self._parts.work(each)))
        self._kept = kept
        return {name: html for name, (_, html) in kept.items()}

    def _add_plan(
        self,
        view: View,
        plan: Plan | None,
        parts: dict[str, str],
        lists: dict[str, tuple[str, ...]],
    ) -> None:
        actions = sorted(plan.actions, key=lambda each: not each.runs) if plan else []
        shown = {record.key for record in view.records}
        ids = []
        for action in actions[:ACTIONS_SHOWN]:
            name = element("a", f"{action.kind.value} {action.litellm_id} {action.key}")
            page = page_of(self._fleet, action.key) if action.key in shown else ""
            parts[name] = str(self._parts.action(name, action, page, _press(action)))
            ids.append(name)
        parts["plan-head"] = str(self._parts.plan_head(actions, ACTIONS_SHOWN, idle_words(view)))
        lists["plan"] = tuple(ids)

    def _add_sources(
        self, view: View, parts: dict[str, str], lists: dict[str, tuple[str, ...]]
    ) -> None:
        rows = {
            element("s", source.name): str(self._parts.source(element("s", source.name), source))
            for source in view.sources
        }
        parts |= rows
        lists["sources"] = tuple(rows)


def models_page(pages: ModelsPages, live: Live, renderer: Renderer) -> HTTPRouteHandler:
    """Return the handler of `/models`; it renders in a thread, because a fleet may be large."""

    @page("/models", sync_to_thread=True, opt=FOR_CALLERS)
    def models(request: Request[Any, Any, Any]) -> Response[str]:
        signed_in = user_of(request).admin
        preview = signed_in and request.query_params.get("as") == "caller"
        admin = signed_in and not preview
        made = pages.made(admin=admin)
        context = {
            **made.context,
            "sheet": made.sheet,
            "admin": admin,
            "preview": preview,
            "reload_s": RELOAD_S,
            "live": live.address(ADMIN if admin else CALLER, made.sheet),
        }
        return renderer.page("models.html.j2", context, request=request)

    return models


def idle_words(view: View) -> str:
    """Return what an empty plan means: all is well, or what is to come is not due or not known."""
    litellm = next((one for one in view.sources if one.name == LITELLM), None)
    if litellm is None or litellm.state is not SourceState.FRESH:
        return NOT_KNOWN
    if litellm.trouble is not None:
        return NOT_READ
    left = any(item.kind in _LEFT for item in view.items)
    return _to_come(view) or (NOT_BY_ITSELF if left else AS_INTENDED)


def _to_come(view: View) -> str:
    """Return which servers work and have no route yet, and what for they wait."""
    waiting = [f"{one.key} gets its route {due}" for one in view.records if (due := waits(one))]
    more = len(waiting) - WAITING_SHOWN
    rest = f"; {more} more wait, too" if more > 0 else ""
    told = "; ".join(waiting[:WAITING_SHOWN])
    return f"Nothing to do now. {told}{rest}." if told else ""


def _press(action: Action) -> tuple[Any, ...]:
    return (run_button(action),) if releasable(action) else ()


def _records(model: ModelView, by_key: Mapping[Key, list[Record]]) -> list[Record]:
    """Return what serves a model, or should."""
    found = (one for key in (*model.keys, *model.orphans) for one in by_key.get(key, ()))
    return [one for one in found if not one.put_away]


def _how_bad(model: ModelView) -> tuple[bool, int]:
    """Return where a model stands among others: what is placed nowhere comes last."""
    return not (model.keys or model.orphans), WORST_FIRST.index(model.availability)


def _opened(models: Iterable[ModelView], by_key: Mapping[Key, list[Record]]) -> Set[str]:
    """Return the models whose tables are open from the start: few lines, and one looked for."""
    opened, lines = set(), 0
    for model in models:
        records = _records(model, by_key)
        if _watched(model, records) and lines + len(records) <= OPEN_LINES:
            opened.add(model.name)
            lines += len(records)
    return opened


def _watched(model: ModelView, records: list[Record]) -> bool:
    """Tell whether it fails callers, or a server is on its way: that one has no item."""
    failing = model.availability is not Availability.AVAILABLE
    return failing or any(each.lifecycle in ON_THE_WAY for each in records)


def _by_key(view: View) -> dict[Key, list[Record]]:
    by_key: dict[Key, list[Record]] = {}
    for record in view.records:
        by_key.setdefault(record.key, []).append(record)
    return by_key
