"""A whole service on a clock moved by hand: LiteLLM and a provider are a few lines in this file."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
from attrs import define, evolve, field

from llmao_core.actions import ActionKind, Order, Outcome, OutcomeKind
from llmao_core.config import (
    CommercialProvider,
    Config,
    FleetConfig,
    GpuProvider,
    Host,
    HostRow,
    Model,
    Recipe,
)
from llmao_core.errors import ConfigError, Problem, Unreachable
from llmao_core.hooks import FetchRequest, SourceCard, SourceKind, hookimpl
from llmao_core.secret import Secret
from llmao_core.snapshots import BoxStatus, Deployments, Health, Instance, Listing, Row
from llmao_core.testing.clock import VirtualClock
from llmao_web.shell.host import PluginHost
from llmao_web.shell.leader import Lead
from llmao_web.shell.service import Service
from llmao_web.shell.store import MemoryStore

BOX = "c.4711"
STRANGER = "c.9000"
_WRITES = frozenset({ActionKind.ADD_LITELLM, ActionKind.UPDATE_LITELLM, ActionKind.DELETE_LITELLM})


@define(eq=False)
class Proxy:
    """Stands where LiteLLM's plugin stands: keeps the rows it is told to write."""

    rows: dict[str, Row] = field(factory=dict)
    orders: list[Order] = field(factory=list)
    asked: list[str] = field(factory=list)

    @hookimpl
    def llmao_source(self) -> tuple[SourceCard, ...]:
        return (
            SourceCard("litellm", SourceKind.DEPLOYMENTS, 60, _WRITES),
            SourceCard("litellm_health", SourceKind.HEALTH, 60),
        )

    @hookimpl
    async def llmao_fetch(self, request: FetchRequest) -> Deployments | Health:
        self.asked += request.ask
        return Deployments(tuple(self.rows.values())) if request.source == "litellm" else Health()

    @hookimpl
    async def llmao_execute(self, order: Order) -> Outcome:
        self.orders.append(order)
        if order.body is None:
            self.rows.pop(order.target, None)
        else:
            info = {**order.body.model_info}
            self.rows[order.target] = Row(
                order.target,
                order.body.model_name,
                order.key.base,
                {**order.body.litellm_params, "api_base": order.body.api_base},
                info,
                llmao_key=str(info["llmao_key"]),
                fleet=str(info["llmao_fleet"]),
                hash=str(info["llmao_hash"]),
            )
        return Outcome(OutcomeKind.DONE)


@define(eq=False)
class Provider:
    """Stands where a GPU provider's plugin stands. reboots: ids it was asked to reboot.

    reads: its listing can be read. executes: what it says it carries out.
    """

    instances: tuple[Instance, ...] = ()
    reboots: list[str] = field(factory=list)
    reads: bool = True
    outcome: Outcome = field(factory=lambda: Outcome(OutcomeKind.DONE, "It began."))
    executes: frozenset[ActionKind] = frozenset({ActionKind.REBOOT_BOX})

    @hookimpl
    def llmao_source(self) -> tuple[SourceCard, ...]:
        return (SourceCard("vast", SourceKind.LISTING, 60, self.executes),)

    @hookimpl
    async def llmao_fetch(self) -> Listing:
        if not self.reads:
            raise Unreachable("HTTP 502")
        return Listing(self.instances)

    @hookimpl
    async def llmao_execute(self, order: Order) -> Outcome:
        self.reboots.append(order.target)
        return self.outcome


def instance(name: str, **more: Any) -> Instance:
    """Return a box as the provider lists it, which nothing can dial."""
    known = {"gpu_name": "RTX 4090", "gpu_count": 1, "gpu_memory_gb": 24.0, "disk_gb": 100.0}
    given = {"status": BoxStatus.UP, "names": (name,), "price_per_hour": 0.5, **known, **more}
    return Instance(name.removeprefix("c."), **given)


def config(**changes: Any) -> Config:
    """Return a fleet of one box and one commercial model; changes go into the configuration."""
    given = Config(
        fleet=FleetConfig(
            key=(Secret("fleet-key"),),
            vllm_api_salt=(Secret("salt-1"),),
            hosts=(Host(BOX, (HostRow("gemma", 8001, "gemma"),)),),
        ),
        gpu_providers=(GpuProvider("vast", Secret("vast-key")),),
        commercial=(CommercialProvider("router", "https://router.example.org/v1", Secret("k")),),
        models=(
            Model("gemma", recipe=Recipe("org/gemma", vram_gb=18, disk_gb=60)),
            Model("qwen", recipe=Recipe("org/qwen", vram_gb=9, disk_gb=20)),
            Model("claude", provider="router", litellm_params={"model": "router/claude"}),
        ),
    )
    return evolve(given, **changes)


@define(eq=False)
class Rig:
    """The service and all that surrounds it. file: what a reload reads, or the problem in it."""

    service: Service
    clock: VirtualClock
    store: MemoryStore
    proxy: Proxy
    provider: Provider
    file: list[Config | Problem]

    async def until(self, condition: Callable[[], object]) -> None:
        """Move the clock until a condition holds."""
        await self.clock.until(condition)

    def kinds(self) -> list[str]:
        """Return the kinds of every entry that a person made, oldest first."""
        made = [each.entry for each in self.store.log if each.entry.actor != "llmao"]
        return [entry.kind.value for entry in made]


@asynccontextmanager
async def rig(
    given: Config | None = None,
    store: MemoryStore | None = None,
    clock: VirtualClock | None = None,
    lead: Lead | None = None,
    **of_provider: Any,
) -> AsyncIterator[Rig]:
    """Run a service until its first pass with everything read, and stop it afterwards."""
    clock, given = clock or VirtualClock(), given or config()
    proxy, provider = Proxy(), Provider((instance(BOX), instance(STRANGER)), **of_provider)
    file: list[Config | Problem] = [given]
    host = PluginHost(clock, {"litellm": proxy, "vast": provider})

    def read() -> Config:
        if isinstance(file[0], Problem):
            raise ConfigError([file[0]])
        return file[0]

    kept = store or MemoryStore()
    service = Service(
        given,
        host,
        clock,
        kept,
        read=read,
        lead=lead,
        offload=_at_once,
        transport=lambda: _DEAD,
    )
    task = asyncio.create_task(service.run())
    made = Rig(service, clock, kept, proxy, provider, file)
    try:
        await clock.until(lambda: service.board.view() and service.board.ready()[0])
        await clock.advance(1)
        yield made
    finally:
        service.stop()
        service.stop()
        await clock.until(task.done)
        await task


async def _at_once(work: Callable[..., Any], *args: Any) -> Any:
    return work(*args)


def _refuse(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("nobody is there", request=request)


_DEAD = httpx.MockTransport(_refuse)
