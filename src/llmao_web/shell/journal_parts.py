"""Snapshots taken apart, so that a record holds what changed since the one before.

Rule of this file: a part is replaced as a whole, by its members, or by its place in a list; what
is put together again equals what was taken apart, the order of lists included.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from llmao_core.actions import Write
from llmao_core.errors import Trouble
from llmao_core.intended import Intended
from llmao_core.probes import CanaryReport, OpenPathsReport, ProbeReport, Probes, Target
from llmao_core.remembered import Remembered
from llmao_core.snapshots import (
    Asked,
    BoxFetches,
    BoxProtocol,
    Deployments,
    Health,
    Instance,
    Listing,
    Opinion,
    Reading,
    Request,
    Row,
    Snapshot,
    Snapshots,
    UnknownHost,
    WrongKeys,
)

from .journal_codec import Codec, JournalError
from .journal_columns import columns, rows

Parts = dict[str, Any]
_LISTED = "listing:"


@frozen
class Read:
    """A Reading without its body. taken_at: None when there is no snapshot."""

    interval_s: float | None = None
    taken_at: float | None = None
    trouble: Trouble | None = None
    complete: bool = True
    reboots: bool = True


# ---- apart and together


def apart(snapshots: Snapshots) -> Parts:
    """Return the parts of snapshots, by name."""
    protocol, probes = snapshots.protocol, snapshots.probes
    boxes = protocol or BoxProtocol()
    rows, health = _body(snapshots.deployments), _body(snapshots.health)
    opinions = health or Health()
    parts: Parts = {
        "intended": snapshots.intended,
        "boxes": protocol is not None,
        "boxes.hosts": boxes.hosts,
        "boxes.unknown": boxes.unknown,
        "boxes.wrong_keys": boxes.wrong_keys,
        "probes": probes.reports,
        "canaries": probes.canaries,
        "open_paths": probes.open_paths,
        "deployments": _read(snapshots.deployments),
        "deployments.rows": rows.rows if rows else (),
        "health": _read(snapshots.health),
        "health.opinions": opinions.opinions,
        "health.asked": opinions.asked,
        "writes": snapshots.writes,
        "requests": snapshots.requests,
        "placed": snapshots.placed,
        "revisions": snapshots.revisions,
        "troubles": snapshots.troubles,
    }
    for name, reading in snapshots.inventories.items():
        listing = _body(reading)
        parts[f"{_LISTED}{name}"] = _read(reading)
        parts[f"{_LISTED}{name}.instances"] = listing.instances if listing else ()
    return parts


def together(parts: Parts) -> Snapshots:
    """Return the snapshots of these parts."""
    boxes = BoxProtocol(parts["boxes.hosts"], parts["boxes.unknown"], parts["boxes.wrong_keys"])
    names = [
        name.removeprefix(_LISTED)
        for name in parts
        if name.startswith(_LISTED) and not name.endswith(".instances")
    ]
    return Snapshots(
        intended=parts["intended"],
        protocol=boxes if parts["boxes"] else None,
        inventories={
            name: _LISTINGS(name, parts[f"{_LISTED}{name}"], parts[f"{_LISTED}{name}.instances"])
            for name in names
        },
        probes=Probes(parts["probes"], parts["canaries"], parts["open_paths"]),
        deployments=_DEPLOYMENTS("", parts["deployments"], parts["deployments.rows"]),
        health=_HEALTH("", parts["health"], parts["health.opinions"], parts["health.asked"]),
        writes=parts["writes"],
        requests=parts["requests"],
        placed=parts["placed"],
        revisions=parts["revisions"],
        troubles=parts["troubles"],
    )


def _body(reading: Reading[Any]) -> Any:
    return reading.snapshot.body if reading.snapshot else None


def _read(reading: Reading[Any]) -> Read:
    snapshot = reading.snapshot
    complete = getattr(snapshot.body, "complete", True) if snapshot else True
    taken_at = snapshot.taken_at if snapshot else None
    return Read(reading.interval_s, taken_at, reading.trouble, complete, reading.reboots)


def _reading(read: Read, body: Any) -> Reading[Any]:
    snapshot = None if read.taken_at is None else Snapshot(read.taken_at, body)
    return Reading(read.interval_s, snapshot, read.trouble, read.reboots)


# What was read once is the same object in every pass until the next read, as it was when recorded.
_LISTINGS = Remembered(
    lambda _, read, instances: _reading(read, Listing(instances, read.complete)), most=10
)
_DEPLOYMENTS = Remembered(lambda _, read, rows: _reading(read, Deployments(rows)), most=1)
_HEALTH = Remembered(
    lambda _, read, opinions, asked: _reading(read, Health(opinions, asked)), most=1
)


# ---- how each part changes


@frozen
class Whole:
    """Replaced as a whole."""

    kind: Any

    def change(self, _: Any, new: Any, codec: Codec) -> Any:
        """Return the JSON of a change."""
        return codec.out(new, self.kind)

    def changed(self, _: Any, change: Any, codec: Codec) -> Any:
        """Return what a change makes of the old value."""
        return codec.back(change, self.kind)

    def empty(self) -> Any:
        """Return what a keyframe changes."""
        return None


@frozen
class Members:
    """A mapping; its new and its removed members."""

    key: Any
    value: Any

    def change(self, old: Mapping[Any, Any], new: Mapping[Any, Any], codec: Codec) -> Any:
        """Return the JSON of a change."""
        fresh = [
            [codec.out(key, self.key), codec.out(value, self.value)]
            for key, value in new.items()
            if not _same(old.get(key), value)
        ]
        gone = [codec.out(key, self.key) for key in old if key not in new]
        return [fresh, gone]

    def changed(self, old: Mapping[Any, Any], change: Any, codec: Codec) -> Any:
        """Return what a change makes of the old value."""
        fresh, gone = _pair(change)
        made = dict(old)
        for one in gone:
            made.pop(codec.back(one, self.key), None)
        for one in fresh:
            key, value = _pair(one)
            made[codec.back(key, self.key)] = codec.back(value, self.value)
        return made

    def empty(self) -> Any:
        """Return what a keyframe changes."""
        return {}


@frozen
class Table(Members):
    """A mapping of which many members change at once: their fields stand in columns."""

    def change(self, old: Mapping[Any, Any], new: Mapping[Any, Any], codec: Codec) -> Any:
        """Return the JSON of a change."""
        fresh, gone = super().change(old, new, codec)
        return [[[key for key, _ in fresh], columns([value for _, value in fresh])], gone]

    def changed(self, old: Mapping[Any, Any], change: Any, codec: Codec) -> Any:
        """Return what a change makes of the old value."""
        fresh, gone = _pair(change)
        keys, told = _pair(fresh)
        pairs = [list(pair) for pair in zip(_list(keys), rows(told, len(keys)), strict=True)]
        return super().changed(old, [pairs, gone], codec)


@frozen
class Listed:
    """A list of things with an id: stretches of the old list, and what is new between them."""

    item: Any

    def change(self, old: Sequence[Any], new: Sequence[Any], codec: Codec) -> Any:
        """Return the JSON of a change: `[from, to]` of the old list, or an item."""
        places = {each.id: place for place, each in enumerate(old)}
        told: list[Any] = []
        for each in new:
            place = places.get(each.id)
            if place is None or not _same(old[place], each):
                told.append(codec.out(each, self.item))
            elif told and isinstance(told[-1], list) and told[-1][1] == place:
                told[-1][1] = place + 1
            else:
                told.append([place, place + 1])
        return told

    def changed(self, old: Sequence[Any], change: Any, codec: Codec) -> Any:
        """Return what a change makes of the old value."""
        made: list[Any] = []
        for each in _list(change):
            if isinstance(each, list):
                first, last = _pair(each)
                made += old[codec.back(first, int) : codec.back(last, int)]
                if len(made) > MOST_LISTED:
                    raise JournalError("it holds a list that is too long")
            else:
                made.append(codec.back(each, self.item))
        return tuple(made)

    def empty(self) -> Any:
        """Return what a keyframe changes."""
        return ()


MOST_LISTED = 1_000_000
_KINDS: Mapping[str, Whole | Members | Listed] = {
    "intended": Whole(Intended | None),
    "boxes": Whole(bool),
    "boxes.hosts": Members(str, BoxFetches),
    "boxes.unknown": Whole(tuple[UnknownHost, ...]),
    "boxes.wrong_keys": Whole(tuple[WrongKeys, ...]),
    "probes": Table(Target, ProbeReport),
    "canaries": Members(Target, CanaryReport),
    "open_paths": Members(Target, OpenPathsReport),
    "deployments": Whole(Read),
    "deployments.rows": Listed(Row),
    "health": Whole(Read),
    "health.opinions": Members(str, Opinion),
    "health.asked": Members(str, Asked),
    "writes": Members(str, Write),
    "requests": Whole(tuple[Request, ...]),
    "placed": Members(str, str),
    "revisions": Members(str, str),
    "troubles": Members(str, Trouble),
}
_LISTING, _INSTANCES = Whole(Read), Listed(Instance)


def _kind(name: str) -> Whole | Members | Listed:
    if name in _KINDS:
        return _KINDS[name]
    if name.startswith(_LISTED):
        return _INSTANCES if name.endswith(".instances") else _LISTING
    raise JournalError("it holds a source that this llmao does not know")


# ---- the change of all parts


def difference(old: Parts, new: Parts, codec: Codec) -> dict[str, Any]:
    """Return the JSON that makes new parts of old ones; from no parts at all, it is everything."""
    changes = {
        name: _kind(name).change(old[name] if name in old else _kind(name).empty(), part, codec)
        for name, part in new.items()
        if name not in old or not _same(old[name], part)
    }
    gone = [name for name in old if name not in new]
    return {"parts": changes, "gone": gone} if gone else {"parts": changes}


def applied(old: Parts, change: Mapping[str, Any], codec: Codec) -> Parts:
    """Return the parts after a change; JournalError when it is none."""
    gone = set(_list(change.get("gone", [])))
    parts = {name: part for name, part in old.items() if name not in gone}
    changes = change.get("parts")
    if not isinstance(changes, dict):
        raise JournalError("it holds a record without parts")
    for name, told in changes.items():
        kind = _kind(name)
        parts[name] = kind.changed(parts.get(name, kind.empty()), told, codec)
    if missing := _KINDS.keys() - parts.keys():
        raise JournalError(f"it says nothing of {min(missing)}")
    return parts


def _same(one: Any, other: Any) -> bool:
    return one is other or one == other


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise JournalError("it holds something that is no list")
    return value


def _pair(value: Any) -> tuple[Any, Any]:
    if not isinstance(value, list) or len(value) != 2:
        raise JournalError("it holds something that is no pair")
    return value[0], value[1]
