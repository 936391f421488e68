"""The real store on a file that outlives the process, its statements carried out in line.

Rule of this file: schema, SQL, dialect, pool and file are the real ones; only the driver's thread
is not, whose order no seed decides. A killed process leaves the file as it was at that step.
"""

import asyncio
import contextlib
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Generator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import aiosqlite
from attrs import define, field
from sqlalchemy import event

from llmao_web.shell.clock import Clock
from llmao_web.shell.opening import MIGRATING_S, SQLITE, opened
from llmao_web.shell.sql_engine import Database, sqlite_database
from llmao_web.shell.sql_migrations import migrate
from llmao_web.shell.sql_store import SqlStore
from llmao_web.shell.store import Told

STATEMENT_S = 0.002
# How long PostgreSQL bears a session that holds a transaction open and says nothing.
IDLE_S = 20.0
_NAME = "llmao.db"
_LEFT = (_NAME, f"{_NAME}-wal")
_WRITES = ("INSERT", "UPDATE", "DELETE")
# SQLite writes this, even when it says what stands there already.
_MARKS = "PRAGMA application_id"
_LOCK = "pg_advisory_xact_lock"
# A file system in memory, where the machine has one: how fast a disk is, is not simulated.
_QUICK = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108


class Asking(Protocol):
    """The part of llmao's process that its store knows. cut_off: it cannot reach its store."""

    cut_off: bool

    async def step(self, name: str) -> None:
        """Return, unless llmao is killed at this step."""
        ...

    async def reaches_store(self) -> None:
        """Return once the process runs and can reach its store."""
        ...


@define(eq=False)
class File:
    """An SQLite file; shared by several processes it stands for a PostgreSQL.

    full: nothing more can be committed. commits: how often something was. lines: every open
    connection. writer: the one that holds the lock by which one writes at a time.
    """

    shared: bool = False
    full: bool = False
    commits: int = 0
    lines: list["Line"] = field(factory=list)
    writer: "Line | None" = None
    _folder: Path = field(factory=lambda: Path(tempfile.mkdtemp("", "llmao-sim-", _QUICK)))
    _freed: asyncio.Event = field(factory=asyncio.Event)
    _release: Callable[[], None] = lambda: None

    def open(self, process: Asking, clock: Clock, name: str) -> tuple[SqlStore, Database]:
        """Return the store for a process that starts, and what `prepare` brings up to date."""
        if self.shared:
            path = self._folder / _NAME
            path.touch()
            found = sqlite_database(path, clock)
            database: Database = _Shared(found.place, found.engine, clock)
        else:
            database, lock = opened(f"{SQLITE}{_NAME}", self._folder, clock)
            self._release = lock.release if lock else self._release

        @event.listens_for(database.engine.sync_engine, "do_connect")
        def dialled(_dialect: Any, _record: Any, _names: Any, how: dict[str, Any]) -> None:
            # Whoever waited for another's lock here would stop all of time.
            how["timeout"] = 0
            how["async_creator_fn"] = partial(self._line, process)

        return _Polled(database, name, self, process), database

    def _line(self, process: Asking, *names: Any, **how: Any) -> "Line":
        return Line(partial(sqlite3.connect, *names, **how), self, process)

    def left_by(self, process: Asking) -> None:
        """End what a process that is gone had begun; the file alone stays, as it was."""
        left = {} if self.shared else self.left()
        for line in [each for each in self.lines if each.process is process]:
            line.end()
        self._release()
        # Closing tidied up, which nobody does for a process that is killed.
        for name, data in left.items():
            (self._folder / name).write_bytes(data)

    def left(self) -> dict[str, bytes]:
        """Return the file, and the log of writes beside it, by name."""
        paths = [self._folder / name for name in _LEFT]
        return {path.name: path.read_bytes() for path in paths if path.exists()}

    async def take(self, line: "Line") -> None:
        """Wait for the lock by which one writes at a time; who holds it idly is ended."""
        while self.writer is not None:
            self._freed.clear()
            await self._freed.wait()
        self.writer = line
        turn = line.turn
        loop = asyncio.get_running_loop()
        loop.call_later(IDLE_S, lambda: self._end_idle(line, turn))

    def _end_idle(self, line: "Line", turn: int) -> None:
        if self.writer is line and line.turn == turn:
            line.end()

    def free(self, line: "Line") -> None:
        """Let the next one write."""
        if self.writer is line:
            self.writer = None
            self._freed.set()

    def close(self) -> None:
        """Let the file be gone."""
        for line in tuple(self.lines):
            line.end()
        self._release()
        shutil.rmtree(self._folder, ignore_errors=True)


class Line(aiosqlite.Connection):
    """A connection without a thread. turn: counts its transactions."""

    def __init__(
        self, connector: Callable[[], sqlite3.Connection], file: File, process: Asking
    ) -> None:
        super().__init__(connector, iter_chunk_size=64)
        self._tx: Any = _InLine()
        self.process = process
        self.turn = 0
        self._file = file
        self._wrote = False

    def __await__(self) -> Generator[Any, None, aiosqlite.Connection]:
        """Connect."""
        return self._opened().__await__()

    async def _opened(self) -> aiosqlite.Connection:
        await self.process.reaches_store()
        line = await super()._connect()
        self._file.lines.append(self)
        if self._file.shared:
            # What it is for, `take` does.
            self._conn.create_function(_LOCK, 1, lambda _number: None)
        return line

    async def _execute(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Carry out one call of the driver, at its time."""
        if fn.__name__ == "commit":
            return await self._committed(fn)
        if fn.__name__ not in ("execute", "executemany"):
            done = await self._carried_out(fn, *args, **kwargs)
            if fn.__name__ == "rollback":
                self._over()
            return done
        await self._asked(str(args[0]))
        done = await self._carried_out(fn, *args, **kwargs)
        await self.process.reaches_store()
        return done

    async def _carried_out(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self._connection is None:
            # By these words SQLAlchemy knows that the connection is of no more use.
            raise sqlite3.OperationalError("no active connection")
        return await super()._execute(fn, *args, **kwargs)  # type: ignore[no-untyped-call]

    async def _asked(self, statement: str) -> None:
        await self.process.reaches_store()
        if _LOCK in statement:
            await self._file.take(self)
        marks = not self._file.shared and statement.startswith(_MARKS)
        if marks or statement.startswith(_WRITES):
            self._wrote = True
            await self.process.step(f"store {' '.join(statement.split()[:3])}, before")
        if statement != "BEGIN":
            await asyncio.sleep(STATEMENT_S)

    async def _committed(self, commit: Callable[[], None]) -> None:
        wrote = self._wrote
        await self.process.reaches_store()
        if wrote:
            await self.process.step("store COMMIT, before")
        await asyncio.sleep(STATEMENT_S)
        if wrote and self._file.full:
            raise _full()
        await self._carried_out(commit)
        self._over()
        if wrote:
            self._file.commits += 1
            await self.process.step("store COMMIT, kept")
        await self.process.reaches_store()

    def _over(self) -> None:
        self.turn += 1
        self._wrote = False
        self._file.free(self)

    async def close(self) -> None:
        """Close it."""
        self.end()

    def stop(self) -> None:
        """Close it at once."""
        self.end()

    def end(self) -> None:
        """Let it be gone, and what it had begun with it."""
        self._running = False
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        with contextlib.suppress(ValueError):
            self._file.lines.remove(self)
        self._over()


class _InLine:
    """Stands where a connection has the queue of its thread: what is put into it is done."""

    def put_nowait(self, work: tuple["asyncio.Future[Any]", Callable[[], Any]]) -> None:
        """Do some work, and say how it ended."""
        future, do = work
        try:
            future.set_result(do())
        except BaseException as error:
            future.set_exception(error)


class _Polled(SqlStore):
    """The store; what it is asked every second, it asks the file when something was committed."""

    def __init__(self, database: Database, name: str, file: File, process: Asking) -> None:
        super().__init__(database, name)
        self._file = file
        self._process = process
        self._newest = (-1, 0)
        self._heard = (-1, -1)

    async def newest(self) -> int:
        """Return the number of the newest entry that changes what is kept, 0 for none."""
        commits = self._file.commits
        if self._newest[0] != commits or self._process.cut_off:
            self._newest = (commits, await super().newest())
        return self._newest[1]

    async def told(self, after: int) -> Sequence[Told]:
        """Return what other replicas told, numbers above `after`, oldest first."""
        commits = self._file.commits
        if self._heard == (commits, after) and not self._process.cut_off:
            return ()
        found = await super().told(after)
        if not found:
            self._heard = (commits, after)
        return found


@define
class _Shared(Database):
    """A database that several processes use, told so by nothing but this."""

    @property
    def shared(self) -> bool:
        """Return true."""
        return True


async def prepare(database: Database, now: float) -> None:
    """Bring the schema up to date, as whoever opens a store does."""
    async with database.writing(within_s=MIGRATING_S) as connection:
        await connection.run_sync(migrate, now)


def _full() -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode, error.sqlite_errorname = sqlite3.SQLITE_FULL, "SQLITE_FULL"
    return error
