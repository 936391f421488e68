"""From records to the rows of the store, and back.

Rule of this file: pure. What is too large to be kept is refused before anything is written; a
row that says nothing to this program is left out.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from cattrs import BaseValidationError, Converter
from cattrs.strategies import configure_tagged_union
from sqlalchemy import Row

from llmao_core.config import Json
from llmao_core.keys import Key
from llmao_core.protocol import ASSIGNMENTS_KEPT, BoxEvent, Fetch
from llmao_core.snapshots import Request

from .ledger import Entry, EntryKind, Numbered, leaves_nothing, slot
from .store import Fetches, NotKept, Sample, Told, Transition, fetched, without_bearers

LONGEST_NAME = 2_048
LONGEST_DETAIL = 65_536

_FIGURES = ("running", "waiting", "kv_used", "tokens_per_s", "first_token_s")
_KINDS = {kind.value: kind for kind in EntryKind}

Values = dict[str, Any]

_converter = Converter()
# cattrs takes a union, which is no type.
_TOLD: Any = BoxEvent | Request
configure_tagged_union(_TOLD, _converter)


def key_id(key: Key) -> int:
    """Return 64 bits of a key's hash, which stand for it where there are millions of rows."""
    digest = hashlib.sha256(json.dumps([key.base, key.model]).encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


# ---- to rows


def entry_row(entry: Entry) -> Values:
    """Return the row of an entry; NotKept when it is larger than one may be."""
    return {
        "at": _time(entry.at),
        "actor": _name(entry.actor),
        "kind": entry.kind.value,
        "host": _name(entry.host),
        **_key_values(entry.key),
        "detail": _detail(entry.detail),
        "slot": slot(entry) or None,
        "leaves_nothing": int(leaves_nothing(entry)),
    }


def transition_row(moved: Transition) -> Values:
    """Return the row of a transition."""
    return {
        "at": _time(moved.at),
        **_key_values(moved.key),
        "before": _name(moved.before),
        "after": _name(moved.after),
    }


def sample_row(sample: Sample) -> Values:
    """Return the row of a sample; a figure that is no number is one vLLM did not say."""
    figures = {name: _figure(getattr(sample, name)) for name in _FIGURES}
    over_s = int(sample.over_s)
    return {"key_id": key_id(sample.key), "over_s": over_s, "at": _time(sample.at), **figures}


def fetch_rows(noted: Iterable[tuple[BoxEvent | Request, float]]) -> list[Values]:
    """Return one row per host that fetched, several fetches of one host put together."""
    found: dict[str, Fetches] = {}
    for event, at in noted:
        if isinstance(event, Fetch) and _fits(event.host, event.handed_out, event.applied):
            found[event.host] = fetched(found.get(event.host), event, _time(at))
    return [
        {
            "host": host,
            "first": each.first,
            "last": each.last,
            "handed_out": each.handed_out,
            "applied": each.applied,
        }
        for host, each in sorted(found.items())
    ]


def assignment_rows(noted: Iterable[tuple[BoxEvent | Request, float]]) -> list[Values]:
    """Return what hosts are told, without anything of a bearer, each revision once."""
    found: dict[tuple[str, str], Values] = {}
    for event, at in noted:
        if not isinstance(event, Fetch) or event.assignment is None or not _fits(event.host):
            continue
        named = (event.host, str(event.assignment.get("revision", "")))
        what = without_bearers(event.assignment)
        if len(json.dumps(what)) <= LONGEST_DETAIL:
            row = {"host": event.host, "revision": named[1], "at": _time(at), "what": what}
            found[named] = row
    return [found[named] for named in sorted(found)]


def told_rows(noted: Iterable[tuple[BoxEvent | Request, float]], replica: str) -> list[Values]:
    """Return the rows of what a replica tells; what is too long is left out."""
    rows = []
    for what, at in noted:
        whole = _converter.unstructure(what, unstructure_as=_TOLD)
        # That a box asked matters more than what it was told.
        tries = (whole, {**whole, "assignment": None})
        made = next((each for each in tries if len(json.dumps(each)) <= LONGEST_DETAIL), None)
        if made is not None:
            rows.append({"at": _time(at), "replica": replica, "what": made})
    return rows


def _detail(detail: Json) -> Json:
    try:
        size = len(json.dumps(dict(detail)))
    except (TypeError, ValueError, RecursionError):
        raise NotKept("The detail of an entry is no JSON, so it cannot be kept.") from None
    if size > LONGEST_DETAIL:
        raise NotKept(f"This is too long to be kept: more than {LONGEST_DETAIL} characters.")
    return dict(detail)


def _key_values(key: Key | None) -> Values:
    if key is None:
        return dict.fromkeys(("key_id", "key_base", "key_model", "key_shown"))
    return {
        "key_id": key_id(key),
        "key_base": _name(key.base),
        "key_model": _name(key.model),
        "key_shown": _name(key.shown),
    }


def _name(text: str) -> str:
    if not _fits(text):
        raise NotKept(f"A name is too long to be kept: more than {LONGEST_NAME} characters.")
    return text


def _fits(*texts: str) -> bool:
    """Tell whether these can be looked for: PostgreSQL's indices hold no longer ones."""
    return all(len(json.dumps(text)) <= LONGEST_NAME for text in texts)


def _time(at: float) -> float:
    if not math.isfinite(at):
        raise NotKept("This has no time, so it cannot be kept.")
    return float(at)


def _figure(value: float | None) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None


# ---- from rows


def numbered(row: Row[Any]) -> Numbered | None:
    """Return the entry of a row; None when its kind is one of a later llmao."""
    kind = _KINDS.get(row.kind)
    if kind is None:
        return None
    entry = Entry(row.at, row.actor, kind, row.host, key_of(row), row.detail)
    return Numbered(row.number, entry)


def transition(row: Row[Any]) -> Transition | None:
    """Return the transition of a row."""
    key = key_of(row)
    return Transition(row.at, key, row.before, row.after) if key else None


def sample(row: Row[Any], key: Key) -> Sample:
    """Return the sample of a row of this key."""
    figures: Mapping[str, Any] = {name: getattr(row, name) for name in _FIGURES}
    return Sample(row.at, key, **figures, over_s=float(row.over_s))


def fetches_of(rows: Iterable[Row[Any]]) -> dict[str, Fetches]:
    """Return what hosts fetched, by name."""
    return {row.host: Fetches(row.first, row.last, row.handed_out, row.applied) for row in rows}


def assignments_of(rows: Iterable[Row[Any]]) -> dict[str, dict[str, Json]]:
    """Return the newest that each host was told, by name and revision; rows: oldest first."""
    found: dict[str, dict[str, Json]] = {}
    for row in rows:
        found.setdefault(row.host, {})[row.revision] = row.what
    return {host: dict([*told.items()][-ASSIGNMENTS_KEPT:]) for host, told in found.items()}


def told(row: Row[Any]) -> Told | None:
    """Return what a row tells; None when a replica of another age wrote it."""
    try:
        return Told(row.number, row.at, _converter.structure(row.what, _TOLD))
    except (BaseValidationError, KeyError, TypeError, ValueError):
        return None


def key_of(row: Row[Any]) -> Key | None:
    """Return the key in a row; None when it holds none."""
    if row.key_base is None or row.key_model is None:
        return None
    return Key(row.key_base, row.key_model, row.key_shown or "")
