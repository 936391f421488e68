"""A plugin in llmao's own plugin host, over a real connection.

Rule of this file: the only one of the kit that knows the host.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar
from urllib.parse import urlsplit

import httpx
from attrs import evolve

from llmao_core.actions import Order, OutcomeKind
from llmao_core.hooks import FetchRequest
from llmao_core.snapshots import Snapshot
from llmao_web.shell.host import Ended, Failure, PluginHost

from .clock import VirtualClock
from .kit import NOW, Bench, things
from .kit_suite import Suite
from .kit_wire import Mishap
from .served import Call, Reply, Served

T = TypeVar("T")


class HostTests(Suite, kit=True):
    """Checks that llmao's plugin host makes of a plugin."""

    def test_the_host_takes_the_plugin(self, bench: Bench) -> None:
        """The plugin host finds no unknown or misspelt hook, and files the card."""
        host = PluginHost(VirtualClock(NOW), {bench.card: bench.plugin})
        assert bench.source_card() in host.cards()
        assert host.check(bench.good_config()) == ()

    def test_the_host_reads_over_a_real_connection(self, bench: Bench) -> None:
        """What the host reads over a socket is what the far end holds."""
        planted = bench.plant_some(3)
        read = asyncio.run(_hosted(bench, _fetch(bench)))
        assert isinstance(read, Snapshot), f"{read}"
        assert sorted(one.id for one in things(read.body)) == sorted(planted)

    def test_the_host_files_a_failure_under_its_name(self, bench: Bench) -> None:
        """A refused key is a Failure of kind Unauthorized, without the key."""
        bench.mishap(Mishap.UNAUTHORIZED)
        read = asyncio.run(_hosted(bench, _fetch(bench)))
        assert isinstance(read, Failure), f"{read}"
        assert read.trouble.kind == "Unauthorized"
        assert bench.key not in repr(read)

    def test_the_host_carries_out_orders(self, bench: Bench) -> None:
        """The host's outcome of each kind on the card is a good one."""
        for kind in sorted(bench.source_card().executes, key=lambda kind: kind.value):
            order = evolve(bench.order(kind), executor=bench.card)
            ended = asyncio.run(_hosted(bench, _execute(order)))
            assert ended.outcome.kind in (OutcomeKind.DONE, OutcomeKind.ALREADY), f"{ended}"


Use = Callable[[PluginHost, FetchRequest], Awaitable[T]]


def _fetch(bench: Bench) -> "Use[Snapshot[object] | Failure]":
    return lambda host, asked: host.fetch(bench.card, asked, NOW)


def _execute(order: Order) -> "Use[Ended]":
    return lambda host, asked: host.execute(order, asked, NOW)


async def _hosted(bench: Bench, use: Use[T]) -> T:
    """Use a host whose plugin reaches the bench's far end through a loopback port."""
    relay = _Relay(bench)
    host = PluginHost(VirtualClock(NOW), {bench.card: bench.plugin})
    async with relay.serve() as url:
        try:
            path = urlsplit(bench.base_url).path
            return await use(host, evolve(bench.request(), base_url=url + path))
        finally:
            await host.aclose()


class _Relay(Served):
    """Hands each request on to the bench's wire."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    async def handle(self, call: Call) -> Reply:
        root = urlsplit(self._bench.base_url)
        headers = {k: v for k, v in call.headers.items() if k not in ("host", "content-length")}
        request = httpx.Request(
            call.method,
            f"{root.scheme}://{root.netloc}{call.path}",
            params=dict(call.query),
            headers=headers,
            content=call.body,
        )
        answer = await self._bench.wire.handle_async_request(request)
        body = await answer.aread()
        kept = {k: v for k, v in answer.headers.items() if k in ("content-type", "retry-after")}
        return Reply(answer.status_code, body, kept)
