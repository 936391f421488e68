"""Many JSON objects of one shape, field by field: what is alike stands together and packs well.

Rule of this file: null is a field that is left out, in an object and for a whole object; so an
object in these rows has at least one field that is not null.
"""

from collections.abc import Sequence
from typing import Any

from .journal_codec import JournalError


def columns(told: Sequence[Any]) -> Any:
    """Return objects as one object of columns; a list of anything else as it is."""
    if not any(isinstance(each, dict) for each in told):
        return list(told)
    names = dict.fromkeys(name for each in told if each for name in each)
    return {name: columns([each.get(name) if each else None for each in told]) for name in names}


def rows(told: Any, count: int) -> list[Any]:
    """Return the objects of columns; JournalError when they are not so many."""
    if isinstance(told, dict):
        found: list[dict[str, Any]] = [{} for _ in range(count)]
        for name, column in told.items():
            for each, value in zip(found, rows(column, count), strict=True):
                if value is not None:
                    each[name] = value
        return [each or None for each in found]
    if not isinstance(told, list) or len(told) != count:
        raise JournalError("it holds a column that is not as long as the others")
    return told
