"""When a lead is one, on a clock of the test's own; the lock is tested on a real PostgreSQL."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from llmao_core.actions import ActionKind, Order, OutcomeKind, Write
from llmao_core.keys import box_key
from llmao_core.testing.clock import VirtualClock
from llmao_web.shell.leader import ANSWER_S, FRESH_S, RENEW_S, Election, Leadership

KEY = box_key("127.0.0.2", 8001, "tiny")
ORDER = Order(ActionKind.ADD_LITELLM, "litellm", KEY, "llmao-1")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with capture_logs():
        yield


class Postgres:
    """The one row and the lock, as far as a session sees them.

    takes_s: for each answer. held_by: who else has the lock. gone: it answers nothing.
    """

    def __init__(self, clock: VirtualClock, writing: str = "") -> None:
        self.writing = writing
        self.takes_s = 0.0
        self.held_by = ""
        self.gone = False
        self._clock = clock

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Do what is done in it."""
        yield

    async def fetch(self, *_: object) -> list[Any]:
        """End nobody."""
        return []

    async def execute(self, *_: object) -> None:
        """Do as asked."""

    async def fetchval(self, statement: str, *given: Any) -> Any:
        """Give the lock to whoever asks, and renew the lead of whoever has it."""
        await self._clock.sleep(self.takes_s)
        if self.gone:
            raise ConnectionError("gone")
        if "pg_try_advisory_lock" in statement:
            return not self.held_by
        if "SELECT replica" in statement:
            return self.held_by
        if "writing = $2" in statement:
            self.writing = given[1]
        return 1

    async def fetchrow(self, *_: object) -> dict[str, Any]:
        """Begin a term; the row says what the leader before was writing."""
        return {"term": 1, "writing": self.writing}

    def terminate(self) -> None:
        """End the session."""


@asynccontextmanager
async def elected(postgres: Postgres, clock: VirtualClock, monkeypatch: Any) -> AsyncIterator[Any]:
    async def connect(*_: object, **__: object) -> Postgres:
        return postgres

    monkeypatch.setattr("asyncpg.connect", connect)
    election = Election("postgresql://127.0.0.1:1/llmao", "first", clock)
    told: list[tuple[str, Write]] = []
    election.took_over = lambda target, write: told.append((target, write))
    task = asyncio.create_task(election.run())
    await clock.settle()
    yield election, told
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("held", [False, True])
async def test_who_leads_was_known_stays_true_without_the_database(
    held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unknown until the database was asked, whoever leads; its outage takes nothing back."""
    clock = VirtualClock()
    postgres = Postgres(clock)
    postgres.held_by = "another" if held else ""
    assert not Election("postgresql://127.0.0.1:1/llmao", "first", clock).leadership().ever_known
    async with elected(postgres, clock, monkeypatch) as (election, _):
        who = Leadership(postgres.held_by or "first", here=not held, known=True)
        assert who == election.leadership()
        postgres.gone = True
        await clock.advance(60)
        assert Leadership("", here=False, known=False) == election.leadership()


async def test_a_lead_is_as_old_as_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """A renewal that is answered late counts from when it was asked, as it does for others."""
    clock = VirtualClock()
    postgres = Postgres(clock)
    async with elected(postgres, clock, monkeypatch) as (election, _):
        postgres.takes_s = ANSWER_S * 0.9
        await clock.advance(RENEW_S + postgres.takes_s)
        assert election.leads()
        await clock.advance(FRESH_S - postgres.takes_s)
        assert not election.leads()


async def test_nothing_is_begun_while_the_store_keeps_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A leader whose database has no room leads on, and begins no write until it has."""
    clock = VirtualClock()
    postgres = Postgres(clock)
    async with elected(postgres, clock, monkeypatch) as (election, _):
        election.keeps = lambda: False
        assert not await election.begins(ORDER)
        assert "" == postgres.writing
        assert election.leads()
        election.keeps = lambda: True
        assert await election.begins(ORDER)


async def test_what_the_leader_before_wrote_may_have_happened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who takes over is told the row that was being written, and that nobody knows how it ended."""
    clock = VirtualClock()
    first, second = Postgres(clock), Postgres(clock)
    async with elected(first, clock, monkeypatch) as (election, told):
        assert await election.begins(ORDER)
        assert [] == told
    second.writing = first.writing
    async with elected(second, clock, monkeypatch) as (_, told):
        [(target, write)] = told
    assert ("llmao-1", KEY, ActionKind.ADD_LITELLM) == (target, write.key, write.kind)
    assert write.outcome is not None
    assert OutcomeKind.UNKNOWN is write.outcome.kind
    assert clock.now() == write.answered


@pytest.mark.parametrize("noted", ["", "{", json.dumps(["llmao-1", "no kind", "", "", ""])])
async def test_what_says_nothing_is_no_write(noted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that holds nothing, or what an older llmao wrote, stops nobody from leading."""
    clock = VirtualClock()
    async with elected(Postgres(clock, noted), clock, monkeypatch) as (election, told):
        assert election.leads()
        assert [] == told
