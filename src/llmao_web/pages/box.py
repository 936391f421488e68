"""The page `/boxes/HOST`: one box, what needs doing there and what can be done, kept current.

Rule of this file: it shows a box as it was matched, and its part of what the pass concluded. What
is being typed into the form of its label is never touched.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from attrs import evolve, frozen
from litestar import Response
from litestar.exceptions import NotFoundException
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath

from llmao_core.errors import LlmaoError
from llmao_core.intended import Approval
from llmao_core.keys import host_name
from llmao_core.reboot import no_order
from llmao_core.records import AttentionItem, HostView, View
from llmao_web.desk import Clock, Desk, Office
from llmao_web.shell.ledger import EntryKind, Numbered
from llmao_web.shell.store import Wanted

from . import warnings
from .boxes import Box, Known, box_named, known_of
from .forms import AnyRequest
from .hosts_lines import hosts_lines
from .live import Live, Source
from .render import Renderer, page
from .said import said
from .sheet import Sheet
from .work import Button, Work, work_of

NAME = "box"
ENTRIES_SHOWN = 50


@frozen
class Made:
    """The page of one moment. view: of which pass; box: None for one of which only entries are."""

    view: View | None
    sheet: Sheet
    box: Box | None = None


class BoxPages:
    """Makes the page of any host that something knows."""

    def __init__(
        self, desk: Desk, office: Office, clock: Clock, renderer: Renderer, fleet: str
    ) -> None:
        self._desk = desk
        self._office = office
        self._clock = clock
        self._fleet = fleet
        self._parts = renderer.macros("box_parts.html.j2")
        self._followed: dict[str, Made] = {}

    def sources(self) -> dict[str, Source]:
        """Return how the script of these pages follows them."""
        return {NAME: Source(self._follow)}

    async def _follow(self, host: str) -> Sheet:
        """Return the sheet, made once per pass; empty for a host that nothing knows any more."""
        host = _named(host)
        before = self._followed.get(host)
        if before is None or before.view is not self._desk.view():
            before = await self.made(host)
        return before.sheet if before else Sheet({})

    async def made(self, host: str) -> Made | None:
        """Return the page as it is now; None for a host of which nothing is known or kept."""
        view = self._desk.view()
        known = await known_of(self._desk, self._office, self._clock, self._fleet)
        box = box_named(known, host) if known and host else None
        trouble, entries = await _entries(self._office, host)
        if box is None and not entries and not trouble:
            return None
        made = Made(view, self._sheet(host, known, box, trouble, entries), box)
        # Who looks sees what was pressed at once; no listener may take that back.
        kept = {each: one for each, one in self._followed.items() if one.view is view}
        self._followed = {**kept, host: made}
        return made

    def _sheet(
        self,
        host: str,
        known: Known | None,
        box: Box | None,
        trouble: str,
        entries: Sequence[Numbered],
    ) -> Sheet:
        approval = next((each for each in self._office.approvals() if each.host == host), None)
        retired = bool(box and box.retired) or bool(
            known and host in known.intended.labels.retired_hosts
        )
        retirements = entries if retired else ()
        remembered = next((_detail(each) for each in retirements if _is_retirement(each)), {})
        parts = {
            "box": self._parts.head(
                host,
                box,
                trouble,
                approval,
                retired,
                deeds(host, box, known, approval, retired),
                no_reboot(box),
            ),
            "needed": self._parts.needed(self._work(host, box, known)),
            "serves": self._parts.serves(box),
            "lines": self._parts.lines(*_lines(host, known, approval, retired)),
            "remembered": self._parts.remembered(remembered),
            "done": self._parts.done(host, [(one.entry, said(one.entry)) for one in entries]),
        }
        return Sheet({name: str(html) for name, html in parts.items()})

    def _work(self, host: str, box: Box | None, known: Known | None) -> tuple[Work, ...]:
        """Return the attention items about a host, as the strip has them."""
        if known is None:
            return ()
        about = tuple(items_about(known.view.items, host, box, known))
        if not about:
            return ()
        return work_of(evolve(known.view, items=about), self._desk.plan(), self._fleet)


def box_page(pages: BoxPages, live: Live, renderer: Renderer) -> HTTPRouteHandler:
    """Return the handler of `/boxes/HOST`."""

    @page("/boxes/{name:str}")
    async def box(name: FromPath[str], request: AnyRequest) -> Response[str]:
        host = _named(name)
        made = await pages.made(host)
        if made is None:
            raise NotFoundException
        context = {
            "name": host,
            "box": made.box,
            "sheet": made.sheet,
            "live": live.address(f"{NAME}:{host}", made.sheet),
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


def _lines(
    host: str, known: Known | None, approval: Approval | None, retired: bool
) -> tuple[str, bool]:
    """Return lines of fleet.hosts, and whether they are to leave it instead of coming in."""
    if retired:
        hosts = known.intended.config.fleet.hosts if known else ()
        named = [each for each in hosts if host in (each.name, *each.was)]
        return hosts_lines(Approval(each.name, each.rows, "", 0.0) for each in named), True
    return hosts_lines([approval] if approval else []), False


def _is_retirement(one: Numbered) -> bool:
    return one.entry.kind is EntryKind.RETIRED


def _detail(one: Numbered) -> Mapping[str, Any]:
    return one.entry.detail


# ---- what needs doing


def items_about(
    items: Iterable[AttentionItem], host: str, box: Box | None, known: Known
) -> Iterable[AttentionItem]:
    """Yield the items that concern a host: under any of its names, or one of its deployments."""
    intended = known.intended.hosts.get(host)
    names = {host, *(intended.was if intended else ()), *(box.names if box else ())}
    for item in items:
        # The item of an orphan has no host; its key's name begins with one.
        if item.host in names or (item.key and item.key.place in names):
            yield item


# ---- what can be done


def deeds(
    host: str, box: Box | None, known: Known | None, approval: Approval | None, retired: bool
) -> tuple[Button, ...]:
    """Return the buttons of a box; what does harm warns first."""
    if retired:
        kept = known.intended.labels.retired_hosts if known else frozenset[str]()
        name = next((each for each in sorted(box.names) if each in kept), host) if box else host
        return (Button("Take back from retirement", "/do-unretire", {"host": name}),)
    if box is None or known is None:
        return ()
    return tuple(_deeds({"host": host}, box, known, approval))


def _deeds(
    fields: Mapping[str, str], box: Box, known: Known, approval: Approval | None
) -> Iterable[Button]:
    now, view = warnings.serving(known.view.records), _rented(box)
    served = [each.record for each in box.served]
    intended = box.host is not None and box.host.intended
    if box.host and box.host.rebooting and box.host.reboot_since is None:
        yield Button("Cancel the reboot", "/do-cancel-reboot", fields, "primary")
    if intended and box.drained:
        yield Button("Undrain", "/do-undrain", fields, "primary")
    elif intended:
        warning = warnings.drains_box(served, view, now)
        yield Button("Drain", "/do-drain", fields, warning=warning)
    if box.host and box.host.instance_id and served and not no_reboot(box):
        warning = warnings.reboots(served, box.host, now)
        yield Button("Drain and reboot", "/do-reboot", fields, "danger", warning=warning)
    choose = f"/admin?{urlencode(fields)}#approve"
    # What fleet.hosts says as well is withdrawn there.
    withdrawable = fields["host"] in known.intended.approved
    if approval:
        yield Button("Change its models", link=choose)
    if withdrawable:
        warning = warnings.withdraws(served, view)
        yield Button("Withdraw the approval", "/do-withdraw", fields, "danger", warning=warning)
    if not approval and not intended:
        yield Button("Approve …", link=choose)
    configured = intended and not withdrawable
    warning = warnings.retires(served, view, now, approved=withdrawable, configured=configured)
    yield Button("Retire", "/do-retire", fields, "danger", warning=warning)


def no_reboot(box: Box | None) -> str:
    """Return why a box has no button that reboots it, "" where it has one or never would."""
    if box is None or box.host is None:
        return ""
    if box.host.rebooting:
        return "It can be rebooted again once the reboot that is under way is over."
    return no_order(box.host) if box.host.instance_id and box.served else ""


def _rented(box: Box) -> HostView | None:
    """Return a box's host as long as it is rented, for what goes on to cost."""
    return box.host if box.rented else None
