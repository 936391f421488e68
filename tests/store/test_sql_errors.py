"""What a failing database means for what was to be kept."""

import sqlite3

import asyncpg
import pytest
from sqlalchemy.exc import DBAPIError

from llmao_web.shell.sql_errors import said_of
from llmao_web.shell.store import StoreError, Unanswered


def _raised(error: BaseException) -> StoreError:
    with pytest.raises(StoreError) as caught, said_of("PostgreSQL at a:1"):
        raise error
    return caught.value


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (asyncpg.DiskFullError("no space"), "its disk is full. Make room."),
        (asyncpg.ReadOnlySQLTransactionError("no"), "it takes no writes: "),
        (ConnectionRefusedError(), "it cannot be reached. "),
        (sqlite3.OperationalError("full"), "it failed in a way llmao does not know"),
    ],
)
def test_what_was_refused_is_not_kept(error: Exception, said: str) -> None:
    """A database that says no, or was never reached, has kept nothing, however it is wrapped."""
    for one in (error, DBAPIError("INSERT", {}, error)):
        raised = _raised(one)
        assert not isinstance(raised, Unanswered)
        assert f"The store, PostgreSQL at a:1, cannot be used: {said}" in str(raised)


@pytest.mark.parametrize(
    "error",
    [
        TimeoutError(),
        ConnectionResetError(),
        EOFError(),
        asyncpg.InterfaceError("closed"),
        asyncpg.ConnectionDoesNotExistError("closed in the middle"),
        asyncpg.AdminShutdownError("terminating"),
    ],
)
def test_what_was_cut_short_may_be_kept(error: Exception) -> None:
    """A connection that ends may have carried the write before, and the answer was lost."""
    assert isinstance(_raised(error), Unanswered)
