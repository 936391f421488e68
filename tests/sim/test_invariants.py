"""Every invariant is seen to bite: a world, or an llmao, that is wrong on purpose."""

from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve

from llmao_core.actions import ActionKind, Order
from llmao_core.plan import Plan
from llmao_core.reconcile import reconcile
from llmao_core.testing.fake_vllm import Mode
from llmao_web.shell.loop import Reconcile
from llmao_web.sim.acts import Acts
from llmao_web.sim.fleet import BY_CONTRACT, FLEET, LATER
from llmao_web.sim.invariants import Judge
from llmao_web.sim.run import begin, live, settle
from llmao_web.sim.world import Violation, World

# Until every server has served for longer than llmao needs to see it.
BOOTED_S = 260.0
SEED = 3
Wrong = Callable[[World, Acts], None]


def lived(wrong: Wrong, rule: Reconcile = reconcile, *, seconds: float = 700.0) -> Violation | None:
    """Boot a world, let something wrong happen, let it settle; return what was violated."""

    async def life(world: World, acts: Acts, judge: Judge) -> None:
        begin(world, acts, judge)
        await world.run(BOOTED_S)
        wrong(world, acts)
        await world.run(seconds)
        await settle(world, acts, judge)

    return live(SEED, life, "", rule=rule).violation


def named(violation: Violation | None) -> str:
    return violation.name if violation else ""


def without(kind: ActionKind) -> Reconcile:
    """Return a reconcile that never plans one kind of action."""

    def rule(*arguments: Any) -> Any:
        view, plan, history = reconcile(*arguments)
        kept = tuple(action for action in plan.actions if action.kind is not kind)
        return view, evolve(plan, actions=kept), history

    return rule


def nothing(world: World, acts: Acts) -> None:
    """Leave the world as it is."""


def dies(world: World, acts: Acts) -> None:
    box = next(box for box in world.ground.boxes if box.host == BY_CONTRACT)
    acts.then(box.servers[8001], (0.0, Mode.REFUSES))


def our_row(world: World) -> str:
    return next(
        one
        for one, row in world.litellm.db.items()
        if row.info.get("llmao_fleet") == FLEET and row.info.get("self_hosted")
    )


def test_nothing_wrong_violates_nothing() -> None:
    """A quiet world, in which one server dies, breaks no invariant."""
    assert lived(dies) is None


def test_a_serving_route_is_removed() -> None:
    """An order to delete the row of a serving server is found before it is carried out."""

    def orders(world: World, acts: Acts) -> None:
        row = world.litellm.db[our_row(world)]
        deployment = world.deployment_of(row)
        assert deployment is not None
        world.on_order(Order(ActionKind.DELETE_LITELLM, "litellm", deployment.key, row.id))

    assert "no-serving-route-removed" == named(lived(orders))


def test_a_serving_server_is_not_routed() -> None:
    """An llmao that never adds is found."""
    assert "serving-is-routed" == named(lived(nothing, without(ActionKind.ADD_LITELLM)))


def test_a_dead_server_stays_routed() -> None:
    """An llmao that never deletes is found."""
    assert "dead-is-not-routed" == named(lived(dies, without(ActionKind.DELETE_LITELLM)))


def test_two_rows_for_a_key() -> None:
    """A second row with our stamp that no person made is found."""

    def doubles(world: World, acts: Acts) -> None:
        row = world.litellm.db[our_row(world)]
        world.litellm.plant(row.model_name, row.params, {**row.info, "id": "a-second"})

    assert "one-row-per-key" == named(lived(doubles))


@pytest.mark.parametrize("how", ["edit", "remove"])
def test_a_foreign_row_is_touched(how: str) -> None:
    """A change of a row that is not ours is found, and so is its end."""

    def touches(world: World, acts: Acts) -> None:
        if how == "edit":
            world.litellm.edit("llmao-of-another-fleet", params={"timeout": 1})
        else:
            world.litellm.remove("llmao-of-another-fleet")

    assert "foreign" == named(lived(touches))


def test_an_approval_is_lost() -> None:
    """An approval that was acknowledged and that llmao does not know is found."""
    assert "approvals-stay" == named(lived(lambda world, acts: world.approved.add(LATER)))


def test_two_actions_for_a_key() -> None:
    """A plan with two actions for one key is found."""

    def rule(*arguments: Any) -> Any:
        view, plan, history = reconcile(*arguments)
        return view, Plan(plan.actions * 2, plan.asks, plan.reads), history

    assert "one-action" == named(lived(nothing, rule))


def test_reconcile_fails() -> None:
    """A pass that fails is llmao's own fault, whatever the world does."""

    def rule(*arguments: Any) -> Any:
        raise KeyError

    assert "no-fault-of-its-own" == named(lived(nothing, rule))


def test_writes_without_end() -> None:
    """A row written again and again is found, though each write is right."""

    def writes(world: World, acts: Acts) -> None:
        deployment = world.intended().deployments[0]
        order = Order(ActionKind.ADD_LITELLM, "litellm", deployment.key, deployment.litellm_id)
        for _ in range(40):
            world.on_order(order)

    assert "no-storm" == named(lived(writes))


@pytest.mark.sim
def test_a_world_that_does_not_settle() -> None:
    """A copy that nobody removes is found at the end."""

    def copies(world: World, acts: Acts) -> None:
        acts.edit_row(our_row(world), "copy")

    violation = lived(copies, without(ActionKind.DELETE_DUPLICATE), seconds=30.0)
    assert "settles" == named(violation)


def test_llmao_ends() -> None:
    """A process that ends by itself is found."""

    def ends(world: World, acts: Acts) -> None:
        service = world.llmao.service
        assert service is not None
        service.board.snapshots = None  # type: ignore[assignment]

    assert "alive" == named(lived(ends))


def test_the_story_tells_what_led_to_it() -> None:
    """A violation comes with the last events of its key, and with the command to see it again."""

    async def life(world: World, acts: Acts, judge: Judge) -> None:
        begin(world, acts, judge)
        await world.run(BOOTED_S)
        world.fail("test", "something", "c.300:8001 large")

    result = live(SEED, life, "llmao sim --seed 3 --hours 2")
    assert any("llmao begins add_litellm" in event.what for event in result.story)
    assert {"", "c.300", "c.300:8001 large"} >= {event.about for event in result.story}
    assert "llmao sim --seed 3 --hours 2" == result.replay
