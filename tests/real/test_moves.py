"""What callers notice when a server is taken out or moved in good order: nothing."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from typing import Self

import pytest
from tests.real.lab.process import free_port

from llmao_vast.fake import KEY, FakeVast
from llmao_web.shell.clock import SystemClock

from .conftest import POLL_S, Figures, Lab, NewLlmao
from .proxy import MODEL, Caller, Proxy
from .timing import pause, seconds_until

pytestmark = pytest.mark.real

ROUTED_S = 60
GONE_S = 15
MOVED_S = 30
# As long as the installer waits between its announcement and the restart.
NOTICE_WAIT_S = 10


def test_nobody_notices_an_announced_restart(
    lab: Lab, proxy: Proxy, new_llmao: NewLlmao, figures: Figures
) -> None:
    """A box announces that a server restarts: its route goes first, the other member of the pool
    serves, the route comes back, and no request of a caller fails from beginning to end."""
    lab.serve(lab.first, lab.second)
    llmao = new_llmao(lab.first, lab.second)
    llmao.start()
    seconds_until(lambda: len(proxy.bases()) == 2, ROUTED_S, "both routed")
    pause(2 * POLL_S)
    with Caller(proxy) as caller:
        seconds_until(lambda: len(caller.asked) > 10, 60, "asking")
        llmao.announce(lab.first.host, MODEL)
        gone = seconds_until(lambda: lab.first.url not in proxy.bases(), GONE_S, "gone")
        pause(max(NOTICE_WAIT_S - gone, 0.0))
        lab.first.kill()
        lab.first.start()
        lab.first.wait_ready()
        back = seconds_until(lambda: len(proxy.bases()) == 2, ROUTED_S, "back")
        pause(2 * POLL_S)
    figures("announced → route gone", gone)
    figures("serves again → routed", back)
    figures("meanwhile", caller.says())
    assert [] == caller.errors
    assert ["delete_litellm", "add_litellm"] == [each["kind"] for each in llmao.actions()][-2:]


class Listed:
    """A provider's list on loopback, and public ports that lead to a server; use in `with`."""

    def __init__(self) -> None:
        self.vast = FakeVast(now=SystemClock().now)
        self.url = ""
        self._up = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    async def _serve(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        self._ports = contextlib.AsyncExitStack()
        async with self.vast.serve() as self.url, self._ports:
            self._up.set()
            await self._over.wait()

    def __enter__(self) -> Self:
        """Begin to answer."""
        self._thread.start()
        assert self._up.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(30)

    def lead(self, host: str, public: int, port: int) -> None:
        """Let a public port lead to a listen port of the same address."""

        async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there, here = await asyncio.open_connection(host, port)
            await asyncio.gather(_copy(reader, here), _copy(there, writer))

        async def start() -> None:
            server = await asyncio.start_server(forward, host, public)
            self._ports.callback(server.close)

        asyncio.run_coroutine_threadsafe(start(), self._loop).result(30)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError), contextlib.closing(writer):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()


@pytest.fixture
def listed() -> Iterator[Listed]:
    with Listed() as listed:
        yield listed


def test_nobody_notices_a_remap(
    lab: Lab, proxy: Proxy, new_llmao: NewLlmao, figures: Figures, listed: Listed
) -> None:
    """The provider maps the listen port to another public port while the server serves: the same
    row gets the new address, and no request of a caller fails."""
    server = lab.first
    lab.serve(server)
    old, new = free_port(server.host), free_port(server.host)
    for public in (old, new):
        listed.lead(server.host, public, server.port)
    box = listed.vast.plant("tiny-box", address=server.host, ports={server.port: old})
    section = {"api_key": KEY, "base_url": listed.url, "interval_s": 2}
    llmao = new_llmao(server, more={"providers": {"vast": section}})
    llmao.start()
    seconds_until(lambda: f"http://{server.host}:{old}" in proxy.bases(), ROUTED_S, "routed")
    stored = proxy.stored()
    with Caller(proxy) as caller:
        seconds_until(lambda: len(caller.asked) > 10, 60, "asking")
        listed.vast.remap(box, {server.port: new})
        moved = seconds_until(
            lambda: proxy.bases() == {f"http://{server.host}:{new}"}, MOVED_S, "moved"
        )
        pause(2 * POLL_S)
    figures("remapped → row has the new address", moved)
    figures("meanwhile", caller.says())
    assert [] == caller.errors
    assert stored == proxy.stored(), "the same row, created when it was"
    assert ["add_litellm", "update_litellm"] == [each["kind"] for each in llmao.actions()]
