"""What a process tells its store and learns from it, on a clock of the test's own."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager

import pytest
from attrs import evolve
from structlog.testing import capture_logs

from llmao_core.actions import ActionKind
from llmao_core.box_config import difference
from llmao_core.protocol import BoxEvent, Fetch, WrongKey
from llmao_core.snapshots import Request, RequestKind
from llmao_core.testing.clock import VirtualClock
from llmao_web.shell.board import Board
from llmao_web.shell.ledger import Entry, EntryKind, fold
from llmao_web.shell.presses import pressed
from llmao_web.shell.sharing import (
    EVERY_S,
    IS_NOT_KEPT,
    LONGEST_WAIT_S,
    MAY_BE_KEPT,
    TIDY_S,
    Sharing,
)
from llmao_web.shell.store import MemoryStore, NotKept, StoreError, Told, Transition, Unanswered

from .contract import BOX, KEY, NOW, action, approved, assignment

PLACED = Entry(NOW, "llmao", EntryKind.PLACED, BOX, detail={"provider": "vast"})


class Shared(MemoryStore):
    """A store that others tell something, and that fails when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.fails = False
        self.full = False
        self.heard: list[BoxEvent | Request] = []
        self.others: list[Told] = []
        self.tidied: list[float] = []

    def _try(self) -> None:
        if self.fails:
            raise StoreError("its disk is full")

    async def prove(self) -> None:
        if self.full:
            raise StoreError("its disk is full")

    async def append(self, *entries: Entry) -> None:
        self._try()
        await self.prove()
        if any(each.actor == "never" for each in entries):
            raise NotKept("too long")
        await super().append(*entries)

    async def newest(self) -> int:
        self._try()
        return await super().newest()

    async def tell(self, noted: Iterable[tuple[BoxEvent | Request, float]]) -> None:
        self._try()
        self.heard += [event for event, _ in noted]

    async def told(self, after: int) -> Sequence[Told]:
        return [each for each in self.others if each.number > after]

    async def tidy(self, now: float) -> None:
        self.tidied.append(now)


class Process:
    """One process: its board and its share of the store."""

    def __init__(self, store: MemoryStore, changed: Callable[[], None] = lambda: None) -> None:
        self.clock = VirtualClock(NOW)
        self.board = Board(self.clock)
        self.sharing = Sharing(store, self.board, self.clock, changed)

    def keeps(self) -> bool:
        return self.sharing.keeps

    @property
    def said(self) -> list[str]:
        trouble = self.board.snapshots().troubles.get("store")
        return [trouble.message] if trouble else []


@asynccontextmanager
async def running(process: Process) -> AsyncIterator[None]:
    with capture_logs():
        await process.sharing.start()
        task = asyncio.create_task(process.sharing.run())
        await process.clock.settle()
        yield
        process.sharing.stop()
        await process.clock.settle()
        await task


async def test_what_was_kept_is_known_from_the_start() -> None:
    """Approvals and placements of an earlier life."""
    store = Shared()
    await store.append(approved(), PLACED)
    process = Process(store)
    async with running(process):
        assert fold([approved(), PLACED]) == process.sharing.kept
        assert {BOX: "vast"} == process.board.placed


async def test_what_is_decided_here_applies_at_once() -> None:
    """It is in the store and in force when `keep` returns; what concerns no host changes none."""
    changes: list[int] = []
    store = Shared()
    process = Process(store, lambda: changes.append(1))
    async with running(process):
        await process.sharing.keep(approved())
        assert [approved()] == [each.entry for each in store.log]
        assert [BOX] == [each.host for each in process.sharing.kept.approvals]
        assert [1] == changes
        await process.sharing.keep(action(), PLACED)
        assert [1] == changes
        await process.clock.advance(3 * EVERY_S)
        assert [1] == changes


async def test_what_cannot_be_kept_is_not_applied() -> None:
    """The one who decided is told; nothing is different."""
    store = Shared()
    process = Process(store)
    async with running(process):
        store.fails = True
        with pytest.raises(StoreError, match="its disk is full"):
            await process.sharing.keep(approved())
        assert () == process.sharing.kept.approvals


@pytest.mark.parametrize(("error", "said"), [(StoreError, IS_NOT_KEPT), (Unanswered, MAY_BE_KEPT)])
async def test_who_decided_is_told_whether_it_was_kept(error: type[StoreError], said: str) -> None:
    """It was not when the store refused, and nobody knows when it did not answer."""

    async def fails(*_: Entry) -> None:
        raise error("The store cannot be used.")

    store = Shared()
    store.append = fails  # type: ignore[method-assign]
    process = Process(store)
    async with running(process):
        with pytest.raises(error, match=re.escape(said)):
            await process.sharing.keep(approved())


async def test_a_full_store_keeps_nothing_until_it_is_shown_that_it_does() -> None:
    """One refused deed is enough to know; that the store can be read is no proof of room."""
    store = Shared()
    process = Process(store)
    async with running(process):
        assert process.keeps()
        store.full = True
        with pytest.raises(StoreError):
            await process.sharing.keep(approved())
        await process.clock.advance(3 * LONGEST_WAIT_S)
        assert not process.keeps()
        assert ["its disk is full"] == process.said
        store.full = False
        await process.clock.advance(LONGEST_WAIT_S)
        assert process.keeps()
        assert [] == process.said


async def test_a_look_that_began_before_a_refusal_does_not_undo_it() -> None:
    """A deed is refused while the second's reads are under way, which then all succeed."""
    store, reads = Shared(), asyncio.Event()
    process = Process(store)
    async with running(process):
        newest = store.newest

        async def slow() -> int:
            await reads.wait()
            return await newest()

        store.newest = slow  # type: ignore[method-assign]
        await process.clock.advance(EVERY_S)
        store.full = True
        with pytest.raises(StoreError):
            await process.sharing.keep(approved())
        reads.set()
        await process.clock.settle()
        assert not process.keeps()


async def test_what_others_decide_is_learnt_while_nothing_can_be_kept() -> None:
    """A withdrawal that another replica got in counts here, too."""
    store = Shared()
    await store.append(approved())
    process = Process(store)
    async with running(process):
        store.full = True
        await process.sharing.later.append(action())
        await MemoryStore.append(store, Entry(NOW, "admin", EntryKind.WITHDRAWN, BOX))
        await process.clock.advance(LONGEST_WAIT_S)
        assert () == process.sharing.kept.approvals


async def test_what_others_decide_is_learnt_within_within_seconds() -> None:
    """Another replica approved and withdrew."""
    store = Shared()
    first, second = Process(store), Process(store)
    async with running(first), running(second):
        await first.sharing.keep(approved())
        await second.clock.advance(EVERY_S)
        assert first.sharing.kept == second.sharing.kept
        await first.sharing.keep(Entry(NOW, "admin", EntryKind.WITHDRAWN, BOX))
        await second.clock.advance(EVERY_S)
        assert () == second.sharing.kept.approvals


async def test_what_boxes_do_is_told_once() -> None:
    """Within a second of it, with what an admin pressed, and what others told is not told on."""
    store = Shared()
    process = Process(store)
    request = Request(RequestKind.RELEASE_BRAKE, "admin", NOW, NOW + 60)
    async with running(process):
        process.board.note(Fetch(BOX, "r1"))
        process.board.request(request)
        store.others.append(Told(7, NOW, Fetch("c.1", "r2")))
        await process.clock.advance(EVERY_S)
        assert [Fetch(BOX, "r1"), request] == store.heard
        await process.clock.advance(5 * EVERY_S)
        assert 2 == len(store.heard)
        snapshots = process.board.snapshots()
        assert snapshots.protocol is not None
        assert {BOX, "c.1"} == set(snapshots.protocol.hosts)


async def test_what_was_told_before_the_start_is_history() -> None:
    """A life cycle rests on what was handed out since."""
    store = Shared()
    store.others.append(Told(7, NOW, Fetch("c.1", "r2")))
    process = Process(store)
    async with running(process):
        await process.clock.advance(EVERY_S)
        protocol = process.board.snapshots().protocol
        assert protocol is not None
        assert not protocol.hosts


async def test_what_was_pressed_before_the_start_counts_until_it_lapses() -> None:
    """It is on the board once, whoever else tells of it, and the others are told of it."""
    store = Shared()
    held = Request(
        RequestKind.RUN, "admin", NOW - 60, NOW + 540, KEY, ActionKind.DELETE_LITELLM, "d"
    )
    over = evolve(held, at=NOW - 700, expires_at=NOW - 100)
    for each in (over, held):
        await store.append(pressed(Entry(each.at, "admin", EntryKind.PRESSED, key=KEY), each))
    store.others.append(Told(1, NOW - 59, held))
    process = Process(store)
    async with running(process):
        assert (held,) == process.board.requests()
        store.others.append(Told(2, NOW, held))
        await process.clock.advance(3 * EVERY_S)
        assert (held,) == process.board.requests() == process.board.snapshots().requests
        assert [held] == store.heard
        await process.clock.advance(540)
        assert () == process.board.requests()


async def test_what_a_box_was_told_is_known_after_a_restart() -> None:
    """When it asks again, the difference to what it would get now is told in words."""
    store = Shared()
    await MemoryStore.tell(store, [(Fetch(BOX, assignment=assignment(1)), NOW - 60)])
    process = Process(store)
    async with running(process):
        protocol = process.board.snapshots().protocol
        assert protocol is not None
        assert not protocol.hosts
        process.board.note(Fetch(BOX, applied="r1-1", assignment=assignment(2)))
        protocol = process.board.snapshots().protocol
        assert protocol is not None
        before, now = protocol.hosts[BOX].assignments.values()
        assert ("max_model_len 1024 → 2048",) == difference(before, now)
        assert ["r1-1", "r1-2"] == list(protocol.hosts[BOX].assignments)
        assert protocol.hosts[BOX].first_handout is None


async def test_a_store_that_fails_is_said_and_tried_again() -> None:
    """What happened meanwhile waits, in order, and is kept when the store is back."""
    store = Shared()
    process = Process(store)
    async with running(process):
        store.fails = True
        await process.sharing.later.append(action(NOW + 1))
        process.board.note(Fetch(BOX, "r1"))
        await process.clock.advance(10 * EVERY_S)
        assert ["its disk is full"] == process.said
        await process.sharing.later.append(action(NOW + 2))
        store.fails = False
        await process.clock.advance(LONGEST_WAIT_S)
        assert [] == process.said
        assert [NOW + 1, NOW + 2] == [each.entry.at for each in store.log]
        assert [Fetch(BOX, "r1")] == store.heard


async def test_nobody_waits_for_what_llmao_did() -> None:
    """A write that hangs, and then fails, keeps the executor from nothing; the order stays."""
    store, hung = Shared(), asyncio.Event()

    async def hangs(*entries: Entry) -> None:
        failing = not hung.is_set()
        await hung.wait()
        if failing:
            raise StoreError("it did not answer in time")
        await MemoryStore.append(store, *entries)

    store.append = hangs  # type: ignore[method-assign]
    process = Process(store)
    async with running(process):
        for each in range(3):
            await process.sharing.later.append(action(NOW + each))
            await process.sharing.later.moved([Transition(NOW + each, KEY, "", "Healthy")])
            await process.clock.settle()
        await process.clock.advance(EVERY_S)
        assert not store.log
        hung.set()
        await process.clock.advance(3 * EVERY_S)
        assert [NOW, NOW + 1, NOW + 2] == [each.entry.at for each in store.log]
        assert 3 == len(store.moves)


async def test_one_entry_that_can_never_be_kept_holds_up_no_other() -> None:
    """It is left out and logged."""
    store = Shared()
    process = Process(store)
    async with running(process):
        never = evolve(action(), actor="never")
        await process.sharing.later.append(action(NOW + 1), never, action(NOW + 2))
        await process.clock.settle()
        assert [NOW + 1, NOW + 2] == [each.entry.at for each in store.log]
        assert [] == process.said


async def test_a_flood_of_strangers_pushes_nothing_out() -> None:
    """While the store is away, wrong keys are bounded by themselves."""
    store = Shared()
    process = Process(store)
    async with running(process):
        store.fails = True
        process.board.note(Fetch(BOX, "r1"))
        for each in range(30_000):
            process.board.note(WrongKey(f"10.0.0.{each}"))
        store.fails = False
        await process.clock.advance(EVERY_S)
        assert Fetch(BOX, "r1") in store.heard
        assert 100 > len(store.heard)


async def test_it_is_tidied_every_hour() -> None:
    """And not at every start."""
    store = Shared()
    process = Process(store)
    async with running(process):
        await process.clock.advance(TIDY_S - EVERY_S)
        assert [] == store.tidied
        await process.clock.advance(TIDY_S)
        assert 1 == len(store.tidied)


async def test_what_is_left_is_written_at_the_end() -> None:
    """A stopped process has nothing in its hands."""
    store = Shared()
    process = Process(store)
    async with running(process):
        await process.clock.settle()
        process.sharing.stop()
        await process.sharing.later.append(action())
        process.board.note(Fetch(BOX))
    assert 1 == len(store.log)
    assert [Fetch(BOX)] == store.heard
