"""Many passes over a little world in which everything goes wrong.

Rule of this file: after any history of faults no serving route was taken away, and once the world
stands still every server has its route and nothing else has one.
"""

import os
from collections.abc import Callable
from random import Random  # noqa: TID251 - seeded, so that a life is lived again

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.core.box_world import Box, BoxWorld

from llmao_core.actions import OutcomeKind

SETTLE_S = 900
BOXES = st.integers(0, 3)
LOADS = st.sampled_from([15, 60, 200])
_LOST = {
    "before": OutcomeKind.FAILED,
    "after": OutcomeKind.UNKNOWN,
}


class LittleWorld(RuleBasedStateMachine):
    """Every step is one event and some time after it."""

    def __init__(self) -> None:
        super().__init__()
        self.it = BoxWorld()
        self.it.run(60)

    def box(self, which: int) -> Box:
        return self.it.boxes[which]

    @rule(seconds=st.sampled_from([3, 9, 30, 120, 400]))
    def time_passes(self, seconds: int) -> None:
        self.it.run(seconds)

    @rule(which=BOXES, state=st.sampled_from(["ok", "busy", "hung", "silent", "down", "stranger"]))
    def servers_become(self, which: int, state: str) -> None:
        self.it.become(self.box(which), state)
        self.it.run(6)

    @rule(which=BOXES, load_s=LOADS)
    def box_reboots(self, which: int, load_s: int) -> None:
        self.it.boot(self.box(which), load_s)
        self.it.run(6)

    @rule(which=BOXES, load_s=LOADS)
    def box_announces_a_restart(self, which: int, load_s: int) -> None:
        self.it.announce(self.box(which), load_s)

    @rule(which=BOXES, left=st.sampled_from(["stranger", "nobody"]))
    def ports_are_mapped_anew(self, which: int, left: str) -> None:
        self.it.remap(self.box(which), left)

    @rule(which=BOXES, load_s=LOADS)
    def box_is_rented_anew(self, which: int, load_s: int) -> None:
        self.it.rent_anew(self.box(which), load_s)

    @rule(which=BOXES, seconds=st.sampled_from([70, 300]))
    def listing_omits_a_box(self, which: int, seconds: int) -> None:
        self.box(which).gap_until = self.it.now + seconds

    @rule(seconds=st.sampled_from([70, 400]))
    def listing_fails(self, seconds: int) -> None:
        self.it.unlisted_until = self.it.now + seconds

    @rule(there=st.booleans())
    def neighbour_shares_the_address(self, there: bool) -> None:
        self.it.neighbour = there

    @rule(which=BOXES, reached=st.booleans())
    def llmao_loses_its_way_to_a_box(self, which: int, reached: bool) -> None:
        self.box(which).reached = reached

    @rule(reached=st.booleans())
    def llmao_loses_its_network(self, reached: bool) -> None:
        for box in self.it.boxes:
            box.reached = reached

    @rule(count=st.integers(1, 3), how=st.sampled_from(sorted(_LOST)))
    def answers_are_lost(self, count: int, how: str) -> None:
        self.it.lost = [_LOST[how]] * count

    @rule(seconds=st.sampled_from([30, 200]))
    def second_worker_lags(self, seconds: int) -> None:
        self.it.lag_until = self.it.now + seconds

    @rule(which=st.integers(0, 9), how=st.sampled_from(["delete", "copy", "block", "move"]))
    def somebody_edits_litellm(self, which: int, how: str) -> None:
        self.it.edit_row(which, how)

    @rule()
    def llmao_restarts(self) -> None:
        self.it.restart_llmao()

    @rule()
    def world_stands_still(self) -> None:
        settle(self.it)

    @invariant()
    def no_serving_route_was_removed(self) -> None:
        assert self.it.wrongly_removed == []

    def teardown(self) -> None:
        settle(self.it)


def settle(it: BoxWorld) -> None:
    """Let the world stand still: routes and servers agree, and nothing more is done."""
    it.calm()
    it.run(SETTLE_S)
    assert it.unsettled() == []
    before = len(it.world.done)
    it.run(200)
    assert it.world.done[before:] == []
    assert it.wrongly_removed == []


_THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"
TestLittleWorld = LittleWorld.TestCase
TestLittleWorld.settings = settings(
    max_examples=200 if _THOROUGH else 12, stateful_step_count=50 if _THOROUGH else 15
)


def live(seed: int, steps: int, *, most_s: int) -> BoxWorld:
    """Let a seeded world live for so many events, faults healing as others come."""
    chance = Random(seed)
    it = BoxWorld()
    it.run(60)

    def box() -> Box:
        return it.boxes[chance.randrange(4)]

    def load() -> int:
        return chance.choice([15, 60, 200])

    events: list[Callable[[], None]] = [
        lambda: it.become(box(), chance.choice(["ok", "ok", "busy", "hung", "silent", "down"])),
        lambda: it.become(box(), "ok"),
        lambda: it.boot(box(), load()),
        lambda: it.announce(box(), load()),
        lambda: it.remap(box(), chance.choice(["stranger", "nobody"])),
        lambda: it.rent_anew(box(), load()),
        lambda: setattr(box(), "gap_until", it.now + chance.choice([70, 300])),
        lambda: setattr(it, "unlisted_until", it.now + chance.choice([70, 400])),
        lambda: setattr(it, "neighbour", chance.random() < 0.5),
        lambda: setattr(box(), "reached", chance.random() < 0.5),
        lambda: setattr(it, "lost", [chance.choice(list(_LOST.values()))] * 2),
        lambda: setattr(it, "lag_until", it.now + 100),
        lambda: it.edit_row(chance.randrange(10), chance.choice(["delete", "copy", "move"])),
        it.restart_llmao,
        it.calm,
    ]
    for _ in range(steps):
        chance.choice(events)()
        it.run(chance.choice([3, 9, 30, most_s]))
        assert it.wrongly_removed == [], f"seed {seed}"
    return it


@pytest.mark.thorough
def test_a_thousand_steps() -> None:
    """One long life of a thousand events takes no serving route and ends in order."""
    settle(live(1, 1000, most_s=60))


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(10))
def test_ten_worlds_of_four_hours(seed: int) -> None:
    """Ten lives of about four hours each take no serving route and end in order."""
    settle(live(100 + seed, 260, most_s=180))
