"""A loopback server that sends what it is told, HTTP or not."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from attrs import define, field

Respond = Callable[[bytes], bytes | None]
_DRAINS = 200


def http(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    """Return one whole answer."""
    lines = (f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers)
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@define
class RawServer:
    """respond: what to send for a request's head; None resets the connection.

    repeat: sent again and again after that, so that an answer never ends. close: after an answer.
    """

    respond: Respond
    repeat: bytes = b""
    close: bool = True
    base: str = ""
    requests: list[bytes] = field(factory=list)

    @asynccontextmanager
    async def serving(self) -> "AsyncIterator[RawServer]":
        server = await asyncio.start_server(self._serve, "127.0.0.4", 0)
        self.base = f"http://127.0.0.4:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()
            await server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            async with asyncio.timeout(10):
                await self._answer(reader, writer)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        self.requests.append(request)
        answer = self.respond(request)
        if answer is None:
            reset_on_close(writer)
            return
        writer.write(answer)
        await writer.drain()
        for _ in range(_DRAINS if self.repeat else 0):
            writer.write(self.repeat)
            await writer.drain()
        if not self.close or self.repeat:
            await reader.read()


def reset_on_close(writer: asyncio.StreamWriter) -> None:
    """Have the connection end with RST instead of FIN."""
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
