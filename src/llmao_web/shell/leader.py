"""Which of several replicas writes to LiteLLM: the one that holds a lock in PostgreSQL.

Rule of this file: nothing is begun on a lead that was not renewed just now. A lead is a session
that holds the lock, a row that says since when and what is being written, and a term that no
other leader ever had. Who takes over knows the row that its predecessor may still be writing.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol

import asyncpg
import structlog
from attrs import evolve, frozen

from llmao_core.actions import ActionKind, Order, Outcome, OutcomeKind, Write
from llmao_core.keys import Key

from .clock import Clock, deadline, wait_for_any
from .unexpected import log_unexpected

RENEW_S = 3.0
LOOK_S = 1.0
# No write begins on a renewal older than this; a follower waits twice as long.
FRESH_S = 5.0
DEAD_S = 10.0
ANSWER_S = 3.0
# Any number that no other program takes, and not the one of sql_engine.py.
_LOCK = 0x6C6C6D616F6C

_MAKE = """
CREATE SCHEMA IF NOT EXISTS llmao;
CREATE TABLE IF NOT EXISTS llmao.leader (
  one int PRIMARY KEY CHECK (one = 1),
  replica text NOT NULL,
  term bigint NOT NULL,
  renewed_at timestamptz NOT NULL,
  writing text NOT NULL DEFAULT ''
);
INSERT INTO llmao.leader VALUES (1, '', 0, to_timestamp(0)) ON CONFLICT DO NOTHING;
"""
_MAKE_ONE_AT_A_TIME = "SELECT pg_advisory_xact_lock($1)"
_TRY = "SELECT pg_try_advisory_lock($1)"
# Only a holder whose row was not renewed, looked at and ended in one statement.
_END_DEAD = """
SELECT pg_terminate_backend(held.pid) FROM pg_locks held, llmao.leader leader
WHERE held.locktype = 'advisory' AND held.granted
  AND (held.classid::bigint << 32) + held.objid::bigint = $1
  AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND leader.renewed_at < clock_timestamp() - make_interval(secs => $2)
"""
_SAY_WHO = "SELECT replica FROM llmao.leader"
_TAKE = """
UPDATE llmao.leader SET replica = $1, term = term + 1, renewed_at = clock_timestamp()
RETURNING term, writing
"""
_RENEW = "UPDATE llmao.leader SET renewed_at = clock_timestamp() WHERE term = $1 RETURNING 1"
_BEGIN = """
UPDATE llmao.leader SET renewed_at = clock_timestamp(), writing = $2 WHERE term = $1 RETURNING 1
"""
_ENDED = "UPDATE llmao.leader SET writing = '' WHERE term = $1"

_GONE = (
    OSError,
    TimeoutError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    # Said by a connection that was told of its end and has not closed yet.
    asyncpg.InternalClientError,
)

log = structlog.get_logger(__name__)


@frozen
class Leadership:
    """Who leads. replica: its name, "" while nobody is known to. here: it is this process.

    known: the database was asked, or there is nobody else. ever_known: it was, at some time.
    """

    replica: str
    here: bool
    known: bool
    ever_known: bool = True


class Lead(Protocol):
    """Whether this process may write, and the permission for one write.

    changed: called when it begins or ceases to lead. took_over: told the row that the leader
    before may still be writing. keeps: tells whether the store keeps what llmao does.
    """

    changed: Callable[[], None]
    took_over: Callable[[str, Write], None]
    keeps: Callable[[], bool]

    def leads(self) -> bool:
        """Tell whether a write may be begun now."""
        ...

    async def begins(self, order: Order) -> bool:
        """Say that a write begins; false when it must not."""
        ...

    async def ended(self) -> None:
        """Say that the write was answered or given up."""
        ...

    def leadership(self) -> Leadership:
        """Return who leads, for people."""
        ...

    async def run(self) -> None:
        """Stand for election until cancelled."""
        ...


def _nothing(*_: object) -> None:
    """Tell nobody."""


def _keeps() -> bool:
    """Know of no store that refuses anything."""
    return True


class Alone:
    """The only process on its store: it always leads, and a full disk of its own stops nothing."""

    def __init__(self, replica: str = "llmao") -> None:
        self.changed: Callable[[], None] = _nothing
        self.took_over: Callable[[str, Write], None] = _nothing
        self.keeps: Callable[[], bool] = _keeps
        self._leadership = Leadership(replica, here=True, known=True)

    def leads(self) -> bool:
        """Return true."""
        return True

    async def begins(self, order: Order) -> bool:  # noqa: ARG002
        """Return true."""
        return True

    async def ended(self) -> None:
        """Do nothing."""

    def leadership(self) -> Leadership:
        """Return that it is this process."""
        return self._leadership

    async def run(self) -> None:
        """Wait until cancelled."""
        await asyncio.Event().wait()


class Election:
    """One of several processes on a PostgreSQL. replica: this process, for people."""

    def __init__(self, url: str, replica: str, clock: Clock) -> None:
        self.changed: Callable[[], None] = _nothing
        self.took_over: Callable[[str, Write], None] = _nothing
        self.keeps: Callable[[], bool] = _keeps
        self._url = url
        self._replica = replica
        self._clock = clock
        self._connection: Any = None
        self._talking = asyncio.Lock()
        self._term: int | None = None
        self._renewed = 0.0
        self._leader: str | None = None
        self._ever_known = False
        self._lost = asyncio.Event()

    def leads(self) -> bool:
        """Tell whether the lead is held and was renewed just now."""
        return self._term is not None and self._clock.monotonic() - self._renewed < FRESH_S

    def leadership(self) -> Leadership:
        """Return who leads, as far as this process knows."""
        here = self._term is not None
        who = self._replica if here else self._leader or ""
        known = here or self._leader is not None
        return Leadership(who, here=here, known=known, ever_known=self._ever_known)

    async def begins(self, order: Order) -> bool:
        """Renew the lead and note what is being written.

        False when the lead is another's, and while the database keeps nothing: what was done then
        would be known to nobody who leads after this process.
        """
        may = self.keeps() and self.leads()
        return may and await self._renew(_BEGIN, _noted(order)) and self.leads()

    async def ended(self) -> None:
        """Note that no write is out; a lead that is lost meanwhile has nothing to note."""
        if self._term is None:
            return
        try:
            await self._ask("execute", _ENDED, self._term)
        except _GONE as error:
            self._lose(type(error).__name__)

    async def run(self) -> None:
        """Stand for election until cancelled; without the database nobody leads."""
        while True:
            try:
                async with self._connected():
                    await self._stand()
            except _GONE as error:
                self._lose(type(error).__name__)
                self._leader = None
            except Exception as error:
                # Boxes and pages are answered, whoever leads.
                log_unexpected("leader", error)
                self._leader = None
            await self._clock.sleep(LOOK_S + self._clock.jitter(LOOK_S / 4))

    async def _stand(self) -> None:
        self._lost.clear()
        while not self._lost.is_set():
            if self._term is not None:
                await wait_for_any(self._clock, RENEW_S, self._lost)
                if not await self._renew(_RENEW):
                    return
            elif not await self._take():
                await self._clock.sleep(LOOK_S)

    async def _take(self) -> bool:
        if not await self._ask("fetchval", _TRY, _LOCK):
            self._leader = str(await self._ask("fetchval", _SAY_WHO))
            self._ever_known = True
            if await self._ask("fetch", _END_DEAD, _LOCK, DEAD_S):
                log.warning("ended a leader that is not heard of", leader=self._leader)
            return False
        began = self._clock.monotonic()
        row = await self._ask("fetchrow", _TAKE, self._replica)
        if (write := _left(row["writing"], self._clock.now())) is not None:
            self.took_over(*write)
        self._term, self._renewed = row["term"], began
        self._ever_known = True
        log.info("leads", replica=self._replica, term=self._term)
        self.changed()
        return True

    async def _renew(self, statement: str, *more: str) -> bool:
        """Renew the lead, timed from before the question; losing it ends the session."""
        began, term = self._clock.monotonic(), self._term
        try:
            kept = await self._ask("fetchval", statement, term, *more)
        except _GONE as error:
            self._lose(type(error).__name__)
            return False
        if not kept or self._term != term:
            self._lose("another leads")
            return False
        self._renewed = began
        return True

    def _lose(self, why: str) -> None:
        if self._term is not None:
            log.warning("no longer leads", replica=self._replica, why=why)
            self._term = None
            self.changed()
        self._lost.set()

    async def _ask(self, method: str, *arguments: object) -> Any:
        async with self._talking, deadline(self._clock, ANSWER_S):
            if self._connection is None:
                raise ConnectionError("not connected")
            return await getattr(self._connection, method)(*arguments)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[None]:
        async with deadline(self._clock, ANSWER_S * 2):
            connection = await asyncpg.connect(
                self._url, server_settings={"application_name": f"llmao {self._replica}"}
            )
            try:
                async with connection.transaction():
                    await connection.execute(_MAKE_ONE_AT_A_TIME, _LOCK + 1)
                    await connection.execute(_MAKE)
            except BaseException:
                connection.terminate()
                raise
        self._connection = connection
        try:
            yield
        finally:
            self._connection = None
            self._lose("the connection ended")
            # The server lets go of the lock as soon as it sees the end of the connection.
            connection.terminate()


def _noted(order: Order) -> str:
    key = order.key
    return json.dumps([order.target, order.kind.value, key.base, key.model, key.shown])


def _left(noted: str, now: float) -> tuple[str, Write] | None:
    """Return the row and the write that a leader left: nobody knows what became of it."""
    if not noted:
        return None
    try:
        target, kind, *key = map(str, json.loads(noted))
        write = Write(ActionKind(kind), Key(*key), now)
    except (ValueError, TypeError):
        return None
    said = "The llmao that led before vanished in the middle of it."
    return target, evolve(write, answered=now, outcome=Outcome(OutcomeKind.UNKNOWN, said))
