"""What a pure function came to, kept for as long as its arguments are the same objects.

Rule of this file: it saves work and changes nothing. Values of core never change, so the same
objects come to the same result; equal ones are worked out again.
"""

from collections.abc import Callable, Hashable
from operator import is_
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Remembered(Generic[T]):
    """A function that remembers the newest result under each name.

    most: how many names are kept; then all are forgotten. The arguments are kept as well, so that
    none can make room for another of the same identity.
    """

    def __init__(self, work: Callable[..., T], most: int) -> None:
        self._work, self._most = work, most
        self._known: dict[Hashable, tuple[tuple[Any, ...], T]] = {}

    def __call__(self, name: Hashable, *of: Any) -> T:
        """Return what `work(name, *of)` comes to."""
        known = self._known.get(name)
        if known is not None and len(known[0]) == len(of) and all(map(is_, known[0], of)):
            return known[1]
        made = self._work(name, *of)
        if len(self._known) >= self._most:
            self._known.clear()
        self._known[name] = (of, made)
        return made
