"""The small fleet that the pictures in the documents show: the real service over simulated servers.

Rule of this file: time moves only when the story says so and nothing is random, so that the same
code makes the same pages. Nothing opens a socket.
"""

import asyncio
import errno
import math
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
from attrs import define, evolve, field
from tests.shell.office_world import Provider, Proxy

from llmao_core.actions import ActionKind, Order, Outcome
from llmao_core.config import (
    AuthConfig,
    CommercialProvider,
    Config,
    FleetConfig,
    GpuProvider,
    Host,
    HostRow,
    Model,
    Recipe,
)
from llmao_core.hooks import FetchRequest, SourceCard, SourceKind, hookimpl
from llmao_core.intended import Deployment
from llmao_core.keys import normalise_base
from llmao_core.protocol import Fetch, Unknown
from llmao_core.secret import Secret
from llmao_core.snapshots import BoxStatus, Deployments, Endpoint, Health, Instance, Opinion
from llmao_core.testing.clock import VirtualClock
from llmao_core.testing.fake_http import Request
from llmao_core.testing.fake_vllm import FakeVLLM, Mode
from llmao_core.testing.fake_vllm_metrics import Load
from llmao_web.app import create_app
from llmao_web.shell.capacity import INTERVAL_S
from llmao_web.shell.host import PluginHost
from llmao_web.shell.service import Service
from llmao_web.shell.store import MemoryStore

STRANGER = "203.0.113.61"
LARGE, SECOND, SMALL, POD = "203.0.113.10", "203.0.113.11", "c.4711", "k3v9x2m0q1"
GONE_BAD_MIN, LIFE_MIN = 68, 72
_CHAT = {"supports_function_calling": True, "supports_reasoning": True, "license": "Apache-2.0"}


def config() -> Config:
    """Return what the two files of this fleet say."""
    gemma = Recipe("google/gemma-4-26b-it", max_model_len=32768, vram_gb=18, disk_gb=60)
    qwen = Recipe("Qwen/Qwen3-8B", max_model_len=40960, vram_gb=17, disk_gb=20)
    embed = Recipe("Qwen/Qwen3-Embedding-0.6B", vram_gb=3, disk_gb=4, mode="embedding")
    return Config(
        auth=AuthConfig(mode="open"),
        fleet=FleetConfig(
            key=(Secret("fleet-key"),),
            litellm_health_interval_s=600,
            vllm_api_salt=(Secret("salt-1"),),
            hosts=(
                Host(LARGE, (HostRow("gemma4-26b", 8001, "gemma4-26b"),)),
                Host(SECOND, (HostRow("gemma4-26b", 8001, "gemma4-26b"),)),
                Host(
                    SMALL, (HostRow("qwen3-8b", 8001, "qwen3-8b"), HostRow("embed", 8002, "embed"))
                ),
                Host(POD, (HostRow("qwen3-8b", 8001, "qwen3-8b"),)),
            ),
        ),
        gpu_providers=(
            GpuProvider("runpod", Secret("runpod-key")),
            GpuProvider("vast", Secret("vast-key")),
        ),
        commercial=(
            CommercialProvider("openrouter", "https://router.example.org/v1", Secret("k")),
        ),
        models=(
            Model(
                "gemma4-26b",
                "Gemma 4 26B",
                model_info={**_CHAT, "modality": "text+image"},
                recipe=gemma,
            ),
            Model("qwen3-8b", "Qwen3 8B", model_info=_CHAT, recipe=qwen),
            Model("embed", "Qwen3 Embedding", model_info={"license": "Apache-2.0"}, recipe=embed),
            Model(
                "claude",
                "Claude",
                provider="openrouter",
                litellm_params={"model": "openrouter/claude"},
            ),
        ),
    )


def _instance(id: str, address: str, name: str = "", **more: Any) -> Instance:  # noqa: A002
    given: dict[str, Any] = {
        "status": BoxStatus.UP, "gpu_name": "RTX 4090", "gpu_count": 1, "gpu_memory_gb": 24.0,
        "disk_gb": 120.0, "price_per_hour": 0.41, "started_at": VirtualClock().now() - 260_000,
        "location": "Sweden", **more,
    }  # fmt: skip
    ports = {port: Endpoint("http", address, public) for port, public in _MAPPED.items()}
    return Instance(
        id, names=(name,) if name else (), addresses=(address,), endpoints=ports, **given
    )


_LATENCY_S = 0.018
_MAPPED = {8001: 41022, 8002: 41023}
_LISTENS = {public: listen for listen, public in _MAPPED.items()}
_ADDRESSES = {"203.0.113.47": SMALL, "203.0.113.90": POD}


@define(eq=False)
class Router(Proxy):
    """LiteLLM as the service sees it; whoever is in `down` fails its check."""

    now: Callable[[], float] = field(kw_only=True)
    down: set[str] = field(factory=set)

    @hookimpl
    async def llmao_fetch(self, request: FetchRequest) -> Deployments | Health:
        if request.source == "litellm":
            return Deployments(tuple(self.rows.values()))
        return Health(
            {each.id: Opinion(each.id not in self.down, self.now()) for each in self.rows.values()}
        )

    @hookimpl
    async def llmao_execute(self, order: Order) -> Outcome:
        done = await super().llmao_execute(order)
        if order.body is not None:
            row = self.rows[order.target]
            params = {**row.params, "api_base": order.body.api_base}
            base = normalise_base(order.body.api_base)
            self.rows[order.target] = evolve(row, base=base, params=params)
        return done


@define(eq=False)
class Pods(Provider):
    """Another provider."""

    @hookimpl
    def llmao_source(self) -> tuple[SourceCard, ...]:
        return (SourceCard("runpod", SourceKind.LISTING, 60, frozenset({ActionKind.REBOOT_BOX})),)


@define(eq=False)
class Gallery:
    """The fleet at the end of its story. servers: by host and listen port."""

    app: Any
    service: Service
    clock: VirtualClock
    router: Router
    servers: dict[tuple[str, int], FakeVLLM]

    def page_of(self, host: str, port: int = 8001) -> str:
        """Return the address of the page of a box's deployment."""
        intended = self.service.board.intended()
        assert intended
        found = [
            each for each in intended.deployments if (each.host, each.listen_port) == (host, port)
        ]
        return f"/deployments/{found[0].litellm_id}"


@asynccontextmanager
async def gallery() -> AsyncIterator[Gallery]:
    """Live the story of the fleet, and hold still at its end."""
    clock, given = VirtualClock(), config()
    servers: dict[tuple[str, int], FakeVLLM] = {}
    router = Router(now=clock.now)
    plugins = {"litellm": router, "runpod": Pods(_pods()), "vast": Provider(_boxes())}
    store = MemoryStore()
    service = Service(
        given,
        PluginHost(clock, plugins),
        clock,
        store,
        read=lambda: given,
        offload=_at_once,
        transport=lambda: httpx.MockTransport(_Wire(servers, clock)),
    )
    task = asyncio.create_task(service.run())
    app = create_app(service.board, given, clock, records=store, office=service.office)
    made = Gallery(app, service, clock, router, servers)
    try:
        await clock.until(lambda: service.board.view() and service.board.ready()[0])
        await _live(made)
        yield made
    finally:
        service.stop()
        service.stop()
        await clock.until(task.done)
        await task


def _boxes() -> tuple[Instance, ...]:
    return (
        _instance("20443311", LARGE),
        _instance("20443389", SECOND, price_per_hour=0.38, location="Oregon, US"),
        _instance("4711", "203.0.113.47", "c.4711", gpu_name="RTX 3090", price_per_hour=0.22),
        _instance("20450020", STRANGER, location="Japan", started_at=VirtualClock().now() + 4800),
    )


def _pods() -> tuple[Instance, ...]:
    return (_instance(POD, "203.0.113.90", gpu_name="L4", price_per_hour=0.43, location="EU-RO-1"),)


async def _live(world: Gallery) -> None:
    """Boot the boxes, let them work for an hour and a half, and let one fall over."""
    board = world.service.board
    intended = board.intended()
    assert intended
    for each in intended.deployments:
        if each.host:
            world.servers[each.host, each.listen_port] = _server(each, world.clock)
    for host in (LARGE, SECOND, SMALL):
        _asks(world, host)
    await world.clock.advance(240)
    for server in world.servers.values():
        server.mode = Mode.SERVES
    world.servers[POD, 8001].mode = Mode.LOADING
    await world.service.office.label(SECOND, "spare", "Rented for the week of the exam.", "ada")
    for minute in range(4, LIFE_MIN):
        _work(world, minute)
        await world.clock.advance(INTERVAL_S)


def _server(deployment: Deployment, clock: VirtualClock) -> FakeVLLM:
    recipe = deployment.recipe
    assert recipe
    assert deployment.bearer
    length = recipe.max_model_len or 8192
    return FakeVLLM(
        clock.now,
        deployment.bearer,
        served=(deployment.served,),
        root=recipe.model,
        max_model_len=length,
        kv_tokens=length * 5,
        task="embed" if deployment.mode == "embedding" else "generate",
        guarded=True,
        mode=Mode.LOADING,
    )


def _work(world: Gallery, minute: int) -> None:
    """Give every server what it does in one minute of the story."""
    for number, server in enumerate(world.servers.values()):
        busy = 3 + 2.5 * math.sin((minute + 9 * number) / 11) + math.sin(minute * (number + 2) / 3)
        running = max(round(busy), 0)
        server.load = Load(
            running,
            max(running - 5, 0),
            running / 8,
            210.0 * running,
            900.0 * running,
            0.3 * running,
        )
    if minute == GONE_BAD_MIN:
        world.servers[SMALL, 8001].mode = Mode.REFUSES
        world.router.down.add(world.page_of(SMALL).rpartition("/")[2])
    if minute == LIFE_MIN - 5:
        for host in (LARGE, SECOND, SMALL, POD):
            _asks(world, host)
    if minute >= LIFE_MIN - 3:
        world.service.board.note(Unknown(STRANGER))


def _asks(world: Gallery, host: str) -> None:
    answer = world.service.board.answer(host)
    assert answer
    world.service.board.note(Fetch(host, answer.revision, answer.revision))


@define
class _Wire:
    """Carries a probe to the server that its address means, which takes its time."""

    servers: Mapping[tuple[str, int], FakeVLLM]
    clock: VirtualClock

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        await self.clock.sleep(_LATENCY_S)
        host = _ADDRESSES.get(request.url.host, request.url.host)
        server = self.servers.get((host, _LISTENS[request.url.port or 0]))
        if server is None or server.mode in (Mode.LOADING, Mode.REFUSES):
            refused = ConnectionRefusedError(errno.ECONNREFUSED, "refused")
            raise httpx.ConnectError("refused", request=request) from refused
        headers = {name.lower(): value for name, value in request.headers.items()}
        asked = Request(request.method, request.url.path, headers, await request.aread())
        answer = server.receive(asked)
        assert answer
        kind = {"content-type": answer.content_type}
        return httpx.Response(answer.status, content=answer.body, headers=kind)


async def _at_once(work: Callable[..., Any], *args: Any) -> Any:
    return work(*args)
