"""Opening the store that the configuration names.

Rule of this file: a store is opened by one who may write it, or looked into by others, who make
and change nothing. Its URL, which may hold a password, is repeated nowhere.
"""

import contextlib
import os
import secrets
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from sqlalchemy.ext.asyncio import AsyncConnection

from .clock import Clock
from .sql_engine import TIMEOUT_S, Database, postgresql_database, sqlite_database
from .sql_errors import said_of
from .sql_lock import FileLock
from .sql_migrations import APPLICATION_ID, MIGRATIONS, migrate, refuse_newer, version
from .sql_store import SqlStore
from .store import StoreError

SQLITE = "sqlite:///"
POSTGRESQL = "postgresql://"
MIGRATING_S = 300.0


async def open_store(url: str, folder: Path, clock: Clock) -> SqlStore:
    """Open a store for this process, made or brought up to date where needed.

    url: `sqlite:///PATH`, PATH relative to `folder`, or `postgresql://…`. Raises StoreError: it
    cannot be used, another process has the file, or it is newer than this program.
    """
    database, lock = opened(url, folder, clock)
    try:
        await _prepare(database, clock.now())
    except BaseException:
        await _let_go(database, lock)
        raise
    release = lock.release if lock else _nothing
    return SqlStore(database, secrets.token_hex(8), release)


@asynccontextmanager
async def looked_into(url: str, folder: Path, clock: Clock) -> AsyncIterator[SqlStore | None]:
    """Give a store to read while another process may have it; None when there is none yet."""
    async with looked_at(url, folder, clock) as database:
        if database is not None:
            await _require_current(database)
        yield SqlStore(database, "") if database else None


@asynccontextmanager
async def looked_at(url: str, folder: Path, clock: Clock) -> AsyncIterator[Database | None]:
    """Give a database to read, of a schema this program knows; None when there is none yet.

    What is read from it may take as long as it likes.
    """
    path = sqlite_path(url, folder)
    if path is not None and not path.exists():
        yield None
        return
    database = (
        sqlite_database(path, clock, read_only=True)
        if path
        else postgresql_database(url, clock, patient=True)
    )
    try:
        yield database if await _known_schema(database) else None
    finally:
        await database.aclose()


async def _known_schema(database: Database) -> int:
    async with database.reading() as connection:
        known = await connection.run_sync(version)
    refuse_newer(known)
    return known


async def _require_current(database: Database) -> None:
    if (known := await _known_schema(database)) < len(MIGRATIONS):
        raise StoreError(
            f"The store is at schema {known}, older than this llmao: `llmao serve` brings it up to"
            " date when it starts."
        )


def opened(
    url: str, folder: Path, clock: Clock, *, patient: bool = False
) -> tuple[Database, FileLock | None]:
    """Return the database of a URL for writing, its file made and locked."""
    path = sqlite_path(url, folder)
    if path is None:
        return postgresql_database(url, clock, patient=patient), None
    lock = FileLock(path)
    with said_of(str(path)):
        # Others have no business in it, and SQLite gives its other files the same mode.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        lock.take()
        try:
            _refuse_strange(path)
        except BaseException:
            lock.release()
            raise
    return sqlite_database(path, clock), lock


def _refuse_strange(path: Path) -> None:
    """Raise StoreError for the database of another program, before anything is changed in it."""
    with contextlib.closing(sqlite3.connect(path, timeout=TIMEOUT_S)) as looking:
        ((mark,),) = looking.execute("PRAGMA application_id")
        ((tables,),) = looking.execute("SELECT count(*) FROM sqlite_master")
    if tables and mark != APPLICATION_ID:
        raise StoreError(
            f"{path} is the database of another program: let `store` name another file."
        )


def sqlite_path(url: str, folder: Path) -> Path | None:
    """Return the file of an SQLite URL, without links; None for PostgreSQL's; else StoreError."""
    if url.startswith(POSTGRESQL):
        return None
    if not url.startswith(SQLITE) or not url.removeprefix(SQLITE) or "\0" in url:
        raise StoreError(
            "`store` names no store llmao knows: write sqlite:///llmao.db or"
            " postgresql://USER@HOST/DATABASE."
        )
    with said_of("an SQLite file"):
        return (folder / url.removeprefix(SQLITE)).resolve()


async def _prepare(database: Database, now: float) -> None:
    async with database.writing(within_s=MIGRATING_S) as connection:
        await _migrated(connection, now)


async def _migrated(connection: AsyncConnection, now: float) -> None:
    await connection.run_sync(migrate, now)


async def _let_go(database: Database, lock: FileLock | None) -> None:
    try:
        await database.aclose()
    finally:
        if lock:
            lock.release()


def _nothing() -> None:
    """Let go of nothing."""
