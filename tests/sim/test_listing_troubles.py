"""An hour in which a provider's list says nothing, or nothing true: no route of a box is lost."""

from collections.abc import Callable

import pytest

from llmao_core.records import AttentionItem, ItemKind
from llmao_web.sim.acts import Acts
from llmao_web.sim.fleet import BY_ADDRESS, BY_CONTRACT, BY_LABEL
from llmao_web.sim.invariants import Judge
from llmao_web.sim.run import begin, live
from llmao_web.sim.world import World

BOOTED_S = 400.0
HOUR_S = 3600.0
SEED = 5
EVERY_READ = 100_000
AT_VAST = {BY_ADDRESS, BY_LABEL, BY_CONTRACT}


def an_hour(trouble: Callable[[World], None]) -> tuple[set[str], set[str], list[AttentionItem]]:
    """Return the rows before and after an hour of a trouble, and what llmao says at its end."""
    seen: list[set[str]] = []
    items: list[AttentionItem] = []

    async def life(world: World, acts: Acts, judge: Judge) -> None:
        begin(world, acts, judge)
        await world.run(BOOTED_S)
        seen.append(set(world.litellm.db))
        trouble(world)
        await world.run(HOUR_S)
        seen.append(set(world.litellm.db))
        service = world.llmao.service
        assert service is not None
        view = service.board.view()
        assert view is not None
        items.extend(view.items)

    result = live(SEED, life, "")
    assert result.violation is None, result.violation
    before, after = seen
    assert len(before) >= 6
    return before, after, items


@pytest.mark.parametrize(
    ("mishap", "said"),
    [("bad_key", "key"), ("withdrawn", "410"), ("busy_text", "too often"), ("null_list", "vast")],
)
def test_an_hour_of_refusals_loses_no_route(mishap: str, said: str) -> None:
    """A key revoked in the middle, a withdrawn endpoint, an hour of 429, a list that is null:
    every row stays, and one item says what is wrong with the provider."""
    before, after, items = an_hour(lambda world: world.vast.go_wrong(mishap, times=EVERY_READ))
    assert before == after
    [item] = [one for one in items if one.kind is ItemKind.SOURCE_TROUBLE]
    assert "vast" in item.sentence
    assert said in " ".join((item.sentence, *item.evidence)).lower()


def test_an_empty_list_after_a_full_one_loses_no_route() -> None:
    """A list that is whole and empty, while the boxes go on: they serve on, and each is said to
    be no longer listed."""

    def empties(world: World) -> None:
        for box in world.vast.boxes.values():
            box.listed_from = EVERY_READ

    before, after, items = an_hour(empties)
    assert before == after
    assert {one.host for one in items if one.kind is ItemKind.REMOVE_HOST} >= AT_VAST
