"""Boxes that run an older revision than they would get now, and what moved since, in words.

Rule of this file: only the last few revisions that a box was told can be compared; where the
older one is not among them there are no words, and the badge says the rest. Whether a bearer is
another is known of what was told since start only.
"""

from collections.abc import Mapping

from .box_config import answer, difference
from .history import Behind
from .scene import Scene
from .snapshots import BoxFetches


def fold_behind(
    old: Mapping[str, Behind], revisions: Mapping[str, str], scene: Scene
) -> Mapping[str, Behind]:
    """Return the hosts that run another revision than the current one; worded once per change."""
    found: dict[str, Behind] = {}
    for host, fetches in scene.protocol.hosts.items():
        applied, current = fetches.applied, revisions.get(host, "")
        if not applied or not current or applied == current:
            continue
        known = old.get(host)
        if known is None or (known.applied, known.current) != (applied, current):
            known = Behind(applied, current, _words(host, fetches, scene))
        found[host] = known
    return old if found == old else found


def _words(host: str, fetches: BoxFetches, scene: Scene) -> tuple[str, ...]:
    before, now = fetches.assignments.get(fetches.applied), answer(scene.intended, host)
    return difference(before, now.assignment) if before is not None and now else ()
