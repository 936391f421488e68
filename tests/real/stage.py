"""What llmao has around it where nothing heavy is needed: a simulated LiteLLM, servers, visitors.

Rule of this file: llmao itself is the real `llmao serve`; all else lives in the event loop of the
test, so whatever waits for a process waits in a thread.
"""

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Self

import httpx
from attrs import define, field, frozen
from tests.real.lab.process import free_port

from llmao_core.secret import Secret
from llmao_core.testing.fake_vllm import FakeVLLM, Mode
from llmao_core.testing.served import Call, Reply
from llmao_litellm.fake import MASTER_KEY, FakeLiteLLM
from llmao_web.pages.flash import COOKIE
from llmao_web.shell.clock import SystemClock

from .llmao import Llmao, Secrets
from .proxy import MODEL
from .timing import now

# How soon is known what was changed behind llmao's back, and that a write shows everywhere.
POLL_S = 1
QUICK = {"skew_interval_s": 1, "health_interval_s": 1, "health_timeout_s": 1}
_CSRF = re.compile(r'name="csrf" value="([^"]+)"')
_PATIENCE_S = 30
_EVERY_S = 0.05


async def until(met: Callable[[], object], within_s: float, what: str) -> float:
    """Return how long it took until the condition was met; AssertionError says what was not."""
    began = now()
    while not met():
        assert now() - began < within_s, f"after {within_s:.0f} s: not {what}"
        await asyncio.sleep(_EVERY_S)
    return now() - began


# ---- LiteLLM


@define
class Wrote:
    """One write that LiteLLM was asked for. door: the port it came in by.

    began, ended: monotonic; ended is None until it is answered.
    """

    began: float
    door: int
    path: str
    ended: float | None = None


class NotingLiteLLM(FakeLiteLLM):
    """A simulated LiteLLM that notes who wrote when, and whether a key ever had two rows.

    held_s: how long a write waits before it is carried out. answer_s: how long its answer waits
    after that.
    """

    def __init__(self, held_s: Callable[[], float], answer_s: float) -> None:
        super().__init__(SystemClock().now, poll_interval_s=POLL_S)
        self.writes: list[Wrote] = []
        self.twice: set[tuple[str, str]] = set()
        self._held_s = held_s
        self._answer_s = answer_s

    async def handle(self, call: Call) -> Reply:
        """Answer one request, and note it when it is a write."""
        if call.method == "GET" or not call.path.startswith("/model/"):
            return await super().handle(call)
        wrote = Wrote(now(), int(call.headers["host"].rpartition(":")[2]), call.path)
        self.writes.append(wrote)
        await asyncio.sleep(self._held_s())
        reply = await super().handle(call)
        self._look()
        await asyncio.sleep(self._answer_s)
        wrote.ended = now()
        return reply

    def _look(self) -> None:
        keys = self.keys_in()
        self.twice |= {key for key in keys if keys.count(key) > 1}

    def keys_in(self) -> list[tuple[str, str]]:
        """Return the key of every row, as address and model."""
        return [(str(row.info.get("llmao_key")), row.model_name) for row in self.db.values()]

    def begun_since(self, moment: float) -> list[Wrote]:
        """Return the writes that began after a moment."""
        return [each for each in self.writes if each.began > moment]

    def turns(self, moment: float = 0.0) -> list[int]:
        """Return who began writes after a moment, one door for each time the writer changed."""
        doors = [each.door for each in self.begun_since(moment)]
        return [door for n, door in enumerate(doors) if n == 0 or doors[n - 1] != door]


@frozen
class Door:
    """One address of the simulated LiteLLM: who comes in by it is known by its port."""

    url: str
    master_key: str = MASTER_KEY

    @property
    def port(self) -> int:
        """Return its port."""
        return int(self.url.rpartition(":")[2])


# ---- servers


@define
class Server:
    """A simulated vLLM, and its place in a configuration."""

    host: str
    port: int
    bearer: str
    vllm: FakeVLLM = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.vllm = FakeVLLM(
            SystemClock().now,
            Secret(self.bearer),
            address=self.host,
            port=self.port,
            served=(MODEL,),
            guarded=True,
        )

    @property
    def key(self) -> tuple[str, str]:
        """Return its key as `NotingLiteLLM` notes it."""
        return self.vllm.base, MODEL


# ---- those who ask llmao


class NotDoneError(Exception):
    """llmao answered that it did not do what was asked; the message is what it said."""


class Visitor:
    """Somebody at one llmao: an admin at its pages, or boxes with the fleet's key."""

    def __init__(self, url: str, hidden: Secrets) -> None:
        self._client = httpx.AsyncClient(base_url=url, timeout=_PATIENCE_S, trust_env=False)
        self._fleet_key = hidden.fleet_key
        self._csrf = ""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def get(self, path: str) -> httpx.Response:
        """Return any address as a browser gets it."""
        return await self._client.get(path, headers={"accept": "text/html"})

    async def fetch(self, host: str) -> httpx.Response:
        """Return what a box is answered."""
        headers = {"authorization": f"Bearer {self._fleet_key}", "x-llmao-host": host}
        return await self._client.get("/vllm/config", headers=headers)

    async def does(self, deed: str, **form: str) -> str:
        """Press a button and return what is said; NotDoneError when it was not done."""
        if not self._csrf:
            found = _CSRF.search((await self.get("/admin")).text)
            assert found, "the page has a form"
            self._csrf = found[1]
        answer = await self._client.post(
            f"/do-{deed}",
            data={"csrf": self._csrf, **form},
            headers={"accept": "text/html", "sec-fetch-site": "same-origin"},
        )
        assert 303 == answer.status_code, answer.text
        tone, words = _told(answer.cookies[COOKIE])
        if tone != "good":
            raise NotDoneError(words)
        return words

    async def approve(self, host: str, name: str, port: int) -> str:
        """Approve a host that serves the model as a process of that name."""
        return await self.does("approve", host=host, model=MODEL, port=str(port), name=name)


def _told(cookie: str) -> tuple[str, str]:
    tone, words = json.loads(base64.urlsafe_b64decode(cookie + "=" * (-len(cookie) % 4)))
    return tone, words


# ---- all of it


@define
class Stage:
    """The simulated parts, and every llmao in front of them."""

    folder: Path
    litellm: NotingLiteLLM
    doors: tuple[Door, ...]
    servers: tuple[Server, ...]
    hidden: Secrets
    made: list[Llmao] = field(factory=list)

    def llmao(
        self, store: str = "", door: int = 0, more: Mapping[str, Any] | None = None, **fleet: Any
    ) -> Llmao:
        """Configure one more llmao. store: a URL, "" for a file of its own. more: sections."""
        more = {
            **(more or {}),
            "fleet": {**QUICK, **fleet},
            **({"store": store} if store else {}),
        }
        folder = self.folder / f"llmao-{len(self.made)}"
        made = Llmao(folder, self.doors[door], self.servers, self.hidden, POLL_S, more)
        self.made.append(made)
        return made

    def visitor(self, llmao: Llmao) -> Visitor:
        """Return somebody at a llmao that runs."""
        return Visitor(llmao.url, self.hidden)

    @property
    def keys(self) -> list[tuple[str, str]]:
        """Return the keys of the servers that serve."""
        return sorted(each.key for each in self.servers if each.vllm.mode is Mode.SERVES)

    async def routed(self, within_s: float) -> float:
        """Wait until every server that serves has a row, and no other."""
        settled: Callable[[], bool] = lambda: sorted(self.litellm.keys_in()) == self.keys  # noqa: E731
        return await until(settled, within_s, f"routed: {self.litellm.keys_in()}")


@asynccontextmanager
async def staged(
    folder: Path, hosts: Iterable[str], doors: int = 1, held_s: Callable[[], float] = lambda: 0.0,
    answer_s: float = 0.0,
) -> AsyncIterator[Stage]:  # fmt: skip
    """Give a stage with a server on each of some hosts; no log of a llmao may hold a secret."""
    hidden = Secrets()
    litellm = NotingLiteLLM(held_s, answer_s)
    async with AsyncExitStack() as stack:
        urls = [await stack.enter_async_context(litellm.serve()) for _ in range(doors)]
        servers: list[Server] = []
        for host in hosts:
            port = free_port(host)
            server = Server(host, port, hidden.bearer(host, port))
            await server.vllm.start()
            stack.push_async_callback(server.vllm.stop)
            servers.append(server)
        stage = Stage(folder, litellm, tuple(map(Door, urls)), tuple(servers), hidden)
        try:
            yield stage
        finally:
            for each in stage.made:
                await asyncio.to_thread(each.kill)
        assert [] == [found for each in stage.made for found in each.leaks(each.log.read_text())]
        assert set() == litellm.twice
