"""What is paid for and serves nobody: boxes that idle, ended or have no host; hosts without a box.

Rule of this file: what cannot be seen neither begins nor ends idleness, and is told as it was seen
last. A figure is what a provider lists, from when llmao first saw the box idle; an unknown price
is never 0.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from attrs import evolve

from .draft import Draft
from .facts import Gate
from .history import HostHistory, Idle
from .placement import UNLISTED_PASSES, Found, Places
from .prices import cost, dollars, per_hour
from .records import AttentionItem, HostView, ItemKind, Lifecycle
from .scene import Scene
from .snapshots import BoxStatus
from .waiting import item

IDLE_S = 3600.0
_HOUR_S = 3600.0


class Box(NamedTuple):
    """One instance of a listing. names: what hosts call it, or its own where none does."""

    found: Found
    names: tuple[str, ...]
    named: bool

    @property
    def id(self) -> tuple[str, str]:
        return (self.found.provider, self.found.instance.id)


# ---- since when


def boxes(places: Places) -> tuple[Box, ...]:
    """Return every listed instance that is one host's or nobody's."""
    named: dict[tuple[str, str], Box] = {}
    for name, place in places.hosts.items():
        if (found := place.found) is not None:
            one = (found.provider, found.instance.id)
            before = named[one].names if one in named else ()
            named[one] = Box(found, (*before, name), named=True)
    return (
        *named.values(),
        *(Box(found, found.instance.called, named=False) for found in places.spare),
    )


def fold_idle(
    old: Mapping[tuple[str, str], Idle],
    listed: Iterable[Box],
    drafts: Iterable[Draft],
    scene: Scene,
) -> Mapping[tuple[str, str], Idle]:
    """Return since when each instance has served nobody; one that a listing omits is kept a while.

    listed: by the last good listings. Without the deployments nobody knows who serves.
    """
    if scene.deployments is None:
        return {one: known for one, known in old.items() if one[0] in scene.intervals}
    serving, left = _serving(drafts), dict(old)
    idle: dict[tuple[str, str], Idle] = {}
    for box in listed:
        known = left.pop(box.id, None)
        if not serving.isdisjoint(box.names):
            continue
        fresh = scene.listings.get(box.found.provider)
        if fresh is None:
            idle |= {box.id: known} if known is not None else {}
        elif known is None:
            idle[box.id] = Idle(scene.now, fresh.taken_at)
        else:
            same = known.listed == fresh.taken_at
            idle[box.id] = known if same else Idle(known.since, fresh.taken_at)
    idle |= {one: known for one, known in left.items() if _kept(one[0], known, scene)}
    return old if idle == old else idle


def _kept(provider: str, known: Idle, scene: Scene) -> bool:
    snapshot = scene.listings.get(provider)
    if snapshot is None:
        return provider in scene.intervals
    gap_s = snapshot.taken_at - known.listed
    return gap_s < UNLISTED_PASSES * (scene.intervals.get(provider) or 0.0) or gap_s <= 0


def _serving(drafts: Iterable[Draft]) -> set[str]:
    """Return the hosts that serve callers: in LiteLLM, reached, and not drained."""
    return {
        draft.entry.deployment.host
        for draft in drafts
        if (draft.life is Lifecycle.HEALTHY or draft.reached)
        and draft.entry.rows
        and draft.entry.deployment is not None
        and draft.facts.gate is not Gate.LEAVING
    }


# ---- what to say of it


def money_items(
    places: Places, idle: Mapping[tuple[str, str], Idle], drafts: Iterable[Draft], scene: Scene
) -> Iterator[AttentionItem]:
    """Yield an item for each box that costs money and serves nobody.

    places: by the last good listings; one that is unread now is told as it was then.
    """
    every = boxes(places) if idle else ()
    found = [box for box in every if box.id in idle]
    retired = scene.intended.labels.retired_hosts
    servers = _servers({name for box in found for name in box.names}, drafts) if found else {}
    asking = {one.host for one in scene.protocol.unknown}
    for box in found:
        idle_s = _seen_at(box, scene) - idle[box.id].since
        meant = box.named or any(name in servers for name in box.names)
        made = None
        if names := [name for name in _names(box) if name in retired]:
            made = _retired(box, names[0], idle_s) if _billed(box) else None
        elif box.found.instance.status is BoxStatus.DOWN:
            made = _down(box, idle_s) if box.found.instance.price_per_hour else None
        elif meant and idle_s >= IDLE_S:
            made = _idle(box, idle_s, servers, scene)
        elif not meant and asking.isdisjoint(box.names):
            made = _unnamed(box, idle_s, _asked_as(box, every, scene))
        if made is not None:
            yield as_listed(made, (box.found.provider,), scene)


def _seen_at(box: Box, scene: Scene) -> float:
    """Return when a box was seen last: now, or when its listing was read last."""
    stale = box.found.provider not in scene.listings
    return scene.last[box.found.provider].taken_at if stale else scene.now


def as_listed(made: AttentionItem, providers: Iterable[str], scene: Scene) -> AttentionItem:
    """Return an item with the warning that it is as these providers listed it last, if it is."""
    unread = " and ".join(one for one in providers if one in scene.unread)
    if not unread:
        return made
    told = f"So it was when {unread} was last read, which cannot be read now."
    return evolve(made, sentence=f"{made.sentence} {told}")


def _servers(hosts: Collection[str], drafts: Iterable[Draft]) -> Mapping[str, list[Draft]]:
    """Return the servers that are, or should be, on these hosts."""
    servers: dict[str, list[Draft]] = defaultdict(list)
    for draft in drafts:
        deployment = draft.entry.deployment
        if deployment is not None and deployment.host in hosts:
            servers[deployment.host].append(draft)
    return servers


def _names(box: Box) -> tuple[str, ...]:
    return (*box.names, *box.found.instance.called)


def _billed(box: Box) -> bool:
    """Tell whether a listing shows a box as paid for: one that runs is, at an unknown price too."""
    price = box.found.instance.price_per_hour
    return bool(price) or (price is None and box.found.instance.status is not BoxStatus.DOWN)


def _retired(box: Box, name: str, idle_s: float) -> AttentionItem:
    price = box.found.instance.price_per_hour
    costs = ", at a price no listing says" if price is None else f" at {per_hour(price)}"
    so_far = _so_far(box, idle_s).replace(":", ",")
    return _item(
        ItemKind.RETIRED_AND_BILLED,
        box,
        f"{name} is retired and still rented{costs}{so_far}. It serves nobody.",
        f"End its rental {_at(box)}; this stays until {box.found.provider} no longer lists it.",
        host=name,
    )


def _at(box: Box) -> str:
    return f"at {box.found.provider} (instance {box.found.instance.id})"


def _down(box: Box, idle_s: float) -> AttentionItem:
    instance = box.found.instance
    status = instance.raw_status or instance.status.value
    sentence = f"{box.names[0]} is {status} and {box.found.provider} still lists it at {_cost(box)}"
    return _item(
        ItemKind.DOWN_AND_BILLED,
        box,
        f"{sentence}{_so_far(box, idle_s)}. It serves nobody.",
        f"End its rental {_at(box)}, or start it again there.",
    )


def _idle(
    box: Box, idle_s: float, servers: Mapping[str, list[Draft]], scene: Scene
) -> AttentionItem:
    drained = any(one in scene.intended.labels.drained_hosts for one in box.names)
    does = "is drained, has served" if drained else "has served"
    first = "Undrain it" if drained else "See why its servers do not serve"
    sentence = f"{box.names[0]} {does} nothing for {_hours(idle_s)} h and costs {_cost(box)}"
    return _item(
        ItemKind.SERVES_NOTHING,
        box,
        f"{sentence}{_so_far(box, idle_s)}.",
        f"{first}, or end its rental {_at(box)}.",
        [_line(draft) for name in box.names for draft in servers.get(name, ())],
    )


def _line(draft: Draft) -> str:
    routed = "in LiteLLM" if draft.entry.rows else "not in LiteLLM"
    return f"{draft.entry.key}: {draft.life.value}, {routed}"


def _asked_as(box: Box, every: Iterable[Box], scene: Scene) -> str:
    """Return the name under which a box has asked for its configuration, "" for none.

    A name that another box answers to as well is nobody's.
    """
    hosts = scene.protocol.hosts
    for name in box.names:
        asked = name in hosts and hosts[name].last_seen is not None
        if not asked or name in scene.intended.hosts:
            continue
        if sum(name in one.found.instance.called for one in every) == 1:
            return name
    return ""


def _unnamed(box: Box, idle_s: float, asked_as: str) -> AttentionItem:
    instance, name = box.found.instance, asked_as or box.names[0]
    label = "" if name == instance.id.lower() else f" ({name})"
    so_far = _so_far(box, idle_s).replace(":", ",")
    asked = f" It has asked for its configuration as {asked_as}." if asked_as else ""
    first = "Press Approve, and choose its models; or add" if asked_as else "Add"
    made = _item(
        ItemKind.UNNAMED_BOX,
        box,
        f"No host of fleet.hosts names {box.found.provider} instance {instance.id}{label}, which "
        f"costs {_cost(box)}{so_far}.{asked}",
        f"{first} {name} to `fleet.hosts` and reload, or end its rental {_at(box)}.",
        host=name,
    )
    return evolve(made, button="approve") if asked_as else made


def _item(
    kind: ItemKind,
    box: Box,
    sentence: str,
    remedy: str,
    evidence: Iterable[str] = (),
    host: str = "",
) -> AttentionItem:
    provider, instance_id = box.id
    return item(
        kind,
        sentence,
        f"{provider}:{instance_id}",
        host=host or box.names[0],
        evidence=(f"{provider} instance {instance_id}", *evidence),
        remedy=remedy,
    )


def _hours(seconds: float) -> int:
    return math.floor(seconds / _HOUR_S)


def _cost(box: Box) -> str:
    return cost(box.found.instance.price_per_hour)


def _so_far(box: Box, idle_s: float) -> str:
    """Return what the whole hours have come to, "" before the first."""
    price, hours = box.found.instance.price_per_hour, _hours(idle_s)
    return f": {dollars(hours * price)} so far" if price and hours else ""


# ---- all of it

_MONEY = (
    ItemKind.RETIRED_AND_BILLED,
    ItemKind.DOWN_AND_BILLED,
    ItemKind.SERVES_NOTHING,
    ItemKind.UNNAMED_BOX,
)


def wasted(hosts: Iterable[HostView], items: Iterable[AttentionItem]) -> tuple[HostView, ...]:
    """Return the boxes that are paid for and serve nobody: those with an item about that.

    One that nothing names and that waits for an approval is told of as such, and counts, too.
    """
    told = {item.id for item in items}
    return tuple(one for one in hosts if _waits(one) or not told.isdisjoint(_ids(one)))


def _ids(host: HostView) -> Iterator[str]:
    return (f"{kind.value}:{host.provider}:{host.instance_id}" for kind in _MONEY)


def _waits(host: HostView) -> bool:
    """Tell whether a box that runs is nobody's: it neither serves nor should."""
    nobodys = not host.intended and not host.keys and host.idle_since is not None
    return nobodys and host.status != BoxStatus.DOWN.value


# ---- hosts without a box


def no_instance(
    places: Places, hosts: Mapping[str, HostHistory], known: Collection[str], scene: Scene
) -> Iterator[AttentionItem]:
    """Yield an item for each host that every listing has been read for and none ever named.

    known: the items of the pass before; without all listings none begins, and none ends.
    """
    if not scene.last or scene.last.keys() != scene.intervals.keys():
        return
    providers = " or ".join(sorted(scene.last))
    for host in scene.intended.hosts.values():
        if host.own or host.name in scene.intended.labels.retired_hosts:
            continue
        if any(_placed(name, places, hosts, scene) for name in (host.name, *host.was)):
            continue
        made = item(
            ItemKind.NO_INSTANCE,
            f"No instance of {providers} answers to {host.name}, so what it should serve has no "
            "address.",
            host.name,
            host=host.name,
            remedy="Correct its name in `fleet.hosts`, remove it, or mark it `own: true`; then "
            "reload.",
        )
        if scene.all_listed or made.id in known:
            yield as_listed(made, sorted(scene.last), scene)


def _placed(name: str, places: Places, hosts: Mapping[str, HostHistory], scene: Scene) -> bool:
    known = hosts.get(name)
    return bool(known and known.provider) or places.of(name).named or name in scene.placed
