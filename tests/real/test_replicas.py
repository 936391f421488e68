"""Two `llmao serve` on one PostgreSQL and one LiteLLM: both answer, one writes, and one goes on."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.real.lab.install import install_litellm
from tests.real.lab.postgres import Postgres

from .conftest import Figures
from .pairing import LATER, STEADY_S, TAKEOVER_S, Pair, paired, told
from .stage import NotDoneError, Visitor
from .timing import now

pytestmark = pytest.mark.real


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    with Postgres(install_litellm()) as server:
        yield server


@pytest.fixture
async def pair(postgres: Postgres, tmp_path: Path, figures: Figures) -> AsyncIterator[Pair]:
    async with paired(tmp_path, (postgres.url, postgres.url), figures) as pair:
        yield pair


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
    figures("thawed → answers what was approved meanwhile", await told(first.visitor, LATER))
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
    await told(pair.second.visitor, LATER)
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
