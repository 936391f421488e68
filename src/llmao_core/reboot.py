"""Rebooting a box because an admin asked: drained first, then idle, then one order to its provider.

Rule of this file: one press is at most one order, and none by itself. What an order came to is read
from the writes; that the box rebooted is seen only when it fetches again, or fails and comes back.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from attrs import evolve

from .actions import ActionKind, Order, OutcomeKind, Write
from .draft import Draft
from .facts import Gate
from .history import HostHistory, Reboot
from .intended import Intended
from .keys import Key
from .placement import Places
from .plan import Action, Hold, Policy
from .probes import Counters
from .records import HostView, Lifecycle, SignalKind
from .scene import Scene
from .snapshots import Request, RequestKind

REQUEST_S = 600.0
WAIT_S = 300.0
RULE = "reboot-box"
_KIND = ActionKind.REBOOT_BOX
_SCHEME = "box:"


def reboot_key(host: str) -> Key:
    """Return the key under which a host's reboot is asked for, planned and told of."""
    return Key(f"{_SCHEME}{host}", "(box)", host)


def ask(host: HostView, by: str, at: float) -> Request:
    """Return the request to reboot a host, as it stands now; it lapses in ten minutes."""
    return Request(
        RequestKind.RUN,
        by,
        at,
        at + REQUEST_S,
        reboot_key(host.name),
        _KIND,
        _digest(host.provider, host.instance_id),
    )


def no_order(host: HostView) -> str:
    """Return why nobody can be told to reboot a rented box and what to do, "" if one can."""
    if host.reboots:
        return ""
    return (
        f"llmao cannot have {host.provider} reboot {host.name}: drain it, reboot it in "
        f"{host.provider}'s console, and undrain it."
    )


def take_back(host: str, by: str, at: float) -> Request:
    """Return the request to call off what was asked for a host and not ordered yet."""
    return Request(RequestKind.CANCEL, by, at, at + REQUEST_S, reboot_key(host), _KIND)


def _digest(provider: str, instance_id: str) -> str:
    return f"{provider} {instance_id}"


# ---- what has been asked for


def fold_reboots(
    old: Mapping[str, Reboot], hosts: Mapping[str, HostHistory], policy: Policy, scene: Scene
) -> Mapping[str, Reboot]:
    """Return the reboots under way, by host: begun by a press, ended or lapsed."""
    if not old and not scene.requests:
        return old
    found = {host: known for host, each in old.items() if (known := _after(host, each, scene))}
    found = {host: each for host, each in found.items() if _same_box(host, each, hosts, scene)}
    taken_back = _taken_back(scene)
    found = {host: each for host, each in found.items() if not _off(host, each, taken_back, scene)}
    if policy.kinds.get(_KIND, "needs_human") != "observe":
        for request in sorted(scene.requests, key=lambda one: (one.at, one.by)):
            if request.key is None or request.at > taken_back.get(request.key, -math.inf):
                _begin(request, found, hosts, scene)
    return found


def _taken_back(scene: Scene) -> Mapping[Key, float]:
    """Return when the reboot of each box was last called off."""
    found: dict[Key, float] = {}
    for one in scene.requests:
        if one.request is RequestKind.CANCEL and one.key is not None and one.at <= scene.now:
            found[one.key] = max(one.at, found.get(one.key, one.at))
    return found


def _off(host: str, known: Reboot, taken_back: Mapping[Key, float], scene: Scene) -> bool:
    """Tell whether a reboot was called off; one that its provider was told of cannot be."""
    if known.sent is not None or _under_way(host, known, scene):
        return False
    return taken_back.get(reboot_key(host), -math.inf) >= known.asked


def _after(host: str, known: Reboot, scene: Scene) -> Reboot | None:
    """Return a reboot after what became of its order; None once nothing rests on it."""
    write = _order(host, known, scene)
    if known.sent is None and write is not None and write.outcome is not None:
        if write.outcome.kind is OutcomeKind.REFUSED:
            known = evolve(known, refused=True)
        elif write.outcome.kind is not OutcomeKind.FAILED:
            # An answer that was lost may have been a yes: it is not asked for twice.
            known = evolve(known, sent=write.began)
    if scene.now < known.until or (write is not None and write.outcome is None):
        return known
    lasts = known.sent is not None and scene.now - known.sent <= scene.fleet.health_grace_s
    return known if lasts else None


def _order(host: str, known: Reboot, scene: Scene) -> Write | None:
    """Return the order that was given for a reboot, None before it."""
    write = scene.writes.get(known.instance_id)
    if write is None or write.kind is not _KIND or write.began < known.asked:
        return None
    return write if write.key == reboot_key(host) else None


def _same_box(host: str, known: Reboot, hosts: Mapping[str, HostHistory], scene: Scene) -> bool:
    if host not in scene.intended.hosts:
        return False
    now = hosts.get(host)
    return now is None or (now.provider, now.instance_id) == (known.provider, known.instance_id)


def _begin(
    request: Request,
    found: dict[str, Reboot],
    hosts: Mapping[str, HostHistory],
    scene: Scene,
) -> None:
    if request.request is not RequestKind.RUN or request.kind is not _KIND or request.key is None:
        return
    host = request.key.base.removeprefix(_SCHEME)
    box, before = hosts.get(host), found.get(host)
    if box is None or not box.instance_id or host not in scene.intended.hosts:
        return
    if request.digest != _digest(box.provider, box.instance_id):
        return
    # Its routes would go for an order that nobody carries out.
    if box.provider not in scene.rebooters:
        return
    if not request.at <= scene.now < request.expires_at or _covers(before, request):
        return
    made = Reboot(box.provider, box.instance_id, request.by, request.at, request.expires_at)
    # An order that is known was given before llmao started, or by another replica.
    if known := _after(host, made, scene):
        found[host] = known


def _covers(before: Reboot | None, request: Request) -> bool:
    """Tell whether a reboot is the one that a press asked for, or is still under way."""
    if before is None:
        return False
    if before.refused:
        return request.at <= before.asked
    return before.sent is None or request.at <= before.sent


def by_name(reboots: Mapping[str, Reboot], intended: Intended) -> Mapping[str, Reboot]:
    """Return reboots by every name of their hosts, former ones included; refused ones are over."""
    return {
        name: known
        for host, known in reboots.items()
        if not known.refused
        for name in (host, *intended.hosts[host].was)
    }


def seen_back(
    reboots: Mapping[str, Reboot], drafts: Sequence[Draft], scene: Scene
) -> Mapping[str, Reboot]:
    """Return reboots, those noted as over whose box went down and serves again, all of it.

    Noted, because what fails later has failed anew.
    """
    ordered = [one for one, known in reboots.items() if known.sent is not None and not known.back]
    if not ordered:
        return reboots
    servers = _servers(ordered, drafts, scene)
    back = {one: reboots[one] for one in ordered if _serve_again(servers[one], reboots[one])}
    return {**reboots, **{one: evolve(known, back=True) for one, known in back.items()}}


def _serve_again(servers: Sequence[Draft], known: Reboot) -> bool:
    # Healthy from before the order says nothing: it may not have gone down yet.
    return bool(servers) and all(
        one.life is Lifecycle.HEALTHY and one.known.since > (known.sent or 0.0) for one in servers
    )


def is_back(known: Reboot, fetched: float | None, *, up: bool) -> bool:
    """Tell whether a box was seen after its reboot: up and it fetched, or all of it served again.

    fetched: its last fetch.
    """
    if known.sent is None:
        return False
    return known.back or (up and fetched is not None and fetched > known.sent)


def told(known: Reboot, hold: Hold | None, running: Iterable[Counters | None]) -> str:
    """Return how a reboot that is not over stands, in one sentence.

    hold: of its order, None while that is under way. running: what each of its servers counts.
    """
    if known.sent is not None:
        return f"{known.provider} reboots it, as {known.by} asked."
    asked = f"{known.by} asked for a reboot"
    match hold:
        case None | Hold.NOT_HELD:
            return f"{asked}: {known.provider} is being told."
        case Hold.RUNNING:
            return f"{asked}, which waits {_for(running)}."
        case Hold.UNLISTED:
            return f"{asked}, which waits until {known.provider} lists the box."
        case Hold.BACKOFF:
            return f"{asked}, which {known.provider} did not take: it is told again."
        case _:
            return f"{asked}: its routes leave LiteLLM first, then its requests end."


def _for(running: Iterable[Counters | None]) -> str:
    """Return what a reboot waits for where its routes are gone and it may not be idle."""
    counted = list(running)
    number = sum(round(one.running + one.waiting) for one in counted if one is not None)
    if number and None not in counted:
        return "for 1 request that runs" if number == 1 else f"for {number} requests that run"
    return "until it is known that no request runs"


# ---- what to do about it


def reboot_actions(
    reboots: Mapping[str, Reboot],
    places: Places,
    drafts: Iterable[Draft],
    policy: Policy,
    scene: Scene,
) -> tuple[Action, ...]:
    """Return the order of each reboot that was asked for and not given yet, held or not."""
    due = {
        host: known
        for host, known in sorted(reboots.items())
        if known.sent is None and not known.refused and not _under_way(host, known, scene)
    }
    servers = _servers(due, drafts, scene)
    return tuple(
        _action(host, known, places, servers[host], policy, scene) for host, known in due.items()
    )


def _servers(
    hosts: Iterable[str], drafts: Iterable[Draft], scene: Scene
) -> Mapping[str, list[Draft]]:
    """Return the servers of each of these hosts, those under its former names included."""
    servers: dict[str, list[Draft]] = {host: [] for host in hosts}
    names = {name: host for host in servers for name in (host, *scene.intended.hosts[host].was)}
    for draft in drafts if servers else ():
        deployment = draft.entry.deployment
        if deployment is not None and deployment.host in names:
            servers[names[deployment.host]].append(draft)
    return servers


def _under_way(host: str, known: Reboot, scene: Scene) -> bool:
    write = _order(host, known, scene)
    return write is not None and write.outcome is None


def _action(
    host: str,
    known: Reboot,
    places: Places,
    servers: list[Draft],
    policy: Policy,
    scene: Scene,
) -> Action:
    write = _order(host, known, scene)
    until = write.next_try if write is not None and write.failures else None
    hold = Hold.BACKOFF if until is not None and until > scene.now else Hold.NOT_HELD
    if hold is Hold.NOT_HELD:
        hold, until = _hold(host, known, places, servers, scene), None
    return Action(
        order=Order(_KIND, known.provider, reboot_key(host), known.instance_id),
        rule=RULE,
        reason=f"{known.by} asked for a reboot of {host}.",
        evidence=tuple(_line(draft) for draft in servers),
        policy=policy.kinds.get(_KIND, "needs_human"),
        hold=hold,
        until=until,
        released_by=known.by,
        digest=_digest(known.provider, known.instance_id),
    )


def _hold(host: str, known: Reboot, places: Places, servers: list[Draft], scene: Scene) -> Hold:
    """Return what a reboot waits for: its routes always, its requests for a while."""
    # What LiteLLM has is not known while it is unread: a route may lead there.
    blind = scene.deployments is None
    if blind or any(draft.entry.rows or draft.facts.gate in _UNKNOWN for draft in servers):
        return Hold.DRAINING
    found = places.of(host).found
    if found is None or (found.provider, found.instance.id) != (known.provider, known.instance_id):
        return Hold.UNLISTED
    if scene.now - known.asked >= WAIT_S:
        return Hold.NOT_HELD
    return Hold.NOT_HELD if all(_idle(one, known, scene) for one in servers) else Hold.RUNNING


_UNKNOWN = (Gate.BLIND, Gate.PENDING)
_NOTHING_TO_WAIT_FOR = (SignalKind.REFUSED, SignalKind.OTHER_MODEL)


def _idle(draft: Draft, known: Reboot, scene: Scene) -> bool:
    """Tell whether no request of a caller runs at a server any more, or it is past running any."""
    seen = draft.aim.seen if draft.aim else None
    if draft.aim is None or seen is None or draft.aim.stale:
        return False
    if seen.kind in _NOTHING_TO_WAIT_FOR or seen.fails >= scene.fleet.health_fail_threshold:
        return True
    deployment = draft.entry.deployment
    removed = scene.writes.get(deployment.litellm_id) if deployment else None
    since = max(known.asked, removed.answered or 0.0) if removed else known.asked
    if seen.counters is None or seen.metrics_at is None or seen.metrics_at < since:
        return False
    return seen.counters.running <= 0 and seen.counters.waiting <= 0


def _line(draft: Draft) -> str:
    routed = "in LiteLLM" if draft.entry.rows else "not in LiteLLM"
    counters = draft.aim.seen.counters if draft.aim and draft.aim.seen else None
    running = f"{counters.running:.0f} requests run" if counters else "running requests unknown"
    return f"{draft.entry.key}: {routed}, {running}"
