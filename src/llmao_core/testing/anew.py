"""reconcile as if no pass had gone before: what is kept between passes must change nothing.

Rule of this file: what was kept is there again afterwards.
"""

from llmao_core.history import History
from llmao_core.plan import Plan, Policy
from llmao_core.reconcile import reconcile
from llmao_core.records import View
from llmao_core.settled import KEPT
from llmao_core.snapshots import Snapshots


def reconcile_anew(
    snapshots: Snapshots, history: History, policy: Policy, now: float
) -> tuple[View, Plan, History]:
    """Return what reconcile comes to when every key is looked at."""
    kept = dict(KEPT)
    KEPT.clear()
    try:
        return reconcile(snapshots, history, policy, now)
    finally:
        KEPT.clear()
        KEPT.update(kept)
