"""Outside edits: what others changed of LiteLLM's teams and keys between two reads.

Rule of this file: it reports and reconciles nothing. The first read has nothing to compare with,
and a failed read says nothing, so neither is an edit.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence

import structlog

from llmao_core.snapshots import Access, Grant

from .board import Board
from .clock import Clock
from .host import PluginHost
from .ledger import Entry, EntryKind
from .runners import Runner
from .sources import Source
from .unexpected import log_unexpected

ACTOR = "litellm"
# A proxy that was set up anew differs in everything; the log needs no thousand lines of it.
MOST_EDITS = 100
_MODELS_SHOWN = 10

Keep = Callable[[Sequence[Entry]], Awaitable[None]]

log = structlog.get_logger(__name__)


class AccessRunner(Runner):
    """Reads teams and keys, and hands on what changed. keep: takes the entries of one read."""

    def __init__(
        self, source: Source, host: PluginHost, board: Board, clock: Clock, keep: Keep
    ) -> None:
        super().__init__(source, host, board, clock)
        self._keep = keep

    async def read(self) -> bool:
        """Read once; what the last good read shows now is compared with what it showed before."""
        before = self._board.reading(self.source.name).snapshot
        good = await super().read()
        after = self._board.reading(self.source.name).snapshot
        if before and after:
            await self._tell(edits(before.body, after.body, after.taken_at))
        return good

    async def _tell(self, found: Sequence[Entry]) -> None:
        for entry in found:
            log.info("outside edit", said=entry.detail["sentence"])
        try:
            if found:
                await self._keep(found)
        except Exception as error:
            # The log has them all the same.
            self._board.counts.store_failures.inc()
            log_unexpected("store", error)


def edits(before: Access, after: Access, at: float) -> tuple[Entry, ...]:
    """Return one entry per team or key that differs, seen at `at`; many become one more line."""
    found = list(_edits(_by_id(before.grants), _by_id(after.grants)))
    made = [
        Entry(at, ACTOR, EntryKind.OUTSIDE_EDIT, detail={"sentence": said, "what": what, "id": one})
        for what, one, said in found[:MOST_EDITS]
    ]
    if (rest := len(found) - MOST_EDITS) > 0:
        said = f"{rest} more teams and keys were changed."
        made.append(Entry(at, ACTOR, EntryKind.OUTSIDE_EDIT, detail={"sentence": said}))
    return tuple(made)


_Grants = Mapping[tuple[str, str], Grant]


def _by_id(grants: Iterable[Grant]) -> _Grants:
    return {(grant.what, grant.id): grant for grant in grants}


def _edits(before: _Grants, after: _Grants) -> Iterator[tuple[str, str, str]]:
    """Yield what each edit is of, its id, and its sentence; teams last, in a fixed order."""
    for what, one in sorted(before.keys() | after.keys()):
        old, new = before.get((what, one)), after.get((what, one))
        if old is None and new is not None:
            blocked = ", blocked" if new.blocked else ""
            limits = f"{_budget(new)}, {_models(new)}{blocked}"
            yield what, one, f"{_named(new)} was made: {limits}."
        elif new is None and old is not None:
            yield what, one, f"{_named(old)} was removed."
        elif old and new and old != new:
            yield what, one, f"{_named(old)} was changed: {'; '.join(_changes(old, new))}."


def _named(grant: Grant) -> str:
    return f"{grant.what.capitalize()} {grant.name or f'without a name ({grant.id})'}"


def _changes(old: Grant, new: Grant) -> Iterator[str]:
    if old.name != new.name:
        yield f"its name is {new.name}" if new.name else "it has no name any more"
    if old.budget != new.budget:
        yield f"from {_budget(old)} to {_budget(new)}"
    if old.models != new.models:
        yield f"from {_models(old)} to {_models(new)}"
    if old.blocked != new.blocked:
        yield "it is blocked" if new.blocked else "it is no longer blocked"


def _budget(grant: Grant) -> str:
    return "no budget limit" if grant.budget is None else f"a budget of {grant.budget:g}"


def _models(grant: Grant) -> str:
    if not grant.models:
        return "all models"
    rest = len(grant.models) - _MODELS_SHOWN
    shown = ", ".join(grant.models[:_MODELS_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
    return f"the models {shown}" if len(grant.models) > 1 else f"the model {shown}"
