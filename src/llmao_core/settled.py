"""Which keys need no new look: all that their last decision rested on is still the same.

Rule of this file: it saves work and changes nothing. Values of core never change, so the same
objects come to the same draft, until a time is reached at which one of them grows old.
"""

import math
from collections.abc import Iterator
from operator import is_
from typing import Any

from attrs import define, frozen

from .classify import handed_out
from .draft import Draft
from .history import History, HostHistory
from .join import Joined
from .keys import Key
from .placement import Places
from .records import Kind
from .remembered import Remembered
from .scene import OPINION_MAX_AGE_S, Scene

MOST = 200_000
_EARLY_S = 0.001


@frozen(eq=False)
class Ground:
    """What the drafts of all keys rest on, told apart by identity."""


_GROUNDS = Remembered(lambda *_: Ground(), most=10)


def ground(scene: Scene, places: Places) -> Ground | None:
    """Return the ground of a pass: the same object while all of it is; None while it moves."""
    if scene.reboots:
        return None
    name = (scene.all_listed, scene.no_listing, scene.deployments is None)
    return _GROUNDS(name, scene.intended, places.addresses)


@define
class _Kept:
    """A draft, until when it holds, and what it rested on beside what it shows itself."""

    draft: Draft
    until: float
    ground: Ground
    rests: tuple[Any, ...]


KEPT: dict[Key, _Kept] = {}


def settled(
    entry: Joined,
    host: HostHistory | None,
    history: History,
    scene: Scene,
    ground: Ground | None,
) -> Draft | None:
    """Return what a key came to in the pass before, None where anything is new since.

    What was folded in once moves nothing when it is folded in again, so that the history a draft
    came to leads to the same draft.
    """
    kept = KEPT.get(entry.key)
    if kept is None or kept.ground is not ground or scene.now >= kept.until:
        return None
    draft = kept.draft
    row = draft.row
    same = (
        draft.entry is entry
        and draft.known is history.keys.get(entry.key)
        and draft.row_known is (history.rows.get(row.id) if row else None)
        and draft.host_known is host
    )
    if not same:
        return None
    return draft if all(map(is_, kept.rests, _rests(draft, scene))) else None


def _rests(draft: Draft, scene: Scene) -> tuple[Any, ...]:
    """Return what a plain draft rests on: all that is read of the scene for this key alone."""
    probes, main, deployment = scene.probes, draft.targets.main, draft.entry.deployment
    assert main is not None
    assert deployment is not None
    one = deployment.litellm_id
    write = scene.writes.get(one)
    return (
        probes.reports.get(main),
        probes.canaries.get(main),
        probes.open_paths.get(main),
        scene.protocol.hosts.get(deployment.host),
        scene.health.body.opinions.get(one) if scene.health else None,
        write,
        # When the rows were read matters to nothing but writes and what was counted of them.
        None if write is None and draft.row_known is None else scene.deployments,
    )


def keep(draft: Draft, scene: Scene, ground: Ground | None) -> None:
    """Keep a draft of the plainest kind for the passes that begin with what it came to."""
    if ground is None or not _plain(draft, scene):
        return
    if len(KEPT) >= MOST:
        KEPT.clear()
    KEPT[draft.entry.key] = _Kept(draft, _until(draft, scene), ground, _rests(draft, scene))


def _plain(draft: Draft, scene: Scene) -> bool:
    """Tell whether it is intended, with one target and at most its own row, and nothing to do."""
    entry, targets, deployment = draft.entry, draft.targets, draft.entry.deployment
    if deployment is None or targets.main is None or targets.previous is not None:
        return False
    fetches = scene.protocol.hosts.get(deployment.host)
    return (
        entry.kind is Kind.INTENDED
        and draft.action is None
        and targets.rows in ((), (targets.main,))
        and all(row.id == deployment.litellm_id for row in entry.rows)
        and not draft.known.removals
        and not (fetches and fetches.restarting)
    )


def _until(draft: Draft, scene: Scene) -> float:
    """Return when something that a draft rests on next grows old."""
    # What is a rounding away from its age may have been judged either way.
    ahead = (at - _EARLY_S for at in _ages(draft, scene) if at + _EARLY_S > scene.now)
    return min(ahead, default=math.inf)


def _ages(draft: Draft, scene: Scene) -> Iterator[float]:
    known = draft.known
    for seen in known.seen.values():
        yield seen.probed_at + scene.stale_s + seen.took_s
    if draft.opinion is not None:
        yield draft.opinion.checked_at + OPINION_MAX_AGE_S
    if (since := handed_out(known)) is not None:
        yield since + scene.fleet.health_grace_s
