"""What boxes did at `/vllm/config` and `/vllm/notice`, folded into the box protocol snapshot.

Rule of this file: one event in, one snapshot out, and nothing a stranger sends makes it grow
without end. Events are what the handler saw; what they mean is decided in reconcile.
"""

from collections.abc import Iterable, Mapping
from itertools import groupby

from attrs import evolve, field, frozen

from .config import Json
from .snapshots import BoxFetches, BoxProtocol, UnknownHost, WrongKeys

HOSTS_KEPT = 20_000
UNKNOWN_KEPT = 50
WRONG_KEYS_KEPT = 50
RESTARTING_KEPT = 64
ASSIGNMENTS_KEPT = 5
_NEVER = BoxFetches()


@frozen
class Fetch:
    """A known host asked with a good key.

    host: the name it was answered under, a former one included. handed_out: revision of a GET
    answered 200, "" for HEAD and 304. applied: the revision the box reported, "" for none.
    assignment: what it is told now, without bearers.
    """

    host: str
    handed_out: str = ""
    applied: str = ""
    # The revision says all that it says; two events are the same without it.
    assignment: Json | None = field(default=None, eq=False, repr=False)


@frozen
class Unknown:
    """A host that no configuration names asked with a good key. host: as looked up."""

    host: str


@frozen
class WrongKey:
    """Somebody asked with no key or a wrong one.

    peer: address of the connection. claimed_host: its header or forwarded address, "" for none.
    """

    peer: str
    claimed_host: str = ""


@frozen
class Restarting:
    """A known host announced that it restarts these servers. names: process names of its rows."""

    host: str
    names: tuple[str, ...]


BoxEvent = Fetch | Unknown | WrongKey | Restarting


def fold(protocol: BoxProtocol, event: BoxEvent, at: float) -> BoxProtocol:
    """Return the snapshot after one event; `at` is epoch seconds."""
    match event:
        case Fetch():
            return fetched(protocol, event, at)
        case Unknown():
            return unknown(protocol, event, at)
        case WrongKey():
            return wrong_key(protocol, event, at)
        case Restarting():
            return restarting(protocol, event, at)


def fold_all(protocol: BoxProtocol, noted: Iterable[tuple[BoxEvent, float]]) -> BoxProtocol:
    """Return the snapshot after several events, oldest first, each with its time.

    The same as `fold` for one after the other; many fetches copy the hosts once.
    """
    for kind, group in groupby(noted, key=lambda one: type(one[0])):
        if kind is Fetch:
            protocol = _fetched(protocol, ((each, at) for each, at in group if type(each) is Fetch))
        else:
            for event, at in group:
                protocol = fold(protocol, event, at)
    return protocol


def fetched(protocol: BoxProtocol, fetch: Fetch, at: float) -> BoxProtocol:
    """Fold one fetch of a known host; it is no longer unknown."""
    return _fetched(protocol, ((fetch, at),))


def _fetched(protocol: BoxProtocol, fetches: Iterable[tuple[Fetch, float]]) -> BoxProtocol:
    hosts, seen = dict(protocol.hosts), set()
    for fetch, at in fetches:
        seen.add(fetch.host)
        hosts[fetch.host] = _after(hosts.get(fetch.host, _NEVER), fetch, at)
    strangers = tuple(each for each in protocol.unknown if each.host not in seen)
    return BoxProtocol(_newest_hosts(hosts), strangers, protocol.wrong_keys)


def _after(box: BoxFetches, fetch: Fetch, at: float) -> BoxFetches:
    handed = bool(fetch.handed_out)
    return BoxFetches(
        first_handout=at if handed and box.first_handout is None else box.first_handout,
        last_handout=at if handed else box.last_handout,
        handed_out=fetch.handed_out or box.handed_out,
        applied=fetch.applied or box.applied,
        last_seen=at,
        restarting=box.restarting,
        assignments=_assigned(box.assignments, fetch.assignment),
    )


def _assigned(kept: Mapping[str, Json], told: Json | None) -> Mapping[str, Json]:
    """Return the assignments of a box with one more, the newest last; the oldest is dropped."""
    revision = str(told.get("revision", "")) if told is not None else ""
    if told is None or revision in kept:
        return kept
    newest = [*kept.items(), (revision, told)]
    return dict(newest[-ASSIGNMENTS_KEPT:])


def recall(protocol: BoxProtocol, host: str, before: Mapping[str, Json]) -> BoxProtocol:
    """Return the snapshot with what a host was told before llmao started, if it asked since."""
    if (box := protocol.hosts.get(host)) is None:
        return protocol
    both = {name: told for name, told in before.items() if name not in box.assignments}
    newest = dict([*both.items(), *box.assignments.items()][-ASSIGNMENTS_KEPT:])
    return evolve(protocol, hosts={**protocol.hosts, host: evolve(box, assignments=newest)})


def unknown(protocol: BoxProtocol, event: Unknown, at: float) -> BoxProtocol:
    """Fold one fetch of an unknown host; the newest 50 are kept, newest first."""
    known = next((each for each in protocol.unknown if each.host == event.host), None)
    seen = (
        evolve(known, last_seen=at, count=known.count + 1)
        if known
        else UnknownHost(event.host, first_seen=at, last_seen=at, count=1)
    )
    others = tuple(each for each in protocol.unknown if each.host != event.host)
    return evolve(protocol, unknown=(seen, *others)[:UNKNOWN_KEPT])


def wrong_key(protocol: BoxProtocol, event: WrongKey, at: float) -> BoxProtocol:
    """Fold one wrong key, counted per peer and claimed host; the newest 50 are kept."""
    name = (event.peer, event.claimed_host)
    counts = {(each.peer, each.claimed_host): each for each in protocol.wrong_keys}
    before = counts.pop(name).count if name in counts else 0
    seen = WrongKeys(event.peer, event.claimed_host, count=before + 1, last_seen=at)
    return evolve(protocol, wrong_keys=(seen, *counts.values())[:WRONG_KEYS_KEPT])


def restarting(protocol: BoxProtocol, event: Restarting, at: float) -> BoxProtocol:
    """Fold one announcement; a name announced again has the newer time."""
    box = protocol.hosts.get(event.host, _NEVER)
    names = dict(_newest({**box.restarting, **dict.fromkeys(event.names, at)}.items()))
    box = evolve(box, last_seen=at, restarting=names)
    return evolve(protocol, hosts=_newest_hosts({**protocol.hosts, event.host: box}))


def _newest(announced: Iterable[tuple[str, float]]) -> list[tuple[str, float]]:
    return sorted(announced, key=lambda item: item[1], reverse=True)[:RESTARTING_KEPT]


def _newest_hosts(hosts: dict[str, BoxFetches]) -> Mapping[str, BoxFetches]:
    while len(hosts) > HOSTS_KEPT:
        del hosts[min(hosts, key=lambda name: hosts[name].last_seen or 0.0)]
    return hosts
