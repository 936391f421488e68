"""Files of a journal: what is torn, altered or hostile costs the passes around it and no more."""

import resource
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
import zstandard
from attrs import define

from llmao_core.history import History
from llmao_core.plan import Policy
from llmao_core.records import View
from llmao_core.snapshots import Snapshots
from llmao_web.shell import journal, journal_file
from llmao_web.shell.journal import Keeper
from llmao_web.shell.journal_codec import JournalError
from llmao_web.shell.journal_file import HEAD, MARK, Appender, Damage, Record, keyframes, records
from llmao_web.shell.journal_reader import journal_files, passes
from llmao_web.shell.journal_record import Pass

from .recording import empty_pass, keep, keeper, passes_of

DAY_S = 86_400.0
NOON = 1_800_014_400.0  # 2027-01-15 12:00 UTC


def written(folder: Path, count: int = 12, every: int = 4) -> Path:
    """Return a file of so many records, each a word, every fourth a keyframe."""
    appender = Appender.begun(folder, "2027-01-15")
    for place in range(count):
        content = f"record {place} ".encode() * 50
        appender.append(NOON + place, content, keyframe=place % every == 0)
    appender.close()
    return folder / "2027-01-15.0000.journal"


def read(path: Path) -> tuple[list[int], list[str]]:
    """Return the numbers of the records that can be read, and why others cannot."""
    found = list(records(path))
    good = [int(one.content.split()[1]) for one in found if isinstance(one, Record)]
    return good, [one.why for one in found if isinstance(one, Damage)]


def altered(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 0x55
    path.write_bytes(content)


def test_what_is_appended_is_read(tmp_path: Path) -> None:
    """All records with their times, in order; only the owner may read the file."""
    path = written(tmp_path / "journal")
    assert (list(range(12)), []) == read(path)
    assert [NOON, NOON + 4, NOON + 8] == [at for at, _ in keyframes(path)]
    assert 0o600 == path.stat().st_mode & 0o777
    assert 0o700 == path.parent.stat().st_mode & 0o777


def test_a_file_torn_anywhere_reads_up_to_there(tmp_path: Path) -> None:
    """Cut at any byte, the records before the cut are whole and nothing is raised."""
    path = written(tmp_path, 6, 3)
    whole = path.read_bytes()
    last = -1
    for size in range(len(HEAD), len(whole)):
        path.write_bytes(whole[:size])
        good, why = read(path)
        assert list(range(len(good))) == good
        assert len(good) >= last
        assert len(why) <= 1
        last = len(good)
    assert 5 == last


def test_an_altered_byte_costs_what_depends_on_it(tmp_path: Path) -> None:
    """Whatever byte is altered, other stretches are read, and it is said."""
    path = written(tmp_path, 9, 3)
    stretches = [{0, 1, 2}, {3, 4, 5}, {6, 7, 8}]
    for place in range(len(HEAD), path.stat().st_size, 3):
        altered(path, place)
        good, why = read(path)
        altered(path, place)
        kept = [stretch for stretch in stretches if stretch <= set(good)]
        assert len(kept) >= 2, f"byte {place}"
        assert why, f"byte {place}"


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    """A file that is no journal is named, and not read as if it were empty."""
    (tmp_path / "2027-01-15.0000.journal").write_bytes(b"GIF89a, or something of that kind")
    with pytest.raises(JournalError, match="no journal"):
        list(passes(tmp_path))


def test_a_folder_without_a_journal_is_an_error(tmp_path: Path) -> None:
    """No files, or no folder, is not an empty life."""
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(JournalError):
            list(passes(folder))


def _record(packed: bytes, length: int | None = None) -> bytes:
    check = zlib.crc32(packed, zlib.crc32(struct.pack("<d", NOON)))
    return (
        MARK + struct.pack("<IId", len(packed) if length is None else length, check, NOON) + packed
    )


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few kilobytes that stand for gigabytes cost no more memory than the bound."""
    monkeypatch.setattr(journal_file, "MOST_UNPACKED", 1_000_000)
    packer = zstandard.ZstdCompressor().compressobj()
    packed = b"".join(packer.compress(bytes(1_000_000)) for _ in range(300)) + packer.flush()
    assert len(packed) < 50_000
    path = tmp_path / "2027-01-15.0000.journal"
    path.write_bytes(HEAD + _record(packed))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert ([], ["a record unpacks to more than any llmao writes"]) == read(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


@pytest.mark.parametrize(
    "record",
    [
        _record(b"no zstandard at all"),
        _record(b"", 0xFFFFFFFE),
        _record(b"", 1_000_000),
        _record(zstandard.ZstdCompressor(write_content_size=False).compress(b"{}") * 2),
        MARK,
        MARK * 50,
    ],
)
def test_hostile_records_are_damages(tmp_path: Path, record: bytes) -> None:
    """Lengths that lie, garbage and marks without end are told, and the next keyframe is read."""
    path = written(tmp_path, 2, 1)
    good = path.read_bytes()[len(HEAD) :]
    path.write_bytes(HEAD + record + good)
    told = list(records(path))
    assert isinstance(told[0], Damage) or b"{}" == told[0].content[:2]
    assert 2 == sum(isinstance(one, Record) and one.content.startswith(b"record") for one in told)


def test_damage_ends_with_the_next_keyframe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Passes after a damaged one are told again from the next keyframe on, and not before."""
    monkeypatch.setattr(journal, "KEYFRAME_S", 10.0)
    keep(tmp_path, [empty_pass(NOON + place) for place in range(30)])
    (path,) = journal_files(tmp_path)
    places = [place for _, place in keyframes(path)]
    altered(path, places[1] + 40)
    told = list(passes(tmp_path))
    assert 1 == sum(isinstance(one, Damage) for one in told)
    seen = [one.at - NOON for one in passes_of(iter(told))]
    assert [*range(10), *range(20, 30)] == seen


# ---- rotation and retention


def test_a_file_a_day(tmp_path: Path) -> None:
    """The day is that of the pass, UTC; each file begins with a keyframe of its own."""
    keep(tmp_path, [empty_pass(NOON + hours * 3600) for hours in (0, 11.9, 12.0, 12.1, 36.5)])
    assert [
        "2027-01-15.0000.journal", "2027-01-16.0000.journal", "2027-01-17.0000.journal",
    ] == [path.name for path in journal_files(tmp_path)]  # fmt: skip
    assert [2, 2, 1] == [len(list(records(path))) for path in journal_files(tmp_path)]
    assert 5 == len(passes_of(passes(tmp_path)))


def test_a_restart_begins_another_file(tmp_path: Path) -> None:
    """What an earlier process left, torn perhaps, is not appended to."""
    keep(tmp_path, [empty_pass(NOON)])
    keep(tmp_path, [empty_pass(NOON + 60)])
    assert ["2027-01-15.0000.journal", "2027-01-15.0001.journal"] == [
        path.name for path in journal_files(tmp_path)
    ]
    assert 2 == len(passes_of(passes(tmp_path)))


def test_old_files_go(tmp_path: Path) -> None:
    """Older than keep_days, and other files in the folder are left alone."""
    (tmp_path / "notes.txt").write_text("mine")
    keep(tmp_path, [empty_pass(NOON + day * DAY_S) for day in range(6)], keep_days=2)
    assert ["2027-01-18", "2027-01-19", "2027-01-20"] == [
        path.name[:10] for path in journal_files(tmp_path)
    ]
    assert (tmp_path / "notes.txt").exists()


def test_a_large_journal_loses_its_oldest_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Above max_mb the oldest go first, a day's own included, the newest never."""
    monkeypatch.setattr(journal, "KEYFRAME_S", 0.5)
    into = keeper(tmp_path, max_mb=1)
    into._most = 8_000
    for place in range(120):
        into.keep(empty_pass(NOON + place), after_gap=False)
    into.close()
    found = journal_files(tmp_path)
    assert 8_000 * 1.3 > sum(path.stat().st_size for path in found)
    assert len(found) > 2
    assert int(found[0].name.split(".")[1]) > 0
    assert NOON + 119 == passes_of(passes(tmp_path))[-1].at


# ---- a full disk


def why(into: Keeper) -> str:
    """Return why nothing is kept, "" while all is."""
    return into.trouble.message if into.trouble else ""


@define
class _Full:
    """A file on a disk that is full for a while."""

    real: Appender
    full: list[bool]

    @property
    def size(self) -> int:
        return self.real.size

    def append(self, at: float, content: bytes, *, keyframe: bool) -> None:
        if self.full[0]:
            raise OSError(28, "No space left on device")
        self.real.append(at, content, keyframe=keyframe)

    def close(self) -> None:
        self.real.close()


def test_a_full_disk_is_said_once_and_ends(tmp_path: Path) -> None:
    """Passes are dropped and counted, tried again every ten seconds, then all is kept again."""
    full = [False]
    into = keeper(tmp_path)
    into._opens = lambda folder, day: _Full(Appender.begun(folder, day), full)
    for place in range(60):
        full[0] = 20 <= place < 40
        into.keep(empty_pass(NOON + place), after_gap=False)
        assert (20 <= place < 42) == (into.trouble is not None)
        if into.trouble is not None:
            assert "No space left" in into.trouble.message
            assert NOON + 20 == into.trouble.since
    into.close()
    seen = [one.at - NOON for one in passes_of(passes(tmp_path))]
    assert [*range(20), *range(42, 60)] == seen
    assert 22 == into.dropped


_LIMITED = """
import resource, signal, sys
from pathlib import Path
from tests.journal.recording import empty_pass, keeper
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))
into = keeper(Path(sys.argv[1]))
for place in range(200):
    into.keep(empty_pass(1_800_014_400.0 + place), after_gap=False)
into.close()
print(into.dropped, into.trouble.message if into.trouble else "")
"""


def test_a_file_that_may_not_grow_is_left_whole(tmp_path: Path) -> None:
    """The system refuses to write on: what is half written is cut off, and another file begins."""
    ran = subprocess.run(
        [sys.executable, "-c", _LIMITED, str(tmp_path)],
        capture_output=True, text=True, check=True, timeout=60,
        env={"PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip
    dropped = int(ran.stdout.splitlines()[-1].split()[0])
    told = list(passes(tmp_path))
    assert not [one for one in told if isinstance(one, Damage)]
    assert dropped > 0
    assert 200 - dropped == len(passes_of(iter(told)))
    assert len(journal_files(tmp_path)) > 1


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    """A file stands where the folder should be: a trouble, and no exception."""
    (tmp_path / "journal").write_text("in the way")
    into = keeper(tmp_path / "journal")
    into.keep(empty_pass(NOON), after_gap=False)
    assert into.trouble is not None


def test_a_pass_that_cannot_be_recorded_is_said(tmp_path: Path) -> None:
    """Something no llmao should hand over: the next pass is kept again, with a keyframe."""
    into = keeper(tmp_path)
    broken = Pass(NOON, Snapshots(writes=7), Policy(), History(), View(NOON), None, History())  # type: ignore[arg-type]
    into.keep(broken, after_gap=False)
    assert "unexpected" in why(into)
    into.keep(empty_pass(NOON + 11), after_gap=False)
    into.close()
    assert not why(into)
    assert [NOON + 11] == [one.at for one in passes_of(passes(tmp_path))]
