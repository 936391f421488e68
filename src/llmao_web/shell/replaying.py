"""What was decided, decided again: reconcile run over a journal.

Rule of this file: every stretch from keyframe to keyframe stands alone, beginning with the history
recorded there, so that it does not matter from where on one reads. Nothing is written.
"""

import math
from collections.abc import Iterable, Iterator
from pathlib import Path

from attrs import frozen

from llmao_core.history import History
from llmao_core.keys import Key
from llmao_core.plan import Plan
from llmao_core.reconcile import reconcile
from llmao_core.records import View

from .journal_codec import Codec, Decision, JournalError
from .journal_file import Damage, keyframes
from .journal_reader import file_passes, journal_files, passes
from .journal_record import Decided, Life, Recorded, decided, lives_of
from .loop import Reconcile, uncollected


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
    codec, history = Codec(), History()
    for one in told:
        if isinstance(one, Damage):
            yield one
            continue
        history = one.history or history
        try:
            view, plan, history = uncollected(reconcile, one.snapshots, history, one.policy, one.at)
        except Exception as error:
            raise JournalError(
                f"This llmao cannot work out a pass of the journal ({type(error).__name__})."
            ) from error
        yield Replayed(one, view, plan, history, decided(plan, codec))


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


def compare(stretch: Stretch, reconcile: Reconcile = reconcile) -> Compared:
    """Replay a stretch and return what is decided otherwise than was recorded."""
    passes = worded = 0
    damages, found = [], []
    for one in replay(file_passes(stretch.path, stretch.start, stretch.end), reconcile):
        if isinstance(one, Damage):
            damages.append(one)
            continue
        passes += 1
        if different := tuple(differences(one)):
            found.append(different)
        elif not one.identical:
            worded += 1
    return Compared(passes, worded, tuple(found), tuple(damages))


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


def differences(one: Replayed) -> Iterator[Difference]:
    """Yield every key whose action or lifecycle is not the recorded one."""
    at = one.recorded.at
    was = {each.key: each for each in one.recorded.decided.decisions}
    now = {each.key: each for each in one.decided.decisions}
    for key in sorted(was.keys() | now.keys()):
        if was.get(key) != now.get(key):
            yield Difference(at, key, was.get(key), now.get(key))
    lived, lives = one.recorded.lives, lives_of(one.view.records)
    for key in sorted(lived.keys() | lives.keys()):
        if lived.get(key) != lives.get(key):
            yield Difference(at, key, lived.get(key), lives.get(key))
