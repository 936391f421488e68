"""That a pass plans what it sees ready, and the executor begins what is planned.

Rule of this file: it judges what llmao concluded by llmao's own words; what is true of the world
is judged elsewhere.
"""

from collections.abc import Callable

from attrs import define, field, frozen

from llmao_core.actions import ActionKind, Order
from llmao_core.plan import Action, Plan
from llmao_core.records import Kind, Record, View
from llmao_core.verdicts import Lifecycle

from .process import Llmao

# Why what is Healthy and has no row is not added: the action table's own words for it.
WAITS = frozenset(
    {"blind", "pending", "kept-out", "reboot-kept-out", "restarting", "not-proven"}
)  # fmt: skip


@frozen
class Late:
    """What was not done in its pass. name: of the invariant."""

    name: str
    what: str
    key: str


@define(eq=False)
class Prompt:
    """What each llmao plans to add and has not begun, since when."""

    _planned: dict[Llmao, dict[str, float]] = field(factory=dict)

    def unplanned(self, view: View, plan: Plan) -> Late | None:
        """Return what a pass saw serve without a row and neither plans nor says why not."""
        planned = {action.key for action in plan.actions}
        for record in view.records:
            if _ready(record) and record.key not in planned and record.action_rule not in WAITS:
                what = f"{record.key} is Healthy without a row, and not planned: "
                return Late("ready-is-planned", what + record.action_rule, str(record.key))
        return None

    def idle(
        self, who: Llmao, plan: Plan, now: float, since: Callable[[str], float], limit_s: float
    ) -> Late | None:
        """Return what is planned to be added at once and is not begun. since: able, by row."""
        waiting = {action.litellm_id: action for action in plan.actions if _to_add(action)}
        before = self._planned.get(who, {})
        self._planned[who] = {row: before.get(row, now) for row in waiting}
        for row, action in waiting.items():
            if (for_s := now - max(self._planned[who][row], since(row))) > limit_s:
                what = f"{action.key} is to be added for {for_s:.0f} s, and nobody begins"
                return Late("planned-is-begun", what, str(action.key))
        return None

    def begun(self, who: Llmao, order: Order) -> None:
        """Note that a write has begun."""
        self._planned.get(who, {}).pop(order.target, None)


def _ready(record: Record) -> bool:
    wanted = record.kind in (Kind.INTENDED, Kind.DISCOVERED)
    return wanted and record.lifecycle is Lifecycle.HEALTHY and record.row is None


def _to_add(action: Action) -> bool:
    return action.kind is ActionKind.ADD_LITELLM and action.runs
