"""The database's side of the election: one lock, one row, and the sessions of the candidates.

Rule of this file: it does what PostgreSQL would with the election's statements, at its own time;
who leads is decided by the election itself, in llmao.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol

from attrs import define, field, frozen

from llmao_web.shell.clock import Clock, deadline
from llmao_web.shell.leader import ANSWER_S, Election

from .virtual import SimClock

WIRE_S = 0.003


class Candidate(Protocol):
    """The part of llmao's process that its session knows."""

    clock: SimClock

    async def reaches_store(self) -> None:
        """Return once the process runs and can reach the database."""
        ...


@frozen
class Permit:
    """That the database let a leader write once. at: true seconds; by_its_clock: its monotonic."""

    term: int
    at: float
    by_its_clock: float


@define(eq=False)
class Arbiter:
    """The lock, and the one row. seconds: true time. holder: the session that has the lock.

    taken_at: when a lead last began. permits: the one that each candidate has not used.
    permitted: the newest term that was let write. on_permit: told who was let write.
    """

    seconds: Callable[[], float]
    holder: "Session | None" = None
    replica: str = ""
    term: int = 0
    renewed_at: float = 0.0
    writing: str = ""
    taken_at: float = 0.0
    permitted: int = 0
    permits: dict[Candidate, Permit] = field(factory=dict)
    sessions: list["Session"] = field(factory=list)
    on_permit: Callable[[Candidate], None] = lambda _who: None

    def session(self, who: Candidate) -> "Session":
        """Return a new session of a candidate."""
        made = Session(self, who)
        self.sessions.append(made)
        return made

    def cut(self, who: Candidate) -> None:
        """End the sessions of a candidate, as its death or an administrator does."""
        for session in [each for each in self.sessions if each.who is who]:
            session.terminate()

    def carry_out(self, session: "Session", statement: str, given: tuple[Any, ...]) -> Any:
        """Do what one statement of the election says, and return its answer."""
        # By words that stand in one of its statements, and in none that comes later here.
        known: tuple[tuple[str, Callable[..., Any]], ...] = (
            ("pg_try_advisory_lock", self._try),
            ("pg_terminate_backend", self._end_dead),
            ("SELECT replica", self._say_who),
            ("term = term + 1", self._take),
            ("writing = $2", self._begin),
            ("writing = ''", self._ended),
            ("SET renewed_at", self._renew),
        )
        for words, do in known:
            if words in statement:
                return do(session, *given)
        raise AssertionError(f"the election says what the arbiter does not know: {statement}")

    def _try(self, session: "Session", _lock: int) -> bool:
        self.holder = self.holder or session
        return self.holder is session

    def _end_dead(self, _session: "Session", _lock: int, dead_s: float) -> list[bool]:
        if self.holder is None or self.renewed_at >= self.seconds() - dead_s:
            return []
        self.holder.terminate()
        return [True]

    def _say_who(self, _session: "Session") -> str:
        return self.replica

    def _take(self, _session: "Session", replica: str) -> dict[str, Any]:
        self.replica, self.term = replica, self.term + 1
        self.renewed_at = self.taken_at = self.seconds()
        return {"term": self.term, "writing": self.writing}

    def _begin(self, session: "Session", term: int, writing: str) -> int | None:
        if self._renew(session, term) is None:
            return None
        self.writing, self.permitted = writing, term
        permit = Permit(term, self.seconds(), session.who.clock.monotonic())
        self.permits[session.who] = permit
        self.on_permit(session.who)
        return 1

    def _renew(self, _session: "Session", term: int) -> int | None:
        if term != self.term:
            return None
        self.renewed_at = self.seconds()
        return 1

    def _ended(self, _session: "Session", term: int) -> None:
        if term == self.term:
            self.writing = ""


@define(eq=False)
class Session:
    """One connection to the arbiter, with as much of asyncpg's as the election uses."""

    arbiter: Arbiter
    who: Candidate
    ended: bool = False

    async def fetchval(self, statement: str, *given: Any) -> Any:
        """Ask for one value."""
        return await self._asked(statement, given)

    async def fetchrow(self, statement: str, *given: Any) -> Any:
        """Ask for one row."""
        return await self._asked(statement, given)

    async def fetch(self, statement: str, *given: Any) -> Any:
        """Ask for rows."""
        return await self._asked(statement, given)

    async def execute(self, statement: str, *given: Any) -> Any:
        """Have something done."""
        return await self._asked(statement, given)

    def terminate(self) -> None:
        """End it: its lock is free."""
        self.ended = True
        if self in self.arbiter.sessions:
            self.arbiter.sessions.remove(self)
        if self.arbiter.holder is self:
            self.arbiter.holder = None

    async def _asked(self, statement: str, given: tuple[Any, ...]) -> Any:
        await self.who.reaches_store()
        await asyncio.sleep(WIRE_S)
        self._check()
        answer = self.arbiter.carry_out(self, statement, given)
        await asyncio.sleep(WIRE_S)
        # An answer that came while the machine was frozen is read before its timers go off.
        await self.who.reaches_store()
        self._check()
        return answer

    def _check(self) -> None:
        if self.ended:
            raise ConnectionResetError("the session was ended")


class Standing(Election):
    """The real election, whose connection leads to an arbiter."""

    def __init__(self, arbiter: Arbiter, who: Candidate, replica: str, clock: Clock) -> None:
        super().__init__("", replica, clock)
        self._arbiter = arbiter
        self._who = who

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[None]:
        async with deadline(self._clock, ANSWER_S * 2):
            await self._who.reaches_store()
        session = self._arbiter.session(self._who)
        self._connection = session
        try:
            yield
        finally:
            self._connection = None
            self._lose("the connection ended")
            session.terminate()
