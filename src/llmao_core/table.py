"""Reading the decision table: which row applies to a set of facts.

Rule of this file: a lookup is a pure function of the facts, so each combination is worked out
once and remembered.
"""

import functools
from collections.abc import Sequence
from typing import Any, TypeVar

from .facts import LifeFacts, PlanFacts
from .rules import ACTIONS, LIFECYCLES, ActionRule, LifeRule

R = TypeVar("R", LifeRule, ActionRule)


def first(rules: Sequence[R], facts: LifeFacts | PlanFacts) -> R:
    """Return the first rule all of whose cells hold; that there is one is an invariant."""
    for rule in rules:
        if all(_holds(getattr(rule, name), value) for name, value in facts._asdict().items()):
            return rule
    raise AssertionError(f"no row of the decision table applies to {facts}")


def _holds(cell: Any, value: Any) -> bool:
    if cell is None:
        return True
    return value in cell if isinstance(cell, tuple) else value is cell


@functools.cache
def life_rule(facts: LifeFacts) -> LifeRule:
    """Return the row of the lifecycle table that applies."""
    return first(LIFECYCLES, facts)


@functools.cache
def action_rule(facts: PlanFacts) -> ActionRule:
    """Return the row of the action table that applies."""
    return first(ACTIONS, facts)
