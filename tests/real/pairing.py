"""Two `llmao serve` on one PostgreSQL and one LiteLLM, with boxes asking both and work to do.

Rule of this file: who wrote is what LiteLLM saw, since each llmao comes in by a door of its own.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
from attrs import define, field

from llmao_core.testing.fake_vllm import Mode

from .conftest import Figures
from .llmao import Llmao
from .stage import Server, Stage, Visitor, staged, until
from .timing import now

SERVERS = ("127.0.0.2", "127.0.0.3", "127.0.0.4")
APPROVED, LATER = "127.0.9.1", "127.0.9.2"
ANSWER_S = 0.3
# One row goes by hand so often, so that there is something to write all the time.
TAKEN_EVERY_S = 0.5
ROUTED_S = 60
TAKEOVER_S = 15
TOLD_S = 5
STEADY_S = 5


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


@asynccontextmanager
async def paired(folder: Path, stores: Sequence[str], figures: Figures) -> AsyncIterator[Pair]:
    """Give two replicas that were told of one approval; no box may be answered badly.

    stores: the URL by which each reaches the one PostgreSQL.
    """
    async with staged(folder, SERVERS, doors=2, answer_s=ANSWER_S) as stage:
        llmaos = [stage.llmao(store, door) for door, store in enumerate(stores)]
        await asyncio.to_thread(llmaos[0].start)
        await stage.routed(ROUTED_S)
        await asyncio.to_thread(llmaos[1].start)
        async with stage.visitor(llmaos[0]) as one, stage.visitor(llmaos[1]) as other:
            # It listens before it has read what was decided, and answers when it has.
            await other.get("/healthz")
            await one.approve(APPROVED, "s1", stage.servers[0].port)
            figures("approved at one → answered by the other", await told(other, APPROVED))
            ports = [door.port for door in stage.doors]
            pair = Pair(stage, *map(Replica, llmaos, ports, (one, other)))
            async with at_work(pair.first.ask(), pair.second.ask(), pair.take_rows()):
                await pair.writing(pair.first)
                yield pair
            assert [] == [*pair.first.bad, *pair.second.bad]
            figures("boxes answered", f"{pair.first.answered} and {pair.second.answered}")


async def told(visitor: Visitor, host: str) -> float:
    """Return how long it takes until the box of a host is answered."""
    began = now()
    while (status := (await visitor.fetch(host)).status_code) != 200:
        assert 404 == status
        assert now() - began < TOLD_S
        await asyncio.sleep(0.05)
    return now() - began
