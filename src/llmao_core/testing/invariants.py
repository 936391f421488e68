"""What must hold after every pass, whatever the situation.

Rule of this file: assertions about one pass; whoever walks through passes calls them.
"""

import itertools
from collections.abc import Mapping

from llmao_core.history import History
from llmao_core.plan import Plan
from llmao_core.records import View
from llmao_core.snapshots import Row
from llmao_core.testing.situation import FLEET_KEY, LEGACY_KEY, PROVIDER_KEYS, SALTS


def check(view: View, plan: Plan, history: History, rows: Mapping[str, Row], fleet: str) -> None:
    """Assert what must hold after every pass, whatever the situation."""
    keys = [action.key for action in plan.actions]
    assert len(keys) == len(set(keys)), f"two actions for one key: {keys}"
    for action in plan.actions:
        row = rows.get(action.order.target)
        foreign = row is not None and (not row.in_db or row.fleet not in ("", fleet))
        assert not foreign, f"{action.kind.value} on a row that is not ours"
    told = repr((view, plan, history))
    for secret in secrets(view):
        assert secret not in told, "a secret shows in the view, the plan or the history"


def secrets(view: View) -> set[str]:
    """Return every text that nobody may see: configured secrets and derived bearers."""
    told = (*SALTS, FLEET_KEY, LEGACY_KEY, *PROVIDER_KEYS.values())
    bearers = (spec.bearer for spec in view.targets)
    return {one.reveal() for one in itertools.chain(told, bearers)}
