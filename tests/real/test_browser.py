"""llmao's pages in a real Chromium: quiet, current, readable, accessible and discreet.

Rule of this file: it looks at what a reader sees and does what a reader does; the fleet behind
the pages is simulated, and each test has one of its own.
"""

import asyncio
import os
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

import pytest
from attrs import frozen
from axe_core_python.async_playwright import Axe  # type: ignore[import-untyped]
from playwright.async_api import (
    Browser,
    ConsoleMessage,
    Locator,
    Page,
    Request,
    async_playwright,
    expect,
)
from tests.real.lab.process import LabError, environment, run

from llmao_core.testing.fake_vllm import Mode

from .proxy import MODEL
from .stage import Server, Stage, staged

pytestmark = pytest.mark.real

WELL, LOADING, STRANGER = "127.0.0.2", "127.0.0.3", "127.0.0.6"
# Where pages are judged: the narrowest width that must do, and a desk's; each in both colours.
COLOURS: tuple[Literal["light", "dark"], ...] = ("light", "dark")
LOOKS = [(width, colours) for width in (360, 1440) for colours in COLOURS]
PATHS = (
    "/models",
    "/models?as=caller",
    "/boxes",
    f"/boxes/{WELL}",
    "/admin",
    f"/admin?host={STRANGER}",
    "/admin/log",
)
PATIENCE_MS = 30_000.0
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_SERIOUS = ("serious", "critical")


# ---- the browser


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return where Chromium is; a machine of a pipeline is given one."""
    found = _found()
    if found is None and os.environ.get("CI") == "true" and os.geteuid() == 0:
        _install(tmp_path_factory.mktemp("chromium"))
        found = _found()
    if found is None:
        msg = f"none of {', '.join(_NAMES)} is on the PATH: install Chromium"
        raise LabError(msg)
    return found


def _found() -> str | None:
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


def _install(folder: Path) -> None:
    for words in (("update",), ("install", "-y", "--no-install-recommends", "chromium")):
        run(
            ("apt-get", *words),
            log=folder / "apt.log",
            env=environment({"DEBIAN_FRONTEND": "noninteractive"}),
            cwd=folder,
            hint="Install Chromium by hand.",
            timeout_s=300,
        )


@pytest.fixture
async def browser(chromium: str) -> AsyncIterator[Browser]:
    """Give a browser that asks no proxy."""
    expect.set_options(timeout=PATIENCE_MS)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            # A container's root has no sandbox.
            executable_path=chromium,
            args=["--no-sandbox", "--no-proxy-server"],
        )
        yield browser
        await browser.close()


# ---- what it looks at


@frozen
class Fleet:
    """One that serves, one that loads, and the llmao in front of both."""

    stage: Stage
    url: str

    @property
    def loading(self) -> Server:
        """Return the server that loads until a test lets it serve."""
        return self.stage.servers[1]

    async def asks(self, host: str) -> int:
        """Have a box ask for its configuration, and return the status of the answer."""
        async with self.stage.visitor(self.stage.made[0]) as box:
            return (await box.fetch(host)).status_code


@pytest.fixture
async def fleet(tmp_path: Path, chromium: str) -> AsyncIterator[Fleet]:
    """Give a running llmao; without a browser none is started."""
    assert chromium
    async with staged(tmp_path, (WELL, LOADING)) as stage:
        stage.servers[1].vllm.mode = Mode.LOADING
        llmao = stage.llmao()
        await asyncio.to_thread(llmao.start)
        await stage.routed(PATIENCE_MS / 1000)
        fleet = Fleet(stage, llmao.url)
        # Without it the second box would be taken for one that never started.
        assert [200, 200] == [await fleet.asks(host) for host in (WELL, LOADING)]
        yield fleet


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


def row(page: Page, server: Server) -> Locator:
    """Return the row of a server on the admins' page of models."""
    # The plan has rows about it too, for as long as something is to be done.
    table = page.get_by_role("table", name=f"Deployments of {MODEL}")
    return table.get_by_role("row").filter(has_text=f"{server.host}:{server.port}")


async def page_of(page: Page, url: str, server: Server) -> str:
    """Return the address of a deployment's page."""
    await page.goto(f"{url}/models")
    link = row(page, server).get_by_role("link").first
    return url + str(await link.get_attribute("href"))


# ---- what must hold


async def test_no_page_complains_leaves_its_origin_scrolls_sideways_or_shuts_anybody_out(
    browser: Browser, fleet: Fleet
) -> None:
    """At 360 and 1440 px, light and dark: a quiet console, requests to llmao alone, nothing wider
    than the window, and nothing that axe calls serious."""
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
    """The page loads itself again, and then says what has become of the server."""
    context = await browser.new_context(java_script_enabled=False)
    page = await context.new_page()
    await page.goto(f"{fleet.url}/models")
    line = row(page, fleet.loading)
    await expect(line).to_contain_text("Loading")
    await expect(page.get_by_role("heading", name=MODEL)).to_be_visible()

    fleet.loading.vllm.mode = Mode.SERVES
    await expect(line).to_contain_text("Healthy")
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
