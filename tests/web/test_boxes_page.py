"""The pages of boxes: everything rented or intended is somewhere, matched, with what it costs."""

import re
from collections.abc import Iterator
from weakref import WeakKeyDictionary

import pytest
from attrs import evolve
from structlog.testing import capture_logs
from tests.shell.office_world import BOX, STRANGER, Rig, config, instance, rig

from llmao_core.config import Host, HostRow
from llmao_core.intended import build
from llmao_core.protocol import Fetch, Unknown
from llmao_core.records import HostView, View
from llmao_core.snapshots import BoxStatus
from llmao_web.pages.admin import AdminPages
from llmao_web.pages.boxes import NOWHERE, UNREAD, Known, groups_of
from llmao_web.pages.boxes_page import BoxesPages
from llmao_web.pages.render import Renderer
from llmao_web.pages.sheet import change
from llmao_web.shell.store import Fetches, StoreError

from .signing import Browser
from .test_deeds import browser
from .visiting import MARKUP, Text


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with capture_logs():
        yield


# An application compiles its templates anew; one for each world is enough.
_BROWSERS: WeakKeyDictionary[Rig, Browser] = WeakKeyDictionary()


async def html(world: Rig, path: str = "/boxes", status: int = 200) -> str:
    if world not in _BROWSERS:
        _BROWSERS[world] = browser(world)
    answer = await _BROWSERS[world].get(path)
    assert status == answer.status_code
    return answer.text


async def words(world: Rig, path: str = "/boxes") -> str:
    return " ".join(Text(await html(world, path)).words.split())


def rows(page: str) -> list[str]:
    """Return the names of the boxes that have a row."""
    return re.findall(r'data-label="Box"><div><[^>]*class="key"[^>]*>([^<]*)<', page)


async def relisted(world: Rig, *instances: object) -> None:
    """Have the provider list other boxes, and wait until a pass has seen them."""
    world.provider.instances = instances  # type: ignore[assignment]
    await world.clock.advance(90)


async def test_every_box_and_every_host_is_there_once() -> None:
    """Matched, unmatched, in no listing, gone, and two that could be one host."""
    given = config()
    hosts = (*given.fleet.hosts, Host("c.55", (HostRow("qwen", 8001, "qwen"),)))
    hosts = (*hosts, Host("203.0.113.7", (HostRow("qwen", 8002, "qwen"),)))
    async with rig(evolve(given, fleet=evolve(given.fleet, hosts=hosts))) as world:
        await relisted(
            world,
            instance(BOX),
            instance(STRANGER),
            instance("c.11", addresses=("203.0.113.7",)),
            instance("c.12", addresses=("203.0.113.7",)),
            instance("c.13", status=BoxStatus.GONE),
        )
        page = await html(world)
        for name in (BOX, STRANGER, "c.55", "203.0.113.7", "c.11", "c.12", "c.13"):
            assert 1 == len(re.findall(rf'class="key"[^>]*>{re.escape(name)}<', page)), name
        said = await words(world)
        assert "4 of 5 rented boxes alive" in said
        assert "$2.00/h" in said
        assert "in no listing" in said


async def test_a_box_says_what_it_costs_serves_and_who_placed_it() -> None:
    """With links to the pages of its deployments and its own."""
    async with rig() as world:
        await relisted(world, instance(BOX, location="Oregon, US", raw_status="running"))
        world.service.board.note(Fetch(BOX, "r1-x"))
        await world.clock.advance(30)
        said, page = await words(world), await html(world)
        for part in ("1 × RTX 4090", "Oregon, US", "running", "$0.50/h", "placed by vast"):
            assert part in said
        assert "asked 30 s ago" in said
        assert re.search(r'<a href="/deployments/llmao-[0-9a-f]{32}">gemma</a>', page)
        assert f'href="/boxes/{BOX}"' in page


async def test_a_price_that_is_unknown_is_not_nothing() -> None:
    """It is counted as without a price."""
    async with rig() as world:
        await relisted(world, instance(BOX, price_per_hour=None), instance(STRANGER))
        said = await words(world)
        assert "$0.50/h all rented boxes together, 1 without a price" in said


async def test_what_is_paid_for_nothing_stands_beside_what_is_paid() -> None:
    """A box that nothing names costs and serves nobody; that one may come up is not yet lost."""
    async with rig() as world:
        await relisted(world, instance(BOX))
        assert "that serves nobody" not in await words(world)
        await relisted(world, instance(BOX), instance(STRANGER))
        assert "$0.50/h of it for a box that serves nobody" in await words(world)


async def test_what_a_stale_listing_said_last_is_shown_as_stale() -> None:
    """A provider's outage hides no box."""
    async with rig() as world:
        world.service.board._readings["vast"] = evolve(
            world.service.board.reading("vast"), interval_s=0.1
        )
        page = await words(world)
        assert "stale" in page
        assert BOX in page
        assert STRANGER in page


async def test_an_unlisted_host_says_so() -> None:
    """After three listings without it."""
    async with rig() as world:
        world.provider.instances = (instance(STRANGER),)
        await world.clock.advance(400)
        assert "unlisted" in await words(world)


async def test_fetches_before_a_restart_are_shown() -> None:
    """They come from the store, and colour by age."""
    async with rig() as world:
        week = world.clock.now() - 8 * 86400
        world.store._fetches[BOX] = Fetches(week - 9, week, "r1-aaaaaaaa", "r1-bbbbbbbb")
        page = await html(world)
        assert 'class="fetch bad"' in page
        assert "asked 8 d ago" in await words(world)
        assert "r1-bbbbbbbb" in await words(world, f"/boxes/{BOX}")


async def test_retired_hosts_are_hidden_and_kept() -> None:
    """Hidden by default and counted in the cost; a link shows them, their page remembers."""
    async with rig() as world:
        office = world.service.office
        await office.retire(BOX, "alice")
        await office.label("c.9000", "gone soon", "", "alice")
        await world.clock.advance(5)
        assert [STRANGER] == rows(await html(world))
        said = await words(world)
        assert "1 retired host is hidden" in said
        assert "$1.00/h" in said
        assert [BOX, STRANGER] == rows(await html(world, "/boxes?retired=1"))
        told = await words(world, f"/boxes/{BOX}")
        for part in ("When it was retired", "vast", "c.4711:8001 gemma", "alice retired"):
            assert part in told


async def test_a_retired_host_leaves_the_models_and_names_its_lines() -> None:
    """Its lines in fleet.hosts are to be deleted, no drain shows, no model waits for it."""
    async with rig() as world:
        tables = re.compile(r"<tbody.*?</tbody>", re.DOTALL)
        assert "c.4711:8001" in "".join(tables.findall(await html(world, "/models")))
        assert "Lines to delete" not in await words(world, f"/boxes/{BOX}")
        await world.service.office.retire(BOX, "alice")
        await world.clock.advance(5)
        assert "c.4711:8001" not in "".join(tables.findall(await html(world, "/models")))
        told = await words(world, f"/boxes/{BOX}")
        assert "Lines to delete" in told
        assert "c.4711: - [gemma, 8001]" in told
        assert "drained" not in told.partition("Serves")[2].partition("Lines to delete")[0]
        view = world.service.board.view()
        assert view
        assert "1 retired" == next(one.summary for one in view.models if one.name == "gemma")


async def test_a_retired_host_that_is_gone_from_everywhere_still_has_its_page() -> None:
    """Rented when, served what."""
    async with rig() as world:
        office = world.service.office
        await office.approve(STRANGER, (HostRow("qwen", 8001, "qwen"),), "alice")
        await world.clock.advance(5)
        await office.retire(STRANGER, "alice")
        await relisted(world, instance(BOX))
        assert "Retired and gone" in await words(world, "/boxes?retired=1")
        assert STRANGER in await words(world, "/boxes?retired=1")
        told = await words(world, f"/boxes/{STRANGER}")
        assert "c.9000:8001 qwen" in told
        assert "Take back from retirement" in told


async def test_a_box_that_asks_under_another_name_can_be_approved_from_its_line() -> None:
    """An address that nothing names, and the instance that has it."""
    async with rig() as world:
        await relisted(world, instance(STRANGER, addresses=("203.0.113.9",)))
        world.service.board.note(Unknown("203.0.113.9"))
        page = await html(world)
        assert 'href="/admin?host=203.0.113.9#approve"' in page


async def test_the_page_of_a_box_has_what_can_be_done_to_it() -> None:
    """And the lines to paste, once it is approved."""
    async with rig() as world:
        page = await html(world, f"/boxes/{BOX}")
        for deed in ("drain", "retire", "reboot", "label"):
            assert f'action="/do-{deed}"' in page
        assert 'action="/do-withdraw"' not in page
        rows = (HostRow("qwen", 8001, "qwen"), HostRow("gemma", 8002, "g"))
        await world.service.office.approve(STRANGER, rows, "alice")
        await world.clock.advance(1)
        page = await html(world, f"/boxes/{STRANGER}")
        assert 'action="/do-withdraw"' in page
        assert "    c.9000:\n      - [qwen, 8001]\n      - [gemma, 8002, g]\n" in page


@pytest.mark.parametrize("name", ["nope", "c.1", "%2e%2e", "a%20b", "%00", "x" * 3000])
async def test_a_box_that_nobody_knows_has_no_page(name: str) -> None:
    """Not found, whatever it is called."""
    async with rig() as world:
        assert "nothing at this address" in await html(world, f"/boxes/{name}", 404)


async def test_markup_in_names_labels_and_notes_is_text() -> None:
    """From a provider, an admin, a ledger."""
    async with rig() as world:
        texts = dict.fromkeys(("raw_status", "detail", "gpu_name", "location"), MARKUP)
        await relisted(
            world,
            instance(BOX, **texts),
            evolve(instance("c.1"), id=MARKUP, names=(MARKUP,)),
        )
        office = world.service.office
        await office.label(BOX, MARKUP, f"{MARKUP}\n{MARKUP}", MARKUP)
        for path in ("/boxes", "/boxes?retired=1", f"/boxes/{BOX}", "/admin", "/admin/log"):
            page = await html(world, path)
            assert "<script>" not in page
            assert "&lt;script&gt;" in page
            assert "{{ 7 * 7 }}" in page


async def test_no_secret_and_no_url_of_a_box_is_on_a_page() -> None:
    """Neither keys nor canonical URLs."""
    async with rig() as world:
        await world.clock.advance(60)
        for path in ("/boxes", f"/boxes/{BOX}", "/admin", f"/admin?host={STRANGER}", "/admin/log"):
            page = await html(world, path)
            for hidden in ("fleet-key", "salt-1", "vast-key", "http://c.4711", "router.example"):
                assert hidden not in page


async def test_a_store_that_fails_takes_no_page_away() -> None:
    """What the board knows is shown, and the trouble is said."""

    async def broken(*_: object, **__: object) -> object:
        raise StoreError("The store does not answer.")

    async with rig() as world:
        for name in ("fetches", "entries", "transitions"):
            setattr(world.store, name, broken)
        for path in ("/boxes", f"/boxes/{BOX}", "/admin", "/admin/log"):
            assert "The store does not answer." in await words(world, path)
        assert BOX in await words(world)


async def test_a_stranger_that_is_refused_is_not_said_to_have_never_asked() -> None:
    """On its page and in the overview: how often, when, and under which name."""
    async with rig() as world:
        world.service.board.note(Unknown(STRANGER))
        await world.clock.advance(20)
        for path in ("/boxes", f"/boxes/{STRANGER}"):
            row = (await words(world, path)).partition(STRANGER.removeprefix("c."))[2]
            assert "refused" in row, path
            assert "20 s ago" in row, path
        assert "1 time, last 20 s ago" in await words(world, f"/boxes/{STRANGER}")
        assert "never asked" in await words(world), "the other box never did"
        assert "Asked never" not in await words(world, f"/boxes/{STRANGER}")


# ---- what an open page is told


async def test_an_open_page_of_boxes_is_told_of_the_row_that_changed() -> None:
    """Of the others only their ages."""
    async with rig() as world:
        board, renderer = world.service.board, Renderer("main", world.clock)
        pages = BoxesPages(board, world.service.office, world.clock, renderer, "main")
        follow = pages.sources()["boxes"].sheet
        before = await follow("")
        await relisted(world, instance(BOX, location="Oregon, US"), instance(STRANGER))
        moved = change(before, await follow(""))
        assert moved
        assert [True] == ["Oregon" in html for html in moved.parts.values()]
        assert {} == moved.lists
        await relisted(world, instance(BOX, location="Oregon, US"))
        moved = change(before, await follow(""))
        assert moved
        assert [1] == [len(rows) for rows in moved.lists.values()]


async def test_an_open_page_of_admins_is_told_and_its_form_left_alone() -> None:
    """Who waits is told where nobody fills in a form."""
    async with rig() as world:
        board, renderer = world.service.board, Renderer("main", world.clock)
        pages = AdminPages(board, world.service.office, renderer, "main")
        follow = pages.sources()["admin"].sheet
        before, in_form = await follow(""), await follow("choosing")
        board.note(Unknown(STRANGER))
        await world.service.office.label(BOX, "spare", "", "ada")
        await world.clock.advance(10)
        moved = change(before, await follow(""))
        assert moved
        assert {"rest", "waiting"} == set(moved.parts)
        assert STRANGER in moved.parts["waiting"]
        moved = change(in_form, await follow("choosing"))
        assert moved
        assert {"rest"} == set(moved.parts)


@pytest.mark.parametrize(
    ("path", "followed"),
    [
        ("/boxes", "boxes%3A"),
        ("/boxes?retired=1", "boxes%3Aretired"),
        ("/admin", "admin%3A"),
        (f"/admin?host={STRANGER}", "admin%3Achoosing%3Ac.9000"),
    ],
)
async def test_a_page_says_what_its_script_follows(path: str, followed: str) -> None:
    """The page as it was asked for."""
    async with rig() as world:
        assert f'data-live="/live?page={followed}&amp;from=' in await html(world, path)


async def test_a_box_that_asked_in_vain_before_it_was_approved_has_asked() -> None:
    """On every page, until it asks again; nobody looks for a fault in a box that asks."""
    async with rig() as world:
        world.service.board.note(Unknown(STRANGER))
        await world.clock.advance(60)
        office = world.service.office
        await office.approve(STRANGER, (HostRow("qwen", 8001, "qwen"),), "alice")
        await world.clock.advance(5)
        box = await words(world, f"/boxes/{STRANGER}")
        assert "Asked first 1 min ago Asked last 1 min ago" in box
        assert "Asked and was refused" not in box
        assert "asked 1 min ago" in await words(world)
        assert "Asked last 1 min ago" in await words(world, f"/admin?host={STRANGER}")


async def test_a_box_of_a_listing_that_fails_keeps_its_row_and_its_page() -> None:
    """As it was listed last: nobody is told that it is gone."""
    async with rig() as world:
        await relisted(world, instance(BOX), instance(STRANGER))
        world.provider.reads = False
        await world.clock.advance(600)
        assert STRANGER in rows(await html(world))
        assert "$1.00/h" in await words(world)
        assert "$0.50/h" in await words(world, f"/boxes/{STRANGER}")


def test_what_an_unread_listing_may_have_is_not_said_to_be_in_none() -> None:
    """Its servers are known, and whose box they run on is not."""
    hosts = (HostView("c.1", intended=False, stale=True), HostView("c.2"))
    known = Known(View(0.0, hosts=hosts), build(config(), ()), {}, {}, {}, {}, 0.0, "main")
    groups = {name: [box.name for box in group.boxes] for name, group in groups_of(known).items()}
    assert {UNREAD: ["c.1"], NOWHERE: ["c.2"]} == groups
