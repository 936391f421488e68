"""A simulated box: asks llmao what to serve, loads for a while, then serves it.

Rule of this file: a box knows what a box knows: its name, the fleet key, and on which public port
each of its listen ports can be reached.
"""

import contextlib
from typing import Any, Literal

import httpx
from attrs import define, field, frozen

from llmao_core.secret import Secret
from llmao_core.testing.fake_provider import FakeProvider
from llmao_core.testing.fake_vllm import FakeVLLM, Mode
from llmao_web.shell.clock import Clock

BOOT_S = 5.0
ASK_AGAIN_S = 2.0
KV_TOKENS = 180_000
_TASKS: dict[str, Literal["generate", "embed", "rerank"]] = {
    "bge-m3": "embed",
    "bge-reranker": "rerank",
}


@frozen
class Quirks:
    """How a box differs from a good one. comes_up: false for one that loads for ever."""

    guarded: bool = True
    comes_up: bool = True


@define(eq=False)
class Box:
    """One box. provider, instance: where its ports are mapped. told: each server's assignment.

    reboots: how many of its provider's it has made.
    """

    name: str
    address: str
    provider: FakeProvider
    instance: str
    llmao_url: str
    fleet_key: Secret
    clock: Clock
    http: httpx.AsyncClient
    quirks: Quirks = Quirks()
    servers: dict[int, FakeVLLM] = field(factory=dict)
    told: dict[int, Any] = field(factory=dict)
    revision: str = ""
    reboots: int = 0

    def public(self, port: int) -> int:
        """Return the public port of a listen port."""
        return self.provider.boxes[self.instance].ports[port]

    async def boot(self) -> None:
        """Ask until there is a configuration, load, serve."""
        answer = await self._fetch()
        self.revision = answer["revision"]
        self.told = {int(each["port"]): each for each in answer["servers"]}
        for port in self.told:
            await self.place(port, Mode.LOADING)
        await self.clock.sleep(BOOT_S)
        if not self.quirks.comes_up:
            return
        for server in self.servers.values():
            server.mode = Mode.SERVES
        await self.report()

    async def place(self, port: int, mode: Mode) -> None:
        """Open a server where its public port is now."""
        told, before = self.told[port], self.servers.get(port)
        if before is not None:
            await before.stop()
        self.servers[port] = server = FakeVLLM(
            self.clock.now,
            before.bearer if before else Secret(told["api_key"]),
            address=self.address,
            port=self.public(port),
            served=(told["served_model_name"],),
            root=told["model"],
            max_model_len=int(told["max_model_len"]),
            kv_tokens=KV_TOKENS,
            task=_TASKS.get(told["served_model_name"], "generate"),
            guarded=self.quirks.guarded,
            slow_s=8.0,
            mode=mode,
        )
        await server.start()

    async def moved(self) -> None:
        """Follow its ports to where they are mapped now, which may be where another one was."""
        for server in self.servers.values():
            await server.stop()
        for port in self.servers:
            await self.place(port, Mode.SERVES)

    async def report(self, revision: str = "", key: Secret | None = None) -> None:
        """Tell llmao which revision runs. key: another than the fleet's."""
        headers = self._headers(revision or self.revision, key or self.fleet_key)
        with contextlib.suppress(httpx.HTTPError):
            await self.http.head(f"{self.llmao_url}/vllm/config", headers=headers)

    async def announce(self, port: int) -> None:
        """Tell llmao that a server is about to restart."""
        with contextlib.suppress(httpx.HTTPError):
            await self.http.post(
                f"{self.llmao_url}/vllm/notice",
                headers=self._headers("", self.fleet_key),
                json={"restarting": [self.told[port]["name"]]},
            )

    async def stop(self) -> None:
        """Switch it off."""
        for server in self.servers.values():
            await server.stop()
        self.servers.clear()

    def _headers(self, revision: str, key: Secret) -> dict[str, str]:
        given = {"Authorization": f"Bearer {key.reveal()}", "X-LLMAO-Host": self.name}
        return given | ({"X-LLMAO-Revision": revision} if revision else {})

    async def _fetch(self) -> Any:
        """Ask until the answer is a configuration; a box that nobody knows asks for ever."""
        while True:
            with contextlib.suppress(httpx.HTTPError):
                answer = await self.http.get(
                    f"{self.llmao_url}/vllm/config", headers=self._headers("", self.fleet_key)
                )
                if answer.status_code == 200:
                    return answer.json()
            await self.clock.sleep(ASK_AGAIN_S)
