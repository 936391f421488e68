"""What an admin does in a real Chromium: sign in, undo a hand's work, hold and release the brake.

Rule of this file: everything is done with what stands on the page, by its name.
"""

from pathlib import Path

import pytest
from argon2 import PasswordHasher
from playwright.async_api import Browser, expect

from llmao_core.testing.fake_vllm import Mode

from .browsing import PATIENCE_MS, STRANGER, WELL, Fleet, running
from .proxy import MODEL
from .stage import until

pytestmark = pytest.mark.real

NAME, PASSWORD = "alice", "correct horse battery staple"
PATIENCE_S = PATIENCE_MS / 1000


async def test_a_row_deleted_by_hand_comes_back_and_stands_in_the_log(
    browser: Browser, fleet: Fleet
) -> None:
    """The log says that it was put back, and what was seen before."""
    (gone,) = fleet.stage.litellm.db
    fleet.stage.litellm.remove(gone)
    await until(lambda: gone in fleet.stage.litellm.db, PATIENCE_S, "put back")

    page = await browser.new_page()
    await page.goto(f"{fleet.url}/admin/log")
    lines = page.get_by_role("row").filter(has_text=WELL).filter(has_text="add to LiteLLM: done")
    await expect(lines).to_have_count(2)
    await expect(lines.first).to_contain_text("Healthy, proven, and not in LiteLLM")


async def test_the_brake_holds_and_is_released(browser: Browser, tmp_path: Path) -> None:
    """A server that works for anybody keeps its row until an admin has looked and says so."""
    async with running(tmp_path, brake={"at_least": 1, "fraction": 0.1}) as fleet:
        fleet.stage.servers[0].vllm.mode = Mode.KEYLESS
        page = await browser.new_page()
        await page.goto(f"{fleet.url}/models")
        await expect(page.get_by_text("release the brake").first).to_be_visible()
        assert 1 == len(fleet.stage.litellm.db), "held"

        await page.goto(f"{fleet.url}/admin")
        await page.locator("summary", has_text="Release the brake (1 removal)").click()
        await page.get_by_role("button", name="Release the brake (1 removal) now").click()
        await expect(page.get_by_role("status").first).to_be_visible()
        await until(lambda: not fleet.stage.litellm.db, PATIENCE_S, "removed")


async def test_a_box_is_drained_only_after_its_warning_was_opened(
    browser: Browser, fleet: Fleet
) -> None:
    """With the keyboard, and without a script; undraining it is one press."""
    context = await browser.new_context(java_script_enabled=False)
    page = await context.new_page()
    await page.goto(f"{fleet.url}/boxes/{WELL}")
    drain = page.get_by_role("button", name="Drain now")
    await expect(drain).to_be_hidden()
    await page.locator("summary", has_text="Drain …").focus()
    await page.keyboard.press("Enter")
    await expect(page.locator("#box-drain").get_by_text("Nothing else serves")).to_be_visible()
    assert 1 == len(fleet.stage.litellm.db), "nothing was done yet"

    await page.keyboard.press("Tab")
    await expect(drain).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("status").first).to_contain_text("is being drained")
    await until(lambda: not fleet.stage.litellm.db, PATIENCE_S, "drained")
    await page.get_by_role("button", name="Undrain").click()
    await until(lambda: fleet.stage.litellm.db, PATIENCE_S, "routed again")
    await context.close()


async def test_the_open_page_of_a_box_keeps_up(browser: Browser, fleet: Fleet) -> None:
    """A stranger that is approved elsewhere; what is being typed stays as it is."""
    assert 200 != await fleet.asks(STRANGER)
    page, other = await browser.new_page(), await browser.new_page()
    await page.goto(f"{fleet.url}/boxes/{STRANGER}")
    await expect(page.get_by_text("Asked and was refused")).to_be_visible()
    await page.get_by_role("textbox", name="Note").fill("half a sen")
    await page.evaluate("window.opened = true")

    await other.goto(f"{fleet.url}/admin?host={STRANGER}")
    await other.get_by_label("Model of row 1").select_option(MODEL)
    await other.get_by_role("button", name="Show what fits").click()
    await other.get_by_role("button", name=f"Approve {STRANGER} with 1 model").click()
    await expect(page.get_by_text("Awaiting")).to_be_visible()
    await expect(page.get_by_text("Asked and was refused")).to_be_hidden()
    assert 200 == await fleet.asks(STRANGER)
    await expect(page.get_by_text("Asked last")).to_be_visible()
    await expect(page.get_by_role("textbox", name="Note")).to_have_value("half a sen")
    assert await page.evaluate("window.opened === true"), "it was loaded again"


async def test_an_admin_signs_in_and_out(browser: Browser, tmp_path: Path) -> None:
    """A stranger is led to the sign-in; a wrong password is told; the right one leads back."""
    admin = {"name": NAME, "hash": PasswordHasher().hash(PASSWORD)}
    auth = {"mode": "password", "session_key": "5" * 64, "admins": [admin]}
    async with running(tmp_path, auth=auth) as fleet:
        page = await browser.new_page()
        await page.goto(f"{fleet.url}/admin/log")
        for password in ("wrong", PASSWORD):
            await page.get_by_label("Name").fill(NAME)
            await page.get_by_label("Password").fill(password)
            await page.get_by_role("button", name="Sign in").click()
            if password == "wrong":
                await expect(page.get_by_role("alert")).to_be_visible()
        await expect(page).to_have_url(f"{fleet.url}/admin/log")
        await page.get_by_role("button", name="Sign out").click()
        await page.goto(f"{fleet.url}/admin")
        await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
