"""What a running llmao knows of a server, asked through its API, in the shape `explain` prints.

Rule of this file: it asks and changes nothing. An llmao that is not there, and one that does not
let us look, are told apart: only the second has a history.
"""

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from attrs import frozen

from llmao_core.plan import Hold

from .around import around, blind, names
from .looking import waits
from .of_model import models
from .status import Place, ask, fetched

Chosen = Callable[[str, str], bool]
_AS_THEY_ARE = (
    *("key", "kind", "lifecycle", "since", "fresh"),
    *("rule", "because", "badges", "action_rule"),
)
_OF_AN_ACTION = ("kind", "key", "litellm_id", "rule", "reason", "evidence", "policy", "runs")


@frozen
class Known:
    """What a running llmao says. at: when the pass ended. shown: every name it knows.

    fleet: its name. blind: what it cannot know now, "" for nothing.
    """

    fleet: str
    at: float
    values: list[dict[str, Any]]
    shown: frozenset[str]
    blind: str


def known(place: Place, chosen: Chosen, name: str, model: str) -> Known:
    """Return what the llmao that runs there knows of what is chosen by host and name.

    name: of a box or a source to tell of as well, "" for none. model: a name of one, maybe.
    SilentError: none answers there. LlmaoError: it runs, and why it cannot be asked.
    """
    view = ask(place)
    try:
        found = [each for each in view["deployments"] if chosen(each["host"], each["key"]["shown"])]
        return Known(
            view["fleet"],
            float(view["at"]),
            [
                *models(view, model),
                *(around(view, name) if name else ()),
                *(_value(_explained(place, each["id"]), view) for each in found),
            ],
            frozenset((*(each["key"]["shown"] for each in view["deployments"]), *names(view))),
            blind(view),
        )
    except (KeyError, TypeError, ValueError):
        raise place.not_llmao() from None


def _explained(place: Place, deployment_id: str) -> Mapping[str, Any]:
    answer = fetched(place, f"/api/v1/deployments/{quote(deployment_id, safe='')}")
    if not isinstance(answer, Mapping):
        raise TypeError
    return answer


def _value(explained: Mapping[str, Any], view: Mapping[str, Any]) -> dict[str, Any]:
    one, action = explained["deployment"], explained["action"]
    reboots = {each["name"]: each["rebooting"] for each in view["boxes"]}
    return {
        **{name: one[name] for name in _AS_THEY_ARE},
        "signal": {name: one["signal"][name] for name in ("kind", "detail")},
        "litellm": {name: one["litellm"][name] for name in ("says", "said")},
        "rebooting": reboots.get(one["host"], ""),
        "dialable": one["address"],
        "litellm_id": one["litellm"]["id"] or None,
        "action": action_told(action) if action else None,
        "attention": [
            item["sentence"]
            for item in view["items"]
            if item["key"] == one["key"] or (item["host"] and item["host"] == one["host"])
        ],
        "changes": [
            {name: each[name] for name in ("at", "before", "after")}
            for each in explained["transitions"]
        ],
    }


def action_told(action: Mapping[str, Any]) -> dict[str, Any]:
    """Return an action of the API in the shape that commands print."""
    held = waits(action["runs"], action["policy"], action["released_by"], Hold(action["hold"]))
    return {**{name: action[name] for name in _OF_AN_ACTION}, "held": held}
