"""Outside edits: what others change of teams and keys leaves a trace, and only that."""

import asyncio
from collections.abc import Sequence
from typing import Any

import httpx
import pytest
from attrs import evolve
from structlog.testing import capture_logs
from tests.litellm.helpers import NOW, reached, request, saying
from tests.shell.conftest import Script, failure

from llmao_core.config import Config
from llmao_core.errors import FetchError, Garbled, Unauthorized, Unreachable
from llmao_core.hooks import FetchRequest, SourceCard, SourceKind
from llmao_core.snapshots import Access, Grant, SourceState
from llmao_core.testing.clock import VirtualClock
from llmao_litellm import plugin
from llmao_litellm.fake import FakeLiteLLM
from llmao_web.shell.board import Board
from llmao_web.shell.crew import Crew
from llmao_web.shell.ledger import Entry, EntryKind
from llmao_web.shell.outside import MOST_EDITS, edits

KEY = "sk-a-key-of-somebody-0123456789"
ALICE = Grant("key", "a1", "alice", 3.5, ("tiny",))
TEAM = Grant("team", "t1", "research", None, ())


@pytest.fixture
def proxy() -> FakeLiteLLM:
    return FakeLiteLLM(lambda: NOW)


async def read(http: httpx.AsyncClient) -> Access:
    found = await plugin.llmao_fetch(request("litellm_access"), http, NOW)
    assert isinstance(found, Access)
    return found


# ---- reading


async def test_teams_and_keys_are_read(proxy: FakeLiteLLM) -> None:
    """Names, budgets, models and blocks, of both."""
    team = proxy.access.add_team("research", max_budget=10.0, models=["tiny", "large"])
    proxy.access.add_key(KEY, "alice", max_budget=3, blocked=True)
    async with reached(proxy) as http:
        found = (await read(http)).grants
    assert Grant("team", team, "research", 10.0, ("large", "tiny")) == found[0]
    assert Grant("key", found[1].id, "alice", 3.0, (), blocked=True) == found[1]


async def test_no_key_material_is_read(proxy: FakeLiteLLM) -> None:
    """Neither a key nor its hash, nor the end of it, is in what the plugin returns."""
    token = proxy.access.add_key(KEY)
    proxy.access.add_key("sk-other", f"pasted {KEY}")
    async with reached(proxy) as http:
        said = repr(await read(http))
    assert [] == [each for each in (KEY, token, token[:16], KEY[-4:]) if each in said]


async def test_every_page_is_read(proxy: FakeLiteLLM) -> None:
    """More keys than LiteLLM gives at once are all there, each once."""
    for number in range(250):
        proxy.access.add_key(f"sk-{number}", f"key-{number}")
    async with reached(proxy) as http:
        found = (await read(http)).grants
    assert {f"key-{number}" for number in range(250)} == {grant.name for grant in found}
    assert 250 == len(found)


async def test_a_list_that_changes_meanwhile_is_no_answer(proxy: FakeLiteLLM) -> None:
    """A key that goes between two pages moves another out of sight: better no read."""
    tokens = [proxy.access.add_key(f"sk-{number}") for number in range(150)]
    transport = proxy.transport()

    class Meddling(httpx.AsyncBaseTransport):
        async def handle_async_request(self, sent: httpx.Request) -> httpx.Response:
            answer = await transport.handle_async_request(sent)
            if sent.url.path == "/key/list":
                proxy.access.keys.pop(tokens[0], None)
            return answer

    async with httpx.AsyncClient(transport=Meddling()) as http:
        with pytest.raises(Garbled, match="changed while it was read"):
            await read(http)


@pytest.mark.parametrize(
    "content",
    [
        b"[]",
        b"{}",
        b'{"teams": {}, "total": 0, "total_pages": 0}',
        b'{"teams": [], "total": 1, "total_pages": 1}',
        b'{"teams": [1], "total": 1, "total_pages": 1}',
        b'{"teams": [{"team_id": ""}], "total": 1, "total_pages": 1}',
        b'{"teams": [], "total": 0, "total_pages": null}',
        b"<html>",
    ],
)
async def test_nonsense_is_garbled(content: bytes) -> None:
    """What is not the whole list is never an empty list."""
    async with saying(200, content) as http:
        with pytest.raises(Garbled):
            await read(http)


@pytest.mark.parametrize(
    ("status", "error"), [(401, Unauthorized), (403, Unauthorized), (503, Unreachable)]
)
async def test_a_refusal_is_an_error(status: int, error: type[FetchError]) -> None:
    """A key that may not look, or a database that is away, is no list without entries."""
    async with saying(status, b'{"detail": {"error": "Only admin users can query"}}') as http:
        with pytest.raises(error):
            await read(http)


async def test_the_fake_has_no_lists_without_its_database(proxy: FakeLiteLLM) -> None:
    """As the real one: 503, which is unreachable."""
    proxy.switches.dead_database = True
    async with reached(proxy) as http:
        with pytest.raises(Unreachable):
            await read(http)


# ---- comparing


def said(before: Sequence[Grant], after: Sequence[Grant]) -> list[str]:
    found = edits(Access(tuple(before)), Access(tuple(after)), NOW)
    return [entry.detail["sentence"] for entry in found]


@pytest.mark.parametrize(
    ("after", "sentence"),
    [
        (evolve(ALICE, blocked=True), "Key alice was changed: it is blocked."),
        (
            evolve(ALICE, budget=None),
            "Key alice was changed: from a budget of 3.5 to no budget limit.",
        ),
        (
            evolve(ALICE, models=()),
            "Key alice was changed: from the model tiny to all models.",
        ),
        (evolve(ALICE, name="bob"), "Key bob was changed: its name is bob."),
        (evolve(ALICE, name=""), "Key alice was changed: it has no name any more."),
    ],
)
def test_a_change_is_a_sentence(after: Grant, sentence: str) -> None:
    """What it was and what it is."""
    shown = sentence.replace("Key bob", "Key alice")
    assert [shown] == said([ALICE], [after])


def test_what_came_and_what_went_are_told() -> None:
    """A new key with its limits, a removed team by its name."""
    assert [
        "Key alice was made: a budget of 3.5, the model tiny.",
        "Team research was removed.",
    ] == said([TEAM], [ALICE])


def test_nothing_changed_is_nothing_told() -> None:
    """The order of a list is no edit."""
    assert [] == said([TEAM, ALICE], [ALICE, TEAM])


def test_a_proxy_set_up_anew_does_not_flood_the_log() -> None:
    """A bounded number of lines, and one for the rest."""
    many = [Grant("key", f"k{number}") for number in range(MOST_EDITS + 7)]
    found = said([], many)
    assert MOST_EDITS + 1 == len(found)
    assert "7 more teams and keys were changed." == found[-1]


# ---- running

CARDS = (SourceCard("litellm_access", SourceKind.ACCESS, 300.0),)


class Host(Script):
    def cards(self) -> tuple[SourceCard, ...]:
        return CARDS


class Desk:
    """A crew with the one slow source, and what it handed on."""

    def __init__(self, *answers: Any, broken: bool = False) -> None:
        self.clock = VirtualClock()
        self.kept: list[Entry] = []
        self.broken = broken
        self.host: Any = Host(self.clock)
        self.board = Board(self.clock)
        told = iter(answers)

        def answer(_: FetchRequest) -> Any:
            return next(told, answers[-1])

        self.host.answers["litellm_access"] = answer
        self.crew = Crew(self.host, self.board, self.clock, self._keep)  # type: ignore[arg-type]

    async def _keep(self, entries: Sequence[Entry]) -> None:
        if self.broken:
            self.broken = False
            raise OSError("no space left")
        self.kept += entries

    async def after(self, seconds: float) -> list[str]:
        self.crew.apply(Config())
        running = asyncio.create_task(self.crew.run())
        await self.clock.advance(seconds)
        running.cancel()
        return [entry.detail["sentence"] for entry in self.kept]


async def test_an_edit_is_kept_once() -> None:
    """Read every five minutes; one entry, by LiteLLM, of the kind that pages know."""
    desk = Desk(Access((ALICE,)), Access((evolve(ALICE, blocked=True),)))
    assert ["Key alice was changed: it is blocked."] == await desk.after(1300)
    assert [0.0, 300.0, 600.0, 900.0, 1200.0] == desk.host.times()
    assert (EntryKind.OUTSIDE_EDIT, "litellm") == (desk.kept[0].kind, desk.kept[0].actor)


async def test_the_slow_source_is_among_those_that_people_are_shown() -> None:
    """Unread, fresh, and stale once three reads have failed; nothing else is added."""
    desk = Desk(Access((ALICE,)), failure())
    desk.board.configure("litellm_access", SourceKind.ACCESS, 300.0)
    (before,) = desk.board.reported(desk.clock.now())
    assert ("litellm_access", SourceState.UNREAD) == (before.name, before.state)
    await desk.after(10)
    (read,) = desk.board.reported(desk.clock.now())
    assert (SourceState.FRESH, None, 300.0) == (read.state, read.trouble, read.interval_s)
    await desk.after(1000)
    (old,) = desk.board.reported(desk.clock.now())
    assert SourceState.STALE is old.state
    assert old.trouble is not None


async def test_the_first_read_and_a_failed_one_are_no_edits() -> None:
    """What is there at the start was not just made, and what cannot be read did not go."""
    same = Access((ALICE, TEAM))
    desk = Desk(same, failure(), failure(), same)
    with capture_logs() as logs:
        assert [] == await desk.after(1000)
    assert {"source not read"} == {line["event"] for line in logs}


async def test_an_edit_behind_a_failed_read_is_told() -> None:
    """The last good read is what the next is compared with."""
    desk = Desk(Access((ALICE,)), failure(), Access(()))
    assert ["Key alice was removed."] == await desk.after(700)


async def test_a_store_that_fails_stops_no_reads() -> None:
    """The next edit is kept."""
    blocked = Access((evolve(ALICE, blocked=True),))
    desk = Desk(Access((ALICE,)), blocked, Access((ALICE,)), broken=True)
    assert ["Key alice was changed: it is no longer blocked."] == await desk.after(700)
    assert 1.0 == desk.board.counts.registry.get_sample_value("llmao_store_failures_total")


async def test_who_keeps_no_edits_reads_no_keys() -> None:
    """`llmao plan` looks once and has nothing to compare with."""
    desk = Desk(Access())
    desk.crew = Crew(desk.host, desk.board, desk.clock)
    await desk.after(700)
    assert [] == desk.host.times()
