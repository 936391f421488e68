"""`llmao serve`: llmao itself, shell and web in one process.

Rule of this file: composition only. The web stops last, so that boxes are answered until the
write under way has ended.
"""

import asyncio
import contextlib
import gc
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import click
import uvicorn
from attrs import evolve

from llmao_core import check_auth
from llmao_core.config import Config, ServerConfig
from llmao_core.errors import ConfigError, LlmaoError, Problem
from llmao_core.history import History
from llmao_web import logs
from llmao_web.app import create_app
from llmao_web.pages.tour import Tour
from llmao_web.shell.clock import SystemClock
from llmao_web.shell.host import PluginHost
from llmao_web.shell.journal import Journal, Keeper
from llmao_web.shell.leader import Alone, Election, Lead
from llmao_web.shell.opening import POSTGRESQL, open_store
from llmao_web.shell.service import Service
from llmao_web.shell.store import Store

from .common import config_option, loaded, plugins, print_problems

_BACKLOG = 2048
_GRACE_S = 5
# A pass makes and drops tens of thousands of objects: with Python's own limits each has the whole
# fleet searched for cycles, which stops the process for 0.1 s at 2 000 deployments.
GC_LIMITS = (50_000, 20, 100)
# How long a pass, in its thread, may keep the event loop waiting each time.
_SWITCH_S = 0.001


@click.command()
@config_option
@click.option("--host", help="The address to listen on, instead of server.host.")
@click.option("--port", type=click.IntRange(0, 65535), help="The port, instead of server.port.")
def serve(config_path: Path, host: str | None, port: int | None) -> None:
    """Run llmao until SIGTERM or SIGINT; SIGHUP reads the configuration again."""
    installed = plugins()
    mask = logs.Mask()

    def taken(config: Config) -> Config:
        mask.learn(config)
        return evolve(config, server=_server(config, host, port))

    def read() -> Config:
        return taken(loaded(config_path, installed).config)

    given = loaded(config_path, installed)
    print_problems(given.warnings, err=True)
    config = taken(given.config)
    logs.configure(mask)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(config, installed, read, config_path.parent))


def _server(config: Config, host: str | None, port: int | None) -> ServerConfig:
    server = evolve(
        config.server,
        host=config.server.host if host is None else host,
        port=config.server.port if port is None else port,
    )
    problems = [
        Problem(finding.what, finding.remedy, ".".join(map(str, finding.path)))
        for finding in check_auth.bind(evolve(config, server=server))
    ]
    if problems:
        raise ConfigError(problems)
    return server


async def _serve(
    config: Config, installed: PluginHost, read: Callable[[], Config], folder: Path
) -> None:
    listening = listen(config.server.host, config.server.port)
    store = await open_store(config.store, folder, SystemClock())
    journal = Journal(Keeper(folder / config.journal.path, config.journal))
    try:
        click.echo(f"llmao listens on {url_of(listening)}")
        lead = _lead(config.store, listening)
        await run_service(config, installed, read, listening, store, journal=journal, lead=lead)
    finally:
        await asyncio.to_thread(journal.close, _GRACE_S)
        await store.aclose()


def _lead(store: str, listening: socket.socket) -> Lead:
    """Return how it is settled who writes: by election where several can share the store."""
    if not store.startswith(POSTGRESQL):
        return Alone()
    replica = f"{socket.gethostname()}:{listening.getsockname()[1]}"
    return Election(store, replica, SystemClock())


async def run_service(
    config: Config,
    installed: PluginHost,
    read: Callable[[], Config],
    listening: socket.socket,
    store: Store,
    beside: Callable[[], Awaitable[None]] | None = None,
    journal: Journal | None = None,
    lead: Lead | None = None,
    tour: Tour | None = None,
    history: History | None = None,
) -> None:
    """Run shell and web until stopped by a signal, or until `beside` has ended.

    tour, history: of the demo; what it tells, and what is remembered of before.
    """
    tune()
    clock = SystemClock()
    service = Service(config, installed, clock, store, read=read, journal=journal, lead=lead)
    if history is not None:
        service.board.history = history
    app = create_app(
        service.board,
        config,
        clock,
        records=store,
        office=service.office,
        counted=service.board.counts.registry,
        tour=tour,
    )
    server = _Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=_GRACE_S,
        )
    )
    service.on_signals()
    await service.start()
    async with asyncio.TaskGroup() as group:
        web = group.create_task(_until_stopped(server, listening, service))
        other = group.create_task(_then_stop(beside, service)) if beside else None
        try:
            await service.run()
        finally:
            if other:
                other.cancel()
            server.should_exit = True
            await asyncio.wait([web])


def tune() -> None:
    """Set up the interpreter so that a box is answered within milliseconds during a pass.

    Measured in tests/bench/bench_box_api.py: p99 at 2 000 deployments goes from 200 to 20 ms.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_LIMITS)
    sys.setswitchinterval(_SWITCH_S)


async def _then_stop(beside: Callable[[], Awaitable[None]], service: Service) -> None:
    try:
        await beside()
    finally:
        service.stop()


async def _until_stopped(
    server: uvicorn.Server, listening: socket.socket, service: Service
) -> None:
    try:
        await server.serve(sockets=[listening])
    finally:
        service.stop()


class _Server(uvicorn.Server):
    """A server that leaves signals to the service, which stops it last."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; LlmaoError says what to do when there can be none."""
    name = host.strip("[]")
    family = socket.AF_INET6 if ":" in name else socket.AF_INET
    try:
        return socket.create_server((name, port), family=family, backlog=_BACKLOG)
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "this is no address"
        raise LlmaoError(
            f"llmao cannot listen on {host}, port {port}: {why}. Is another llmao running?"
            " --host and --port choose another place."
        ) from None


def url_of(listening: socket.socket) -> str:
    """Return the address to open in a browser."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
