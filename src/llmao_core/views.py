"""From drafts to what people are shown: records, hosts, sources.

Rule of this file: it words verdicts and reaches none.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .attention import not_proven
from .badges import across, badges
from .classify import Aim, lacks_proof, required_oks, said
from .draft import Draft
from .facts import Gate
from .history import Behind, History, Reboot
from .intended import Intended
from .keys import Key
from .placement import Found, Places
from .plan import Hold, Plan
from .reboot import WAIT_S, is_back, reboot_key, told
from .records import (
    HostView,
    Kind,
    LitellmSignal,
    Record,
    Signal,
    SignalKind,
    SourceView,
)
from .scene import Scene
from .snapshots import BoxFetches, BoxStatus, Instance, Reading, Snapshots, SourceState
from .waiting import write_trouble

_RESTARTING = (Gate.REBOOTING, Gate.RESTARTING)
_NONE = Signal(SignalKind.NONE)
_REACHED = "LiteLLM still reaches it: callers are served, and its route stays."
_NO_FETCHES = BoxFetches()


def make_records(
    drafts: Iterable[Draft],
    scene: Scene,
    revisions: Mapping[str, str],
    behind: Mapping[str, Behind],
) -> tuple[Record, ...]:
    """Return one record per key, with all its verdicts."""
    return across([_record(draft, scene, revisions, behind) for draft in drafts])


def _record(
    draft: Draft, scene: Scene, revisions: Mapping[str, str], behind: Mapping[str, Behind]
) -> Record:
    entry, known, aim, row = draft.entry, draft.known, draft.aim, draft.row
    seen = aim.seen if aim else None
    opinion, litellm = draft.opinion, said(draft.opinion)
    deployment = entry.deployment
    host = deployment.host if deployment else ""
    current, fetches = revisions.get(host, ""), scene.protocol.hosts.get(host)
    applied = fetches.applied if fetches else ""
    write = scene.writes.get(row.id if row else deployment.litellm_id if deployment else "")
    lacking = lacks_proof(known, aim, scene) if aim and seen and not entry.rows else ""
    unlisted = draft.host_known is not None and draft.host_known.unlisted
    return Record(
        key=entry.key,
        kind=entry.kind,
        lifecycle=draft.life,
        rule=draft.life_rule.name,
        because=_because(draft, scene),
        since=known.since,
        fresh=draft.life_rule.lifecycle is not None and _driven(draft, litellm),
        held=draft.life_rule.held,
        deployment=deployment,
        provider=_provider(draft),
        instance_id=known.instance_id,
        dialable=known.dialable,
        row=row,
        rows=(*entry.rows, *entry.copies) if entry.copies else entry.rows,
        signal=_signal(aim),
        litellm=litellm,
        litellm_at=opinion.checked_at if opinion else None,
        litellm_said=opinion.said if opinion and not opinion.healthy else "",
        badges=badges(draft, litellm, host in behind, scene),
        unlisted=unlisted,
        drained=draft.facts.gate is Gate.LEAVING,
        restarting=draft.facts.gate in _RESTARTING,
        fails=seen.fails if seen else 0,
        proof=not_proven(draft, lacking) if lacking else "",
        oks_left=max(0, required_oks(known) - seen.oks) if seen and not entry.rows else 0,
        removals=len(known.removals),
        last_ok=known.last_ok,
        max_model_len=seen.max_model_len if seen else None,
        counters=seen.counters if seen else None,
        revision_current=current,
        revision_applied=applied,
        behind=behind[host].words if host in behind else (),
        action_rule=draft.rule.name,
        write_trouble=write_trouble(write, scene.now) if write and write.failures else "",
        reached=draft.reached,
        retired=host in scene.intended.labels.retired_hosts,
    )


def _because(draft: Draft, scene: Scene) -> str:
    """Return why a lifecycle is what it is, and what that does not mean for callers."""
    because = draft.life_rule.because
    if draft.reached:
        because = f"{because} {_REACHED}"
    unread = " and ".join(scene.unread)
    if draft.entry.kind is Kind.UNKNOWN:
        return f"{because} Whether its box is ours is not known while {unread} cannot be read."
    if draft.entry.kind is Kind.DISCOVERED and not draft.entry.place.named:
        return f"{because} {unread} cannot be read: what was known of its box stands."
    return because


def _driven(draft: Draft, litellm: LitellmSignal) -> bool:
    """Tell whether the signal that drives the roll-up is fresh: LiteLLM's for a commercial key."""
    return draft.entry.kind is not Kind.COMMERCIAL or litellm is not LitellmSignal.UNKNOWN


def _provider(draft: Draft) -> str:
    deployment, place = draft.entry.deployment, draft.entry.place
    if deployment is not None and deployment.provider:
        return deployment.provider
    if place.found is not None:
        return place.found.provider
    return draft.host_known.provider if draft.host_known else draft.known.discovered


def _signal(aim: Aim | None) -> Signal:
    seen = aim.seen if aim else None
    if aim is None or seen is None:
        return _NONE
    return Signal(SignalKind.STALE if aim.stale else seen.kind, seen.probed_at, seen.detail)


def host_views(
    scene: Scene,
    places: Places,
    known: History,
    records: Iterable[Record],
    plan: Plan,
) -> tuple[HostView, ...]:
    """Return one view per intended host, and one per instance that no host names.

    Where a listing is unread, one for each host that only it can tell of, too. places: by the last
    good listings. plan: holds what the reboots wait for.
    """
    served: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        if record.host:
            served[record.host].append(record)
    waits = {one.key: one.hold for one in plan.actions} if known.reboots else {}
    named = [
        _host(name, places.of(name).found, known, scene, served[name], waits)
        for name in scene.intended.hosts
    ]
    spare = [_spare(found, known, scene, served) for found in places.spare]
    shown = {name for found in places.spare for name in found.instance.called}
    rest = [
        _unseen(name, of, scene)
        for name, of in served.items()
        if name not in shown and any(one.kind in _BY_LISTING for one in of)
    ]
    return (*named, *spare, *rest)


_BY_LISTING = (Kind.DISCOVERED, Kind.UNKNOWN)


def _unseen(name: str, served: Sequence[Record], scene: Scene) -> HostView:
    """Return a host of which only its servers are known, since its listing is unread."""
    return HostView(
        name=name,
        provider=served[0].provider,
        intended=False,
        last_fetch=scene.protocol.hosts.get(name, _NO_FETCHES).last_handout,
        keys=tuple(record.key for record in served),
        stale=True,
        reboots=served[0].provider in scene.rebooters,
    )


def _host(
    name: str,
    found: Found | None,
    history: History,
    scene: Scene,
    served: Sequence[Record],
    waits: Mapping[Key, Hold],
) -> HostView:
    instance = found.instance if found else None
    known = history.hosts.get(name)
    last_fetch = scene.protocol.hosts.get(name, _NO_FETCHES).last_handout
    stale = found is not None and found.provider not in scene.listings
    now = None if stale else instance
    reboot = _reboot(history.reboots.get(name), last_fetch, now)
    hold = waits.get(reboot_key(name)) if reboot else None
    return HostView(
        name=name,
        provider=known.provider if known else "",
        instance_id=known.instance_id if known else "",
        status=instance.status.value if instance else "",
        approved=name in scene.intended.approved,
        unlisted=known.unlisted if known else False,
        unlisted_passes=known.missed if known else 0,
        placed_by=scene.placed.get(name, ""),
        last_fetch=last_fetch,
        price_per_hour=instance.price_per_hour if instance else None,
        gpu=f"{instance.gpu_count} × {instance.gpu_name}" if instance and instance.gpu_name else "",
        keys=tuple(record.key for record in served),
        idle_since=_idle_since(found, history) if found else None,
        rebooting=told(reboot, hold, (one.counters for one in served)) if reboot else "",
        reboot_since=reboot.sent if reboot else None,
        reboot_until=reboot.asked + WAIT_S if reboot and hold is Hold.RUNNING else None,
        stale=stale,
        reboots=known is not None and known.provider in scene.rebooters,
    )


def _reboot(
    known: Reboot | None, fetched: float | None, instance: Instance | None
) -> Reboot | None:
    """Return a reboot that is not over; what became of it then its write and the log tell."""
    if known is None or known.refused:
        return None
    up = instance is not None and instance.status is BoxStatus.UP
    return None if is_back(known, fetched, up=up) else known


def _idle_since(found: Found, history: History) -> float | None:
    idle = history.idle.get((found.provider, found.instance.id))
    return idle.since if idle else None


def _spare(
    found: Found, history: History, scene: Scene, served: Mapping[str, Sequence[Record]]
) -> HostView:
    instance = found.instance
    names = instance.called
    fetched = (scene.protocol.hosts.get(name, _NO_FETCHES).last_handout for name in names)
    return HostView(
        name=names[0],
        provider=found.provider,
        instance_id=instance.id,
        status=instance.status.value,
        intended=False,
        last_fetch=max((at for at in fetched if at is not None), default=None),
        price_per_hour=instance.price_per_hour,
        gpu=f"{instance.gpu_count} × {instance.gpu_name}" if instance.gpu_name else "",
        keys=tuple(record.key for name in names for record in served.get(name, ())),
        idle_since=_idle_since(found, history),
        stale=found.provider not in scene.listings,
        reboots=found.provider in scene.rebooters,
    )


def source_views(snapshots: Snapshots, now: float) -> tuple[SourceView, ...]:
    """Return every source and its state, the ones that decide most first."""
    intended = snapshots.intended
    readings: dict[str, Reading[Any]] = {
        "litellm": snapshots.deployments,
        "litellm_health": snapshots.health,
        **dict(sorted(snapshots.inventories.items())),
    }
    views = [
        source_view(name, reading, intended, now, listing=name in snapshots.inventories)
        for name, reading in readings.items()
    ]
    state = SourceState.UNREAD if intended is None else SourceState.FRESH
    return (SourceView("intended", state, None, None, snapshots.troubles.get("config")), *views)


def source_view(
    name: str,
    reading: Reading[Any],
    intended: Intended | None,
    now: float,
    *,
    listing: bool = False,
) -> SourceView:
    """Return one source and its state."""
    threshold = intended.config.fleet.health_fail_threshold if intended else 3
    taken_at = reading.snapshot.taken_at if reading.snapshot else None
    state = reading.state(now, threshold)
    return SourceView(name, state, taken_at, reading.interval_s, reading.trouble, listing)
