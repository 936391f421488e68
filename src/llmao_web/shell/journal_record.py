"""One pass as a record of the journal, and back.

Rule of this file: a keyframe holds everything, history included; any other record holds what
changed since the record before. What was decided stands beside what it was decided on.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve, field, frozen

from llmao_core.history import History
from llmao_core.keys import Key
from llmao_core.plan import Plan, Policy
from llmao_core.records import Lifecycle, Record, View
from llmao_core.snapshots import Snapshots

from .journal_codec import Codec, Decision, JournalError, dumps
from .journal_mask import Mask
from .journal_parts import Members, Parts, apart, applied, difference, together


@frozen
class Pass:
    """One pass: what went into reconcile and what came out of it."""

    at: float
    snapshots: Snapshots
    policy: Policy
    before: History
    view: View
    plan: Plan
    after: History


@frozen
class Life:
    """What a record of the view came to: lifecycle and the name of its rule."""

    lifecycle: str
    rule: str


@frozen
class Decided:
    """What a plan came to. digest: of all of it, sentences included."""

    digest: str = ""
    decisions: tuple[Decision, ...] = ()
    asks: tuple[str, ...] = ()


@frozen
class Recorded:
    """One pass as the journal tells it. history: what went in, told by keyframes only."""

    at: float
    snapshots: Snapshots
    policy: Policy
    history: History | None
    decided: Decided
    lives: Mapping[Key, Life]


_LIVES = Members(Key, Life)


# ---- writing


@frozen
class _State:
    """What the record before held."""

    parts: Parts = field(factory=dict)
    policy: Policy | None = None
    after: History | None = None
    plan: Plan | None = None
    records: tuple[Record, ...] = ()
    lives: Mapping[Key, Life] = field(factory=dict)


class Recorder:
    """Makes the records of one process, in the order of its passes."""

    def __init__(self) -> None:
        self._mask = Mask()
        self._codec = Codec(self._mask)
        self._state: _State | None = None

    def forget(self) -> None:
        """Begin again with a keyframe: the last record was not kept."""
        self._state = None

    def record(self, one: Pass, *, keyframe: bool) -> tuple[bytes, bool]:
        """Return the JSON of a pass, and whether it became a keyframe."""
        news = self._mask.learn(one.snapshots, one.view)
        state = self._state
        self._state = None  # should this fail, the next is a keyframe
        if keyframe or news or state is None or state.after is not one.before:
            state, keyframe = _State(), True
        codec, parts = self._codec, apart(one.snapshots)
        now = state.lives
        if one.view.records is not state.records:
            now = lives(now, [(each.key, each.lifecycle, each.rule) for each in one.view.records])
        told: dict[str, Any] = difference(state.parts, parts, codec)
        if one.policy != state.policy:
            told["policy"] = codec.out(one.policy, Policy)
        if keyframe:
            told["history"] = codec.out(one.before, History)
        if one.plan != state.plan:
            told["decided"] = codec.out(decided(one.plan, codec), Decided)
        if now is not state.lives:
            told["lives"] = _LIVES.change(state.lives, now, codec)
        self._state = _State(parts, one.policy, one.after, one.plan, one.view.records, now)
        return self._mask.scrubbed(_text(told)).encode(), keyframe


def lives(
    before: Mapping[Key, Life], told: Sequence[tuple[Key, Lifecycle, str]]
) -> Mapping[Key, Life]:
    """Return what each key came to; the same object when that is what it was.

    told: of each key its lifecycle and the rule that told it.
    """
    fresh = {
        key: Life(lifecycle.value, rule)
        for key, lifecycle, rule in told
        if (known := before.get(key)) is None
        or known.rule != rule
        or known.lifecycle != lifecycle.value
    }
    if not fresh and len(before) == len(told):
        return before
    return {key: fresh.get(key) or before[key] for key, _, _ in told}


def _text(told: Mapping[str, Any]) -> str:
    """Return JSON, made in pieces: one piece keeps all other threads waiting."""
    return "{" + ",".join(f"{dumps(name)}:{_piece(value)}" for name, value in told.items()) + "}"


def _piece(value: Any) -> str:
    if isinstance(value, dict):
        return _text(value)
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(dumps, value)) + "]"
    return dumps(value)


def decided(plan: Plan, codec: Codec) -> Decided:
    """Return what a plan came to."""
    return Decided(codec.digest(plan), codec.decisions(plan), plan.asks)


# ---- reading


class Reader:
    """Puts the passes of a stream of records together again."""

    def __init__(self) -> None:
        self._codec = Codec()
        self._parts: Parts = {}
        self._last: Recorded | None = None

    def read(self, at: float, content: bytes, *, keyframe: bool) -> Recorded:
        """Return a pass; JournalError when the record holds none, and then until a keyframe."""
        last, self._last = None if keyframe else self._last, None
        try:
            read = self._read(at, _object(content), last, keyframe=keyframe)
        except RecursionError:
            raise JournalError("a record is nested too deep") from None
        self._last = read
        return read

    def _read(
        self, at: float, told: Mapping[str, Any], last: Recorded | None, *, keyframe: bool
    ) -> Recorded:
        if last is None and not keyframe:
            raise JournalError("a record has no keyframe before it")
        self._parts = applied({} if keyframe else self._parts, told, self._codec)
        read = Recorded(
            at,
            together(self._parts),
            self._told(told, "policy", Policy, last and last.policy),
            self._told(told, "history", History, None) if keyframe else None,
            self._told(told, "decided", Decided, last and last.decided),
            last.lives if last else {},
        )
        if "lives" in told:
            read = evolve(read, lives=_LIVES.changed(read.lives, told["lives"], self._codec))
        return read

    def _told(self, told: Mapping[str, Any], name: str, kind: Any, otherwise: Any) -> Any:
        if name in told:
            return self._codec.back(told[name], kind)
        if otherwise is None:
            raise JournalError(f"a keyframe says nothing of {name}")
        return otherwise


def _object(content: bytes) -> dict[str, Any]:
    try:
        told = json.loads(content)
    except ValueError:
        raise JournalError("a record is no JSON") from None
    if not isinstance(told, dict):
        raise JournalError("a record is no object")
    return told
