"""Sign-ins in the action log: who and how, never a secret, and nobody is kept out for it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from attrs import evolve
from structlog.testing import capture_logs
from tests.shell.office_world import config, rig

from llmao_core.errors import LlmaoError
from llmao_web.app import create_app
from llmao_web.auth import routes
from llmao_web.pages.said import said
from llmao_web.shell.ledger import Entry, EntryKind
from llmao_web.shell.store import MemoryStore

from .signing import ADMIN_TOKEN, BY_PASSWORD, OTHER_PASSWORD, PASSWORD, TOKENS, Browser


class Moody(MemoryStore):
    """A store that works, fails, or does not answer at all. mood: "", "fails" or "hangs"."""

    mood = ""

    async def append(self, *entries: Entry) -> None:
        if self.mood == "fails":
            raise LlmaoError("The store is full.")
        if self.mood == "hangs":
            await asyncio.Event().wait()
        await super().append(*entries)

    def signed_in(self) -> list[Entry]:
        """Return the sign-ins that are kept, oldest first."""
        return [each.entry for each in self.log if each.entry.kind is EntryKind.SIGNED_IN]


@asynccontextmanager
async def door() -> AsyncIterator[tuple[Browser, Moody, Any]]:
    """Yield a browser in front of a running llmao with passwords, its store and its clock."""
    given = config(auth=BY_PASSWORD, api_tokens=TOKENS)
    given = evolve(given, server=evolve(given.server, public_url="https://llm.example.org"))
    store = Moody()
    async with rig(given, store) as world:
        office = world.service.office
        app = create_app(world.service.board, given, world.clock, records=store, office=office)
        yield Browser(app), store, world.clock


async def test_an_admins_sign_in_is_in_the_log() -> None:
    """Who and how, for other admins to see; the password is nowhere."""
    async with door() as (browser, store, _):
        await browser.sign_in()
        (entry,) = store.signed_in()
        assert ("alice", "signed in: with a password") == (entry.actor, said(entry))
        page = (await browser.get("/admin/log?kind=signed+in")).text
        assert "with a password" in page
        assert PASSWORD not in f"{store.log}{page}"


async def test_what_is_no_sign_in_is_not_in_the_log() -> None:
    """A wrong password, a token of the API, a page that is only looked at."""
    async with door() as (browser, store, _):
        await browser.sign_in(password="wrong")
        await browser.sign_in("nobody")
        bearer = {"authorization": f"Bearer {ADMIN_TOKEN}"}
        assert 200 == (await browser.get("/api/v1/view", headers=bearer)).status_code
        await browser.get("/models")
        assert [] == store.signed_in()


async def test_who_signs_in_all_the_time_does_not_fill_the_log() -> None:
    """Ten at once, then one a minute, for each name."""
    async with door() as (browser, store, clock):
        for _ in range(14):
            assert 303 == (await browser.sign_in()).status_code
            await clock.advance(3)
            browser.client.cookies.clear()
        assert 10 == len(store.signed_in())
        await browser.sign_in("bob", OTHER_PASSWORD)
        assert 11 == len(store.signed_in())


@pytest.mark.parametrize("mood", ["fails", "hangs"])
async def test_a_store_that_is_out_keeps_nobody_out(
    mood: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An admin is needed most when something is broken; llmao's own log says what it lacks."""
    monkeypatch.setattr(routes, "NOTED_WITHIN_S", 0.05)
    async with door() as (browser, store, _):
        store.mood = mood
        with capture_logs() as lines:
            assert 303 == (await browser.sign_in()).status_code
        assert {"signed in", "not in the ledger"} <= {line["event"] for line in lines}
        assert "alice" in (await browser.get("/models")).text
        store.mood = ""
