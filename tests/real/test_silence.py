"""A leader whose packets to PostgreSQL are dropped: no connection ends, and nothing is said."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest
from attrs import frozen
from tests.real.lab.install import install_litellm
from tests.real.lab.postgres import Postgres

from .conftest import Figures
from .pairing import LATER, STEADY_S, TAKEOVER_S, Pair, paired, told
from .relay import Relay
from .timing import now

pytestmark = pytest.mark.real

# Every second each tells the store what its boxes asked.
BEGUN_S = 10
_WAITS_FOR_TABLE = """
SELECT count(*) FROM pg_locks WHERE relation = 'llmao.entries'::regclass AND NOT granted
"""
_WAITS_FOR_TURN = """
SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
"""


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    with Postgres(install_litellm()) as server:
        yield server


@frozen
class Apart:
    """Two replicas; the first, which leads, reaches PostgreSQL by the relay alone."""

    pair: Pair
    relay: Relay
    postgres: Postgres

    @asynccontextmanager
    async def store_held(self) -> AsyncIterator[None]:
        """Hold the leader in a transaction of its store, with the other waiting for its turn."""
        second = self.pair.second
        second.asking = False
        other = await asyncpg.connect(self.postgres.url)
        try:
            async with other.transaction():
                await other.execute("LOCK TABLE llmao.entries IN EXCLUSIVE MODE")
                await _found(other, _WAITS_FOR_TABLE)
                second.asking = True
                await _found(other, _WAITS_FOR_TURN)
                yield
        finally:
            await other.close()


async def _found(connection: asyncpg.Connection, question: str) -> None:
    async with asyncio.timeout(BEGUN_S):
        while not await connection.fetchval(question):
            await asyncio.sleep(0.02)


@pytest.fixture
async def apart(postgres: Postgres, tmp_path: Path, figures: Figures) -> AsyncIterator[Apart]:
    async with Relay(postgres.port).listening() as relay:
        by_relay = postgres.url.replace(f":{postgres.port}/", f":{relay.port}/")
        async with paired(tmp_path, (by_relay, postgres.url), figures) as pair:
            yield Apart(pair, relay, postgres)


async def test_a_leader_whose_packets_are_dropped_is_replaced(
    apart: Apart, figures: Figures
) -> None:
    """Nothing tells the leader, and nothing PostgreSQL, not even while it writes to the store: it
    begins no write all the same, the other removes a dead server in time, both answer boxes; and
    when the packets come through after all, the first knows what was approved without it, and
    writes nothing more."""
    pair, first, second = apart.pair, apart.pair.first, apart.pair.second
    litellm = pair.stage.litellm
    async with apart.store_held():
        apart.relay.fall_silent()
        silent = now()
    took_s = await pair.removed(silent)
    figures("silent → a dead server removed by the other", took_s)
    assert took_s < TAKEOVER_S
    # One may have been permitted before.
    assert [second.door] == litellm.turns(silent + 0.5)
    await second.visitor.approve(LATER, "s2", pair.dying.port)
    apart.relay.go_on()
    figures("goes on → answers what was approved meanwhile", await told(first.visitor, LATER))
    await asyncio.sleep(STEADY_S)
    assert [second.door] == litellm.turns(silent + 0.5)
