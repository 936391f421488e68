"""The page `/admin/log`: the ledger and the changes of lifecycles, with filters.

Rule of this file: a page of the log ends at a number, so that what comes meanwhile moves nothing.
"""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from attrs import frozen
from litestar import Response
from litestar.handlers import HTTPRouteHandler

from llmao_core.errors import LlmaoError
from llmao_web.desk import Office
from llmao_web.shell.ledger import Entry, EntryKind, Numbered
from llmao_web.shell.store import Transition, Wanted

from .forms import AnyRequest, Form, asked_in
from .names import page_of
from .render import Renderer, page
from .said import GOOD, about, deed, evidence_of, grounds_of, said, tone_of

PAGE = 50
_FIELD_CHARS = 200
_BRIEF_CHARS = 100


@frozen
class Line:
    """One entry of the ledger as the log shows it. kind: in words; more: lines on demand."""

    at: float
    actor: str
    kind: str
    about: str
    said: str
    tone: str
    more: tuple[str, ...]


def log_page(office: Office, renderer: Renderer, fleet: str) -> HTTPRouteHandler:
    """Return the handler of `/admin/log`."""

    @page("/admin/log")
    async def log(request: AnyRequest) -> Response[str]:
        context = await _context(office, asked_in(request), fleet)
        return renderer.page("log.html.j2", context, request=request)

    return log


async def _context(office: Office, asked: Form, fleet: str) -> dict[str, Any]:
    kinds = {each.value: each for each in EntryKind}
    kind, host, actor = (
        _last(asked, name)[:_FIELD_CHARS].strip() for name in ("kind", "host", "actor")
    )
    before = _last(asked, "before")
    number = int(before) if before.isascii() and before.isdigit() and len(before) <= 15 else 0
    wanted = Wanted(
        kinds=frozenset({kinds[kind]}) if kind in kinds else frozenset(),
        host=host,
        before=number,
        limit=PAGE + 1,
    )
    trouble, found, moved = await _read(
        office, wanted, actor, changes=not (kind or actor or number)
    )
    shown = found[:PAGE]
    filters = {
        name: value for name, value in (("kind", kind), ("host", host), ("actor", actor)) if value
    }
    older = {**filters, "before": shown[-1].number} if len(found) > PAGE else None
    narrowed = bool(filters or number)
    return {
        "lines": [line(each) for each in shown],
        "kinds": [(each.value, each.words) for each in EntryKind],
        "kind": kind,
        "host": host,
        "actor": actor,
        "newest": f"/admin/log?{urlencode(filters)}" if number else "",
        "older": f"/admin/log?{urlencode(older)}" if older else "",
        "transitions": moved,
        "trouble": trouble,
        "narrowed": narrowed,
        "page_of": lambda key: page_of(fleet, key),
    }


async def _read(
    office: Office, wanted: Wanted, actor: str, *, changes: bool
) -> tuple[str, Sequence[Numbered], Sequence[Transition]]:
    """Return entries and transitions, or why they could not be read.

    changes: transitions, too; they have no kind and nobody does them.
    """
    try:
        moved = await office.transitions(PAGE, wanted.host) if changes else ()
        return "", await office.entries(wanted, actor), moved
    except LlmaoError as error:
        return str(error), (), ()


def _last(asked: Form, name: str) -> str:
    return (asked.all(name) or ("",))[-1]


def line(numbered: Numbered) -> Line:
    """Return an entry as the log shows it; the kind stands before the words, and not in them."""
    entry = numbered.entry
    kind, words, more = _of_action(entry) if entry.kind is EntryKind.ACTION else _of_deed(entry)
    return Line(entry.at, entry.actor, kind, about(entry), words, tone_of(entry), more)


def _of_action(entry: Entry) -> tuple[str, str, tuple[str, ...]]:
    """Return kind, words and lines on demand; only what went wrong is told at once."""
    answered = str(entry.detail.get("said") or "")
    failed = entry.detail.get("outcome") not in GOOD
    return deed(entry), _brief(answered) if failed else "", grounds_of(entry) + evidence_of(entry)


def _of_deed(entry: Entry) -> tuple[str, str, tuple[str, ...]]:
    kind = entry.kind.words
    words = said(entry).removeprefix(kind).lstrip(": ")
    long = (words,) if len(words) > _BRIEF_CHARS else ()
    return kind, _brief(words), long + evidence_of(entry)


def _brief(text: str) -> str:
    return text if len(text) <= _BRIEF_CHARS else text[: _BRIEF_CHARS - 1].rstrip() + "…"
