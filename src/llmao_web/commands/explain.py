"""`llmao explain`: why a model, a host, a server or a provider's deployment is as it is.

Rule of this file: what the running llmao knows, a moment of a journal, or a fresh look, and which
of them it is; it says what reconcile concluded and adds nothing to it.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llmao_core.actions import action_words
from llmao_core.errors import ConfigError, LlmaoError
from llmao_core.keys import Key, host_name
from llmao_core.plan import Action

from .around import around, as_told, blind, is_around, names
from .around import lines as around_lines
from .common import config_option, json_option, loaded_parts
from .looking import action_json, look
from .moments import at_option, looked_at, shown
from .of_model import lines as model_lines
from .of_model import models
from .printing import clean
from .status import Place, SilentError, place_of, url_option, warn_of_another

if TYPE_CHECKING:
    from llmao_core.records import Record, View
    from llmao_web.shell.once import Looked

_CHANGES_SHOWN = 5


class _NothingKnownError(LlmaoError):
    """Whoever was asked answered, and knows no such name."""


@click.command()
@config_option
@json_option
@click.option(
    "--journal",
    "folder",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Explain from this journal; nothing is asked of anybody.",
)
@click.option("--fresh", is_flag=True, help="Look anew, whatever a running llmao knows.")
@url_option
@at_option
@click.argument("name", metavar="NAME")
def explain(
    config_path: Path,
    as_json: bool,
    folder: Path | None,
    fresh: bool,
    url: str | None,
    at: float | None,
    name: str,
) -> None:
    """Say why NAME is as it is: a model, a HOST, its server HOST:PORT, or a provider.

    A model's name tells what its callers get, what serves it and what to do; a provider's explains
    its deployments, or its listing and its boxes. What shares a name is told together.
    The llmao that runs with this configuration is asked what it knows; where it does not let us,
    its journal is read. Where none runs, everything is looked at once, which knows no history.
    Standard error says which of these it was.
    With --url the llmao there is asked, a demo for one, and nobody else.
    """
    if folder is None and at is not None:
        raise click.UsageError("--at needs --journal DIR.")
    if sum((folder is not None, fresh, url is not None)) > 1:
        raise click.UsageError("--journal, --fresh and --url exclude each other.")
    if folder is not None:
        values = values_of(looked_at(folder, at), name)
    elif url is not None:
        values = _told(place_of(config_path, url), name, None)
    else:
        values = (None if fresh else _remembered(config_path, name)) or _looked(config_path, name)
    if as_json:
        click.echo(json.dumps(values, indent=2))
    else:
        click.echo("\n".join(line for value in values for line in lines(value)))


def _remembered(config_path: Path, name: str) -> list[dict[str, Any]] | None:
    """Return what a running llmao knows, by its journal if it does not say; None: none runs."""
    try:
        return _told(place_of(config_path, None), name, config_path)
    except (ConfigError, _NothingKnownError):
        raise
    except SilentError as error:
        told = f"No llmao answers at {error.url}: this is a fresh look, which knows no history."
        _say(told, _hint(config_path))
        return None
    except LlmaoError as error:
        return _by_journal(config_path, name, str(error))


def _told(place: Place, name: str, config_path: Path | None) -> list[dict[str, Any]]:
    """Return what the llmao that runs there knows; errors as `known` says.

    config_path: of the configuration it should be the llmao of, None for any.
    """
    from .known import known

    host, port = _parsed_or_none(name)
    told = known(place, lambda its, label: _is(its, label, host, port), "" if port else host, name)
    if config_path is not None:
        warn_of_another(config_path, place, told.fleet)
    _say(f"As llmao at {place.url}, fleet {told.fleet}, knows it, {shown(told.at)}.")
    if not told.values:
        raise _nothing_known(name, told.shown, told.blind)
    return told.values


def _by_journal(config_path: Path, name: str, why: str) -> list[dict[str, Any]] | None:
    folder = _journal(config_path)
    if not folder.is_dir():
        _say(f"{why} So this is a fresh look, which knows no history.")
        return None
    _say(f"{why} So this is from its journal.")
    return values_of(looked_at(folder, None), name)


def _hint(config_path: Path) -> str:
    folder = _journal(config_path)
    return f"--journal {folder} tells what was known last." if folder.is_dir() else ""


def _journal(config_path: Path) -> Path:
    return config_path.parent / loaded_parts(config_path, ("journal", "path")).journal.path


def _say(*sentences: str) -> None:
    click.echo(clean(" ".join(each for each in sentences if each)), err=True)


def _looked(config_path: Path, name: str) -> list[dict[str, Any]]:
    return values_of(look(config_path), name)


def values_of(looked: "Looked", name: str) -> list[dict[str, Any]]:
    """Return what is known of a name, whatever has it; LlmaoError when that is nothing."""
    host, port = _parsed_or_none(name)
    view = as_told(looked.view)
    found = [record for record in looked.view.records if _matches(record, host, port)]
    values = [
        *models(view, name),
        *(around(view, host) if host and not port else ()),
        *(as_value(record, looked) for record in found),
    ]
    if not values:
        keys = (record.key.shown for record in looked.view.records)
        raise _nothing_known(name, (*keys, *names(view)), blind(view))
    return values


def _nothing_known(name: str, labels: Iterable[str], blind: str) -> _NothingKnownError:
    known = ", ".join(sorted(set(labels)))
    others = f"Known: {clean(known)}." if known else "fleet.hosts names no box yet."
    told = f"Nothing is known of {clean(name)}. {others} {clean(blind)}"
    return _NothingKnownError(told.strip())


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


def _parsed_or_none(name: str) -> tuple[str, int | None]:
    """Return host and port, "" for a name that no host can have: a model's may be any text."""
    try:
        return _parsed(name)
    except click.BadParameter:
        return "", None


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
    return _is("", key.shown, host, port)


def _is(its_host: str, label: str, host: str, port: int | None) -> bool:
    """Tell whether a deployment of a host, shown so, is of HOST or HOST:PORT; none is of ""."""
    if not host:
        return False
    wanted, label = f"[{host}]" if ":" in host else host, label.lower()
    if port is not None:
        return label == f"{wanted}:{port}"
    return host == its_host or label == wanted or label.rpartition(":")[0] == wanted


def _action(record: "Record", looked: "Looked") -> Action | None:
    return next((each for each in looked.plan.actions if each.key == record.key), None)


def _items(record: "Record", view: "View") -> list[str]:
    return [
        item.sentence
        for item in view.items
        if item.key == record.key or (item.host and item.host == record.host)
    ]


def _rebooting(record: "Record", view: "View") -> str:
    return next((one.rebooting for one in view.hosts if one.name == record.host), "")


def as_value(record: "Record", looked: "Looked") -> dict[str, Any]:
    """Return what is printed as JSON for one record."""
    action = _action(record, looked)
    return {
        "key": {"shown": record.key.shown, "model": record.key.model},
        "kind": record.kind.value,
        "lifecycle": record.lifecycle.value,
        "since": record.since,
        "fresh": record.fresh,
        "rule": record.rule,
        "because": record.because,
        "signal": {"kind": record.signal.kind.value, "detail": record.signal.detail},
        "litellm": {"says": record.litellm.value, "said": record.litellm_said},
        "rebooting": _rebooting(record, looked.view),
        "dialable": record.dialable,
        "litellm_id": record.row.id if record.row else None,
        "badges": [
            {"badge": each.value, "meaning": each.meaning, "remedy": each.remedy}
            for each in record.badges
        ],
        "action_rule": record.action_rule,
        "action": action_json(action) if action else None,
        "attention": _items(record, looked.view),
        "changes": [],
    }


def lines(value: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is printed for people about one value, given as `values_of` returns it."""
    if "model" in value:
        yield from model_lines(value)
        return
    if is_around(value):
        yield from around_lines(value)
        return
    yield click.style(clean(f"{value['key']['shown']} {value['key']['model']}"), bold=True)
    for name, said in _facts(value):
        yield f"  {name}: {clean(said)}"


def _facts(value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    stale = "" if value["fresh"] else " (not on fresh evidence)"
    signal, litellm = value["signal"], value["litellm"]
    yield value["lifecycle"] + stale, f"{value['rule']}: {value['because']}"
    if value["rebooting"]:
        yield "reboot", value["rebooting"]
    for change in value["changes"][:_CHANGES_SHOWN]:
        yield shown(change["at"]), f"{change['before'] or 'new'}, then {change['after'] or 'gone'}"
    yield "signal", f"{signal['kind']} {signal['detail']}".strip()
    yield "dialled at", value["dialable"] or "no address is known"
    yield "LiteLLM says", f"{litellm['says']} {litellm['said']}".strip()
    yield "in LiteLLM", value["litellm_id"] or "no"
    for badge in value["badges"]:
        yield badge["badge"], f"{badge['meaning']} {badge['remedy']}"
    yield from _action_facts(value)
    for sentence in value["attention"]:
        yield "attention", sentence


def _action_facts(value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    action = value["action"]
    if action is None:
        yield "action", f"none ({value['action_rule']})" if value["action_rule"] else "none"
        return
    yield "action", f"{action_words(action['kind'])}, {action['rule']}: {action['reason']}"
    if action["held"]:
        yield "not now", action["held"]
    for fact in action["evidence"]:
        yield "evidence", fact
