"""Rebooting a box because an admin asked: drained first, then idle, then one order to its provider.

Rule of this file: one press is at most one order, and none by itself. What an order came to is read
from the writes; that the box rebooted is seen only when it fetches again, or fails and comes back.
"""

from collections.abc import Iterable, Mapping

from attrs import evolve

from .actions import ActionKind, Order, OutcomeKind, Write
from .draft import Draft
from .facts import Gate
from .history import HostHistory, Reboot
from .intended import Intended
from .keys import Key
from .placement import Places
from .plan import Action, Hold, Policy
from .records import HostView, SignalKind
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
    if policy.kinds.get(_KIND, "needs_human") != "observe":
        for request in sorted(scene.requests, key=lambda one: (one.at, one.by)):
            _begin(request, found, hosts, scene)
    return found


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
    if not request.at <= scene.now < request.expires_at or _covers(before, request):
        return
    found[host] = Reboot(box.provider, box.instance_id, request.by, request.at, request.expires_at)


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


def is_back(known: Reboot, fetched: float | None, *, up: bool, healthy_since: float | None) -> bool:
    """Tell whether a box was seen after its reboot: up, and it fetched or all of it serves again.

    fetched: its last fetch. healthy_since: of the last of its servers, None unless all are.
    """
    if known.sent is None or not up:
        return False
    return any(at is not None and at > known.sent for at in (fetched, healthy_since))


def told(known: Reboot) -> str:
    """Return how a reboot that is not over stands, in one sentence."""
    if known.sent is not None:
        return f"The provider reboots it, as {known.by} asked."
    return f"{known.by} asked for a reboot: its routes and running requests end first."


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
    servers: dict[str, list[Draft]] = {host: [] for host in due}
    names = {name: host for host in due for name in (host, *scene.intended.hosts[host].was)}
    for draft in drafts if due else ():
        deployment = draft.entry.deployment
        if deployment is not None and deployment.host in names:
            servers[names[deployment.host]].append(draft)
    return tuple(
        _action(host, known, places, servers[host], policy, scene) for host, known in due.items()
    )


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
    if any(draft.entry.rows or draft.facts.gate in _UNKNOWN for draft in servers):
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
