"""A small HTTP/1.1 server on a loopback address, whose port can be shut and opened at will.

Rule of this file: knows bytes and sockets, and nothing of what is served. Hundreds fit into one
process: a server is one socket and one reader, and it binds nothing but loopback.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Callable, Mapping
from http import HTTPStatus

from attrs import field, frozen

_BACKLOG = 1024
_HEAD_BYTES = 65_536
_ACCEPTS_AT_ONCE = 256


@frozen
class Request:
    """One request, read to its end. headers: names in lower case. path: without the query."""

    method: str
    path: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = b""


@frozen
class Answer:
    """What is sent back, after `delay_s`."""

    status: int
    body: bytes = b""
    content_type: str = "application/json"
    delay_s: float = 0.0

    def encode(self) -> bytes:
        """Return it as it goes over the wire."""
        head = (
            f"HTTP/1.1 {self.status} {_reason(self.status)}\r\nserver: uvicorn\r\n"
            f"content-length: {len(self.body)}\r\n"
        )
        kind = f"content-type: {self.content_type}\r\n" if self.body else ""
        return f"{head}{kind}\r\n".encode() + self.body


def _reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"


Answering = Callable[[Request], Answer | None]


class LoopbackServer:
    """One address and port. `answer` is called once per request; None never answers it.

    The port is chosen when the first socket is bound and kept from then on. Raises ValueError
    for an address that is not loopback.
    """

    def __init__(self, address: str, port: int, answer: Answering) -> None:
        if not ipaddress.ip_address(address).is_loopback:
            raise ValueError(f"a fake binds loopback addresses only, not {address}")
        self.address = address
        self.port = port
        self.answer = answer
        self._socket: socket.socket | None = None
        self._listening = False
        self._accepting: set[asyncio.Task[None]] = set()
        self._connections: set[_Connection] = set()

    def listen(self) -> None:
        """Open the port."""
        if self._listening:
            return
        held = self._socket or self._bind()
        held.listen(_BACKLOG)
        asyncio.get_running_loop().add_reader(held.fileno(), self._accept, held)
        self._socket, self._listening = held, True

    def hold(self) -> None:
        """Shut the port and keep it: bound, not listening, so that connections are refused."""
        if self._socket is None or self._listening:
            self.close()
            self._socket = self._bind()

    def close(self) -> None:
        """Shut the port, give it up and drop every connection."""
        for connection in tuple(self._connections):
            connection.drop()
        for task in tuple(self._accepting):
            task.cancel()
        if self._socket is None:
            return
        if self._listening:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
        self._socket.close()
        self._socket, self._listening = None, False

    def _bind(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self.address else socket.AF_INET
        bound = socket.socket(family, socket.SOCK_STREAM)
        bound.setblocking(False)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((self.address, self.port))
        except OSError:
            bound.close()
            raise
        self.port = bound.getsockname()[1]
        return bound

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(_ACCEPTS_AT_ONCE):
            try:
                accepted, _peer = listener.accept()
            except OSError:
                return
            self._adopt(accepted)

    def _adopt(self, accepted: socket.socket) -> None:
        task = asyncio.get_running_loop().create_task(self._connect(accepted))
        self._accepting.add(task)

        def done(task: asyncio.Task[None]) -> None:
            self._accepting.discard(task)
            if task.cancelled():
                accepted.close()

        task.add_done_callback(done)

    async def _connect(self, accepted: socket.socket) -> None:
        accepted.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(
            lambda: _Connection(self.answer, self._connections), accepted
        )


class _Connection(asyncio.Protocol):
    """One connection: requests in, answers out, one after the other."""

    def __init__(self, answer: Answering, register: "set[_Connection]") -> None:
        self._answer = answer
        self._register = register
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._busy = False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._register.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._register.discard(self)
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._next()

    def drop(self) -> None:
        """End it at once, as a killed process does."""
        if self._transport is not None:
            self._transport.abort()

    def _next(self) -> None:
        if self._busy or (request := self._take()) is None:
            return
        self._busy = True
        answer = self._answer(request)
        if answer is None:
            return
        close = request.headers.get("connection", "").lower() == "close"
        if answer.delay_s <= 0:
            self._send(answer, close)
            return
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(answer.delay_s, self._send, answer, close)

    def _send(self, answer: Answer, close: bool) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        self._transport.write(answer.encode())
        self._busy = False
        if close:
            self._transport.close()
        else:
            self._next()

    def _take(self) -> Request | None:
        """Return the first whole request of the buffer; one it cannot read ends the connection."""
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > _HEAD_BYTES:
                self.drop()
            return None
        try:
            method, path, headers = _head(bytes(self._buffer[:end]))
            length = int(headers.get("content-length", "0"))
        except ValueError:
            self.drop()
            return None
        if len(self._buffer) < end + 4 + length:
            return None
        body = bytes(self._buffer[end + 4 : end + 4 + length])
        del self._buffer[: end + 4 + length]
        return Request(method, path, headers, body)


def _head(head: bytes) -> tuple[str, str, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _version = first.split(" ")
    fields = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in fields}
    if "transfer-encoding" in headers:
        raise ValueError("this server reads bodies with a content-length only")
    return method, target.partition("?")[0], headers
