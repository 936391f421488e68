"""What `explain` says of a model: what callers get, what is said of it, and what serves it.

Rule of this file: it picks from a view, as the API tells it, and adds nothing to it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import click

from .printing import clean

Told = Mapping[str, Any]
_OF_A_DEPLOYMENT = ("key", "kind", "lifecycle", "fresh", "rule", "because")


def models(view: Told, name: str) -> list[dict[str, Any]]:
    """Return the models of a name, however it is capitalised.

    remedies: what to do, in the order of `attention`. Raises KeyError or TypeError where a view
    is not of this version.
    """
    wanted = name.casefold()
    return [_model(one, view) for one in view["models"] if one["name"].casefold() == wanted]


def _model(model: Told, view: Told) -> dict[str, Any]:
    name = model["name"]
    served = [one for one in view["deployments"] if one["key"]["model"] == name]
    hosts = {one["host"] for one in served if one["host"]}
    items = [one for one in view["items"] if _is_about(one, name, hosts)]
    return {
        "model": {
            **{each: model[each] for each in ("name", "availability", "checked", "context")},
            "summary": model["replicas"]["summary"],
        },
        "attention": [one["sentence"] for one in items],
        "remedies": [one["remedy"] for one in items],
        "deployments": [
            {
                **{each: one[each] for each in _OF_A_DEPLOYMENT},
                "litellm_id": one["litellm"]["id"] or None,
            }
            for one in served
        ],
    }


def _is_about(item: Told, name: str, hosts: set[str]) -> bool:
    """Tell whether an item is about a model, a deployment of it, or a box that should serve it."""
    if item["key"]:
        return bool(item["key"]["model"] == name)
    return item["host"] in hosts or item["id"] == f"{item['kind']} {name}"


def lines(value: Told) -> Iterator[str]:
    """Yield what is printed for people of one value that `models` returned."""
    yield click.style(clean(value["model"]["name"]), bold=True)
    for name, said in _facts(value):
        yield f"  {clean(name)}: {clean(said)}"


def _facts(value: Told) -> Iterator[tuple[str, str]]:
    model = value["model"]
    checked = "" if model["checked"] else " (on configuration alone)"
    yield model["availability"] + checked, model["summary"]
    yield "context", "unknown" if model["context"] is None else f"{model['context']} tokens"
    for sentence, remedy in zip(value["attention"], value["remedies"], strict=True):
        yield "attention", sentence
        yield "what to do", remedy
    for one in value["deployments"]:
        stale = "" if one["fresh"] else " (not on fresh evidence)"
        routed = "in LiteLLM" if one["litellm_id"] else "not in LiteLLM"
        said = f"{one['lifecycle']}{stale}, {routed}. {one['rule']}: {one['because']}"
        yield one["key"]["shown"], said
