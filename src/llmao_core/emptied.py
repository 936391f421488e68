"""All rows of ours gone from LiteLLM at once: an upgrade, an emptied table.

Rule of this file: it only watches and tells. A row that llmao removed itself did not vanish, and
what happened is told until every row is back.
"""

from collections.abc import Iterable, Iterator, Sequence

from attrs import evolve

from .actions import ActionKind
from .draft import Draft
from .history import Emptied, History
from .plan import Action
from .records import AttentionItem, ItemKind
from .remembered import Remembered
from .scene import Scene
from .snapshots import Row
from .waiting import SHOWN, counted, item

TOLD_S = 3600.0
_FEWEST = 2


def rows_left(history: History, scene: Scene) -> frozenset[str]:
    """Return the ids of our rows as last seen, without those we removed ourselves."""
    removed = {one for one, write in scene.writes.items() if write.kind.removes}
    return history.our_rows - removed if removed else history.our_rows


def fold_emptied(history: History, scene: Scene) -> Emptied | None:
    """Return what is remembered of such an event; history: before this pass's read."""
    old, read = history.emptied, scene.deployments
    if read is None:
        return old
    present = our_rows(scene.fleet.name, read.body.rows)
    if old is not None and len(present) > old.back:
        # A row that goes again later went for a reason of its own.
        old = evolve(old, back=len(present))
    before = rows_left(history, scene)
    gone = len(before) >= _FEWEST and before.isdisjoint(present)
    if gone and (old is None or old.back):
        return Emptied(read.taken_at, len(before), len(present))
    return old if old is not None and _stands(old, scene) else None


def _ours(fleet: str, rows: tuple[Row, ...]) -> frozenset[str]:
    """Return the ids of a fleet's rows."""
    return frozenset(row.id for row in rows if row.in_db and row.fleet == fleet)


# Between two reads of LiteLLM they are the same.
our_rows = Remembered(_ours, most=10)


def _stands(known: Emptied, scene: Scene) -> bool:
    """Tell whether it is still told: at least while what was put back may yet fail to load."""
    age_s = scene.now - known.at
    return age_s <= scene.fleet.health_grace_s or (known.back < known.rows and age_s <= TOLD_S)


def emptied(history: History, drafts: Iterable[Draft], scene: Scene) -> Iterator[AttentionItem]:
    """Yield an item while it is told: what happened, and how far it is put right."""
    known = history.emptied
    if known is None or scene.deployments is None:
        return
    back = min(known.rows, known.back)
    left = known.rows - back
    adds = [
        one.action for one in drafts if one.action and one.action.kind is ActionKind.ADD_LITELLM
    ]
    yield item(
        ItemKind.ROWS_VANISHED,
        f"All {counted(known.rows, 'deployment')} of llmao's vanished from LiteLLM at once. "
        f"{_so_far(back, left, adds)}",
        evidence=tuple(f"{one.key}: {_how(one)}" for one in adds[:SHOWN]),
        remedy="Find out whether LiteLLM's database was emptied or upgraded; what others kept in "
        "it is gone, too.",
    )


def _so_far(back: int, left: int, adds: Sequence[Action]) -> str:
    """Return what is back, what callers miss, and who does something about it."""
    if not left:
        return "llmao has put all of them back."
    waits = [one for one in adds if not one.runs]
    if any(one.policy == "observe" for one in waits):
        who = "the policy for add_litellm is observe, so llmao puts none back."
    elif waits:
        who = f"{counted(len(waits), 'addition')} of llmao's wait: the plan says for what."
    else:
        who = "llmao puts each back by itself once its server has proven itself."
    if not back:
        return f"Callers get errors until they are back: {who}"
    return f"{back} {'is' if back == 1 else 'are'} back; callers miss the other {left}: {who}"


def _how(action: Action) -> str:
    if action.runs:
        return "is being put back"
    return action.hold.value or f"policy: {action.policy}"
