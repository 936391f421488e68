"""What the prober does next: which targets, with which bearer, and which steps are due.

Rule of this file: everything due is worked out from what has been seen; the prober only dials.
"""

from collections.abc import Iterable

from .classify import lacks_proof, proof_since
from .draft import Draft
from .facts import Gate
from .history import Cause, KeyHistory, Seen
from .intended import Deployment
from .join import Exploration
from .probes import Target
from .records import Kind, ProbeSpec, SignalKind
from .scene import Scene
from .signal import METRICS_INTERVAL_S, suspect_hung

RETRY_S = 1.0
IDENTITY_EVERY = 10
CANARY_AGAIN_S = 15.0
HUNG_AGAIN_S = 60.0
OPEN_AGAIN_S = 3600.0


def probe_specs(
    drafts: Iterable[Draft], explore: Iterable[Exploration], scene: Scene
) -> tuple[ProbeSpec, ...]:
    """Return one spec per target, in a fixed order; two keys at one target share it."""
    specs: dict[Target, ProbeSpec] = {}
    for draft in drafts:
        for target, deployment in _targets(draft):
            spec = _spec(draft, target, deployment, scene)
            known = specs.get(target)
            specs[target] = spec if known is None else _merge(known, spec)
    for one in explore:
        target = Target(one.base, one.deployment.bearer_id)
        if target not in specs:
            specs[target] = _exploring(one, target, scene)
    return tuple(specs.values())


def _targets(draft: Draft) -> Iterable[tuple[Target, Deployment]]:
    deployment, targets = draft.entry.deployment, draft.targets
    if deployment is None:
        return
    if targets.main:
        yield targets.main, deployment
    older = deployment.previous
    if older and targets.previous and not _proven(draft.known, targets.main):
        yield targets.previous, older
    for target in targets.rows:
        carried = older if older and target.bearer_id == older.bearer_id else deployment
        if target not in (targets.main, targets.previous):
            yield target, carried


def _proven(known: KeyHistory, target: Target | None) -> bool:
    seen = known.seen.get(target) if target else None
    return seen is not None and seen.identity


def _spec(draft: Draft, target: Target, deployment: Deployment, scene: Scene) -> ProbeSpec:
    assert deployment.bearer is not None
    seen = draft.known.seen.get(target)
    if seen is None:
        # A probe made before the instance changed told of another one: that one is not the answer.
        due_at = draft.known.reset or 0.0
        return ProbeSpec(target, deployment.bearer, deployment.served, deployment.mode, due_at)
    due_at = _due_at(seen, scene)
    canaries, canary_due, open_due = 0, None, None
    if draft.aim and draft.aim.target == target:
        canaries, canary_due = _canaries(draft, seen, scene)
        open_due = _open_due(seen, scene)
    elif seen.hung or suspect_hung(seen, scene.fleet):
        canaries, canary_due = _hung_canaries(seen, scene)
    return ProbeSpec(
        target,
        deployment.bearer,
        deployment.served,
        deployment.mode,
        due_at,
        _identity_due(seen),
        _metrics_due(seen, due_at, scene),
        canaries,
        canary_due,
        open_due,
    )


def _due_at(seen: Seen, scene: Scene) -> float:
    """Return when to probe next: suspects early, and so that a slow failure counts on time."""
    fleet = scene.fleet
    if seen.kind is SignalKind.FAILED and seen.cause is not Cause.HUNG:
        early = seen.probed_at + seen.took_s + RETRY_S
        if seen.cause is Cause.REFUSED or seen.counted is None:
            return early
        full = seen.counted + fleet.health_interval_s
        return full if early < full < early + fleet.health_timeout_s else early
    due_at = seen.probed_at + fleet.health_interval_s
    if seen.silent_since is not None and fleet.canary.enabled:
        suspect_at = seen.silent_since + fleet.canary.silent_s
        if seen.probed_at < suspect_at:
            due_at = min(due_at, suspect_at)
    return due_at


def _identity_due(seen: Seen) -> bool:
    """Tell whether to ask who answers: until it is proven, and every tenth time it is ok.

    A suspect that has only timed out is still proven, and is not asked: a busy engine is slow
    with that, too, and its counters, which show that it works, would not be read.
    """
    tenth = seen.kind is SignalKind.OK and seen.checked + 1 >= IDENTITY_EVERY
    return not seen.identity or tenth


def _metrics_due(seen: Seen, due_at: float, scene: Scene) -> bool:
    """Tell whether to read the counters: every 15 s, and each time while requests run."""
    if seen.metrics_at is None or seen.kind is not SignalKind.OK or seen.hung:
        return True
    running = seen.counters is not None and seen.counters.running > 0
    return running or due_at - seen.metrics_at >= METRICS_INTERVAL_S - scene.fleet.health_timeout_s


def _canaries(draft: Draft, seen: Seen, scene: Scene) -> tuple[int, float | None]:
    if seen.hung or suspect_hung(seen, scene.fleet):
        return _hung_canaries(seen, scene)
    if not _wants_proof(draft, seen, scene):
        return 0, None
    asked = seen.canary_at
    again = (
        asked is None or asked < proof_since(draft.known) or (scene.now - asked >= CANARY_AGAIN_S)
    )
    return (1, scene.now) if again else (0, None)


def _wants_proof(draft: Draft, seen: Seen, scene: Scene) -> bool:
    """Tell whether an add waits for nothing but a canary."""
    if draft.aim is None or draft.entry.rows or scene.deployments is None:
        return False
    if draft.facts.gate is not Gate.OPEN or draft.entry.kind is Kind.ORPHAN:
        return False
    if seen.kind is not SignalKind.OK or not seen.identity:
        return False
    return lacks_proof(draft.known, draft.aim, scene) != "" and scene.fleet.canary.enabled


def _hung_canaries(seen: Seen, scene: Scene) -> tuple[int, float | None]:
    """Ask a hung engine again, too: without its row no traffic can show that it moves."""
    asked, silent_since = seen.canary_at, seen.silent_since
    again = (
        asked is None
        or (silent_since is not None and asked < silent_since)
        or scene.now - asked >= HUNG_AGAIN_S
    )
    return (scene.fleet.health_fail_threshold, scene.now) if again else (0, None)


def _open_due(seen: Seen, scene: Scene) -> float | None:
    if seen.kind is not SignalKind.OK or not seen.identity:
        return None
    if seen.open_at is None or scene.now - seen.open_at >= OPEN_AGAIN_S:
        return scene.now
    return None


def _merge(one: ProbeSpec, other: ProbeSpec) -> ProbeSpec:
    return one._replace(
        due_at=min(one.due_at, other.due_at),
        identity=one.identity or other.identity,
        metrics=one.metrics or other.metrics,
        canaries=max(one.canaries, other.canaries),
        canary_due=one.canary_due if one.canary_due is not None else other.canary_due,
        open_due=one.open_due if one.open_due is not None else other.open_due,
    )


def _exploring(one: Exploration, target: Target, scene: Scene) -> ProbeSpec:
    """Return the spec of a port nobody intended: asked who it is, at the pace of the skew read."""
    report = scene.probes.reports.get(target)
    due_at = report.probed_at + scene.fleet.skew_interval_s if report else 0.0
    deployment = one.deployment
    assert deployment.bearer is not None
    return ProbeSpec(target, deployment.bearer, deployment.served, "none", due_at, metrics=False)
