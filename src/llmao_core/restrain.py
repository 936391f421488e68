"""What must wait although a rule wants it: witness, brake, pace, backoff, and people's leave.

Rule of this file: it looks across keys and only ever holds; a held action keeps the rule that
wanted it. llmao may be the one that lost its network, so a removal needs a second opinion.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from attrs import evolve, frozen

from .actions import ActionKind
from .config import PolicyName
from .draft import Draft
from .facts import AtRow, Gate
from .history import Cause, History, Seen
from .plan import Action, Hold, Policy
from .records import Kind, SignalKind
from .scene import Scene
from .signal import suspect_hung
from .snapshots import Opinion, Request, RequestKind

ASK_AGAIN_S = 60.0
NOT_KEPT_WRITES = 2
PACE_FRACTION = 0.1


@frozen
class Outside:
    """What else answered llmao: the newest ok of any target, the newest listing read."""

    newest: float
    listed: bool


def outside(scene: Scene, seen: Iterable[Seen]) -> Outside:
    """Return what answered llmao from outside; listed: an inventory source is configured."""
    newest = max((one.last_ok for one in seen if one.last_ok is not None), default=-math.inf)
    taken = max((one.taken_at for one in scene.listings.values()), default=-math.inf)
    return Outside(max(newest, taken), bool(scene.intervals))


def failing_since(seen: Seen | None, scene: Scene) -> float | None:
    """Return when the row's address first failed since its last ok, None while it does not."""
    if seen is None:
        return None
    if seen.first_fail is not None:
        return seen.first_fail
    return seen.silent_since if suspect_hung(seen, scene.fleet) else None


def first_outside(draft: Draft, found: Outside, scene: Scene) -> float | None:
    """Return when something else first answered since the row began to fail."""
    since = failing_since(draft.row_seen, scene)
    if since is None:
        return None
    if draft.known.outside is not None and draft.known.outside > since:
        return draft.known.outside
    return found.newest if found.newest > since else None


# ---- the second opinion


def wants_opinion(draft: Draft, found: Outside, scene: Scene) -> bool:
    """Tell whether LiteLLM should be asked about a row now: at the second failure already."""
    seen, row = draft.row_seen, draft.row
    if row is None or seen is None or draft.facts.gate is not Gate.OPEN or scene.stale(seen):
        return False
    asked_for = draft.rule.witness or draft.entry.kind in (Kind.INTENDED, Kind.DISCOVERED)
    if not asked_for or not _nearly(seen, scene):
        return False
    if not _needs_opinion(seen, draft, found):
        return False
    since = failing_since(seen, scene)
    asked = scene.health.body.asked.get(row.id) if scene.health else None
    if since is None or asked is None or asked.asked_at <= since:
        return True
    return scene.now - asked.asked_at >= ASK_AGAIN_S


def _nearly(seen: Seen, scene: Scene) -> bool:
    if seen.kind in (SignalKind.REFUSED, SignalKind.OTHER_MODEL):
        return seen.run >= 2 and not seen.open
    enough = seen.fails >= max(1, scene.fleet.health_fail_threshold - 1)
    return (seen.kind is SignalKind.FAILED and enough) or suspect_hung(seen, scene.fleet)


def _needs_opinion(seen: Seen, draft: Draft, found: Outside) -> bool:
    if seen.kind in (SignalKind.REFUSED, SignalKind.OTHER_MODEL):
        return True
    seen_outside = draft.known.outside is not None
    if seen.cause is Cause.REFUSED:
        return not seen_outside and not found.listed
    return seen_outside or not found.listed


def witness(draft: Draft, found: Outside, scene: Scene) -> Hold:
    """Return whether a removal has the witness that its evidence needs."""
    seen, row = draft.row_seen, draft.row
    if not draft.rule.witness or seen is None or row is None:
        return Hold.NOT_HELD
    since = failing_since(seen, scene)
    since = since if since is not None else seen.probed_at
    by_answer = draft.at_row in (AtRow.REFUSED, AtRow.OTHER_MODEL)
    answered = draft.known.outside
    if by_answer:
        return _second_opinion(scene.opinion(row.id), since)
    if answered is None:
        # With no inventory source and nothing else answering, LiteLLM's opinion must serve alone.
        return Hold.WITNESS if found.listed else _second_opinion(scene.opinion(row.id), since)
    if seen.cause is Cause.REFUSED:
        return Hold.NOT_HELD
    return _second_opinion(scene.opinion(row.id), max(since, answered))


def _second_opinion(opinion: Opinion | None, after: float) -> Hold:
    if opinion is None or opinion.checked_at <= after:
        return Hold.WITNESS
    return Hold.LITELLM_REACHES if opinion.healthy else Hold.NOT_HELD


# ---- the brake


def braked(draft: Draft) -> bool:
    """Tell whether an action is one that no probe decides, and that the brake counts."""
    if draft.action is None or draft.rule.by_person:
        return False
    if draft.action.kind is ActionKind.PRUNE_ORPHAN:
        return True
    told = draft.at_row in (AtRow.REFUSED, AtRow.OTHER_MODEL, AtRow.OPEN)
    asked = draft.facts.gate in (Gate.LEAVING, Gate.REBOOTING, Gate.RESTARTING)
    return draft.action.kind is ActionKind.DELETE_LITELLM and told and not asked


def brake_on(
    drafts: Sequence[Draft], history: History, policy: Policy, scene: Scene
) -> tuple[str, ...]:
    """Return the ids the brake counts when it holds them, () when it is off."""
    assert scene.deployments is not None
    brake, fleet = policy.brake, scene.fleet.name
    recent = {one for one, at in history.removed.items() if scene.now - at <= brake.window_s}
    wanted = {draft.action.litellm_id for draft in drafts if draft.action and braked(draft)}
    counted = recent | wanted
    ours = {row.id for row in scene.deployments.body.rows if row.in_db and row.fleet == fleet}
    total = len(ours | counted)
    on = wanted and len(counted) >= brake.at_least and len(counted) > brake.fraction * total
    return tuple(sorted(counted)) if on else ()


# ---- all of it


def restrain(
    drafts: Sequence[Draft], found: Outside, history: History, policy: Policy, scene: Scene
) -> list[Draft]:
    """Return the drafts with their actions held, marked and released as they must be."""
    acting = [draft for draft in drafts if draft.action is not None]
    if not acting or scene.deployments is None:
        return []
    held_ids = set(brake_on(acting, history, policy, scene))
    if any(_live(request, RequestKind.RELEASE_BRAKE, scene) for request in scene.requests):
        held_ids = set()
    pace = _Pace(drafts, scene)
    return [_restrained(draft, found, held_ids, pace, policy, scene) for draft in acting]


def _restrained(
    draft: Draft,
    found: Outside,
    held_ids: set[str],
    pace: "_Pace",
    policy: Policy,
    scene: Scene,
) -> Draft:
    action = draft.action
    assert action is not None
    hold, until = _backoff(action, scene)
    if hold is Hold.NOT_HELD:
        hold = witness(draft, found, scene)
    if hold is Hold.NOT_HELD and action.litellm_id in held_ids and braked(draft):
        hold = Hold.BRAKE
    if hold is Hold.NOT_HELD and _not_kept(draft, action):
        hold = Hold.NOT_KEPT
    if hold is Hold.NOT_HELD and not pace.allows(draft, action):
        hold = Hold.PACED
    released = next(
        (request.by for request in scene.requests if _releases(request, action, scene)), ""
    )
    return evolve(
        draft,
        action=evolve(
            action,
            hold=hold,
            until=until,
            released_by=released,
            policy=_policy(draft, action, policy),
        ),
    )


def _policy(draft: Draft, action: Action, policy: Policy) -> PolicyName:
    name = policy.kinds.get(action.kind, "auto")
    return "needs_human" if draft.rule.by_person and name == "auto" else name


def _backoff(action: Action, scene: Scene) -> tuple[Hold, float | None]:
    write = scene.writes.get(action.litellm_id)
    if write is None or write.kind is not action.kind or not write.failures:
        return Hold.NOT_HELD, None
    if write.next_try is None or write.next_try <= scene.now:
        return Hold.NOT_HELD, None
    return Hold.BACKOFF, write.next_try


def _not_kept(draft: Draft, action: Action) -> bool:
    """Tell whether LiteLLM has read back otherwise what was written twice."""
    known = draft.row_known
    deployment = draft.aim.deployment if draft.aim else draft.entry.deployment
    if known is None or deployment is None or not action.kind.writes:
        return False
    limit = NOT_KEPT_WRITES + (draft.row is not None and not draft.row.live)
    return known.kept_wrong >= limit and known.hash == deployment.body.hash


def _releases(request: Request, action: Action, scene: Scene) -> bool:
    return (
        _live(request, RequestKind.RUN, scene)
        and request.key == action.key
        and request.kind is action.kind
        and request.digest == action.digest
    )


def _live(request: Request, kind: RequestKind, scene: Scene) -> bool:
    return request.request is kind and request.at <= scene.now < request.expires_at


class _Pace:
    """Pure body changes of a model: a tenth of its rows, at least one, per poll interval."""

    def __init__(self, drafts: Sequence[Draft], scene: Scene) -> None:
        rows = Counter(draft.entry.key.model for draft in drafts if draft.entry.rows)
        self._left: dict[str, int] = {
            model: max(1, int(count * PACE_FRACTION)) for model, count in rows.items()
        }
        for write in scene.writes.values():
            recent = scene.now - write.began < scene.poll_s
            if recent and write.kind in (ActionKind.UPDATE_LITELLM, ActionKind.REPLACE_LITELLM):
                self._left[write.key.model] = self._left.get(write.key.model, 0) - 1

    def allows(self, draft: Draft, action: Action) -> bool:
        """Take one place of the model's, if this action needs one."""
        if draft.rule.name not in _PACED:
            return True
        model = action.key.model
        self._left[model] = self._left.get(model, 1) - 1
        return self._left[model] >= 0


_PACED = frozenset({"body-differs", "field-must-go"})


def asks(drafts: Iterable[Draft], found: Outside, scene: Scene) -> tuple[str, ...]:
    """Return the LiteLLM ids whose health is to be asked now."""
    return tuple(
        draft.row.id
        for draft in drafts
        if draft.row is not None and wants_opinion(draft, found, scene)
    )


def reads(drafts: Iterable[Draft], scene: Scene) -> Mapping[str, float]:
    """Return what must be read again: a listing for a witness, deployments after a write."""
    wanted: dict[str, float] = {}
    for draft in drafts:
        since = failing_since(draft.row_seen, scene) if draft.row else None
        if since is not None and draft.known.outside is None:
            # A read that began with the failing probe does not count as one after it.
            after = math.nextafter(since, math.inf)
            for provider in scene.intervals:
                wanted[provider] = max(wanted.get(provider, after), after)
    for litellm_id, write in scene.writes.items():
        if write.kind is ActionKind.REBOOT_BOX:
            continue
        until = scene.pending_until(litellm_id)
        if until is not None and until != math.inf:
            wanted["litellm"] = min(wanted.get("litellm", until), until)
    return wanted


def removed_now(
    drafts: Iterable[Draft], history: History, scene: Scene, window_s: float
) -> Mapping[str, float]:
    """Return the removals the brake counts, with those of this pass that run."""
    kept = {one: at for one, at in history.removed.items() if scene.now - at <= window_s}
    for draft in drafts:
        if draft.action and draft.action.runs and braked(draft):
            kept.setdefault(draft.action.litellm_id, scene.now)
    return kept if kept != history.removed else history.removed
