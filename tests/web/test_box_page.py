"""The page of one box: what it says, what it warns of before a press, and that it stays current."""

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from attrs import evolve, frozen
from structlog.testing import capture_logs
from tests.shell.office_world import BOX, STRANGER, Rig, instance, rig

from llmao_core.config import HostRow
from llmao_core.protocol import Fetch, Unknown
from llmao_core.records import AttentionItem, ItemKind
from llmao_core.snapshots import BoxStatus
from llmao_web.pages.box import BoxPages
from llmao_web.pages.render import Renderer, clock_time, fill
from llmao_web.pages.sheet import Change, Sheet, change
from llmao_web.shell.store import Fetches, StoreError

from .test_boxes_page import html, relisted, words
from .visiting import Text, full
from .worlds import NOW, FakeDesk

PLACE = f"/boxes/{BOX}"
ADDRESS = "203.0.113.10"


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with capture_logs():
        yield


@frozen
class Opened:
    """A page that somebody has open. before: as it was sent."""

    pages: BoxPages
    host: str
    before: Sheet

    async def moved(self) -> Change:
        """Return what its script is told now."""
        found = change(self.before, await self.pages.sources()["box"].sheet(self.host))
        assert found is not None, "it would be read anew"
        return found


async def opened(world: Rig, host: str) -> Opened:
    board, office, clock = world.service.board, world.service.office, world.clock
    pages = BoxPages(board, office, clock, Renderer("main", clock), "main")
    made = await pages.made(host)
    assert made is not None
    return Opened(pages, host, made.sheet)


@asynccontextmanager
async def of_view(host: str = ADDRESS) -> AsyncIterator[tuple[FakeDesk, BoxPages]]:
    """Give the pages of a view built by hand, in which something is Healthy and routed."""
    desk = full()
    async with rig() as world:
        renderer = Renderer("main", desk.clock)
        yield desk, BoxPages(desk, world.service.office, desk.clock, renderer, "main")


async def sheet(pages: BoxPages, host: str = ADDRESS) -> dict[str, str]:
    made = await pages.made(host)
    assert made is not None
    return {name: " ".join(Text(part).words.split()) for name, part in made.sheet.parts.items()}


# ---- what it says


async def test_it_says_of_each_server_how_it_is_whether_it_is_routed_and_where() -> None:
    """Lifecycle, LiteLLM's word and both ports, as the page of models has them."""
    async with of_view() as (_, pages):
        said = (await sheet(pages))["serves"]
        first, _, second = said.partition("203.0.113.10:8002")
        for part in ("Healthy", "LiteLLM: routed", "its check: up", "port 8001 (public 41022)"):
            assert part in first
        assert "not routed" not in first
        for part in (
            "Unhealthy",
            "LiteLLM: not routed",
            "its check: down",
            "port 8002 (public 41023)",
        ):
            assert part in second


async def test_it_repeats_what_needs_doing_there_with_its_buttons() -> None:
    """The items of this host under any of its names and of its deployments, and no others."""
    async with of_view() as (desk, pages):
        assert desk.seen
        gemma = desk.seen.records[0].key
        desk.seen = evolve(
            desk.seen,
            items=(
                *desk.seen.items,
                AttentionItem("m", ItemKind.SERVES_NOTHING, "It idles.", host=ADDRESS),
                AttentionItem("n", ItemKind.DOWN, "It is down.", key=gemma),
            ),
        )
        needed = (await sheet(pages))["needed"]
        assert "Work needed here 2" in needed
        for sentence in ("It idles.", "It is down."):
            assert sentence in needed
        assert "203.0.113.99" not in needed


async def test_who_asks_and_is_unknown_is_approved_from_its_own_page() -> None:
    """The strip's sentence and its button."""
    async with rig() as world:
        world.service.board.note(Unknown(STRANGER))
        await world.clock.advance(20)
        page = await html(world, f"/boxes/{STRANGER}")
        needed = page[page.index('id="needed"') : page.index('id="serves"')]
        assert "asks for a configuration with the fleet key" in needed
        assert f'href="/admin?host={STRANGER}#approve"' in needed


async def test_nothing_to_do_is_no_heading() -> None:
    """Nor what is not so: no lines to paste, nothing remembered."""
    async with rig() as world:
        page = await html(world, PLACE)
        for part in ("needed", "lines", "remembered"):
            assert re.search(rf'<section class="[^"]*" id="{part}"[^>]* hidden>', page), part


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"status": BoxStatus.STARTING, "price_per_hour": None}, "price not listed yet"),
        ({"status": BoxStatus.UP, "price_per_hour": None}, "price not listed"),
        ({"status": BoxStatus.DOWN, "price_per_hour": 0.0}, "$0.00/h now (not running)"),
        ({"status": BoxStatus.STARTING, "price_per_hour": 0.09}, "$0.09/h"),
        ({"status": BoxStatus.UP, "price_per_hour": 1234.5}, "$1,234.50/h"),
    ],
)
async def test_a_price_is_what_the_listing_says_now(given: dict[str, object], said: str) -> None:
    """On its page and in the list; unknown is not nothing."""
    async with rig() as world:
        await relisted(world, instance(BOX, **given))
        assert f"Price {said} Rented" in await words(world, PLACE)
        assert f"{said} never asked" in await words(world)


async def test_a_retired_box_that_is_still_rented_says_so() -> None:
    """On its page and on the list that hides it, until its rental ends."""
    sentence = "Retired, and still rented for $0.50/h: end the rental at vast."
    async with rig() as world:
        await world.service.office.retire(BOX, "alice")
        await world.clock.advance(5)
        for path in (PLACE, "/boxes", "/boxes?retired=1"):
            assert sentence in await words(world, path), path
        await relisted(world, instance(BOX, status=BoxStatus.GONE), instance(STRANGER))
        for path in (PLACE, "/boxes", "/boxes?retired=1"):
            assert "still rented" not in await words(world, path), path


async def test_a_retired_box_that_left_the_configuration_is_known_by_its_other_names() -> None:
    """Retired under one name, listed first by another; a host goes by its own name alone."""
    async with rig() as world:
        await world.service.office.retire(STRANGER, "alice")
        shared = ("203.0.113.9",)
        pool = evolve(instance("c.1", addresses=shared), names=("pool", STRANGER))
        await relisted(world, instance(BOX, addresses=shared), pool)
        said = await words(world, "/boxes?retired=1")
        assert "pool : Retired, and still rented for $0.50/h: end the rental at vast." in said
        assert "Retired and gone" in said
        assert STRANGER not in said
        assert 'value="c.9000"' in await html(world, "/boxes/pool"), "taken back by that name"
        assert "still rented" not in await words(world, PLACE)


async def test_a_box_that_reboots_says_since_when_until_it_is_back() -> None:
    """From the order of its provider to its next fetch, on its page and in the list."""
    async with rig() as world:
        await world.service.office.reboot(BOX, "alice")
        await world.clock.advance(1)
        assert "alice asked for a reboot" in await words(world, PLACE)
        await world.until(lambda: world.provider.reboots)
        await relisted(world, instance(BOX, status=BoxStatus.STARTING, raw_status="rebooting"))
        for path in (PLACE, "/boxes"):
            assert re.search(r"Rebooting since \d+ (s|min) ago", await words(world, path)), path
        assert 'action="/do-reboot"' not in await html(world, PLACE)
        assert "once the reboot that is under way is over" in await words(world, PLACE)
        await relisted(world, instance(BOX))
        world.service.board.note(Fetch(BOX, "r1-x"))
        await world.clock.advance(5)
        for path in (PLACE, "/boxes"):
            assert "Rebooting since" not in await words(world, path), path
            assert "reboot that" not in await words(world, path), path
        assert 'action="/do-reboot"' in await html(world, PLACE)


async def test_a_reboot_that_waits_can_be_called_off_on_the_page_of_its_box() -> None:
    """One click until its provider is asked; it says for what it waits, and how long at most."""
    async with rig() as world:
        await world.service.office.reboot(BOX, "alice")
        await world.clock.advance(1)
        page = await html(world, PLACE)
        assert 'action="/do-cancel-reboot"' in page
        assert "cancel-reboot" not in asked_first(page)
        await world.service.office.cancel_reboot(BOX, "alice")
        await world.clock.advance(1)
        page = await html(world, PLACE)
        assert 'action="/do-cancel-reboot"' not in page
        assert 'action="/do-reboot"' in page
        assert "asked for: call off the reboot." in await words(world, PLACE)


async def test_how_long_a_reboot_waits_at_most_is_a_time_that_runs_down() -> None:
    """It stands beside what it waits for, in the list and on the page."""
    async with of_view() as (desk, pages):
        assert desk.seen
        told = "alice asked for a reboot, which waits for 3 requests that run."
        until = desk.seen.at + 180
        first, *rest = desk.seen.hosts
        first = first._replace(rebooting=told, reboot_until=until)
        desk.seen = evolve(desk.seen, hosts=(first, *rest))
        made = await pages.made(ADDRESS)
        assert made is not None
        said = fill(made.sheet.parts["box"], desk.seen.at, "")
        line = f"{told} It waits at most until {clock_time(until)[11:16]} UTC ( 3 min left)."
        assert line in " ".join(Text(said).words.split())


async def test_every_page_says_the_same_of_when_a_box_asked() -> None:
    """One that was retired and is taken back has asked, and can be approved from its item."""
    async with rig() as world:
        office = world.service.office
        rows = (HostRow("qwen", 8001, "qwen"),)
        await office.approve(STRANGER, rows, "alice")
        world.service.board.note(Fetch(STRANGER, "r1-x"))
        await world.clock.advance(5)
        await office.retire(STRANGER, "alice")
        await office.unretire(STRANGER, "alice")
        await world.clock.advance(35)
        box, form = f"/boxes/{STRANGER}", f"/admin?host={STRANGER}"
        assert "It has asked for its configuration as c.9000." in await words(world, box)
        assert 2 == (await html(world, box)).count('href="/admin?host=c.9000#approve"')
        assert "Asked last 40 s ago" in await words(world, box)
        assert "Asked last 40 s ago" in await words(world, form)
        assert "asked 40 s ago" in await words(world, "/boxes")


async def test_who_never_asked_is_told_from_who_asked_nobody_knows_when() -> None:
    """A store that cannot be read is no box that never asked."""
    async with rig() as world:
        form = f"/admin?host={STRANGER}"
        assert "It never asked, as far as llmao knows." in await words(world, form)

        async def fails() -> dict[str, Fetches]:
            raise StoreError("the disk is full")

        world.store.fetches = fails  # type: ignore[method-assign]
        said = await words(world, form)
        assert "When it asked cannot be read: the disk is full" in said
        assert "never" not in said


async def test_no_reboot_is_offered_where_its_provider_executes_none() -> None:
    """Instead it is said where that is done, and what to press before and after."""
    async with rig(executes=frozenset()) as world:
        page = await html(world, PLACE)
        assert 'action="/do-drain"' in page
        assert "/do-reboot" not in page
        assert "cannot have vast reboot c.4711: drain it" in await words(world, PLACE)


# ---- what it warns of


def asked_first(page: str) -> dict[str, str]:
    """Return what is said before each deed that has to be opened first, by the deed."""
    found = re.findall(r'<details class="confirm".*?</details>', page, re.DOTALL)
    deeds = {}
    for each in found:
        [deed] = re.findall(r'action="/do-([a-z]+)"', each)
        deeds[deed] = " ".join(Text(each).words.split())
    return deeds


async def test_what_does_harm_is_opened_and_read_before_it_is_pressed() -> None:
    """Drain, reboot, withdraw, retire; what undoes or only names is one click."""
    async with rig() as world:
        office = world.service.office
        await office.approve(STRANGER, (HostRow("qwen", 8001, "qwen"),), "alice")
        await world.clock.advance(5)
        page = await html(world, f"/boxes/{STRANGER}")
        assert {"drain", "reboot", "withdraw", "retire"} == asked_first(page).keys()
        assert {"drain", "reboot", "withdraw", "retire", "label"} == set(
            re.findall(r'action="/do-([a-z]+)"', page)
        )
        await office.drain(STRANGER, "alice")
        page = await html(world, f"/boxes/{STRANGER}")
        assert 'action="/do-undrain"' in page
        assert "undrain" not in asked_first(page)
        await office.retire(STRANGER, "alice")
        assert {} == asked_first(await html(world, f"/boxes/{STRANGER}"))


async def test_a_warning_says_what_goes_what_callers_lose_what_it_costs_and_how_to_undo_it() -> (
    None
):
    """Each for itself, in the words of this box."""
    said = {
        "drain": ("Its routes leave LiteLLM", "lose nothing", "$0.50/h goes on", "undrain"),
        "reboot": ("vast is asked to reboot it", "5 min", "come back", "cannot be called back"),
        "withdraw": (
            "refused",
            "approve the box again",
            "$0.50/h goes on until you end it at vast",
        ),
        "retire": ("its approval is withdrawn", "hidden", "take it back", "end it at vast"),
    }
    async with rig() as world:
        rows = (HostRow("qwen", 8001, "qwen"),)
        await world.service.office.approve(STRANGER, rows, "alice")
        await world.clock.advance(5)
        warned = asked_first(await html(world, f"/boxes/{STRANGER}"))
        for deed, parts in said.items():
            assert [] == [part for part in parts if part not in warned[deed]], warned[deed]
        configured = asked_first(await html(world, PLACE))
        assert "lines in fleet.hosts stay until you delete them" in configured["retire"]
        assert "withdraw" not in configured


async def test_a_model_that_nothing_else_serves_is_named() -> None:
    """What callers lose is read from the newest pass."""
    async with of_view() as (desk, pages):
        assert "Nothing else serves gemma4-26b" in (await sheet(pages))["box"]
        assert desk.seen
        gemma, qwen, other, *rest = desk.seen.records
        key = evolve(other.key, model=gemma.key.model)
        also = gemma._replace(key=key, deployment=other.deployment)
        desk.seen = evolve(desk.seen, records=(gemma, qwen, also, *rest))
        said = (await sheet(pages))["box"]
        assert "Nothing else serves" not in said
        assert "Other deployments go on serving gemma4-26b." in said


# ---- what an open page is told


async def test_an_open_page_is_told_when_its_box_is_approved_and_asks() -> None:
    """No longer refused, its servers and its entry in the log; the form is left alone."""
    async with rig() as world:
        board = world.service.board
        board.note(Unknown(STRANGER))
        await world.clock.advance(5)
        page = await opened(world, STRANGER)
        assert "Asked and was refused" in page.before["box"]
        rows = (HostRow("qwen", 8001, "qwen"),)
        await world.service.office.approve(STRANGER, rows, "alice")
        await world.clock.advance(5)
        moved = await page.moved()
        assert {"box", "needed", "serves", "lines", "done"} == moved.parts.keys()
        assert "refused" not in moved.parts["box"].partition('class="row deeds"')[0]
        assert "Awaiting" in moved.parts["serves"]
        assert "c.9000:" in moved.parts["lines"]
        assert "alice" in moved.parts["done"]

        board.note(Fetch(STRANGER, "r1-x"))
        await world.clock.advance(5)
        assert "Asked last" in (await page.moved()).parts["box"]


async def test_what_was_just_pressed_is_not_taken_back_on_the_open_page() -> None:
    """A listener of the same pass has what the page was sent with, and nothing older."""
    async with rig() as world:
        page = await opened(world, BOX)
        await world.service.office.drain(BOX, "alice")
        made = await page.pages.made(BOX)
        assert made is not None
        assert "drained" in made.sheet["box"]
        assert made.sheet is await page.pages.sources()["box"].sheet(BOX)


async def test_an_open_page_of_a_box_that_is_no_more_is_read_anew() -> None:
    """And then there is nothing at its address."""
    async with rig() as world:
        await relisted(world, instance(BOX), instance("c.77"))
        page = await opened(world, "c.77")
        await relisted(world, instance(BOX))
        after = await page.pages.sources()["box"].sheet("c.77")
        assert change(page.before, after) is None


@pytest.mark.parametrize("host", [BOX, STRANGER])
async def test_the_page_says_what_its_script_follows(host: str) -> None:
    """And does not load itself again without one: somebody may be typing a note."""
    async with rig() as world:
        page = await html(world, f"/boxes/{host}")
        assert f'data-live="/live?page=box%3A{host}&amp;from=' in page
        assert 'http-equiv="refresh"' not in page


async def test_an_age_alone_moves_no_words() -> None:
    """The script is told the new times, and none of the rest is sent again."""
    async with of_view() as (desk, pages):
        made = await pages.made(ADDRESS)
        assert made is not None
        assert desk.seen
        host = desk.seen.hosts[0]._replace(last_fetch=NOW - 7000)
        desk.seen = evolve(desk.seen, hosts=(host,))
        moved = change(made.sheet, await pages.sources()["box"].sheet(ADDRESS))
        assert moved is not None
        assert {} == moved.parts
        assert {"box"} == moved.ages.keys()
