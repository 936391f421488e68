"""The ledger: what people decided and what llmao did, as entries; and what they add up to.

Rule of this file: an entry is never changed. What is kept for reconcile is the fold of all of
them, so that two processes which read the same entries know the same.
"""

import enum
import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import TypeVar

from attrs import field, frozen

from llmao_core.actions import Outcome
from llmao_core.config import HostRow, Json
from llmao_core.intended import Approval, Labels
from llmao_core.keys import Key
from llmao_core.plan import Action

T = TypeVar("T")
# What a PRESSED entry is of that called off a reboot.
CALLED_OFF = "cancel_reboot"


class EntryKind(enum.Enum):
    """Everything the ledger holds; the value is what logs and the API call it."""

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
    BEGUN = "begun"
    LAPSED = "lapsed"
    CHECKED = "checked"
    CONFIG_CHECKED = "configuration checked"
    RELOADED = "reloaded"
    OUTSIDE_EDIT = "outside edit"
    REFUSED = "refused"
    SIGNED_IN = "signed in"

    @property
    def words(self) -> str:
        """Return what pages call it."""
        return _WORDS.get(self, self.value)


_WORDS = {EntryKind.PLACED: "found", EntryKind.PRESSED: "asked for"}

_DRAINS = frozenset({EntryKind.DRAINED, EntryKind.UNDRAINED})
# What the fold rests on, and which of them speak of the same thing.
_FACETS = {
    EntryKind.APPROVED: "approval",
    EntryKind.WITHDRAWN: "approval",
    EntryKind.LABELLED: "note",
    EntryKind.DRAINED: "drain",
    EntryKind.UNDRAINED: "drain",
    EntryKind.RETIRED: "retirement",
    EntryKind.UNRETIRED: "retirement",
    EntryKind.PLACED: "place",
}
FOLDED = frozenset(_FACETS)


@frozen
class Entry:
    """One thing that was decided or done.

    at: epoch seconds. actor: `llmao`, or who pressed. host: normalised, "" when it is about a
    key or about nothing. detail: JSON, by kind: APPROVED `rows`, LABELLED `label` and `note`,
    PLACED `provider` ("" forgets), PRESSED `request`, BEGUN `target`, SIGNED_IN `mode`, ACTION
    what `carried_out` writes, others free.
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


def placements(before: Mapping[str, str], after: Mapping[str, str], at: float) -> tuple[Entry, ...]:
    """Return the entries that turn one set of placements into another."""
    return tuple(
        Entry(at, "llmao", EntryKind.PLACED, host, detail={"provider": after.get(host, "")})
        for host in sorted(before.keys() | after.keys())
        if before.get(host, "") != after.get(host, "")
    )


def slot(entry: Entry) -> str:
    """Return what an entry has the last word on, as 64 hex digits; "" when it is not folded.

    The newest entry of every slot folds to the same as all of them.
    """
    if entry.kind not in FOLDED:
        return ""
    key = entry.key if entry.kind in _DRAINS else None
    about = [entry.host] if key is None else [key.base, key.model]
    return hashlib.sha256(json.dumps([_FACETS[entry.kind], *about]).encode()).hexdigest()


def leaves_nothing(entry: Entry) -> bool:
    """Tell whether an entry only takes back what others of its slot said."""
    return fold((entry,)) == Kept()


def fold(entries: Iterable[Entry], kept: Kept | None = None) -> Kept:
    """Return what entries, oldest first, make of what was kept before them."""
    folding = _Folding(kept or Kept())
    for entry in entries:
        folding.take(entry)
    return folding.kept()


class _Folding:
    """What is kept, while entries are folded in: copied once, not per entry."""

    def __init__(self, kept: Kept) -> None:
        self._approvals = {each.host: each for each in kept.approvals}
        self._notes = dict(kept.notes)
        self._placed = dict(kept.placed)
        self._drained_hosts = set(kept.labels.drained_hosts)
        self._drained_keys = set(kept.labels.drained_keys)
        self._retired_hosts = set(kept.labels.retired_hosts)

    def kept(self) -> Kept:
        labels = Labels(
            frozenset(self._drained_hosts),
            frozenset(self._drained_keys),
            frozenset(self._retired_hosts),
        )
        return Kept(tuple(self._approvals.values()), labels, self._notes, self._placed)

    def take(self, entry: Entry) -> None:
        match entry.kind:
            case EntryKind.APPROVED:
                rows = _rows(entry.detail.get("rows"))
                approval = Approval(entry.host, rows, entry.actor, entry.at)
                _put(self._approvals, entry.host, approval)
            case EntryKind.WITHDRAWN:
                _put(self._approvals, entry.host, None)
            case EntryKind.LABELLED:
                _put(self._notes, entry.host, _note(entry))
            case EntryKind.PLACED:
                _put(self._placed, entry.host, str(entry.detail.get("provider", "")) or None)
            case EntryKind.DRAINED | EntryKind.UNDRAINED:
                self._drain(entry, on=entry.kind is EntryKind.DRAINED)
            case EntryKind.RETIRED:
                self._retired_hosts.add(entry.host)
            case EntryKind.UNRETIRED:
                self._retired_hosts.discard(entry.host)
            case _:
                pass

    def _drain(self, entry: Entry, *, on: bool) -> None:
        if entry.key is not None:
            (self._drained_keys.add if on else self._drained_keys.discard)(entry.key)
        else:
            (self._drained_hosts.add if on else self._drained_hosts.discard)(entry.host)


def _put(mapping: dict[str, T], name: str, value: T | None) -> None:
    mapping.pop(name, None)
    if value is not None:
        mapping[name] = value


def _note(entry: Entry) -> Note | None:
    label, note = str(entry.detail.get("label", "")), str(entry.detail.get("note", ""))
    return Note(label, note, entry.actor, entry.at) if label or note else None


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
