"""The page `/admin`: who wants in, what waits, what is in force, and what was done by whom.

Rule of this file: it collects what others concluded and kept. What is suggested is only a choice
already made in a form, and nothing happens before it is sent.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from attrs import evolve, frozen
from litestar import Response
from litestar.handlers import HTTPRouteHandler

from llmao_core.actions import ActionKind
from llmao_core.errors import LlmaoError
from llmao_core.intended import Intended
from llmao_core.plan import DEFAULT_POLICY, Action, Hold, Plan, Policy
from llmao_core.records import LitellmSignal, Record, View
from llmao_web.box_files import read_box_file
from llmao_web.desk import Desk, Office
from llmao_web.shell.archive import digest_of
from llmao_web.shell.ledger import Numbered
from llmao_web.shell.store import Wanted

from .approving import Approving, approving, state_of
from .boxes import listed_as, listed_words
from .forms import AnyRequest, Form, asked_in
from .hosts_lines import hosts_lines
from .live import Live, Source
from .log import line
from .models import idle_words
from .names import counted, element, page_of
from .render import Renderer, page
from .sheet import Sheet
from .work import Button, releasable, release_button, run_button

ACTIONS_SHOWN = 100
CHECKS_SHOWN = 25
RECENT = 10
NAME = "admin"
CHOOSING = "choosing"


@frozen
class Planned:
    """One action of the plan with its buttons and the address of its deployment."""

    id: str
    action: Action
    page: str
    buttons: tuple[Button, ...]


@frozen
class Ruled:
    """What the policy says of one kind of action. own: the configuration says so, not llmao."""

    kind: str
    words: str
    policy: str
    own: bool


@frozen
class Checkable:
    """One deployment that LiteLLM can be asked about."""

    id: str
    record: Record
    page: str


class AdminPages:
    """Makes the page of admins, and what of it changes by itself."""

    def __init__(self, desk: Desk, office: Office, renderer: Renderer, fleet: str) -> None:
        self._desk = desk
        self._office = office
        self._renderer = renderer
        self._fleet = fleet
        self._installer = read_box_file("install_set.py").sha256
        self._followed: dict[bool, tuple[View | None, Sheet]] = {}

    def sources(self) -> dict[str, Source]:
        """Return how the script of the page follows it."""
        return {NAME: Source(self._follow)}

    async def _follow(self, which: str) -> Sheet:
        """Return the sheet, made once per pass for everybody who looks."""
        choosing, _, host = which.partition(":")
        view, before = self._desk.view(), self._followed.get(bool(choosing))
        if before is None or before[0] is not view:
            made = view, await self._sheet(choosing=bool(choosing))
            before = self._followed[bool(choosing)] = made
        return self._with_form(before[1], host) if choosing else before[1]

    async def sheet(self, host: str = "", *, choosing: bool) -> Sheet:
        """Return what changes by itself. choosing: a host's form stands where hosts wait."""
        sheet = await self._sheet(choosing=choosing)
        return self._with_form(sheet, host) if choosing else sheet

    def _with_form(self, sheet: Sheet, host: str) -> Sheet:
        """Return a sheet that is another one once the host is approved: the page is read anew."""
        return evolve(sheet, lists={f"form {state_of(self._office, host)}": ()})

    async def _sheet(self, *, choosing: bool) -> Sheet:
        context = await self._context()
        made = {"rest": "admin_rest.html.j2", "waiting": "admin_waiting.html.j2"}
        if choosing:
            del made["waiting"]
        return await asyncio.to_thread(
            lambda: Sheet(
                {name: str(self._renderer.part(file, context)) for name, file in made.items()}
            )
        )

    async def _context(self) -> dict[str, Any]:
        trouble, recent = "", list[Numbered]()
        try:
            recent = list(await self._office.entries(Wanted(limit=RECENT)))
        except LlmaoError as error:
            trouble = str(error)
        return {
            **_admin(self._desk, self._office, self._fleet),
            "installer": self._installer,
            "trouble": trouble,
            "recent": [line(each) for each in recent],
        }

    async def form(self, asked: Form) -> dict[str, Any]:
        """Return what stands in the section that approves."""
        intended = self._desk.intended()
        choosing: Approving | None = None
        if intended is not None and asked.all("host"):
            choosing = await approving(intended, self._desk.view(), self._office, asked)
        return {"choosing": choosing, "lines": hosts_lines(_unpasted(self._office, intended))}


def admin_page(pages: AdminPages, live: Live, renderer: Renderer) -> HTTPRouteHandler:
    """Return the handler of `/admin`: what it shows is gathered, then rendered in a thread."""

    @page("/admin")
    async def admin(request: AnyRequest) -> Response[str]:
        form = await pages.form(asked_in(request))
        choosing: Approving | None = form["choosing"]
        host = choosing.host if choosing else ""
        sheet = await pages.sheet(host, choosing=choosing is not None)
        followed = f"{NAME}:{CHOOSING}:{host}" if choosing else f"{NAME}:"
        context = {**form, "sheet": sheet, "live": live.address(followed, sheet)}
        return await asyncio.to_thread(
            lambda: renderer.page("admin.html.j2", context, request=request)
        )

    return admin


def _admin(desk: Desk, office: Office, fleet: str) -> dict[str, Any]:
    view, plan, intended = desk.view(), desk.plan(), desk.intended()
    dropped = office.dropped()
    return {
        "view": view,
        "untried": desk.ready()[1],
        "unknown": [(each, _listed(office, each.host)) for each in office.unknown()],
        "planned": _planned(plan, fleet),
        "plan_size": len(plan.actions) if plan else 0,
        "idle": idle_words(view) if view else "",
        "release": _release(plan),
        "policy": _policy(intended),
        "brake": intended.config.brake if intended else None,
        "notes": sorted(office.notes().items()),
        "reboots": sorted(office.reboots().items()),
        "dropped": dropped,
        "lead": office.leadership(),
        "dropped_digest": digest_of(dropped),
        "config_item": _config_item(view),
        "checked": office.checked(),
        "checks": _checks(view, fleet),
    }


def _listed(office: Office, host: str) -> str:
    """Return what the provider of a host that nothing names calls it, "" where none lists it."""
    instance, provider = listed_as(office.listings(), host)
    return listed_words(instance, provider, host) if instance else ""


def _release(plan: Plan | None) -> Button | None:
    """Return the button that releases the brake, None while it holds nothing."""
    braked = sum(action.hold is Hold.BRAKE for action in plan.actions) if plan else 0
    return release_button(f"Release the brake ({counted(braked, 'removal')})") if braked else None


def _unpasted(office: Office, intended: Intended | None) -> list[Any]:
    """Return the approvals that config.yaml does not hold yet."""
    names = intended.approved if intended else frozenset()
    return [each for each in office.approvals() if each.host in names]


def _planned(plan: Plan | None, fleet: str) -> list[Planned]:
    actions = sorted(plan.actions, key=lambda action: action.runs) if plan else []
    return [
        Planned(
            element("a", f"{action.kind.value} {action.key}"),
            action,
            page_of(fleet, action.key),
            (run_button(action),) if releasable(action) else (),
        )
        for action in actions[:ACTIONS_SHOWN]
    ]


def _policy(intended: Intended | None) -> list[Ruled]:
    config = intended.config if intended else None
    own = config.policy if config else {}
    policy = Policy.of(own, config.brake) if config else Policy(DEFAULT_POLICY)
    return [
        Ruled(kind.value, kind.words, policy.kinds[kind], kind.value in own) for kind in ActionKind
    ]


def _config_item(view: View | None) -> Sequence[str]:
    """Return what is wrong with the configuration that was read last, one line each."""
    troubles = [each.trouble for each in view.sources if each.name == "intended"] if view else []
    return [line for trouble in troubles if trouble for line in trouble.message.split("\n")]


_UNSURE = {LitellmSignal.DOWN: 0, LitellmSignal.UNKNOWN: 1, LitellmSignal.UP: 2}


def _checks(view: View | None, fleet: str) -> list[Checkable]:
    """Return what is in LiteLLM, those it finds down or does not know first."""
    routed = [record for record in view.records if record.row is not None] if view else []
    routed.sort(key=lambda record: (_UNSURE[record.litellm], str(record.key)))
    return [
        Checkable(record.row.id, record, page_of(fleet, record.key))
        for record in routed[:CHECKS_SHOWN]
        if record.row is not None
    ]
