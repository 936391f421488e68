"""What was decided, decided again: reconcile run over a journal.

Rule of this file: every stretch from keyframe to keyframe stands alone, beginning with the history
recorded there, so that it does not matter from where on one reads. Nothing is written.
"""

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import TypeVar

from attrs import frozen

from llmao_core.history import History
from llmao_core.keys import Key
from llmao_core.plan import Plan, Policy
from llmao_core.reconcile import Judged, judge, reconcile
from llmao_core.records import View
from llmao_core.snapshots import Snapshots

from .journal_codec import Codec, Decision, JournalError
from .journal_file import Damage, keyframes
from .journal_reader import file_passes, journal_files, passes
from .journal_record import Decided, Life, Recorded, decided, lives
from .loop import Reconcile, uncollected

T = TypeVar("T")
Judge = Callable[[Snapshots, History, Policy, float], Judged]


@frozen
class Replayed:
    """One pass as it was recorded, and what this llmao makes of it."""

    recorded: Recorded
    view: View
    plan: Plan
    history: History
    decided: Decided

    @property
    def identical(self) -> bool:
        """Tell whether the plan is the recorded one, sentences included."""
        return self.decided.digest == self.recorded.decided.digest


@frozen
class Difference:
    """One key that is decided otherwise now. was, now: None when there is nothing."""

    at: float
    key: Key
    was: Decision | Life | None
    now: Decision | Life | None


@frozen
class Stretch:
    """A part of a file, by places as `keyframes` tells them."""

    path: Path
    start: int
    end: int | None


@frozen
class Compared:
    """What a stretch came to. worded: passes of which only sentences differ.

    differing: for each pass that is decided otherwise, what is.
    """

    passes: int
    worded: int
    differing: tuple[tuple[Difference, ...], ...]
    damages: tuple[Damage, ...]


def replay(
    told: Iterable[Recorded | Damage], reconcile: Reconcile = reconcile
) -> Iterator[Replayed | Damage]:
    """Yield every pass, decided again."""
    codec = Codec()
    for one in _again(told, reconcile, itemgetter(2)):
        if isinstance(one, Damage):
            yield one
            continue
        recorded, (view, plan, history) = one
        yield Replayed(recorded, view, plan, history, decided(plan, codec))


def _again(
    told: Iterable[Recorded | Damage],
    work: Callable[[Snapshots, History, Policy, float], T],
    after: Callable[[T], History],
) -> Iterator[tuple[Recorded, T] | Damage]:
    """Yield every pass and what some work makes of it. after: what it remembers then."""
    history = History()
    for one in told:
        if isinstance(one, Damage):
            yield one
            continue
        history = one.history or history
        try:
            made = uncollected(work, one.snapshots, history, one.policy, one.at)
        except Exception as error:
            raise JournalError(
                f"This llmao cannot work out a pass of the journal ({type(error).__name__})."
            ) from error
        history = after(made)
        yield one, made


def stretches(folder: Path) -> list[Stretch]:
    """Return a journal from keyframe to keyframe: each can be replayed without the others."""
    found = []
    for path in journal_files(folder):
        places = [place for _, place in keyframes(path)]
        # what stands before the first keyframe is damaged, and is said with the first stretch
        ends = [*places[1:], None]
        found += [
            Stretch(path, start, end) for start, end in zip([0, *places[1:]], ends, strict=False)
        ]
    return found


def compare(stretch: Stretch, judge: Judge = judge) -> Compared:
    """Replay a stretch and return what is decided otherwise than was recorded; no view is made."""
    return uncollected(_compare, stretch, judge)


def _compare(stretch: Stretch, judge: Judge) -> Compared:
    passes = worded = 0
    damages, found, codec = [], [], Codec()
    told = file_passes(stretch.path, stretch.start, stretch.end)
    for one in _again(told, judge, attrgetter("history")):
        if isinstance(one, Damage):
            damages.append(one)
            continue
        passes += 1
        recorded, judged = one
        now = decided(judged.plan, codec)
        if different := tuple(_differences(recorded, now, judged)):
            found.append(different)
        elif now.digest != recorded.decided.digest:
            worded += 1
    return Compared(passes, worded, tuple(found), tuple(damages))


def everywhere(folder: Path) -> Iterator[Compared]:
    """Compare a whole journal, stretch by stretch in order, by all processors."""
    parts = stretches(folder)
    if len(parts) < 2:
        yield from map(compare, parts)
        return
    with ProcessPoolExecutor(min(os.cpu_count() or 1, len(parts))) as pool:
        yield from pool.map(compare, parts)


def view_at(folder: Path, at: float | None) -> Replayed:
    """Return the last pass at or before a time, or of all; JournalError when there is none."""
    until, found = math.inf if at is None else at, None
    for one in replay(_until(passes(folder, until), until)):
        if isinstance(one, Replayed):
            found = one
    if found is None:
        raise JournalError("The journal holds no pass at or before that time.")
    return found


def _until(told: Iterable[Recorded | Damage], at: float) -> Iterator[Recorded | Damage]:
    for one in told:
        if isinstance(one, Recorded) and one.at > at:
            return
        yield one


def _differences(recorded: Recorded, decided: Decided, judged: Judged) -> Iterator[Difference]:
    """Yield every key whose action or lifecycle is not the recorded one."""
    was = {each.key: each for each in recorded.decided.decisions}
    now = {each.key: each for each in decided.decisions}
    for key in _otherwise(was, now):
        yield Difference(recorded.at, key, was.get(key), now.get(key))
    told = [(one.entry.key, one.life, one.life_rule.name) for one in judged.drafts]
    came_to = lives(recorded.lives, told)
    for key in _otherwise(recorded.lives, came_to):
        yield Difference(recorded.at, key, recorded.lives.get(key), came_to.get(key))


def _otherwise(was: Mapping[Key, object], now: Mapping[Key, object]) -> list[Key]:
    """Return the keys of which two passes tell different things, in order."""
    # Nearly always there is none, and that is told at the speed of C.
    if was is now or was == now:
        return []
    return sorted(key for key in was.keys() | now.keys() if was.get(key) != now.get(key))
