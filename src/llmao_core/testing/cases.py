"""The rows of the decision table: read from YAML, walked, and told in the same words.

Rule of this file: what a case expects and what happened are one shape, so that comparing them is
one `==` and a difference reads like the file.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from attrs import field, frozen

from llmao_core.actions import ActionKind
from llmao_core.plan import Action, Hold
from llmao_core.records import Record
from llmao_core.testing.walk import Walk

TABLE = Path(__file__).parents[3] / "tests" / "decision_table"
WORDS = frozenset(
    [
        "name",
        "title",
        "report",
        "fleet",
        "steps",
        "then",
        "items",
        "earlier",
        "unlisted",
        "boxes",
        "asks",
        "models",
    ]
)
NOTHING = "nothing"


@frozen
class Case:
    """One row. steps: what happens, in order. then: per key its life, badges and plan.

    items: kinds of all attention items, sorted. earlier: what ran free before the last moment.
    unlisted: hosts. boxes: per host what is planned for it. asks: keys LiteLLM is asked about.
    models: availability, where told.
    """

    name: str
    title: str
    theme: str
    steps: tuple[Mapping[str, Any], ...]
    then: Mapping[str, Mapping[str, Any]]
    items: tuple[str, ...] = ()
    earlier: tuple[str, ...] = ()
    unlisted: tuple[str, ...] = ()
    boxes: Mapping[str, str] = field(factory=dict)
    asks: tuple[str, ...] | None = None
    models: Mapping[str, str] = field(factory=dict)
    report: str = ""

    def expected(self) -> dict[str, Any]:
        """Return what must be the case at the end, and nothing else."""
        told: dict[str, Any] = {
            "then": {key: _full(words) for key, words in self.then.items()},
            "items": sorted(self.items),
            "earlier": sorted(self.earlier),
            "unlisted": sorted(self.unlisted),
            "boxes": dict(self.boxes),
        }
        if self.asks is not None:
            told["asks"] = sorted(self.asks)
        return told | {"models": dict(self.models)}

    def happened(self, walk: Walk) -> dict[str, Any]:
        """Return what is the case at the end of a walk, in the same words."""
        view, plan = walk.view, walk.plan
        actions = {action.key: action for action in plan.actions}
        last = {_ran(action) for action in plan.actions if action.runs}
        told: dict[str, Any] = {
            "then": {str(one.key): _told(one, actions.get(one.key)) for one in view.records},
            "items": sorted(item.kind.value for item in view.items),
            "earlier": sorted(one for one in walk.ran if one not in last),
            "unlisted": sorted(host.name for host in view.hosts if host.unlisted),
            "boxes": {one.key.shown: _planned(one) for one in plan.actions if _of_box(one)},
        }
        if self.asks is not None:
            asked = {one.row.id: str(one.key) for one in view.records if one.row}
            told["asks"] = sorted(asked[one] for one in walk.asked)
        models = {one.name: one.availability.value for one in view.models}
        return told | {"models": {name: models[name] for name in self.models}}


def _full(words: Mapping[str, Any]) -> dict[str, Any]:
    if unknown := set(words) - {"life", "badges", "plan"}:
        raise ValueError(f"then: unknown {sorted(unknown)}")
    badges = words.get("badges", ())
    return {
        "life": words["life"],
        "badges": [badges] if isinstance(badges, str) else list(badges),
        "plan": words["plan"],
    }


def _told(record: Record, action: Action | None) -> dict[str, Any]:
    return {
        "life": f"{record.lifecycle.value}, by {record.rule}",
        "badges": [badge.value for badge in record.badges],
        "plan": _plan(record, action),
    }


def _plan(record: Record, action: Action | None) -> str:
    if action is None:
        return f"{NOTHING}, by {record.action_rule}"
    return _planned(action)


def _of_box(action: Action) -> bool:
    return action.kind is ActionKind.REBOOT_BOX


def _planned(action: Action) -> str:
    told = _ran(action)
    if action.hold is not Hold.NOT_HELD:
        told += f", held: {action.hold.value}"
    if action.policy != "auto":
        told += f", policy: {action.policy}"
    return f"{told}, released" if action.released_by else told


def _ran(action: Action) -> str:
    return f"{action.kind.value}, by {action.rule}"


def walked(case: Case) -> Walk:
    """Return the walk of a case, at its end; AssertionError where an invariant breaks."""
    return Walk().go(case.steps)


def read(folder: Path = TABLE) -> tuple[Case, ...]:
    """Return all cases, file by file in the order of their names."""
    found: list[Case] = []
    for path in sorted(folder.glob("*.yaml")):
        document = yaml.safe_load(path.read_text())
        found += [_case(words, document["theme"]) for words in document["cases"]]
    names = [case.name for case in found]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"cases named twice: {sorted(twice)}")
    return tuple(found)


def _case(words: Mapping[str, Any], theme: str) -> Case:
    if unknown := set(words) - WORDS:
        raise ValueError(f"{words.get('name')}: unknown {sorted(unknown)}")
    first, *rest = words["steps"]
    if "fleet" in words:
        first = {"fleet": words["fleet"], **first}
    asks = words.get("asks")
    return Case(
        words["name"],
        words["title"],
        theme,
        (first, *rest),
        words.get("then", {}),
        _texts(words.get("items")),
        _texts(words.get("earlier")),
        _texts(words.get("unlisted")),
        words.get("boxes", {}),
        None if asks is None else _texts(asks),
        words.get("models", {}),
        words.get("report", ""),
    )


def _texts(words: Iterable[str] | None) -> tuple[str, ...]:
    return tuple(str(word) for word in words or ())
