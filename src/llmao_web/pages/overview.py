"""The line of counts on top of the admins' page.

Rule of this file: it counts what a pass concluded, the worst figure first.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from attrs import frozen

from llmao_core.money import wasted
from llmao_core.plan import Plan
from llmao_core.prices import per_hour
from llmao_core.records import Availability, HostView, Kind, SourceView, View
from llmao_core.recovery import waits
from llmao_core.snapshots import SourceState
from llmao_core.verdicts import DOWN, UP

from .names import counted

_CALLABLE = (Availability.AVAILABLE, Availability.DEGRADED)


@frozen
class Tile:
    """One figure and what it counts. link: where on the page it is told in full."""

    figure: str
    words: str
    tone: str
    link: str


def tiles(view: View, plan: Plan | None) -> tuple[Tile, ...]:
    """Return the counts of one pass."""
    return (
        _needing(view),
        _models(view),
        *_deployments(view),
        _plan(plan, view),
        _sources(view.sources),
        *_cost(view),
    )


def _needing(view: View) -> Tile:
    words = "thing needs you" if len(view.items) == 1 else "things need you"
    return Tile(f"{len(view.items):,}", words, "bad" if view.items else "good", "#work-needed")


def _models(view: View) -> Tile:
    can = sum(model.availability in _CALLABLE for model in view.models)
    unknown = sum(model.availability is Availability.UNKNOWN for model in view.models)
    degraded = sum(model.availability is Availability.DEGRADED for model in view.models)
    wanted = [model for model in view.models if model.keys]
    tone = ("fair" if degraded or unknown else "good") if wanted else "plain"
    words = f"of {counted(len(view.models), 'model')} can be called"
    if unknown:
        words += f", {unknown:,} not known now" if can else ": not known now"
    figure = "?" if unknown and not can else f"{can:,}"
    return Tile(figure, words, tone if can + unknown >= len(wanted) else "bad", "#models")


def _deployments(view: View) -> tuple[Tile, ...]:
    ours = [one for one in view.records if one.kind is not Kind.FOREIGN]
    reached = sum(one.reached for one in ours)
    lives = Counter(one.lifecycle for one in ours if not one.reached)
    up, down = sum(lives[life] for life in UP), sum(lives[life] for life in DOWN)
    waiting = len(ours) - up - down - reached
    serve = sum(one.lifecycle in UP and not one.reached and one.routed for one in ours)
    words = f"of {counted(len(ours), 'deployment')} up and in LiteLLM"
    tone = ("good" if serve else "bad") if ours else "plain"
    found = [Tile(f"{serve:,}", words, tone, "#models")]
    if up > serve:
        found.append(Tile(f"{up - serve:,}", "up, and not in LiteLLM", "fair", "#models"))
    if reached:
        found.append(Tile(f"{reached:,}", "reached by LiteLLM only", "fair", "#models"))
    if down:
        found.append(Tile(f"{down:,}", "down", "bad", "#models"))
    if waiting:
        found.append(Tile(f"{waiting:,}", "loading or awaited", "fair", "#models"))
    return tuple(found)


def _plan(plan: Plan | None, view: View) -> Tile:
    actions = plan.actions if plan else ()
    held = sum(not action.runs for action in actions)
    if held:
        return Tile(f"{held:,}", f"of {counted(len(actions), 'action')} held", "fair", "#plan-all")
    words = "action planned" if len(actions) == 1 else "actions planned"
    if waiting := sum(bool(waits(one)) for one in view.records):
        words += f", {waiting:,} to come"
    return Tile(f"{len(actions):,}", words, "plain", "#plan-all")


def _sources(sources: tuple[SourceView, ...]) -> Tile:
    blind = [one for one in sources if one.state is not SourceState.FRESH]
    if blind:
        words = f"of {counted(len(sources), 'source')} not fresh"
        return Tile(f"{len(blind)}", words, "bad", "#sources-all")
    if failing := sum(one.trouble is not None for one in sources):
        words = f"of {counted(len(sources), 'source')} cannot be read now"
        return Tile(f"{failing}", words, "bad", "#sources-all")
    return Tile(f"{len(sources)}", "sources fresh", "good", "#sources-all")


def _cost(view: View) -> tuple[Tile, ...]:
    rented = [host for host in view.hosts if _listed(host)]
    stale = sorted({host.provider for host in rented if host.stale})
    unread = [one for one in _unread(view.sources) if one not in stale]
    told = f", {_all(stale)} as last listed" if stale else ""
    told += f", without {_all(unread)}: not known now" if unread else ""
    if not rented:
        return (Tile("$?/h", f"rented{told}", "fair", "/boxes"),) if unread else ()
    figure, unpriced = _sum(rented)
    tone = "fair" if told else "plain"
    return (Tile(figure, f"rented{unpriced}{told}", tone, "/boxes"), *lost(view))


def _unread(sources: Iterable[SourceView]) -> list[str]:
    """Return the providers whose listing was never read."""
    return [one.name for one in sources if one.listing and one.state is SourceState.UNREAD]


def _all(names: Iterable[str]) -> str:
    return " and ".join(names)


def lost(view: View) -> tuple[Tile, ...]:
    """Return what is paid for boxes that serve nobody, nothing where each serves or may yet."""
    boxes = wasted(view.hosts, view.items)
    if not boxes:
        return ()
    figure, unpriced = _sum(boxes)
    whom = "a box that serves" if len(boxes) == 1 else f"{len(boxes):,} boxes that serve"
    return (Tile(figure, f"of it for {whom} nobody{unpriced}", "fair", "#work-needed"),)


def _listed(host: HostView) -> bool:
    return bool(host.instance_id) and (bool(host.status) or host.price_per_hour is not None)


def _sum(hosts: Sequence[HostView]) -> tuple[str, str]:
    """Return what boxes cost together, and how many of them have a price that nobody knows."""
    prices = [host.price_per_hour for host in hosts if host.price_per_hour is not None]
    without = len(hosts) - len(prices)
    figure = per_hour(sum(prices)) if prices else "$?/h"
    return figure, f", {without:,} without a price" if without else ""
