"""The service: every part of the shell made, joined, run and shut down.

Rule of this file: composition only. The parts know each other through what is handed to them
here, and one configuration is in force for all of them.
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import structlog

from llmao_core.actions import Order
from llmao_core.codec import Loaded
from llmao_core.config import Config
from llmao_core.errors import Trouble
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
from .journal import Journal
from .journal_record import Pass
from .leader import Alone, Lead
from .ledger import Entry
from .loop import Loop, Offload, Reconcile
from .office import Office
from .operations import Operations
from .probe_http import new_transport
from .probing import Probing
from .reload import Reloader
from .sharing import Sharing
from .sources import source
from .store import Store

WRITES_MAY_TAKE_S = 130.0

log = structlog.get_logger(__name__)


def read_config(config_path: Path, host: PluginHost) -> Loaded:
    """Return the configuration, plugins' own sections checked; raises ConfigError."""
    return load_files(config_path, host.listings(), host.check)


class Service:
    """A running llmao without the web; the board is what the web looks at.

    read: reads the configuration files again. lead: who of several replicas writes.
    transport: carries probes. journal: keeps every pass, when there is one.
    """

    def __init__(
        self,
        config: Config,
        host: PluginHost,
        clock: Clock,
        store: Store,
        *,
        read: Callable[[], Config],
        lead: Lead | None = None,
        reconcile: Reconcile = reconcile,
        offload: Offload = asyncio.to_thread,
        transport: Callable[[], httpx.AsyncBaseTransport] = new_transport,
        journal: Journal | None = None,
    ) -> None:
        self.board = Board(clock)
        self._lead = lead or Alone()
        self._lead.changed = self.board.changed
        self._lead.took_over = self.board.wrote
        self.board.led = lambda: self._lead.leadership().ever_known
        self._host = host
        self._clock = clock
        self._journal = journal
        self._journal_trouble: Trouble | None = None
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()
        self._reload = asyncio.Event()
        self._reloader = Reloader(
            config, self.board, clock, read=read, take=self._apply, offload=offload
        )
        self._sharing = Sharing(store, self.board, clock, lambda: self._intend(self.config))
        self._lead.keeps = lambda: self._sharing.keeps
        self._operations = Operations(host, self.board, self._sharing.later, clock, self._lead)
        self._crew = Crew(host, self.board, clock, self._operations.keep)
        self._probing = Probing(config, clock, self.board.changed, transport)
        self.board.probes, self.board.probed = self._probing.probes, self._probing.log.of
        self._executor = Executor(
            host,
            self.board,
            self._sharing.later,
            clock,
            request=self._order_request,
            reread=self._crew.reread_deployments,
            poll_interval_s=lambda: self.config.litellm.poll_interval_s,
            lead=self._lead,
            begins=self._sharing.presses.begins,
        )
        self._loop = Loop(
            self.board,
            clock,
            self._sharing.later,
            reconcile,
            policy=lambda: Policy.of(self.config.policy, self.config.brake),
            hands=self._executor,
            readers=self._crew,
            prober=self._probing,
            offload=offload,
            record=self._recorded,
        )
        self._reloading = asyncio.Lock()
        self.office = self._office(store, lambda: offload(read))

    @property
    def config(self) -> Config:
        """Return the configuration in force."""
        return self._reloader.config

    async def keep(self, *entries: Entry) -> None:
        """Keep what somebody decided and apply it at once; StoreError: it is neither."""
        await self._sharing.keep(*entries)

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

    async def start(self) -> None:
        """Learn from the store what was decided, so that boxes can be answered; then `run`.

        StoreError: without it nothing may be concluded.
        """
        if self.board.intended() is None:
            await self._sharing.start()
            self._apply(self.config)

    async def run(self) -> None:
        """Run until stopped, then let the write under way finish."""
        await self.start()
        try:
            async with asyncio.TaskGroup() as group:
                reading = [
                    group.create_task(self._crew.run()),
                    group.create_task(self._probing.run()),
                    group.create_task(self._reloads()),
                    group.create_task(self._operations.run()),
                ]
                sharing = group.create_task(self._sharing.run())
                passes = group.create_task(self._loop.run())
                writing = group.create_task(self._executor.run())
                leading = group.create_task(self._lead.run())
                await self._stopping.wait()
                log.info("stopping")
                self._loop.stop()
                self._executor.stop()
                for task in reading:
                    task.cancel()
                await self._until_written(writing)
                leading.cancel()
                passes.cancel()
                self._sharing.stop()
                await sharing
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
            await self._reloaded()

    async def _reloaded(self) -> bool:
        # One at a time: an older read must not be put in force after a newer one.
        async with self._reloading:
            return await self._reloader.reload()

    def _apply(self, config: Config) -> None:
        self._intend(config)
        self._crew.apply(config)
        self._probing.apply(config)
        self._operations.apply(config)

    def _intend(self, config: Config) -> None:
        kept = self._sharing.kept
        self.board.intend(build(config, kept.approvals, kept.labels))

    def _recorded(self, one: Pass) -> None:
        """Hand a pass to the journal, and say when that is not kept, or is again."""
        if self._journal is None:
            return
        self._journal.take(one)
        self.board.counts.journal_dropped.set(self._journal.dropped)
        if (trouble := self._journal.trouble) != self._journal_trouble:
            self._journal_trouble = trouble
            self.board.warn("journal", trouble)

    def _office(self, store: Store, read: Callable[[], Awaitable[Config]]) -> Office:
        return Office(
            self.board,
            store,
            self._clock,
            self._reloader,
            keep=self.keep,
            kept=lambda: self._sharing.kept,
            reload=self._reloaded,
            read=read,
            ask=self._crew.check,
            leadership=self._lead.leadership,
        )

    def _order_request(self, order: Order) -> FetchRequest:
        """Return what an order is carried out with: what the executor's source is read with."""
        for card in self._host.cards():
            named = order.executor in (card.name, self._host.plugin_of(card.name))
            made = source(self.config, card) if named and order.kind in card.executes else None
            if made:
                return made.request
        return FetchRequest(order.executor, "")
