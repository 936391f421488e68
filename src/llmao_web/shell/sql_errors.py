"""What a database says when it fails, as a sentence with what to do.

Rule of this file: nothing of the database's own message is repeated, nor of the statement: both
may hold what was to be kept, and a password.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg
from sqlalchemy.exc import SQLAlchemyError

from .store import StoreError, Unanswered

# By the beginning of SQLite's name of an error, or of PostgreSQL's code.
_SAID = {
    "SQLITE_FULL": "its disk is full. Make room",
    "SQLITE_READONLY": "it may not be written. Check its owner and mode, and those of its folder",
    "SQLITE_CANTOPEN": "it cannot be opened. Check that its folder exists and who may write there",
    "SQLITE_PERM": "it may not be opened. Check its owner and mode",
    "SQLITE_CORRUPT": "it is damaged. Move it away and restore a backup",
    "SQLITE_NOTADB": "it is no SQLite database. Let `store` name another file",
    "SQLITE_BUSY": "another program keeps it locked. End that program",
    "SQLITE_LOCKED": "another program keeps it locked. End that program",
    "SQLITE_IOERR": "its disk cannot be read or written. Look at the system's log",
    "SQLITE_TOOBIG": "this is too large for it",
    "08": "the connection broke. Check that it runs",
    "28": "it refuses the user or password. Check `store`",
    "3D": "there is no such database. Create it, or check `store`",
    "42501": "its user may not do this. Let it own the schema llmao, or create schemas",
    "25006": "it takes no writes: let `store` name the primary, or look why it is read-only",
    "53100": "its disk is full. Make room",
    "53": "it has no room for more connections or memory. Raise its limits",
    "57014": "it took too long to answer. Look at its load",
    "55P03": "another program keeps it locked. Look at what it is doing",
    "57P": "it is shutting down or starting. It is tried again",
}
# The connection ended, before the write or after it.
_CUT = ("08", "57P")
_TIMED_OUT = "it did not answer in time. Check that it runs and can be reached"
_STRANGE = "it failed in a way llmao does not know"

_FAILURES = (
    SQLAlchemyError,
    OSError,
    EOFError,
    sqlite3.Error,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    # Said by a connection that was told of its end and has not closed yet.
    asyncpg.InternalClientError,
)


@contextmanager
def said_of(place: str) -> Iterator[None]:
    """Turn whatever a database raises in the body into a StoreError about this place."""
    try:
        yield
    except TimeoutError:
        raise Unanswered(f"The store, {place}, cannot be used: {_TIMED_OUT}.") from None
    except _FAILURES as error:
        said = f"The store, {place}, cannot be used: {_why(error)}."
        raise (StoreError if _answered(error) else Unanswered)(said) from None


def _answered(error: BaseException) -> bool:
    """Tell whether it is certain that nothing was kept: it refused, or was never reached."""
    causes = list(_causes(error))
    if any(isinstance(each, sqlite3.Error | ConnectionRefusedError) for each in causes):
        return True
    codes = [code for each in causes if isinstance(code := getattr(each, "sqlstate", None), str)]
    return bool(codes) and not codes[0].startswith(_CUT)


def _why(error: BaseException) -> str:
    for each in _causes(error):
        codes = (getattr(each, name, None) for name in ("sqlite_errorname", "sqlstate"))
        for code in codes:
            if isinstance(code, str) and (said := _said(code)):
                return said
    causes = list(_causes(error))
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.strerror}. Check its path, and who may write there"
    if any(isinstance(each, OSError) for each in causes):
        return "it cannot be reached. Check that it runs, and `store`"
    return f"{_STRANGE} ({type(causes[-1]).__name__})"


def _said(code: str) -> str | None:
    fitting = [start for start in _SAID if code.startswith(start)]
    return _SAID[max(fitting, key=len)] if fitting else None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what it was made of, outermost first."""
    seen: BaseException | None = error
    for _ in range(8):
        if seen is None:
            return
        yield seen
        seen = getattr(seen, "orig", None) or seen.__cause__
