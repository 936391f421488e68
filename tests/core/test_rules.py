"""Every combination of facts has exactly one answer, and no answer is unsafe.

All of them are enumerated: 360 for a lifecycle, about 440 000 for an action. The tables are split
fact by fact, so that a rule is compared once for many combinations.
"""

import itertools
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, TypeVar, get_type_hints

import pytest

from llmao_core.actions import ActionKind
from llmao_core.facts import (
    AtRow,
    Base,
    Drift,
    Evidence,
    Gate,
    Handout,
    LifeFacts,
    Named,
    Passes,
    PlanFacts,
    Ready,
    Route,
    RowSeen,
    Served,
    Want,
)
from llmao_core.records import Lifecycle
from llmao_core.rules import ACTIONS, LIFECYCLES, ActionRule, LifeRule
from llmao_core.table import action_rule, first, life_rule

R = TypeVar("R", LifeRule, ActionRule)
BOX = (Want.INTENDED, Want.DISCOVERED)
ORPHANS = (Want.ORPHAN, Want.DISPLACED, Want.BOXLESS)
SINGLE = (Route.ONE, Route.BESIDE)
FIT = (Ready.OK, Ready.PROVEN)
ADDS = (ActionKind.ADD_LITELLM,)
WRITES = (ActionKind.UPDATE_LITELLM, ActionKind.REPLACE_LITELLM)
DOWN = (
    Lifecycle.UNHEALTHY,
    Lifecycle.STALLED,
    Lifecycle.REJECTED,
    Lifecycle.FOREIGN,
    Lifecycle.WRONG_MODEL,
)
REMOVALS = tuple(kind for kind in ActionKind if kind.removes)


def domains(shape: type[Any]) -> dict[str, tuple[Any, ...]]:
    return {name: tuple(kind) for name, kind in get_type_hints(shape).items()}


def holds(cell: Any, value: Any) -> bool:
    return cell is None or value is cell or (isinstance(cell, tuple) and value in cell)


Box = tuple[tuple[Any, ...], ...]


def regions(rules: Sequence[R], shape: type[Any]) -> Iterator[tuple[Box, R]]:
    """Yield boxes of combinations, disjoint and together all, each with the rule that answers."""
    return _split(domains(shape), (), rules)


def _split(
    kinds: dict[str, tuple[Any, ...]], fixed: Box, left: Sequence[R]
) -> Iterator[tuple[Box, R]]:
    assert left, f"no rule for {fixed}"
    rest: list[str] = list(kinds)[len(fixed) :]
    if all(getattr(left[0], name) is None for name in rest):
        yield (*fixed, *(kinds[name] for name in rest)), left[0]
        return
    for value in kinds[rest[0]]:
        fitting = [rule for rule in left if holds(getattr(rule, rest[0]), value)]
        yield from _split(kinds, (*fixed, (value,)), fitting)


@cache
def plans() -> list[tuple[PlanFacts, ActionRule]]:
    """Return every combination of plan facts with its answer."""
    return [
        (PlanFacts(*facts), rule)
        for box, rule in regions(ACTIONS, PlanFacts)
        for facts in itertools.product(*box)
    ]


@cache
def acting(*kinds: ActionKind) -> list[tuple[PlanFacts, ActionRule]]:
    """Return the combinations that are answered with one of these actions."""
    return [(facts, rule) for facts, rule in plans() if rule.action in kinds]


@cache
def lives() -> list[tuple[LifeFacts, LifeRule]]:
    """Return every combination of life facts with its answer."""
    every = itertools.product(*domains(LifeFacts).values())
    return [(facts, first(LIFECYCLES, facts)) for facts in itertools.starmap(LifeFacts, every)]


def test_every_combination_is_answered_once() -> None:
    """The tables have no gap, and each combination of facts has one answer."""
    sizes = [len(values) for values in domains(PlanFacts).values()]
    assert len(plans()) == len({facts for facts, _ in plans()})
    expected = 1
    for size in sizes:
        expected *= size
    assert expected == len(plans())


def test_the_lookup_agrees() -> None:
    """The look-up that a pass uses gives the answer that splitting the table gives."""
    for box, rule in regions(ACTIONS, PlanFacts):
        assert rule is action_rule(PlanFacts(*(values[-1] for values in box)))
    for life, answer in lives():
        assert answer is life_rule(life)


def test_no_rule_is_dead() -> None:
    """Every rule is the first that applies for at least one combination."""
    assert {rule.name for rule in LIFECYCLES} == {rule.name for _, rule in lives()}
    assert {rule.name for rule in ACTIONS} == {rule.name for _, rule in plans()}


@pytest.mark.parametrize("rules", [LIFECYCLES, ACTIONS], ids=["lifecycles", "actions"])
def test_names_are_unique(rules: Sequence[LifeRule | ActionRule]) -> None:
    """A name says which rule it was."""
    assert len({rule.name for rule in rules}) == len(rules)


# ---- the same, said once more in prose


def wanted(facts: PlanFacts) -> ActionKind | None:
    """Return what should be done, want by want, instead of rule by rule."""
    if facts.gate in (Gate.BLIND, Gate.PENDING) or facts.want is Want.FOREIGN:
        return None
    routed = facts.route is not Route.NONE
    if facts.gate is Gate.REBOOTING:
        has_box = facts.want not in (Want.COMMERCIAL, Want.BOXLESS, Want.UNKNOWN)
        return ActionKind.DELETE_LITELLM if routed and has_box else None
    if facts.gate is Gate.LEAVING or (facts.gate is Gate.RESTARTING and facts.want in BOX):
        return ActionKind.DELETE_LITELLM if routed else None
    if facts.want is Want.UNKNOWN:
        return None
    if facts.want in ORPHANS:
        return _for_orphan(facts) if routed else None
    found = put_right(facts) if facts.want is Want.COMMERCIAL else _for_box(facts)
    if found is None and facts.route is Route.BESIDE:
        return ActionKind.DELETE_DUPLICATE
    return found


def _for_orphan(facts: PlanFacts) -> ActionKind | None:
    if facts.want is Want.DISPLACED and facts.at_row is AtRow.OTHER_MODEL:
        return ActionKind.DELETE_LITELLM
    told = facts.at_row is not AtRow.UNKNOWN or facts.want is Want.BOXLESS
    return ActionKind.PRUNE_ORPHAN if told and facts.passes is Passes.ENOUGH else None


def _for_box(facts: PlanFacts) -> ActionKind | None:
    if facts.route is not Route.NONE and dead(facts):
        return ActionKind.DELETE_LITELLM
    answers = facts.life is Lifecycle.HEALTHY and facts.ready in FIT
    if answers and not (facts.route is Route.NONE and facts.ready is not Ready.PROVEN):
        return put_right(facts)
    return ActionKind.DELETE_DUPLICATE if facts.route is Route.SEVERAL else None


def dead(facts: PlanFacts) -> bool:
    """Tell whether a row's own address shows that it serves nobody."""
    if facts.life in DOWN and facts.at_row not in (AtRow.ALIVE, AtRow.UNKNOWN):
        return True
    if facts.life in (Lifecycle.LOADING, Lifecycle.AWAITING) and facts.at_row is AtRow.FAILED:
        return True
    moved = facts.base is Base.ELSEWHERE and facts.ready is Ready.NO
    return moved and facts.at_row not in (AtRow.ALIVE, AtRow.UNKNOWN)


def put_right(facts: PlanFacts) -> ActionKind | None:
    """Return what makes the rows of a key one, and right."""
    if facts.route is Route.NONE:
        return ActionKind.ADD_LITELLM
    if facts.route is Route.SEVERAL:
        return ActionKind.DELETE_DUPLICATE
    if facts.drift is Drift.MUST_GO:
        return ActionKind.REPLACE_LITELLM
    differs = facts.drift is Drift.DIFFERS or facts.base is Base.ELSEWHERE
    return ActionKind.UPDATE_LITELLM if differs else None


def test_the_table_says_what_the_prose_says() -> None:
    """For every combination the table wants the action that the rules in prose want."""
    for facts, rule in plans():
        assert wanted(facts) is rule.action, (facts, rule.name)


# ---- what must never be


def test_nothing_is_done_blind() -> None:
    """Nothing is done while a needed source cannot be used or a write is not confirmed."""
    stopped = (Gate.BLIND, Gate.PENDING)
    assert [] == [one for one in acting(*ActionKind) if one[0].gate in stopped]


def test_foreign_rows_are_never_touched() -> None:
    """What is not ours is no target, whatever else is the case."""
    assert [] == [one for one in acting(*ActionKind) if one[0].want is Want.FOREIGN]


def test_boxes_are_never_rebooted_by_a_rule() -> None:
    """A reboot is asked for by a person."""
    assert [] == acting(ActionKind.REBOOT_BOX)


def test_adds_are_proven() -> None:
    """A route is added only where there is none, and for a box only when it is proven."""
    for facts, rule in acting(*ADDS):
        healthy = facts.gate is Gate.OPEN and facts.life is Lifecycle.HEALTHY
        proven = facts.want in BOX and healthy and facts.ready is Ready.PROVEN
        assert facts.route is Route.NONE, (facts, rule.name)
        assert facts.gate not in (Gate.LEAVING, Gate.REBOOTING), (facts, rule.name)
        assert proven or facts.want is Want.COMMERCIAL, (facts, rule.name)


def test_writes_are_answered() -> None:
    """A row is written only where there is exactly one, and for a box only to what answers."""
    for facts, rule in acting(*WRITES):
        answers = facts.life is Lifecycle.HEALTHY and facts.ready in FIT
        assert facts.route in SINGLE, (facts, rule.name)
        assert facts.gate not in (Gate.LEAVING, Gate.REBOOTING), (facts, rule.name)
        assert facts.want is Want.COMMERCIAL or answers, (facts, rule.name)
        assert facts.want not in ORPHANS, (facts, rule.name)


def test_removals_have_a_row() -> None:
    """What is removed is there."""
    assert [] == [one for one in acting(*REMOVALS) if one[0].route is Route.NONE]


def test_serving_is_never_removed() -> None:
    """No probe removes an intended, Healthy route, unless it moved and the old address is dead."""
    for facts, rule in acting(ActionKind.DELETE_LITELLM, ActionKind.PRUNE_ORPHAN):
        asked = facts.gate in (Gate.LEAVING, Gate.REBOOTING, Gate.RESTARTING)
        if asked or facts.want not in BOX or facts.life is not Lifecycle.HEALTHY:
            continue
        dead = facts.at_row not in (AtRow.ALIVE, AtRow.UNKNOWN) and facts.ready is Ready.NO
        assert facts.base is Base.ELSEWHERE, (facts, rule.name)
        assert dead, (facts, rule.name)


def test_removals_rest_on_the_rows_own_address() -> None:
    """A row whose own address is alive, or unseen, goes only when a person or its box says so."""
    for facts, rule in acting(ActionKind.DELETE_LITELLM, ActionKind.PRUNE_ORPHAN):
        if facts.at_row in (AtRow.ALIVE, AtRow.UNKNOWN) and not rule.by_person:
            assert facts.gate in (Gate.LEAVING, Gate.REBOOTING, Gate.RESTARTING), (facts, rule.name)


def test_removals_of_boxes_need_a_witness() -> None:
    """Whatever probes alone decide needs a second opinion, but for a server that is open to all."""
    for facts, rule in acting(ActionKind.DELETE_LITELLM):
        if facts.gate is Gate.OPEN and facts.want in BOX and facts.at_row is not AtRow.OPEN:
            assert rule.witness, (facts, rule.name)


def test_commercial_rows_stay() -> None:
    """A commercial row is removed by a person only, or as a duplicate."""
    for facts, rule in acting(ActionKind.DELETE_LITELLM, ActionKind.PRUNE_ORPHAN):
        assert facts.want is not Want.COMMERCIAL or facts.gate is Gate.LEAVING, (facts, rule.name)


def test_orphans_are_pruned_late() -> None:
    """An orphan is pruned after enough passes; what may serve callers by a person only."""
    for facts, rule in acting(ActionKind.PRUNE_ORPHAN):
        dead = facts.at_row not in (AtRow.ALIVE, AtRow.UNKNOWN) and facts.want is not Want.BOXLESS
        assert facts.want in ORPHANS, (facts, rule.name)
        assert facts.passes is Passes.ENOUGH, (facts, rule.name)
        assert rule.by_person is not dead, (facts, rule.name)


def test_duplicates_are_of_ours() -> None:
    """A duplicate is removed only of a key that is wanted; one that is not ours by a person."""
    for facts, rule in acting(ActionKind.DELETE_DUPLICATE):
        expected = Route.BESIDE if rule.by_person else Route.SEVERAL
        assert facts.route is expected, (facts, rule.name)
        assert facts.want in (*BOX, Want.COMMERCIAL), (facts, rule.name)


def test_a_person_is_asked_for_removals_only() -> None:
    """What waits for a person whatever the policy takes something away."""
    assert {True} == {rule.action in REMOVALS for _, rule in plans() if rule.by_person}


# ---- lifecycles


def test_unknown_is_not_down() -> None:
    """Without a recent probe, or with one that proves nothing, the last verdict stands."""
    proves_nothing = (
        Evidence.UNSEEN, Evidence.GARBLED, Evidence.REFUSED, Evidence.OTHER_MODEL,
        Evidence.BUSY_UNPROVEN,
    )  # fmt: skip
    for facts, rule in lives():
        assert (facts.evidence in proves_nothing) == (rule.lifecycle is None), (facts, rule.name)


def test_healthy_is_earned() -> None:
    """Healthy is what answers, or did since its hand-out and failed less than the threshold."""
    answers = (Evidence.OK, Evidence.BUSY, Evidence.LITELLM_UP)
    for facts, rule in lives():
        held = facts.evidence is Evidence.FAILED and facts.served is Served.YES
        expected = facts.evidence in answers or held
        assert expected == (rule.lifecycle is Lifecycle.HEALTHY), (facts, rule.name)
        assert rule.held == held, (facts, rule.name)


def test_unhealthy_has_served() -> None:
    """Only what served once can be Unhealthy: a box since its hand-out or before a restart."""
    for facts, rule in lives():
        if rule.lifecycle is Lifecycle.UNHEALTHY and facts.evidence is not Evidence.LITELLM_DOWN:
            assert facts.evidence is Evidence.FAILED_ENOUGH, (facts, rule.name)
            assert facts.served is Served.YES or facts.row_seen is RowSeen.YES, (facts, rule.name)


def test_foreign_is_named_by_no_listing() -> None:
    """Foreign is said only when every listing is fresh and none names the address."""
    for facts, rule in lives():
        if rule.lifecycle is Lifecycle.FOREIGN:
            assert facts.evidence is Evidence.REFUSED_LONG, (facts, rule.name)
            assert facts.named is Named.NOWHERE, (facts, rule.name)


def test_down_is_told_by_the_hand_out() -> None:
    """What fails and never served waits, loads or has stalled, as its hand-out tells."""
    by_handout = {
        Handout.NONE: Lifecycle.AWAITING,
        Handout.YOUNG: Lifecycle.LOADING,
        Handout.OLD: Lifecycle.STALLED,
    }
    failed = (Evidence.FAILED, Evidence.FAILED_ENOUGH)
    for facts, rule in lives():
        if facts.evidence not in failed or facts.served is Served.YES:
            continue
        before = facts.evidence is Evidence.FAILED_ENOUGH and facts.row_seen is RowSeen.YES
        expected = by_handout[facts.handout]
        if before and facts.handout is Handout.NONE:
            expected = Lifecycle.UNHEALTHY
        assert expected is rule.lifecycle, (facts, rule.name)


def test_answers_have_one_lifecycle() -> None:
    """What evidence alone decides is decided by nothing else."""
    told = {
        Evidence.REFUSED_TWICE: {Lifecycle.REJECTED},
        Evidence.REFUSED_LONG: {Lifecycle.REJECTED, Lifecycle.FOREIGN},
        Evidence.OTHER_TWICE: {Lifecycle.WRONG_MODEL},
        Evidence.LITELLM_DOWN: {Lifecycle.UNHEALTHY},
        Evidence.LITELLM_UNKNOWN: {Lifecycle.CONFIGURED},
    }
    for evidence, expected in told.items():
        assert expected == {rule.lifecycle for facts, rule in lives() if facts.evidence is evidence}
