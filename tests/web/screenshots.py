"""Takes the pictures of the documents: a small fleet at the end of its story, in Chromium.

Rule of this file: a picture is made of what the application answers at a standing clock. The
browser asks nobody: every request of a page is answered here, by the application itself.

    python -m tests.web.screenshots [--into FOLDER]
"""

import argparse
import asyncio
import io
import logging
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import httpx
import structlog
from attrs import frozen
from PIL import Image
from playwright.async_api import Browser, Route, async_playwright

from .gallery import LARGE, SMALL, STRANGER, Gallery, gallery

IMAGES = Path(__file__).parents[2] / "docs" / "img"
LARGEST_BYTES = 120_000
_HERE = "http://127.0.0.1"
_COLOURS = 128
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@frozen
class Shot:
    """One picture. height: of the window, which it shows from the top; opened: what to unfold."""

    name: str
    path: str
    width: int = 1440
    height: int = 900
    colours: Literal["light", "dark"] = "light"
    opened: str = ""


def shots(world: Gallery) -> Sequence[Shot]:
    """Return what is taken."""
    healthy, down = world.page_of(LARGE), world.page_of(SMALL)
    return (
        Shot("models", "/models", height=1180),
        Shot("models-dark", "/models", height=1180, colours="dark"),
        Shot("models-caller", "/models?as=caller", height=640),
        Shot("models-narrow", "/models", 360, 900),
        Shot("deployment", f"{healthy}?hours=1", height=1180),
        Shot("deployment-down", f"{down}?hours=1", height=1180, colours="dark"),
        Shot("boxes", "/boxes", height=900),
        Shot("admin", f"/admin?host={STRANGER}", height=1000),
    )


async def take(world: Gallery, browser: Browser, shot: Shot) -> bytes:
    """Return one picture as a small PNG."""
    # Without its script: it would look for what is new, and there is nothing.
    context = await browser.new_context(
        viewport={"width": shot.width, "height": shot.height},
        color_scheme=shot.colours,
        reduced_motion="reduce",
        java_script_enabled=False,
    )
    transport = httpx.ASGITransport(world.app, client=("127.0.0.1", 50_000))
    async with httpx.AsyncClient(transport=transport, base_url=_HERE) as client:

        async def answer(route: Route) -> None:
            given = await client.get(route.request.url, headers={"accept": "text/html"})
            await route.fulfill(
                status=given.status_code, headers=dict(given.headers), body=given.content
            )

        await context.route("**/*", answer)
        page = await context.new_page()
        await page.goto(f"{_HERE}{shot.path}")
        taken = await page.screenshot()
    await context.close()
    return _small(taken)


def _small(png: bytes) -> bytes:
    """Return a picture with few colours: pages have few."""
    held = io.BytesIO()
    with Image.open(io.BytesIO(png)) as image:
        few = image.convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE)
        few.save(held, "PNG", optimize=True)
    return held.getvalue()


def quiet() -> None:
    """Keep the log of the fleet off the terminal."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


async def take_all(into: Path, only: str = "") -> None:
    """Write every picture into a folder."""
    into.mkdir(parents=True, exist_ok=True)
    chromium = next((path for name in _BROWSERS if (path := shutil.which(name))), None)
    if chromium is None:
        sys.exit(f"None of {', '.join(_BROWSERS)} is on the PATH: install Chromium.")
    async with gallery() as world, async_playwright() as playwright:
        # A container's root has no sandbox.
        browser = await playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--no-proxy-server"]
        )
        for shot in shots(world):
            if only and only not in shot.name:
                continue
            taken = await take(world, browser, shot)
            assert len(taken) <= LARGEST_BYTES, f"{shot.name} has {len(taken):,} bytes"
            (into / f"{shot.name}.png").write_bytes(taken)
            print(f"{shot.name}.png {len(taken) / 1000:.0f} kB")
        await browser.close()


def main(arguments: Any = None) -> None:
    """Take them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, default=IMAGES)
    parser.add_argument("--only", default="", help="a part of the name of the pictures to take")
    given = parser.parse_args(arguments)
    quiet()
    asyncio.run(take_all(given.into, given.only))


if __name__ == "__main__":
    main()
