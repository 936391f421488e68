"""llmao's pages in a real Chromium: quiet, current, readable, accessible and discreet.

Rule of this file: it looks at what a reader sees and does what a reader does; the fleet behind
the pages is simulated, and each test has one of its own.
"""

import contextlib
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field, frozen
from axe_core_python.async_playwright import Axe
from playwright.async_api import (
    Browser,
    BrowserContext,
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
LOOKS = [(width, colours) for width in (360, 1440) for colours in ("light", "dark")]
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

    async def stranger_asks(self) -> int:
        """Have a box ask for its configuration, and return the status of the answer."""
        async with self.stage.visitor(self.stage.made[0]) as box:
            return (await box.fetch(STRANGER)).status_code


@pytest.fixture
async def fleet(tmp_path: Path, chromium: str) -> AsyncIterator[Fleet]:
    """Give a running llmao; without a browser none is started."""
    assert chromium
    async with staged(tmp_path, (WELL, LOADING)) as stage:
        stage.servers[1].vllm.mode = Mode.LOADING
        llmao = stage.llmao()
        await stage_started(llmao.start)
        await stage.routed(PATIENCE_MS / 1000)
        yield Fleet(stage, llmao.url)
