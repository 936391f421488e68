"""What comes while a read or a write runs: neither knows of it, and neither may stand for it."""

import asyncio
from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from llmao_core.actions import ActionKind, Order, Outcome, OutcomeKind, RowBody
from llmao_core.hooks import FetchRequest, SourceCard, SourceKind
from llmao_core.keys import box_key
from llmao_core.plan import Action, Plan
from llmao_core.snapshots import Listing
from llmao_core.testing.clock import VirtualClock
from llmao_web.shell.board import Board
from llmao_web.shell.executor import Executor
from llmao_web.shell.leader import Alone
from llmao_web.shell.runners import RESTS, Runner
from llmao_web.shell.sources import Source
from llmao_web.shell.store import MemoryStore

from .conftest import Script

TAKES_S = 0.5
KEY = box_key("127.0.0.2", 8001, "tiny")
BODY = RowBody("tiny", "http://127.0.0.2:8001/v1", {}, {})
ADD = Action(Order(ActionKind.ADD_LITELLM, "litellm", KEY, "llmao-1", BODY), "rule", "because")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with capture_logs():
        yield


@pytest.fixture
def runner(script: Script, board: Board, clock: VirtualClock) -> Runner:
    """A runner of a listing that takes half a second to read."""

    async def slow(_: FetchRequest) -> Listing:
        await clock.sleep(TAKES_S)
        return Listing()

    board.configure("vast", SourceKind.LISTING, 60.0)
    script.answers["vast"] = slow
    card = SourceCard("vast", SourceKind.LISTING, 60.0)
    source = Source(card, 60.0, FetchRequest("vast", "http://127.0.0.1:1"))
    return Runner(source, script, board, clock)  # type: ignore[arg-type]


async def test_a_read_is_as_old_as_its_beginning(
    runner: Runner, board: Board, clock: VirtualClock
) -> None:
    """What changed while it ran may not be in it."""
    began = clock.now()
    reading = asyncio.create_task(runner.read())
    await clock.advance(TAKES_S)
    assert await reading
    snapshot = board.reading("vast").snapshot
    assert snapshot is not None
    assert began == snapshot.taken_at


async def test_a_wish_during_a_read_is_for_another(
    runner: Runner, script: Script, clock: VirtualClock
) -> None:
    """The read that runs began before what is wished for; one more follows when it may."""
    running = asyncio.create_task(runner.run())
    await clock.advance(TAKES_S / 2)
    runner.wish(clock.now())
    await clock.advance(30.0)
    running.cancel()
    assert [0.0, TAKES_S + RESTS * TAKES_S] == script.times()


async def _may_begin(*_: object) -> bool:
    return True


async def test_a_plan_made_during_a_write_says_nothing_of_that_row(
    script: Script, board: Board, clock: VirtualClock
) -> None:
    """Its pass did not see how the write ended, so that it still wants it."""
    executor = Executor(
        script,
        board,
        MemoryStore(),
        clock,
        request=lambda order: FetchRequest(order.executor, "http://127.0.0.1:1"),
        reread=lambda _: None,
        poll_interval_s=lambda: 30.0,
        lead=Alone(),
        begins=_may_begin,
    )

    def during(_: Order) -> Outcome:
        if len(script.orders) == 1:
            executor.take(Plan((ADD,)), board.revision)
        return Outcome(OutcomeKind.DONE)

    script.outcome = during
    executor.take(Plan((ADD,)), board.revision)
    await executor.batch()
    assert 1 == len(script.orders)
