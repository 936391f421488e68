"""llmao's process: started, run, killed at any step, and started again over the same store.

Rule of this file: killed means gone. Nothing that a killed process had planned happens, but what
it had sent does; only the store outlives it.
"""

import asyncio
import contextlib
from collections.abc import Callable
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
from llmao_web.shell.store import MemoryStore, StoreError

from .virtual import SimClock
from .wire import FarWire, ProbeWire, Process, Wire

T = TypeVar("T")

DISK_S = 0.005
Step = Callable[[str], bool | None]
Wrote = Callable[[Order, Ended | None], None]
Passed = Callable[[View, Plan], None]


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
        self, clock: SimClock, plugins: dict[str, object], wire: FarWire, wrote: Wrote
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
    is down. rule: stands in the place of reconcile. pass_s: the longest that a pass takes.
    at_step: told every step, says whether to die there.
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
    ) -> None:
        self.disk = Disk()
        self.disk.process = self
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
        self._task: asyncio.Task[None] | None = None
        self.died: Callable[[BaseException], None] = lambda _error: None

    def start(self) -> None:
        """Start a process; does nothing while one runs."""
        if self._task is not None:
            return
        self.runs += 1
        host = _Host(self.clock, self._plugins, FarWire(self._wire, self), self._wrote)
        self.service = Service(
            self._read(),
            host,
            self.clock,
            self.disk,
            read=self._read,
            reconcile=self._watched,
            offload=self._offload,
            transport=lambda: ProbeWire(self._wire),
        )
        self.started = self.clock.monotonic()
        self._task = asyncio.create_task(self._live(self.service))

    def kill(self) -> None:
        """Let the process be gone, wherever it was."""
        if self._task is not None:
            self._task.cancel()
            self._task, self.service, self.started = None, None, None

    async def step(self, name: str) -> None:
        """Return, unless llmao is killed at this step."""
        if self.at_step(name):
            self.kill()
            await asyncio.Event().wait()

    async def keep(self, *entries: Entry) -> bool:
        """Have a person's decision kept; tell whether it was acknowledged."""
        service = self.service
        if service is None:
            return False
        asked = asyncio.ensure_future(service.keep(*entries))
        # Whoever asked sees the connection break when the process is killed.
        while self.service is service and not asked.done():
            await asyncio.wait([asked], timeout=DISK_S)
        if not asked.done():
            asked.cancel()
            return False
        return asked.exception() is None

    async def _live(self, service: Service) -> None:
        try:
            with contextlib.suppress(asyncio.CancelledError):
                await service.run()
        except BaseException as error:
            self.died(error)

    async def _offload(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run a function in the place of a thread, whose answer comes as late as a pass takes."""
        done = work(*arguments)
        await asyncio.sleep(self.clock.jitter(self._pass_s))
        return done

    def _watched(
        self, snapshots: Snapshots, history: History, policy: Policy, now: float
    ) -> tuple[View, Plan, History]:
        view, plan, after = self._rule(snapshots, history, policy, now)
        self._passed(view, plan)
        return view, plan, after
