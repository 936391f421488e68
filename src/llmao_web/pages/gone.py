"""The page of a deployment that the newest pass does not have: what the store keeps of it.

Rule of this file: a name of which nothing was ever kept is no page; that the store cannot be read
is an error of its own, never an absence.
"""

from collections.abc import Sequence
from typing import Any

from attrs import frozen

from llmao_core.errors import LlmaoError
from llmao_core.keys import Key
from llmao_core.records import View
from llmao_web.desk import Records
from llmao_web.shell.store import Transition, Wanted

from .names import page_id
from .render import Renderer
from .sheet import Sheet
from .timeline import SHOWN, timeline


@frozen
class Gone:
    """What the page of a former deployment shows."""

    key: Key
    sheet: Sheet


class GonePages:
    """Makes the page of any deployment of which something is kept."""

    def __init__(self, records: Records, renderer: Renderer, fleet: str) -> None:
        self._records = records
        self._fleet = fleet
        self._parts: Any = renderer.macros("gone_parts.html.j2")
        self._moment: Any = renderer.macros("deployment_parts.html.j2").moment
        self._followed: dict[str, tuple[View | None, Sheet]] = {}

    async def follow(self, name: str, view: View | None) -> Sheet:
        """Return what changes on the page, made once per pass; empty when nothing is kept.

        What an open page shows stays while the store cannot be read.
        """
        before = self._followed.get(name)
        if before is not None and before[0] is view:
            return before[1]
        try:
            kept = await self.made(name, passed=view is not None)
        except LlmaoError:
            return before[1] if before else Sheet({})
        sheet = kept.sheet if kept else Sheet({})
        others = {each: one for each, one in self._followed.items() if one[0] is view}
        self._followed = {**others, name: (view, sheet)}
        return sheet

    async def made(self, name: str, *, passed: bool) -> Gone | None:
        """Return the page; None when nothing was ever kept. passed: a pass has run.

        Raises StoreError.
        """
        key = await self._named(name)
        if key is None:
            return None
        moves = await self._records.transitions(key, SHOWN)
        moments = timeline(moves, await self._records.entries(Wanted(key=key, limit=SHOWN)))
        last_at = moments[0].at if moments else None
        parts = {each.id: str(self._moment(each)) for each in moments}
        lists = {"timeline": tuple(parts)}
        head = str(self._parts.head(last_at, _last_life(moves), passed))
        return Gone(key, Sheet({"gone-head": head, **parts}, lists))

    async def _named(self, name: str) -> Key | None:
        keys = await self._records.keys()
        return next((key for key in keys if page_id(self._fleet, key) == name), None)


def _last_life(moves: Sequence[Transition]) -> str:
    """Return the last lifecycle it had, "" when none is kept."""
    return (moves[0].after or moves[0].before) if moves else ""
