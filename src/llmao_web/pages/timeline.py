"""What happened to one deployment, newest first: changes of its lifecycle, and what was done.

Rule of this file: it words what the store kept, and concludes nothing from it.
"""

from collections.abc import Iterable

from attrs import frozen

from llmao_core.actions import action_words
from llmao_core.records import Lifecycle
from llmao_web.shell.ledger import EntryKind, Numbered
from llmao_web.shell.store import Transition

from .names import element, tone
from .said import GOOD, evidence_of, said

SHOWN = 100
_LIVES = {life.value: life for life in Lifecycle}


@frozen
class Moment:
    """One thing that happened. by: who did it, "" for a change of lifecycle."""

    id: str
    at: float
    what: str
    tone: str
    by: str = ""
    why: str = ""
    evidence: tuple[str, ...] = ()


def timeline(transitions: Iterable[Transition], entries: Iterable[Numbered]) -> tuple[Moment, ...]:
    """Return both as one list, newest first."""
    moments = [*map(_moved, transitions), *map(_done, entries)]
    newest_first = sorted(moments, key=lambda each: each.at, reverse=True)
    return tuple({each.id: each for each in newest_first}.values())[:SHOWN]


def _moved(one: Transition) -> Moment:
    what = f"{one.before or 'new'} → {one.after or 'gone'}"
    return Moment(element("t", f"{one.at!r} {what}"), one.at, what, tone(_LIVES.get(one.after)))


def _done(numbered: Numbered) -> Moment:
    entry, detail = numbered.entry, numbered.entry.detail
    if entry.kind is not EntryKind.ACTION:
        words, kind = said(entry), entry.kind.value
        words += f" {entry.host}" if words == kind and entry.host else ""
        return Moment(f"e-{numbered.number}", entry.at, words, "plain", entry.actor)
    outcome = str(detail.get("outcome", ""))
    rule, reason, told = (str(detail.get(name, "")) for name in ("rule", "reason", "said"))
    why = " ".join(part for part in (reason, f"LiteLLM: {told}" if told else "") if part)
    return Moment(
        f"e-{numbered.number}",
        entry.at,
        f"{action_words(str(detail.get('action', 'action')))}: {outcome}",
        "good" if outcome in GOOD else "bad",
        entry.actor,
        why,
        (*((f"rule: {rule}",) if rule else ()), *evidence_of(entry)),
    )
