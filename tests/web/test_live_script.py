"""The script of a live page, in a real browser: changes come in place, and nothing is disturbed.

Rule of this file: one browser for all, a real server on loopback, and no waiting but for what is
to be seen.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
import uvicorn
from attrs import evolve
from axe_core_python.async_playwright import Axe  # type: ignore[import-untyped]
from playwright.async_api import Page, async_playwright

from llmao_core.records import Availability
from llmao_core.verdicts import DOWN
from llmao_web.app import create_app
from llmao_web.pages.names import element, page_of
from llmao_web.shell.clock import SystemClock

from .visiting import MARKUP, full
from .worlds import FakeDesk, a_view, fleet

ColorScheme = Literal["light", "dark"]
CHROMIUM = Path("/usr/bin/chromium")
GEMMA = element("m", "gemma4-26b")
pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason="needs Chromium at /usr/bin/chromium")


@asynccontextmanager
async def served(desk: FakeDesk) -> AsyncIterator[str]:
    """Serve a desk on loopback; the time is the machine's."""
    config = uvicorn.Config(
        create_app(desk, fleet(), SystemClock()), port=0, log_config=None, lifespan="off"
    )
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = server.force_exit = True
        for connection in list(server.server_state.connections):
            connection.transport.abort()
        await task


@asynccontextmanager
async def opened(url: str, **more: Any) -> AsyncIterator[Page]:
    """Open a page; nothing may go wrong in it."""
    async with async_playwright() as play:
        browser = await play.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu"]
        )
        page = await browser.new_page(**more)
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
        async with page.expect_request("**/live?**"):
            await page.goto(url)
        yield page
        await browser.close()
        assert [] == wrong


async def test_a_change_comes_in_place_and_disturbs_nothing() -> None:
    """Focus, scroll, what was opened, and what did not change stay as they are."""
    desk = full()
    async with served(desk) as url, opened(f"{url}/models") as page:
        await page.evaluate(
            """() => {
              for (const each of document.querySelectorAll(".deployments-of")) each.open = true;
              document.querySelector("details.badge").open = true;
              document.querySelector("a.key").focus();
              scrollTo(0, 300);
              window.before = [...document.querySelectorAll("tbody tr")];
              window.top0 = scrollY;
            }"""
        )
        first, *others = a_view().models
        changed = evolve(first, availability=Availability.DEGRADED, display_name=MARKUP)
        desk.seen = evolve(a_view(), models=(changed, *others), items=a_view().items[1:])
        await page.get_by_text("Degraded").wait_for()
        told = await page.evaluate(
            """(gemma) => ({
              open: document.querySelector("details.badge").open,
              focus: document.activeElement.matches("a.key"),
              rows: window.before.every((each) => each.isConnected),
              scroll: scrollY === window.top0,
              items: document.querySelectorAll("#work > li").length,
              title: document.getElementById(`${gemma}-name`).textContent,
              scripts: document.scripts.length,
            })""",
            GEMMA,
        )
    assert {
        "open": True,
        "focus": True,
        "rows": True,
        "scroll": True,
        "items": 1,
        "title": MARKUP,
        "scripts": 1,
    } == told


async def test_a_model_that_fails_moves_to_the_top_as_it_is() -> None:
    """What is open and focused in it stays so, and no section is made anew."""
    desk, (first, *others) = full(), a_view().models
    async with served(desk) as url, opened(f"{url}/models") as page:
        await page.locator(f"#{GEMMA}-all > summary").click()
        await page.evaluate(
            """(gemma) => {
              window.before = document.getElementById(`${gemma}-section`);
              window.held = window.before.querySelector("a.key");
              window.held.focus();
            }""",
            GEMMA,
        )
        assert not await page.evaluate("window.before.matches(':first-child')")
        fails = evolve(first, availability=Availability.UNAVAILABLE)
        desk.seen = evolve(a_view(), models=(fails, *others))
        await page.locator(f"#{GEMMA}-section:first-child").wait_for()
        assert [True, True] == await page.evaluate(
            """() => [
              window.before.querySelector(".deployments-of").open,
              document.activeElement === window.held,
            ]"""
        )


async def test_a_page_of_another_make_is_read_anew_in_place() -> None:
    """A new model, without a reload."""
    desk = full()
    desk.seen = evolve(a_view(), models=a_view().models[:1])
    async with served(desk) as url, opened(f"{url}/models") as page:
        await page.evaluate("window.same = true")
        desk.seen = a_view()
        await page.get_by_text("Claude X").wait_for()
        assert await page.evaluate("window.same")
        first, *others = a_view().models
        desk.seen = evolve(a_view(), models=(evolve(first, summary="news"), *others))
        await page.get_by_text("news").wait_for()


async def test_a_warning_that_is_being_read_stays_open_and_never_becomes_another() -> None:
    """Its sentences change in place; once its button is another, it is shut."""
    desk, (first, *others) = full(), a_view().records
    async with served(desk) as url, opened(f"{url}/models") as page:
        await page.locator(f"#{GEMMA}-all > summary").click()
        table = page.get_by_role("table", name="Deployments of gemma4-26b")
        row = table.get_by_role("row").filter(has_text=first.key.shown)
        await row.locator("summary.button").click()
        await row.get_by_text("Nothing else serves").wait_for()
        await row.get_by_role("button", name="Drain now").focus()

        desk.seen = evolve(a_view(), records=(first._replace(lifecycle=DOWN[0]), *others))
        await row.get_by_text("It serves no callers now").wait_for()
        assert await row.get_by_role("button", name="Drain now").evaluate(
            "(each) => each === document.activeElement"
        )
        desk.seen = evolve(a_view(), records=(first._replace(drained=True), *others))
        await row.get_by_role("button", name="Undrain").wait_for()
        assert 0 == await row.locator("details.confirm").count()


async def test_it_says_when_it_is_no_longer_current() -> None:
    """A page that stands still must not look as if all were well."""
    desk = full()
    async with async_playwright() as play:
        browser = await play.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu"]
        )
        page = await browser.new_page()
        async with served(desk) as url:
            async with page.expect_request("**/live?**"):
                await page.goto(f"{url}/models")
            assert not await page.is_visible("#not-live")
        await page.wait_for_selector("#not-live", state="visible")
        await browser.close()


LOOKS: tuple[tuple[ColorScheme, int], ...] = (("light", 360), ("dark", 1440))


async def test_nothing_is_cut_off_and_axe_finds_nothing_serious() -> None:
    """At 360 px as well as wide, light and dark."""
    found: list[Any] = []
    async with (
        served(full()) as url,
        opened(f"{url}/models", bypass_csp=True) as page,
    ):
        gemma = page_of("main", a_view().records[0].key)
        for path in ("/models", "/models?as=caller", gemma):
            await page.goto(f"{url}{path}")
            for scheme, width in LOOKS:
                await page.emulate_media(color_scheme=scheme)
                await page.set_viewport_size({"width": width, "height": 900})
                wide = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
                assert wide <= 0, f"{path} is {wide} px too wide at {width}"
                looked = await Axe().run(page)
                found += [(path, width, one["id"], one["nodes"][0]["html"])
                          for one in looked["violations"]
                          if one["impact"] in ("serious", "critical")]  # fmt: skip
    assert [] == found
