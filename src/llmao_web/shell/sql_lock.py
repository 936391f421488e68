"""One process per SQLite file.

Rule of this file: the lock is the operating system's, on a file beside the database: it ends
with the process, however that ends, and the file left behind means nothing.
"""

import contextlib
import fcntl
import os
from pathlib import Path

from .store import StoreError


class FileLock:
    """Holds the lock of a database file from `take` to `release`."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._path = database.with_name(f"{database.name}.lock")
        self._held: int | None = None

    def take(self) -> None:
        """Take the lock at once, or raise StoreError."""
        held = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            who = _number(held)
            os.close(held)
            raise StoreError(
                f"Another llmao{who} uses the store {self._database}: end it first, or let `store`"
                " name another file. Several may share a PostgreSQL."
            ) from None
        except BaseException:
            os.close(held)
            raise
        os.ftruncate(held, 0)
        os.pwrite(held, f"{os.getpid()}\n".encode(), 0)
        self._held = held

    def release(self) -> None:
        """Let go; the file stays, since another may wait for it already."""
        if self._held is not None:
            os.close(self._held)
            self._held = None


def _number(held: int) -> str:
    """Return which process holds the lock, as it wrote itself; "" when that makes no sense."""
    with contextlib.suppress(OSError, ValueError):
        return f" (process {int(os.pread(held, 20, 0)):d})"
    return ""
