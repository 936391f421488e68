"""The attention strip: what a person should do, with the buttons that do it.

Rule of this file: items come from the view and held actions from the plan; it adds addresses of
forms and nothing else. What no button can do stays a sentence.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from urllib.parse import urlencode

from attrs import field, frozen

from llmao_core.keys import Key
from llmao_core.plan import Action, Hold, Plan
from llmao_core.records import AttentionItem, ItemKind, Kind, Record, View
from llmao_core.verdicts import DOWN

from .names import capital, counted, element, page_of, page_of_box

RUN = "/do-run"
RELEASE = "/do-release"
# A hundred servers that fail at once must not hide what else is wrong.
ALIKE_SHOWN = 5
# As many as one form may release.
MOST_AT_ONCE = 50
BRAKE_RELEASED = "For ten minutes llmao removes from LiteLLM what the brake holds now."
REMOVED = (
    "LiteLLM sends no request there any more; a model that nothing else serves cannot be called.",
    "What is intended comes back by itself once its server proves itself; nothing else does.",
)
# In the order of ItemKind, everything up to here keeps callers from being served.
_HURTS = tuple(ItemKind)[: tuple(ItemKind).index(ItemKind.DOWN) + 1]


@frozen
class Button:
    """One thing to press: a form that is posted, or a link to a page with more to fill in.

    fields: what the form holds; several values of one name are a tuple. warning: what a press
    does, in sentences to be read before it counts; () for what does no harm.
    """

    label: str
    action: str = ""
    fields: Mapping[str, str | tuple[str, ...]] = field(factory=dict)
    tone: str = ""
    link: str = ""
    warning: tuple[str, ...] = ()


@frozen
class Work:
    """One attention item as it is shown. about: whom it concerns; page: where to read more.

    since: when the item came. down_since: when the first server of its model went down, None where
    the item is of no model, or came before.
    """

    id: str
    kind: str
    tone: str
    sentence: str
    remedy: str
    evidence: tuple[str, ...]
    since: float
    about: str = ""
    page: str = ""
    buttons: tuple[Button, ...] = ()
    down_since: float | None = None


def work_of(view: View, plan: Plan | None, fleet: str) -> tuple[Work, ...]:
    """Return the items of a view, what hurts callers first."""
    waiting = held_by_key(plan)
    keys = {record.key for record in view.records}
    hosts = {host.name for host in view.hosts}
    down = _down_since(view)
    return tuple(_work(item, waiting, _page(item, keys, hosts, fleet), down) for item in view.items)


def _down_since(view: View) -> Mapping[str, float]:
    """Return when the first server of each model that nobody can call went down, by item."""
    lost = {item.id for item in view.items if item.kind is ItemKind.MODEL_UNAVAILABLE}
    since: dict[str, float] = {}
    for record in view.records if lost else ():
        name = f"{ItemKind.MODEL_UNAVAILABLE.value}:{record.key.model}"
        if name in lost and record.lifecycle in DOWN and record.since and _meant(record):
            since[name] = min(since.get(name, record.since), record.since)
    return since


def _meant(record: Record) -> bool:
    return record.kind not in (Kind.FOREIGN, Kind.ORPHAN)


def _page(item: AttentionItem, keys: set[Key], hosts: set[str], fleet: str) -> str:
    """Return where more is told of whom an item concerns, "" for nowhere."""
    if item.key is not None:
        return page_of(fleet, item.key) if item.key in keys else ""
    return page_of_box(item.host) if item.host in hosts else ""


def told_apart(work: Iterable[Work]) -> tuple[list[Work], list[Work]]:
    """Return the items to show at once, and those of kinds that stand there often enough."""
    shown: list[Work] = []
    more: list[Work] = []
    seen: Counter[str] = Counter()
    for each in work:
        seen[each.kind] += 1
        (shown if seen[each.kind] <= ALIKE_SHOWN else more).append(each)
    return shown, more


def tally(work: Iterable[Work]) -> tuple[tuple[str, int], ...]:
    """Return how many items there are of each kind."""
    return tuple(Counter(each.kind for each in work).items())


def held_by_key(plan: Plan | None) -> dict[Key, Action]:
    """Return the actions that an admin may let run, by key."""
    return {each.key: each for each in plan.actions if releasable(each)} if plan else {}


def releasable(action: Action) -> bool:
    """Tell whether a press lets an action run: it waits for a person or for proof."""
    if action.runs or action.released_by or action.policy == "observe":
        return False
    return action.hold not in (Hold.BACKOFF, Hold.NOT_KEPT, Hold.PACED)


def run_button(action: Action) -> Button:
    """Return the button that lets one held action run; it repeats the evidence's digest."""
    label = capital(action.kind.words)
    if not action.kind.removes:
        return Button(label, RUN, {"digest": action.digest}, "primary")
    warning = (action.reason, *REMOVED)
    return Button(label, RUN, {"digest": action.digest}, "danger", warning=warning)


def release_button(label: str) -> Button:
    """Return the button that lets run what the brake holds."""
    return Button(label, RELEASE, tone="danger", warning=(BRAKE_RELEASED, *REMOVED))


def _work(
    item: AttentionItem, waiting: Mapping[Key, Action], page: str, down: Mapping[str, float]
) -> Work:
    return Work(
        id=element("i", item.id),
        kind=item.kind.value,
        tone="bad" if item.kind in _HURTS else "fair",
        sentence=item.sentence,
        remedy=item.remedy,
        evidence=item.evidence,
        since=item.since,
        about=str(item.key or item.host),
        page=page,
        buttons=tuple(_buttons(item, waiting)),
        down_since=at if (at := down.get(item.id, item.since)) < item.since else None,
    )


def _buttons(item: AttentionItem, waiting: Mapping[Key, Action]) -> Iterable[Button]:
    if item.button == "approve":
        return [Button("Approve …", link=f"/admin?{urlencode({'host': item.host})}#approve")]
    if item.button == "release":
        return [release_button("Release the brake")]
    if item.key is not None:
        action = waiting.get(item.key)
        return [run_button(action)] if action and item.button == "run" else []
    if item.button != "run" or item.kind is not ItemKind.WITNESS_MISSING:
        return []
    held = [each for each in waiting.values() if each.hold is Hold.WITNESS]
    if not held:
        return []
    released = tuple(each.digest for each in held[:MOST_AT_ONCE])
    words = counted(len(released), "removal")
    return [Button(f"Release {words}", RUN, {"digest": released}, "danger", warning=REMOVED)]
