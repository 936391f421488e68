"""PostgreSQL away from a running llmao: it shows what it knows, begins no write, and resumes.

Rule of this file: one outage, seen from everybody who asks llmao something meanwhile.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from tests.real.lab.install import install_litellm
from tests.real.lab.postgres import Postgres

from llmao_core.testing.fake_vllm import Mode

from .conftest import Figures
from .outage import (
    ACTIONS,
    APPROVED,
    AWAY_S,
    KNOWN_S,
    LATER,
    RESUMED_S,
    ROUTED_S,
    SERVERS,
    answers,
    pages_of,
    row_of,
)
from .stage import NotDoneError, Stage, staged, until
from .timing import now

pytestmark = pytest.mark.real


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    with Postgres(install_litellm()) as server:
        yield server


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(tmp_path, SERVERS) as stage:
        yield stage


async def test_llmao_goes_on_without_its_database(
    stage: Stage, postgres: Postgres, figures: Figures
) -> None:
    """Boxes, pages and load balancers are answered as before; what would need the database is
    refused with a sentence; a server that died and a row that went stay as they are until it is
    back, and then both are dealt with and approvals are kept again."""
    llmao = stage.llmao(postgres.url)
    await asyncio.to_thread(llmao.start)
    await stage.routed(ROUTED_S)
    async with stage.visitor(llmao) as visitor:
        await visitor.approve(APPROVED, "s1", stage.servers[0].port)
        await asyncio.to_thread(postgres.stop)
        stopped = now()
        dying, vanishing, _ = stage.servers
        dying.vllm.mode = Mode.REFUSES
        pages = pages_of(stage, dying)
        stage.litellm.remove(row_of(stage, vanishing))
        figures("answered meanwhile", await answers(visitor, pages, stopped + AWAY_S))
        with pytest.raises(NotDoneError, match=r"The store, PostgreSQL at 127\.0\.0\.1:\d+"):
            await visitor.approve(LATER, "s2", dying.port)
        assert 404 == (await visitor.fetch(LATER)).status_code
        assert [] == stage.litellm.begun_since(stopped)
        assert dying.key in stage.litellm.keys_in()

        await asyncio.to_thread(postgres.start)
        figures("back → dead server removed, row put back", await stage.routed(RESUMED_S))
        await visitor.approve(LATER, "s2", dying.port)
        assert 200 == (await visitor.fetch(LATER)).status_code
        kept: Callable[[], bool] = lambda: "2" == postgres.sql(ACTIONS)  # noqa: E731
        figures("back → all that was done is kept", await until(kept, KNOWN_S, "kept"))
