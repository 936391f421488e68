"""The badges of a record: skew that is worth a word, and never decides anything.

Rule of this file: a badge is read off what is known of one key; those that compare keys with
each other come last, in `across`.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from attrs import evolve

from .classify import Aim
from .draft import Draft
from .facts import Base, Gate, Route, Want
from .history import Canary, Seen
from .join import Joined
from .keys import normalise_base
from .records import Badge, Kind, Lifecycle, LitellmSignal, Record, SignalKind
from .scene import Scene
from .signal import suspect_hung

_SHOULD_BE_ROUTED = (Lifecycle.HEALTHY, Lifecycle.CONFIGURED)
_NOT_BOXES = (Kind.COMMERCIAL, Kind.FOREIGN)
_WANTED = (Want.INTENDED, Want.COMMERCIAL, Want.DISCOVERED)


def badges(draft: Draft, litellm: LitellmSignal, behind: bool, scene: Scene) -> tuple[Badge, ...]:
    """Return the badges of one key, in the order of the closed list."""
    found = [*draft.difference.badges, *_of_rows(draft)]
    if draft.entry.place.ambiguous:
        found.append(Badge.AMBIGUOUS)
    if behind:
        found.append(Badge.REVISION_BEHIND)
    if draft.aim is not None:
        found += _of_box(draft, draft.aim, litellm, scene)
    if draft.life is Lifecycle.WRONG_MODEL:
        found.append(Badge.WRONG_MODEL)
    return in_order(set(found)) if found else ()


def in_order(found: set[Badge]) -> tuple[Badge, ...]:
    """Return badges in the order of the closed list."""
    return tuple(badge for badge in Badge if badge in found) if found else ()


def _of_rows(draft: Draft) -> Iterator[Badge]:
    facts, entry = draft.facts, draft.entry
    if facts.route is Route.NONE:
        unrouted = facts.want in _WANTED and draft.life in _SHOULD_BE_ROUTED
        if unrouted and facts.gate not in (Gate.BLIND, Gate.PENDING, Gate.LEAVING):
            yield Badge.INTENDED_NOT_IN_LITELLM
        return
    if entry.kind is Kind.ORPHAN:
        yield Badge.LITELLM_ONLY
    if facts.route is Route.SEVERAL or (entry.copies and any(row.in_db for row in entry.copies)):
        yield Badge.DUPLICATE
    if facts.base is Base.ELSEWHERE and draft.row is not None:
        listens = draft.row.base == normalise_base(entry.key.base)
        moved = listens and draft.known.dialable != draft.row.base
        yield Badge.AT_LISTEN_PORT if moved else Badge.API_BASE_MISMATCH


def _of_box(draft: Draft, aim: Aim, litellm: LitellmSignal, scene: Scene) -> Iterator[Badge]:
    if not draft.known.dialable:
        yield Badge.UNPLACED
    if len(draft.known.removals) > 1:
        yield Badge.FLAPPING
    if aim.previous:
        yield Badge.BEARER_PENDING
    seen = aim.seen
    if seen is None or scene.stale(seen):
        return
    yield from _of_skew(draft.entry, seen, litellm)
    yield from _of_server(seen, aim, scene)


def _of_skew(entry: Joined, seen: Seen, litellm: LitellmSignal) -> Iterator[Badge]:
    if not entry.rows:
        return
    if seen.kind in (SignalKind.OK, SignalKind.BUSY) and litellm is LitellmSignal.DOWN:
        yield Badge.VLLM_UP_LITELLM_DOWN
    if seen.kind is SignalKind.FAILED and litellm is LitellmSignal.UP:
        yield Badge.VLLM_DOWN_LITELLM_UP
    if seen.kind is SignalKind.REFUSED and litellm is LitellmSignal.UP and not seen.open:
        yield Badge.BEARER_PENDING


def _of_server(seen: Seen, aim: Aim, scene: Scene) -> Iterator[Badge]:
    recipe, served = aim.deployment.recipe, seen.max_model_len
    if recipe and recipe.max_model_len and served and served != recipe.max_model_len:
        yield Badge.MAX_LEN_DIFFERS
    if seen.open_paths:
        yield Badge.OPEN_PATHS
    if seen.kind is SignalKind.BUSY:
        yield Badge.BUSY
    if seen.hung or suspect_hung(seen, scene.fleet):
        yield Badge.HUNG
    if seen.canary is Canary.DECLINED:
        yield Badge.CANARY_REFUSED
    if served and seen.counters and seen.counters.kv_tokens and (served > seen.counters.kv_tokens):
        yield Badge.OVERSIZED


def across(records: Sequence[Record]) -> tuple[Record, ...]:
    """Return the records with the badges that compare keys: uneven pools, one server twice."""
    first: dict[str, str] = {}
    twice = set()
    for one in records:
        box = one.dialable and one.kind not in _NOT_BOXES
        if box and first.setdefault(one.dialable, one.key.base) != one.key.base:
            twice.add(one.dialable)
    lengths: dict[str, set[int]] = defaultdict(set)
    for one in records:
        if one.lifecycle is Lifecycle.HEALTHY and one.max_model_len:
            lengths[one.key.model].add(one.max_model_len)
    uneven = {model for model, seen in lengths.items() if len(seen) > 1}
    if not uneven and not twice:
        return tuple(records)
    return tuple(_with(one, uneven, twice) for one in records)


def _with(record: Record, uneven: set[str], twice: set[str]) -> Record:
    found = set(record.badges)
    if (
        record.key.model in uneven
        and record.lifecycle is Lifecycle.HEALTHY
        and (record.max_model_len)
    ):
        found.add(Badge.POOL_UNEVEN)
    if record.dialable in twice and record.kind not in _NOT_BOXES:
        found.add(Badge.SAME_SERVER)
    return record if len(found) == len(record.badges) else evolve(record, badges=in_order(found))
