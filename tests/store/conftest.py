"""Stores on disk for these tests.

Rule of this file: every store that was opened is closed with its test.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from llmao_web.shell.clock import SystemClock
from llmao_web.shell.opening import open_store
from llmao_web.shell.sql_store import SqlStore
from llmao_web.shell.store import Store

from .contract import Reopen

URL = "sqlite:///llmao.db"


@pytest.fixture
async def reopen(tmp_path: Path) -> AsyncIterator[Reopen]:
    """Give a function that closes the store, if it is open, and opens it."""
    opened: list[SqlStore] = []

    async def open_again() -> SqlStore:
        while opened:
            await opened.pop().aclose()
        opened.append(await open_store(URL, tmp_path, SystemClock()))
        return opened[-1]

    yield open_again
    while opened:
        await opened.pop().aclose()


@pytest.fixture
async def store(reopen: Reopen) -> Store:
    """Give a new store in SQLite."""
    return await reopen()
