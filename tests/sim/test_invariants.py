"""Every invariant is seen to bite: a world, or an llmao, that is wrong on purpose."""

from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve

from llmao_core.actions import ActionKind, Order
from llmao_core.keys import Key
from llmao_core.plan import Action, Plan
from llmao_core.reconcile import reconcile
from llmao_core.testing.fake_vllm import Mode
from llmao_web.shell.executor import Executor
from llmao_web.shell.loop import Reconcile
from llmao_web.sim.acts import Acts
from llmao_web.sim.fleet import BY_CONTRACT, FLEET, LATER
from llmao_web.sim.invariants import Judge
from llmao_web.sim.person import drain
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
        world.on_order(
            Order(ActionKind.DELETE_LITELLM, "litellm", deployment.key, row.id), world.llmao
        )

    assert "no-serving-route-removed" == named(lived(orders))


def test_what_a_pass_sees_serve_is_not_planned() -> None:
    """An llmao that never plans to add is found by the first pass that should have."""
    assert "ready-is-planned" == named(lived(nothing, without(ActionKind.ADD_LITELLM)))


def test_a_serving_server_is_not_routed() -> None:
    """An llmao that says for ever that a server has not yet proven to serve is found."""

    def rule(*arguments: Any) -> Any:
        view, plan, history = without(ActionKind.ADD_LITELLM)(*arguments)
        records = tuple(each._replace(action_rule="not-proven") for each in view.records)
        return evolve(view, records=records), plan, history

    assert "serving-is-routed" == named(lived(nothing, rule))


def test_what_is_planned_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """An executor that leaves what is to be added where it is, is found."""
    due = Executor._due

    def lazy(self: Executor, action: Action) -> bool:
        return action.kind is not ActionKind.ADD_LITELLM and due(self, action)

    monkeypatch.setattr(Executor, "_due", lazy)
    assert "planned-is-begun" == named(lived(nothing))


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
    assert "approvals-stay" == named(lived(lambda world, acts: world.approve(LATER)))


def first_key(world: World) -> Key:
    """Return the key of a server that has its row."""
    deployment = world.deployment_of(world.litellm.db[our_row(world)])
    assert deployment is not None
    return deployment.key


@pytest.mark.parametrize("drained", [True, False])
def test_a_drain_is_lost(drained: bool) -> None:
    """A drain that was acknowledged and that llmao does not know is found, and one not ended."""

    def lost(world: World, acts: Acts) -> None:
        if not drained:
            world.spawn(drain(world, first_key(world), drained=True))
        key = first_key(world)
        world.after(60.0, lambda: world.drains.acknowledged(key, world.seconds, drained=drained))

    assert "drains-stay" == named(lived(lost))


def drains(world: World, acts: Acts) -> None:
    world.spawn(drain(world, first_key(world), drained=True))


def test_a_drained_key_keeps_its_row() -> None:
    """An llmao that does not take the row of a drained server away is found."""
    assert "drained-is-not-routed" == named(lived(drains, without(ActionKind.DELETE_LITELLM)))


def test_a_drained_key_is_added() -> None:
    """An order to add what is drained is found before it is carried out."""

    def adds(world: World, acts: Acts) -> None:
        drains(world, acts)
        row = our_row(world)
        order = Order(ActionKind.ADD_LITELLM, "litellm", first_key(world), row)
        world.after(60.0, lambda: world.on_order(order, world.llmao))

    assert "drained-is-not-added" == named(lived(adds))


def test_a_drained_key_never_comes_back() -> None:
    """An llmao that leaves out what was drained once is found; one that does not is right."""
    drained: set[Key] = set()

    def for_ever(snapshots: Any, *rest: Any) -> Any:
        view, plan, history = reconcile(snapshots, *rest)
        drained.update(snapshots.intended.labels.drained_keys)
        kept = tuple(
            one for one in plan.actions
            if one.kind is not ActionKind.ADD_LITELLM or one.key not in drained
        )  # fmt: skip
        return view, evolve(plan, actions=kept), history

    async def a_minute(world: World, key: Key) -> None:
        await drain(world, key, drained=True)
        await world.run(60.0)
        await drain(world, key, drained=False)

    def for_a_minute(world: World, acts: Acts) -> None:
        world.spawn(a_minute(world, first_key(world)))

    assert "ready-is-planned" == named(lived(for_a_minute, for_ever))
    assert lived(for_a_minute) is None


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
            world.on_order(order, world.llmao)

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
