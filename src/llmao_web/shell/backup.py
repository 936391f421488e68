"""The store as one file, and back: zstd over JSON lines, the same for every database.

Rule of this file: a backup is written beside its place and moved there when it is complete; a
restore changes nothing before the whole file was found good.

A file is a line that says what follows, `{"backup": 1, "schema": …, "tables": {NAME: COLUMNS}}`,
a line `[NAME, VALUE, …]` per row, and a line `{"rows": …, "sha256": …}` over all before it.
"""

import hashlib
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import zstandard
from attrs import frozen
from sqlalchemy import Connection, column, inspect, literal, select, table
from sqlalchemy.ext.asyncio import AsyncConnection

from .clock import Clock
from .opening import looked_at, opened
from .sql_engine import Database
from .sql_errors import said_of
from .sql_migrations import migrate, refuse_newer, version
from .sql_tables import KEPT, metadata
from .store import StoreError

FORMAT = 1
LONGEST_LINE = 2**20
RESTORING_S = 7_200.0
_AT_ONCE = 1_000
# Few, since a few bytes can unpack to very many.
_BYTES_AT_ONCE = 256
_TABLES = tuple(each.name for each in KEPT)

Row = tuple[Any, ...]


@frozen
class Contents:
    """What a backup says of itself. tables: the columns of each. schema: the step it was at."""

    schema: int
    tables: Mapping[str, tuple[str, ...]]


async def backup(url: str, folder: Path, clock: Clock, file: Path) -> Mapping[str, int]:
    """Write the store, as it is at one moment, to a file; return the rows of each table.

    A store in use stays in use. An older file of the name is replaced when the new one is whole.
    """
    async with looked_at(url, folder, clock) as database:
        if database is None:
            raise StoreError("There is no store yet, so there is nothing to back up.")
        writing = file.with_name(f".{file.name}.{os.getpid()}.part")
        with _said_of(file):
            try:
                counts = await _written(database, writing)
                writing.replace(file)
                _sync(file.parent)
            finally:
                writing.unlink(missing_ok=True)
        return counts


async def restore(
    url: str, folder: Path, clock: Clock, file: Path, *, replace: bool = False
) -> Mapping[str, int]:
    """Put what a backup holds in the place of what the store holds; return its rows per table.

    Raises StoreError, and changes nothing, when the file is not whole, or when the store holds
    anything and `replace` is false. With SQLite no other llmao may have the store.
    """
    for _ in _read(file):
        pass
    database, lock = opened(url, folder, clock, patient=True)
    try:
        async with database.writing(RESTORING_S) as connection:
            return await _restored(connection, file, clock.now(), replace=replace)
    finally:
        try:
            await database.aclose()
        finally:
            if lock:
                lock.release()


# ---- writing


async def _written(database: Database, path: Path) -> Mapping[str, int]:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as raw:
        packing = zstandard.ZstdCompressor(write_checksum=True)
        with packing.stream_writer(raw, closefd=False) as packed:
            lines = _Lines(packed)
            with said_of(database.place):
                counts = await _dumped(database, lines)
            lines.end(counts)
        raw.flush()
        os.fsync(raw.fileno())
    return counts


class _Lines:
    """Writes lines and sums them up."""

    def __init__(self, packed: zstandard.ZstdCompressionWriter) -> None:
        self._packed = packed
        self._sum = hashlib.sha256()

    def write(self, value: object) -> None:
        line = json.dumps(value).encode() + b"\n"
        self._sum.update(line)
        try:
            self._packed.write(line)
        except OSError as error:
            raise StoreError(f"The backup cannot be written: {error.strerror}.") from None

    def end(self, counts: Mapping[str, int]) -> None:
        self.write({"rows": counts, "sha256": self._sum.hexdigest()})


async def _dumped(database: Database, lines: _Lines) -> dict[str, int]:
    async with database.engine.connect() as connection:
        if database.shared:
            await connection.execution_options(isolation_level="REPEATABLE READ")
        contents = await connection.run_sync(_contents)
        tables = {name: list(columns) for name, columns in contents.tables.items()}
        lines.write({"backup": FORMAT, "schema": contents.schema, "tables": tables})
        counts = dict.fromkeys(tables, 0)
        for name, columns in contents.tables.items():
            query = table(name, *map(column, columns)).select()
            rows = await connection.stream(query, execution_options={"yield_per": _AT_ONCE})
            async for row in rows:
                lines.write([name, *row])
                counts[name] += 1
        return counts


def _contents(connection: Connection) -> Contents:
    known = version(connection)
    refuse_newer(known)
    there = inspect(connection)
    tables = {
        name: tuple(str(each["name"]) for each in there.get_columns(name))
        for name in _TABLES
        if there.has_table(name)
    }
    return Contents(known, tables)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _said_of(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(f"{file}: {error.strerror or 'it cannot be used'}.") from None


# ---- reading


def _read(file: Path) -> Iterator[Contents | tuple[str, Row]]:
    """Yield the contents of a backup, then its rows; StoreError where it is not whole."""
    with _said_of(file), file.open("rb") as raw:
        try:
            yield from _parsed(_unpacked(raw))
        except (zstandard.ZstdError, ValueError, TypeError, AttributeError, KeyError) as error:
            raise _unusable(file) from error


def _unusable(file: Path) -> StoreError:
    return StoreError(
        f"{file} is no whole backup of an llmao store: it is torn, altered, or something else."
        " Nothing was changed; take another one."
    )


def _unpacked(raw: io.BufferedReader) -> Iterator[bytes]:
    packed = zstandard.ZstdDecompressor().decompressobj()
    rest = b""
    while some := raw.read(_BYTES_AT_ONCE):
        if packed.eof:
            raise ValueError("more after its end")
        *whole, rest = (rest + packed.decompress(some)).split(b"\n")
        if max(map(len, (*whole, rest))) > LONGEST_LINE:
            raise ValueError("no line of ours")
        yield from (line + b"\n" for line in whole)
    if rest or not packed.eof or packed.unused_data:
        raise ValueError("torn")


def _parsed(lines: Iterator[bytes]) -> Iterator[Contents | tuple[str, Row]]:
    summed = hashlib.sha256()
    first = next(lines, b"")
    contents = _said(json.loads(first))
    counts = dict.fromkeys(contents.tables, 0)
    yield contents
    summed.update(first)
    for line in lines:
        said = json.loads(line)
        if isinstance(said, dict):
            if said != {"rows": counts, "sha256": summed.hexdigest()} or next(lines, None):
                raise ValueError("altered")
            return
        name, *values = said
        if len(values) != len(contents.tables[name]) or not all(map(_is_plain, values)):
            raise ValueError("no row")
        summed.update(line)
        counts[name] += 1
        yield name, tuple(values)
    raise ValueError("torn")


def _said(said: Any) -> Contents:
    if said["backup"] != FORMAT:
        raise StoreError("This backup was made by a newer llmao: restore it with that one.")
    tables = {str(name): tuple(map(str, columns)) for name, columns in said["tables"].items()}
    if not tables.keys() <= set(_TABLES):
        raise ValueError("no table of ours")
    refuse_newer(int(said["schema"]))
    return Contents(int(said["schema"]), tables)


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | float | int)


# ---- restoring


async def _restored(
    connection: AsyncConnection, file: Path, now: float, *, replace: bool
) -> Mapping[str, int]:
    reading = _read(file)
    contents = next(reading)
    assert isinstance(contents, Contents)
    await connection.run_sync(_make_room, replace)
    await connection.run_sync(migrate, now, contents.schema)
    # Its names become part of statements.
    if contents.tables != (await connection.run_sync(_contents)).tables:
        raise _unusable(file)
    counts = dict.fromkeys(contents.tables, 0)
    rows = (row for row in reading if not isinstance(row, Contents))
    while many := list(islice(rows, _AT_ONCE)):
        for name, values in _by_table(many).items():
            await _insert(connection, name, contents.tables[name], values)
            counts[name] += len(values)
    await connection.run_sync(migrate, now)
    if connection.dialect.name == "postgresql":
        await connection.run_sync(_count_on)
    return counts


def _make_room(connection: Connection, replace: bool) -> None:
    refuse_newer(version(connection))
    there = inspect(connection)
    ours = [name for name in (*metadata.tables, "migrations") if there.has_table(name)]
    held = [name for name in ours if name in _TABLES and _holds_rows(connection, name)]
    if held and not replace:
        raise StoreError("The store is not empty: --replace drops what is in it.")
    for name in ours:
        connection.exec_driver_sql(f"DROP TABLE {name}")


def _holds_rows(connection: Connection, name: str) -> bool:
    return (
        connection.execute(select(literal(1)).select_from(table(name)).limit(1)).first() is not None
    )


def _by_table(rows: Iterable[tuple[str, Row]]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for name, values in rows:
        found.setdefault(name, []).append(values)
    return found


async def _insert(
    connection: AsyncConnection, name: str, columns: tuple[str, ...], rows: list[Row]
) -> None:
    dollars = connection.dialect.name == "postgresql"
    marks = [f"${place}" if dollars else "?" for place in range(1, len(columns) + 1)]
    # The names are those of the schema; values are handed over beside the statement.
    statement = f"INSERT INTO {name} ({', '.join(columns)}) VALUES ({', '.join(marks)})"  # noqa: S608
    await connection.exec_driver_sql(statement, rows)


def _count_on(connection: Connection) -> None:
    """Have PostgreSQL count on from the highest number there is."""
    for each in metadata.tables.values():
        if "number" in each.c:
            connection.exec_driver_sql(
                f"SELECT setval(pg_get_serial_sequence('{each.name}', 'number'),"  # noqa: S608
                f" greatest(max(number), 1), max(number) IS NOT NULL) FROM {each.name}"
            )
