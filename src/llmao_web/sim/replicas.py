"""The llmao's of one world: one over a store of its own, or two over one that both use.

Rule of this file: it knows which of them leads by the database's own word, and since when that
one has been able to do its work.
"""

import math
from collections.abc import Callable
from random import Random  # noqa: TID251

from attrs import define

from .arbiter import Arbiter
from .database import IDLE_S, File
from .process import Disk, Llmao

# In every so many seeds llmao keeps what it keeps in the real store, or there are two of it.
SQL_EVERY = 4
TWO_EVERY = 5
NAMES = ("llmao", "the other llmao")
# Until the store has been tried again, by one whose writes failed.
TRIED_AGAIN_S = 20.0
# Until a replica knows what the other was told, at the latest.
TOLD_S = 15.0


@define(eq=False)
class Replicas:
    """One or two llmao's, and what they share. balance: dice of whoever sends callers to one.

    disturbed_at: when one of them last was kept from its store.
    """

    seconds: Callable[[], float]
    balance: Random
    disk: Disk | File
    arbiter: Arbiter | None
    each: tuple[Llmao, ...] = ()
    disturbed_at: float = -math.inf

    @classmethod
    def of(cls, seed: int, seconds: Callable[[], float], balance: Random) -> "Replicas":
        """Return what a world of a seed has, with no llmao yet."""
        two = seed % TWO_EVERY == 0
        real = two or seed % SQL_EVERY == 0
        disk = File(shared=two) if real else Disk()
        return cls(seconds, balance, disk, Arbiter(seconds) if two else None)

    @property
    def names(self) -> tuple[str, ...]:
        """Return what they are called."""
        return NAMES if self.arbiter else NAMES[:1]

    @property
    def told_s(self) -> float:
        """Return how long one may not know what another was told."""
        return TOLD_S if self.arbiter else 0.0

    def leading(self) -> Llmao:
        """Return the llmao that leads, else one that could."""
        holder = self.arbiter.holder if self.arbiter else None
        for llmao in self.each:
            if holder is not None and holder.who is llmao:
                return llmao
        return max(self.each, key=lambda one: (one.able, one.service is not None))

    def front(self) -> Llmao:
        """Return the llmao that a box or a person comes to, of several any that runs."""
        if self.arbiter is None:
            return self.each[0]
        running = [one for one in self.each if one.service is not None and not one.clock.frozen]
        return self.balance.choice(running or self.each)

    def disturb(self) -> None:
        """Note that one of them is kept from its store, or is no longer."""
        self.disturbed_at = self.seconds()

    def working_since(self) -> float:
        """Return since when one of them has been able to work; infinity while none is."""
        llmao = self.leading()
        if llmao.started is None:
            return math.inf
        if self.arbiter is None:
            return llmao.started
        if self.arbiter.holder is None or not llmao.able or self.disk.full:
            return math.inf
        # Who was kept from the store may have kept the other from writing.
        undisturbed = self.disturbed_at + IDLE_S + TRIED_AGAIN_S
        return max(llmao.started, self.arbiter.taken_at, undisturbed)

    def close(self) -> None:
        """Let what they shared be gone; none of them runs any more."""
        if isinstance(self.disk, File):
            self.disk.close()
