"""A relay before PostgreSQL that can fall silent: nothing passes, and nothing is closed.

Rule of this file: what came while it was silent waits, as TCP sends again what was lost.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from attrs import define, field

_BYTES = 65_536


@define
class Relay:
    """Passes on every connection to a port of 127.0.0.1. port: its own, once it listens."""

    to: int
    port: int = 0
    _going: asyncio.Event = field(factory=asyncio.Event)
    _open: set[asyncio.StreamWriter] = field(factory=set)
    _serving: set[asyncio.Task[None]] = field(factory=set)

    def fall_silent(self) -> None:
        """Let nothing pass any more, in either direction."""
        self._going.clear()

    def go_on(self) -> None:
        """Let everything pass, first what came meanwhile."""
        self._going.set()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator["Relay"]:
        """Pass connections on until the block ends."""
        self.go_on()
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for each in list(self._open):
                each.transport.abort()
            self.go_on()
            await asyncio.gather(*self._serving)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.to)
        except OSError:
            writer.transport.abort()
            return
        ends = {writer, far_writer}
        self._open |= ends
        await asyncio.gather(self._pass(reader, far_writer), self._pass(far_reader, writer))
        self._open -= ends

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                data = await reader.read(_BYTES)
                # The end of a connection passes no more than anything else.
                await self._going.wait()
                if not data:
                    break
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()
