"""The store in an SQLite file: crashes, full disks, two processes, older and newer schemas."""

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import create_engine, event, inspect

from llmao_core.testing.clock import VirtualClock
from llmao_web.shell import sql_migrations
from llmao_web.shell.clock import SystemClock
from llmao_web.shell.opening import looked_into, open_store
from llmao_web.shell.sql_migrations import MIGRATIONS, migrate
from llmao_web.shell.sql_tables import metadata
from llmao_web.shell.store import Sample, Store, StoreError, Transition, Wanted

from .conftest import URL
from .contract import KEY, NOW, Reopen, action, approved

# Opens the store in a folder and appends for ever; says a number when it is acknowledged. One
# process imports everything and forks a writer for each line it is given.
_WRITERS = """
import asyncio, os, sys
from pathlib import Path
from llmao_web.shell.clock import SystemClock
from llmao_web.shell.ledger import Entry, EntryKind
from llmao_web.shell.opening import open_store

async def write(number):
    store = await open_store("sqlite:///llmao.db", Path(sys.argv[1]), SystemClock())
    while True:
        number += 1
        detail = {"label": str(number), "note": "x" * 2000}
        await store.append(Entry(1.0, "admin", EntryKind.LABELLED, f"c.{number}", detail=detail))
        print(number, flush=True)

for line in sys.stdin:
    child = os.fork()
    if not child:
        asyncio.run(write(int(line)))
    print(child, flush=True)
    os.waitpid(child, 0)
    print("ended", flush=True)
"""


async def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    """Ten times a writing process is killed, and nothing it acknowledged is missing."""
    written = 0
    with subprocess.Popen(
        [sys.executable, "-c", _WRITERS, tmp_path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as writers:
        assert writers.stdin is not None
        assert writers.stdout is not None
        for each in range(10):
            print(written, file=writers.stdin, flush=True)
            writer = int(writers.stdout.readline())
            for _ in range(3 + 4 * each):
                acknowledged = int(writers.stdout.readline())
            os.kill(writer, signal.SIGKILL)
            while (line := writers.stdout.readline()) != "ended\n":
                acknowledged = int(line)
            store = await open_store(URL, tmp_path, SystemClock())
            notes = (await store.kept()).notes
            await store.aclose()
            expected = {f"c.{number}" for number in range(1, acknowledged + 1)}
            # The one under way when it was killed may be there, too.
            assert expected <= set(notes) <= {*expected, f"c.{acknowledged + 1}"}
            written = len(notes)
        writers.stdin.close()


async def test_a_second_process_is_refused(store: Store, tmp_path: Path) -> None:
    """While one has the file, by whatever path; it is free again when that one has closed it."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "link.db").symlink_to(tmp_path / "llmao.db")
    for folder, url in ((tmp_path, URL), (tmp_path / "elsewhere", "sqlite:///link.db")):
        with pytest.raises(StoreError, match=rf"process {os.getpid()}\) uses the store"):
            await open_store(url, folder, SystemClock())
    await store.append(approved())
    await store.aclose()
    again = await open_store(URL, tmp_path, SystemClock())
    assert 1 == len(await again.entries(Wanted()))
    await again.aclose()


async def test_looking_into_a_store_in_use(store: Store, tmp_path: Path) -> None:
    """It is read without its lock, and as it is now; nothing can be written."""
    await store.append(approved())
    async with looked_into(URL, tmp_path, SystemClock()) as seen:
        assert seen is not None
        assert await store.kept() == await seen.kept()
        with pytest.raises(StoreError, match="may not be written"):
            await seen.append(action())


async def test_looking_makes_no_store(tmp_path: Path) -> None:
    """Where there is none, none is made."""
    async with looked_into(URL, tmp_path, SystemClock()) as seen:
        assert seen is None
    assert [] == list(tmp_path.iterdir())


async def test_only_its_owner_may_read_it(store: Store, tmp_path: Path) -> None:
    """All files of the store: it knows who approved what."""
    await store.append(approved())
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert {"llmao.db", "llmao.db-wal", "llmao.db-shm", "llmao.db.lock"} == modes.keys()
    assert {0o600} == set(modes.values())


async def test_every_write_waits_for_the_disk(store: Store) -> None:
    """WAL, and each commit is synced: what was acknowledged survives the power."""
    async with store._database.writing() as connection:  # type: ignore[attr-defined]
        found = [
            (await connection.exec_driver_sql(f"PRAGMA {name}")).scalar()
            for name in ("journal_mode", "synchronous")
        ]
    assert ["wal", 2] == found


async def test_a_full_disk_is_said_and_passes(store: Store, tmp_path: Path) -> None:
    """The write fails with what to do, what was there stays, and with room it goes on."""
    await store.append(approved())
    database = store._database  # type: ignore[attr-defined]

    def full(connection: sqlite3.Connection, *_: object) -> None:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + 2}")

    await database.engine.dispose()
    event.listen(database.engine.sync_engine, "checkout", full)
    with pytest.raises(StoreError, match=r"disk is full\. Make room"):
        await store.append(*[action()] * 5_000)
    assert 1 == len((await store.kept()).approvals)
    event.remove(database.engine.sync_engine, "checkout", full)
    await database.engine.dispose()
    await store.append(approved("c.1"))
    assert 2 == len((await store.kept()).approvals)


async def test_a_call_does_not_wait_for_ever(tmp_path: Path) -> None:
    """Another program keeps the file locked: after ten seconds of its clock a sentence."""
    clock = VirtualClock()
    store = await open_store(URL, tmp_path, clock)
    other = sqlite3.connect(tmp_path / "llmao.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    waiting = asyncio.create_task(store.append(action()))
    await asyncio.sleep(0.2)
    await clock.advance(11)
    other.execute("ROLLBACK")
    other.close()
    with pytest.raises(StoreError, match="in time"):
        await waiting
    await store.append(action())
    assert len(await store.entries(Wanted())) in (1, 2)
    await store.aclose()


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"not a database" * 1000, "no SQLite database"), (b"SQLite format 3\0" + b"x" * 5000, ".")],
)
async def test_a_file_that_is_no_store_is_left_alone(
    tmp_path: Path, content: bytes, said: str
) -> None:
    """It is refused with a sentence, and not a byte of it is changed."""
    path = tmp_path / "llmao.db"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=said):
        await open_store(URL, tmp_path, SystemClock())
    assert content == path.read_bytes()


async def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    """Somebody named the wrong file."""
    path = tmp_path / "llmao.db"
    with sqlite3.connect(path) as theirs:
        theirs.execute("CREATE TABLE entries (mine)")
    theirs.close()
    content = path.read_bytes()
    with pytest.raises(StoreError, match="another program"):
        await open_store(URL, tmp_path, SystemClock())
    assert content == path.read_bytes()


@pytest.mark.parametrize(
    "url", ["sqlite:///", "sqlite:///a\0b", "mysql://root:hidden-word@db/x", "", "llmao.db"]
)
async def test_a_url_of_no_store(tmp_path: Path, url: str) -> None:
    """A sentence that says how one is written and does not repeat it."""
    with pytest.raises(StoreError, match=r"write sqlite:///llmao\.db or") as failed:
        await open_store(url, tmp_path, SystemClock())
    assert "hidden-word" not in str(failed.value)


async def test_a_folder_that_is_missing(tmp_path: Path) -> None:
    """A sentence, and none is made."""
    with pytest.raises(StoreError, match=r"No such file or directory\. Check its path"):
        await open_store("sqlite:///missing/llmao.db", tmp_path, SystemClock())
    assert [] == list(tmp_path.iterdir())


# ---- schemas


def at_schema(path: Path, number: int) -> None:
    """Make a store as an older llmao left it."""
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        migrate(connection, NOW, number)
    engine.dispose()


@pytest.mark.parametrize("number", range(len(MIGRATIONS) + 1))
async def test_every_older_schema_is_brought_up_to_date(
    number: int, tmp_path: Path, reopen: Reopen
) -> None:
    """What it holds stays, and everything can be kept from then on."""
    at_schema(tmp_path / "llmao.db", number)
    if number:
        with sqlite3.connect(tmp_path / "llmao.db") as old:
            old.execute(
                "INSERT INTO entries (at, actor, kind, host, detail, slot, leaves_nothing)"
                " VALUES (1, 'admin', 'retired', 'c.1', '{}', 'slot', 0)"
            )
        old.close()
    store = await reopen()
    await store.append(approved())
    await store.moved([Transition(NOW, KEY, "", "Loading")])
    await store.sample([Sample(NOW, KEY)])
    await store.tell([])
    await store.tidy(NOW)
    assert (frozenset({"c.1"}) if number else frozenset()) == (
        await (await reopen()).kept()
    ).labels.retired_hosts


async def test_a_newer_schema_is_refused(store: Store, tmp_path: Path) -> None:
    """An older llmao cannot know what it would break; the file stays as it is."""
    await store.aclose()
    with sqlite3.connect(tmp_path / "llmao.db") as newer:
        newer.execute("INSERT INTO migrations VALUES (?, 0)", (len(MIGRATIONS) + 1,))
    newer.close()
    content = (tmp_path / "llmao.db").read_bytes()
    with pytest.raises(StoreError, match="used by a newer llmao"):
        await open_store(URL, tmp_path, SystemClock())
    with pytest.raises(StoreError, match="used by a newer llmao"):
        async with looked_into(URL, tmp_path, SystemClock()):
            pass
    assert content == (tmp_path / "llmao.db").read_bytes()


async def test_steps_are_done_wholly_or_not(
    tmp_path: Path, reopen: Reopen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step that fails in its middle leaves the store as it was; put right, it is done."""
    at_schema(tmp_path / "llmao.db", 1)
    broken = (MIGRATIONS[0], (*MIGRATIONS[1], "CREATE nonsense"))
    with monkeypatch.context() as patch:
        patch.setattr(sql_migrations, "MIGRATIONS", broken)
        with pytest.raises(StoreError):
            await open_store(URL, tmp_path, SystemClock())
    with sqlite3.connect(tmp_path / "llmao.db") as left:
        assert [(1,)] == left.execute("SELECT number FROM migrations").fetchall()
        names = {name for (name,) in left.execute("SELECT name FROM sqlite_master")}
    left.close()
    assert not {"fetches", "told"} & names
    await (await reopen()).append(approved())


async def test_the_tables_are_those_of_the_queries(store: Store, tmp_path: Path) -> None:
    """What the steps make is what sql_tables.py names: no column more, none less."""
    await store.aclose()
    engine = create_engine(f"sqlite:///{tmp_path / 'llmao.db'}")
    there = inspect(engine)
    made = {
        name: {column["name"] for column in there.get_columns(name)}
        for name in there.get_table_names()
        if name != "migrations"
    }
    engine.dispose()
    assert {each.name: set(each.c.keys()) for each in metadata.tables.values()} == made


async def test_a_copy_of_the_file_is_a_store(store: Store, tmp_path: Path) -> None:
    """Closed, it is one file and no other."""
    await store.append(approved())
    await store.aclose()
    (tmp_path / "copy").mkdir()
    shutil.copy(tmp_path / "llmao.db", tmp_path / "copy")
    async with looked_into(URL, tmp_path / "copy", SystemClock()) as copied:
        assert copied is not None
        assert 1 == len(await copied.entries(Wanted()))
