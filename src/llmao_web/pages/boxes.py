"""Boxes: what is rented, what it costs, what it serves, who says so; and the page of one.

Rule of this file: every instance of every listing and every host is a box somewhere, matched as
the newest pass matched them. It concludes nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from attrs import define, field, frozen
from litestar import Response
from litestar.exceptions import NotFoundException
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath

from llmao_core.errors import LlmaoError
from llmao_core.intended import Intended
from llmao_core.keys import Key, host_name
from llmao_core.records import HostView, Record, View
from llmao_core.snapshots import (
    BoxStatus,
    Instance,
    Listing,
    Reading,
    SourceState,
    UnknownHost,
)
from llmao_web.desk import Clock, Desk, Office
from llmao_web.shell.ledger import EntryKind, Note, Numbered
from llmao_web.shell.store import Fetches, Wanted

from .forms import AnyRequest
from .hosts_lines import hosts_lines
from .names import fetch_tone, page_of
from .render import Renderer, page
from .said import said

NOWHERE = "in no listing"
ENTRIES_SHOWN = 50


@frozen
class Served:
    """One deployment of a box, with the address of its page."""

    record: Record
    page: str


@frozen
class Box:
    """One host, one instance, or both where the newest pass took one for the other.

    stale: its listing is. fetched: over restarts. refused: how it asks under a name that nothing
    knows, and is turned away.
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

    @property
    def page(self) -> str:
        """Return the address of its own page, "" for an instance that nothing takes for a host."""
        return page_ofbox_of(self.name) if self.host else ""

    @property
    def alive(self) -> bool:
        """Tell whether its listing says that it runs."""
        return self.instance is not None and self.instance.status is BoxStatus.UP

    @property
    def price_per_hour(self) -> float | None:
        """Return its price in dollars; None when no listing tells, or it is gone."""
        gone = self.instance is None or self.instance.status is BoxStatus.GONE
        return None if gone or self.instance is None else self.instance.price_per_hour


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
    """What boxes are matched from."""

    view: View
    intended: Intended
    notes: Mapping[str, Note]
    fetches: Mapping[str, Fetches]
    listings: Mapping[str, Reading[Listing]]
    unknown: Mapping[str, UnknownHost]
    now: float
    fleet: str
    trouble: str = ""


def page_ofbox_of(host: str) -> str:
    """Return the address of a host's page."""
    return f"/boxes/{quote(host, safe='')}"


def box_page(
    desk: Desk, office: Office, clock: Clock, renderer: Renderer, fleet: str
) -> HTTPRouteHandler:
    """Return the handler of `/boxes/HOST`."""

    @page("/boxes/{name:str}")
    async def box(name: FromPath[str], request: AnyRequest) -> Response[str]:
        known = await known_of(desk, office, clock, fleet)
        host = _named(name)
        trouble, entries = await _entries(office, host)
        found = _one(known, host) if known else None
        if found is None and not entries and not trouble:
            raise NotFoundException
        rows = next((each for each in office.approvals() if each.host == host), None)
        context = {
            "name": host,
            "trouble": trouble,
            "box": found,
            "entries": [(each.entry, said(each.entry)) for each in entries],
            "approved": rows,
            "lines": hosts_lines([rows]) if rows else "",
            "reboot": office.reboots().get(host),
            "remembered": _remembered(
                entry.entry.detail for entry in entries if entry.entry.kind is EntryKind.RETIRED
            ),
            "retired": bool(known and host in known.intended.labels.retired_hosts),
        }
        return renderer.page("box.html.j2", context, request=request)

    return box


def _named(text: str) -> str:
    try:
        return host_name(text)
    except ValueError:
        return ""


async def _entries(office: Office, host: str) -> tuple[str, Sequence[Numbered]]:
    """Return the newest entries of a host, and why there are none that could be read."""
    try:
        return "", await office.entries(Wanted(host=host, limit=ENTRIES_SHOWN)) if host else ()
    except LlmaoError as error:
        return str(error), ()


async def known_of(desk: Desk, office: Office, clock: Clock, fleet: str) -> Known | None:
    """Return what boxes are matched from now; None before the first pass."""
    trouble, fetches = "", {}
    try:
        fetches = dict(await office.fetches())
    except LlmaoError as error:
        trouble = str(error)
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
    )


# ---- matching


def listed_as(listings: Mapping[str, Reading[Listing]], host: str) -> tuple[Instance | None, str]:
    """Return the one listed instance that goes by this name, and its provider."""
    found = [
        (instance, provider)
        for provider, reading in listings.items()
        for instance in (reading.snapshot.body.instances if reading.snapshot else ())
        if instance.status is not BoxStatus.GONE and host in instance.called
    ]
    return found[0] if len(found) == 1 else (None, "")


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
            provider = host.provider or host.placed_by or NOWHERE
            group = groups.setdefault(provider, Group(provider))
            group.boxes.append(box_of(known, records, host.name, provider, host=host))
    return groups


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
    labels, fetched = known.intended.labels, known.fetches.get(name)
    last = _last_fetch(host, fetched)
    return Box(
        name=name,
        provider=provider,
        host=host,
        instance=instance,
        stale=stale,
        note=known.notes.get(name),
        fetched=Fetches(last, last) if last is not None and fetched is None else fetched,
        fetch_tone=fetch_tone(last, known.now),
        drained=name in labels.drained_hosts,
        retired=name in labels.retired_hosts,
        served=tuple(
            Served(records[key], page_of(known.fleet, key))
            for key in (host.keys if host else ())
            if key in records
        ),
        refused=_refused(name, instance, known.unknown),
    )


def _refused(
    name: str, instance: Instance | None, unknown: Mapping[str, UnknownHost]
) -> UnknownHost | None:
    names = (name, *(instance.called if instance else ()))
    return next((unknown[each] for each in names if each in unknown), None)


def _last_fetch(host: HostView | None, fetched: Fetches | None) -> float | None:
    times = [host.last_fetch if host else None, fetched.last if fetched else None]
    return max((at for at in times if at is not None), default=None)


# ---- what is shown


def _one(known: Known, host: str) -> Box | None:
    """Return a box by its host's name; one that is only known to have asked has no host."""
    for group in groups_of(known).values():
        for box in group.boxes:
            if box.host is not None and box.name == host:
                return box
    named = host in known.unknown or host in known.notes or host in known.intended.hosts
    instance, provider = listed_as(known.listings, host)
    if named or instance is not None:
        return box_of(known, {}, host, provider or NOWHERE, instance=instance)
    return None


def _remembered(details: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return what was kept when a host was retired last; {} when it never was."""
    return next(iter(details), {})
