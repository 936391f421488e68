"""The wire: how calls reach the fakes and the boxes without a socket, and what goes wrong on it.

Rule of this file: what was sent is carried out even when the sender is gone; time-outs are the
caller's own. Each boundary of a call is a step at which llmao can be killed.
"""

import asyncio
import errno
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Protocol

import httpx
from attrs import define, field

from llmao_core.testing.fake_http import Request
from llmao_core.testing.fake_provider import FakeProvider
from llmao_core.testing.served import Call, Reply, Served

from .boxes import Condition, Ground, Spot
from .faults import Far, Fault, Weather

LATENCY_S = 0.02
SLOW_S = 8.0
LITELLM_PORT = 4000
PORTS: Mapping[int, Far] = {
    LITELLM_PORT: Far.LITELLM, 9001: Far.VAST, 9002: Far.RUNPOD,
}  # fmt: skip
BASES: Mapping[Far, str] = {far: f"http://127.0.0.1:{port}" for port, far in PORTS.items()}
_PAGE = b"<!doctype html><html><title>Welcome</title></html>"
_SAID: Mapping[Fault, tuple[int, bytes]] = {
    Fault.UNAUTHORIZED: (401, b'{"detail":"Unauthorized"}'),
    Fault.NOT_FOUND: (404, b'{"detail":"Not Found"}'),
    Fault.BUSY: (429, b"slow down"),
    Fault.FAILED: (500, b"Internal Server Error"),
    Fault.DONE_AND_FAILED: (500, b"Internal Server Error"),
    Fault.HTML: (200, _PAGE),
}
_NOTHING_DONE = (
    Fault.UNAUTHORIZED, Fault.NOT_FOUND, Fault.BUSY, Fault.FAILED, Fault.HTML,
)  # fmt: skip
# A status that is the answer: no such row in this router, an unhealthy server.
_ANSWERS = ("/model/info", "/health")


class Process(Protocol):
    """The part of llmao's process the wire knows."""

    async def step(self, name: str) -> None:
        """Return, unless llmao is killed at this step."""
        ...


Spawn = Callable[[Coroutine[Any, Any, Reply]], "asyncio.Task[Reply]"]
Delivered = Callable[[Process, Far, Call, Reply], None]


@define(eq=False)
class Wire:
    """What the wires of one world share.

    frozen: sources whose reads are answered as the last time; remembers: whether what is answered
    is kept for that. cut: (from, address) pairs that do not reach each other; mended: when they
    last did again.
    """

    ground: Ground
    served: Mapping[Far, Served]
    weather: Weather
    seconds: Callable[[], float]
    spawn: Spawn
    delivered: Delivered
    frozen: set[str] = field(factory=set)
    remembers: bool = False
    cut: set[tuple[str, str]] = field(factory=set)
    mended: dict[tuple[str, str], float] = field(factory=dict)
    last: dict[tuple[object, ...], Any] = field(factory=dict)

    def mend(self, pair: tuple[str, str]) -> None:
        """Let a pair reach each other again, and remember when."""
        self.cut.discard(pair)
        self.mended[pair] = self.seconds()
        self.weather.mark(Far.BOXES, self.seconds())

    def reached_since(self, address: str) -> float:
        """Return when the last cut to an address ended, of llmao's network or of LiteLLM's."""
        times = [at for (_, where), at in self.mended.items() if where in ("", address)]
        return max(times, default=0.0)

    def spot(self, origin: str, base: httpx.URL) -> Spot:
        """Return what stands at a URL, as seen from llmao or from LiteLLM."""
        address = base.host
        if (origin, address) in self.cut or (origin, "") in self.cut:
            return Spot(Condition.SILENT)
        return self.ground.at(address, base.port or 80)


class FarWire(httpx.AsyncBaseTransport):
    """Carries the plugins' requests to LiteLLM and the providers."""

    def __init__(self, wire: Wire, process: Process) -> None:
        self._wire = wire
        self._process = process

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer one request, or fail as the network would."""
        limits = request.extensions.get("timeout", {})
        try:
            async with asyncio.timeout(limits.get("read")):
                return await self._exchange(request)
        except TimeoutError:
            self._wire.weather.mark(PORTS[request.url.port or 80], self._wire.seconds())
            raise httpx.ReadTimeout("no answer in time", request=request) from None

    async def _exchange(self, request: httpx.Request) -> httpx.Response:
        wire, far = self._wire, PORTS[request.url.port or 80]
        call = _call(request)
        name = f"{far.value} {call.method} {call.path}"
        await self._process.step(f"{name}, before")
        await asyncio.sleep(LATENCY_S)
        if (old := self._from_the_past(far, call)) is not None:
            return _response(old, request)
        fault = wire.weather.draw(far, wire.seconds())
        reply = await self._faulty(fault, far, call, request)
        await self._process.step(f"{name}, carried out")
        await asyncio.sleep(LATENCY_S)
        if fault is Fault.NONE:
            if reply.status >= 400 and call.path not in _ANSWERS:
                wire.weather.mark(far, wire.seconds())
            if wire.remembers and call.method == "GET":
                wire.last[_asked(far, call)] = reply
            wire.delivered(self._process, far, call, reply)
        else:
            wire.weather.mark(far, wire.seconds())
        return _response(reply, request)

    def _from_the_past(self, far: Far, call: Call) -> Reply | None:
        source = _source(far, call)
        if call.method != "GET" or source not in self._wire.frozen:
            return None
        self._wire.weather.mark(far, self._wire.seconds())
        old: Reply | None = self._wire.last.get(_asked(far, call))
        return old

    async def _faulty(self, fault: Fault, far: Far, call: Call, request: httpx.Request) -> Reply:
        if fault is Fault.NONE:
            return await self._serve(far, call)
        if fault is Fault.SLOW:
            await asyncio.sleep(SLOW_S)
            return await self._serve(far, call)
        if fault is Fault.NOT_SENT:
            raise httpx.ConnectError("connection refused", request=request)
        if fault in _NOTHING_DONE:
            return Reply(*_SAID[fault])
        if fault is Fault.LOST_BEFORE:
            await asyncio.Event().wait()
        if fault is Fault.BROKEN_BEFORE:
            raise httpx.ReadError("connection reset", request=request)
        return await self._done(fault, far, call, request)

    async def _done(self, fault: Fault, far: Far, call: Call, request: httpx.Request) -> Reply:
        """Have it carried out, and let something happen to the answer."""
        if fault in (Fault.EMPTY, Fault.HALF_PAGE):
            return await self._short(fault, far, call)
        reply = await self._serve(far, call)
        if fault is Fault.LOST_AFTER:
            await asyncio.Event().wait()
        if fault is Fault.BROKEN_AFTER:
            raise httpx.ReadError("connection reset", request=request)
        if fault is Fault.DONE_AND_FAILED:
            return Reply(*_SAID[fault])
        if fault is Fault.TRUNCATED:
            return Reply(reply.status, reply.body[: len(reply.body) // 2], reply.headers)
        return reply

    async def _short(self, fault: Fault, far: Far, call: Call) -> Reply:
        """Have a list answered with too few rows; another request is answered as it should be."""
        served = self._wire.served[far]
        if isinstance(served, FakeProvider) and call.method == "GET":
            served.go_wrong("empty" if fault is Fault.EMPTY else "half_page")
        elif (call.path, call.query) == ("/model/info", {}):
            return Reply(200, b'{"data":[]}')
        return await self._serve(far, call)

    async def _serve(self, far: Far, call: Call) -> Reply:
        """Have it carried out, whatever becomes of the caller."""
        reply = await asyncio.shield(self._wire.spawn(self._handled(far, call)))
        if reply.cut:
            raise httpx.RemoteProtocolError("peer closed connection")
        return reply

    async def _handled(self, far: Far, call: Call) -> Reply:
        try:
            return await self._wire.served[far].handle(call)
        except KeyError:
            # Somebody deleted the row in the middle of a write.
            return Reply(*_SAID[Fault.FAILED])


class ProbeWire(httpx.AsyncBaseTransport):
    """Carries llmao's probes to the boxes."""

    def __init__(self, wire: Wire, going: Callable[[], Awaitable[None]]) -> None:
        self._wire = wire
        self._going = going

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer one probe, or fail as the network would; time-outs are the prober's."""
        await self._going()
        try:
            return await self._exchange(request)
        finally:
            await self._going()

    async def _exchange(self, request: httpx.Request) -> httpx.Response:
        wire = self._wire
        await asyncio.sleep(LATENCY_S)
        if wire.remembers and (old := self._from_the_past(request)) is not None:
            return _reply(old)
        fault = wire.weather.draw(Far.BOXES, wire.seconds())
        if fault is not Fault.NONE:
            return await self._faulty(fault, request)
        answer = await reach(wire.spot("llmao", request.url), request)
        if wire.remembers:
            wire.last[_probed(request)] = answer
        return _reply(answer)

    def _from_the_past(self, request: httpx.Request) -> tuple[int, bytes] | None:
        wire = self._wire
        if "boxes" not in wire.frozen:
            return None
        wire.weather.mark(Far.BOXES, wire.seconds())
        old: tuple[int, bytes] | None = wire.last.get(_probed(request))
        return old

    async def _faulty(self, fault: Fault, request: httpx.Request) -> httpx.Response:
        if fault in (Fault.LOST_BEFORE, Fault.LOST_AFTER):
            await asyncio.Event().wait()
        if fault is Fault.BROKEN_BEFORE:
            raise httpx.ReadError("connection reset", request=request)
        if fault in _SAID:
            return _reply(_SAID[fault])
        if fault is Fault.SLOW:
            await asyncio.sleep(SLOW_S)
        status, body = await reach(self._wire.spot("llmao", request.url), request)
        return _reply((status, body[: len(body) // 2] if fault is Fault.TRUNCATED else body))


async def reach(spot: Spot, request: httpx.Request) -> tuple[int, bytes]:
    """Return status and body of what stands there; raise, or wait for ever, as a socket would."""
    if spot.condition is Condition.CLOSED:
        refused = ConnectionRefusedError(errno.ECONNREFUSED, "connection refused")
        raise httpx.ConnectError("connection refused", request=request) from refused
    if spot.vllm is None:
        return await _never()
    asked = Request(
        request.method,
        request.url.path,
        {name.lower(): value for name, value in request.headers.items()},
        request.content,
    )
    answer = spot.vllm.receive(asked)
    if answer is None:
        return await _never()
    if answer.delay_s:
        await asyncio.sleep(answer.delay_s)
    return answer.status, answer.body


async def _never() -> tuple[int, bytes]:
    await asyncio.Event().wait()
    raise AssertionError("never comes here")


def _call(request: httpx.Request) -> Call:
    return Call(
        request.method,
        request.url.path,
        dict(request.url.params),
        request.content,
        request.headers.get("authorization", ""),
        dict(request.headers),
    )


def _source(far: Far, call: Call) -> str:
    """Return which of llmao's sources a read belongs to."""
    if far is Far.LITELLM:
        return "health" if call.path.startswith("/health") else "deployments"
    return str(far.value)


def _asked(far: Far, call: Call) -> tuple[object, ...]:
    return (far, call.path, *sorted(call.query.items()))


def _probed(request: httpx.Request) -> tuple[object, ...]:
    return (request.method, str(request.url), request.headers.get("authorization"))


def _response(reply: Reply, request: httpx.Request) -> httpx.Response:
    headers = {"content-type": "application/json", **reply.headers}
    return httpx.Response(reply.status, headers=headers, content=reply.body, request=request)


def _reply(answer: tuple[int, bytes]) -> httpx.Response:
    return httpx.Response(answer[0], content=answer[1])
