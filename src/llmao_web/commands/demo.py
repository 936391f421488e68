"""`llmao demo`: llmao in front of a simulated fleet, without any configuration.

Rule of this file: composition only; the world and its story are in `llmao_web.demo`.
"""

import asyncio
import json
import logging
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO, cast

import click
from attrs import frozen

from llmao_core.config import Config, ServerConfig
from llmao_core.errors import ConfigError, LlmaoError, Problem
from llmao_core.secret import Secret
from llmao_core.urls import is_loopback
from llmao_web import logs
from llmao_web.demo.fleet import PAIR, Places, decided, demo_config, remembered
from llmao_web.demo.proxy import real_places, remove_rows
from llmao_web.demo.scene import SHOWN_S
from llmao_web.demo.story import OPENING, Story
from llmao_web.demo.world import World, staged
from llmao_web.pages.tour import Tour
from llmao_web.shell.clock import SystemClock
from llmao_web.shell.store import MemoryStore

from .common import plugins
from .printing import clean
from .serve import listen, run_service, url_of

KEY_VARIABLE = "LLMAO_LITELLM_KEY"
_NOT_TOLD = ("level", "timestamp")


@frozen
class Asked:
    """What the command was asked for. real: the proxy in place of the simulated one."""

    host: str
    port: int
    minutes: float
    shown_s: float
    real: Places | None = None


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="A loopback address.")
@click.option("--port", default=8080, show_default=True, type=click.IntRange(0, 65535))
@click.option(
    "--minutes",
    default=60.0,
    show_default=True,
    type=click.FloatRange(0.1, 1440),
    help="When the demo ends by itself.",
)
@click.option(
    "--seconds",
    "shown_s",
    default=SHOWN_S,
    show_default=True,
    type=click.FloatRange(8, 300),
    help="How long each scene is shown.",
)
@click.option(
    "--litellm",
    "litellm_url",
    metavar="URL",
    help="A real LiteLLM on this machine, in place of the simulated one. The demo adds deployments "
    "of its own, removes them when it ends, and touches no others.",
)
@click.option(
    "--litellm-key",
    metavar="KEY",
    envvar=KEY_VARIABLE,
    help=f"Its master key. Everybody on this machine can see what is on a command line: better "
    f"set {KEY_VARIABLE}.",
)
@click.option(
    "--log",
    "log_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A file for llmao's own log; without one only its errors are shown.",
)
def demo(
    host: str,
    port: int,
    minutes: float,
    shown_s: float,
    litellm_url: str | None,
    litellm_key: str | None,
    log_path: Path | None,
) -> None:
    """Run llmao on a simulated fleet of rented boxes, in which one thing after another goes wrong.

    A line at the top of each page says what happens now and where to look.
    """
    _only_here(host)
    asked = Asked(host, port, minutes, shown_s, _real(litellm_url, litellm_key))
    if log_path is None:
        told = cast("TextIO", LogLines(lambda line: click.echo(line, err=True)))
        logs.configure(logs.Mask(), told, level=logging.ERROR)
        clean_end = asyncio.run(_demo(asked))
    else:
        with log_path.open("a") as stream:
            logs.configure(logs.Mask(), stream)
            clean_end = asyncio.run(_demo(asked))
    if clean_end:
        but = f", but its log in {log_path}" if log_path else ""
        click.echo(f"The demo has ended; nothing of it stays behind{but}.")


class LogLines:
    """A stream that takes llmao's own log as JSON, and says each line as a person would."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    def isatty(self) -> bool:
        """Tell that it wants JSON."""
        return False

    def write(self, text: str) -> int:
        """Say every line of some whole ones."""
        for line in text.removesuffix("\n").split("\n"):
            self._say(_log_line(line))
        return len(text)

    def flush(self) -> None:
        """Do nothing: every line is said at once."""


def _log_line(line: str) -> str:
    """Return a line of the log in words; what is no JSON stays as it is."""
    try:
        event = json.loads(line)
        words = [event.pop("event").strip(), *map(_words, _told(event))]
    except (ValueError, KeyError, AttributeError):
        return clean(line)
    return "\n".join(map(clean, f"{'':10}llmao's log: {': '.join(words)}".split("\n")))


def _told(event: dict[str, Any]) -> list[Any]:
    return [value for name, value in event.items() if name not in _NOT_TOLD and value]


def _words(value: Any) -> str:
    return "; ".join(map(str, value)) if isinstance(value, list) else str(value)


def _only_here(host: str) -> None:
    if not is_loopback(host):
        raise click.UsageError(
            "--host wants a loopback address. The demo asks nobody to sign in, so on any other it "
            "would let everybody see its fleet and press its buttons."
        )


def _real(url: str | None, key: str | None) -> Places | None:
    if url is None:
        return None
    if not url.startswith(("http://", "https://")):
        raise click.UsageError("--litellm wants a URL that begins with http:// or https://.")
    if not key:
        raise click.UsageError(f"--litellm needs the proxy's master key: set {KEY_VARIABLE}.")
    return real_places(url, Secret(key))


async def _demo(asked: Asked) -> bool:
    """Run the demo to its end, and tell whether nothing of it is left in a real proxy."""
    clock, tour = SystemClock(), Tour(OPENING)
    listening = listen(asked.host, asked.port)
    url, began = url_of(listening), clock.monotonic()

    def say(what: str) -> None:
        click.echo(f"{clock.monotonic() - began:6.0f} s  {what}")

    async with staged(clock, asked.real) as stage:
        bound = listening.getsockname()[1]
        server = ServerConfig(asked.host, bound, url)
        files = _Files(demo_config(stage.places, server, stage.keys))
        story = Story(World(stage, url), tour, say, files.reload, asked.shown_s)

        async def play() -> None:
            try:
                await story.run(asked.minutes)
            finally:
                await story.close()

        click.echo(f"Open {url}/models and watch. The demo ends after {asked.minutes:g} minutes,")
        click.echo("or with Ctrl-C.")
        click.echo(f"In another terminal, `llmao explain --url {url} {PAIR}` says why a box is")
        click.echo(f"as it is, `llmao status --url {url}` what needs you, and")
        click.echo(f"`llmao plan --url {url}` what llmao is about to do.\n")
        try:
            await run_service(
                files.config,
                plugins(),
                files.read,
                listening,
                MemoryStore(*decided(clock.now())),
                beside=play,
                tour=tour,
                history=remembered(clock.now()),
            )
        finally:
            gone = asked.real is None or await _clean_up(stage.places, clock.now())
    return gone


async def _clean_up(places: Places, now: float) -> bool:
    """Remove from a real proxy what the demo wrote there, and say how that went: all is gone."""
    marked = f"llmao_fleet={places.fleet}"
    try:
        gone, left = await remove_rows(places, now)
    except LlmaoError as error:
        click.echo(f"The demo's deployments ({marked}) are still in LiteLLM: {error}", err=True)
        return False
    click.echo(f"Removed the demo's {gone} deployments from LiteLLM.")
    if left:
        click.echo(f"{left} could not be removed: look for {marked} in LiteLLM.", err=True)
    return not left


class _Files:
    """The configuration as if it stood in files, with a mistake now and then."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._good = True

    def read(self) -> Config:
        """Return the configuration; ConfigError while it has the mistake."""
        if not self._good:
            what = "unknown model gemma5-26b on host c.41235107"
            raise ConfigError([Problem(what, "add it to models.yaml", "fleet.hosts[0]")])
        return self.config

    def reload(self, good: bool) -> None:
        """Have llmao read it again, with the mistake or without."""
        self._good = good
        signal.raise_signal(signal.SIGHUP)
