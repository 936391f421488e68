"""The lines of the tables of deployments, each rendered when something in it changed.

Rule of this file: a line shows what a pass concluded of one key, and no URL of a box, only the
port that can be dialled.
"""

import functools
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from attrs import frozen
from markupsafe import Markup

from llmao_core.keys import Key
from llmao_core.plan import Action
from llmao_core.records import HostView, Kind, Record

from .names import element, fetch_tone, is_fine, page_id, page_of
from .render import Renderer
from .warnings import drains_one, serving
from .work import Button, run_button

DRAIN, UNDRAIN = "/do-drain", "/do-undrain"
# A probe a few seconds ago changes nothing but its age, which is put in last. Escaped text holds
# no bare `<`.
_PROBED = Markup('<time class="age" data-at="<probed>"></time>')


@frozen
class Line:
    """One deployment as a table shows it.

    port: what can be dialled, None when unplaced. fine: a telephone may show it in one line.
    """

    id: str
    record: Record
    host: HostView | None
    port: int | None
    page: str
    fetched: str
    buttons: tuple[Button, ...]
    fine: bool


class Lines:
    """Makes lines of records; what has not changed since the pass before is not rendered again."""

    def __init__(self, renderer: Renderer, fleet: str) -> None:
        self._fleet = fleet
        self._row = renderer.macros("deployments.html.j2").line
        self._kept: Mapping[str, tuple[Any, str]] = {}

    def of(
        self,
        records: tuple[Record, ...],
        hosts: Mapping[str, HostView],
        held: Mapping[Any, Action],
        now: float,
    ) -> dict[str, str]:
        """Return the line of every record by its element's id, in the order given."""
        now_serving = serving(records)
        kept: dict[str, tuple[Any, str]] = {}
        lines: dict[str, str] = {}
        for record in records:
            action = held.get(record.key)
            line = self._line(record, hosts.get(record.host), action, now, now_serving)
            shown = _shown(line)
            before = self._kept.get(line.id)
            same = before is not None and before[0] == shown
            html = before[1] if before is not None and same else str(self._row(line, _PROBED))
            kept[line.id] = shown, html
            lines[line.id] = _with_probe(html, record.signal.at)
        self._kept = kept
        return lines

    def id_of(self, record: Record) -> str:
        """Return the id of the element of a record's line."""
        return _line_id(self._fleet, record.key)

    def _line(
        self,
        record: Record,
        host: HostView | None,
        action: Action | None,
        now: float,
        now_serving: Mapping[str, int],
    ) -> Line:
        return Line(
            id=self.id_of(record),
            record=record,
            host=host,
            port=port_of(record.dialable),
            page=page_of(self._fleet, record.key),
            fine=is_fine(record),
            fetched=fetch_tone(host.last_fetch if host else None, now),
            buttons=(
                *((run_button(action),) if action and not record.reached else ()),
                *drain_buttons(self._fleet, record, host, now_serving),
            ),
        )


@functools.lru_cache(maxsize=20_000)
def _line_id(fleet: str, key: Key) -> str:
    return element("d", page_id(fleet, key))


def drain_buttons(
    fleet: str, record: Record, host: HostView | None, now_serving: Mapping[str, int]
) -> tuple[Button, ...]:
    """Return the button that takes traffic off a box's deployment, or puts it back.

    now_serving: from `warnings.serving`.
    """
    # One that is retired comes back on the page of its box, and by no Undrain.
    if record.kind not in (Kind.INTENDED, Kind.DISCOVERED) or record.retired:
        return ()
    fields = {"id": page_id(fleet, record.key)}
    if record.drained:
        return (Button("Undrain", UNDRAIN, fields),)
    return (Button("Drain", DRAIN, fields, warning=drains_one(record, host, now_serving)),)


@functools.lru_cache(maxsize=20_000)
def port_of(dialable: str) -> int | None:
    """Return the port of a dialable URL."""
    if not dialable:
        return None
    try:
        parts = urlsplit(dialable)
        return parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return None


def _with_probe(html: str, at: float | None) -> str:
    return html.replace("<probed>", str(int(at))) if at is not None else html


def _shown(line: Line) -> tuple[Any, ...]:
    """Return everything in a line that is to be seen, but for the time of the newest probe."""
    one, host, signal, counters = (
        line.record,
        line.host,
        line.record.signal,
        line.record.counters,
    )
    return (
        one.lifecycle, one.kind, one.since, one.fresh, one.held, one.drained, one.restarting,
        one.retired, one.reached, one.unlisted, one.because, one.rule, one.write_trouble,
        one.badges, one.provider, one.instance_id, one.litellm, one.litellm_at, one.litellm_said,
        one.fails, one.max_model_len, one.revision_current, one.revision_applied, one.row is None,
        signal.kind, signal.detail, signal.at is None, counters and counters.kv_tokens,
        line.port, line.fetched, line.buttons,
        host and (host.gpu, host.status, host.instance_id, host.price_per_hour, host.last_fetch,
                 len(host.keys)),
    )  # fmt: skip
