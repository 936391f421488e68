"""`llmao plan`: what llmao would do now, or what a running one is about to do, and why.

Rule of this file: real reads, no writes. Exit 0: nothing to do. 2: something, whatever the
policy. 1: a source could not be read, or worse; what is printed then is not the whole truth.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llmao_core.actions import action_words
from llmao_core.snapshots import SourceState

from .common import config_option, json_option
from .known import action_told
from .looking import SIGNS, action_json, look
from .printing import clean, item_lines
from .status import Place, ask, fetched, head, place_of, url_option

if TYPE_CHECKING:
    from llmao_web.shell.once import Looked

_COLOURS = {"+": "green", "~": "yellow", "-": "red", "!": "magenta"}
_SIGNS = {kind.value: sign for kind, sign in SIGNS.items()}
_ORDER = {kind.value: place for place, kind in enumerate(SIGNS)}
_NOT_READ = (SourceState.UNREAD.value, SourceState.STALE.value)
Planned = Mapping[str, Any]


@click.command()
@config_option
@json_option
@url_option
@click.pass_context
def plan(ctx: click.Context, config_path: Path, as_json: bool, url: str | None) -> None:
    """Read everything once, probe every server, and print what would be done and why.

    Nothing is written. Servers that fail are probed until that counts, which takes up to half a
    minute. With --url nothing is read or probed: the llmao there, a demo for one, is asked for
    the plan of its newest pass. Exit 0 when nothing is to be done, 2 when something is, 1 when a
    source is unread.
    """
    if url is None:
        value = as_value(look(config_path))
        above = ""
    else:
        value, above = told(place_of(config_path, url))
    if as_json:
        click.echo(json.dumps(value, indent=2))
    else:
        click.echo(above + as_text(value))
    for warning in warnings(value):
        click.echo(f"warning: {warning}", err=True)
    ctx.exit(code(value))


def code(planned: Planned) -> int:
    """Return how the command exits."""
    if planned["unread"] or not planned["settled"]:
        return 1
    return 2 if planned["actions"] else 0


def as_value(looked: "Looked") -> dict[str, Any]:
    """Return what is printed as JSON. looked_at: how many deployments."""
    return {
        "settled": looked.settled,
        "unread": [{"source": name, "why": why} for name, why in looked.unread],
        "looked_at": len(looked.view.records),
        "actions": _sorted([action_json(action) for action in looked.plan.actions]),
        "attention": [
            {"kind": item.kind.value, "sentence": item.sentence, "remedy": item.remedy}
            for item in looked.view.items
        ],
    }


def told(place: Place) -> tuple[dict[str, Any], str]:
    """Return what the llmao that runs there plans, and the line above it; errors as `ask`."""
    view, newest = ask(place), fetched(place, "/api/v1/plan")
    if not isinstance(newest, Mapping):
        raise place.not_llmao()
    try:
        planned = {
            "fleet": view["fleet"],
            "at": newest["at"],
            "settled": True,
            "unread": [
                {"source": one["name"], "why": _why(one["trouble"])}
                for one in view["sources"]
                if one["state"] in _NOT_READ
            ],
            "looked_at": len(view["deployments"]),
            "actions": _sorted([action_told(action) for action in newest["actions"]]),
            "attention": [
                {name: item[name] for name in ("kind", "sentence", "remedy")}
                for item in view["items"]
            ],
        }
        return planned, f"{head(place, planned)}\n"
    except (KeyError, TypeError, ValueError):
        raise place.not_llmao() from None


def _why(trouble: Mapping[str, Any] | None) -> str:
    return f"{trouble['kind']}: {trouble['message']}" if trouble else "it was not read in time"


def _sorted(actions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(actions, key=lambda each: (_ORDER[each["kind"]], _name(each)))


def _name(action: Mapping[str, Any]) -> str:
    return f"{action['key']['shown']} {action['key']['model']}"


def as_text(planned: Planned) -> str:
    """Return what is printed for people, one action after the other like a diff."""
    lines = [line for action in planned["actions"] for line in _lines(action)]
    items = [
        line
        for item in planned["attention"]
        for line in item_lines(item["sentence"], item["remedy"])
    ]
    return "\n".join((*lines, *items, _summary(planned)))


def _lines(action: Mapping[str, Any]) -> Iterator[str]:
    sign, waits = _SIGNS[action["kind"]], action["held"]
    told = f"{sign} {action_words(action['kind'])}: {clean(_name(action))}"
    yield click.style(told, fg=_COLOURS[sign], bold=not waits)
    yield f"    {clean(action['rule'])}: {clean(action['reason'])}"
    if waits:
        yield f"    not now: {clean(waits)}"


def _summary(planned: Planned) -> str:
    actions, records = planned["actions"], planned["looked_at"]
    looked_at = f"{records} deployment{'' if records == 1 else 's'} looked at"
    if not actions and planned["unread"]:
        return f"Nothing can be planned from what could be read; {looked_at}."
    if not actions:
        return f"Nothing to do: {looked_at}."
    run = sum(action["runs"] for action in actions)
    return f"{run} to do now, {len(actions) - run} not now; {looked_at}."


def warnings(planned: Planned) -> Iterator[str]:
    """Yield why what is printed may not be the whole truth."""
    for one in planned["unread"]:
        yield f"{one['source']} is unread, so nothing rests on it: {clean(one['why'])}"
    if not planned["settled"]:
        yield "time was over before everything had answered."
