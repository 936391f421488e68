"""How history moves on: each new snapshot is folded in once, however often a pass runs.

Rule of this file: nothing here decides; counters move only because something new was seen.
"""

import math
from collections.abc import Mapping

from attrs import define, evolve

from .actions import ActionKind, Write
from .history import HostHistory, KeyHistory, RowHistory, Seen
from .intended import Deployment
from .join import Joined, dialable
from .probes import Target
from .records import Kind, SignalKind
from .scene import Scene
from .signal import fold_canary, fold_open_paths, fold_report
from .snapshots import BoxFetches, Row

HOUR_S = 3600.0
_EARLY_S = 0.001
_EVER = -math.inf
_EMPTY = KeyHistory()
_NO_FETCHES = BoxFetches()


@define
class Watch:
    """The targets of one key. main: dialable URL and current bearer. previous: the same with
    the bearer of the previous salt. rows: the address and bearer of each row.
    """

    main: Target | None
    previous: Target | None
    rows: tuple[Target, ...]


def watch(entry: Joined, url: str) -> Watch:
    """Return what there is to probe for a key; nothing for a commercial or foreign one."""
    deployment = entry.deployment
    if deployment is None or deployment.bearer is None:
        return _NOTHING
    main = Target(url, deployment.bearer_id) if url else None
    older = deployment.previous
    if main and older is None and len(entry.rows) == 1 and entry.rows[0].base == url:
        return Watch(main, None, (main,))
    rows = [Target(row.base, row_bearer(row, deployment)) for row in entry.rows if row.base]
    return Watch(main, Target(url, older.bearer_id) if url and older else None, tuple(rows))


_NOTHING = Watch(None, None, ())


def row_bearer(row: Row, deployment: Deployment) -> str:
    """Return the fingerprint of the bearer a row carries, as far as its stamp tells."""
    older = deployment.previous
    if older is not None and row.hash == older.body.hash:
        return older.bearer_id
    return deployment.bearer_id


def fold_key(
    old: KeyHistory | None, entry: Joined, host: HostHistory | None, scene: Scene
) -> tuple[KeyHistory, Watch]:
    """Return what is remembered of a key after this pass's snapshots, and its targets."""
    known = old or _EMPTY
    instance = host.instance_id if host else ""
    if known.instance_id and instance and instance != known.instance_id:
        assert host is not None
        known = KeyHistory(removals=known.removals, reset=host.counted)
    reset = known.reset is not None
    url = dialable(entry, known.dialable, reset=reset, no_listing=scene.no_listing)
    targets = watch(entry, url)
    seen = _fold_targets(known, targets, entry, scene)
    last_ok = known.last_ok if seen is known.seen else _last_ok(known, seen, targets)
    handouts, broken = (known.handout, known.last_handout), known.broken
    if scene.protocol.hosts or scene.reboots:
        handouts = _handouts(known, last_ok, entry, host, scene)
        broken = _broken(known, entry, seen.get(targets.main) if targets.main else None, scene)
    removals, excused = known.removals, known.excused
    if scene.writes or removals:
        removals, excused = _removals(known, entry, scene)
    row_seen = known.row_seen or bool(entry.rows)
    discovered = _discovered(known, entry)
    # Between two sweeps nearly every key has nothing new, and a history is dear to make.
    if (
        seen is known.seen
        and url == known.dialable
        and last_ok == known.last_ok
        and handouts == (known.handout, known.last_handout)
        and (instance or known.instance_id) == known.instance_id
        and (removals, row_seen) == (known.removals, known.row_seen)
        and (broken, excused) == (known.broken, known.excused)
        and discovered == known.discovered
    ):
        return known, targets
    folded = KeyHistory(
        known.lifecycle,
        known.since,
        seen,
        instance or known.instance_id,
        known.reset,
        url,
        *handouts,
        last_ok,
        removals,
        row_seen,
        broken,
        known.outside,
        excused,
        discovered,
    )
    return folded, targets


def _discovered(known: KeyHistory, entry: Joined) -> str:
    """Return whose listing it was discovered in; a listing that omits it does not undo that."""
    if entry.kind is Kind.INTENDED:
        return ""
    found = entry.place.found if entry.kind is Kind.DISCOVERED else None
    return found.provider if found else known.discovered


def _fold_targets(
    known: KeyHistory, targets: Watch, entry: Joined, scene: Scene
) -> Mapping[Target, Seen]:
    assert entry.deployment is not None or targets is _NOTHING
    if entry.deployment is None:
        return {}
    served = entry.deployment.served
    if (one := _only(known, targets)) is not None:
        before = known.seen[one]
        after = _fold_target(before, one, served, assumed=False, reset=known.reset, scene=scene)
        return known.seen if after is before or after is None else {one: after}
    folded: dict[Target, Seen] = {}
    at_start = not known.seen and known.reset is None
    for target in (targets.main, targets.previous, *targets.rows):
        if target is None or target in folded:
            continue
        seen = known.seen.get(target)
        assumed = at_start and any(target.base == row.base for row in targets.rows)
        after = _fold_target(seen, target, served, assumed=assumed, reset=known.reset, scene=scene)
        if after is not None:
            folded[target] = after
    return known.seen if folded == known.seen else folded


def _only(known: KeyHistory, targets: Watch) -> Target | None:
    """Return the target if there is one alone and it is known, as of nearly every key."""
    main = targets.main
    alone = targets.previous is None and (not targets.rows or targets.rows == (main,))
    return main if alone and len(known.seen) == 1 and main in known.seen else None


def _fold_target(
    seen: Seen | None,
    target: Target,
    served: str,
    *,
    assumed: bool,
    reset: float | None,
    scene: Scene,
) -> Seen | None:
    probes = scene.probes
    report = probes.reports.get(target)
    since = _EVER if reset is None else reset
    new = report is not None and (seen is None or report.probed_at > seen.probed_at)
    if report is not None and new and report.probed_at >= since:
        seen = fold_report(seen, report, served, scene.fleet, assumed)
    if seen is None:
        return None
    canary, paths = probes.canaries.get(target), probes.open_paths.get(target)
    if canary is not None and canary.asked_at >= since:
        seen = fold_canary(seen, canary, scene.fleet)
    if paths is not None and paths.asked_at >= since:
        seen = fold_open_paths(seen, paths)
    return seen


def _last_ok(known: KeyHistory, seen: Mapping[Target, Seen], targets: Watch) -> float | None:
    """Return the newest ok of this instance; after a reset a row's old address is another's."""
    newest = known.last_ok
    for target, one in seen.items():
        if known.reset is not None and target not in (targets.main, targets.previous):
            continue
        if one.last_ok is not None and (newest is None or one.last_ok > newest):
            newest = one.last_ok
    return newest


def _handouts(
    known: KeyHistory,
    last_ok: float | None,
    entry: Joined,
    host: HostHistory | None,
    scene: Scene,
) -> tuple[float | None, float | None]:
    """Return the first hand-out since the last ok and the newest one, of this instance only."""
    deployment = entry.deployment
    fetches = scene.protocol.hosts.get(deployment.host) if deployment else None
    if fetches is None or fetches.last_handout is None:
        return (known.handout, known.last_handout)
    floor = host.floor if host and host.floor is not None else float("-inf")
    newest = fetches.last_handout
    if newest <= floor:
        return (None, None)
    after = max(floor, last_ok if last_ok is not None else float("-inf"))
    if newest <= after:
        return (None, newest)
    if known.handout is not None and known.handout > after:
        return (known.handout, newest)
    first = fetches.first_handout
    return (first if first is not None and first > after else newest, newest)


def _removals(
    known: KeyHistory, entry: Joined, scene: Scene
) -> tuple[tuple[float, ...], float | None]:
    """Return when routes were taken away within the hour, and when the newest wished for was.

    What was wished is remembered, because the label or announcement may go before the write does.
    """
    recent, excused = known.removals, known.excused
    write = scene.writes.get(entry.deployment.litellm_id) if entry.deployment else None
    at = write.answered if write is not None and _removed(write) else None
    if at is not None and at not in recent and (excused is None or at > excused):
        if _wished(entry, scene):
            excused = at
        else:
            recent = (*recent, at)
    if recent and any(scene.now - at > HOUR_S for at in recent):
        recent = tuple(at for at in recent if scene.now - at <= HOUR_S)
    return recent, excused


def _removed(write: Write) -> bool:
    done = write.outcome is not None and write.outcome.good
    return done and write.kind is ActionKind.DELETE_LITELLM


def _wished(entry: Joined, scene: Scene) -> bool:
    wished = leaving(entry, scene) or to_reboot(entry, scene)
    return wished or announced(entry, scene) is not None


def to_reboot(entry: Joined, scene: Scene) -> bool:
    """Tell whether an admin asked for a reboot of its box that has not begun."""
    known = scene.reboots.get(entry.deployment.host) if entry.deployment else None
    return known is not None and known.sent is None


def leaving(entry: Joined, scene: Scene) -> bool:
    """Tell whether an admin drained or retired the key or its host."""
    labels = scene.intended.labels
    if not (labels.drained_hosts or labels.retired_hosts or labels.drained_keys):
        return False
    host = entry.deployment.host if entry.deployment else ""
    return (
        host in labels.drained_hosts
        or host in labels.retired_hosts
        or entry.key in labels.drained_keys
    )


def announced(entry: Joined, scene: Scene) -> float | None:
    """Return when its box announced a restart or was told to reboot; None when that has lapsed."""
    deployment = entry.deployment
    if deployment is None or entry.kind not in (Kind.INTENDED, Kind.DISCOVERED):
        return None
    fetches = scene.protocol.hosts.get(deployment.host, _NO_FETCHES)
    at = fetches.restarting.get(deployment.name)
    reboot = scene.reboots.get(deployment.host) if scene.reboots else None
    if reboot is not None and reboot.sent is not None:
        at = reboot.sent if at is None else max(at, reboot.sent)
    if at is None or scene.now - at > scene.fleet.health_grace_s:
        return None
    return at


def _broken(known: KeyHistory, entry: Joined, seen: Seen | None, scene: Scene) -> float | None:
    """Return when an announced restart was first seen to happen: it failed, or its box fetched."""
    at = announced(entry, scene)
    if at is None or entry.deployment is None:
        return known.broken
    if known.broken is not None and known.broken > at:
        return known.broken
    fetches = scene.protocol.hosts.get(entry.deployment.host, _NO_FETCHES)
    if fetches.last_handout is not None and fetches.last_handout > at:
        return fetches.last_handout
    if seen is not None and seen.kind is SignalKind.FAILED and seen.probed_at > at:
        return seen.probed_at
    return known.broken


def fold_row(
    old: RowHistory | None, row: Row, *, orphan: bool, differs: bool, scene: Scene
) -> RowHistory:
    """Return what is remembered of a row after this pass's read of the deployments."""
    known = old or RowHistory()
    if scene.deployments is None:
        return known
    write = _written(row, scene)
    if not differs:
        known = _kept(known, write, scene.deployments.taken_at)
    if scene.pending_until(row.id) is not None:
        return known
    known = _count_orphan(known, orphan, scene)
    return _not_kept(known, write) if differs else known


def _count_orphan(known: RowHistory, orphan: bool, scene: Scene) -> RowHistory:
    assert scene.deployments is not None
    if not orphan:
        return evolve(known, passes=0, counted=None) if known.passes else known
    taken = scene.deployments.taken_at
    gap = scene.fleet.skew_interval_s - _EARLY_S
    if known.counted is not None and taken < known.counted + gap:
        return known
    return evolve(known, passes=known.passes + 1, counted=taken)


def _written(row: Row, scene: Scene) -> Write | None:
    """Return the last write of a body to a row, if it went well."""
    write = scene.writes.get(row.id)
    if write is None or not write.kind.writes or write.answered is None:
        return None
    return write if write.outcome is not None and write.outcome.good else None


def _kept(known: RowHistory, write: Write | None, taken_at: float) -> RowHistory:
    """Clear the count: a write that once read back right was kept, whatever people do later."""
    judged = known.write
    if write is not None and write.answered is not None and taken_at >= write.answered:
        judged = write.answered
    if not known.kept_wrong and judged == known.write:
        return known
    return evolve(known, kept_wrong=0, write=judged)


def _not_kept(known: RowHistory, write: Write | None) -> RowHistory:
    """Count a confirmed write that reads back different."""
    if write is None or write.answered == known.write:
        return known
    return evolve(known, kept_wrong=known.kept_wrong + 1, write=write.answered, hash=write.hash)
