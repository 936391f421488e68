"""Since when each attention item stands, also through passes that cannot see what it is about.

Rule of this file: an item ends when it was seen to end. Where its source is unread it may not be
shown, and it is the same trouble when it is shown again.
"""

from collections.abc import Iterable, Mapping

from attrs import evolve

from .records import AttentionItem, ItemKind
from .scene import Scene

# What listings say, and what LiteLLM's rows say.
_LISTED = frozenset(
    (
        ItemKind.NO_INSTANCE,
        ItemKind.RETIRED_AND_BILLED,
        ItemKind.DOWN_AND_BILLED,
        ItemKind.SERVES_NOTHING,
        ItemKind.UNNAMED_BOX,
        ItemKind.DISCOVERED,
        ItemKind.AMBIGUOUS,
        ItemKind.ORPHAN_SERVING,
    )
)
_ROUTED = frozenset(
    (
        ItemKind.CANNOT_REACH,
        ItemKind.WITNESS_MISSING,
        ItemKind.BRAKE_ON,
        ItemKind.NOT_PROVEN,
        ItemKind.NOT_KEPT,
        ItemKind.NOT_LIVE,
        ItemKind.NEEDS_HUMAN,
        ItemKind.ORPHAN_SERVING,
        ItemKind.UNSTAMPED_COPY,
        ItemKind.YAML_ROW,
    )
)

# A model of which nothing is counted is Unknown while any source is unread.
_ROLLED_UP = frozenset((ItemKind.MODEL_UNAVAILABLE,))


def dated(
    found: Iterable[AttentionItem], since: Mapping[str, float], now: float
) -> tuple[AttentionItem, ...]:
    """Return items sorted by what hurts most, each with the time it was first seen."""
    order = {kind: place for place, kind in enumerate(ItemKind)}
    unique = {one.id: one for one in found}
    ranked = sorted(unique.values(), key=lambda one: (order[one.kind], one.id))
    return tuple(evolve(one, since=since.get(one.id, now)) for one in ranked)


def sinces(
    shown: Iterable[AttentionItem], before: Mapping[str, float], scene: Scene
) -> Mapping[str, float]:
    """Return since when each item stands: those shown, and those that cannot be seen to end."""
    blind = _LISTED if scene.unread else frozenset()
    if scene.deployments is None:
        blind |= _ROUTED
    if scene.unread or scene.deployments is None or scene.health is None:
        blind |= _ROLLED_UP
    unseen = {kind.value for kind in blind}
    kept = {one: at for one, at in before.items() if one.partition(":")[0] in unseen}
    return kept | {one.id: one.since for one in shown}
