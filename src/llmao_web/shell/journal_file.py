"""One file of a journal: how records stand in it, and how they are found again.

Rule of this file: bytes only. A keyframe begins a compressed stream that ends before the next, so
that whatever is damaged costs the records up to the next keyframe and no more. What is read is
hostile: nothing is unpacked beyond a bound.
"""

import mmap
import os
import re
import struct
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import zstandard
from attrs import define, field, frozen

from .journal_codec import JournalError

HEAD = b"llmao journal 1\n"
# As the length of a record it would be refused, so it stands for nothing but a keyframe.
MARK = b"\xff\xff\xff\xffkeyframe"
_RECORD = struct.Struct("<IId")
MOST_PACKED = 64 * 1024 * 1024
MOST_UNPACKED = 128 * 1024 * 1024
MOST_WINDOW = 8 * 1024 * 1024
LEVEL = 3
# So much unpacks to 32 MB at the very most: a block of 4 bytes may stand for 128 kB.
_AT_ONCE = 1024
_DECOMPRESSOR = zstandard.ZstdDecompressor(max_window_size=MOST_WINDOW)
NAME = re.compile(r"(\d{4}-\d{2}-\d{2})\.(\d{4,})\.journal")


def day_of(at: float) -> str:
    """Return the day of a time, UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d")


def files(folder: Path) -> list[Path]:
    """Return a journal's files, oldest first."""
    named = [(match, path) for path in folder.iterdir() if (match := NAME.fullmatch(path.name))]
    return [path for _, path in sorted(named, key=lambda one: (one[0][1], int(one[0][2])))]


# ---- writing


@define
class Appender:
    """A new file, open for writing. size: of what is whole in it."""

    descriptor: int
    size: int = 0
    _packing: Any = None

    @classmethod
    def begun(cls, folder: Path, day: str) -> "Appender":
        """Open the first free file of a day; raises OSError."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        numbers = [
            int(match[2])
            for path in files(folder)
            if (match := NAME.fullmatch(path.name)) and match[1] == day
        ]
        path = folder / f"{day}.{max(numbers, default=-1) + 1:04}.journal"
        made = cls(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        made._write(HEAD)
        return made

    def append(self, at: float, content: bytes, *, keyframe: bool) -> None:
        """Append a record; raises OSError, after which only `close` may be called."""
        if keyframe:
            self._packing = zstandard.ZstdCompressor(
                compression_params=zstandard.ZstdCompressionParameters.from_level(
                    LEVEL, window_log=MOST_WINDOW.bit_length() - 1
                )
            ).compressobj()
        packed = self._packing.compress(content)
        packed += self._packing.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
        if len(packed) > MOST_PACKED or len(content) > MOST_UNPACKED:
            raise JournalError("a record is too large")
        head = _RECORD.pack(len(packed), _sum(at, packed), at)
        self._write((MARK if keyframe else b"") + head + packed)

    def close(self) -> None:
        """Close the file, and take away what is not whole at its end."""
        try:
            os.ftruncate(self.descriptor, self.size)
        finally:
            os.close(self.descriptor)

    def _write(self, content: bytes) -> None:
        left = memoryview(content)
        while left:
            left = left[os.write(self.descriptor, left) :]
        self.size += len(content)


def _sum(at: float, packed: bytes) -> int:
    return zlib.crc32(packed, zlib.crc32(struct.pack("<d", at)))


# ---- reading


@frozen
class Record:
    """One record: its time, whether it is a keyframe, and its JSON."""

    at: float
    keyframe: bool
    content: bytes


@frozen
class Damage:
    """Something that cannot be read. skipped: bytes until the next keyframe, or the end."""

    file: str
    why: str
    skipped: int = 0


@frozen
class _Place:
    """Where a record stands. start: of its packed content."""

    at: float
    keyframe: bool
    check: int
    start: int
    end: int


def records(path: Path, start: int = 0, until: int | None = None) -> Iterator[Record | Damage]:
    """Yield the records of a file, and what is damaged between them.

    start, until: places as `keyframes` tells them; 0 is the beginning and None the end. Raises
    JournalError when it is no journal.
    """
    with path.open("rb") as opened:
        content = _mapped(path, opened.fileno())
        if content is None:
            return
        with content:
            end = len(content) if until is None else until
            yield from _records(path.name, content, start or len(HEAD), end)


def keyframes(path: Path) -> list[tuple[float, int]]:
    """Return the time and place of each keyframe of a file; nothing is unpacked."""
    with path.open("rb") as opened:
        content = _mapped(path, opened.fileno())
        if content is None:
            return []
        with content:
            return list(_keyframes(content))


def _keyframes(content: mmap.mmap) -> Iterator[tuple[float, int]]:
    place = _next_keyframe(content, len(HEAD))
    while place < len(content):
        try:
            record = _place(content, place)
        except JournalError:
            place = _next_keyframe(content, place + 1)
            continue
        if record.keyframe:
            yield record.at, place
        place = record.end


def _mapped(path: Path, descriptor: int) -> mmap.mmap | None:
    size = os.fstat(descriptor).st_size
    if size <= len(HEAD):
        return None
    content = mmap.mmap(descriptor, size, access=mmap.ACCESS_READ)
    if content[: len(HEAD)] != HEAD:
        content.close()
        raise JournalError(f"{path.name} is no journal of this llmao; move it elsewhere")
    return content


def _records(name: str, content: mmap.mmap, start: int, end: int) -> Iterator[Record | Damage]:
    place, unpacker = start, _Unpacker()
    while place < end:
        try:
            record = _place(content, place)
            if record.keyframe:
                unpacker = _Unpacker()
            unpacked = unpacker.unpack(_packed(content, record))
        except JournalError as error:
            after = _next_keyframe(content, place + 1)
            yield Damage(name, str(error), after - place)
            place = after
            continue
        place = record.end
        yield Record(record.at, record.keyframe, unpacked)


def _place(content: mmap.mmap, place: int) -> _Place:
    keyframe = content[place : place + len(MARK)] == MARK
    head = place + len(MARK) if keyframe else place
    start = head + _RECORD.size
    if start > len(content):
        raise JournalError("it ends within a record")
    length, check, at = _RECORD.unpack(content[head:start])
    if length > MOST_PACKED:
        raise JournalError("a record is damaged")
    if start + length > len(content):
        raise JournalError("it ends within a record")
    return _Place(at, keyframe, check, start, start + length)


def _packed(content: mmap.mmap, record: _Place) -> bytes:
    packed = content[record.start : record.end]
    if _sum(record.at, packed) != record.check:
        raise JournalError("a record is damaged")
    return packed


def _next_keyframe(content: mmap.mmap, after: int) -> int:
    found = content.find(MARK, after)
    return len(content) if found < 0 else found


@define
class _Unpacker:
    """Unpacks one stream, record by record, none far beyond the bound."""

    _stream: Any = field(factory=lambda: _DECOMPRESSOR.decompressobj(read_across_frames=False))

    def unpack(self, packed: bytes) -> bytes:
        """Return what a record holds; JournalError when it cannot be unpacked."""
        chunks, size = [], 0
        for place in range(0, len(packed), _AT_ONCE):
            try:
                chunk = self._stream.decompress(packed[place : place + _AT_ONCE])
            except zstandard.ZstdError:
                raise JournalError("a record cannot be unpacked") from None
            chunks.append(chunk)
            size += len(chunk)
            if size > MOST_UNPACKED:
                raise JournalError("a record unpacks to more than any llmao writes")
        return b"".join(chunks)
