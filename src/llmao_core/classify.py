"""From what is known of a key to facts: all the looking happens here.

Rule of this file: ages against limits, counts against thresholds, addresses against each other;
it ends in enums and says nothing of what to do.
"""

from attrs import define

from .drift import Difference
from .facts import (
    AtRow,
    Base,
    Evidence,
    Gate,
    Handout,
    LifeFacts,
    Named,
    Passes,
    PlanFacts,
    Ready,
    Route,
    RowSeen,
    Served,
    Want,
)
from .fold import Watch, announced, leaving, to_reboot
from .history import History, KeyHistory, RowHistory, Seen
from .intended import Deployment
from .join import Joined
from .probes import Target
from .records import Kind, Lifecycle, LitellmSignal, SignalKind
from .scene import Scene
from .snapshots import Opinion, Row

REJECTED_PASSES = 3
ORPHAN_PASSES = 3
MAX_OKS = 32


@define
class Aim:
    """Which bearer is the one to go by: its target, what probes showed there, its deployment.

    stale: what probes showed is too old to rest on, or nothing.
    """

    deployment: Deployment
    target: Target | None
    seen: Seen | None
    stale: bool
    previous: bool = False


def aim_of(entry: Joined, known: KeyHistory, targets: Watch, scene: Scene) -> Aim | None:
    """Choose between the bearer and, while the box still runs it, the previous one."""
    deployment = entry.deployment
    if deployment is None or deployment.bearer is None:
        return None
    main = known.seen.get(targets.main) if targets.main else None
    older = known.seen.get(targets.previous) if targets.previous else None
    if (
        deployment.previous is not None
        and older is not None
        and older.identity
        and not (main and main.identity)
    ):
        return Aim(deployment.previous, targets.previous, older, scene.stale(older), previous=True)
    return Aim(deployment, targets.main, main, main is None or scene.stale(main))


# ---- the lifecycle


def said(opinion: Opinion | None) -> LitellmSignal:
    """Return an opinion as a signal."""
    if opinion is None:
        return LitellmSignal.UNKNOWN
    return LitellmSignal.UP if opinion.healthy else LitellmSignal.DOWN


_BY_LITELLM = {
    LitellmSignal.UP: Evidence.LITELLM_UP,
    LitellmSignal.DOWN: Evidence.LITELLM_DOWN,
    LitellmSignal.UNKNOWN: Evidence.LITELLM_UNKNOWN,
}


def life_facts(
    entry: Joined,
    known: KeyHistory,
    aim: Aim | None,
    litellm: LitellmSignal,
    scene: Scene,
    addresses: frozenset[str],
) -> LifeFacts:
    """Return what decides the lifecycle of a key."""
    evidence = _BY_LITELLM[litellm] if aim is None else _evidence(aim, scene)
    return LifeFacts(
        evidence,
        _served(known),
        _handout(known, scene),
        RowSeen.YES if known.row_seen else RowSeen.NO,
        _named(evidence, entry, known, scene, addresses),
    )


def _evidence(aim: Aim, scene: Scene) -> Evidence:
    seen = aim.seen
    if seen is None or aim.stale:
        return Evidence.UNSEEN
    kind = seen.kind
    if kind is SignalKind.OK:
        return Evidence.OK
    if kind is SignalKind.FAILED:
        enough = seen.fails >= scene.fleet.health_fail_threshold
        return Evidence.FAILED_ENOUGH if enough else Evidence.FAILED
    if kind is SignalKind.BUSY:
        return Evidence.BUSY if seen.identity else Evidence.BUSY_UNPROVEN
    if kind is SignalKind.REFUSED:
        if seen.run >= REJECTED_PASSES:
            return Evidence.REFUSED_LONG
        return Evidence.REFUSED_TWICE if seen.run >= 2 else Evidence.REFUSED
    if kind is SignalKind.OTHER_MODEL:
        return Evidence.OTHER_TWICE if seen.run >= 2 else Evidence.OTHER_MODEL
    return Evidence.GARBLED if kind is SignalKind.GARBLED else Evidence.UNSEEN


def _served(known: KeyHistory) -> Served:
    """Tell whether it was ok since its newest hand-out; a hand-out of no one counts as before."""
    if known.last_ok is None:
        return Served.NO
    later = known.last_handout is None or known.last_ok > known.last_handout
    return Served.YES if later else Served.NO


def handed_out(known: KeyHistory) -> float | None:
    """Return when the hand-out it has to serve after was made, None if there was none."""
    return known.handout if known.handout is not None else known.last_handout


def _handout(known: KeyHistory, scene: Scene) -> Handout:
    if (since := handed_out(known)) is None:
        return Handout.NONE
    young = scene.now - since <= scene.fleet.health_grace_s
    return Handout.YOUNG if young else Handout.OLD


def _named(
    evidence: Evidence, entry: Joined, known: KeyHistory, scene: Scene, addresses: frozenset[str]
) -> Named:
    if evidence is not Evidence.REFUSED_LONG or not scene.all_listed or entry.place.named:
        return Named.MAYBE
    deployment = entry.deployment
    host = known.dialable.removeprefix("http://").removeprefix("https://").rpartition(":")[0]
    names = {host.strip("[]"), deployment.host if deployment else ""}
    return Named.MAYBE if names & addresses else Named.NOWHERE


# ---- the plan


def plan_facts(
    entry: Joined,
    known: KeyHistory,
    aim: Aim | None,
    row_seen: Seen | None,
    life: Lifecycle,
    difference: Difference,
    row_known: RowHistory | None,
    scene: Scene,
    history: History,
) -> PlanFacts:
    """Return what decides the action of a key."""
    want = _want(entry)
    orphan = want in _ORPHANS
    return PlanFacts(
        _gate(entry, known, scene),
        want,
        life,
        _route(entry),
        _at_row(row_seen, scene, displaced=entry.displaced),
        _base(entry, known, aim),
        difference.drift,
        _ready(known, aim, scene, routed=bool(entry.rows)),
        _passes(row_known, scene, history) if orphan else Passes.EARLY,
    )


_WANTS = {
    Kind.INTENDED: Want.INTENDED,
    Kind.DISCOVERED: Want.DISCOVERED,
    Kind.COMMERCIAL: Want.COMMERCIAL,
    Kind.FOREIGN: Want.FOREIGN,
    Kind.UNKNOWN: Want.UNKNOWN,
}


_ORPHANS = (Want.ORPHAN, Want.DISPLACED, Want.BOXLESS)


def _want(entry: Joined) -> Want:
    if entry.kind is not Kind.ORPHAN:
        return _WANTS[entry.kind]
    if entry.displaced:
        return Want.DISPLACED
    return Want.ORPHAN if entry.deployment and entry.deployment.host else Want.BOXLESS


def _gate(entry: Joined, known: KeyHistory, scene: Scene) -> Gate:
    if scene.deployments is None:
        return Gate.BLIND
    if scene.writes and _pending(entry, scene):
        return Gate.PENDING
    if leaving(entry, scene):
        return Gate.LEAVING
    if scene.reboots and to_reboot(entry, scene):
        return Gate.REBOOTING
    at = announced(entry, scene) if scene.protocol.hosts or scene.reboots else None
    if at is not None and not (known.broken is not None and known.broken > at):
        return Gate.RESTARTING
    return Gate.OPEN


def _pending(entry: Joined, scene: Scene) -> bool:
    own = entry.deployment
    if own is not None and scene.pending_until(own.litellm_id) is not None:
        return True
    return any(scene.pending_until(row.id) is not None for row in entry.rows)


def _route(entry: Joined) -> Route:
    if not entry.rows:
        return Route.NONE
    if len(entry.rows) > 1:
        return Route.SEVERAL
    return Route.BESIDE if entry.copies and copy_of(entry) is not None else Route.ONE


def copy_of(entry: Joined) -> Row | None:
    """Return the first copy of the key's row that nobody has marked, None if there is none."""
    unmarked = [row for row in entry.copies if row.in_db and not row.fleet]
    return min(unmarked, key=lambda row: row.id, default=None)


def _at_row(seen: Seen | None, scene: Scene, *, displaced: bool) -> AtRow:
    """Return what probes show at the row's own address, for the row to manage."""
    if seen is None or scene.stale(seen):
        return AtRow.UNKNOWN
    kind = seen.kind
    if kind is SignalKind.OK or kind is SignalKind.BUSY:
        return AtRow.ALIVE
    if kind is SignalKind.FAILED and seen.fails >= scene.fleet.health_fail_threshold:
        return AtRow.FAILED
    if kind is SignalKind.OTHER_MODEL and (seen.run >= 2 or displaced):
        return AtRow.OTHER_MODEL
    if kind is SignalKind.REFUSED and seen.run >= 2:
        return AtRow.OPEN if seen.open else AtRow.REFUSED
    return AtRow.UNKNOWN


def _base(entry: Joined, known: KeyHistory, aim: Aim | None) -> Base:
    """Compare addresses as they are written: a lost `/v1` is another address to LiteLLM."""
    if not entry.rows or entry.deployment is None:
        return Base.CURRENT
    row = entry.rows[0]
    written = api_base(entry.deployment, known.dialable)
    if aim is None:
        same = row.base == entry.deployment.key.base
    else:
        same = not known.dialable or row.base == known.dialable
    raw = row.params.get("api_base")
    if same and known.dialable and isinstance(raw, str):
        same = raw == written
    return Base.CURRENT if same else Base.ELSEWHERE


def api_base(deployment: Deployment, url: str) -> str:
    """Return the address as LiteLLM is given it: vLLM needs the `/v1`."""
    return deployment.api_base if deployment.provider else f"{url}/v1"


def _ready(known: KeyHistory, aim: Aim | None, scene: Scene, *, routed: bool) -> Ready:
    seen = aim.seen if aim else None
    if aim is None or seen is None or not known.dialable or aim.stale:
        return Ready.NO
    if seen.kind is SignalKind.BUSY:
        return Ready.ALIVE if seen.identity else Ready.NO
    if seen.kind is not SignalKind.OK:
        return Ready.NO
    # An address may have a new tenant: without identity nothing is written there.
    if not seen.identity:
        return Ready.ALIVE
    # What has a row needs no proof any more; only an add asks for it.
    if routed:
        return Ready.OK
    proven = seen.oks >= required_oks(known) and not lacks_proof(known, aim, scene)
    return Ready.PROVEN if proven else Ready.OK


def required_oks(known: KeyHistory) -> int:
    """Return how many oks in a row an add takes: doubled by each removal of the last hour."""
    return min(MAX_OKS, 1 << min(len(known.removals), 5))


def lacks_proof(known: KeyHistory, aim: Aim, scene: Scene) -> str:
    """Return what has not been proven since the last hand-out or removal, "" if nothing."""
    seen, fleet = aim.seen, scene.fleet
    assert seen is not None
    if fleet.require_closed is True and (seen.open_at is None or seen.open_paths):
        return "that its paths are closed"
    if not fleet.canary.enabled or aim.deployment.mode == "none":
        return ""
    since = proof_since(known)
    if seen.proven_at is None or seen.proven_at < since:
        return "that it answers a request"
    return ""


def proof_since(known: KeyHistory) -> float:
    """Return from when a canary counts: the last hand-out, removal or announced restart."""
    single = (known.last_handout, known.broken, known.excused)
    moments = [at for at in (*single, *known.removals) if at is not None]
    return max(moments, default=float("-inf"))


def _passes(row_known: RowHistory | None, scene: Scene, history: History) -> Passes:
    listed = all(name in history.listings_read for name in scene.intervals)
    enough = row_known is not None and row_known.passes >= ORPHAN_PASSES
    return Passes.ENOUGH if enough and listed else Passes.EARLY
