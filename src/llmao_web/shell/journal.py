"""The journal: the flight recorder that llmao can be replayed from.

Rule of this file: a pass is handed over and never waits. What the disk does not take is dropped,
counted and said, and recording begins again with a keyframe.
"""

import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import structlog

from llmao_core.config import JournalConfig
from llmao_core.errors import Trouble

from .journal_codec import JournalError
from .journal_file import Appender, day_of
from .journal_folder import Place, tidy
from .journal_record import Pass, Recorder
from .unexpected import log_unexpected

# From the nearest keyframe on everything is replayed, to see one moment.
KEYFRAME_S = 600.0
PASSES_WAITING = 32
AGAIN_S = 10.0
# Of what a journal may have in all: the oldest file is the smallest thing that can be removed.
_FILE_PART = 8
MOST_FILE_BYTES = 256 * 1000 * 1000

log = structlog.get_logger(__name__)


class Writes(Protocol):
    """What a file of a journal does (journal_file.Appender)."""

    @property
    def size(self) -> int:
        """Return how many bytes of it are whole."""
        ...

    def append(self, at: float, content: bytes, *, keyframe: bool) -> None:
        """Append a record."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...


# Opens the next file of a day in a folder; raises OSError.
Opens = Callable[[Path, str], Writes]


class Keeper:
    """Writes records into files, one after the other, and removes old files.

    Belongs to one thread. `trouble` says why nothing is kept, None while all is. Of several on one
    folder each has a place of its own in it, and all together keep to its bounds.
    """

    def __init__(self, folder: Path, config: JournalConfig, opens: Opens = Appender.begun) -> None:
        self.trouble: Trouble | None = None
        self.dropped = 0
        self._root = folder
        self._place = Place(folder)
        self._folder = folder
        self._days = config.keep_days
        self._most = config.max_mb * 1_000_000
        self._opens = opens
        self._recorder = Recorder()
        self._file: Writes | None = None
        self._day = ""
        self._keyframe_at = 0.0
        self._again_at = 0.0

    def keep(self, one: Pass, *, after_gap: bool) -> None:
        """Keep a pass, or say why not."""
        if after_gap:
            self._recorder.forget()
        if self.trouble and 0 <= self._again_at - one.at <= AGAIN_S:
            self._drop()
            return
        try:
            self._keep(one)
        except (OSError, JournalError) as error:
            self._failed(one, str(error.strerror) if isinstance(error, OSError) else str(error))
        except Exception as error:
            log_unexpected("journal", error)
            self._failed(one, f"unexpected {type(error).__name__}, the log has the place")
        else:
            if self.trouble:
                log.info("journal written again", dropped=self.dropped)
            self.trouble = None

    def close(self) -> None:
        """Close the file, and leave the folder to others."""
        try:
            self._shut()
        finally:
            self._place.release()

    def _shut(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _keep(self, one: Pass) -> None:
        due = not 0 <= one.at - self._keyframe_at < KEYFRAME_S
        self._rotate(one.at, due=due)
        content, keyframe = self._recorder.record(one, keyframe=due)
        assert self._file is not None
        self._file.append(one.at, content, keyframe=keyframe)
        if keyframe:
            self._keyframe_at = one.at
            self._tidy(one.at)

    def _rotate(self, at: float, *, due: bool) -> None:
        """Begin another file where a day, a file or a folder ends. due: a keyframe is."""
        day, most = day_of(at), min(self._most // _FILE_PART, MOST_FILE_BYTES)
        folder = self._place.taken() if due or self._file is None else self._folder
        here = (self._folder, self._day) == (folder, day)
        if self._file is not None and here and self._file.size < most:
            return
        if folder != self._folder:
            log.info("journal", kept_in=str(folder))
        self._shut()
        self._recorder.forget()
        self._file = self._opens(folder, day)
        self._folder, self._day = folder, day

    def _tidy(self, at: float) -> None:
        oldest = day_of(max(at - self._days * 86_400, 0.0))
        tidy(self._root, oldest, self._most)

    def _failed(self, one: Pass, why: str) -> None:
        self._drop()
        self._again_at = one.at + AGAIN_S
        if self.trouble is None:
            log.warning("journal", trouble=why)
            self.trouble = Trouble("Journal", why, one.at)
        try:
            self._shut()
        except OSError:
            log.debug("journal", trouble="its file cannot be closed")

    def _drop(self) -> None:
        self.dropped += 1
        self._recorder.forget()


class Journal:
    """Keeps passes in a thread of its own."""

    def __init__(self, keeper: Keeper, waiting: int = PASSES_WAITING) -> None:
        self._keeper = keeper
        self._queue: queue.Queue[tuple[Pass, bool] | None] = queue.Queue(waiting)
        self._gap = False
        self._behind: Trouble | None = None
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    @property
    def trouble(self) -> Trouble | None:
        """Return why passes are not kept, None while they are."""
        return self._keeper.trouble or self._behind

    @property
    def dropped(self) -> int:
        """Return how many passes since start are not kept."""
        return self._keeper.dropped

    def take(self, one: Pass) -> None:
        """Take a pass, at once; when too many wait to be written it is dropped."""
        try:
            self._queue.put_nowait((one, self._gap))
        except queue.Full:
            self._gap = True
            self._keeper.dropped += 1
            said = "the disk is too slow"
            self._behind = self._behind or Trouble("Journal", said, one.at)
        else:
            self._gap, self._behind = False, None

    def close(self, limit_s: float) -> None:
        """Write what waits and end; a disk that hangs is left behind."""
        try:
            self._queue.put(None, timeout=limit_s)
        except queue.Full:
            return
        self._thread.join(limit_s)

    def _run(self) -> None:
        while (taken := self._queue.get()) is not None:
            one, after_gap = taken
            self._keeper.keep(one, after_gap=after_gap)
        try:
            self._keeper.close()
        except OSError as error:
            log.warning("journal", trouble=f"its file cannot be closed: {error.strerror}")
