"""A simulated fleet for the demo: boxes, their vLLMs, LiteLLM, and a director who breaks things.

Rule of this file: everything speaks the real HTTP over loopback, so that llmao in front cannot
tell it from a fleet. It stops by itself after the minutes it was given.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
from attrs import define, field, frozen

from llmao_core.config import (
    CanaryConfig,
    CommercialProvider,
    Config,
    FleetConfig,
    Host,
    HostRow,
    LitellmConfig,
    Model,
    Recipe,
    ServerConfig,
)
from llmao_core.secret import Secret
from llmao_core.testing.fake_vllm import FakeVLLM, Mode
from llmao_litellm.fake import MASTER_KEY, FakeLiteLLM, Speeds
from llmao_litellm.fake_traffic import Dialler

from .shell.clock import Clock

POLL_S = 2.0
BOOT_S = 6.0
SCENE_S = 14.0
STRANGER = "127.0.0.6"
COMMERCIAL = "127.0.0.5"
COMMERCIAL_PORT = 8009
_HOSTS = {
    "127.0.0.2": (("gemma4-26b", 8001), ("qwen3-8b", 8002)),
    "127.0.0.3": (("qwen3-8b", 8001),),
    "127.0.0.4": (("gemma4-26b", 8001), ("bge-m3", 8002)),
}
_LENGTHS = {"gemma4-26b": 32768, "qwen3-8b": 40960, "bge-m3": 8192}


@frozen
class Keys:
    """The demo's secrets, made anew at each start."""

    fleet: Secret = field(factory=lambda: Secret(secrets.token_urlsafe(24)))
    salt: Secret = field(factory=lambda: Secret(secrets.token_urlsafe(24)))
    commercial: Secret = field(factory=lambda: Secret(secrets.token_urlsafe(24)))


def demo_config(litellm_url: str, server: ServerConfig, keys: Keys) -> Config:
    """Return the configuration of the demo: a small fleet whose time runs fast."""
    return Config(
        server=server,
        litellm=LitellmConfig(litellm_url, Secret(MASTER_KEY), poll_interval_s=POLL_S),
        fleet=FleetConfig(
            name="demo",
            key=(keys.fleet,),
            vllm_api_salt=(keys.salt,),
            health_interval_s=1.5,
            health_timeout_s=1,
            canary=CanaryConfig(silent_s=6, timeout_s=2),
            health_grace_s=25,
            skew_interval_s=4,
            hosts=tuple(
                Host(name, tuple(HostRow(model, port, model) for model, port in rows))
                for name, rows in _HOSTS.items()
            ),
        ),
        commercial=(
            CommercialProvider(
                "openrouter", f"http://{COMMERCIAL}:{COMMERCIAL_PORT}/v1", keys.commercial
            ),
        ),
        models=(
            _model("gemma4-26b", "Gemma 4 26B", "google/gemma-4-26b-it"),
            _model("qwen3-8b", "Qwen3 8B", "Qwen/Qwen3-8B"),
            _model("bge-m3", "BGE M3", "BAAI/bge-m3", mode="embedding"),
            Model(
                "claude-x",
                "Claude X",
                provider="openrouter",
                litellm_params={"model": "openrouter/claude-x"},
            ),
        ),
    )


def _model(name: str, shown: str, weights: str, **recipe: Any) -> Model:
    made = Recipe(weights, max_model_len=_LENGTHS[name], **recipe)
    info = {"vllm": {"model": weights, "max_model_len": _LENGTHS[name]}}
    return Model(name, shown, model_info=info, recipe=made)


@define
class Box:
    """One simulated box: asks llmao what to serve, loads for a while, then serves it."""

    host: str
    llmao_url: str
    keys: Keys
    clock: Clock
    http: httpx.AsyncClient
    servers: dict[int, FakeVLLM] = field(factory=dict)
    revision: str = ""

    async def boot(self) -> None:
        """Fetch the configuration until there is one, load, serve."""
        answer = await self._fetch()
        if answer is None:
            return
        self.revision = answer["revision"]
        for told in answer["servers"]:
            await self._load(told)
        await self.clock.sleep(BOOT_S)
        for server in self.servers.values():
            server.mode = Mode.SERVES
        await self.report()

    async def report(self) -> None:
        """Tell llmao which revision runs."""
        with contextlib.suppress(httpx.HTTPError):
            await self.http.head(f"{self.llmao_url}/vllm/config", headers=self._headers())

    async def announce(self, name: str) -> None:
        """Tell llmao that a server is about to restart."""
        with contextlib.suppress(httpx.HTTPError):
            await self.http.post(
                f"{self.llmao_url}/vllm/notice",
                headers=self._headers(),
                json={"restarting": [name]},
            )

    async def stop(self) -> None:
        """Switch it off."""
        for server in self.servers.values():
            await server.stop()

    def _headers(self) -> dict[str, str]:
        given = {"Authorization": f"Bearer {self.keys.fleet.reveal()}", "X-LLMAO-Host": self.host}
        return given | ({"X-LLMAO-Revision": self.revision} if self.revision else {})

    async def _fetch(self) -> Any:
        for _ in range(20):
            with contextlib.suppress(httpx.HTTPError):
                url = f"{self.llmao_url}/vllm/config"
                answer = await self.http.get(url, headers=self._headers())
                if answer.status_code == 200:
                    return answer.json()
            await self.clock.sleep(1.0)
        return None

    async def _load(self, told: Any) -> None:
        port = int(told["port"])
        if port in self.servers:
            await self.servers[port].stop()
        embeds = told["name"] == "bge-m3"
        self.servers[port] = FakeVLLM(
            self.clock.now,
            Secret(told["api_key"]),
            address=self.host,
            port=port,
            served=(told["served_model_name"],),
            root=told["model"],
            max_model_len=int(told["max_model_len"]),
            kv_tokens=180_000,
            task="embed" if embeds else "generate",
            guarded=True,
            slow_s=8.0,
            mode=Mode.LOADING,
        )
        await self.servers[port].start()


@define
class World:
    """All of it. say: told what happens, one sentence each."""

    litellm: FakeLiteLLM
    boxes: dict[str, Box]
    keys: Keys
    clock: Clock
    http: httpx.AsyncClient
    llmao_url: str
    say: Callable[[str], None]
    provider: FakeVLLM

    async def run(self, minutes: float) -> None:
        """Boot every box, then play the scenes one after the other until the time is up."""
        self.say("Three boxes boot: they fetch their configuration and load.")
        await self.provider.start()
        await asyncio.gather(*(box.boot() for box in self.boxes.values()))
        until = self.clock.monotonic() + minutes * 60
        scenes = self._scenes()
        for number in range(int(minutes * 60 / SCENE_S) + 1):
            await self.clock.sleep(SCENE_S)
            if self.clock.monotonic() >= until:
                break
            what, scene = scenes[number % len(scenes)]
            self.say(what)
            await scene()
        self.say(f"{minutes:g} minutes are over: the demo ends.")

    async def close(self) -> None:
        """Switch everything off."""
        for box in self.boxes.values():
            await box.stop()
        await self.provider.stop()

    def _scenes(self) -> list[tuple[str, Callable[[], Awaitable[None]]]]:
        return [
            (
                "127.0.0.2 port 8001 dies: its vLLM is killed, and supervisord starts it again.",
                lambda: self._for("127.0.0.2", 8001, Mode.REFUSES),
            ),
            ("Somebody deletes a deployment in LiteLLM's own pages.", self._delete_by_hand),
            (
                "127.0.0.3 port 8001 hangs: it accepts connections and never answers.",
                lambda: self._for("127.0.0.3", 8001, Mode.HANGS),
            ),
            (
                "127.0.0.4 port 8001 is busy: slow to answer, its counters move. It is left alone.",
                lambda: self._for("127.0.0.4", 8001, Mode.SLOW),
            ),
            ("Somebody changes a deployment's timeout in LiteLLM's own pages.", self._edit_by_hand),
            (
                f"{STRANGER} asks for a configuration with the fleet key; nobody knows it.",
                self._stranger,
            ),
            (
                "127.0.0.2 port 8002 freezes: /health says 200, and nothing moves any more.",
                lambda: self._for("127.0.0.2", 8002, Mode.FROZEN, SCENE_S * 1.5),
            ),
            (
                "127.0.0.4 announces that it restarts bge-m3: its route goes first.",
                self._announced_restart,
            ),
            (
                "127.0.0.3 port 8001 comes up with another model.",
                lambda: self._for("127.0.0.3", 8001, Mode.WRONG_MODEL),
            ),
            (
                "127.0.0.4 port 8001 refuses our bearer: it runs an old key.",
                lambda: self._for("127.0.0.4", 8001, Mode.WRONG_KEY),
            ),
        ]

    async def _for(self, host: str, port: int, mode: Mode, seconds: float = SCENE_S) -> None:
        server = self.boxes[host].servers.get(port)
        if server is None:
            return
        server.mode = mode
        await self.clock.sleep(seconds)
        server.mode = Mode.SERVES
        self.say(f"{host} port {port} serves again.")

    async def _delete_by_hand(self) -> None:
        ours = sorted(self.litellm.truth())
        if ours:
            self.litellm.remove(ours[0])

    async def _edit_by_hand(self) -> None:
        ours = sorted(self.litellm.truth())
        if ours:
            self.litellm.edit(ours[-1], params={"timeout": 5})

    async def _stranger(self) -> None:
        box = Box(STRANGER, self.llmao_url, self.keys, self.clock, self.http)
        await box.report()

    async def _announced_restart(self) -> None:
        box = self.boxes["127.0.0.4"]
        await box.announce("bge-m3")
        await self.clock.sleep(4.0)
        await self._for("127.0.0.4", 8002, Mode.LOADING, BOOT_S)


@contextlib.asynccontextmanager
async def simulated(clock: Clock, say: Callable[[str], None]) -> AsyncIterator["Stage"]:
    """Give a LiteLLM on loopback, and a stage on which the world can be set up."""
    async with httpx.AsyncClient(trust_env=False, timeout=30) as http:
        dialler = Dialler(http, check_timeout_s=2.0)
        litellm = FakeLiteLLM(
            clock.now,
            poll_interval_s=POLL_S,
            check=dialler.check,
            forward=dialler.forward,
            speeds=Speeds(write_s=lambda _: 0.2, delete_s=0.04),
            sleep=clock.sleep,
        )
        async with litellm.serve() as url:
            yield Stage(litellm, url, http, clock, say)


@frozen
class Stage:
    """The proxy and what a world needs besides llmao's own address."""

    litellm: FakeLiteLLM
    litellm_url: str
    http: httpx.AsyncClient
    clock: Clock
    say: Callable[[str], None]

    def world(self, llmao_url: str, keys: Keys) -> World:
        """Return the world, its boxes still off."""
        boxes = {host: Box(host, llmao_url, keys, self.clock, self.http) for host in _HOSTS}
        provider = FakeVLLM(
            self.clock.now,
            keys.commercial,
            address=COMMERCIAL,
            port=COMMERCIAL_PORT,
            served=("claude-x",),
        )
        return World(
            self.litellm, boxes, keys, self.clock, self.http, llmao_url, self.say, provider
        )
