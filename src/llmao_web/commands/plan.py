"""`llmao plan`: what llmao would do now, and why.

Rule of this file: real reads, no writes. Exit 0: nothing to do. 2: something, whatever the
policy. 1: a source could not be read, or worse; what is printed then is not the whole truth.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from llmao_core.plan import Action

from .common import config_option, json_option
from .looking import SIGNS, action_json, held, look
from .printing import clean, item_lines

if TYPE_CHECKING:
    from llmao_web.shell.once import Looked

_COLOURS = {"+": "green", "~": "yellow", "-": "red", "!": "magenta"}


@click.command()
@config_option
@json_option
@click.pass_context
def plan(ctx: click.Context, config_path: Path, as_json: bool) -> None:
    """Read everything once, probe every server, and print what would be done and why.

    Nothing is written. Servers that fail are probed until that counts, which takes up to half a
    minute. Exit 0 when nothing is to be done, 2 when something is, 1 when a source is unread.
    """
    looked = look(config_path)
    click.echo(json.dumps(as_value(looked), indent=2) if as_json else as_text(looked))
    for warning in warnings(looked):
        click.echo(f"warning: {warning}", err=True)
    ctx.exit(code(looked))


def code(looked: "Looked") -> int:
    """Return how the command exits."""
    if looked.unread or not looked.settled:
        return 1
    return 2 if looked.plan.actions else 0


def as_value(looked: "Looked") -> dict[str, object]:
    """Return what is printed as JSON."""
    return {
        "settled": looked.settled,
        "unread": [{"source": name, "why": why} for name, why in looked.unread],
        "actions": [action_json(action) for action in _sorted(looked)],
        "attention": [
            {"kind": item.kind.value, "sentence": item.sentence, "remedy": item.remedy}
            for item in looked.view.items
        ],
    }


def _sorted(looked: "Looked") -> list[Action]:
    order = {kind: place for place, kind in enumerate(SIGNS)}
    return sorted(looked.plan.actions, key=lambda each: (order[each.kind], str(each.key)))


def as_text(looked: "Looked") -> str:
    """Return what is printed for people, one action after the other like a diff."""
    lines = [line for action in _sorted(looked) for line in _lines(action)]
    items = [line for item in looked.view.items for line in item_lines(item.sentence, item.remedy)]
    return "\n".join((*lines, *items, _summary(looked)))


def _lines(action: Action) -> Iterator[str]:
    sign, waits = SIGNS[action.kind], held(action)
    head = f"{sign} {action.kind.words}: {clean(action.key)}"
    yield click.style(head, fg=_COLOURS[sign], bold=not waits)
    yield f"    {action.rule}: {clean(action.reason)}"
    if waits:
        yield f"    not now: {clean(waits)}"


def _summary(looked: "Looked") -> str:
    actions = looked.plan.actions
    records = len(looked.view.records)
    looked_at = f"{records} deployment{'' if records == 1 else 's'} looked at"
    if not actions and looked.unread:
        return f"Nothing can be planned from what could be read; {looked_at}."
    if not actions:
        return f"Nothing to do: {looked_at}."
    run = sum(action.runs for action in actions)
    return f"{run} to do now, {len(actions) - run} not now; {looked_at}."


def warnings(looked: "Looked") -> Iterator[str]:
    """Yield why what is printed may not be the whole truth."""
    for name, why in looked.unread:
        yield f"{name} is unread, so nothing rests on it: {clean(why)}"
    if not looked.settled:
        yield "time was over before everything had answered."
