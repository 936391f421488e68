"""From the attention items of one look to what people are told: changes, each told once.

Rule of this file: pure. What people were told is remembered beside what is so, and only the
difference is a notice; a trouble that comes and goes becomes few notices, not many.
"""

from collections.abc import Iterable, Mapping

from attrs import evolve, frozen

from llmao_core.hooks import Notice
from llmao_core.records import AttentionItem

# A change must stand so long: what is over at once needs nobody.
SETTLE_S = 10.0
# Within this time people are told of one trouble so often: that it began and that it is over.
QUIET_S = 300.0
MOST_WITHIN = 2


@frozen
class Followed:
    """One trouble. item: as last seen. changed_at: when it last opened or closed.

    told_open: what people were told last. told_at: when, within QUIET_S. opened: how often since.
    """

    item: AttentionItem
    open: bool
    changed_at: float
    told_open: bool = False
    told_at: tuple[float, ...] = ()
    opened: int = 1


Following = Mapping[str, Followed]


def follow(
    before: Following, items: Iterable[AttentionItem], now: float
) -> tuple[Following, tuple[Notice, ...]]:
    """Return what is followed after one more look, and what people are to be told of it."""
    present = {item.id: item for item in items}
    after, notices = {}, []
    for name in before.keys() | present.keys():
        known = _seen(before.get(name), present.get(name), now)
        if _due(known, now):
            notices.append(_notice(known, now))
            told_at = (*known.told_at, now)
            known = evolve(known, told_open=known.open, told_at=told_at, opened=0)
        if known.open or known.told_open or known.told_at or now - known.changed_at < QUIET_S:
            after[name] = known
    return after, tuple(sorted(notices, key=lambda one: (one.opened, one.since, one.id)))


def _seen(known: Followed | None, item: AttentionItem | None, now: float) -> Followed:
    if known is None:
        assert item is not None
        return Followed(item, open=True, changed_at=now)
    told_at = tuple(at for at in known.told_at if now - at < QUIET_S)
    known = evolve(known, item=item or known.item, told_at=told_at)
    if known.open is (item is not None):
        return known
    return evolve(
        known, open=not known.open, changed_at=now, opened=known.opened + (not known.open)
    )


def _due(known: Followed, now: float) -> bool:
    differs = known.open is not known.told_open
    return differs and now - known.changed_at >= SETTLE_S and len(known.told_at) < MOST_WITHIN


def _notice(known: Followed, now: float) -> Notice:
    item = known.item
    return Notice(
        id=item.id,
        kind=item.kind,
        opened=known.open,
        sentence=item.sentence,
        since=item.since,
        at=now,
        host=item.host,
        times=known.opened,
        remedy=item.remedy if known.open else "",
    )
