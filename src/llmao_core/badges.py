"""The badges of a record: skew that is worth a word, and never decides anything.

Rule of this file: a badge is read off what is known of one key; those that compare keys with
each other come last, in `across`.
"""

from collections import defaultdict
from collections.abc import Sequence

from .classify import Aim
from .draft import Draft
from .facts import Base, Gate, Route, Want
from .history import Canary, Seen
from .keys import normalise_base
from .records import Badge, Kind, Lifecycle, LitellmSignal, Record, SignalKind
from .scene import Scene
from .signal import saturated_s, suspect_hung

_SHOULD_BE_ROUTED = (Lifecycle.HEALTHY, Lifecycle.CONFIGURED)
_NOT_BOXES = (Kind.COMMERCIAL, Kind.FOREIGN)
_WANTED = (Want.INTENDED, Want.COMMERCIAL, Want.DISCOVERED)
# Nothing is known of its route, or somebody wants it out: to wait for the next pass is no help.
_KEPT_OUT = (Gate.BLIND, Gate.PENDING, Gate.LEAVING, Gate.REBOOTING, Gate.RESTARTING)


def badges(draft: Draft, litellm: LitellmSignal, behind: bool, scene: Scene) -> tuple[Badge, ...]:
    """Return the badges of one key, in the order of the closed list."""
    found = set(draft.difference.badges)
    _of_rows(draft, found)
    if draft.entry.place.ambiguous:
        found.add(Badge.AMBIGUOUS)
    if behind:
        found.add(Badge.REVISION_BEHIND)
    if draft.aim is not None:
        _of_box(draft, draft.aim, found)
        if draft.aim.seen is not None and not draft.aim.stale:
            _of_skew(draft, draft.aim.seen, litellm, found)
            _of_server(draft.aim.seen, draft.aim, scene, found)
    if draft.life is Lifecycle.WRONG_MODEL:
        found.add(Badge.WRONG_MODEL)
    return in_order(found)


def in_order(found: set[Badge]) -> tuple[Badge, ...]:
    """Return badges in the order of the closed list."""
    return tuple(badge for badge in Badge if badge in found) if found else ()


def _of_rows(draft: Draft, found: set[Badge]) -> None:
    facts, entry = draft.facts, draft.entry
    if facts.route is Route.NONE:
        unrouted = facts.want in _WANTED and draft.life in _SHOULD_BE_ROUTED
        if unrouted and facts.gate not in _KEPT_OUT:
            found.add(Badge.INTENDED_NOT_IN_LITELLM)
        return
    if entry.kind is Kind.ORPHAN:
        found.add(Badge.LITELLM_ONLY)
    if facts.route is Route.SEVERAL or (entry.copies and any(row.in_db for row in entry.copies)):
        found.add(Badge.DUPLICATE)
    if facts.base is Base.ELSEWHERE and draft.row is not None:
        listens = draft.row.base == normalise_base(entry.key.base)
        moved = listens and draft.known.dialable != draft.row.base
        found.add(Badge.AT_LISTEN_PORT if moved else Badge.API_BASE_MISMATCH)


def _of_box(draft: Draft, aim: Aim, found: set[Badge]) -> None:
    if not draft.known.dialable:
        found.add(Badge.UNPLACED)
    if len(draft.known.removals) > 1:
        found.add(Badge.FLAPPING)
    if aim.previous:
        found.add(Badge.BEARER_PENDING)


def _of_skew(draft: Draft, seen: Seen, litellm: LitellmSignal, found: set[Badge]) -> None:
    entry, opinion = draft.entry, draft.opinion
    if not entry.rows or litellm is LitellmSignal.UNKNOWN:
        return
    up = litellm is LitellmSignal.UP
    if seen.kind in (SignalKind.OK, SignalKind.BUSY) and not up:
        found.add(Badge.VLLM_UP_LITELLM_DOWN)
    # What LiteLLM saw before llmao's probes failed says nothing of now.
    newer = opinion is not None and opinion.checked_at > (seen.first_fail or 0.0)
    if seen.kind is SignalKind.FAILED and up and newer:
        found.add(Badge.VLLM_DOWN_LITELLM_UP)
    # An orphan has no box of ours that could fetch a newer bearer.
    refused = seen.kind is SignalKind.REFUSED and not seen.open
    if refused and up and entry.kind not in (Kind.ORPHAN, Kind.UNKNOWN):
        found.add(Badge.BEARER_PENDING)


def _of_server(seen: Seen, aim: Aim, scene: Scene, found: set[Badge]) -> None:
    recipe, served, counters = aim.deployment.recipe, seen.max_model_len, seen.counters
    if recipe and recipe.max_model_len and served and served != recipe.max_model_len:
        found.add(Badge.MAX_LEN_DIFFERS)
    if seen.open_paths:
        found.add(Badge.OPEN_PATHS)
    if seen.kind is SignalKind.BUSY:
        found.add(Badge.BUSY)
    if seen.hung or (seen.silent_since is not None and suspect_hung(seen, scene.fleet)):
        found.add(Badge.HUNG)
    if seen.queued_since is not None and saturated_s(seen):
        found.add(Badge.SATURATED)
    if seen.canary is Canary.DECLINED:
        found.add(Badge.CANARY_REFUSED)
    if served and counters and counters.kv_tokens and served > counters.kv_tokens:
        found.add(Badge.OVERSIZED)


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
    return record if len(found) == len(record.badges) else record._replace(badges=in_order(found))
