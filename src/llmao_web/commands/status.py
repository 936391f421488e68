"""`llmao status`: how a running llmao is doing, asked through its API.

Rule of this file: it asks and changes nothing; a token goes to the configured address, or to the
one it was given for, and never in clear over a network.
"""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
from attrs import field, frozen

from llmao_core.config import Config
from llmao_core.errors import LlmaoError
from llmao_core.secret import Secret
from llmao_core.urls import is_loopback, url_trouble

from .common import Command, config_option, json_option, loaded_parts
from .printing import clean, item_lines, print_table

TOKEN = "LLMAO_TOKEN"  # noqa: S105 the name of a variable
_PATH = "/api/v1/view"
_TIMEOUT_S = 15.0
_SAID = {
    401: f"llmao does not know this token. Set {TOKEN} to one of api_tokens.",
    403: "llmao does not let this token see that. Give it the role admin in api_tokens.",
    503: "llmao has not finished its first pass yet. Ask again in a moment.",
}


NOT_LLMAO = "What answers there is not llmao, or another version of it."


class SilentError(LlmaoError):
    """Nobody answers there."""


@frozen
class Place:
    """Where llmao runs, and what to show there. token: None where none is needed."""

    url: str
    token: Secret | None = field(default=None, repr=False)


def url_option(command: Command) -> Command:
    """Give a command `--url URL`; its argument is `url`."""
    said = "Where llmao runs, instead of server.public_url; no configuration is read."
    return click.option("--url", metavar="URL", help=said)(command)


@click.command()
@config_option
@json_option
@url_option
@click.pass_context
def status(ctx: click.Context, config_path: Path, as_json: bool, url: str | None) -> None:
    """Ask a running llmao how it is doing.

    The token is $LLMAO_TOKEN, else the first one of api_tokens in the configuration with the role
    admin; none is needed in mode open on the same machine. Exit 0 when all is well, 2 when work
    is needed, 1 when llmao does not answer.
    """
    view = ask(place_of(config_path, url))
    if as_json:
        click.echo(json.dumps(view, indent=2))
    else:
        show(view)
    ctx.exit(2 if view["items"] else 0)


def place_of(config_path: Path, url: str | None) -> Place:
    """Return where to ask: the given URL, else what the configuration says."""
    given = Secret(os.environ[TOKEN]) if os.environ.get(TOKEN) else None
    if url is None:
        config = loaded_parts(config_path, ("server",), ("auth", "mode"), ("api_tokens",))
        place = Place(_configured(config), given or _own_token(config))
    else:
        place = Place(url, given)
    if trouble := url_trouble(place.url):
        raise LlmaoError(f"llmao cannot be asked there. {trouble}")
    parts = urlsplit(place.url)
    if place.token and parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        raise LlmaoError("The token would go over the network in clear. Give an https:// URL.")
    return place


def _configured(config: Config) -> str:
    """Return the address of the configured llmao; loopback in mode open, which knows no other."""
    server = config.server
    if config.auth.mode != "open" and server.public_url:
        return server.public_url
    host = f"[{server.host}]" if ":" in server.host else server.host
    return f"http://{host}:{server.port}"


def _own_token(config: Config) -> Secret | None:
    return next((each.token for each in config.api_tokens if each.role == "admin"), None)


def ask(place: Place) -> Mapping[str, Any]:
    """Return the view; LlmaoError says why there is none."""
    view = fetched(place, _PATH)
    if not _is_view(view):
        raise LlmaoError(NOT_LLMAO)
    assert isinstance(view, Mapping)
    return view


def fetched(place: Place, path: str) -> object:
    """Return what the API answers at a path, None for what is no JSON.

    SilentError: nothing answers. LlmaoError: why it does not tell.
    """
    import httpx

    headers = {"authorization": f"Bearer {place.token.reveal()}"} if place.token else {}
    try:
        answer = httpx.get(place.url.rstrip("/") + path, headers=headers, timeout=_TIMEOUT_S)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise SilentError(
            f"llmao does not answer ({type(error).__name__}). Is it running?"
        ) from None
    if answer.status_code != 200:
        raise LlmaoError(_SAID.get(answer.status_code, f"llmao answered {answer.status_code}."))
    try:
        told: object = answer.json()
    except (ValueError, RecursionError):
        return None
    return told


def _is_view(view: object) -> bool:
    """Tell whether an answer has every field that is shown."""
    wanted = {
        "models": ("name", "availability", "replicas", "context"),
        "items": ("kind", "sentence", "remedy"),
        "sources": ("name", "state", "trouble"),
    }
    return isinstance(view, Mapping) and all(
        isinstance(view.get(name), list)
        and all(isinstance(each, Mapping) and set(fields) <= each.keys() for each in view[name])
        for name, fields in wanted.items()
    )


def show(view: Mapping[str, Any]) -> None:
    """Print a view for people."""
    print_table(("MODEL", "STATUS", "REPLICAS", "CONTEXT"), map(_model_row, view["models"]))
    for line in _lines(view):
        click.echo(line)


def _model_row(model: Mapping[str, Any]) -> tuple[object, ...]:
    replicas = model["replicas"]
    summary = replicas.get("summary", "") if isinstance(replicas, Mapping) else ""
    context = "unknown" if model["context"] is None else model["context"]
    return model["name"], model["availability"], summary, context


def _lines(view: Mapping[str, Any]) -> Iterator[str]:
    for source in view["sources"]:
        if source["state"] not in ("fresh", "not configured"):
            trouble = source["trouble"]
            why = f": {trouble.get('message', '')}" if isinstance(trouble, Mapping) else ""
            yield clean(f"source {source['name']} is {source['state']}{why}")
    for item in view["items"]:
        yield from item_lines(item["sentence"], item["remedy"])
    number = len(view["items"])
    yield f"Work needed: {number}." if number else "Nothing needs you."
