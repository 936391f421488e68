"""`llmao demo`: llmao in front of a simulated fleet, without any configuration.

Rule of this file: composition only; the world it serves is in `llmao_web.demo`.
"""

import asyncio
import logging
from pathlib import Path

import click

from llmao_core.config import ServerConfig
from llmao_web import logs
from llmao_web.demo import Keys, demo_config, simulated
from llmao_web.shell.clock import SystemClock
from llmao_web.shell.store import MemoryStore

from .common import plugins
from .serve import listen, run_service, url_of


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", default=8080, show_default=True, type=click.IntRange(0, 65535))
@click.option(
    "--minutes",
    default=60.0,
    show_default=True,
    type=click.FloatRange(0.1, 1440),
    help="When the demo ends by itself.",
)
@click.option(
    "--log",
    "log_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A file for llmao's own log; without one only its errors are shown.",
)
def demo(host: str, port: int, minutes: float, log_path: Path | None) -> None:
    """Run llmao on a simulated fleet of three boxes, in which things go wrong now and then."""
    if log_path is None:
        logs.configure(logs.Mask(), level=logging.ERROR)
        asyncio.run(_demo(host, port, minutes))
        return
    with log_path.open("a") as stream:
        logs.configure(logs.Mask(), stream)
        asyncio.run(_demo(host, port, minutes))


async def _demo(host: str, port: int, minutes: float) -> None:
    clock, keys = SystemClock(), Keys()
    listening = listen(host, port)
    url, began = url_of(listening), clock.monotonic()

    def say(what: str) -> None:
        click.echo(f"{clock.monotonic() - began:6.0f} s  {what}")

    async with simulated(clock, say) as stage:
        bound = listening.getsockname()[1]
        config = demo_config(stage.litellm_url, ServerConfig(host, bound, url), keys)
        world = stage.world(url, keys)

        async def play() -> None:
            try:
                await world.run(minutes)
            finally:
                await world.close()

        click.echo(f"Open {url}/models and watch. Ctrl-C ends the demo.\n")
        await run_service(config, plugins(), lambda: config, listening, MemoryStore(), beside=play)
