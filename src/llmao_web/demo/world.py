"""The simulated world of the demo: providers, boxes, the proxy, and what can be done to them.

Rule of this file: deeds, not a story. Each is what a machine, a provider or a person does.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine, Iterable
from typing import Any

import httpx
from attrs import define, evolve, field, frozen

from llmao_core.bearer import derive
from llmao_core.secret import Secret
from llmao_core.testing.fake_provider import FakeProvider, Life
from llmao_core.testing.fake_vllm import FakeVLLM, Mode
from llmao_core.testing.fake_vllm_metrics import Load
from llmao_litellm.fake import MASTER_KEY, FakeLiteLLM, Speeds
from llmao_litellm.fake_state import Fields, Stored, Worker
from llmao_litellm.fake_traffic import Dialler
from llmao_runpod.fake import FakeRunPod
from llmao_vast.fake import FakeVast
from llmao_web.shell.clock import Clock

from . import fleet
from .box import KV_TOKENS, Box, Quirks
from .fleet import Keys, Places, Rental
from .ports import free_above

_DONE_AT_ONCE = 2
_QUIRKS = {fleet.POD: Quirks(guarded=False), fleet.IDLE: Quirks(comes_up=False)}


class Proxy(FakeLiteLLM):
    """The simulated proxy. insists: params that it sets anew after each write, by row."""

    insists: dict[str, Fields]

    def patch(self, worker: Worker, row_id: str, change: Fields) -> Stored:
        """Merge a change into a row, then what it insists on."""
        row = super().patch(worker, row_id, change)
        if row_id not in self.insists:
            return row
        self.edit(row_id, params=self.insists[row_id])
        return self.db[row_id]


@define
class Checks:
    """How the simulated proxy checks a row. told: part of an address → the error it finds."""

    dialler: Dialler
    told: dict[str, str] = field(factory=dict)

    async def check(self, row: Stored) -> str:
        """Check a row as LiteLLM would, unless the story says what it finds."""
        base = str(row.params.get("api_base"))
        for part, error in self.told.items():
            if part in base:
                return error
        return await self.dialler.check(row)


@frozen
class Stage:
    """The providers and the proxy, up before llmao is. litellm: None where a real one stands in."""

    keys: Keys
    places: Places
    clock: Clock
    http: httpx.AsyncClient
    providers: dict[str, FakeProvider]
    checks: Checks
    litellm: Proxy | None


@contextlib.asynccontextmanager
async def staged(clock: Clock, real: Places | None = None) -> AsyncIterator[Stage]:
    """Serve the providers, and a proxy unless there is a real one, on loopback.

    real: where the real proxy is, and the fleet's name there.
    """
    keys = Keys()
    async with contextlib.AsyncExitStack() as stack:
        http = await stack.enter_async_context(httpx.AsyncClient(trust_env=False, timeout=30))
        checks = Checks(Dialler(http, check_timeout_s=1.5))
        vast = FakeVast(clock.now, key=keys.vast.reveal(), reboot_takes_s=6.0)
        runpod = FakeRunPod(clock.now, key=keys.runpod.reveal(), restart_takes_s=6.0)
        litellm = None if real else _proxy(clock, checks)
        places = Places(
            litellm=real.litellm if real else await stack.enter_async_context(_served(litellm)),
            litellm_key=real.litellm_key if real else Secret(MASTER_KEY),
            vast=await stack.enter_async_context(vast.serve()),
            runpod=await stack.enter_async_context(runpod.serve()),
            fleet=real.fleet if real else fleet.FLEET,
        )
        providers: dict[str, FakeProvider] = {"vast": vast, "runpod": runpod}
        yield Stage(keys, places, clock, http, providers, checks, litellm)


def _served(litellm: Proxy | None) -> contextlib.AbstractAsyncContextManager[str]:
    assert litellm is not None
    return litellm.serve()


def _proxy(clock: Clock, checks: Checks) -> Proxy:
    made = Proxy(
        clock.now,
        poll_interval_s=fleet.POLL_S,
        check=checks.check,
        forward=checks.dialler.forward,
        speeds=Speeds(write_s=lambda _: 0.2, delete_s=0.04),
        sleep=clock.sleep,
    )
    made.insists = {}
    return made


@define
class World:
    """Everything that is rented, and what runs on it. others: servers that no box has fetched."""

    stage: Stage
    llmao_url: str
    boxes: dict[str, Box] = field(factory=dict)
    others: list[FakeVLLM] = field(factory=list)
    strangers: list[FakeVLLM] = field(factory=list)
    _tasks: set[asyncio.Task[None]] = field(factory=set)

    @property
    def litellm(self) -> Proxy | None:
        """Return the simulated proxy, None where a real one stands in."""
        return self.stage.litellm

    async def begin(self) -> None:
        """Rent every box, and switch on those that boot."""
        for rental in fleet.RENTALS:
            self.rent(rental)
        await self._serve(
            fleet.COMMERCIAL_ADDRESS,
            self.stage.places.first_port,
            fleet.COMMERCIAL,
            self.stage.keys.commercial,
        )
        spare = self.boxes[fleet.SPARE]
        await self._serve(spare.address, spare.public(8001), fleet.SMALL, self.bearer(spare.name))
        await self._serve(
            fleet.GONE_ADDRESS,
            self.stage.places.first_port,
            fleet.SMALL,
            self.bearer(fleet.GONE),
        )

        self._beside(self._watch())

    async def _watch(self) -> None:
        """Let the machines reboot that their provider was told to reboot."""
        while True:
            await self.stage.clock.sleep(1)
            for box in list(self.boxes.values()):
                rented = box.provider.boxes[box.instance]
                if rented.reboots == box.reboots or not box.told:
                    continue
                await box.stop()
                if box.provider.life(rented) is Life.RUNNING:
                    box.reboots = rented.reboots
                    self.start(box)

    def rent(self, rental: Rental) -> Box:
        """Rent a box under the id its name tells, and boot it if it does."""
        provider = self.stage.providers[rental.provider]
        named = rental.name != fleet.BY_ADDRESS
        instance = provider.plant(
            rental.name,
            id=fleet.instance_of(rental.name) if named else "",
            address=rental.address,
            ports=self._free(provider, rental.address, rental.ports),
            life=Life.EXITED if rental.stopped else Life.RUNNING,
            gpu_name=rental.gpu,
            gpu_count=rental.gpu_count,
            price_per_hour=rental.price_per_hour,
            shown={"gpu_ram": fleet.CARD_MIB[rental.gpu]} if rental.provider == "vast" else {},
            started_at=self.stage.clock.now() - 5 * 3600,
        )
        box = self.boxes[rental.name] = Box(
            rental.name,
            rental.address,
            provider,
            instance,
            self.llmao_url,
            self.stage.keys.fleet,
            self.stage.clock,
            self.stage.http,
            _QUIRKS.get(rental.name, Quirks()),
        )
        if rental.boots and rental.name != fleet.SPARE:
            self.start(box)
        return box

    def _free(self, provider: FakeProvider, address: str, listen: Iterable[int]) -> dict[int, int]:
        """Return public ports for a box, above those of all there were at its address."""
        used = [
            public
            for one in provider.boxes.values()
            if one.address == address
            for public in one.ports.values()
        ]
        first = max(used, default=self.stage.places.first_port - 1) + 1
        return free_above(address, first, listen)

    def start(self, box: Box) -> None:
        """Switch a box on; it boots on its own."""
        self._beside(box.boot())

    def _beside(self, doing: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(doing)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, address: str, port: int, model: str, bearer: Secret) -> FakeVLLM:
        server = FakeVLLM(
            self.stage.clock.now,
            bearer,
            address=address,
            port=port,
            served=(model,),
            max_model_len=fleet.LENGTHS.get(model, 200_000),
            kv_tokens=KV_TOKENS,
            guarded=True,
        )
        await server.start()
        self.others.append(server)
        return server

    def bearer(self, host: str, *, previous: bool = False) -> Secret:
        """Return the bearer of port 8001 of a host. previous: from the salt before this one."""
        return derive(self.stage.keys.salts[int(previous)], host, 8001)

    async def close(self) -> None:
        """Switch everything off."""
        for task in list(self._tasks):
            task.cancel()
        for box in self.boxes.values():
            await box.stop()
        for server in self.others:
            await server.stop()

    # ---- machines

    def server(self, host: str, port: int = 8001) -> FakeVLLM | None:
        """Return a server; None before its box has been told of it."""
        return self.boxes[host].servers.get(port)

    def become(self, host: str, mode: Mode, port: int = 8001) -> None:
        """Let something be wrong with a server, or right again."""
        if (server := self.server(host, port)) is not None:
            server.mode = mode

    def crowd(self, host: str, port: int) -> None:
        """Send a server more requests than it can take at once, from now on."""
        if (server := self.server(host, port)) is not None:
            server.load = Load(running=16, waiting=5, kv_usage=0.8, generated_per_s=900.0)

    def finish(self, host: str) -> None:
        """Let the servers of a box that gets no new requests be done with some they have."""
        for server in self.boxes[host].servers.values() if host in self.boxes else ():
            load = server.load
            left = max(load.running + load.waiting - _DONE_AT_ONCE, 0)
            running = min(left, load.running)
            fewer = evolve(load, running=running, waiting=left - running)
            server.load = fewer if left else Load()

    async def restart(
        self, host: str, port: int = 8001, down_s: float = 1.5, mode: Mode = Mode.SERVES
    ) -> None:
        """Stop a server and start it again, with something wrong or not."""
        self.become(host, Mode.LOADING, port)
        await self.stage.clock.sleep(down_s)
        self.become(host, mode, port)

    # ---- providers

    async def remap(self, host: str, *, taken: bool = False) -> None:
        """Give a box other public ports. taken: somebody else's server is at an old one."""
        box = self.boxes[host]
        old = box.public(8001)
        self._map_elsewhere(box)
        await box.moved()
        if taken:
            await self.stranger(box.address, old)

    async def vanish(self, host: str) -> None:
        """Take a box off its listing; somebody else's server is at its address."""
        box = self.boxes[host]
        public = box.public(8001)
        box.provider.destroy(box.instance)
        await box.stop()
        await self.stage.clock.sleep(2)
        await self.stranger(box.address, public)

    async def list_again(self, host: str) -> None:
        """List a box again, as the instance that it was, at other ports."""
        box = self.boxes[host]
        box.provider.boxes[box.instance].listed_until = float("inf")
        box.provider.turn(box.instance, Life.RUNNING)
        self._map_elsewhere(box)
        self.start(box)

    def _map_elsewhere(self, box: Box) -> None:
        listen = tuple(box.provider.boxes[box.instance].ports)
        box.provider.remap(box.instance, self._free(box.provider, box.address, listen))

    async def stranger(self, address: str, port: int) -> None:
        """Let somebody else serve at an address."""
        bearer = Secret("sk-of-another-tenant")
        self.strangers.append(await self._serve(address, port, "somebody-elses", bearer))

    async def rid(self) -> None:
        """Let the servers of others be gone."""
        for server in self.strangers:
            await server.stop()
        self.strangers.clear()

    async def replace(self, host: str) -> Box:
        """Rent two new boxes at the address of an old one; return the one that is too many."""
        rental = next(one for one in fleet.RENTALS if one.name == host)
        before = self.boxes[host]
        before.provider.destroy(before.instance)
        await before.stop()
        twin = self.rent(evolve(rental, boots=False))
        self.rent(rental)
        return twin

    # ---- people at the proxy

    def rows(self, host: str, port: int = 8001) -> list[str]:
        """Return the ids of the simulated proxy's rows for a server."""
        box = self.boxes[host]
        if self.litellm is None:
            return []
        base = f"http://{box.address}:{box.public(port)}/"
        return [
            row.id
            for row in self.litellm.truth().values()
            if f"{row.params.get('api_base')}/".startswith(base)
        ]
