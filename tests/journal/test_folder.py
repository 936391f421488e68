"""Several llmaos given one folder: each has a journal of its own in it, and none loses a file."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from llmao_web.shell import journal
from llmao_web.shell.journal import Keeper
from llmao_web.shell.journal_file import files, keyframes
from llmao_web.shell.journal_folder import Place, others, tidy
from llmao_web.shell.journal_reader import journal_files, passes

from .recording import empty_pass, keeper, passes_of

DAY_S = 86_400.0
NOON = 1_800_014_400.0  # 2027-01-15 12:00 UTC


def write(into: Keeper, *seconds: float) -> None:
    for each in seconds:
        into.keep(empty_pass(NOON + each), after_gap=False)
    assert into.trouble is None, into.trouble


def seconds_of(folder: Path, since: float | None = None) -> list[float]:
    """Return when the passes of a journal were, in seconds since noon."""
    told = passes(folder, None if since is None else NOON + since)
    return [one.at - NOON for one in passes_of(told)]


def test_two_on_one_folder_keep_journals_apart(tmp_path: Path) -> None:
    """Each has a folder in which time only goes on, and a moment is found in both."""
    first, second = keeper(tmp_path), keeper(tmp_path)
    write(first, 0)
    for at in range(60, 3000, 60):
        write(second, at + 1)
        write(first, at)
    first.close()
    second.close()
    assert [tmp_path / "2"] == others(tmp_path)
    assert list(range(0, 3000, 60)) == seconds_of(tmp_path)
    assert list(range(61, 3000, 60)) == seconds_of(tmp_path / "2")
    for folder in (tmp_path, tmp_path / "2"):
        begins = seconds_of(folder, since=2950)[0]
        assert 2950 - journal.KEYFRAME_S <= begins <= 2950


def test_a_place_is_private(tmp_path: Path) -> None:
    """Only the owner may read a folder, or what stands in it."""
    first, second = Place(tmp_path / "journal"), Place(tmp_path / "journal")
    for folder in (first.taken(), second.taken()):
        assert 0o700 == folder.stat().st_mode & 0o777
        assert 0o600 == (folder / "lock").stat().st_mode & 0o777
    first.release()
    second.release()


_HOLDING = """
import sys, time
from pathlib import Path
from tests.journal.recording import empty_pass, keeper
into = keeper(Path(sys.argv[1]))
into.keep(empty_pass(1_800_014_400.0), after_gap=False)
print("kept", flush=True)
time.sleep(60)
"""


def test_who_is_killed_leaves_its_folder_to_the_next(tmp_path: Path) -> None:
    """After kill -9 the next process writes into the same folder, with nobody's help."""
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDING, str(tmp_path)],
        stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": ":".join(sys.path)},
    ) as held:  # fmt: skip
        assert held.stdout is not None
        assert "kept\n" == held.stdout.readline()
        beside = keeper(tmp_path)
        write(beside, 1)
        beside.close()
        os.kill(held.pid, signal.SIGKILL)
    after = keeper(tmp_path)
    write(after, 2)
    after.close()
    assert [0, 2] == seconds_of(tmp_path)
    assert [1] == seconds_of(tmp_path / "2")


def test_the_second_moves_up_when_the_first_is_gone(tmp_path: Path) -> None:
    """With its next keyframe, so that the folder that was configured is the one that goes on."""
    first, second = keeper(tmp_path), keeper(tmp_path)
    write(first, 0)
    write(second, 1)
    first.close()
    write(second, 2, journal.KEYFRAME_S + 1, journal.KEYFRAME_S + 2)
    third = keeper(tmp_path)
    write(third, journal.KEYFRAME_S + 3)
    second.close()
    third.close()
    assert [0, 601, 602] == seconds_of(tmp_path)
    assert [1, 2, 603] == seconds_of(tmp_path / "2")


def test_a_folder_that_was_removed_is_made_again(tmp_path: Path) -> None:
    """And is held again: who held what is gone does not write beside who came later."""
    root = tmp_path / "journal"
    first, second = keeper(root), keeper(root)
    write(first, 0)
    shutil.rmtree(root)
    write(second, 1)
    write(first, journal.KEYFRAME_S)
    assert [1] == seconds_of(root)
    assert [600] == seconds_of(root / "2")
    first.close()
    second.close()


# ---- bounds


def test_all_together_keep_to_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """max_mb is of the folder with all that is in it."""
    monkeypatch.setattr(journal, "KEYFRAME_S", 0.5)
    all_three = [keeper(tmp_path, max_mb=1) for _ in range(3)]
    for into in all_three:
        into._most = 20_000
    for place in range(150):
        for into in all_three:
            write(into, place)
    for into in all_three:
        into.close()
    folders = [tmp_path, *others(tmp_path)]
    assert 3 == len(folders)
    size = sum(path.stat().st_size for each in folders for path in journal_files(each))
    assert 10_000 < size < 20_000 * 1.3
    assert [149] * 3 == [seconds_of(each)[-1] for each in folders]


def test_the_oldest_day_goes_first(tmp_path: Path) -> None:
    """Whoever wrote it: here the older files are those of the folder itself."""
    first, second = keeper(tmp_path), keeper(tmp_path)
    write(first, 0)
    write(second, 0, DAY_S, 2 * DAY_S)
    write(first, DAY_S, 2 * DAY_S)
    sizes = [path.stat().st_size for each in (tmp_path, tmp_path / "2") for path in files(each)]
    tidy(tmp_path, "2027-01-01", sum(sizes) - 2 * min(sizes))
    first.close()
    second.close()
    assert [DAY_S, 2 * DAY_S] == seconds_of(tmp_path) == seconds_of(tmp_path / "2")


def test_an_open_file_of_another_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though it is the oldest of all and there is too much; what is told into it is kept."""
    monkeypatch.setattr(journal, "KEYFRAME_S", 0.5)
    first, second = keeper(tmp_path, max_mb=1), keeper(tmp_path, max_mb=1)
    first._most = 8_000
    write(first, 0)
    write(second, 0)
    write(first, *range(1, 100))
    monkeypatch.setattr(journal, "KEYFRAME_S", 600.0)
    write(second, 100)
    first.close()
    second.close()
    assert int(journal_files(tmp_path)[0].name.split(".")[1]) > 0
    assert [0, 100] == seconds_of(tmp_path / "2")


def test_what_is_too_old_goes_whoever_wrote_it(tmp_path: Path) -> None:
    """A journal of an llmao that is long gone ends with keep_days, to its last file."""
    first, second = keeper(tmp_path, keep_days=2), keeper(tmp_path, keep_days=2)
    write(first, 0)
    write(second, 0, DAY_S)
    second.close()
    write(first, 3 * DAY_S)
    assert [tmp_path / "2"] == others(tmp_path)
    write(first, 4 * DAY_S)
    first.close()
    assert [] == others(tmp_path)
    assert [3 * DAY_S, 4 * DAY_S] == seconds_of(tmp_path)


def test_who_was_silent_for_long_goes_on(tmp_path: Path) -> None:
    """Its last file is gone with its days, and what it tells then is kept in another."""
    first, second = keeper(tmp_path, keep_days=1), keeper(tmp_path, keep_days=1)
    write(first, 0)
    write(second, 0)
    write(first, 5 * DAY_S)
    write(second, 5 * DAY_S + 1)
    first.close()
    second.close()
    assert [5 * DAY_S + 1] == seconds_of(tmp_path / "2")
    assert all(keyframes(path) for path in journal_files(tmp_path / "2"))
