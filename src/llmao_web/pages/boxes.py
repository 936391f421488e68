"""Boxes: what is rented, what it costs, what it serves, and who says so.

Rule of this file: every instance of every listing and every host is a box somewhere, matched as
the newest pass matched them. It concludes nothing.
"""

from collections.abc import Iterable, Iterator, Mapping

from attrs import define, evolve, field, frozen

from llmao_core.errors import LlmaoError
from llmao_core.intended import Intended, Labels
from llmao_core.keys import Key
from llmao_core.money import wasted
from llmao_core.prices import per_hour, rent
from llmao_core.records import HostView, Record, View
from llmao_core.snapshots import (
    BoxStatus,
    Instance,
    Listing,
    Reading,
    SourceState,
    UnknownHost,
)
from llmao_core.verdicts import DOWN
from llmao_web.desk import Clock, Desk, Office
from llmao_web.shell.ledger import Note
from llmao_web.shell.store import Fetches

from .lines import port_of
from .names import fetch_tone, page_of, page_of_box
from .warnings import serves

NOWHERE = "in no listing"
UNREAD = "a listing that is not read"
_TONES: Mapping[BoxStatus | None, str] = {BoxStatus.STARTING: "fair", BoxStatus.DOWN: "bad"}


@frozen
class Served:
    """One deployment of a box. page: its address. port: what can be dialled, None for none."""

    record: Record
    page: str
    port: int | None


@frozen
class Box:
    """One host, one instance, or both where the newest pass took one for the other.

    stale: its listing is. fetched: over restarts. refused: how it asks under a name that nothing
    knows, and is turned away. wasted: it is paid for and serves nobody.
    """

    name: str
    provider: str
    host: HostView | None = None
    instance: Instance | None = None
    stale: bool = False
    note: Note | None = None
    fetched: Fetches | None = None
    fetch_tone: str = "plain"
    drained: bool = False
    retired: bool = False
    served: tuple[Served, ...] = ()
    refused: UnknownHost | None = None
    wasted: bool = False

    @property
    def tone(self) -> str:
        """Return how its state looks: that it runs is good only if it serves."""
        status = self.instance.status if self.instance else None
        if status is not BoxStatus.UP:
            return _TONES.get(status, "plain")
        records = [each.record for each in self.served]
        fails = any(one.lifecycle in DOWN and not one.reached for one in records)
        if any(serves(one) for one in records):
            return "fair" if fails else "good"
        if fails:
            return "bad"
        return "fair" if records or self.wasted else "plain"

    @property
    def nobodys(self) -> bool:
        """Tell whether no host names it; of a retired box nobody wants to be told that."""
        meant = self.host is not None and self.host.intended
        return self.instance is not None and not meant and not self.retired

    @property
    def page(self) -> str:
        """Return the address of its own page, "" for an instance that nothing takes for a host."""
        return page_of_box(self.name) if self.host else ""

    @property
    def alive(self) -> bool:
        """Tell whether its listing says that it runs."""
        return self.instance is not None and self.instance.status is BoxStatus.UP

    @property
    def rented(self) -> bool:
        """Tell whether a listing has it, and not as gone."""
        return self.instance is not None and self.instance.status is not BoxStatus.GONE

    @property
    def price_per_hour(self) -> float | None:
        """Return its price in dollars; None when no listing tells, or it is gone."""
        return self.instance.price_per_hour if self.instance and self.rented else None

    @property
    def rent(self) -> str:
        """Return in words what it costs now, "" for what no listing has."""
        return rent(self.price_per_hour, running=self.alive) if self.rented else ""

    @property
    def still_rented(self) -> str:
        """Return what is to be done about a retired box that is still rented, "" for others."""
        if not (self.retired and self.rented):
            return ""
        price = f" for {per_hour(self.price_per_hour)}" if self.price_per_hour else ""
        return f"Retired, and still rented{price}: end the rental at {self.provider}."

    @property
    def place(self) -> str:
        """Return in words what its provider calls it and where it is, "" for what none lists."""
        if self.instance is None:
            return ""
        return listed_words(self.instance, self.provider, self.name)

    @property
    def names(self) -> frozenset[str]:
        """Return every name it goes by."""
        return frozenset((self.name, *(self.instance.called if self.instance else ())))


@define
class Group:
    """The boxes of one provider. state, at: of its listing, None without one."""

    provider: str
    boxes: list[Box] = field(factory=list)
    state: SourceState | None = None
    at: float | None = None
    hidden: int = 0

    @property
    def rented(self) -> int:
        return sum(box.instance is not None for box in self.boxes)

    @property
    def alive(self) -> int:
        return sum(box.alive for box in self.boxes)

    @property
    def cost(self) -> float:
        """Return what its boxes cost per hour, those without a price left out."""
        return sum(box.price_per_hour or 0.0 for box in self.boxes)

    @property
    def unpriced(self) -> int:
        return sum(
            box.instance is not None and box.instance.price_per_hour is None for box in self.boxes
        )

    @property
    def shown(self) -> list[Box]:
        return self.boxes[: len(self.boxes) - self.hidden]


@frozen
class Known:
    """What boxes are matched from. wasted: provider and instance id of what serves nobody."""

    view: View
    intended: Intended
    notes: Mapping[str, Note]
    fetches: Mapping[str, Fetches]
    listings: Mapping[str, Reading[Listing]]
    unknown: Mapping[str, UnknownHost]
    now: float
    fleet: str
    trouble: str = ""
    wasted: frozenset[tuple[str, str]] = frozenset()


async def known_of(desk: Desk, office: Office, clock: Clock, fleet: str) -> Known | None:
    """Return what boxes are matched from now; None before the first pass."""
    fetches, trouble = await fetches_of(office)
    view, intended = desk.view(), desk.intended()
    if view is None or intended is None:
        return None
    return Known(
        view=view,
        intended=intended,
        notes=office.notes(),
        fetches=fetches,
        listings=office.listings(),
        unknown={each.host: each for each in office.unknown()},
        now=clock.now(),
        fleet=fleet,
        trouble=trouble,
        wasted=frozenset((one.provider, one.instance_id) for one in wasted(view.hosts, view.items)),
    )


async def fetches_of(office: Office) -> tuple[Mapping[str, Fetches], str]:
    """Return what hosts fetched over restarts, and why that cannot be read, "" if it can.

    A host that asked in vain before it was approved has asked; only so many are remembered.
    """
    asked = {each.host: Fetches(each.first_seen, each.last_seen) for each in office.named_since()}
    try:
        kept = await office.fetches()
    except LlmaoError as error:
        return asked, str(error)
    return asked | {host: _with(each, asked.get(host)) for host, each in kept.items()}, ""


def _with(kept: Fetches, asked: Fetches | None) -> Fetches:
    if asked is None:
        return kept
    return evolve(kept, first=min(kept.first, asked.first), last=max(kept.last, asked.last))


def fetched_by(name: str, host: HostView | None, fetches: Mapping[str, Fetches]) -> Fetches | None:
    """Return when a box asked and was answered, the only word on that for all pages.

    host: as the newest pass saw it, which knows of what the store does not have yet.
    """
    kept, seen = fetches.get(name), host.last_fetch if host else None
    if seen is None:
        return kept
    return evolve(kept, last=max(kept.last, seen)) if kept else Fetches(seen, seen)


# ---- matching


def instances_of(listings: Mapping[str, Reading[Listing]]) -> Iterator[tuple[str, Instance]]:
    """Yield every instance of the last good listings, each with its provider."""
    for provider, reading in listings.items():
        for instance in reading.snapshot.body.instances if reading.snapshot else ():
            yield provider, instance


def listed_as(listings: Mapping[str, Reading[Listing]], host: str) -> tuple[Instance | None, str]:
    """Return the one listed instance that goes by this name, and its provider."""
    found = [
        (instance, provider)
        for provider, instance in instances_of(listings)
        if instance.status is not BoxStatus.GONE and host in instance.called
    ]
    return found[0] if len(found) == 1 else (None, "")


def listed_words(instance: Instance, provider: str, name: str) -> str:
    """Return what a provider calls an instance, and its address where the name is none."""
    contract = f"c.{instance.id}" in (name, *instance.called)
    words = f"{provider} {'contract' if contract else 'instance'} {instance.id}"
    others = [each for each in instance.addresses if each != name]
    return f"{words}, at {others[0]}" if others else words


def called(listings: Mapping[str, Reading[Listing]]) -> frozenset[str]:
    """Return every name of every listed instance."""
    return frozenset(
        name
        for _, instance in instances_of(listings)
        if instance.status is not BoxStatus.GONE
        for name in instance.called
    )


def groups_of(known: Known) -> dict[str, Group]:
    """Return every box under its provider, the providers with a listing first."""
    groups: dict[str, Group] = {}
    listed: set[tuple[str, str]] = set()
    hosts = {(each.provider, each.instance_id): each for each in known.view.hosts}
    records = _records(known.view.records)
    threshold = known.intended.config.fleet.health_fail_threshold
    for provider, reading in sorted(known.listings.items()):
        state = reading.state(known.now, threshold)
        group = groups.setdefault(provider, Group(provider, state=state))
        if reading.snapshot is None:
            continue
        group.at = reading.snapshot.taken_at
        for instance in reading.snapshot.body.instances:
            host = hosts.get((provider, instance.id))
            name = host.name if host else (*instance.names, instance.id)[0]
            stale = state is SourceState.STALE
            listed.add((provider, instance.id))
            group.boxes.append(
                box_of(known, records, name, provider, host=host, instance=instance, stale=stale)
            )
    for host in known.view.hosts:
        if not host.instance_id or (host.provider, host.instance_id) not in listed:
            provider = _unlisted_at(host)
            group = groups.setdefault(provider, Group(provider))
            group.boxes.append(box_of(known, records, host.name, provider, host=host))
    return groups


def box_named(known: Known, name: str) -> Box | None:
    """Return the box of one host, None for a name that nothing knows.

    One that is only known to have asked, or to be listed, has no host.
    """
    host = next((each for each in known.view.hosts if each.name == name), None)
    if host is None:
        instance, provider = listed_as(known.listings, name)
        asked = name in known.unknown or name in known.notes or name in known.intended.hosts
        if instance is None and not asked:
            return None
        return box_of(known, {}, name, provider or NOWHERE, instance=instance)
    keys = frozenset(host.keys)
    records = _records(each for each in known.view.records if each.key in keys)
    reading = known.listings.get(host.provider)
    listed = reading.snapshot.body.instances if reading and reading.snapshot else ()
    instance = next((each for each in listed if each.id == host.instance_id), None)
    if reading is None or instance is None:
        return box_of(known, records, name, _unlisted_at(host), host=host)
    threshold = known.intended.config.fleet.health_fail_threshold
    stale = reading.state(known.now, threshold) is SourceState.STALE
    return box_of(known, records, name, host.provider, host=host, instance=instance, stale=stale)


def _unlisted_at(host: HostView) -> str:
    """Return where to show a box that no last listing has; what is unread may have it."""
    return host.provider or host.placed_by or (UNREAD if host.stale else NOWHERE)


def _records(records: Iterable[Record]) -> Mapping[Key, Record]:
    return {record.key: record for record in records}


def box_of(
    known: Known,
    records: Mapping[Key, Record],
    name: str,
    provider: str,
    *,
    host: HostView | None = None,
    instance: Instance | None = None,
    stale: bool = False,
) -> Box:
    """Return one box with all that is known of it."""
    labels, fetched = known.intended.labels, fetched_by(name, host, known.fetches)
    return Box(
        name=name,
        provider=provider,
        host=host,
        instance=instance,
        stale=stale,
        note=known.notes.get(name),
        fetched=fetched,
        fetch_tone=fetch_tone(fetched.last if fetched else None, known.now),
        drained=name in labels.drained_hosts,
        retired=is_retired(name, host, instance, labels),
        served=tuple(
            Served(records[key], page_of(known.fleet, key), port_of(records[key].dialable))
            for key in (host.keys if host else ())
            if key in records
        ),
        refused=_refused(name, instance, known),
        wasted=instance is not None and (provider, instance.id) in known.wasted,
    )


def is_retired(name: str, host: HostView | None, instance: Instance | None, labels: Labels) -> bool:
    """Tell whether a box is retired; one that no host names any more, under any of its names."""
    if name in labels.retired_hosts:
        return True
    named = host is not None and host.intended
    called = instance.called if instance and not named else ()
    return not labels.retired_hosts.isdisjoint(called)


def _refused(name: str, instance: Instance | None, known: Known) -> UnknownHost | None:
    names = (name, *(instance.called if instance else ()))
    return next((known.unknown[each] for each in names if each in known.unknown), None)
