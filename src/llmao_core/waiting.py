"""Attention items about actions: those that wait and why, and writes that fail.

Rule of this file: what waits for one reason is one item, however many servers it concerns.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from attrs import evolve

from .actions import ActionKind, OutcomeKind, Write
from .draft import Draft
from .plan import Action, Hold
from .records import AttentionItem, ItemKind
from .restrain import failing_since
from .scene import Scene

UNANSWERED_S = 120.0
SHOWN = 20
FEW = 3


def item(kind: ItemKind, sentence: str, subject: str = "", **more: Any) -> AttentionItem:
    """Return an item whose id is its kind and subject."""
    made = AttentionItem(f"{kind.value}:{subject}" if subject else kind.value, kind, sentence)
    return evolve(made, **more)


def held(drafts: Sequence[Draft], scene: Scene) -> Iterator[AttentionItem]:
    """Yield one item for each reason why removals wait, and one per key that LiteLLM spoils."""
    by_hold: dict[Hold, list[Draft]] = {}
    for draft in drafts:
        if draft.action is not None and not draft.action.released_by:
            by_hold.setdefault(draft.action.hold, []).append(draft)
    # A server that answers and refuses is reached; its item is the pending bearer.
    if reached := [one for one in by_hold.get(Hold.LITELLM_REACHES, ()) if one.reached]:
        yield item(
            ItemKind.CANNOT_REACH,
            f"llmao cannot reach {counted(len(reached), 'server')} that LiteLLM reaches: callers "
            "are served, and the routes stay.",
            remedy=f"Check the network from llmao to {_where(reached)}, a firewall first: until it "
            "reaches them again, only LiteLLM knows how they are.",
            evidence=_names(reached),
        )
    waiting = [one for one in by_hold.get(Hold.WITNESS, ()) if _unanswered(one, scene)]
    if waiting:
        yield item(
            ItemKind.WITNESS_MISSING,
            f"Nothing else can say whether {counted(len(waiting), 'server')} failed or llmao lost "
            "its own network: the routes stay, and callers of a dead one get errors.",
            remedy="See in the providers' consoles whether they run. If they do not, release them; "
            "if they do, mend llmao's network.",
            evidence=_names(waiting),
            button="run",
        )
    if braked := by_hold.get(Hold.BRAKE):
        yield item(
            ItemKind.BRAKE_ON,
            f"The brake holds {counted(len(braked), 'removal')}: too large a part of the fleet at "
            "once. Routes stay; callers of a server that is gone get errors.",
            remedy="Read in the evidence what is to go, and find out what happened to it. Release "
            "the brake if it is meant.",
            evidence=_names(braked),
            button="release",
        )
    for draft in by_hold.get(Hold.NOT_KEPT, ()):
        yield _not_kept(draft)


def _where(drafts: Iterable[Draft]) -> str:
    """Return the hosts of some servers, as many as a sentence can hold."""
    hosts = dict.fromkeys(one.entry.deployment.host for one in drafts if one.entry.deployment)
    return ", ".join(hosts) if len(hosts) <= FEW else "the boxes of these servers"


def _unanswered(draft: Draft, scene: Scene) -> bool:
    """Tell whether a second opinion is overdue; one that cannot be asked for is, too.

    Counted from the first failure: it is asked for again each minute, and each time anew.
    """
    since = failing_since(draft.row_seen, scene)
    return since is not None and scene.now - since > UNANSWERED_S


def _not_kept(draft: Draft) -> AttentionItem:
    fields = ", ".join(draft.difference.fields)
    if draft.row is not None and not draft.row.live:
        return item(
            ItemKind.NOT_LIVE,
            f"LiteLLM saved {draft.entry.key} and does not serve it: callers do not get it.",
            str(draft.entry.key),
            key=draft.entry.key,
            remedy=f"Look in LiteLLM's log for why it cannot load {draft.entry.key.model}, often "
            "`litellm_params` of the model in `models.yaml`.",
        )
    return item(
        ItemKind.NOT_KEPT,
        f"LiteLLM does not keep {fields} of {draft.entry.key}: it was written twice and read "
        "back different. Callers get it as LiteLLM has it; llmao has stopped trying.",
        str(draft.entry.key),
        key=draft.entry.key,
        remedy=f"Correct {fields} of {draft.entry.key.model} in `models.yaml`, or find out what "
        "changes it in LiteLLM.",
    )


def needing_people(drafts: Iterable[Draft]) -> Iterator[AttentionItem]:
    """Yield an item for each action that waits for a button; what needs one anyway has its own."""
    for draft in drafts:
        action = draft.action
        if action is None or draft.rule.by_person or action.released_by:
            continue
        if action.policy == "needs_human" and action.hold is Hold.NOT_HELD:
            yield item(
                ItemKind.NEEDS_HUMAN,
                f"{_verb(action)} waits for you, as the policy says: {action.reason}",
                f"{action.kind.value}:{action.key}",
                key=action.key,
                evidence=action.evidence,
                button="run",
                action=action.kind,
                remedy=_GAINS.get(action.kind, "Press the button if you agree, or leave it."),
            )


_GAINS = {
    ActionKind.ADD_LITELLM: "Press the button: callers get it from then on.",
    ActionKind.DELETE_LITELLM: "Press the button if you agree: callers are then sent elsewhere.",
}
VERBS = {
    ActionKind.ADD_LITELLM: "Adding",
    ActionKind.UPDATE_LITELLM: "Updating",
    ActionKind.REPLACE_LITELLM: "Replacing",
    ActionKind.DELETE_LITELLM: "Removing",
    ActionKind.DELETE_DUPLICATE: "Removing a duplicate of",
    ActionKind.PRUNE_ORPHAN: "Pruning",
    ActionKind.REBOOT_BOX: "Rebooting",
}


def _verb(action: Action) -> str:
    return f"{VERBS[action.kind]} {action.key}"


def counted(number: int, noun: str) -> str:
    """Return a number and its noun, in the plural where it is one."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _names(drafts: Sequence[Draft]) -> tuple[str, ...]:
    names = [f"{one.entry.key}: {one.action.reason if one.action else ''}" for one in drafts]
    rest = len(names) - SHOWN
    return (*names[:SHOWN], f"and {rest} more") if rest > 0 else tuple(names)


def failing_writes(scene: Scene) -> Iterator[AttentionItem]:
    """Yield an item for each write that failed."""
    failing = [one for one in scene.writes.values() if one.failures and one.outcome]
    for write in sorted(failing, key=lambda one: str(one.key)):
        yield item(
            ItemKind.WRITE_FAILED,
            f"{write_trouble(write, scene.now)} {_MEANS.get(write.kind, _STAYS)}",
            str(write.key),
            key=write.key,
            remedy=_BY_HAND if write.kind is ActionKind.REBOOT_BOX else _OF_LITELLM,
        )


_STAYS = "Until then callers get it as it was."
_MEANS = {
    ActionKind.ADD_LITELLM: "Until then callers do not get it.",
    ActionKind.DELETE_LITELLM: "Until then LiteLLM sends callers there.",
    ActionKind.REBOOT_BOX: "The box is as it was.",
}
_OF_LITELLM = (
    "Wait for the next try. If the count grows, look in LiteLLM's log for what it refused."
)
_BY_HAND = "Reboot it in the provider's console, or press Reboot again."


def _did_not(write: Write) -> bool:
    return write.outcome is not None and write.outcome.kind is OutcomeKind.FAILED


def write_trouble(write: Write, now: float) -> str:
    """Return what is wrong with a write, as one sentence for pages and log."""
    times = "once" if write.failures == 1 else f"{write.failures} times"
    said = write.outcome.said if write.outcome else "no answer"
    wait = ""
    again = write.kind is not ActionKind.REBOOT_BOX or _did_not(write)
    if again and write.next_try is not None and write.next_try > now:
        wait = f"; next try in {write.next_try - now:.0f} s"
    return f"{VERBS[write.kind]} {write.key} failed {times}: {said}{wait}."
