"""What llmao itself did, on its way to the store: nobody waits for it.

Rule of this file: in order, bounded, and forgotten only when the store has it. A removal must
not wait for a disk or a database.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, TypeVar

import structlog

from .ledger import Entry
from .store import ENTRIES_KEPT, NotKept, Sample, Transition, Writes

T = TypeVar("T")

log = structlog.get_logger(__name__)


class Waiting(Generic[T]):
    """Things that wait for the store, oldest first; of too many the newest."""

    def __init__(self, most: int) -> None:
        self._things: deque[T] = deque(maxlen=most)

    def __len__(self) -> int:
        return len(self._things)

    def add(self, things: Iterable[T]) -> None:
        """Put things at the end."""
        self._things.extend(things)

    async def hand_over(self, to: Callable[[list[T]], Awaitable[None]]) -> None:
        """Hand everything over; what could not be handed over waits on, before newer things."""
        things = list(self._things)
        self._things.clear()
        try:
            await to(things)
        except BaseException:
            newer = list(self._things)
            self._things.clear()
            self._things.extend([*things, *newer])
            raise


class Later:
    """Takes writes at once and has the store keep them when `write` is called.

    some: set while there may be something to write.
    """

    def __init__(self, store: Writes) -> None:
        self.some = asyncio.Event()
        self._store = store
        self._entries = Waiting[Entry](ENTRIES_KEPT)
        self._moves = Waiting[Transition](ENTRIES_KEPT)
        self._samples = Waiting[Sample](ENTRIES_KEPT)

    async def append(self, *entries: Entry) -> None:
        """Take entries."""
        self._entries.add(entries)
        self.some.set()

    async def moved(self, transitions: Iterable[Transition]) -> None:
        """Take changes of lifecycles."""
        self._moves.add(transitions)
        self.some.set()

    async def sample(self, samples: Iterable[Sample]) -> None:
        """Take one minute's samples."""
        self._samples.add(samples)
        self.some.set()

    async def write(self) -> None:
        """Have the store keep all of it; raises what the store raises, and then it waits on."""
        self.some.clear()
        if self._entries:
            await self._entries.hand_over(_each(lambda found: self._store.append(*found)))
        if self._moves:
            await self._moves.hand_over(_each(self._store.moved))
        if self._samples:
            await self._samples.hand_over(_each(self._store.sample))


def _each(keep: Callable[[list[T]], Awaitable[None]]) -> Callable[[list[T]], Awaitable[None]]:
    """Return what keeps things together, and without those that can never be kept."""

    async def keep_what_can_be(things: list[T]) -> None:
        try:
            await keep(things)
        except NotKept as error:
            if len(things) > 1:
                for each in things:
                    await keep_what_can_be([each])
            else:
                log.warning("not kept", what=type(things[0]).__name__, said=str(error))

    return keep_what_can_be
