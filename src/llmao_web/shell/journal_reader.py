"""A whole journal, read from a moment on.

Rule of this file: what is damaged is said and skipped up to the next keyframe, never guessed.
"""

from collections.abc import Iterator
from pathlib import Path

from attrs import frozen

from .journal_codec import JournalError
from .journal_file import Damage, files, keyframes, records
from .journal_record import Reader, Recorded


@frozen
class Start:
    """Where reading begins: a file and a keyframe in it."""

    path: Path
    place: int = 0


def starts(folder: Path) -> list[tuple[float, Start]]:
    """Return the time and place of every keyframe, in the order they were written."""
    return [
        (at, Start(path, place)) for path in journal_files(folder) for at, place in keyframes(path)
    ]


def journal_files(folder: Path) -> list[Path]:
    """Return the files of a journal; JournalError when there is none."""
    try:
        found = files(folder)
    except OSError as error:
        raise JournalError(f"The journal cannot be read: {error.strerror}.") from None
    if not found:
        raise JournalError("There is no journal in that folder; config.journal.path says where.")
    return found


def passes(folder: Path, since: float | None = None) -> Iterator[Recorded | Damage]:
    """Yield the passes of a journal, and what is damaged between them.

    since: begin with the last keyframe at or before that time.
    """
    found = journal_files(folder)
    start = _start(folder, since) if since is not None else Start(found[0])
    for path in found[found.index(start.path) :]:
        yield from file_passes(path, start.place if path == start.path else 0)


def file_passes(
    path: Path, start: int = 0, until: int | None = None
) -> Iterator[Recorded | Damage]:
    """Yield the passes of one file, from the place of one keyframe to that of another."""
    reader, reading = Reader(), True
    for record in records(path, start, until):
        if isinstance(record, Damage):
            reading = False
            yield record
            continue
        if not (reading or record.keyframe):
            continue
        try:
            told = reader.read(record.at, record.content, keyframe=record.keyframe)
        except JournalError as error:
            reading = False
            yield Damage(path.name, str(error))
        else:
            reading = True
            yield told


def _start(folder: Path, since: float) -> Start:
    known = starts(folder)
    if not known:
        raise JournalError("The journal holds no keyframe: nothing can be replayed from it.")
    earlier = [start for at, start in known if at <= since]
    return earlier[-1] if earlier else known[0][1]
