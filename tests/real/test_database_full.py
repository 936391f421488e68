"""PostgreSQL that answers and keeps nothing: its disk is full, or it was set to read-only.

Rule of this file: the disk is a real one, small and filled; what is refused is refused by it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from attrs import frozen
from tests.real.lab.install import install_litellm
from tests.real.lab.postgres import FullPostgres

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
from .stage import NotDoneError, Stage, Visitor, staged, until
from .timing import now

pytestmark = pytest.mark.real

# The first is shorter than what llmao tries whether there is room again with; when the second is
# refused, so is everything.
NOTES = ("n" * 1_000, "n")
# Many more than the room that is left in pages of tables takes.
MOST_NOTES = 100
_READ_ONLY = "ALTER SYSTEM SET default_transaction_read_only = {}"


@frozen
class Trouble:
    """One way to keep nothing. said: what people are told of it."""

    begin: Callable[[], None]
    end: Callable[[], None]
    said: str


@pytest.fixture
def postgres() -> Iterator[FullPostgres]:
    with FullPostgres(install_litellm()) as server:
        yield server


@pytest.fixture(params=["full", "read-only"])
def trouble(request: pytest.FixtureRequest, postgres: FullPostgres) -> Trouble:
    if request.param == "full":
        return Trouble(postgres.fill, postgres.make_room, "its disk is full. Make room.")

    def set_to(value: str) -> None:
        postgres.sql(_READ_ONLY.format(value))
        postgres.sql("SELECT pg_reload_conf()")

    return Trouble(lambda: set_to("on"), lambda: set_to("off"), "it takes no writes")


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(tmp_path, SERVERS) as stage:
        yield stage


async def _until_refused(visitor: Visitor, note: str, said: str) -> int:
    """Write a note again and again until it is refused; return how often it was acknowledged."""
    for number in range(MOST_NOTES):
        try:
            await visitor.does("label", host=APPROVED, label=str(number), note=note)
        except NotDoneError as error:
            refused = str(error)
            break
    else:
        raise AssertionError("the store keeps everything")
    assert said in refused
    assert "Nothing of it was kept" in refused
    return number


async def test_llmao_goes_on_while_its_database_keeps_nothing(
    stage: Stage, postgres: FullPostgres, trouble: Trouble, figures: Figures
) -> None:
    """From the first deed that is refused on, boxes and pages are answered as before and say what
    to do; deeds are refused in words, and none of them applies; no write is begun. When it
    keeps again, a dead server and a row that went are dealt with, and all that was acknowledged
    is there once."""
    llmao = stage.llmao(postgres.url)
    await asyncio.to_thread(llmao.start)
    await stage.routed(ROUTED_S)
    async with stage.visitor(llmao) as visitor:
        await visitor.approve(APPROVED, "s1", stage.servers[0].port)
        await asyncio.to_thread(trouble.begin)
        noted = sum([await _until_refused(visitor, note, trouble.said) for note in NOTES])
        refused = now()
        dying, vanishing, _ = stage.servers
        pages = pages_of(stage, dying)
        dying.vllm.mode = Mode.REFUSES
        stage.litellm.remove(row_of(stage, vanishing))
        figures("answered meanwhile", await answers(visitor, pages, refused + AWAY_S))
        assert trouble.said in (await visitor.get("/models")).text
        with pytest.raises(NotDoneError, match="Nothing of it was kept"):
            await visitor.approve(LATER, "s2", dying.port)
        assert 404 == (await visitor.fetch(LATER)).status_code
        assert [] == stage.litellm.begun_since(refused)

        await asyncio.to_thread(trouble.end)
        figures("keeps again → dead server removed, row put back", await stage.routed(RESUMED_S))
        assert 404 == (await visitor.fetch(LATER)).status_code
        await visitor.approve(LATER, "s2", dying.port)
        assert 200 == (await visitor.fetch(LATER)).status_code
        kept: Callable[[], bool] = lambda: "2" == postgres.sql(ACTIONS)  # noqa: E731
        figures("keeps again → all that was done is kept", await until(kept, KNOWN_S, "kept"))
        assert {"approved": 2, "labelled": noted} == _deeds(postgres)
        figures("keeps again → nothing is said of it", await _unsaid(visitor, trouble.said))


async def _unsaid(visitor: Visitor, said: str) -> float:
    """Return how long it takes until the list of work says no more of it."""
    began = now()
    while said in (await visitor.get("/models")).text:
        assert now() - began < RESUMED_S
        await asyncio.sleep(0.2)
    return now() - began


def _deeds(postgres: FullPostgres) -> dict[str, int]:
    lines = postgres.sql(
        "SELECT kind, count(*) FROM llmao.entries"
        " WHERE kind IN ('approved', 'labelled') GROUP BY kind"
    ).splitlines()
    counts = {"approved": 0, "labelled": 0}
    return counts | {kind: int(count) for kind, count in (line.split("|") for line in lines)}
