"""The ledger: what people decided and what llmao did, as entries; and what they add up to.

Rule of this file: an entry is never changed. What is kept for reconcile is the fold of all of
them, so that two processes which read the same entries know the same.
"""

import enum
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import evolve, field, frozen

from llmao_core.actions import ActionKind, Outcome
from llmao_core.config import HostRow, Json
from llmao_core.intended import Approval, Labels
from llmao_core.keys import Key
from llmao_core.plan import Action


class EntryKind(enum.Enum):
    """Everything the ledger holds; the value is what pages, logs and the API call it."""

    ACTION = "action"
    APPROVED = "approved"
    WITHDRAWN = "withdrawn"
    LABELLED = "labelled"
    DRAINED = "drained"
    UNDRAINED = "undrained"
    RETIRED = "retired"
    UNRETIRED = "unretired"
    PLACED = "placed"
    PRESSED = "pressed"
    CHECKED = "checked"
    RELOADED = "reloaded"
    OUTSIDE_EDIT = "outside edit"
    REFUSED = "refused"
    SIGNED_IN = "signed in"


FOLDED = frozenset(
    {
        EntryKind.APPROVED,
        EntryKind.WITHDRAWN,
        EntryKind.LABELLED,
        EntryKind.DRAINED,
        EntryKind.UNDRAINED,
        EntryKind.RETIRED,
        EntryKind.UNRETIRED,
        EntryKind.PLACED,
    }
)


@frozen
class Entry:
    """One thing that was decided or done.

    at: epoch seconds. actor: `llmao`, or who pressed. host: normalised, "" when it is about a
    key or about nothing. detail: JSON, by kind: APPROVED `rows`, LABELLED `label` and `note`,
    PLACED `provider` ("" forgets), ACTION what `carried_out` writes, others free.
    """

    at: float
    actor: str
    kind: EntryKind
    host: str = ""
    key: Key | None = None
    detail: Json = field(factory=dict)


@frozen
class Numbered:
    """An entry as the store has it. number: grows with every entry, never used twice."""

    number: int
    entry: Entry


@frozen
class Note:
    """What an admin calls a host, and what others should know of it."""

    label: str
    note: str
    by: str
    at: float


@frozen
class Kept:
    """What all entries add up to. notes, placed: by normalised host name."""

    approvals: tuple[Approval, ...] = ()
    labels: Labels = field(factory=Labels)
    notes: Mapping[str, Note] = field(factory=dict)
    placed: Mapping[str, str] = field(factory=dict)


def carried_out(action: Action, at: float, outcome: Outcome) -> Entry:
    """Return the entry of one action: what, by which rule and why, and how it ended."""
    detail = {
        "action": action.kind.value,
        "rule": action.rule,
        "reason": action.reason,
        "evidence": list(action.evidence),
        "outcome": outcome.kind.value,
        "said": outcome.said,
    }
    return Entry(at, action.released_by or "llmao", EntryKind.ACTION, key=action.key, detail=detail)


def action_of(entry: Entry) -> ActionKind | None:
    """Return the kind of an ACTION entry; None for any other, and for a kind long gone."""
    said = entry.detail.get("action") if entry.kind is EntryKind.ACTION else None
    return ActionKind(said) if said in {kind.value for kind in ActionKind} else None


def placements(before: Mapping[str, str], after: Mapping[str, str], at: float) -> tuple[Entry, ...]:
    """Return the entries that turn one set of placements into another."""
    return tuple(
        Entry(at, "llmao", EntryKind.PLACED, host, detail={"provider": after.get(host, "")})
        for host in sorted(before.keys() | after.keys())
        if before.get(host, "") != after.get(host, "")
    )


def fold(entries: Iterable[Entry], kept: Kept | None = None) -> Kept:
    """Return what entries, oldest first, make of what was kept before them."""
    kept = kept or Kept()
    for entry in entries:
        kept = _folded(kept, entry)
    return kept


def _folded(kept: Kept, entry: Entry) -> Kept:
    host = entry.host
    match entry.kind:
        case EntryKind.APPROVED:
            made = Approval(host, _rows(entry.detail.get("rows")), entry.actor, entry.at)
            return evolve(kept, approvals=(*_others(kept, host), made))
        case EntryKind.WITHDRAWN:
            return evolve(kept, approvals=_others(kept, host))
        case EntryKind.LABELLED:
            label, note = str(entry.detail.get("label", "")), str(entry.detail.get("note", ""))
            made_note = Note(label, note, entry.actor, entry.at)
            return evolve(kept, notes=_with(kept.notes, host, made_note if label or note else None))
        case EntryKind.PLACED:
            provider = str(entry.detail.get("provider", ""))
            return evolve(kept, placed=_with(kept.placed, host, provider or None))
        case EntryKind.DRAINED | EntryKind.UNDRAINED:
            return evolve(kept, labels=_drained(kept.labels, entry))
        case EntryKind.RETIRED:
            retired = kept.labels.retired_hosts | {host}
            return evolve(kept, labels=evolve(kept.labels, retired_hosts=retired))
        case EntryKind.UNRETIRED:
            retired = kept.labels.retired_hosts - {host}
            return evolve(kept, labels=evolve(kept.labels, retired_hosts=retired))
        case _:
            return kept


def _others(kept: Kept, host: str) -> tuple[Approval, ...]:
    return tuple(each for each in kept.approvals if each.host != host)


def _with(mapping: Mapping[str, Any], name: str, value: object) -> dict[str, Any]:
    others = {each: held for each, held in mapping.items() if each != name}
    return others if value is None else {**others, name: value}


def _drained(labels: Labels, entry: Entry) -> Labels:
    on = entry.kind is EntryKind.DRAINED
    if entry.key is not None:
        keys, one = labels.drained_keys, {entry.key}
        return evolve(labels, drained_keys=keys | one if on else keys - one)
    hosts, host = labels.drained_hosts, {entry.host}
    return evolve(labels, drained_hosts=hosts | host if on else hosts - host)


def _rows(said: object) -> tuple[HostRow, ...]:
    """Return the rows of an approval; one that is no row is left out."""
    rows = said if isinstance(said, list | tuple) else ()
    return tuple(row for each in rows if (row := _row(each)) is not None)


def _row(said: object) -> HostRow | None:
    if not isinstance(said, Mapping):
        return None
    model, port, name = said.get("model"), said.get("port"), said.get("name")
    if not isinstance(model, str) or not isinstance(port, int) or not isinstance(name, str):
        return None
    recipe = said.get("recipe")
    return HostRow(model, port, name, recipe if isinstance(recipe, str) else None)


def row_detail(row: HostRow) -> Json:
    """Return a row as an APPROVED entry holds it."""
    named = {"model": row.model, "port": row.port, "name": row.name}
    return {**named, "recipe": row.recipe} if row.recipe else named
