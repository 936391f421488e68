"""Two `llmao serve` on one PostgreSQL and one LiteLLM: both answer, one writes, and one goes on.

Rule of this file: who wrote is what LiteLLM saw, since each llmao comes in by a door of its own.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from attrs import define, field
from tests.real.lab.install import install_litellm
from tests.real.lab.postgres import Postgres

from llmao_core.testing.fake_vllm import Mode

from .conftest import Figures
from .llmao import Llmao
from .stage import NotDoneError, Server, Stage, Visitor, staged, until
from .timing import now

pytestmark = pytest.mark.real

SERVERS = ("127.0.0.2", "127.0.0.3", "127.0.0.4")
APPROVED, LATER = "127.0.9.1", "127.0.9.2"
ANSWER_S = 0.3
# One row goes by hand so often, so that there is something to write all the time.
TAKEN_EVERY_S = 0.5
ROUTED_S = 60
TAKEOVER_S = 15
TOLD_S = 5
STEADY_S = 5


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    with Postgres(install_litellm()) as server:
        yield server


@define
class Replica:
    """One llmao, the door it writes by, and what its boxes were answered.

    asking: somebody asks. bad: every answer that was not 200, and every failure to answer.
    """

    llmao: Llmao
    door: int
    visitor: Visitor
    asking: bool = True
    answered: int = 0
    bad: list[str] = field(factory=list)

    async def ask(self) -> None:
        """Ask again and again as the box of an approved host."""
        while True:
            if self.asking:
                await self._ask_once()
            await asyncio.sleep(0.05)

    async def _ask_once(self) -> None:
        try:
            status = (await self.visitor.fetch(APPROVED)).status_code
        except httpx.TransportError as error:
            self.bad.append(repr(error))
        else:
            self.answered += 1
            self.bad += [str(status)] * (status != 200)


@define
class Pair:
    """Two replicas; the first leads at the beginning. dying: the one server whose row stays."""

    stage: Stage
    first: Replica
    second: Replica

    @property
    def dying(self) -> Server:
        return self.stage.servers[0]

    async def take_rows(self) -> None:
        """Take rows out by hand, one after the other, so that the leader writes them again."""
        litellm, place = self.stage.litellm, 0
        while True:
            dying = self.dying.key[0]
            rows = [row for row in litellm.db.values() if row.info["llmao_key"] != dying]
            if rows:
                place += 1
                litellm.remove(rows[place % len(rows)].id)
            await asyncio.sleep(TAKEN_EVERY_S)

    async def writing(self, replica: Replica) -> None:
        """Wait until a write of a replica is out."""
        out = lambda: any(  # noqa: E731
            each.door == replica.door and each.ended is None for each in self.stage.litellm.writes
        )
        await until(out, TAKEOVER_S, "in the middle of a write")

    async def removed(self, moment: float) -> float:
        """Have a server die, and return how long after a moment its row is gone."""
        self.dying.vllm.mode = Mode.REFUSES
        gone: Callable[[], bool] = lambda: self.dying.key not in self.stage.litellm.keys_in()  # noqa: E731
        await until(gone, TAKEOVER_S + 1, "removed")
        return now() - moment


@asynccontextmanager
async def at_work(*work: Awaitable[None]) -> AsyncIterator[None]:
    """Have things done while the block runs; what one of them raises is raised after it."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    for each in ended:
        if isinstance(each, Exception):
            raise each


@pytest.fixture
async def pair(postgres: Postgres, tmp_path: Path, figures: Figures) -> AsyncIterator[Pair]:
    """Give two replicas that were told of one approval, with boxes asking both and work to do."""
    async with staged(tmp_path, SERVERS, doors=2, answer_s=ANSWER_S) as stage:
        llmaos = [stage.llmao(postgres.url, door) for door in range(2)]
        await asyncio.to_thread(llmaos[0].start)
        await stage.routed(ROUTED_S)
        await asyncio.to_thread(llmaos[1].start)
        async with stage.visitor(llmaos[0]) as one, stage.visitor(llmaos[1]) as other:
            # It listens before it has read what was decided, and answers when it has.
            await other.get("/healthz")
            await one.approve(APPROVED, "s1", stage.servers[0].port)
            figures("approved at one → answered by the other", await _told(other, APPROVED))
            ports = [door.port for door in stage.doors]
            pair = Pair(stage, *map(Replica, llmaos, ports, (one, other)))
            async with at_work(pair.first.ask(), pair.second.ask(), pair.take_rows()):
                await pair.writing(pair.first)
                yield pair
            assert [] == [*pair.first.bad, *pair.second.bad]
            figures("boxes answered", f"{pair.first.answered} and {pair.second.answered}")


async def _told(visitor: Visitor, host: str) -> float:
    """Return how long it takes until the box of a host is answered."""
    began = now()
    while (status := (await visitor.fetch(host)).status_code) != 200:
        assert 404 == status
        assert now() - began < TOLD_S
        await asyncio.sleep(0.05)
    return now() - began


async def test_a_leader_frozen_in_the_middle_of_a_write_is_replaced(
    pair: Pair, figures: Figures
) -> None:
    """The other removes a dead server in time, and is told what was approved; the first, thawed,
    writes nothing more, answers, and knows what was approved without it."""
    first, second, litellm = pair.first, pair.second, pair.stage.litellm
    assert [first.door] == litellm.turns()
    first.asking = False
    await pair.writing(first)
    first.llmao.freeze()
    frozen = now()
    took_s = await pair.removed(frozen)
    figures("frozen → a dead server removed by the other", took_s)
    assert took_s < TAKEOVER_S
    assert [second.door] == litellm.turns(frozen)
    await second.visitor.approve(LATER, "s2", pair.dying.port)
    first.llmao.thaw()
    figures("thawed → answers what was approved meanwhile", await _told(first.visitor, LATER))
    first.asking = True
    await asyncio.sleep(STEADY_S)
    assert [second.door] == litellm.turns(frozen)


async def test_a_leader_whose_session_is_cut_is_replaced_or_leads_again(
    pair: Pair, postgres: Postgres, figures: Figures
) -> None:
    """Whoever has the lock then, a dead server is removed in time, and they never take turns."""
    litellm = pair.stage.litellm
    port = pair.first.llmao.url.rpartition(":")[2]
    cut = now()
    ended = await asyncio.to_thread(
        postgres.sql,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        f" WHERE application_name LIKE 'llmao %:{port}'",
    )
    assert "t" == ended
    took_s = await pair.removed(cut)
    figures("cut → a dead server removed", took_s)
    assert took_s < TAKEOVER_S
    await asyncio.sleep(STEADY_S)
    # The first may have begun one more on the lead it had.
    assert len(litellm.turns(cut)) <= 2
    assert 1 == len(litellm.turns(cut + 2))


async def test_postgresql_restarts_under_both(
    pair: Pair, postgres: Postgres, figures: Figures
) -> None:
    """Without it nobody begins a write and boxes are answered all the same; when it is back, one
    of the two writes, and it alone."""
    litellm = pair.stage.litellm
    await asyncio.to_thread(postgres.stop)
    stopped = now()
    await asyncio.sleep(STEADY_S)
    # One may have been on its way.
    assert [] == litellm.begun_since(stopped + 0.5)
    await asyncio.to_thread(postgres.start)
    back = now()
    took_s = await pair.removed(back)
    figures("back → a dead server removed", took_s)
    assert took_s < TAKEOVER_S
    await _approved(pair.first.visitor, LATER, pair.dying.port)
    await _told(pair.second.visitor, LATER)
    await asyncio.sleep(STEADY_S)
    assert 1 == len(litellm.turns(stopped + 0.5))


async def _approved(visitor: Visitor, host: str, port: int) -> None:
    """Approve a host, again while the store says that it cannot keep it."""
    began = now()
    while now() - began < TAKEOVER_S:
        try:
            await visitor.approve(host, "s2", port)
        except NotDoneError:
            await asyncio.sleep(0.2)
        else:
            return
    raise AssertionError("the store is back and keeps nothing")
