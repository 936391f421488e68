"""A key that a rule wants something done about, on its way through what may hold it.

Rule of this file: one removal, of a server that failed for half a minute, with all that is known.
"""

from typing import Any

from attrs import evolve
from tests.core.deciding.known import AT_ROW, KNOWN, MAIN, SEEN
from tests.core.deciding.scenes import AT_PUBLIC, NOW, entry, fleet, row

from llmao_core.actions import ActionKind, Order
from llmao_core.classify import Aim
from llmao_core.draft import Draft
from llmao_core.drift import EQUAL
from llmao_core.facts import (
    AtRow,
    Base,
    Drift,
    Gate,
    Passes,
    PlanFacts,
    Ready,
    Route,
    Want,
)
from llmao_core.fold import Watch
from llmao_core.history import Cause
from llmao_core.plan import Action
from llmao_core.records import Lifecycle, SignalKind
from llmao_core.rules import ActionRule, LifeRule

OURS = fleet().deployments[0]
ROW = row(at=AT_PUBLIC.removeprefix("http://"))
REMOVE = ActionRule("dead", "{key} is dead: {detail}.", ActionKind.DELETE_LITELLM, witness=True)
FACTS = PlanFacts(
    Gate.OPEN,
    Want.INTENDED,
    Lifecycle.UNHEALTHY,
    Route.ONE,
    AtRow.FAILED,
    Base.CURRENT,
    Drift.NONE,
    Ready.NO,
    Passes.EARLY,
)
DEAD = evolve(
    SEEN,
    probed_at=NOW - 1.0,
    kind=SignalKind.FAILED,
    detail="/health: timed out",
    fails=3,
    oks=0,
    cause=Cause.SILENT,
    first_fail=NOW - 30.0,
)
FAILED_AT = NOW - 30.0


def wants(kind: ActionKind = ActionKind.DELETE_LITELLM, target: str = ROW.id) -> Action:
    """Return an action as it is before anything has held it."""
    order = Order(kind, "litellm", OURS.key, target)
    return Action(order, "dead", "It is dead.", digest="as shown")


def draft(**changes: Any) -> Draft:
    """Return the removal of a server that failed, but for these fields."""
    found = Draft(
        entry(None, ROW),
        evolve(KNOWN, outside=None),
        Watch(MAIN, None, (AT_ROW,)),
        Aim(OURS, MAIN, SEEN, stale=False),
        Lifecycle.UNHEALTHY,
        FACTS,
        REMOVE,
        EQUAL,
        LifeRule("failed", "It failed."),
        row_seen=DEAD,
        action=wants(),
    )
    return evolve(found, **changes)
