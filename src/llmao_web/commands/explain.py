"""`llmao explain`: why a host, a server or a provider's deployment is as it is.

Rule of this file: a live look, as `plan` takes it, or a moment of a journal; it says what
reconcile concluded and adds nothing to it.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llmao_core.errors import LlmaoError
from llmao_core.keys import Key, host_name
from llmao_core.plan import Action

from .common import config_option, json_option
from .looking import action_json, held, look
from .moments import at_option, looked_at
from .printing import clean

if TYPE_CHECKING:
    from llmao_core.records import Record, View
    from llmao_web.shell.once import Looked


@click.command()
@config_option
@json_option
@click.option(
    "--journal",
    "folder",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Explain from this journal instead of a look; nothing is asked of anybody.",
)
@at_option
@click.argument("name", metavar="HOST[:PORT]")
def explain(
    config_path: Path, as_json: bool, folder: Path | None, at: float | None, name: str
) -> None:
    """Look at everything once and say why HOST, or its server at listen port PORT, is as it is.

    A provider's name explains its deployments.
    """
    if folder is None and at is not None:
        raise click.UsageError("--at needs --journal DIR.")
    looked = look(config_path) if folder is None else looked_at(folder, at)
    found = matching(looked, name)
    if as_json:
        click.echo(json.dumps([as_value(record, looked) for record in found], indent=2))
    else:
        click.echo("\n".join(line for record in found for line in lines(record, looked)))


def matching(looked: "Looked", name: str) -> "list[Record]":
    """Return the records of HOST, HOST:PORT or a provider; LlmaoError when there is none."""
    host, port = _parsed(name)
    found = [record for record in looked.view.records if _matches(record, host, port)]
    if not found:
        known = sorted({record.key.shown for record in looked.view.records})
        others = f"Known: {clean(', '.join(known))}." if known else "fleet.hosts names no box yet."
        raise LlmaoError(f"Nothing is known of {clean(name)}. {others}")
    return found


def chooser(name: str) -> Callable[[Key], bool]:
    """Return what tells whether a key is of HOST, HOST:PORT or a provider."""
    host, port = _parsed(name)
    return lambda key: _shows(key, host, port)


def _parsed(name: str) -> tuple[str, int | None]:
    host, colon, port = name.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if colon and port.isascii() and port.isdigit() and (bracketed or ":" not in host):
        return _host(host), int(port)
    return _host(name), None


def _host(text: str) -> str:
    try:
        return host_name(text)
    except ValueError as error:
        raise click.BadParameter(f"{error}.", param_hint="HOST") from None


def _matches(record: "Record", host: str, port: int | None) -> bool:
    if record.deployment is not None and record.deployment.host:
        return record.deployment.host == host and port in (None, record.deployment.listen_port)
    return _shows(record.key, host, port)


def _shows(key: Key, host: str, port: int | None) -> bool:
    shown = key.shown.lower()
    wanted = f"[{host}]" if ":" in host else host
    if port is not None:
        return shown == f"{wanted}:{port}"
    return shown == wanted or shown.rpartition(":")[0] == wanted


def _action(record: "Record", looked: "Looked") -> Action | None:
    return next((each for each in looked.plan.actions if each.key == record.key), None)


def _items(record: "Record", view: "View") -> list[str]:
    return [
        item.sentence
        for item in view.items
        if item.key == record.key or (item.host and item.host == record.host)
    ]


def as_value(record: "Record", looked: "Looked") -> dict[str, Any]:
    """Return what is printed as JSON for one record."""
    action = _action(record, looked)
    return {
        "key": {"shown": record.key.shown, "model": record.key.model},
        "kind": record.kind.value,
        "lifecycle": record.lifecycle.value,
        "fresh": record.fresh,
        "rule": record.rule,
        "because": record.because,
        "signal": {"kind": record.signal.kind.value, "detail": record.signal.detail},
        "litellm": {"says": record.litellm.value, "said": record.litellm_said},
        "dialable": record.dialable,
        "litellm_id": record.row.id if record.row else None,
        "badges": [
            {"badge": each.value, "meaning": each.meaning, "remedy": each.remedy}
            for each in record.badges
        ],
        "action": action_json(action) if action else None,
        "attention": _items(record, looked.view),
    }


def lines(record: "Record", looked: "Looked") -> Iterator[str]:
    """Yield what is printed for people about one record."""
    yield click.style(clean(record.key), bold=True)
    for name, said in _facts(record, looked):
        yield f"  {name}: {clean(said)}"


def _facts(record: "Record", looked: "Looked") -> Iterator[tuple[str, str]]:
    stale = "" if record.fresh else " (not on fresh evidence)"
    yield record.lifecycle.value + stale, f"{record.rule}: {record.because}"
    yield "signal", f"{record.signal.kind.value} {record.signal.detail}".strip()
    yield "dialled at", record.dialable or "no address is known"
    yield "LiteLLM says", f"{record.litellm.value} {record.litellm_said}".strip()
    yield "in LiteLLM", record.row.id if record.row else "no"
    for badge in record.badges:
        yield badge.value, f"{badge.meaning} {badge.remedy}"
    yield from _action_facts(record, _action(record, looked))
    for sentence in _items(record, looked.view):
        yield "attention", sentence


def _action_facts(record: "Record", action: Action | None) -> Iterator[tuple[str, str]]:
    if action is None:
        yield "action", f"none ({record.action_rule})" if record.action_rule else "none"
        return
    yield "action", f"{action.kind.value}, {action.rule}: {action.reason}"
    if waits := held(action):
        yield "not now", waits
    for fact in action.evidence:
        yield "evidence", fact
