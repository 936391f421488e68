"""The page `/models`: what works, what does not, why, and what llmao is about to do.

Rule of this file: it sorts what a pass concluded into places on a page, and concludes nothing.
No URL of a box is shown, only the port that can be dialled.
"""

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from attrs import frozen
from litestar import Response, get
from litestar.handlers import HTTPRouteHandler

from llmao_core.keys import Key
from llmao_core.plan import Action, Plan
from llmao_core.records import (
    Availability,
    HostView,
    Lifecycle,
    ModelView,
    Record,
    SignalKind,
    View,
)
from llmao_core.snapshots import SourceState
from llmao_web.desk import Clock, Desk

from .render import Renderer

RELOAD_S = 5

_TONES: dict[object, str] = {
    Availability.AVAILABLE: "good",
    Availability.DEGRADED: "fair",
    Availability.UNAVAILABLE: "bad",
    Lifecycle.HEALTHY: "good",
    Lifecycle.CONFIGURED: "good",
    Lifecycle.LOADING: "fair",
    Lifecycle.UNHEALTHY: "bad",
    Lifecycle.STALLED: "bad",
    Lifecycle.REJECTED: "bad",
    Lifecycle.FOREIGN: "bad",
    Lifecycle.WRONG_MODEL: "bad",
    SourceState.FRESH: "good",
    SourceState.STALE: "bad",
}


@frozen
class Row:
    """One line of a table of deployments. port: what can be dialled, None when unplaced."""

    record: Record
    host: HostView | None
    port: int | None


@frozen
class Group:
    """A model and its deployments."""

    model: ModelView
    rows: tuple[Row, ...]


def models_page(desk: Desk, clock: Clock, renderer: Renderer) -> HTTPRouteHandler:
    """Return the handler of `/models`; it renders in a thread, because a fleet may be large."""

    @get("/models", sync_to_thread=True)
    def models() -> Response[str]:
        context = _context(desk, clock.now())
        return renderer.page("models.html.j2", context, headers={"refresh": str(RELOAD_S)})

    return models


def _context(desk: Desk, now: float) -> dict[str, Any]:
    view, plan = desk.view(), desk.plan()
    groups, others = _grouped(view) if view else ((), ())
    return {
        "now": now,
        "view": view,
        "untried": desk.ready()[1],
        "groups": groups,
        "others": others,
        "actions": _running_first(plan),
        "tone": tone,
        "no_signal": SignalKind.NONE,
    }


def tone(word: object) -> str:
    """Return how a verdict looks: good, fair, bad or plain; the word itself is always shown."""
    return _TONES.get(word, "plain")


def _grouped(view: View) -> tuple[tuple[Group, ...], tuple[Row, ...]]:
    """Return the models with their rows, and the rows that belong to no model."""
    hosts = {host.name: host for host in view.hosts}
    rows: dict[Key, list[Row]] = {}
    for record in view.records:
        row = Row(record, hosts.get(record.host), _port(record.dialable))
        rows.setdefault(record.key, []).append(row)
    groups = tuple(Group(model, _pick(rows, model.keys)) for model in view.models)
    named = {key for model in view.models for key in model.keys}
    return groups, _pick(rows, (key for key in rows if key not in named))


def _pick(rows: dict[Key, list[Row]], keys: Iterable[Key]) -> tuple[Row, ...]:
    return tuple(row for key in keys for row in rows.get(key, ()))


def _port(dialable: str) -> int | None:
    if not dialable:
        return None
    try:
        parts = urlsplit(dialable)
        return parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return None


def _running_first(plan: Plan | None) -> tuple[Action, ...]:
    return tuple(sorted(plan.actions, key=lambda action: not action.runs)) if plan else ()
