"""A replay told as a story: what changed from pass to pass, as events.

Rule of this file: it tells what reconcile concluded, in reconcile's own words; an event is plain
JSON, and what is printed for people is made from it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from llmao_core.actions import action_words
from llmao_core.keys import Key

from .looking import SIGNS, action_json, held
from .moments import shown
from .printing import clean

if TYPE_CHECKING:
    from llmao_core.actions import Write
    from llmao_core.plan import Action
    from llmao_core.records import Record
    from llmao_web.shell.journal_codec import Decision
    from llmao_web.shell.journal_record import Life
    from llmao_web.shell.replaying import Difference, Replayed

Event = dict[str, Any]


def everybody(_: Key) -> bool:
    """Choose every key."""
    return True


class Story:
    """Tells the passes of a replay in turn. chosen: which keys it is about."""

    def __init__(self, chosen: Callable[[Key], bool] = everybody) -> None:
        self._chosen = chosen
        self._lives: Mapping[Key, tuple[str, str]] = {}
        self._planned: Mapping[Key, tuple[Any, ...]] = {}
        self._writes: Mapping[str, Write] = {}
        self._intended: object = None

    def tell(self, one: "Replayed") -> Iterator[Event]:
        """Yield what is new in a pass."""
        at, snapshots = one.recorded.at, one.recorded.snapshots
        if snapshots.intended is not self._intended:
            self._intended = snapshots.intended
            yield {"at": at, "event": "configuration"}
        yield from self._written(at, snapshots.writes)
        yield from self._lived(at, [each for each in one.view.records if self._chosen(each.key)])
        yield from self._plans(at, [each for each in one.plan.actions if self._chosen(each.key)])

    def _written(self, at: float, writes: "Mapping[str, Write]") -> Iterator[Event]:
        before, self._writes = self._writes, writes
        if writes is before:
            return
        for target, write in writes.items():
            if write.outcome is None or before.get(target) == write or not self._chosen(write.key):
                continue
            yield {
                "at": at,
                "event": "written",
                "key": _key(write.key),
                "kind": write.kind.value,
                "litellm_id": target,
                "outcome": write.outcome.kind.value,
                "said": write.outcome.said,
            }

    def _lived(self, at: float, records: "list[Record]") -> Iterator[Event]:
        before = self._lives
        self._lives = {one.key: (one.lifecycle.value, one.rule) for one in records}
        for one in records:
            if self._lives[one.key] == before.get(one.key):
                continue
            yield {
                "at": at,
                "event": "lifecycle",
                "key": _key(one.key),
                "was": before[one.key][0] if one.key in before else None,
                "now": one.lifecycle.value,
                "rule": one.rule,
                "because": one.because,
            }
        for key in before.keys() - self._lives.keys():
            yield {"at": at, "event": "gone", "key": _key(key), "was": before[key][0]}

    def _plans(self, at: float, actions: "list[Action]") -> Iterator[Event]:
        before = self._planned
        self._planned = {one.key: (one.kind, one.rule, held(one)) for one in actions}
        for one in actions:
            if self._planned[one.key] != before.get(one.key):
                yield {"at": at, "event": "planned", **action_json(one)}
        for key in before.keys() - self._planned.keys():
            kind, rule, _ = before[key]
            yield {
                "at": at,
                "event": "no longer planned",
                "key": _key(key),
                "kind": kind.value,
                "rule": rule,
            }


def _key(key: Key) -> dict[str, str]:
    return {"shown": key.shown, "model": key.model}


def otherwise(one: "Difference") -> Event:
    """Return the event of a key that is decided otherwise now."""
    return {
        "at": one.at,
        "event": "decided otherwise",
        "key": _key(one.key),
        "was": _decided(one.was),
        "now": _decided(one.now),
    }


def _decided(one: "Decision | Life | None") -> Event | None:
    if one is None:
        return None
    if lifecycle := getattr(one, "lifecycle", None):
        return {"lifecycle": lifecycle, "rule": one.rule}
    from llmao_web.shell.journal_codec import Decision

    assert isinstance(one, Decision)
    return {
        "kind": one.kind.value,
        "litellm_id": one.target,
        "rule": one.rule,
        "policy": one.policy,
        "held": one.hold.value,
        "body": one.body,
    }


# ---- for people


def line(event: Event) -> str:
    """Return an event as one line."""
    key = event.get("key")
    name = f"{key['shown']} {key['model']}" if key else ""
    told = clean(" ".join(each for each in (name, _WORDS[event["event"]](event)) if each))
    return f"{shown(event['at'])}  {told}"


def _lifecycle(event: Event) -> str:
    was, now = event["was"] or "new", event["now"]
    change = now if was == now else f"{was} → {now}"
    return f"{change}  {event['rule']}: {event['because']}"


def _planned(event: Event) -> str:
    waits = f" (not now: {event['held']})" if event["held"] else ""
    words = f"{_SIGNS[event['kind']]} {action_words(event['kind'])}"
    return f"{words}{waits}  {event['rule']}: {event['reason']}"


def _written(event: Event) -> str:
    return f"{action_words(event['kind'])}: {event['outcome']} {event['said']}".rstrip()


def _no_longer(event: Event) -> str:
    return f"no longer planned: {action_words(event['kind'])}, by {event['rule']}"


def _otherwise(event: Event) -> str:
    return f"was {_short(event['was'])}, now {_short(event['now'])}"


def _short(told: Event | None) -> str:
    if told is None:
        return "nothing"
    if "lifecycle" in told:
        return f"{told['lifecycle']} by {told['rule']}"
    waits = f", {told['held']}" if told["held"] else ""
    return (
        f"{action_words(told['kind'])}, by {told['rule']}{waits} "
        f"({told['policy']}, {told['body'] or 'no body'})"
    )


_SIGNS = {kind.value: sign for kind, sign in SIGNS.items()}
_WORDS: Mapping[str, Callable[[Event], str]] = {
    "configuration": lambda _: "another configuration, or other approvals or labels",
    "written": _written,
    "lifecycle": _lifecycle,
    "gone": lambda event: f"{event['was']} → gone",
    "planned": _planned,
    "no longer planned": _no_longer,
    "decided otherwise": _otherwise,
}
