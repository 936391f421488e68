"""What was acknowledged to somebody who pressed a button outlives the process, and is done once."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from attrs import define, field

from llmao_core.actions import ActionKind, Order, Outcome, OutcomeKind
from llmao_core.config import LitellmConfig
from llmao_core.plan import Action
from llmao_core.protocol import Fetch
from llmao_core.reboot import REQUEST_S, reboot_key
from llmao_core.snapshots import Request, RequestKind
from llmao_core.testing.clock import VirtualClock
from llmao_web.pages.said import said
from llmao_web.shell.board import Board
from llmao_web.shell.ledger import Entry, EntryKind
from llmao_web.shell.presses import Presses, pressed, request_of
from llmao_web.shell.store import MemoryStore, StoreError

from .office_world import BOX, Rig, config, rig

# As long as its routes are on their way out, a reboot is not ordered.
GIVEN = config(litellm=LitellmConfig(poll_interval_s=30))


class Disk(MemoryStore):
    """A store that outlives processes; from `killed` on it is given nothing any more.

    last: the kind after which it is killed.
    """

    killed = False
    last: EntryKind | None = None

    async def append(self, *entries: Entry) -> None:
        if self.killed:
            raise StoreError("nobody writes")
        await super().append(*entries)
        self.killed = any(each.kind is self.last for each in entries)

    def of(self, kind: EntryKind) -> list[Entry]:
        return [each.entry for each in self.log if each.entry.kind is kind]


@define
class Lives:
    """One llmao that is killed and started again, and what its provider was told in all lives."""

    disk: Disk = field(factory=Disk)
    clock: VirtualClock = field(factory=VirtualClock)
    told: list[str] = field(factory=list)

    @asynccontextmanager
    async def life(self) -> AsyncIterator[Rig]:
        """Give one life, which ends as if it was killed."""
        self.disk.killed = False
        async with rig(GIVEN, self.disk, self.clock, reboots=self.told) as world:
            yield world
            self.disk.killed = True


@pytest.fixture
def lives() -> Lives:
    return Lives()


async def test_a_press_survives_a_kill(lives: Lives) -> None:
    """A reboot that waits is still asked for by the same person, and its provider told once."""
    async with lives.life() as world:
        await world.service.office.reboot(BOX, "alice")
    assert [] == lives.told
    async with lives.life() as world:
        assert "alice asked for a reboot" in world.service.office.reboots()[BOX]
        assert "already" in await world.service.office.reboot(BOX, "alice")
        await world.until(lambda: lives.told)
        await world.clock.advance(REQUEST_S)
    assert ["4711"] == lives.told
    assert ["alice"] == [each.actor for each in lives.disk.of(EntryKind.BEGUN)]


@pytest.mark.parametrize("ended", [True, False])
async def test_what_was_begun_is_not_begun_again(lives: Lives, *, ended: bool) -> None:
    """Killed after the provider was told, whether or not the answer was kept: it is told once."""
    async with lives.life() as world:
        lives.disk.last = None if ended else EntryKind.BEGUN
        await world.service.office.reboot(BOX, "alice")
        await world.until(lambda: lives.told)
        await world.clock.advance(2)
    assert ended == any(each.actor == "alice" for each in lives.disk.of(EntryKind.ACTION))
    async with lives.life() as world:
        assert "vast reboots it" in world.service.office.reboots()[BOX]
        await world.clock.advance(2 * REQUEST_S)
    assert ["4711"] == lives.told


async def test_an_order_that_failed_is_given_again_after_a_kill(lives: Lives) -> None:
    """Its provider did not take it, so that the press still counts."""
    async with lives.life() as world:
        world.provider.outcome = Outcome(OutcomeKind.FAILED, "HTTP 502")
        await world.service.office.reboot(BOX, "alice")
        await world.until(lambda: lives.told)
        await world.clock.advance(2)
    before = len(lives.told)
    async with lives.life() as world:
        await world.until(lambda: len(lives.told) > before)
        await world.clock.advance(REQUEST_S)
    assert before + 1 == len(lives.told)


async def test_a_second_press_after_a_kill_is_a_second_reboot(lives: Lives) -> None:
    """The box came back, and somebody wants it rebooted again."""
    async with lives.life() as world:
        await world.service.office.reboot(BOX, "alice")
        await world.until(lambda: lives.told)
        await world.clock.advance(2)
    async with lives.life() as world:
        world.service.board.note(Fetch(BOX, "r1-x"))
        await world.clock.advance(5)
        assert {} == world.service.office.reboots()
        await world.service.office.reboot(BOX, "alice")
        await world.until(lambda: len(lives.told) == 2)
        await world.clock.advance(REQUEST_S)
    assert ["4711"] * 2 == lives.told


async def test_what_was_called_off_stays_called_off(lives: Lives) -> None:
    """Both presses are taken up, and the later one counts."""
    async with lives.life() as world:
        await world.service.office.reboot(BOX, "alice")
        await world.clock.advance(2)
        await world.service.office.cancel_reboot(BOX, "bob")
    async with lives.life() as world:
        await world.clock.advance(REQUEST_S)
    assert [] == lives.told
    assert [] == lives.disk.of(EntryKind.LAPSED)


async def test_what_lapsed_meanwhile_is_dropped_and_told_once(lives: Lives) -> None:
    """Started too late, it does nothing, and the log says in a sentence of whom and what."""
    async with lives.life() as world:
        await world.service.office.reboot(BOX, "alice")
    await lives.clock.advance(REQUEST_S)
    for _ in range(2):
        async with lives.life() as world:
            assert () == world.service.board.requests()
            await world.clock.advance(60)
    assert [] == lives.told
    [told] = lives.disk.of(EntryKind.LAPSED)
    assert reboot_key(BOX) == told.key
    assert "alice asked for, “reboot the box”, was dropped" in said(told)


async def test_what_was_done_or_lapsed_in_time_is_not_told_as_dropped(lives: Lives) -> None:
    """One press was carried out; the other lapsed while llmao ran, which did other things after."""
    async with lives.life() as world:
        await world.service.office.reboot(BOX, "alice")
        await world.until(lambda: lives.told)
        await world.clock.advance(2)
    await lives.clock.advance(REQUEST_S)
    async with lives.life() as world:
        now = world.clock.now()
        brake = Request(RequestKind.RELEASE_BRAKE, "bob", now, now + 60)
        entry = Entry(now, "bob", EntryKind.PRESSED, detail={"what": "release brake"})
        await lives.disk.append(pressed(entry, brake))
        await world.clock.advance(90)
        await world.service.office.label(BOX, "mine", "", "bob")
    async with lives.life() as world:
        await world.clock.advance(5)
    assert [] == lives.disk.of(EntryKind.LAPSED)


async def test_a_reboot_waits_for_its_store(lives: Lives) -> None:
    """What cannot be kept to have begun does not begin, and does when it can."""
    async with lives.life() as world:
        await world.service.office.reboot(BOX, "alice")
        lives.disk.killed = True
        await world.clock.advance(120)
        assert [] == lives.told
        lives.disk.killed = False
        await world.until(lambda: lives.told)
        await world.clock.advance(REQUEST_S)
    assert ["4711"] == lives.told


async def test_who_leads_after_another_does_not_begin_again() -> None:
    """It ran before the order was given, and reads the ledger when it would give it itself."""
    clock, disk = VirtualClock(), Disk()
    boards = [Board(clock) for _ in range(2)]
    first, second = (Presses(disk, board, clock, keep=disk.append, later=disk) for board in boards)
    await second.take_up()
    order = Order(ActionKind.REBOOT_BOX, "vast", reboot_key(BOX), "4711")
    action = Action(order, "reboot-box", "", released_by="alice")
    assert await first.begins(action, clock.now())
    assert await first.begins(action, clock.now())
    assert not await second.begins(action, clock.now() + 1)
    write = boards[1].snapshots().writes["4711"]
    assert (order.key, clock.now()) == (write.key, write.began)
    assert write.outcome is not None
    assert OutcomeKind.UNKNOWN is write.outcome.kind
    assert {} == boards[0].snapshots().writes


def test_an_entry_of_another_age_asks_for_nothing() -> None:
    """One without a request, or with one that makes no sense here."""
    for detail in ({}, {"request": None}, {"request": {"request": "dance"}}, {"request": "run"}):
        assert request_of(Entry(0.0, "a", EntryKind.PRESSED, detail=detail)) is None
