"""What a row of the page of boxes says, and that the sums above the rows agree with them."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from attrs import evolve
from structlog.testing import capture_logs
from tests.shell.office_world import BOX, STRANGER, Rig, config, instance, rig

from llmao_core.keys import box_key
from llmao_core.protocol import Unknown
from llmao_core.records import Kind, Lifecycle, Record
from llmao_core.snapshots import BoxStatus, Row
from llmao_web.pages.boxes import Box, Served

from .test_boxes_page import html, relisted, rows, words


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with capture_logs():
        yield


def a_box(*lives: Lifecycle, routed: bool = True, **changes: Any) -> Box:
    """Return a box that runs and serves so many, in LiteLLM or not."""
    row = Row("llmao-1", "m", "http://203.0.113.10:40001") if routed else None
    served = tuple(
        Served(Record(box_key("c.1", port, "m"), Kind.INTENDED, life, row=row), "", port)
        for port, life in enumerate(lives, 8001)
    )
    return evolve(Box("c.1", "vast", instance=instance("c.1"), served=served), **changes)


@pytest.mark.parametrize(
    ("box", "tone"),
    [
        (a_box(Lifecycle.HEALTHY), "good"),
        (a_box(Lifecycle.HEALTHY, Lifecycle.UNHEALTHY), "fair"),
        (a_box(Lifecycle.UNHEALTHY, Lifecycle.LOADING), "bad"),
        (a_box(Lifecycle.HEALTHY, routed=False), "fair"),
        (a_box(Lifecycle.LOADING), "fair"),
        (a_box(), "plain"),
        (a_box(wasted=True), "fair"),
        (a_box(instance=instance("c.1", status=BoxStatus.DOWN)), "bad"),
        (a_box(instance=instance("c.1", status=BoxStatus.STARTING)), "fair"),
        (a_box(instance=None), "plain"),
    ],
)
def test_that_a_box_runs_is_good_only_if_it_serves(box: Box, tone: str) -> None:
    """An expensive box whose server is down is not green because its machine is on."""
    assert tone == box.tone


async def test_a_box_that_costs_and_serves_nobody_is_marked() -> None:
    """As many rows as its tile counts; one that may come up is not."""
    async with rig() as world:
        await relisted(world, instance(BOX), instance(STRANGER))
        page = await html(world)
        assert "for a box that serves nobody" in await words(world)
        marked = [one for one in page.split("<tr")[1:] if "serves nobody</span>" in one]
        assert [STRANGER] == [name for one in marked for name in rows(one)]


async def test_what_no_host_names_is_counted_as_it_is_shown() -> None:
    """A retired box is hidden, and its rental has a line of its own."""
    async with rig() as world:
        office = world.service.office
        await relisted(world, instance(BOX), instance(STRANGER), instance("c.12"))
        assert "2 rented and in no fleet.hosts" in await words(world)
        await office.retire(STRANGER, "alice")
        await world.clock.advance(5)
        said = await words(world)
        assert "1 rented and in no fleet.hosts" in said
        assert 1 == said.count(" in no fleet.hosts") - said.count("and in no fleet.hosts")
        assert "3 of 3 alive, 1 retired and hidden" in said


async def test_who_has_no_box_is_told_what_to_do_first() -> None:
    """No sums of nothing, and nothing about retired hosts where there is none."""
    given = config()
    async with rig(evolve(given, fleet=evolve(given.fleet, hosts=()))) as world:
        await relisted(world)
        said = await words(world)
        assert "No boxes yet" in said
        assert "Start a box with the fleet key" in said
        assert "api_key" not in said, "its provider is configured"
        assert "$0.00/h" not in said
        assert "etired" not in said


async def test_a_note_stands_with_its_box_and_takes_no_column() -> None:
    """Most boxes have none."""
    async with rig() as world:
        await world.service.office.label(BOX, "A", "mind the disk", "alice")
        [row] = [one for one in (await html(world)).split("<tr") if "mind the disk" in one]
        assert "noted by alice" in row
        assert "Note" not in await words(world)


async def test_where_it_first_stands_a_name_says_what_it_is() -> None:
    """A contract label is its provider's; the address it has is told beside it."""
    labelled = evolve(instance("c.77", addresses=("203.0.113.9",)), id="77")
    async with rig() as world:
        await relisted(world, labelled)
        world.service.board.note(Unknown("c.77"))
        await world.clock.advance(5)
        said = "vast contract 77, at 203.0.113.9"
        for path in ("/boxes", "/boxes/c.77", "/admin"):
            assert said in await words(world, path), path


async def test_a_host_that_was_taken_back_is_not_told_of_as_retired() -> None:
    """What was kept of its retirement is over with it."""
    async with rig() as world:
        office = world.service.office
        await office.retire(BOX, "alice")
        assert "When it was retired" in await words(world, f"/boxes/{BOX}")
        await office.unretire(BOX, "alice")
        await world.clock.advance(5)
        page = await html(world, f"/boxes/{BOX}")
        assert re.search(r'<section[^>]* id="remembered"[^>]* hidden>', page)


async def test_the_api_tells_what_admins_said_of_a_box() -> None:
    """Label and note with who and when, drained, retired; a retired box is marked, not hidden."""

    async def asked(world: Rig, name: str) -> dict[str, object]:
        boxes = json.loads(await html(world, "/api/v1/boxes"))["boxes"]
        assert boxes == json.loads(await html(world, "/api/v1/view"))["boxes"]
        return next(each for each in boxes if each["name"] == name)

    async with rig() as world:
        before = await asked(world, BOX)
        nothing = {"label": "", "note": "", "noted_by": "", "noted_at": None}
        assert {**nothing, "drained": False, "retired": False}.items() <= before.items()
        office = world.service.office
        await office.label(BOX, "spare", "Until Friday.", "alice")
        await office.drain(BOX, "bob")
        at = world.clock.now()
        await world.clock.advance(1)
        said = {"label": "spare", "note": "Until Friday.", "noted_by": "alice", "noted_at": at}
        assert {**said, "drained": True, "retired": False}.items() <= (
            await asked(world, BOX)
        ).items()
        await office.undrain(BOX, "bob")
        await office.retire(BOX, "alice")
        await world.clock.advance(30)
        assert {"drained": False, "retired": True}.items() <= (await asked(world, BOX)).items()
        assert not (await asked(world, STRANGER))["retired"]
        served = json.loads(await html(world, "/api/v1/view"))["deployments"]
        kept_out = {each["host"] for each in served if each["drained"] and each["retired"]}
        assert {BOX} == kept_out == {each["host"] for each in served if each["drained"]}
