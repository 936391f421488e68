"""Which instance each host is, and where its ports can be reached now.

Rule of this file: only fresh listings speak; a name beats an address; where several instances
could be a host, none is taken.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping

from attrs import evolve, field, frozen

from .history import HostHistory
from .intended import Intended
from .remembered import Remembered
from .snapshots import BoxStatus, Instance, Listing, Snapshot

UNLISTED_PASSES = 3
_EARLY_S = 0.001
_NO_ROUTE = (BoxStatus.DOWN, BoxStatus.GONE)


@frozen
class Found:
    """One instance of one listing."""

    provider: str
    instance: Instance


@frozen
class Place:
    """What the listings say of one host.

    found: the instance it is. colliding: instances that could all be it, or the one that
    another host has by a more specific name. named: some fresh listing names it.
    """

    found: Found | None = None
    colliding: tuple[Found, ...] = ()
    taken_by: str = ""
    named: bool = False

    @property
    def ambiguous(self) -> bool:
        return bool(self.colliding) and self.found is None

    def url(self, listen_port: int) -> str:
        """Return the root of a listen port as the listing maps it, "" if it does not."""
        if self.found is None or self.found.instance.status in _NO_ROUTE:
            return ""
        endpoint = self.found.instance.endpoints.get(listen_port)
        return endpoint.url if endpoint else ""


@frozen
class Places:
    """hosts: by name. spare: instances that no host names. addresses: all that are listed."""

    hosts: Mapping[str, Place] = field(factory=dict)
    spare: tuple[Found, ...] = ()
    addresses: frozenset[str] = frozenset()

    def of(self, host: str) -> Place:
        """Return the place of a host; an empty one if no listing speaks of it."""
        return self.hosts.get(host, _NOWHERE)


_NOWHERE = Place()
NO_PLACES = Places()


@frozen
class Answering:
    """An instance that answers to a name. host: of fleet.hosts, "" if none names it."""

    found: Found
    host: str


def answering(places: Places, names: Collection[str]) -> Mapping[str, tuple[Answering, ...]]:
    """Return the instances that answer to these names by id, label or address."""
    if not names:
        return {}
    every = [
        *(Answering(place.found, host) for host, place in places.hosts.items() if place.found),
        *(Answering(found, "") for found in places.spare),
    ]
    found: dict[str, tuple[Answering, ...]] = {}
    for one in every:
        for name in one.found.instance.called:
            if name in names:
                found[name] = (*found.get(name, ()), one)
    return found


def find(
    intended: Intended,
    listings: Mapping[str, Snapshot[Listing]],
    known: Mapping[str, HostHistory],
) -> Places:
    """Return the place of every host; listings are fresh ones, by provider."""
    if not listings:
        return NO_PLACES
    providers = tuple(sorted(listings))
    told = _TOLD(providers, intended, *(listings[name].body.instances for name in providers))
    if told.places is not None:
        return told.places
    placed = dict(told.placed)
    for name, rest in told.several.items():
        wanted = frozenset(row.port for row in intended.hosts[told.names[name]].rows)
        placed[name] = _of_several(rest, wanted, known.get(name))
    return _places(intended, told, placed)


@frozen
class _Told:
    """What listings tell of the hosts without history.

    names: every name of a host → its newest. several: of the hosts named by address, the
    instances there that no name has claimed, where that is more than one. places: all of it,
    None where history has to choose.
    """

    every: tuple[Found, ...]
    addresses: frozenset[str]
    names: Mapping[str, str]
    placed: Mapping[str, Place]
    several: Mapping[str, list[Found]]
    places: Places | None = None


def _tell(providers: tuple[str, ...], intended: Intended, *listed: tuple[Instance, ...]) -> _Told:
    every = tuple(
        Found(provider, instance)
        for provider, instances in zip(providers, listed, strict=True)
        for instance in _ordered(instances)
        if instance.status is not BoxStatus.GONE
    )
    by_name, by_address = _index(every)
    names = {name: host.name for host in intended.hosts.values() for name in (host.name, *host.was)}
    named, taken = _by_name(names, by_name)
    placed, several = {}, {}
    for name in names:
        if name in named:
            placed[name] = named[name]
        elif name in by_address:
            rest = [found for found in by_address[name] if _id(found) not in taken]
            placed[name] = _by_address(rest, by_address[name], taken)
            if len(rest) > 1:
                several[name] = rest
    told = _Told(every, frozenset(by_address), names, placed, several)
    return told if several else evolve(told, places=_places(intended, told, placed))


# Between two reads of the listings and of the configuration every pass asks the same.
_TOLD = Remembered(_tell, most=10)


def _places(intended: Intended, told: _Told, placed: dict[str, Place]) -> Places:
    for host in (one for one in intended.hosts.values() if one.was):
        now = placed.get(host.name, _NOWHERE)
        placed |= {old: now for old in host.was if now.found}
    listed = Counter(_id(found) for found in told.every)
    claimed = set()
    for place in placed.values():
        if place.found:
            claimed.add(_id(place.found))
        claimed.update(_id(found) for found in place.colliding)
    return Places(
        hosts=placed,
        # one id twice is nonsense, and nonsense is not explored
        spare=tuple(
            found for found in told.every if _id(found) not in claimed and listed[_id(found)] < 2
        ),
        addresses=told.addresses,
    )


def _ordered(instances: Iterable[Instance]) -> list[Instance]:
    """Return instances by id; where a listing has one id twice, by all that it says of them."""
    ordered = sorted(instances, key=lambda one: one.id)
    if len({one.id for one in ordered}) < len(ordered):
        ordered.sort(key=lambda one: (one.id, repr(one)))
    return ordered


def _id(found: Found) -> tuple[str, str]:
    return (found.provider, found.instance.id)


def _index(every: Iterable[Found]) -> tuple[dict[str, list[Found]], dict[str, list[Found]]]:
    by_name: dict[str, list[Found]] = defaultdict(list)
    by_address: dict[str, list[Found]] = defaultdict(list)
    for found in every:
        for name in dict.fromkeys((found.instance.id.lower(), *found.instance.names)):
            by_name[name].append(found)
        for address in dict.fromkeys(found.instance.addresses):
            by_address[address].append(found)
    return by_name, by_address


def _by_name(
    names: Mapping[str, str], by_name: Mapping[str, list[Found]]
) -> tuple[dict[str, Place], dict[tuple[str, str], str]]:
    """Place hosts named by id or label; of two hosts naming one instance the id has it."""
    placed: dict[str, Place] = {}
    taken: dict[tuple[str, str], str] = {}
    candidates = [name for name in names if name in by_name]
    candidates.sort(key=lambda name: name != by_name[name][0].instance.id.lower())
    for name in candidates:
        found = by_name[name]
        if len(found) > 1:
            placed[name] = Place(colliding=tuple(found), named=True)
        elif (owner := taken.get(_id(found[0]))) and names[owner] != names[name]:
            placed[name] = Place(colliding=tuple(found), taken_by=owner, named=True)
        else:
            taken.setdefault(_id(found[0]), name)
            placed[name] = Place(found=found[0], named=True)
    return placed, taken


def _by_address(
    rest: list[Found], listed: list[Found], taken: Mapping[tuple[str, str], str]
) -> Place:
    """Place a host named by address, for the time being at the first instance of several.

    rest: of the instances listed there, those that no name has claimed.
    """
    if not rest:
        owner = taken[_id(listed[0])]
        return Place(colliding=tuple(listed), taken_by=owner, named=True)
    return Place(found=rest[0], named=True)


def _of_several(rest: list[Found], wanted: frozenset[int], known: HostHistory | None) -> Place:
    """Place a host named by an address that several instances have: by its ports, then history."""
    up = [found for found in rest if found.instance.status not in _NO_ROUTE]
    fitting = [found for found in up if wanted and wanted <= set(found.instance.endpoints)]
    if len(fitting) == 1:
        return Place(found=fitting[0], named=True)
    for found in fitting or up:
        if known and _id(found) == (known.provider, known.instance_id):
            return Place(found=found, named=True)
    return Place(colliding=tuple(rest), named=True)


def fold_host(
    old: HostHistory | None,
    place: Place,
    placed_by: str,
    listings: Mapping[str, Snapshot[Listing]],
    intervals: Mapping[str, float | None],
    handout: float | None,
) -> HostHistory:
    """Return what is remembered of a host after this pass's listings.

    placed_by: the provider whose listing placed it, "" if none ever did. handout: the newest
    hand-out, which belongs to an earlier instance if the listing now names another.
    """
    host = old or HostHistory()
    if place.found is not None:
        return _found_again(host, place.found, listings, handout)
    if place.named:
        return evolve(host, missed=0, unlisted=False) if host.missed or host.unlisted else host
    snapshot = listings.get(placed_by)
    if snapshot is None:
        return host
    gap = intervals.get(placed_by) or 0.0
    if host.counted is not None and snapshot.taken_at < host.counted + gap - _EARLY_S:
        return host
    missed = host.missed + 1
    return evolve(
        host, missed=missed, counted=snapshot.taken_at, unlisted=missed >= UNLISTED_PASSES
    )


def _found_again(
    host: HostHistory,
    found: Found,
    listings: Mapping[str, Snapshot[Listing]],
    handout: float | None,
) -> HostHistory:
    same = (host.provider, host.instance_id) == _id(found)
    taken_at = listings[found.provider].taken_at
    if same and not host.missed and not host.unlisted and host.counted == taken_at:
        return host
    changed = bool(host.instance_id) and not same
    return evolve(
        host,
        provider=found.provider,
        instance_id=found.instance.id,
        missed=0,
        unlisted=False,
        counted=taken_at,
        floor=handout if changed else host.floor,
    )
