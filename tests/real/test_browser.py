"""llmao's pages in a real Chromium: quiet, current, readable, accessible and discreet.

Rule of this file: it looks at what a reader sees and does what a reader does; the fleet behind
the pages is simulated, and each test has one of its own.
"""

import re
from typing import Literal

import pytest
from axe_core_python.async_playwright import Axe  # type: ignore[import-untyped]
from playwright.async_api import (
    Browser,
    ConsoleMessage,
    Page,
    Request,
    expect,
)

from llmao_core.testing.fake_vllm import Mode

from .browsing import STRANGER, WELL, Fleet, row
from .proxy import MODEL
from .stage import Server

pytestmark = pytest.mark.real

# Where pages are judged: the narrowest width that must do and a desk's in both colours, and one
# between, where tables change their form.
COLOURS: tuple[Literal["light", "dark"], ...] = ("light", "dark")
LOOKS = [*((width, colours) for width in (360, 1440) for colours in COLOURS), (768, COLOURS[0])]
PATHS = (
    "/models",
    "/models?as=caller",
    "/boxes",
    f"/boxes/{WELL}",
    "/admin",
    f"/admin?host={STRANGER}",
    "/admin/log",
)
_SERIOUS = ("serious", "critical")


# ---- looking


def watched(page: Page, origin: str, troubles: list[str]) -> None:
    """Note what a page does that none may: complain, fail, or ask anybody but llmao."""

    def note(what: str) -> None:
        troubles.append(f"{page.url}: {what}")

    def heard(said: ConsoleMessage) -> None:
        if said.type in ("error", "warning"):
            note(said.text)

    def asked(request: Request) -> None:
        if not request.url.startswith(f"{origin}/"):
            note(request.url)

    page.on("console", heard)
    page.on("pageerror", lambda error: note(str(error)))
    page.on("request", asked)


async def look(page: Page) -> list[str]:
    """Return what is wrong with the page as it stands, everything on it unfolded."""
    await page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    wide, room = await page.evaluate(
        "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    found = await Axe().run(page, options={"resultTypes": ["violations"]})
    return [f"{wide} px wide, {room} px of room"] * (wide > room) + [
        f"{each['id']}: {each['nodes'][0]['html']}"
        for each in found["violations"]
        if each["impact"] in _SERIOUS
    ]


async def page_of(page: Page, url: str, server: Server) -> str:
    """Return the address of a deployment's page."""
    await page.goto(f"{url}/models")
    link = row(page, server).get_by_role("link").first
    return url + str(await link.get_attribute("href"))


# ---- what must hold


async def test_no_page_complains_leaves_its_origin_scrolls_sideways_or_shuts_anybody_out(
    browser: Browser, fleet: Fleet
) -> None:
    """At 360 and 1440 px, light and dark, and at 768: a quiet console, requests to llmao alone,
    nothing wider than the window, and nothing that axe calls serious."""
    await fleet.asks(STRANGER)
    troubles: list[str] = []
    page = await browser.new_page(reduced_motion="reduce")
    watched(page, fleet.url, troubles)
    deployment = await page_of(page, fleet.url, fleet.loading)
    for path in (*PATHS, deployment.removeprefix(fleet.url)):
        answer = await page.goto(fleet.url + path)
        assert answer is not None
        assert 200 == answer.status, path
        for width, colours in LOOKS:
            await page.set_viewport_size({"width": width, "height": 800})
            await page.emulate_media(color_scheme=colours)
            troubles += [f"{path} {width} {colours}: {each}" for each in await look(page)]
    assert [] == troubles


async def test_a_server_turns_healthy_on_the_open_page(browser: Browser, fleet: Fleet) -> None:
    """The words change in place: the document is still the one that was opened."""
    page = await browser.new_page()
    await page.goto(f"{fleet.url}/models")
    line = row(page, fleet.loading)
    await expect(line).to_contain_text("Loading")
    await page.evaluate("window.opened = true")
    await line.get_by_role("link").first.focus()

    fleet.loading.vllm.mode = Mode.SERVES
    await expect(line).to_contain_text("Healthy")
    assert await page.evaluate("window.opened === true"), "it was loaded again"
    await expect(line.get_by_role("link").first).to_be_focused()


async def test_a_stranger_is_approved_by_the_form(browser: Browser, fleet: Fleet) -> None:
    """Turned away at first, chosen for and approved with the mouse, then given its servers."""
    assert 200 != await fleet.asks(STRANGER)
    page = await browser.new_page()
    await page.goto(f"{fleet.url}/admin")
    waiting = page.get_by_role("listitem").filter(has_text=STRANGER)
    await waiting.get_by_role("link", name="Approve").click()
    await page.get_by_label("Model of row 1").select_option(MODEL)
    await page.get_by_role("button", name="Show what fits").click()
    await page.get_by_role("button", name=f"Approve {STRANGER} with 1 model").click()

    await expect(page.get_by_role("status").first).to_contain_text(STRANGER)
    await expect(page).to_have_url(f"{fleet.url}/boxes/{STRANGER}")
    assert 200 == await fleet.asks(STRANGER)
    await page.goto(f"{fleet.url}/admin")
    await expect(page.get_by_label("Lines for fleet.hosts")).to_contain_text(STRANGER)


async def test_without_script_the_page_reads_and_stays_current(
    browser: Browser, fleet: Fleet
) -> None:
    """The page loads itself again, and then says what has become of the server; the table of a
    model that is well is shut again."""
    context = await browser.new_context(java_script_enabled=False)
    page = await context.new_page()
    await page.goto(f"{fleet.url}/models")
    line = row(page, fleet.loading)
    await expect(line).to_contain_text("Loading")
    await expect(page.get_by_role("heading", name=MODEL)).to_be_visible()

    fleet.loading.vllm.mode = Mode.SERVES
    await expect(page.get_by_role("region", name=MODEL)).to_contain_text("2 healthy")
    await expect(line).to_have_count(0)
    await context.close()


async def test_the_preview_names_no_host_port_or_address(browser: Browser, fleet: Fleet) -> None:
    """Neither as it is sent nor as it is kept current, in the text or under it."""
    page = await browser.new_page()
    await page.goto(f"{fleet.url}/models")
    await page.get_by_role("link", name="Preview as user").click()
    await expect(page.get_by_text("This is what callers see")).to_be_visible()
    await page.wait_for_function("document.querySelector('.pill')?.textContent === 'Available'")
    await page.evaluate("window.opened = true")
    assert [] == telling(fleet, await page.content())

    for server in fleet.stage.servers:
        server.vllm.mode = Mode.REFUSES
    await expect(page.locator(".pill").first).not_to_have_text("Available")
    assert await page.evaluate("window.opened === true"), "it was loaded again"
    assert [] == telling(fleet, await page.content())


def telling(fleet: Fleet, html: str) -> list[str]:
    """Return the hosts and ports of the fleet that stand in a page, and any other address."""
    told = [str(each.port) for each in fleet.stage.servers] + [r"127\.\d+\.\d+\.\d+", "https?://"]
    return [found[0] for each in told for found in re.finditer(rf"\b{each}\b", html)]
