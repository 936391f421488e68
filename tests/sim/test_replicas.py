"""Two llmao's in one world: one writes, the other takes over in time, and both know everything.

Rule of this file: each invariant of theirs is seen to hold, and to bite.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from llmao_core.actions import ActionKind, Order
from llmao_web.shell.board import Board
from llmao_web.shell.leader import FRESH_S, Election
from llmao_web.shell.sharing import Sharing
from llmao_web.sim.acts import Acts
from llmao_web.sim.arbiter import Arbiter
from llmao_web.sim.fleet import BY_CONTRACT, OWN
from llmao_web.sim.invariants import Judge
from llmao_web.sim.leading import TAKEOVER_S
from llmao_web.sim.person import drain
from llmao_web.sim.process import Llmao
from llmao_web.sim.rivals import Rivals
from llmao_web.sim.run import Result, begin, live, run_seed
from llmao_web.sim.virtual import dice
from llmao_web.sim.world import Violation, World

SEED = 5
BOOTED_S = 150.0


class Two:
    """A world with two llmao's that has booted."""

    def __init__(self, world: World, acts: Acts) -> None:
        assert world.replicas.arbiter is not None
        self.world = world
        self.arbiter: Arbiter = world.replicas.arbiter
        self.rivals = Rivals(acts, self.arbiter, dice(SEED, "test"))

    @property
    def leader(self) -> Llmao:
        return self.world.llmao

    @property
    def follower(self) -> Llmao:
        first, second = self.world.replicas.each
        return second if self.leader is first else first

    def take_row(self, host: str) -> None:
        """Take a row out by hand, so that there is something to write."""
        world = self.world
        one = next(each for each in world.intended().deployments if each.host == host)
        assert one.litellm_id in world.litellm.db
        Acts(world).edit_row(one.litellm_id, "delete")


Life = Callable[[Two], Awaitable[None]]


def lived(life: Life) -> Violation | None:
    """Boot a world with two llmao's, live on, and return what was violated."""

    async def begun(world: World, acts: Acts, judge: Judge) -> None:
        begin(world, acts, judge)
        await world.run(BOOTED_S)
        await life(Two(world, acts))

    return live(SEED, begun, "").violation


def named(violation: Violation | None) -> str:
    return violation.name if violation else ""


def said(result: Result) -> str:
    return "\n".join(f"{one.at:9.1f} s  {one.about}  {one.what}" for one in result.story)


async def _nothing(two: Two) -> None:
    await two.world.run(60.0)


def test_a_frozen_leader_is_replaced_and_writes_no_more() -> None:
    """The other leads within the limit; the first, thawed, follows, and every row is written."""

    async def life(two: Two) -> None:
        first, second = two.leader, two.follower
        two.rivals.freeze(first, 60.0, stands_still=False)
        await two.world.run(TAKEOVER_S)
        assert second is two.leader
        two.take_row(OWN)
        await two.world.run(120.0)
        assert second is two.leader
        assert first.able

    violation = lived(life)
    assert violation is None, violation


def test_a_leader_frozen_between_leave_and_write_does_not_write() -> None:
    """What the database permitted before the freeze is not begun after it."""

    async def life(two: Two) -> None:
        first = two.leader

        def let(_who: object) -> None:
            two.arbiter.on_permit = lambda _who: None
            two.rivals.freeze(first, FRESH_S + 1.0, stands_still=False)

        two.arbiter.on_permit = let
        two.take_row(OWN)
        await two.world.run(90.0)
        assert two.arbiter.on_permit is not let, "nothing was permitted"

    violation = lived(life)
    assert violation is None, violation


def test_a_leader_without_the_database_begins_nothing() -> None:
    """Cut off from it, a leader whose renewal is still young does not write."""

    async def life(two: Two) -> None:
        two.take_row(OWN)
        two.take_row(BY_CONTRACT)
        for _ in range(40):
            two.rivals.cut_off(two.leader, 2.0)
            await two.world.run(3.0)

    violation = lived(life)
    assert violation is None, violation


def test_both_may_start_at_once() -> None:
    """Of two that start in the same moment one leads."""

    async def life(two: Two) -> None:
        for each in two.world.replicas.each:
            each.kill()
        for each in two.world.replicas.each:
            each.start()
        await two.world.run(TAKEOVER_S)
        assert two.arbiter.holder is not None

    assert lived(life) is None


def test_what_one_was_told_the_other_knows() -> None:
    """A drain that one acknowledged before it died is known to the one that leads then."""

    async def life(two: Two) -> None:
        await drain(two.world, OWN, drained=True)
        two.leader.kill()
        await two.world.run(60.0)

    assert lived(life) is None


def test_a_write_without_leave_is_found() -> None:
    """An order of a replica that was permitted nothing is found before it is carried out."""

    async def life(two: Two) -> None:
        one = two.world.intended().deployments[0]
        order = Order(ActionKind.ADD_LITELLM, "litellm", one.key, one.litellm_id)
        two.world.on_order(order, two.follower)

    assert "one-leader" == named(lived(life))


def test_that_nobody_leads_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replicas that never take the lead are found."""

    async def never(_self: object) -> bool:
        return False

    monkeypatch.setattr(Election, "_take", never)
    assert "somebody-leads" == named(lived(_nothing))


def test_that_one_does_not_answer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica without an answer for a box is found, though the other has it."""
    answer = Board.answer

    async def life(two: Two) -> None:
        assert two.follower.service is not None
        silent = two.follower.service.board

        def none(self: Board, host: str) -> Any:
            return None if self is silent else answer(self, host)

        monkeypatch.setattr(Board, "answer", none)
        await two.world.run(60.0)

    assert "both-answer" == named(lived(life))


def test_that_one_is_not_told_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica that never learns what the other acknowledged is found."""

    async def nothing(_self: object) -> None:
        """Learn nothing."""

    monkeypatch.setattr(Sharing, "_learn", nothing)

    async def life(two: Two) -> None:
        await drain(two.world, OWN, drained=True)
        await two.world.run(60.0)

    assert "drains-stay" == named(lived(life))


def test_a_short_life_of_two() -> None:
    """A life of some minutes with two holds every invariant, and is the same each time."""
    first, again = run_seed(SEED, 0.15), run_seed(SEED, 0.15)
    assert first.violation is None, said(first)
    assert first.digest == again.digest
