"""`llmao backup` and `llmao restore` with SQLite; PostgreSQL is in tests/real."""

import hashlib
import json
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from click.testing import CliRunner, Result

from llmao_core.protocol import Fetch
from llmao_web.cli import main
from llmao_web.shell.backup import backup, restore
from llmao_web.shell.clock import SystemClock
from llmao_web.shell.opening import looked_into, open_store
from llmao_web.shell.sql_migrations import MIGRATIONS
from llmao_web.shell.store import Sample, Store, StoreError, Transition, Wanted

from .conftest import URL
from .contract import HOSTILE, KEY, NOW, action, approved, assignment, lengths
from .test_sqlite import at_schema

OTHER = "sqlite:///other.db"


async def everything(folder: Path, url: str) -> list[object]:
    """Return all that a store holds."""
    async with looked_into(url, folder, SystemClock()) as store:
        assert store is not None
        return [
            await store.kept(),
            await store.entries(Wanted(limit=1000)),
            await store.transitions(),
            await store.capacity(KEY, 0),
            await store.fetches(),
            await store.assignments(),
        ]


@pytest.fixture
async def full(store: Store) -> Store:
    """Give a store that holds something of everything."""
    await store.append(approved(), action(), *(approved(host) for host in HOSTILE))
    await store.moved([Transition(NOW, KEY, "", "Healthy")])
    await store.sample([Sample(NOW, KEY, 0.1, None, 1 / 3)])
    await store.tell([(Fetch("c.1", "r1", assignment=assignment(1)), NOW)])
    return store


@pytest.fixture
async def file(full: Store, tmp_path: Path) -> Path:
    """Give a backup of it."""
    made = tmp_path / "llmao.backup"
    await backup(URL, tmp_path, SystemClock(), made)
    return made


def lines(file: Path) -> list[bytes]:
    return zstandard.ZstdDecompressor().stream_reader(file.read_bytes()).read().splitlines(True)


def packed(told: list[bytes]) -> bytes:
    """Return a backup of these lines, with a sum that is right."""
    summed = hashlib.sha256(b"".join(told[:-1])).hexdigest()
    last = {**json.loads(told[-1]), "sha256": summed}
    return zstandard.compress(b"".join([*told[:-1], json.dumps(last).encode() + b"\n"]))


async def test_everything_comes_back(full: Store, file: Path, tmp_path: Path) -> None:
    """Written while the store is in use, restored into an empty one, the same to the last bit."""
    await full.append(action())
    await restore(OTHER, tmp_path, SystemClock(), file)
    await restore(URL.replace("llmao", "third"), tmp_path, SystemClock(), file)
    restored = await everything(tmp_path, OTHER)
    await full.aclose()
    assert restored[0] == (await everything(tmp_path, URL))[0]
    assert 2 + len(HOSTILE) == len(restored[1])  # type: ignore[arg-type]
    assert [1] == lengths(restored[-1]["c.1"])  # type: ignore[index]
    assert restored[2:] == (await everything(tmp_path, URL))[2:]


async def test_a_backup_of_a_restored_store_is_the_same(file: Path, tmp_path: Path) -> None:
    """Line by line, in the order of the file."""
    await restore(OTHER, tmp_path, SystemClock(), file)
    again = tmp_path / "again"
    await backup(OTHER, tmp_path, SystemClock(), again)
    assert lines(file) == lines(again)


async def test_it_is_for_its_owner_and_nothing_is_left_beside_it(
    file: Path, tmp_path: Path
) -> None:
    """Mode 0600, and no half-written file."""
    assert 0o600 == stat.S_IMODE(file.stat().st_mode)
    assert [] == [path.name for path in tmp_path.iterdir() if path.name.endswith(".part")]


async def test_what_cannot_be_written_leaves_the_older_backup(
    full: Store, file: Path, tmp_path: Path
) -> None:
    """A damaged store is not written over the backup that would help."""
    before = file.read_bytes()
    await full.aclose()
    content = bytearray((tmp_path / "llmao.db").read_bytes())
    content[8192:] = b"\xff" * len(content[8192:])
    (tmp_path / "llmao.db").write_bytes(content)
    with pytest.raises(StoreError):
        await backup(URL, tmp_path, SystemClock(), file)
    assert before == file.read_bytes()
    assert [] == [path.name for path in tmp_path.iterdir() if path.name.endswith(".part")]


async def test_a_store_that_holds_something_is_not_replaced_unasked(
    file: Path, tmp_path: Path
) -> None:
    """Without --replace it is refused; with it, only what is in the backup is there."""
    other = await open_store(OTHER, tmp_path, SystemClock())
    await other.append(approved("c.9"))
    await other.aclose()
    before = await everything(tmp_path, OTHER)
    with pytest.raises(StoreError, match="--replace"):
        await restore(OTHER, tmp_path, SystemClock(), file)
    assert before == await everything(tmp_path, OTHER)
    await restore(OTHER, tmp_path, SystemClock(), file, replace=True)
    assert await everything(tmp_path, URL) == await everything(tmp_path, OTHER)


async def test_a_store_in_use_is_not_replaced(file: Path, tmp_path: Path) -> None:
    """llmao must be stopped before."""
    with pytest.raises(StoreError, match="Another llmao"):
        await restore(URL, tmp_path, SystemClock(), file, replace=True)


async def test_a_torn_file_is_refused_wherever_it_is_torn(
    full: Store, file: Path, tmp_path: Path
) -> None:
    """At any length, and the store that was to be replaced stays."""
    await full.aclose()
    before, content = await everything(tmp_path, URL), file.read_bytes()
    for length in range(0, len(content), max(len(content) // 40, 1)):
        file.write_bytes(content[:length])
        with pytest.raises(StoreError, match="no whole backup"):
            await restore(URL, tmp_path, SystemClock(), file, replace=True)
        with pytest.raises(StoreError, match="no whole backup"):
            await restore(OTHER, tmp_path, SystemClock(), file)
    assert before == await everything(tmp_path, URL)
    assert not (tmp_path / "other.db").exists()


async def test_an_altered_file_is_refused_wherever_it_is_altered(
    full: Store, file: Path, tmp_path: Path
) -> None:
    """Any byte, and anything after its end."""
    await full.aclose()
    before, content = await everything(tmp_path, URL), file.read_bytes()
    altered = [
        content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :]
        for place in range(0, len(content), max(len(content) // 40, 1))
    ]
    for each in (*altered, content + content, content + b"more than there was"):
        file.write_bytes(each)
        with pytest.raises(StoreError):
            await restore(URL, tmp_path, SystemClock(), file, replace=True)
    assert before == await everything(tmp_path, URL)


def _a_row_less(told: list[bytes]) -> list[bytes]:
    return [told[0], *told[2:]]


def _a_value_less(told: list[bytes]) -> list[bytes]:
    return [told[0], json.dumps(json.loads(told[1])[:-1]).encode() + b"\n", *told[2:]]


def _another_table(told: list[bytes]) -> list[bytes]:
    return [told[0].replace(b"fetches", b"sqlite_master"), *told[1:]]


def _another_column(told: list[bytes]) -> list[bytes]:
    return [told[0].replace(b"actor", b"actor) --"), *told[1:]]


def _unknown_column(told: list[bytes]) -> list[bytes]:
    return [told[0].replace(b"actor", b"player"), *told[1:]]


def _no_number(told: list[bytes]) -> list[bytes]:
    row = json.loads(told[1])
    return [told[0], json.dumps([row[0], "one", *row[2:]]).encode() + b"\n", *told[2:]]


def _a_long_line(told: list[bytes]) -> list[bytes]:
    return [told[0], told[1].rstrip() + b" " * 2**20 + b"\n", *told[2:]]


@pytest.mark.parametrize(
    "change",
    [
        _a_row_less,
        _a_value_less,
        _another_table,
        _another_column,
        _unknown_column,
        _no_number,
        _a_long_line,
    ],
)
async def test_a_file_made_by_somebody_else_is_refused(
    full: Store, file: Path, tmp_path: Path, change: Callable[[list[bytes]], list[bytes]]
) -> None:
    """Its sum is right and its lines are not: the store stays as it is."""
    await full.aclose()
    before = await everything(tmp_path, URL)
    file.write_bytes(packed(change(lines(file))))
    with pytest.raises(StoreError):
        await restore(URL, tmp_path, SystemClock(), file, replace=True)
    assert before == await everything(tmp_path, URL)


async def test_a_backup_of_a_newer_llmao_is_refused(
    full: Store, file: Path, tmp_path: Path
) -> None:
    """With what to do."""
    told = lines(file)
    newer = json.loads(told[0]) | {"schema": len(MIGRATIONS) + 1}
    file.write_bytes(packed([json.dumps(newer).encode() + b"\n", *told[1:]]))
    with pytest.raises(StoreError, match="newer llmao"):
        await restore(OTHER, tmp_path, SystemClock(), file)


@pytest.mark.parametrize("number", range(1, len(MIGRATIONS) + 1))
async def test_a_backup_of_an_older_schema_is_brought_up_to_date(
    tmp_path: Path, number: int
) -> None:
    """A backup from before an update can be restored after it."""
    at_schema(tmp_path / "old.db", number)
    file = tmp_path / "llmao.backup"
    await backup("sqlite:///old.db", tmp_path, SystemClock(), file)
    await restore(OTHER, tmp_path, SystemClock(), file)
    store = await open_store(OTHER, tmp_path, SystemClock())
    await store.append(approved())
    await store.sample([Sample(NOW, KEY)])
    await store.aclose()


async def test_where_there_is_no_store_there_is_no_backup(tmp_path: Path) -> None:
    """A sentence, and no file."""
    with pytest.raises(StoreError, match="There is no store yet"):
        await backup(URL, tmp_path, SystemClock(), tmp_path / "llmao.backup")
    assert [] == list(tmp_path.iterdir())


# ---- the commands


def run(folder: Path, *words: str) -> Result:
    config = folder / "config.yaml"
    if not config.exists():
        config.write_text("store: sqlite:///llmao.db\nlitellm: {master_key: for-tests}\n")
        (folder / "models.yaml").write_text("models: []\n")
    return CliRunner().invoke(main, ["--config", str(config), *words])


def test_the_commands_say_what_they_did(tmp_path: Path) -> None:
    """How many rows, and on refusal a sentence and exit code 1."""
    missing = run(tmp_path, "backup", str(tmp_path / "nowhere" / "file"))
    assert 1 == missing.exit_code
    assert "There is no store yet" in missing.output
    at_schema(tmp_path / "llmao.db", len(MIGRATIONS))
    file = str(tmp_path / "llmao.backup")
    for words, said in (
        (("backup", file), f"Wrote {file}: 0 rows of entries"),
        (("restore", file), f"Restored {file}: 0 rows of entries"),
    ):
        done = run(tmp_path, *words)
        assert (0, True) == (done.exit_code, said in done.output), done.output
        told = run(tmp_path, *words, "--json")
        assert (0, file) == (told.exit_code, json.loads(told.stdout)["file"])
        assert 0 == json.loads(told.stdout)["rows"]["entries"]
    gone = run(tmp_path, "backup", str(tmp_path / "nowhere" / "file"), "--json")
    assert "" == gone.stdout
    assert (1, True) == (gone.exit_code, "No such file or directory" in gone.output)
    none = run(tmp_path, "restore", str(tmp_path / "missing"))
    assert (1, True) == (none.exit_code, "No such file or directory" in none.output)
