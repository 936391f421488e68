"""Records as plain text, the same in every process.

Rule of this file: the order of tuples and mappings shows, that of sets does not.
"""

import enum
from collections.abc import Iterator, Mapping
from typing import Any

import attrs


def plain(thing: object) -> str:
    """Return a rendering in which two equal things are equal, to the letter."""
    if isinstance(thing, enum.Enum):
        return str(thing)
    if attrs.has(type(thing)):
        names = _names(thing)
        inside = ", ".join(f"{name}={plain(getattr(thing, name))}" for name in names)
        return f"{type(thing).__name__}({inside})"
    if isinstance(thing, Mapping):
        return "{" + ", ".join(f"{plain(k)}: {plain(v)}" for k, v in thing.items()) + "}"
    if isinstance(thing, set | frozenset):
        return "{" + ", ".join(sorted(map(plain, thing))) + "}"
    if isinstance(thing, tuple | list):
        return "(" + ", ".join(map(plain, thing)) + ")"
    return repr(thing)


def _names(thing: Any) -> list[str]:
    return [one.name for one in attrs.fields(type(thing))]


def words(thing: object) -> Iterator[str]:
    """Yield every piece of text inside, as a page, a log or a JSON answer would find it."""
    if isinstance(thing, str):
        yield thing
    elif attrs.has(type(thing)):
        for name in _names(thing):
            yield from words(getattr(thing, name))
    elif isinstance(thing, Mapping):
        for name, value in thing.items():
            yield from words(name)
            yield from words(value)
    elif isinstance(thing, tuple | list | set | frozenset):
        for each in thing:
            yield from words(each)
    else:
        yield str(thing)
