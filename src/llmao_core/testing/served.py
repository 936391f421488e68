"""How a fake is reached: as an ASGI application, on a loopback port, or in the process.

Rule of this file: requests in, answers out; what they say is the fake's own business.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl

import httpx
import uvicorn
from attrs import field, frozen

_HANG_UP = "llmao.hang_up"


@frozen
class Reply:
    """One answer on its way out. cut: the connection breaks before it is complete."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(factory=dict)
    cut: bool = False


@frozen
class Call:
    """One request, as the log keeps it.

    query: decoded. body: as sent. headers: names in lower case.
    """

    method: str
    path: str
    query: Mapping[str, str]
    body: bytes
    authorization: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(factory=dict, repr=False)

    def json(self) -> dict[str, Any]:
        """Return the body as an object; anything else as an empty one."""
        try:
            data = json.loads(self.body)
        except ValueError:
            return {}
        return data if isinstance(data, dict) else {}


def ok(data: object, headers: Mapping[str, str] | None = None) -> Reply:
    """Return a 200 answer."""
    return Reply(200, json.dumps(data).encode(), headers or {})


class Served:
    """Whatever answers a Call: an ASGI application, and two shorter ways to reach it."""

    async def handle(self, call: Call) -> Reply:
        """Answer one request."""
        raise NotImplementedError

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve ASGI, HTTP only."""
        if scope["type"] != "http":
            await _lifespan(scope, receive, send)
            return
        body = b""
        more = True
        while more:
            event = await receive()
            body += event.get("body", b"")
            more = event.get("more_body", False)
        sent = {k.decode().lower(): v.decode("latin-1") for k, v in scope["headers"]}
        query = dict(parse_qsl(scope["query_string"].decode(), keep_blank_values=True))
        call = Call(
            scope["method"], scope["path"], query, body, sent.get("authorization", ""), sent
        )
        reply = await self.handle(call)
        await _answer(send, reply)
        if reply.cut and (hang_up := scope.get("extensions", {}).get(_HANG_UP)):
            hang_up(scope["client"])
            await receive()

    def transport(self) -> httpx.AsyncBaseTransport:
        """Return a transport that reaches it without a socket, whatever the host."""
        return _Transport(self)

    @contextlib.asynccontextmanager
    async def serve(self, port: int = 0) -> AsyncIterator[str]:
        """Serve on loopback for as long as the block runs; gives the base URL."""

        async def app(scope: Any, receive: Any, send: Any) -> None:
            # An ASGI application cannot end a connection in the middle of an answer by itself.
            extensions = {**(scope.get("extensions") or {}), _HANG_UP: server.hang_up}
            await self({**scope, "extensions": extensions}, receive, send)

        server = _Server(
            uvicorn.Config(
                app,
                "127.0.0.1",
                port,
                log_config=None,
                access_log=False,
                ws="none",
                lifespan="off",
            )
        )
        task = asyncio.ensure_future(server.serve())
        await asyncio.wait(
            [task, asyncio.ensure_future(server.up.wait())], return_when="FIRST_COMPLETED"
        )
        try:
            yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        finally:
            server.should_exit = True
            await task


async def _answer(send: Any, reply: Reply) -> None:
    # Half an answer under the length of a whole one, and then the connection breaks.
    shown = reply.body[: len(reply.body) // 2] if reply.cut else reply.body
    headers = {"content-type": "application/json", **reply.headers}
    headers["content-length"] = str(len(reply.body))
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": reply.status, "headers": pairs})
    await send({"type": "http.response.body", "body": shown, "more_body": reply.cut})


async def _lifespan(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] != "lifespan":
        return
    for _ in range(2):
        event = await receive()
        await send({"type": f"{event['type']}.complete"})


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    async def startup(self, *args: Any, **kwargs: Any) -> None:
        await super().startup(*args, **kwargs)
        self.up.set()

    def hang_up(self, client: tuple[str, int]) -> None:
        """Close the connection of one client, whatever is still to be sent on it."""
        for each in list(self.server_state.connections):
            if getattr(each, "client", None) == client and each.transport is not None:
                each.transport.close()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to whoever runs the process."""
        yield


class _Transport(httpx.AsyncBaseTransport):
    def __init__(self, served: Served) -> None:
        self._served = served

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        call = Call(
            request.method,
            request.url.path,
            dict(request.url.params),
            await request.aread(),
            request.headers.get("authorization", ""),
            dict(request.headers),
        )
        reply = await self._served.handle(call)
        if reply.cut:
            raise httpx.RemoteProtocolError("peer closed connection", request=request)
        headers = {"content-type": "application/json", **reply.headers}
        return httpx.Response(reply.status, headers=headers, content=reply.body, request=request)
