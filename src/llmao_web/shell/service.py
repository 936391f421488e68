"""The service: every part of the shell made, joined, run and shut down.

Rule of this file: composition only. The parts know each other through what is handed to them
here, and one configuration is in force for all of them.
"""

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path

import structlog

from llmao_core.actions import Order
from llmao_core.codec import Loaded
from llmao_core.config import Config
from llmao_core.hooks import FetchRequest
from llmao_core.intended import build
from llmao_core.plan import Policy
from llmao_core.reconcile import reconcile

from .board import Board
from .clock import Clock
from .crew import Crew
from .executor import Executor
from .files import load_files
from .host import PluginHost
from .ledger import Kept
from .loop import Loop, Offload, Reconcile
from .probing import Probing
from .reload import PendingReload, Reloader
from .sources import source
from .store import Store

WRITES_MAY_TAKE_S = 130.0

log = structlog.get_logger(__name__)


def read_config(config_path: Path, host: PluginHost) -> Loaded:
    """Return the configuration, plugins' own sections checked; raises ConfigError."""
    return load_files(config_path, host.listings(), host.check)


class Service:
    """A running llmao without the web; the board is what the web looks at.

    read: reads the configuration files again. may_write: whether this process leads.
    """

    def __init__(
        self,
        config: Config,
        host: PluginHost,
        clock: Clock,
        store: Store,
        *,
        read: Callable[[], Config],
        may_write: Callable[[], bool] = lambda: True,
        reconcile: Reconcile = reconcile,
        offload: Offload = asyncio.to_thread,
    ) -> None:
        self.board = Board(clock)
        self._host = host
        self._clock = clock
        self._store = store
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()
        self._reload = asyncio.Event()
        self._reloader = Reloader(
            config, self.board, clock, read=read, take=self._apply, offload=offload
        )
        self._kept = Kept()
        self._crew = Crew(host, self.board, clock)
        self._probing = Probing(config, clock, self.board.changed)
        self.board.probes = self._probing.probes
        self._executor = Executor(
            host,
            self.board,
            store,
            clock,
            request=self._order_request,
            reread=self._crew.reread_deployments,
            poll_interval_s=lambda: self.config.litellm.poll_interval_s,
            may_write=may_write,
        )
        self._loop = Loop(
            self.board,
            clock,
            store,
            reconcile,
            policy=lambda: Policy.of(self.config.policy, self.config.brake),
            hands=self._executor,
            readers=self._crew,
            prober=self._probing,
            offload=offload,
        )

    @property
    def config(self) -> Config:
        """Return the configuration in force."""
        return self._reloader.config

    @property
    def pending_reload(self) -> PendingReload | None:
        """Return the configuration that waits for a confirmation, if one does."""
        return self._reloader.pending

    def confirm_reload(self) -> bool:
        """Put in force what waits for a confirmation; tell whether something did."""
        return self._reloader.confirm()

    def reload(self) -> None:
        """Have the configuration files read again, soon."""
        self._reload.set()

    def stop(self) -> None:
        """Begin to shut down; a second time: without waiting for the write under way."""
        if self._stopping.is_set():
            self._hurry.set()
        self._stopping.set()

    def on_signals(self) -> None:
        """Reload on SIGHUP, stop on SIGTERM and SIGINT."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self.reload)
        loop.add_signal_handler(signal.SIGTERM, self.stop)
        loop.add_signal_handler(signal.SIGINT, self.stop)

    async def run(self) -> None:
        """Run until stopped, then let the write under way finish."""
        self._kept = await self._store.kept()
        self.board.place(self._kept.placed)
        self._apply(self.config)
        try:
            async with asyncio.TaskGroup() as group:
                reading = [
                    group.create_task(self._crew.run()),
                    group.create_task(self._probing.run()),
                    group.create_task(self._reloads()),
                ]
                passes = group.create_task(self._loop.run())
                writing = group.create_task(self._executor.run())
                await self._stopping.wait()
                log.info("stopping")
                self._loop.stop()
                self._executor.stop()
                for task in reading:
                    task.cancel()
                await self._until_written(writing)
                passes.cancel()
        finally:
            await self._host.aclose()
        log.info("stopped")

    async def _until_written(self, writing: asyncio.Task[None]) -> None:
        limits = [
            asyncio.create_task(self._hurry.wait()),
            asyncio.create_task(self._clock.sleep(WRITES_MAY_TAKE_S)),
        ]
        await asyncio.wait([writing, *limits], return_when=asyncio.FIRST_COMPLETED)
        for limit in limits:
            limit.cancel()
        if not writing.done():
            log.warning("stopped in the middle of a write")
            writing.cancel()

    async def _reloads(self) -> None:
        while True:
            await self._reload.wait()
            self._reload.clear()
            await self._reloader.reload()

    def _apply(self, config: Config) -> None:
        self.board.intend(build(config, self._kept.approvals, self._kept.labels))
        self._crew.apply(config)
        self._probing.apply(config)

    def _order_request(self, order: Order) -> FetchRequest:
        """Return what an order is carried out with: what the executor's source is read with."""
        for card in self._host.cards():
            named = order.executor in (card.name, self._host.plugin_of(card.name))
            made = source(self.config, card) if named and order.kind in card.executes else None
            if made:
                return made.request
        return FetchRequest(order.executor, "")
