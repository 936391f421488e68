"""What `explain` says of a box and of a source, whatever deployments they have or lack.

Rule of this file: it picks from a view, as the API tells it, and adds nothing to it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from llmao_core.prices import per_hour

from .moments import shown
from .printing import clean

if TYPE_CHECKING:
    from llmao_core.keys import Key
    from llmao_core.records import Record, View

Told = Mapping[str, Any]
_OF_A_BOX = (
    *("name", "provider", "instance_id", "status", "gpu", "price_per_hour", "intended"),
    *("approved", "unlisted", "placed_by", "last_fetch", "rebooting", "reboot_until"),
)
_OF_A_SOURCE = ("name", "state", "taken_at", "interval_s", "trouble")
_UP, _FRESH = "up", "fresh"


def as_told(view: "View") -> Told:
    """Return of a view what the API would tell, as far as `explain` looks at it."""
    return {
        "models": [
            {
                "name": one.name,
                "availability": one.availability.value,
                "checked": one.checked,
                "context": one.context,
                "replicas": {"summary": one.summary},
            }
            for one in view.models
        ],
        "deployments": [_record(one) for one in view.records],
        "boxes": [{name: getattr(one, name) for name in _OF_A_BOX} for one in view.hosts],
        "sources": [
            {
                "name": one.name,
                "state": one.state.value,
                "taken_at": one.taken_at,
                "interval_s": one.interval_s,
                "trouble": one.trouble
                and {
                    "message": one.trouble.message,
                    "since": one.trouble.since,
                    "count": one.trouble.count,
                },
            }
            for one in view.sources
        ],
        "items": [
            {
                "id": one.id,
                "kind": one.kind.value,
                "sentence": one.sentence,
                "remedy": one.remedy,
                "host": one.host,
                "key": one.key and _key(one.key),
            }
            for one in view.items
        ],
    }


def _record(one: "Record") -> Told:
    return {
        "key": _key(one.key),
        "kind": one.kind.value,
        "lifecycle": one.lifecycle.value,
        "fresh": one.fresh,
        "rule": one.rule,
        "because": one.because,
        "host": one.host,
        "litellm": {"id": one.row.id if one.row else ""},
    }


def _key(key: "Key") -> dict[str, str]:
    return {"shown": key.shown, "model": key.model}


def around(view: Told, name: str) -> list[dict[str, Any]]:
    """Return the boxes and sources of a name, and what is said of it where it has neither.

    Raises KeyError or TypeError where a view is not of this version.
    """
    said = [one["sentence"] for one in view["items"] if one["host"] == name and not one["key"]]
    boxes = [one for one in view["boxes"] if name in (one["name"], one["instance_id"].lower())]
    sources = [one for one in _read(view) if one["name"] == name]
    found: list[dict[str, Any]] = [
        {"box": {each: one[each] for each in _OF_A_BOX}, "attention": said} for one in boxes
    ]
    for one in sources:
        of_it = [each for each in view["boxes"] if each["provider"] == name]
        # Of a listing that cannot be read only the boxes that hosts name are left.
        boxes_now = _added_up(of_it) if of_it and one["state"] == _FRESH else None
        source = {each: one[each] for each in _OF_A_SOURCE}
        found.append({"source": source, "boxes": boxes_now, "attention": said})
    if said and not found:
        found.append({"asks": name, "attention": said})
    return found


def _added_up(boxes: Sequence[Told]) -> dict[str, Any]:
    return {
        "listed": sum(bool(one["instance_id"]) for one in boxes),
        "up": sum(one["status"] == _UP for one in boxes),
        "intended": sum(one["intended"] for one in boxes),
        "price_per_hour": sum(one["price_per_hour"] or 0.0 for one in boxes),
    }


def names(view: Told) -> Iterator[str]:
    """Yield the names of models, and of boxes and sources without a deployment to be known by."""
    for one in view["models"]:
        yield one["name"]
    for one in view["boxes"]:
        if not one.get("deployments"):
            yield one["name"]
    for one in _read(view):
        yield one["name"]


def _read(view: Told) -> list[Told]:
    """Return the sources that are read again and again."""
    return [one for one in view["sources"] if one["interval_s"]]


def lines(value: Told) -> Iterator[str]:
    """Yield what is printed for people of one value that `around` returned."""
    if "box" in value:
        title, facts = value["box"]["name"], _box(value["box"])
    elif "source" in value:
        title, facts = value["source"]["name"], _source(value["source"], value["boxes"])
    else:
        title, facts = value["asks"], iter([("box", "no listing and no host names it")])
    yield click.style(clean(title), bold=True)
    for name, said in (*facts, *(("attention", each) for each in value["attention"])):
        yield f"  {name}: {clean(said)}"


def _box(box: Told) -> Iterator[tuple[str, str]]:
    if box["instance_id"]:
        price = box["price_per_hour"]
        costs = "price not listed" if price is None else per_hour(price)
        parts = (f"{box['provider']} instance {box['instance_id']}", box["status"], box["gpu"])
        yield "box", ", ".join(each for each in (*parts, costs) if each)
    else:
        yield "box", "in no listing"
    yield "meant", _meant(box)
    at = box["last_fetch"]
    yield "configuration", f"handed out {shown(at)}" if at else "not handed out, as far as known"


def _meant(box: Told) -> str:
    if box["approved"]:
        return "an admin approved it"
    if box["intended"]:
        return "fleet.hosts names it"
    return "nothing names it: it is in no fleet.hosts and nobody approved it, so it gets no route"


def _source(source: Told, boxes: Told | None) -> Iterator[tuple[str, str]]:
    at, every = source["taken_at"], f", every {source['interval_s']:g} s"
    yield source["state"], (f"last read {shown(at)}{every}" if at else f"never read{every}")
    if trouble := source["trouble"]:
        since = shown(trouble["since"])
        yield "failed reads", f"{trouble['count']} in a row since {since}: {trouble['message']}"
    else:
        yield "failed reads", "none since the last good one"
    if boxes is not None:
        how_many = f"{boxes['listed']} listed, {boxes['up']} of them up"
        costs = per_hour(boxes["price_per_hour"])
        yield "boxes", f"{how_many}, {boxes['intended']} meant to serve, {costs} together"


def blind(view: Told) -> str:
    """Return which sources cannot be read, so that what only they name is not known; or ""."""
    unread = [one["name"] for one in _read(view) if one["trouble"]]
    if not unread:
        return ""
    return f"Not read at the moment, so that what only they name is missing: {', '.join(unread)}."


def is_around(value: Iterable[str]) -> bool:
    """Tell whether a value is of a box or a source, and not of a deployment or a model."""
    return "key" not in value and "model" not in value
