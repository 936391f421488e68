"""Second opinions and the free read go side by side; the crew fits the configuration."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs

from llmao_core.config import Config, FleetConfig, GpuProvider, LitellmConfig
from llmao_core.hooks import FetchRequest, SourceCard, SourceKind
from llmao_core.keys import box_key
from llmao_core.plan import Plan
from llmao_core.secret import Secret
from llmao_core.snapshots import Deployments, Health, Listing, Opinion, Row, Snapshot
from llmao_core.testing.clock import VirtualClock
from llmao_web.shell.board import Board
from llmao_web.shell.crew import Crew
from llmao_web.shell.health import HealthRunner
from llmao_web.shell.sources import Source

from .conftest import Script, failure

INTERVAL_S = 60.0
KEY = box_key("127.0.0.2", 8001, "tiny")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with capture_logs():
        yield


def source(kind: SourceKind = SourceKind.LISTING, name: str = "vast") -> Source:
    card = SourceCard(name, kind, INTERVAL_S)
    return Source(card, INTERVAL_S, FetchRequest(name, "http://127.0.0.1:1"))


@asynccontextmanager
async def running(*runs: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    tasks = [asyncio.ensure_future(run()) for run in runs]
    yield
    assert not any(task.done() for task in tasks), "a runner died"
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


# ---- health


def opinion(at: float, healthy: bool = True) -> Opinion:
    return Opinion(healthy, at)


def row(litellm_id: str, fleet: str = "main") -> Row:
    return Row(litellm_id, "tiny", "http://127.0.0.2:8001", fleet=fleet)


@pytest.fixture
def health(script: Script, board: Board, clock: VirtualClock) -> HealthRunner:
    board.configure("litellm", SourceKind.DEPLOYMENTS, INTERVAL_S)
    board.configure("litellm_health", SourceKind.HEALTH, INTERVAL_S)
    board.publish("litellm", Snapshot(clock.now(), Deployments((row("a"), row("b")))))
    script.answers["litellm_health"] = Health()
    made = source(SourceKind.HEALTH, "litellm_health")
    return HealthRunner(
        made,
        script,  # type: ignore[arg-type]
        board,
        clock,
        fleet="main",
        paid_interval_s=0.0,
    )


def body(board: Board) -> Health:
    snapshot = board.health().snapshot
    assert snapshot is not None
    return snapshot.body


async def test_a_question_does_not_hold_up_the_free_read(
    health: HealthRunner, script: Script, board: Board, clock: VirtualClock
) -> None:
    """While LiteLLM thinks about one row, its free results come in, and the question shows.

    The answer to a question does not make the free read look younger.
    """

    async def answer(request: FetchRequest) -> Health:
        if request.ask:
            await clock.sleep(90.0)
            return Health({"a": opinion(clock.now(), healthy=False)})
        return Health({"b": opinion(clock.now())})

    script.answers["litellm_health"] = answer
    async with running(health.run):
        await clock.advance(5.0)
        asked_at = clock.now()
        health.ask(["a"])
        await clock.advance(60.0)
        assert [0.0, 60.0] == script.times(lambda request: not request.ask)
        asked = body(board).asked["a"]
        assert (asked_at, None) == (asked.asked_at, asked.answered_at)
        await clock.advance(31.0)
        assert asked_at + 90.0 == body(board).asked["a"].answered_at
        assert {"a", "b"} == body(board).opinions.keys()
        assert not body(board).opinions["a"].healthy
        snapshot = board.health().snapshot
        assert snapshot is not None
        assert asked_at + 55.0 == snapshot.taken_at


async def test_a_question_without_an_answer_leaves_its_mark(
    health: HealthRunner, script: Script, board: Board, clock: VirtualClock
) -> None:
    """Asked and answered at, and no opinion; the health source itself is in no trouble."""
    script.answers["litellm_health"] = lambda request: failure() if request.ask else Health()
    async with running(health.run):
        await clock.settle()
        health.ask(["a"])
        await clock.settle()
    assert {} == body(board).opinions
    assert body(board).asked["a"].answered_at is not None
    assert board.health().trouble is None


async def test_nobody_is_asked_twice_at_once(
    health: HealthRunner, script: Script, clock: VirtualClock
) -> None:
    """Every pass repeats what it wants asked; one question goes out."""

    async def answer(request: FetchRequest) -> Health:
        await clock.sleep(10.0 if request.ask else 0.0)
        return Health()

    script.answers["litellm_health"] = answer
    async with running(health.run):
        for _ in range(20):
            health.ask(["a"])
            await clock.advance(1.0)
    assert 1 == len(script.times(lambda request: request.ask))


async def test_the_newest_check_wins_and_strangers_are_dropped(
    health: HealthRunner, script: Script, board: Board, clock: VirtualClock
) -> None:
    """An older result never replaces a newer one, and deleted rows do not come back."""
    now = clock.now()
    script.answers["litellm_health"] = Health({"a": opinion(now - 5.0, healthy=False)})
    await health.read()
    old = {"a": opinion(now - 50.0), "gone": opinion(now)}
    script.answers["litellm_health"] = Health(old)
    await health.read()
    assert {"a": opinion(now - 5.0, healthy=False)} == body(board).opinions


async def test_a_check_of_the_future_does_not_stick(
    health: HealthRunner, script: Script, board: Board, clock: VirtualClock
) -> None:
    """A proxy whose clock runs ahead cannot make one result outlive all later ones."""
    script.answers["litellm_health"] = Health({"a": opinion(clock.now() + 1e6)})
    await health.read()
    await clock.advance(60.0)
    later = opinion(clock.now(), healthy=False)
    script.answers["litellm_health"] = Health({"a": later})
    await health.read()
    assert later == body(board).opinions["a"]


async def test_what_costs_tokens_is_rare(
    health: HealthRunner, script: Script, board: Board, clock: VirtualClock
) -> None:
    """The paid check runs when one of our rows has no recent result, and then an interval later.

    Rows of others do not make us pay.
    """
    health._paid_interval_s = 14400.0
    script.answers["litellm_health"] = lambda request: Health(
        {"a": opinion(clock.now()), "b": opinion(clock.now())} if request.paid else {}
    )
    async with running(health.run):
        await clock.advance(14000.0)
        assert [0.0] == script.times(lambda request: request.paid)
        await clock.advance(1000.0)
        assert [0.0, 14400.0] == script.times(lambda request: request.paid)
        board.publish("litellm", Snapshot(clock.now(), Deployments((row("a", "other"),))))
        await clock.advance(14400.0)
    assert 2 == len(script.times(lambda request: request.paid))


# ---- the crew


CARDS = (
    SourceCard("vast", SourceKind.LISTING, 60.0),
    SourceCard("litellm", SourceKind.DEPLOYMENTS, 60.0),
    SourceCard("litellm_health", SourceKind.HEALTH, 60.0),
)


def config(vast: GpuProvider | None = None, base_url: str = "http://127.0.0.1:4000") -> Config:
    return Config(
        litellm=LitellmConfig(base_url=base_url),
        fleet=FleetConfig(litellm_health_interval_s=0.0),
        gpu_providers=(vast,) if vast else (),
    )


VAST = GpuProvider("vast", Secret("v"))


@pytest.fixture
def crew(script: Script, board: Board, clock: VirtualClock) -> Crew:
    script.answers |= {"vast": Listing(), "litellm": Deployments(), "litellm_health": Health()}
    script.cards = lambda: CARDS  # type: ignore[attr-defined]
    return Crew(script, board, clock)  # type: ignore[arg-type]


async def test_a_provider_without_a_key_is_no_source(
    crew: Crew, script: Script, board: Board, clock: VirtualClock
) -> None:
    """Not configured is not unread: the board has no reading of it."""
    crew.apply(config(GpuProvider("vast")))
    async with running(crew.run):
        await clock.settle()
    assert {"litellm", "litellm_health"} == {request.source for _, request in script.fetches}
    assert {} == board.snapshots().inventories


async def test_a_reload_keeps_what_did_not_change(
    crew: Crew, script: Script, board: Board, clock: VirtualClock
) -> None:
    """A provider comes and goes; LiteLLM is not read again for that."""
    crew.apply(config())
    async with running(crew.run):
        await clock.advance(1.0)
        crew.apply(config(VAST))
        await clock.advance(1.0)
        assert board.snapshots().inventories["vast"].snapshot is not None
        crew.apply(config())
        await clock.advance(100.0)
    assert {} == board.snapshots().inventories
    assert [0.0, 60.0] == script.times(lambda request: request.source == "litellm")
    assert [1.0] == script.times(lambda request: request.source == "vast")


async def test_another_proxy_is_unread(crew: Crew, board: Board, clock: VirtualClock) -> None:
    """What was read at one address says nothing about another."""
    crew.apply(config())
    async with running(crew.run):
        await clock.settle()
        assert board.deployments().snapshot is not None
        crew.apply(config(base_url="http://127.0.0.1:4001"))
        assert board.deployments().snapshot is None


@pytest.mark.parametrize("name", ["litellm", "deployments"])
async def test_a_plan_has_sources_read(
    name: str, crew: Crew, script: Script, clock: VirtualClock
) -> None:
    """A source goes by the name of its card or by its kind, and ids go to LiteLLM's check."""
    crew.apply(config())
    async with running(crew.run):
        await clock.advance(5.0)
        crew.follow(Plan(asks=("a",), reads={name: clock.now()}))
        await clock.advance(5.0)
    assert [0.0, 5.0] == script.times(lambda request: request.source == "litellm")
    assert [5.0] == script.times(lambda request: request.ask == ("a",))
