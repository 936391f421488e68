"""llmao's process: started, run, killed at any step, and started again over the same store.

Rule of this file: killed means gone. Nothing that a killed process had planned happens, but what
it had sent does; only the store outlives it.
"""

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from llmao_core.actions import Order
from llmao_core.config import Config
from llmao_core.history import History
from llmao_core.hooks import FetchRequest
from llmao_core.plan import Plan, Policy
from llmao_core.reconcile import reconcile
from llmao_core.records import View
from llmao_core.snapshots import Snapshots
from llmao_web.shell.host import Ended, PluginHost
from llmao_web.shell.ledger import Entry
from llmao_web.shell.loop import Reconcile
from llmao_web.shell.service import Service
from llmao_web.shell.sql_engine import Database
from llmao_web.shell.store import MemoryStore, Store, StoreError

from .arbiter import Arbiter, Standing
from .database import File, prepare
from .virtual import SimClock
from .wire import FarWire, ProbeWire, Process, Wire

T = TypeVar("T")

DISK_S = 0.005
# A process that cannot use its store ends, and whatever runs it starts it again.
AGAIN_S = 5.0
Step = Callable[[str], bool | None]
Wrote = Callable[["Llmao", Order, Ended | None], None]
Passed = Callable[["Llmao", View, Plan], None]


class Disk(MemoryStore):
    """The store that outlives a process; an answer from it means that it is kept.

    full: nothing more can be written. process: whoever writes now.
    """

    def __init__(self) -> None:
        super().__init__()
        self.full = False
        self.process: Process | None = None

    async def prove(self) -> None:
        """Say whether there is room."""
        if self.full:
            raise StoreError("The disk is full.")

    async def append(self, *entries: Entry) -> None:
        """Keep entries, as slowly as a disk, at whose every step llmao can be killed."""
        assert self.process is not None
        kind = entries[0].kind.value if entries else "nothing"
        await self.process.step(f"store {kind}, before")
        await asyncio.sleep(DISK_S)
        if self.full:
            raise StoreError("The disk is full.")
        await super().append(*entries)
        await self.process.step(f"store {kind}, kept")


class _Host(PluginHost):
    """The plugin host, which says what is ordered of it."""

    def __init__(
        self,
        clock: SimClock,
        plugins: dict[str, object],
        wire: FarWire,
        wrote: Callable[[Order, Ended | None], None],
    ) -> None:
        super().__init__(clock, plugins, transport=wire)
        self._wrote = wrote

    async def execute(
        self, order: Order, request: FetchRequest, now: float, deadline_s: float = 270.0
    ) -> Ended:
        """Carry out one order."""
        self._wrote(order, None)
        ended = await super().execute(order, request, now, deadline_s)
        self._wrote(order, ended)
        return ended


class Llmao:
    """One llmao, through all its runs.

    runs: how often it was started. started: when the present run began, seconds; None while it
    is down. rule: stands in the place of reconcile. pass_s: the longest that a pass takes. disk:
    where its store is, in memory unless told. arbiter: of an election, where there are several.
    at_step: told every step, says whether to die there. cut_off: it cannot reach its store.
    """

    def __init__(
        self,
        wire: Wire,
        plugins: dict[str, object],
        clock: SimClock,
        read: Callable[[], Config],
        *,
        wrote: Wrote,
        passed: Passed,
        rule: Reconcile = reconcile,
        pass_s: float = 0.0,
        disk: Disk | File | None = None,
        arbiter: Arbiter | None = None,
        name: str = "llmao",
    ) -> None:
        self.name = name
        self.cut_off = False
        self.disk = Disk() if disk is None else disk
        self.runs = 0
        self.started: float | None = None
        self.service: Service | None = None
        self.at_step: Step = lambda _name: False
        self.clock = clock
        self._wire = wire
        self._plugins = plugins
        self._read = read
        self._wrote = wrote
        self._passed = passed
        self._rule = rule
        self._pass_s = pass_s
        self._arbiter = arbiter
        self._back = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.died: Callable[[BaseException], None] = lambda _error: None

    def start(self) -> None:
        """Start a process; does nothing while one runs."""
        if self._task is not None:
            return
        self.runs += 1
        host = _Host(
            self.clock, self._plugins, FarWire(self._wire, self), partial(self._wrote, self)
        )
        store, database = self._opened()
        self.service = Service(
            self._read(),
            host,
            self.clock,
            store,
            read=self._read,
            lead=Standing(self._arbiter, self, self.name, self.clock) if self._arbiter else None,
            reconcile=self._watched,
            offload=self._offload,
            transport=lambda: ProbeWire(self._wire, self.clock.going),
        )
        self.started = self._wire.seconds()
        self._task = asyncio.create_task(self._live(self.service, database))

    def _opened(self) -> tuple[Store, Database | None]:
        if isinstance(self.disk, File):
            return self.disk.open(self, self.clock, self.name)
        self.disk.process = self
        return self.disk, None

    def kill(self) -> None:
        """Let the process be gone, wherever it was."""
        if self._task is not None:
            self._task.cancel()
            self._task, self.service, self.started = None, None, None
            if isinstance(self.disk, File):
                self.disk.left_by(self)
            if self._arbiter is not None:
                self._arbiter.cut(self)

    async def step(self, name: str) -> None:
        """Return, unless llmao is killed at this step; no earlier than its machine goes on."""
        await self.clock.going()
        if self.at_step(name):
            self.kill()
            await asyncio.Event().wait()

    async def reaches_store(self) -> None:
        """Return once the process runs and can reach its store."""
        await self.clock.going()
        while self.cut_off:
            await self._back.wait()
            await self.clock.going()

    def reach_store(self, *, again: bool) -> None:
        """Let the process not reach its store any more, or reach it again."""
        self.cut_off = not again
        self._back.set()
        self._back = asyncio.Event()

    @property
    def able(self) -> bool:
        """Tell whether it runs, knows what was decided, and can reach its store."""
        ready = self.service is not None and self.service.board.intended() is not None
        return ready and not self.cut_off and not self.clock.frozen

    async def keep(self, *entries: Entry) -> bool:
        """Have a person's decision kept; tell whether it was acknowledged."""
        service = self.service
        # Before it has read what was decided, it lets nobody decide.
        if service is None or service.board.intended() is None:
            return False
        asked = asyncio.ensure_future(service.keep(*entries))
        # Whoever asked sees the connection break when the process is killed.
        while self.service is service and not asked.done():
            await asyncio.wait([asked], timeout=DISK_S)
        if not asked.done():
            asked.cancel()
            return False
        return asked.exception() is None

    async def _live(self, service: Service, database: Database | None) -> None:
        try:
            with contextlib.suppress(asyncio.CancelledError):
                if database is not None:
                    await prepare(database, self.clock.now())
                await service.run()
        except StoreError:
            if self.service is service:
                self.kill()
                asyncio.get_running_loop().call_later(AGAIN_S, self.start)
        except BaseException as error:
            self.died(error)

    async def _offload(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run a function in the place of a thread, whose answer comes as late as a pass takes."""
        done = work(*arguments)
        await self.clock.sleep(self.clock.jitter(self._pass_s))
        return done

    def _watched(
        self, snapshots: Snapshots, history: History, policy: Policy, now: float
    ) -> tuple[View, Plan, History]:
        view, plan, after = self._rule(snapshots, history, policy, now)
        self._passed(self, view, plan)
        return view, plan, after
