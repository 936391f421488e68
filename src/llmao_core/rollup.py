"""From records to what a caller is told about a model.

Rule of this file: the least private and the shortest win, and unknown is never zero.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from .config import Model
from .intended import Intended
from .records import Availability, Kind, Lifecycle, ModelView, Record
from .verdicts import DOWN

# What is down in any way and still has a route gets a part of the callers, who get errors.
_COUNTED = (Lifecycle.HEALTHY, *DOWN)
_MEMBERS = (Kind.INTENDED, Kind.DISCOVERED, Kind.COMMERCIAL)


def roll_up(
    intended: Intended, records: Iterable[Record], *, unread: bool, blind: bool
) -> tuple[ModelView, ...]:
    """Return one view per public model name, in the order of `models.yaml`.

    unread: some source has not been read, so that an uncounted model is Unknown. blind: that
    source is LiteLLM, so that nothing counts as routed.
    """
    members: dict[str, list[Record]] = defaultdict(list)
    orphans: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        if record.kind in _MEMBERS or (record.kind is Kind.UNKNOWN and _serves(record)):
            members[record.key.model].append(record)
        elif record.kind is Kind.ORPHAN and _serves(record) and not blind:
            orphans[record.row.model_name if record.row else ""].append(record)
    models: dict[str, Model] = {}
    for model in intended.config.models:
        models.setdefault(model.model_name, model)
    return tuple(
        _model(model, members[name], [] if blind else members[name], orphans[name], unread)
        for name, model in models.items()
    )


def _model(
    model: Model,
    members: Sequence[Record],
    countable: Iterable[Record],
    orphans: Sequence[Record],
    unread: bool,
) -> ModelView:
    routed = [one for one in countable if one.routed]
    unchecked = [one for one in routed if one.lifecycle is Lifecycle.CONFIGURED]
    reached = [one for one in routed if one.reached]
    counted = [one for one in routed if _driven(one)]
    healthy = [one for one in counted if one.lifecycle is Lifecycle.HEALTHY] + unchecked
    counted = counted + unchecked
    serving = healthy + reached
    lengths = [one.max_model_len for one in serving if one.max_model_len]
    judged = counted or members
    judged = [*judged, *orphans] if orphans else judged
    unseen = unread or any(one.routed and not one.fresh for one in members)
    return ModelView(
        name=model.model_name,
        display_name=model.display_name or model.model_name,
        availability=_availability(len(healthy), len(counted), len(orphans) + len(reached), unseen),
        checked=len(unchecked) < len(counted),
        private=bool(judged) and all(one.kind is not Kind.COMMERCIAL for one in judged),
        context=min(lengths, default=None),
        full_requests=_full_requests(serving, min(lengths, default=None)),
        healthy=len(healthy),
        counted=len(counted),
        keys=tuple(one.key for one in members),
        summary=_summary(members, len(orphans)),
        info={name: value for name, value in model.model_info.items() if name != "vllm"},
        orphans=tuple(one.key for one in orphans),
        reached=len(reached),
    )


def _driven(record: Record) -> bool:
    """Tell whether something fresh says how a server is: llmao's own probe, or LiteLLM alone."""
    return (record.lifecycle in _COUNTED and record.fresh) or record.reached


def _serves(record: Record) -> bool:
    """Tell whether callers are served, also by what nothing intends: until a person decides."""
    return record.lifecycle is Lifecycle.HEALTHY and record.fresh and record.routed


def _availability(healthy: int, counted: int, besides: int, unread: bool) -> Availability:
    """Return what callers get. besides: servers that serve them, and are not as they should be."""
    if besides and not healthy:
        return Availability.DEGRADED
    if not counted:
        return Availability.UNKNOWN if unread else Availability.UNAVAILABLE
    if healthy == counted:
        return Availability.AVAILABLE
    return Availability.DEGRADED if healthy else Availability.UNAVAILABLE


def _full_requests(healthy: Iterable[Record], context: int | None) -> int | None:
    """Return how many requests of full context fit at once, over boxes that tell both figures."""
    if not context:
        return None
    fits = [
        one.counters.kv_tokens // context
        for one in healthy
        if one.counters and one.counters.kv_tokens and one.max_model_len
    ]
    return sum(fits) if fits else None


def _summary(members: Sequence[Record], orphans: int) -> str:
    """Return "1 healthy, 3 loading" in the order of the life of a deployment, then what is left."""
    counts = Counter(map(_words, members))
    told = [f"{counts[words]} {words}" for words in _IN_ORDER if words in counts]
    left = f"{orphans} orphan{'s' * (orphans > 1)} still serving" if orphans else ""
    return ", ".join(part for part in (", ".join(told) or "nowhere placed", left) if part)


_WORDS = {life: life.value.lower() for life in Lifecycle} | {Lifecycle.WRONG_MODEL: "wrong model"}
_NOT_ROUTED = "healthy but not routed"
_REACHED = "reached by LiteLLM only"
_RETIRED = "retired"
_BETTER = (_WORDS[Lifecycle.HEALTHY], _REACHED, _NOT_ROUTED)
_IN_ORDER = tuple(dict.fromkeys((*_BETTER, *_WORDS.values(), _RETIRED)))


def _words(record: Record) -> str:
    """Return how a deployment counts: one that is healthy and cannot be called says why."""
    life = record.lifecycle
    if record.put_away:
        return _RETIRED
    if record.reached:
        return _REACHED
    return _NOT_ROUTED if life is Lifecycle.HEALTHY and not record.routed else _WORDS[life]
