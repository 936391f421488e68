"""What holds an action beside its witness: backoff, brake, pace, what is not kept, and people."""

from typing import Any

import pytest
from attrs import evolve
from tests.core.deciding.drafts import FACTS, OURS, ROW, draft, wants
from tests.core.deciding.scenes import NOW, entry, fleet, row, scene

from llmao_core.actions import ActionKind, Outcome, OutcomeKind, Write
from llmao_core.config import BrakeConfig, PolicyName
from llmao_core.draft import Draft
from llmao_core.facts import AtRow, Gate
from llmao_core.history import History, RowHistory
from llmao_core.keys import Key
from llmao_core.plan import Action, Hold, Policy
from llmao_core.restrain import Outside, brake_on, braked, removed_now, restrain
from llmao_core.rules import ActionRule
from llmao_core.scene import Scene
from llmao_core.snapshots import Request, RequestKind, Row

FREE = ActionRule("drained", "It is drained.", ActionKind.DELETE_LITELLM)
NOBODY = Outside(0.0, listed=False)
REFUSED = FACTS._replace(at_row=AtRow.REFUSED)
AUTO = Policy()
WRITTEN = Outcome(OutcomeKind.DONE)


def free(**changes: Any) -> Draft:
    return draft(**{"rule": FREE, **changes})


def held(
    *drafts: Draft,
    found: Scene | None = None,
    policy: Policy = AUTO,
    history: History | None = None,
) -> list[Action]:
    told = restrain(drafts, NOBODY, history or History(), policy, found or scene())
    return [one.action for one in told if one.action is not None]


def hold_of(one: Draft, **rest: Any) -> Hold:
    (action,) = held(one, **rest)
    return action.hold


# ---- nothing, and backoff


def test_what_nothing_holds_is_as_the_rule_wants_it() -> None:
    """Only what wants something comes out, and nothing at all while LiteLLM is unread."""
    assert [wants()] == held(free(), draft(action=None))
    assert [] == held(free(), found=scene(deployments=None))
    assert [] == held()


def write(**changes: Any) -> dict[str, Write]:
    failed = Write(
        ActionKind.DELETE_LITELLM,
        OURS.key,
        NOW - 9.0,
        NOW - 8.0,
        Outcome(OutcomeKind.FAILED),
        failures=2,
        next_try=NOW + 5.0,
    )
    return {ROW.id: evolve(failed, **changes)}


def test_what_failed_waits_for_its_next_try() -> None:
    """It says until when, whatever else would hold it."""
    (action,) = held(draft(), found=scene(writes=write()))
    assert (Hold.BACKOFF, NOW + 5.0) == (action.hold, action.until)


@pytest.mark.parametrize(
    "writes",
    [
        {},
        write(failures=0),
        write(next_try=None),
        write(next_try=NOW),
        write(kind=ActionKind.UPDATE_LITELLM),
    ],
    ids=["none", "did not fail", "at once", "now", "another kind"],
)
def test_else_nothing_is_waited_for(writes: dict[str, Write]) -> None:
    """A backoff is of the same kind of write to the same row, and it ends."""
    (action,) = held(free(), found=scene(writes=writes))
    assert (Hold.NOT_HELD, None) == (action.hold, action.until)


def test_a_witness_is_waited_for() -> None:
    """A removal that needs one is held until it has it."""
    assert Hold.WITNESS is hold_of(draft())


# ---- the brake


@pytest.mark.parametrize(
    ("kind", "at_row", "gate", "by_person", "expected"),
    [
        (ActionKind.DELETE_LITELLM, AtRow.REFUSED, Gate.OPEN, False, True),
        (ActionKind.DELETE_LITELLM, AtRow.OTHER_MODEL, Gate.OPEN, False, True),
        (ActionKind.DELETE_LITELLM, AtRow.OPEN, Gate.OPEN, False, True),
        (ActionKind.DELETE_LITELLM, AtRow.FAILED, Gate.OPEN, False, False),
        (ActionKind.DELETE_LITELLM, AtRow.REFUSED, Gate.LEAVING, False, False),
        (ActionKind.DELETE_LITELLM, AtRow.REFUSED, Gate.REBOOTING, False, False),
        (ActionKind.DELETE_LITELLM, AtRow.REFUSED, Gate.RESTARTING, False, False),
        (ActionKind.DELETE_LITELLM, AtRow.REFUSED, Gate.OPEN, True, False),
        (ActionKind.UPDATE_LITELLM, AtRow.REFUSED, Gate.OPEN, False, False),
        (ActionKind.PRUNE_ORPHAN, AtRow.FAILED, Gate.OPEN, False, True),
        (ActionKind.PRUNE_ORPHAN, AtRow.FAILED, Gate.OPEN, True, False),
    ],
)
def test_the_brake_counts_what_no_probe_decides(
    kind: ActionKind, at_row: AtRow, gate: Gate, by_person: bool, expected: bool
) -> None:
    """Removals by what a server answered, and prunes; but not what somebody asked for."""
    rule = evolve(FREE, by_person=by_person)
    facts = FACTS._replace(at_row=at_row, gate=gate)
    assert expected is braked(draft(rule=rule, facts=facts, action=wants(kind)))
    assert not braked(draft(rule=rule, facts=facts, action=None))


def several(count: int) -> list[Draft]:
    """Return the removals of so many rows of ours, each of which answers that it is not ours."""
    return [free(facts=REFUSED, action=wants(target=f"row-{one}")) for one in range(count)]


def ours(count: int) -> tuple[Row, ...]:
    return tuple(evolve(row(), id=f"row-{one}") for one in range(count))


@pytest.mark.parametrize(
    ("wanted", "rows", "on"),
    [(2, 2, False), (3, 3, True), (3, 5, True), (3, 6, False), (4, 7, True)],
)
def test_the_brake_holds_too_many_at_once(wanted: int, rows: int, on: bool) -> None:
    """More than half of the rows that are ours, and no fewer than three."""
    drafts, found = several(wanted), scene(rows=ours(rows))
    expected = tuple(f"row-{one}" for one in range(wanted)) if on else ()
    assert expected == brake_on(drafts, History(), AUTO, found)
    holds = {action.hold for action in held(*drafts, found=found)}
    assert {Hold.BRAKE if on else Hold.NOT_HELD} == holds


def test_the_brake_is_as_it_is_configured() -> None:
    """How many, which part, and for how long a removal counts."""
    drafts, found = several(2), scene(rows=ours(10))
    tight = Policy(brake=BrakeConfig(fraction=0.1, at_least=2))
    assert ("row-0", "row-1") == brake_on(drafts, History(), tight, found)
    assert () == brake_on(drafts, History(), AUTO, found)


@pytest.mark.parametrize(("age_s", "counts"), [(600.0, True), (600.5, False)])
def test_the_brake_remembers_what_went(age_s: float, counts: bool) -> None:
    """Rows that are gone count among those that were there; with none wanted it is off."""
    history = History(removed=dict.fromkeys(("gone-1", "gone-2"), NOW - age_s))
    expected = ("gone-1", "gone-2", "row-0") if counts else ()
    found = scene(rows=ours(3))
    assert expected == brake_on(several(1), history, AUTO, found)
    assert () == brake_on([free(), draft(action=None)], history, AUTO, scene(rows=ours(1)))
    (action,) = held(*several(1), found=found, history=history)
    assert (Hold.BRAKE if counts else Hold.NOT_HELD) is action.hold


def test_the_brake_measures_by_our_own_rows() -> None:
    """Rows of other fleets and of LiteLLM's own file are no part of what could go."""
    others = [
        *(evolve(row(), id=f"file-{one}", in_db=False) for one in range(9)),
        *(evolve(row(), id=f"fleet-{one}", fleet="other") for one in range(9)),
    ]
    assert () != brake_on(several(3), History(), AUTO, scene(rows=(*ours(3), *others)))
    assert () == brake_on(several(3), History(), AUTO, scene(rows=ours(9)))


def test_the_brake_holds_nothing_else() -> None:
    """A removal that its probes decide goes on, though a row of the same id is counted."""
    decided = free(action=wants(target="row-0"))
    holds = [action.hold for action in held(*several(3), decided, found=scene(rows=ours(3)))]
    assert [Hold.BRAKE] * 3 + [Hold.NOT_HELD] == holds


@pytest.mark.parametrize(
    ("request_", "at", "expires_at", "released"),
    [
        (RequestKind.RELEASE_BRAKE, NOW, NOW + 1.0, True),
        (RequestKind.RELEASE_BRAKE, NOW - 9.0, NOW, False),
        (RequestKind.RELEASE_BRAKE, NOW + 1.0, NOW + 9.0, False),
        (RequestKind.RUN, NOW, NOW + 1.0, False),
    ],
)
def test_an_admin_releases_the_brake_for_a_while(
    request_: RequestKind, at: float, expires_at: float, released: bool
) -> None:
    """From the press to its end."""
    found = scene(rows=ours(3), requests=(Request(request_, "ada", at, expires_at),))
    holds = {action.hold for action in held(*several(3), found=found)}
    assert {Hold.NOT_HELD if released else Hold.BRAKE} == holds


def test_what_the_brake_counts_is_remembered() -> None:
    """What runs now counts from now on, what went long ago no more; nothing new is the same."""
    waits = free(facts=REFUSED, action=evolve(wants(target="waits"), hold=Hold.BRAKE))
    decided = free(action=wants(target="decided"))
    history = History(removed={"row-0": NOW - 5.0, "old": NOW - 600.5, "edge": NOW - 600.0})
    drafts = [*several(2), waits, decided, draft(action=None)]
    kept = removed_now(drafts, history, scene(), 600.0)
    assert {"row-0": NOW - 5.0, "row-1": NOW, "edge": NOW - 600.0} == kept
    same = History(removed=kept)
    assert same.removed is removed_now([], same, scene(), 600.0)


# ---- what LiteLLM does not keep


UPDATE = ActionRule("body-differs", "It differs.", ActionKind.UPDATE_LITELLM)


def update(kept_wrong: int, **changes: Any) -> Draft:
    known = RowHistory(kept_wrong=kept_wrong, hash=OURS.body.hash)
    return draft(
        **{
            "rule": UPDATE,
            "row_known": known,
            "action": wants(ActionKind.UPDATE_LITELLM),
            **changes,
        }
    )


DARK = entry(None, evolve(ROW, live=False))


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (update(2), Hold.NOT_KEPT),
        (update(1), Hold.NOT_HELD),
        (update(2, entry=DARK), Hold.NOT_HELD),
        (update(3, entry=DARK), Hold.NOT_KEPT),
        (update(2, entry=entry()), Hold.NOT_KEPT),
        (update(2, aim=None), Hold.NOT_KEPT),
        (update(2, row_known=None), Hold.NOT_HELD),
        (update(2, row_known=RowHistory(kept_wrong=2, hash="older")), Hold.NOT_HELD),
        (update(2, action=wants()), Hold.NOT_HELD),
        (update(2, aim=None, entry=entry(deployment=None)), Hold.NOT_HELD),
    ],
    ids=[
        "twice",
        "once",
        "not live",
        "not live, thrice",
        "an add",
        "no aim",
        "new",
        "another body",
        "a removal",
        "foreign",
    ],
)
def test_what_was_not_kept_twice_is_not_written_again(one: Draft, expected: Hold) -> None:
    """The same body; a row that is not live has one try more, in which it is made anew."""
    assert expected is hold_of(one)


def test_what_is_not_kept_is_the_body_of_the_bearer_gone_by() -> None:
    """A box that runs the older bearer is written with the older body."""
    aim = draft().aim
    assert aim is not None
    older = evolve(aim, deployment=evolve(OURS, body=evolve(OURS.body, hash="older")))
    known = RowHistory(kept_wrong=2, hash="older")
    assert Hold.NOT_KEPT is hold_of(update(2, row_known=known, aim=older))
    assert Hold.NOT_HELD is hold_of(update(2, row_known=known))


# ---- the pace


def bodies(count: int, rule: str = "body-differs", routed: int = 0) -> list[Draft]:
    """Return so many rows of one model whose body is to change, beside others that stay."""
    changing = [
        update(0, rule=evolve(UPDATE, name=rule), action=wants(ActionKind.UPDATE_LITELLM, f"{one}"))
        for one in range(count)
    ]
    return [*changing, *(draft(action=None) for _ in range(routed))]


@pytest.mark.parametrize("rule", ["body-differs", "field-must-go"])
@pytest.mark.parametrize(("count", "routed", "at_once"), [(3, 0, 1), (3, 16, 1), (3, 17, 2)])
def test_bodies_change_a_few_at_a_time(rule: str, count: int, routed: int, at_once: int) -> None:
    """A tenth of a model's rows per poll, and at least one."""
    holds = [action.hold for action in held(*bodies(count, rule, routed))]
    assert [Hold.NOT_HELD] * at_once + [Hold.PACED] * (count - at_once) == holds


def test_only_bodies_are_paced() -> None:
    """What must be corrected for another reason is corrected at once."""
    assert {Hold.NOT_HELD} == {action.hold for action in held(*bodies(3, "moved"))}


def test_each_model_has_its_own_pace() -> None:
    """A row of another model takes no place; a model without rows has one place, too."""
    other = Key("http://203.0.113.11:8001", "large", "203.0.113.11:8001")
    action = wants(ActionKind.UPDATE_LITELLM)
    order = evolve(action.order, key=other)
    large = [update(0, action=evolve(action, order=order)) for _ in range(2)]
    holds = [action.hold for action in held(*bodies(1), *large)]
    assert [Hold.NOT_HELD, Hold.NOT_HELD, Hold.PACED] == holds


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, Hold.PACED),
        ({"kind": ActionKind.REPLACE_LITELLM}, Hold.PACED),
        ({"kind": ActionKind.ADD_LITELLM}, Hold.NOT_HELD),
        ({"began": NOW - 30.0}, Hold.NOT_HELD),
        ({"began": NOW - 29.5}, Hold.PACED),
        ({"key": Key("http://203.0.113.11:8001", "large", "x")}, Hold.NOT_HELD),
    ],
)
def test_a_write_of_this_poll_has_taken_its_place(changes: dict[str, Any], expected: Hold) -> None:
    """Passes come more often than reads: the pace is kept across them."""
    done = Write(ActionKind.UPDATE_LITELLM, OURS.key, NOW, NOW, WRITTEN)
    found = scene(writes={"another": evolve(done, **changes)})
    assert expected is hold_of(bodies(1)[0], found=found)


def test_a_write_takes_one_place_of_several() -> None:
    """A large fleet changes several bodies in a poll, those of earlier passes counted."""
    done = Write(ActionKind.UPDATE_LITELLM, OURS.key, NOW, NOW, WRITTEN)
    found = scene(writes={"one": done, "two": done})
    holds = [action.hold for action in held(*bodies(3, routed=27), found=found)]
    assert [Hold.NOT_HELD, Hold.PACED, Hold.PACED] == holds


# ---- people


@pytest.mark.parametrize(
    ("policy", "by_person", "expected"),
    [
        ("auto", False, "auto"),
        ("auto", True, "needs_human"),
        ("observe", True, "observe"),
        ("needs_human", False, "needs_human"),
    ],
)
def test_a_rule_may_need_a_person(
    policy: PolicyName, by_person: bool, expected: PolicyName
) -> None:
    """Whatever the policy is; but what is only observed stays so."""
    rules = Policy(kinds={ActionKind.DELETE_LITELLM: policy})
    one = free(rule=evolve(FREE, by_person=by_person))
    (action,) = held(one, policy=rules)
    assert expected == action.policy
    (action,) = held(free(), policy=Policy(kinds={}))
    assert "auto" == action.policy


PRESS = Request(
    RequestKind.RUN, "ada", NOW, NOW + 1.0, OURS.key, ActionKind.DELETE_LITELLM, "as shown"
)


@pytest.mark.parametrize(
    ("changes", "by"),
    [
        ({}, "ada"),
        ({"expires_at": NOW}, ""),
        ({"request": RequestKind.RELEASE_BRAKE}, ""),
        ({"key": fleet(hosts={"203.0.113.11": {8001: "small"}}).deployments[0].key}, ""),
        ({"kind": ActionKind.PRUNE_ORPHAN}, ""),
        ({"digest": "as it was"}, ""),
    ],
)
def test_a_person_releases_what_they_were_shown(changes: dict[str, Any], by: str) -> None:
    """This action of this key, for as long as what it rests on is the same."""
    (action,) = held(draft(), found=scene(requests=(evolve(PRESS, **changes),)))
    assert (Hold.WITNESS, by) == (action.hold, action.released_by)
