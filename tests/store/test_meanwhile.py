"""What comes while the store is asked or told: it is neither missed nor dropped."""

from llmao_core.keys import box_key
from llmao_core.testing.clock import VirtualClock
from llmao_web.shell.board import Board
from llmao_web.shell.later import Waiting
from llmao_web.shell.ledger import Entry, EntryKind, Kept
from llmao_web.shell.sharing import Sharing
from llmao_web.shell.store import MemoryStore

from .contract import BOX, NOW, approved

DRAINED = Entry(NOW, "ada", EntryKind.DRAINED, key=box_key(BOX, 8001, "tiny"))


class Shared(MemoryStore):
    """A store in which another replica decides something while this one reads."""

    meanwhile: Entry | None = None

    async def kept(self) -> Kept:
        found = await super().kept()
        if (entry := self.meanwhile) is not None:
            self.meanwhile = None
            await self.append(entry)
        return found


async def test_what_is_decided_while_decisions_are_read_is_read_next() -> None:
    """It came after what was read, and before anybody looked again."""
    store, clock = Shared(), VirtualClock(NOW)
    sharing = Sharing(store, Board(clock), clock, lambda: None)
    await sharing.start()
    await store.append(approved())
    store.meanwhile = DRAINED
    await sharing.once()
    assert BOX == sharing.kept.approvals[0].host
    await sharing.once()
    assert {DRAINED.key} == sharing.kept.labels.drained_keys


async def test_what_comes_while_the_store_keeps_the_rest_waits_on() -> None:
    """It was not handed over, so that it is not forgotten."""
    waiting = Waiting[int](9)
    waiting.add([1, 2])
    kept: list[list[int]] = []

    async def keep(things: list[int]) -> None:
        kept.append(list(things))
        if len(kept) == 1:
            waiting.add([3])

    await waiting.hand_over(keep)
    await waiting.hand_over(keep)
    assert [[1, 2], [3]] == kept
    assert 0 == len(waiting)
