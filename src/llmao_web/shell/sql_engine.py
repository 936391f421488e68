"""A database: how it is opened, and the two ways to use it, reading and writing.

Rule of this file: no call waits longer than TIMEOUT_S, and one writes at a time, in all
processes: numbers then become visible in their order, so that who reads up to one has read all
before it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import asyncpg
from attrs import define, field
from sqlalchemy import URL, event, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from .clock import Clock, deadline
from .sql_errors import said_of
from .store import StoreError

TIMEOUT_S = 10.0
SCHEMA = "llmao"
_CONNECTIONS = 4
# Any number that no other program takes: PostgreSQL knows locks by number.
_LOCK = 0x6C6C6D616F
_TAKE_LOCK = text(f"SELECT pg_advisory_xact_lock({_LOCK})")
_PATIENCE = "20s"
# Shorter than TIMEOUT_S, or a writer that is silent makes the others' writes fail, too.
_IDLE = "5s"
# What was acknowledged survives the process and the power.
_DURABLE = ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL")


@define
class Database:
    """One database. place: how people are told of it, without a password."""

    place: str
    engine: AsyncEngine
    clock: Clock
    _one_writes: asyncio.Lock = field(factory=asyncio.Lock)

    @property
    def shared(self) -> bool:
        """Tell whether several processes may use it at once."""
        return self.engine.dialect.name == "postgresql"

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """Give a connection to read from; StoreError for whatever goes wrong."""
        with said_of(self.place):
            async with deadline(self.clock, TIMEOUT_S), self.engine.connect() as connection:
                yield connection

    @asynccontextmanager
    async def writing(self, within_s: float = TIMEOUT_S) -> AsyncIterator[AsyncConnection]:
        """Give a connection with a transaction: what the body writes is kept wholly or not."""
        with said_of(self.place):
            async with (
                deadline(self.clock, within_s),
                self._one_writes,
                self.engine.begin() as connection,
            ):
                if self.shared:
                    await connection.execute(_TAKE_LOCK)
                yield connection

    async def aclose(self) -> None:
        """Close every connection."""
        with said_of(self.place):
            async with deadline(self.clock, TIMEOUT_S):
                await self.engine.dispose()


def sqlite_database(path: Path, clock: Clock, *, read_only: bool = False) -> Database:
    """Return the database in a file, which is there already."""
    mode = "ro" if read_only else "rw"
    url = URL.create(
        "sqlite+aiosqlite", database=f"file:{quote(str(path))}", query={"mode": mode, "uri": "true"}
    )
    engine = create_async_engine(
        url,
        hide_parameters=True,
        pool_size=_CONNECTIONS,
        max_overflow=0,
        pool_timeout=TIMEOUT_S,
        connect_args={"timeout": TIMEOUT_S},
    )

    @event.listens_for(engine.sync_engine, "connect")
    def connected(connection: Any, _: object) -> None:
        # Python's own idea of transactions leaves statements that define tables outside of them.
        connection.isolation_level = None
        cursor = connection.cursor()
        try:
            for pragma in () if read_only else _DURABLE:
                cursor.execute(pragma)
            cursor.close()
        except BaseException:
            connection.close()
            raise

    @event.listens_for(engine.sync_engine, "begin")
    def begun(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN")

    return Database(str(path), engine, clock)


def postgresql_database(url: str, clock: Clock, *, patient: bool = False) -> Database:
    """Return the database at a libpq URL. patient: one statement may take as long as it likes."""
    engine = create_async_engine(
        "postgresql+asyncpg://",
        async_creator=_connecting(url, patient=patient),
        hide_parameters=True,
        pool_size=_CONNECTIONS,
        max_overflow=0,
        pool_timeout=TIMEOUT_S,
        pool_pre_ping=True,
    )
    return Database(_place(url), engine, clock)


def _connecting(url: str, *, patient: bool) -> Callable[[], Awaitable[asyncpg.Connection]]:
    """Return what connects; the URL, which may hold a password, stays in here."""
    settings = {
        "application_name": "llmao",
        "search_path": SCHEMA,
        "statement_timeout": "0" if patient else _PATIENCE,
        "lock_timeout": _PATIENCE,
        # A replica that froze in a transaction must not keep the others from writing.
        "idle_in_transaction_session_timeout": "0" if patient else _IDLE,
    }

    async def connect() -> asyncpg.Connection:
        try:
            return await asyncpg.connect(url, timeout=TIMEOUT_S, server_settings=settings)
        except ValueError:
            # What it says repeats a part of the URL.
            raise StoreError(
                "`store` is no URL that PostgreSQL understands: write"
                " postgresql://USER:PASSWORD@HOST:5432/DATABASE, with %40 for an @ in a password."
            ) from None

    return connect


def _place(url: str) -> str:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "localhost", parts.port or 5432
    except ValueError:
        return "PostgreSQL"
    return f"PostgreSQL at {host}:{port}"
