"""PostgreSQL away from a running llmao: it shows what it knows, begins no write, and resumes.

Rule of this file: half a minute stands for the ten minutes of a database that is upgraded: by then
every interval, time-out and longest wait of the store has come round.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path

import pytest
from tests.real.lab.install import install_litellm
from tests.real.lab.postgres import Postgres

from llmao_core.testing.fake_vllm import Mode

from .conftest import Figures
from .stage import NotDoneError, Server, Stage, Visitor, staged, until
from .timing import now

pytestmark = pytest.mark.real

SERVERS = ("127.0.0.2", "127.0.0.3", "127.0.0.4")
APPROVED, LATER = "127.0.9.1", "127.0.9.2"
AWAY_S = 30
ROUTED_S = 60
# The election looks every second, and the store is tried again after half a minute at most.
RESUMED_S = 20
KNOWN_S = 40
# Those at the end show what is kept, or say that it cannot be read.
PAGES = ("/models", "/boxes", "/admin", "/healthz", "/readyz", "/metrics", "/admin/log")


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
        pages = (*PAGES, f"/boxes/{dying.host}", f"/deployments/{_row_of(stage, dying)}")
        stage.litellm.remove(_row_of(stage, vanishing))
        figures("answered meanwhile", await _answers(visitor, pages, stopped + AWAY_S))
        with pytest.raises(NotDoneError, match=r"The store, PostgreSQL at 127\.0\.0\.1:\d+"):
            await visitor.approve(LATER, "s2", dying.port)
        assert 404 == (await visitor.fetch(LATER)).status_code
        assert [] == stage.litellm.begun_since(stopped)
        assert dying.key in stage.litellm.keys_in()

        await asyncio.to_thread(postgres.start)
        figures("back → dead server removed, row put back", await stage.routed(RESUMED_S))
        await visitor.approve(LATER, "s2", dying.port)
        assert 200 == (await visitor.fetch(LATER)).status_code
        kept: Callable[[], bool] = lambda: "2" == postgres.sql(_ACTIONS)  # noqa: E731
        figures("back → all that was done is kept", await until(kept, KNOWN_S, "kept"))


_ACTIONS = (
    "SELECT count(*) FROM llmao.entries WHERE kind = 'action'"
    " AND number > (SELECT number FROM llmao.entries WHERE kind = 'approved' LIMIT 1)"
)


def _row_of(stage: Stage, server: Server) -> str:
    rows = stage.litellm.db.values()
    return next(row.id for row in rows if server.vllm.base == row.info["llmao_key"])


async def _answers(visitor: Visitor, pages: Sequence[str], until_s: float) -> str:
    """Ask for everything until a moment; say how often."""
    asked = 0
    while now() < until_s:
        assert 200 == (await visitor.fetch(APPROVED)).status_code
        for page in pages:
            answer = await visitor.get(page)
            assert 200 == answer.status_code, (page, answer.text)
        asked += 1
        await asyncio.sleep(0.2)
    return f"{asked} times a box and {len(pages)} pages"
