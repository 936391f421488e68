"""An entry of the ledger in words.

Rule of this file: what an entry holds may be years old or of another version: a word that is
missing is left out, and nothing here fails.
"""

from collections.abc import Callable, Mapping
from typing import Any

from llmao_core.actions import OutcomeKind, action_words
from llmao_web.shell.ledger import CALLED_OFF, Entry, EntryKind

GOOD = (OutcomeKind.DONE.value, OutcomeKind.ALREADY.value)
_MOST_CHARS = 400


def said(entry: Entry) -> str:
    """Return what was decided or done, one sentence; who and when stand beside it."""
    words = _WORDS.get(entry.kind)
    text = words(entry) if words else entry.kind.value
    return text if len(text) <= _MOST_CHARS else text[: _MOST_CHARS - 1] + "…"


def about(entry: Entry) -> str:
    """Return whom an entry concerns, "" for nobody."""
    return str(entry.key) if entry.key is not None else entry.host


def evidence_of(entry: Entry) -> tuple[str, ...]:
    """Return what an action rested on, in lines."""
    given = entry.detail.get("evidence")
    return tuple(map(str, given)) if isinstance(given, list | tuple) else ()


def _text(entry: Entry, name: str) -> str:
    value = entry.detail.get(name)
    return value if isinstance(value, str) else "" if value is None else str(value)


def _action(entry: Entry) -> str:
    told, reason = _text(entry, "said"), _text(entry, "reason")
    return " ".join(_sentence(part) for part in (deed(entry), told, reason) if part)


def deed(entry: Entry) -> str:
    """Return what llmao did and how it ended, of an entry of an action."""
    return f"{action_words(_text(entry, 'action'))}: {_text(entry, 'outcome')}"


def grounds_of(entry: Entry) -> tuple[str, ...]:
    """Return why an action was done, and what was answered, in lines."""
    rule = _text(entry, "rule")
    named = f"rule: {rule}" if rule else ""
    return tuple(each for each in (_text(entry, "reason"), _text(entry, "said"), named) if each)


def _sentence(text: str) -> str:
    return text if text.endswith((".", "…")) else f"{text}."


def _approved(entry: Entry) -> str:
    rows = entry.detail.get("rows")
    given = [each for each in rows if isinstance(each, Mapping)] if isinstance(rows, list) else []
    served = ", ".join(f"{each.get('model')} at {each.get('port')}" for each in given)
    return f"approved: {served}" if served else "approved"


def _labelled(entry: Entry) -> str:
    label, note = _text(entry, "label"), _text(entry, "note")
    return f"labelled “{label}”{f': {note}' if note else ''}" if label or note else "unlabelled"


def _placed(entry: Entry) -> str:
    provider = _text(entry, "provider")
    return f"found it listed by {provider}" if provider else "found nothing that names it any more"


def _pressed(entry: Entry) -> str:
    what, reason = _text(entry, "what"), _text(entry, "reason")
    words = _NOT_ACTIONS.get(what) or action_words(what).replace("_", " ")
    return f"asked for: {words}. {reason}".strip()


def _reloaded(entry: Entry) -> str:
    given, dropped = entry.detail.get("said"), entry.detail.get("dropped")
    told = " ".join(map(str, given)) if isinstance(given, list) else ""
    hosts = f" {len(dropped)} hosts dropped." if isinstance(dropped, list) else ""
    return f"configuration {_text(entry, 'outcome')}.{hosts} {told}".strip()


def _config_checked(entry: Entry) -> str:
    given = entry.detail.get("said")
    told = " ".join(map(str, given)) if isinstance(given, list) else ""
    return f"{entry.kind.value}: {told or 'it is good'}"


def _signed_in(entry: Entry) -> str:
    how = _WAYS_IN.get(_text(entry, "mode"), "")
    return f"{entry.kind.value}: {how}" if how else entry.kind.value


def _what(entry: Entry) -> str:
    what = _text(entry, "sentence") or _text(entry, "what")
    return f"{entry.kind.value}: {what}" if what else entry.kind.value


_WORDS: Mapping[EntryKind, Callable[[Entry], str]] = {
    EntryKind.ACTION: _action,
    EntryKind.APPROVED: _approved,
    EntryKind.LABELLED: _labelled,
    EntryKind.PLACED: _placed,
    EntryKind.PRESSED: _pressed,
    EntryKind.BEGUN: _what,
    EntryKind.LAPSED: _what,
    EntryKind.CONFIG_CHECKED: _config_checked,
    EntryKind.RELOADED: _reloaded,
    EntryKind.OUTSIDE_EDIT: _what,
    EntryKind.REFUSED: _what,
    EntryKind.SIGNED_IN: _signed_in,
}
_NOT_ACTIONS = {CALLED_OFF: "call off the reboot", "release brake": "release the brake"}
_WAYS_IN = {"password": "with a password", "oidc": "at the OpenID provider"}


def tone_of(entry: Entry) -> str:
    """Return how an entry looks: good, fair, bad or plain."""
    outcome: Any = entry.detail.get("outcome") if entry.kind is EntryKind.ACTION else None
    if entry.kind is EntryKind.REFUSED:
        return "bad"
    if outcome is None:
        return "plain"
    return "good" if outcome in GOOD else "bad"
