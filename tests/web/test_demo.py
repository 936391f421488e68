"""`llmao demo`: its line on every page, and a real proxy in the place of the simulated one."""

import asyncio
import json
import socket
import time
from itertools import groupby
from pathlib import Path
from typing import Any

import httpx
import pytest
from attrs import evolve
from click.testing import CliRunner

from llmao_core.config import AuthConfig, ServerConfig
from llmao_core.fit import Room, fit
from llmao_core.records import AttentionItem, ItemKind
from llmao_core.secret import Secret
from llmao_litellm.fake import MASTER_KEY, FakeLiteLLM
from llmao_web.app import create_app
from llmao_web.commands.demo import KEY_VARIABLE, LogLines, demo
from llmao_web.demo import fleet as demo_fleet
from llmao_web.demo.by_hand import Hand
from llmao_web.demo.fleet import (
    CHAT,
    EMBEDDING,
    LARGE,
    PAIR,
    RANKING,
    STRANGER,
    demo_config,
)
from llmao_web.demo.ports import free_above, is_free
from llmao_web.demo.proxy import real_places
from llmao_web.demo.scene import SHOWN_S, Scene, nothing, told, waiting
from llmao_web.demo.scenes_machines import MachineScenes
from llmao_web.demo.scenes_proxy import ProxyScenes
from llmao_web.demo.story import MENDED, OPENING, PROVING
from llmao_web.demo.visitor import Deeds, Watch
from llmao_web.demo.world import World, staged
from llmao_web.pages.live import Live
from llmao_web.pages.render import Renderer
from llmao_web.pages.sheet import Sheet
from llmao_web.pages.tour import NAME, Guide, Line, Step, Tour
from llmao_web.shell.clock import SystemClock

from .demo_run import running
from .signing import config_of
from .visiting import full
from .worlds import FakeDesk, fleet

FIRST = Step((Line("A box boots.", (("/boxes", "Boxes"),)),))
SECOND = Step((Line("A box dies <at once>."), Line("Another does not.")))
BOUND_S = 60


def toured(desk: FakeDesk) -> tuple[Tour, Live, Renderer]:
    tour = Tour(FIRST)
    renderer, live = Renderer("demo", desk.clock), Live(desk, desk.clock)
    Guide(tour, renderer, live)
    return tour, live, renderer


async def page(tour: Tour | None, path: str = "/models") -> str:
    desk = full()
    app: Any = create_app(desk, fleet(), desk.clock, tour=tour)
    transport = httpx.ASGITransport(app, client=("127.0.0.1", 5))
    async with httpx.AsyncClient(transport=transport, base_url="http://llmao.test") as client:
        return (await client.get(path, headers={"accept": "text/html"})).text


async def test_every_page_of_a_demo_begins_with_what_happens_now() -> None:
    """A visitor reads it without a script, on a page that nothing else keeps current, too."""
    for path in ("/models", "/nowhere"):
        html = await page(Tour(FIRST), path)
        assert "A box boots." in html
        assert '<a href="/boxes">Boxes</a>' in html
        assert 'data-live="/live?page=' in html
        assert "<script>" not in html


async def test_without_a_tour_a_page_has_no_trace_of_one() -> None:
    """Nobody but a demo's visitor may see the line."""
    assert 'id="tour"' not in await page(None)


async def test_an_open_page_hears_of_the_next_step() -> None:
    """The line changes in place, and what it says is escaped."""
    tour, live, _ = toured(full())
    since = live.address(NAME, Sheet({})).rpartition("=")[2]
    tour.show(SECOND)
    stream = live.stream(NAME, since, "")
    told = json.loads(str((await anext(stream)).data))
    await stream.aclose()
    assert ["parts"] == list(told)
    assert "A box dies &lt;at once&gt;." in told["parts"][NAME]
    assert "Another does not." in told["parts"][NAME]


async def test_a_sheet_with_the_line_stays_the_same_until_one_of_them_changes() -> None:
    """A page's version must not move when nothing on it does."""
    tour, live, _ = toured(full())
    sheet, other = Sheet({"a": "<p id=a></p>"}), Sheet({"a": "<p id=a>b</p>"})
    made = live.complete(sheet)
    assert made is live.complete(sheet)
    assert made is not live.complete(other)
    tour.show(SECOND)
    assert made is not live.complete(sheet)


async def test_the_demos_rows_in_a_real_proxy_go_with_it_and_no_others(tmp_path: Path) -> None:
    """Somebody's proxy is as it was when the demo ends, and its key was nowhere to be read."""
    litellm = FakeLiteLLM(time.time)  # noqa: TID251 a server of its own, on the machine's clock
    litellm.plant("gpt-team", {"model": "openai/gpt"}, {"id": "theirs"})
    litellm.plant(
        "old",
        {"model": "openai/x", "api_base": "http://127.0.0.2:1/v1"},
        {"id": "other-fleet", "llmao_fleet": "demo", "llmao_key": "http://h:1"},
    )
    async with litellm.serve() as url:
        with running(tmp_path, "--litellm", url, env={KEY_VARIABLE: MASTER_KEY}) as one:
            await _until_written(litellm)
            ours = {
                str(row.info.get("llmao_fleet"))
                for row in litellm.truth().values()
                if row.id not in ("theirs", "other-fleet")
            }
            said = await asyncio.to_thread(one.stop)
        assert 1 == len(ours)
        assert ours.pop().startswith("demo-")
        assert {"theirs", "other-fleet"} == set(litellm.truth())
    assert "Removed the demo's" in said
    assert "The demo has ended; nothing of it stays behind." == said.strip().splitlines()[-1]
    assert MASTER_KEY not in said
    assert 0 == one.process.returncode


async def _until_written(litellm: FakeLiteLLM) -> None:
    async with asyncio.timeout(BOUND_S):
        while len(litellm.truth()) < 6:
            await asyncio.sleep(0.1)


def test_two_demos_at_one_proxy_are_two_fleets() -> None:
    """The end of one must not take the other's rows."""
    names = {real_places("http://127.0.0.1:4000", Secret("k")).fleet for _ in range(5)}
    assert 5 == len(names)


def test_the_help_warns_of_a_key_on_the_command_line() -> None:
    """Whoever reads `--help` learns the safe way."""
    said = " ".join(CliRunner().invoke(demo, ["--help"]).output.split())
    assert f"better set {KEY_VARIABLE}" in said


def test_a_real_proxy_without_a_key_or_with_a_strange_address_is_refused() -> None:
    """Nothing starts that could not write."""
    for options in (["--litellm", "http://127.0.0.1:1"], ["--litellm", "x", "--litellm-key", "k"]):
        result = CliRunner().invoke(demo, options, env={KEY_VARIABLE: ""})
        assert 2 == result.exit_code
        assert "--litellm" in result.output


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "203.0.113.7", "example.org", ""])
def test_it_listens_where_only_this_machine_can_reach_it(host: str) -> None:
    """Nobody signs in at a demo, so on any other address everybody would be its admin."""
    result = CliRunner().invoke(demo, ["--host", host, "--port", "0", "--minutes", "0.1"])
    assert 2 == result.exit_code
    assert "--host wants a loopback address" in result.output


# ---- what is told stays true


def test_who_approved_the_stranger_is_not_asked_to_approve_it() -> None:
    """It waits, boots, serves: each time the line says what is so."""
    lines = [
        waiting(deeds)
        for deeds in (
            Deeds(),
            Deeds(approved=frozenset({STRANGER})),
            Deeds(approved=frozenset({STRANGER}), serving=frozenset({STRANGER})),
        )
    ]
    assert ["approve it" in line.said for line in lines] == [True, False, False]
    assert "boots" in lines[1].said
    assert f"{STRANGER}, which was approved by hand, serves." == lines[2].said
    assert [f"/admin?host={STRANGER}#approve", f"/boxes/{STRANGER}", f"/boxes/{STRANGER}"] == [
        line.places[0][0] for line in lines
    ]


def test_a_scene_with_a_drained_box_says_that_it_is_drained() -> None:
    """Its route does not come back, whatever the story says of boxes that are not drained."""
    scenes = [Scene(1, f"{PAIR} dies.", (), nothing), Scene(1, "LiteLLM is down.", (), nothing)]
    assert [f"{PAIR} dies.", "LiteLLM is down."] == [
        one.said for one in told(scenes, Deeds()).lines
    ]
    drained = told(scenes, Deeds(drained=frozenset({PAIR, "elsewhere"})))
    assert [f"{PAIR} dies. {PAIR} is drained, so nothing of it is routed.", "LiteLLM is down."] == [
        one.said for one in drained.lines
    ]


def test_a_port_that_is_drained_alone_is_not_told_as_its_whole_box() -> None:
    """The others of the box are routed."""
    scenes = [Scene(1, f"{PAIR} dies.", (), nothing), Scene(1, "LiteLLM is down.", (), nothing)]
    first, second = told(scenes, Deeds(ports=frozenset({(PAIR, "8001")}))).lines
    assert f"{PAIR} dies. {PAIR} port 8001 is drained, so it is not routed." == first.said
    assert "LiteLLM is down." == second.said


def test_who_retired_or_drained_the_stranger_is_not_asked_to_approve_it() -> None:
    """What was done by hand last is what is said."""
    approved, serving = frozenset({STRANGER}), frozenset({STRANGER})
    retired = waiting(Deeds(retired=frozenset({STRANGER})))
    drained = waiting(Deeds(approved=approved, serving=serving, drained=frozenset({STRANGER})))
    assert "approve it" not in retired.said + drained.said
    assert "was retired by hand" in retired.said
    assert "drained by hand" in drained.said


def test_a_scene_with_a_retired_box_says_that_it_is_retired() -> None:
    """A retired box is drained, too, and the one word says both."""
    pair = frozenset({PAIR})
    [line] = told([Scene(1, f"{PAIR} dies.", (), nothing)], Deeds(drained=pair, retired=pair)).lines
    assert f"{PAIR} dies. {PAIR} is retired, so nothing of it is routed." == line.said


def test_of_two_scenes_at_once_one_is_told_in_full_and_the_other_briefly() -> None:
    """Alone each is told in full."""
    scenes = [
        Scene(1, "Much happens here.", (), nothing, brief="Meanwhile much."),
        Scene(1, "A box dies.", (), nothing),
    ]
    assert ["A box dies.", "Meanwhile much."] == [one.said for one in told(scenes, Deeds()).lines]
    assert ["Much happens here."] == [one.said for one in told(scenes[:1], Deeds()).lines]


async def test_every_step_can_be_read_while_it_is_shown() -> None:
    """At two hundred words a minute, with the simulated proxy."""
    readable = SHOWN_S * 200 / 60
    async with staged(SystemClock()) as stage:
        world = World(stage, "http://127.0.0.1:1")
        assert stage.litellm is not None
        proxy = ProxyScenes(world, Hand(world, stage.litellm))
        every = [*MachineScenes(world, lambda _: None).all(), *proxy.all()]
        scenes = sorted(every, key=lambda each: each.place)
    steps = [
        told(tuple(together), Deeds())
        for _, together in groupby(scenes, key=lambda each: each.place)
    ]
    steps += [OPENING, *(Step((line, waiting(Deeds()))) for line in (MENDED, PROVING))]
    words = {step.lines[0].said: sum(len(one.said.split()) for one in step.lines) for step in steps}
    assert {} == {said: count for said, count in words.items() if count > readable}


def test_the_reranker_is_shown_as_one() -> None:
    """Its recipe forgets that on purpose; what callers read of it is right."""
    places = demo_fleet.Places("http://127.0.0.1:1", Secret("k"), "", "")
    config = demo_config(places, ServerConfig(), demo_fleet.Keys())
    shown = {each.model_name: each.model_info.get("mode") for each in config.models}
    assert ("rerank", "embedding", "chat") == (shown[RANKING], shown[EMBEDDING], shown[CHAT])


def test_what_llmao_logs_stands_in_words_between_the_lines_of_the_story() -> None:
    """No JSON on a terminal, no control character of somebody else's, a traceback in its lines."""
    said: list[str] = []
    lines = LogLines(said.append)
    event = {"event": "configuration not taken", "level": "error", "timestamp": "now"}
    lines.write(json.dumps({**event, "said": ["unknown model x", "\x1b[2Jy"]}) + "\n")
    lines.write('{"event": "it failed\\n", "exception": "Traceback:\\n  line 1"}\nno JSON\n')
    assert [
        "          llmao's log: configuration not taken: unknown model x; ·[2Jy",
        "          llmao's log: it failed: Traceback:\n  line 1",
        "no JSON",
    ] == said


async def test_what_was_done_by_hand_is_read_where_anybody_can() -> None:
    """Approved and serving hosts, from the API; without an answer what was known stays."""
    desk = full()
    seen = desk.seen
    assert seen is not None
    host, record = seen.hosts[0], seen.records[0]
    desk.seen = evolve(
        seen,
        hosts=(host._replace(approved=True),),
        records=(record._replace(drained=True),),
        items=(AttentionItem("r", ItemKind.RETIRED_AND_BILLED, "Old.", host="c.1"),),
    )
    app: Any = create_app(desk, config_of(AuthConfig("open"), public_url=""), desk.clock)
    transport = httpx.ASGITransport(app, client=("127.0.0.1", 5))
    async with httpx.AsyncClient(transport=transport) as client:
        deeds = await Watch(client, "http://127.0.0.1").look(Deeds())
        assert (frozenset({host.name}), frozenset({record.host})) == (deeds.approved, deeds.drained)
        assert frozenset({record.host}) == deeds.serving
        assert frozenset({"c.1"}) == deeds.retired
        desk.seen = None
        assert deeds == await Watch(client, "http://127.0.0.1").look(deeds)


# ---- the fleet


def test_the_approve_form_can_tell_what_fits_the_stranger() -> None:
    """Its listing has its memory, every recipe its need: one model fits, and one does not."""
    rental = next(one for one in demo_fleet.RENTALS if one.name == STRANGER)
    assert "vast" == rental.provider
    room = Room(rental.gpu_count, demo_fleet.CARD_MIB[rental.gpu] / 1024, 120.0)
    places = demo_fleet.Places("http://127.0.0.1:1", Secret("k"), "", "")
    config = demo_config(places, ServerConfig(), demo_fleet.Keys())
    recipes = {each.model_name: each.recipe for each in config.models if each.recipe}
    fits = {name: fit([(name, recipe)], room) for name, recipe in recipes.items()}
    assert () == tuple(said for one in fits.values() for said in one.unknown)
    assert (True, False) == (fits[CHAT].good, fits[LARGE].good)


def test_a_port_somebody_has_is_not_given_to_a_box() -> None:
    """Two demos, or a test beside one, do not want the same address."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        assert not is_free("127.0.0.1", port)
        given = free_above("127.0.0.1", port, (8001, 8002))
    assert port not in given.values()
    assert 2 == len(set(given.values()))
