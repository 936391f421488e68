"""From a rule that wants to act to an action: the order, the reason and the evidence.

Rule of this file: whoever carries an order out looks nothing up, so everything is in it.
"""

import hashlib
from typing import Any

from attrs import define

from .actions import ActionKind, Order, RowBody
from .classify import Aim, api_base, copy_of
from .drift import Difference
from .facts import AtRow, PlanFacts
from .fold import Watch
from .history import HostHistory, KeyHistory, RowHistory, Seen
from .intended import Body, Deployment
from .join import Joined
from .plan import Action, Hold
from .records import Lifecycle
from .rules import ActionRule, LifeRule
from .snapshots import Opinion, Row

EXECUTOR = "litellm"


@define
class Draft:
    """One key on its way through a pass: what is known, what was decided by which rules.

    row_seen: what probes have shown at the row's own address. opinion: LiteLLM's own of the row.
    """

    entry: Joined
    known: KeyHistory
    targets: Watch
    aim: Aim | None
    life: Lifecycle
    facts: PlanFacts
    rule: ActionRule
    difference: Difference
    life_rule: LifeRule
    row_known: RowHistory | None = None
    host_known: HostHistory | None = None
    row_seen: Seen | None = None
    opinion: Opinion | None = None
    action: Action | None = None

    @property
    def row(self) -> Row | None:
        return self.entry.rows[0] if self.entry.rows else None

    @property
    def at_row(self) -> AtRow:
        return self.facts.at_row

    @property
    def reached(self) -> bool:
        """Tell whether LiteLLM has reached it since llmao could not: callers are served."""
        action = self.action
        if action is None or action.hold is not Hold.LITELLM_REACHES or action.released_by:
            return False
        # A server that answers and refuses is reached by both.
        return self.at_row is AtRow.FAILED


def draft_action(draft: Draft) -> Action:
    """Return the action a rule wants, not yet held by anything."""
    kind, entry = draft.rule.action, draft.entry
    assert kind is not None
    row = _victim(draft) if kind is ActionKind.DELETE_DUPLICATE else draft.row
    deployment = draft.aim.deployment if draft.aim else entry.deployment
    target = row.id if row else deployment.litellm_id if deployment else ""
    body = None
    if kind.writes and deployment is not None:
        body = row_body(deployment, deployment.body, draft.known.dialable, target)
    return Action(
        order=Order(kind, EXECUTOR, entry.key, target, body),
        rule=draft.rule.name,
        reason=draft.rule.because.format_map(_words(draft)),
        evidence=_evidence(draft, row),
        digest=_digest(draft, target),
    )


def row_body(deployment: Deployment, body: Body, url: str, litellm_id: str) -> RowBody:
    """Return the whole row to write at an address; an adopted row keeps its id."""
    root = deployment.key.base if deployment.provider else url
    info: dict[str, Any] = {**body.model_info, "id": litellm_id, "asf_api_base": root}
    return RowBody(
        model_name=body.model_name,
        api_base=api_base(deployment, url),
        litellm_params=body.litellm_params,
        model_info=info,
        api_key=body.api_key,
    )


def _victim(draft: Draft) -> Row:
    """Return the row that goes: the derived id stays, else the dialable base, else the first id.

    Where only one row is ours, the copy beside it goes.
    """
    if (copy := copy_of(draft.entry)) is not None and len(draft.entry.rows) == 1:
        return copy
    rows = sorted(draft.entry.rows, key=lambda row: row.id)
    deployment = draft.entry.deployment
    derived = deployment.litellm_id if deployment else ""
    kept = next(
        (row for row in rows if row.id == derived),
        next((row for row in rows if row.base == draft.known.dialable), rows[0]),
    )
    return next(row for row in rows if row is not kept)


def _words(draft: Draft) -> dict[str, str]:
    entry, deployment = draft.entry, draft.entry.deployment
    seen = draft.row_seen
    return {
        "key": str(entry.key),
        "model": entry.key.model,
        "host": deployment.host if deployment else "",
        "port": str(deployment.listen_port) if deployment else "",
        "life": draft.life.value,
        "detail": seen.detail if seen else "",
        "drift": ", ".join(draft.difference.fields),
        "row": draft.row.id if draft.row else "",
    }


def _evidence(draft: Draft, row: Row | None) -> tuple[str, ...]:
    lines = [f"{name}: {_shown(value)}" for name, value in draft.facts._asdict().items()]
    if seen := draft.row_seen:
        lines.append(f"at the row's address: {seen.kind.value}, {seen.fails} failures in a row")
    if draft.aim and draft.aim.seen and draft.aim.seen is not draft.row_seen:
        lines.append(f"at the dialable URL: {draft.aim.seen.kind.value}")
    if row is not None:
        lines.append(f"LiteLLM id: {row.id}")
    return tuple(lines)


def _shown(fact: Any) -> str:
    return str(fact.value)


def _digest(draft: Draft, target: str) -> str:
    parts = (
        draft.rule.name,
        str(draft.entry.key),
        target,
        draft.known.instance_id,
        *(_shown(fact) for fact in draft.facts),
    )
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
