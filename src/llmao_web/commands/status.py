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
from llmao_core.errors import ConfigError, LlmaoError
from llmao_core.secret import Secret
from llmao_core.urls import is_loopback, url_trouble
from llmao_core.verdicts import WORST_FIRST, Availability

from .common import Command, config_option, json_option, loaded_parts
from .moments import shown
from .printing import clean, item_lines, print_table, remark

TOKEN = "LLMAO_TOKEN"  # noqa: S105 the name of a variable
_PATH = "/api/v1/view"
_TIMEOUT_S = 15.0
_WORST_FIRST = {each.value: place for place, each in enumerate(WORST_FIRST)}
_SAID = {
    401: f"llmao does not know this token. Set {TOKEN} to one of api_tokens.",
    403: "llmao does not let this token see that. Give it the role admin in api_tokens.",
    503: "llmao has not finished its first pass yet. Ask again in a moment.",
}


class SilentError(LlmaoError):
    """Nobody answers at a URL. why: what came of asking."""

    def __init__(self, url: str, why: str) -> None:
        super().__init__(
            f"No llmao answers at {url} ({why}). Is it running? `llmao serve` starts one; with "
            "--url URL another is asked."
        )
        self.url = url


@frozen
class Place:
    """Where llmao runs, and what to show there. token: None where none is needed."""

    url: str
    token: Secret | None = field(default=None, repr=False)

    def not_llmao(self) -> LlmaoError:
        """Return the error of an answer that makes no sense."""
        return LlmaoError(f"What answers at {self.url} is not llmao, or another version of it.")


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
    """Ask a running llmao how it is doing; the models that are worst off come first.

    The first line says which llmao answered, and of when its answer is; a pipe gets it as a
    comment. What to do stands under each thing that needs you.

    The token is $LLMAO_TOKEN, else the first one of api_tokens in the configuration with the role
    admin; none is needed in mode open on the same machine. Exit 0 when all is well, 2 when work
    is needed, 1 when llmao does not answer.
    """
    place = place_of(config_path, url)
    view = ask(place)
    if url is None:
        warn_of_another(config_path, place, view["fleet"])
    if as_json:
        click.echo(json.dumps(view, indent=2))
    else:
        click.echo(head(place, view))
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


def warn_of_another(config_path: Path, place: Place, fleet: str) -> None:
    """Say when the llmao that answers has another fleet than the configuration names."""
    try:
        here = loaded_parts(config_path, ("fleet", "name")).fleet.name
    except ConfigError:
        return  # `llmao check` is where that is told
    if here != fleet:
        told = (
            f"warning: the llmao at {place.url} has the fleet {fleet}, and {config_path} names "
            f"the fleet {here}: it is another one. Give yours a port of its own (server.port), "
            "or ask it with --url."
        )
        click.echo(clean(told), err=True)


def head(place: Place, view: Mapping[str, Any]) -> str:
    """Return the line that says who answered, and when the pass was that is told of."""
    return remark(f"llmao at {place.url}, fleet {view['fleet']}, {shown(view['at'])}")


def ask(place: Place) -> Mapping[str, Any]:
    """Return the view; LlmaoError says why there is none."""
    view = fetched(place, _PATH)
    if not _is_view(view):
        raise place.not_llmao()
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
        raise SilentError(place.url, type(error).__name__) from None
    if answer.status_code != 200:
        other = f"It answered {answer.status_code}: is that llmao?"
        raise LlmaoError(f"At {place.url}: {_SAID.get(answer.status_code, other)}")
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
    return (
        isinstance(view, Mapping)
        and isinstance(view.get("fleet"), str)
        and isinstance(view.get("at"), int | float)
        and all(
            isinstance(view.get(name), list)
            and all(isinstance(each, Mapping) and set(fields) <= each.keys() for each in view[name])
            for name, fields in wanted.items()
        )
    )


def show(view: Mapping[str, Any]) -> None:
    """Print a view for people."""
    models = sorted(view["models"], key=_how_bad)
    print_table(("MODEL", "STATUS", "REPLICAS", "CONTEXT"), map(_model_row, models))
    for line in _lines(view):
        click.echo(line)


def _how_bad(model: Mapping[str, Any]) -> tuple[bool, int]:
    """Return where a model stands among others: as on the page, what is placed nowhere last."""
    replicas, availability = model["replicas"], model["availability"]
    placed = isinstance(replicas, Mapping) and bool(replicas.get("deployments"))
    # Without a deployment of its own it is Degraded when orphans serve it.
    nowhere = not placed and availability != Availability.DEGRADED.value
    return nowhere, _WORST_FIRST.get(str(availability), 0)


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
