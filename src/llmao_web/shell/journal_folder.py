"""Where each of several llmaos keeps its journal, when all were given the same folder.

Rule of this file: nobody writes where another does, so that the files of one folder follow each
other in time. The lock is the operating system's: it ends with the process, however that ends.
"""

import contextlib
import fcntl
import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path

from attrs import frozen

from .journal_file import files

_LOCK = "lock"
_SECOND = 2
_NUMBER = re.compile(r"[2-9]|[1-9]\d{1,2}")


class Place:
    """The first of a journal's folders that no other llmao holds, held from `taken` to `release`.

    The folder itself comes first, then 2, 3 and so on in it: as many as there ever were llmaos at
    one time, whatever they are called.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._folder: Path | None = None
        self._held: int | None = None

    def taken(self) -> Path:
        """Return the folder to write into from now on, perhaps another than so far.

        Whoever began as the second moves up when the first is gone. Raises OSError.
        """
        for folder in _places(self._root):
            if folder == self._folder and self._is_there(folder):
                return folder
            if (held := _locked(folder)) is not None:
                self.release()
                self._folder, self._held = folder, held
                return folder
        raise AssertionError("places have no end")

    def release(self) -> None:
        """Let go; the lock's file stays, since another may wait for it already."""
        held, self._held, self._folder = self._held, None, None
        if held is not None:
            os.close(held)

    def _is_there(self, folder: Path) -> bool:
        """Tell whether the lock is still the one of a folder that somebody may have removed."""
        assert self._held is not None
        try:
            return os.path.samestat(os.fstat(self._held), (folder / _LOCK).stat())
        except FileNotFoundError:
            return False


# ---- what is in them


def others(root: Path) -> list[Path]:
    """Return the journals that other llmaos kept in places of this folder."""
    numbered = [each for each in root.iterdir() if _NUMBER.fullmatch(each.name) and each.is_dir()]
    return [each for each in sorted(numbered, key=lambda one: int(one.name)) if files(each)]


def tidy(root: Path, oldest: str, most: int) -> None:
    """Remove files that are too old or, of all places together, too much; the oldest first.

    The newest of a place goes only when it is of a day before `oldest`: who writes there begins
    another with the next pass. most: bytes.
    """
    found = sorted(_kept(root), key=lambda one: one.age)
    size = sum(one.size for one in found)
    for one in found:
        if one.age[0] < oldest or (size > most and not one.newest):
            size -= one.size
            one.path.unlink(missing_ok=True)


@frozen
class _Kept:
    """A file of a journal. newest: of its folder. size: bytes."""

    path: Path
    newest: bool
    size: int

    @property
    def age(self) -> tuple[str, int]:
        """Return its day and its number in it."""
        day, number, _ = self.path.name.split(".")
        return day, int(number)


def _kept(root: Path) -> Iterator[_Kept]:
    for folder in (root, *others(root)):
        found = files(folder)
        for path in found:
            # another llmao may have removed it just now
            with contextlib.suppress(FileNotFoundError):
                yield _Kept(path, path == found[-1], path.stat().st_size)


# ---- locks


def _places(root: Path) -> Iterator[Path]:
    yield root
    yield from (root / str(number) for number in itertools.count(_SECOND))


def _locked(folder: Path) -> int | None:
    """Return what holds the lock of a folder, None when another llmao does."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    held = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(held)
        return None
    except BaseException:
        os.close(held)
        raise
    return held
