"""The page of a deployment that the newest pass does not have: what the store keeps of it.

Rule of this file: a name of which nothing was ever kept is no page; that the store cannot be read
is an error of its own, never an absence.
"""

from collections.abc import Sequence
from typing import Any

from llmao_core.keys import Key
from llmao_web.desk import Records
from llmao_web.shell.store import Transition, Wanted

from .names import page_id
from .timeline import SHOWN, timeline


async def gone(records: Records, fleet: str, name: str) -> dict[str, Any] | None:
    """Return what the page of a former deployment shows; None when nothing was ever kept.

    Raises StoreError.
    """
    found = await _named(records, fleet, name)
    if found is None:
        return None
    moves = await records.transitions(found, SHOWN)
    entries = await records.entries(Wanted(key=found, limit=SHOWN))
    moments = timeline(moves, entries)
    return {
        "key": found,
        "moments": moments,
        "last_at": moments[0].at if moments else None,
        "last_life": _last_life(moves),
    }


async def _named(records: Records, fleet: str, name: str) -> Key | None:
    keys = await records.keys()
    return next((key for key in keys if page_id(fleet, key) == name), None)


def _last_life(moves: Sequence[Transition]) -> str:
    """Return the last lifecycle it had, "" when none is kept."""
    return (moves[0].after or moves[0].before) if moves else ""
