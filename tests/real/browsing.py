"""What looking at llmao's pages takes: a real Chromium, and llmao before a simulated fleet.

Rule of this file: nothing is judged here; each test has a fleet of its own.
"""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen
from playwright.async_api import Browser, Locator, Page, async_playwright, expect
from tests.real.lab.process import LabError, environment, run

from llmao_core.testing.fake_vllm import Mode

from .proxy import MODEL
from .stage import Server, Stage, staged

WELL, LOADING, STRANGER = "127.0.0.2", "127.0.0.3", "127.0.0.6"
PATIENCE_MS = 30_000.0
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


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


@asynccontextmanager
async def running(folder: Path, **more: Any) -> AsyncIterator[Fleet]:
    """Give a running llmao with more in its configuration, one server routed and one loading."""
    async with staged(folder, (WELL, LOADING)) as stage:
        stage.servers[1].vllm.mode = Mode.LOADING
        llmao = stage.llmao(more=more)
        await asyncio.to_thread(llmao.start)
        await stage.routed(PATIENCE_MS / 1000)
        fleet = Fleet(stage, llmao.url)
        # Without it the second box would be taken for one that never started.
        assert [200, 200] == [await fleet.asks(host) for host in (WELL, LOADING)]
        yield fleet


@pytest.fixture
async def fleet(tmp_path: Path, chromium: str) -> AsyncIterator[Fleet]:
    """Give a running llmao; without a browser none is started."""
    assert chromium
    async with running(tmp_path) as fleet:
        await _read_back(fleet)
        yield fleet


async def _read_back(fleet: Fleet) -> None:
    """Wait until llmao has seen in LiteLLM what it wrote: its pages say so until then."""
    async with fleet.stage.visitor(fleet.stage.made[0]) as admin:
        for _ in range(round(PATIENCE_MS / 200)):
            if "being written" not in (await admin.get("/models")).text:
                return
            await asyncio.sleep(0.2)
    raise AssertionError("llmao has not read back what it wrote")


def row(page: Page, server: Server) -> Locator:
    """Return the row of a server on the admins' page of models."""
    # The plan has rows about it too, for as long as something is to be done.
    table = page.get_by_role("table", name=f"Deployments of {MODEL}")
    return table.get_by_role("row").filter(has_text=f"{server.host}:{server.port}")
