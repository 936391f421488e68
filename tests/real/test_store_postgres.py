"""The store in a real PostgreSQL: what holds of every store, several replicas, and its outages.

Rule of this file: one server for all of these tests; each begins without the schema.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import asyncpg
import pytest
from tests.real.lab.install import install_litellm
from tests.real.lab.postgres import Postgres
from tests.store.contract import KEY, NOW, Durable, Reopen, action, approved

from llmao_core.protocol import BoxEvent, Fetch, Restarting, Unknown, WrongKey
from llmao_core.snapshots import Request, RequestKind
from llmao_core.testing.clock import VirtualClock
from llmao_web.shell.backup import backup, restore
from llmao_web.shell.clock import SystemClock
from llmao_web.shell.opening import looked_into, open_store
from llmao_web.shell.sql_migrations import MIGRATIONS
from llmao_web.shell.sql_store import SqlStore
from llmao_web.shell.store import Store, StoreError, Wanted

pytestmark = pytest.mark.real

Open = Callable[[], Awaitable[SqlStore]]


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    """Give a PostgreSQL."""
    with Postgres(install_litellm()) as server:
        yield server


@pytest.fixture
async def new(server: Postgres, tmp_path: Path) -> AsyncIterator[Open]:
    """Give a function that opens the store as one more replica does."""
    server.sql("DROP SCHEMA IF EXISTS llmao CASCADE")
    opened: list[SqlStore] = []

    async def open_one() -> SqlStore:
        opened.append(await open_store(server.url, tmp_path, SystemClock()))
        return opened[-1]

    yield open_one
    for each in opened:
        await each.aclose()


@pytest.fixture
async def store(new: Open) -> Store:
    return await new()


class TestPostgres(Durable):
    """The store that replicas share."""

    @pytest.fixture
    def reopen(self, new: Open) -> Reopen:
        return new


async def test_replicas_start_at_once(new: Open, server: Postgres) -> None:
    """One of them makes the schema, and all of them use it."""
    stores = await asyncio.gather(*(new() for _ in range(6)))
    await asyncio.gather(*(each.append(approved(), action()) for each in stores))
    assert 12 == len(await stores[0].entries(Wanted()))
    assert str(len(MIGRATIONS)) == server.sql("SELECT count(*) FROM llmao.migrations")


async def test_what_one_replica_saw_the_others_are_told(new: Open) -> None:
    """Everything a box did or a person pressed, once, in order, and never to oneself."""
    first, second = await new(), await new()
    pressed = Request(RequestKind.RUN, "admin", NOW, NOW + 60, KEY, None, "digest")
    seen: list[BoxEvent] = [
        Fetch("c.1", "r1", "r0"),
        Unknown("a\0b"),
        WrongKey("127.0.0.9", "\ud800"),
    ]
    restarting = Restarting("c.1", ("vllm", "b"))
    await first.tell([*((each, NOW) for each in seen), (restarting, NOW)])
    await second.tell([(pressed, NOW + 1)])
    heard = await second.told(0)
    assert [*seen, restarting] == [each.what for each in heard]
    assert [] == list(await second.told(heard[-1].number))
    assert [pressed] == [each.what for each in await first.told(heard[-1].number)]
    await first.tidy(NOW + 3700)
    assert [] == list(await second.told(0))


async def test_a_long_assignment_is_left_out(new: Open) -> None:
    """One that fits arrives with the fetch; of one that does not only the fetch arrives."""
    first, second = await new(), await new()
    fits, long = {"servers": [{"name": "a"}]}, {"servers": [{"name": "x" * 70_000}]}
    await first.tell([(Fetch("c.1", "r1", "", fits), NOW), (Fetch("c.2", "r2", "", long), NOW)])
    heard = [each.what for each in await second.told(0)]
    assert [fits, None] == [each.assignment for each in heard if isinstance(each, Fetch)]


async def test_what_another_age_told_is_passed_over(new: Open, server: Postgres) -> None:
    """A replica of a later llmao may tell what this one does not know."""
    store = await new()
    server.sql("INSERT INTO llmao.told (at, replica, what) VALUES (1, 'x', '{\"_type\": \"New\"}')")
    other = await new()
    await other.tell([(Fetch("c.1"), NOW)])
    assert [Fetch("c.1")] == [each.what for each in await store.told(0)]


async def test_numbers_become_visible_in_their_order(new: Open) -> None:
    """Who reads up to a number has read everything below it, however many write."""
    writers = [await new() for _ in range(4)]
    reader = await new()
    seen: list[int] = []

    async def write(store: SqlStore) -> None:
        for _ in range(15):
            await store.append(approved())

    async def read() -> None:
        while len(seen) < 60:
            found = await reader.entries(Wanted(limit=1000))
            assert seen == [each.number for each in reversed(found)][: len(seen)]
            seen[:] = [each.number for each in reversed(found)]

    async with asyncio.timeout(60):
        await asyncio.gather(read(), *(write(each) for each in writers))


async def test_it_goes_away_and_comes_back(new: Open, server: Postgres) -> None:
    """Meanwhile each call ends with a sentence; then the same store works again."""
    store = await new()
    await store.append(approved())
    server.stop()
    try:
        for _ in range(3):
            with pytest.raises(StoreError, match=r"127\.0\.0\.1:\d+, cannot be used") as failed:
                await store.append(action())
            assert server.url not in str(failed.value)
    finally:
        server.start()
    await store.append(action())
    assert 2 == len(await store.entries(Wanted()))


async def test_a_frozen_replica_keeps_nobody_from_writing(new: Open, server: Postgres) -> None:
    """Who stops in the middle of a write is thrown out by the server."""
    store = await new()
    frozen = await asyncpg.connect(
        server.url, server_settings={"idle_in_transaction_session_timeout": "500ms"}
    )
    await frozen.execute("BEGIN")
    await frozen.execute("SELECT pg_advisory_xact_lock(465557417327)")
    await store.append(action())
    assert 1 == len(await store.entries(Wanted()))
    await frozen.close()


async def test_a_hung_database_keeps_nobody_waiting(server: Postgres, tmp_path: Path) -> None:
    """After ten seconds of its clock a call ends with a sentence."""
    server.sql("DROP SCHEMA IF EXISTS llmao CASCADE")
    clock = VirtualClock()
    store = await open_store(server.url, tmp_path, clock)
    blocking = await asyncpg.connect(server.url)
    await blocking.execute("BEGIN; LOCK TABLE llmao.entries")
    waiting = [asyncio.create_task(each) for each in (store.append(action()), store.kept())]
    await asyncio.sleep(0.5)
    await clock.advance(11)
    for each in waiting:
        with pytest.raises(StoreError, match="in time"):
            await each
    await blocking.close()
    await store.append(action())
    assert 1 == len(await store.entries(Wanted()))
    await store.aclose()


async def test_why_it_cannot_be_opened(server: Postgres, tmp_path: Path) -> None:
    """A sentence with what to do, without the password."""
    place = f"127.0.0.1:{server.port}"
    for url, said in (
        (f"postgresql://postgres:hidden-word@{place}/nowhere", "no such database"),
        (f"postgresql://nobody:hidden-word@{place}/postgres", "user or password"),
        (f"postgresql://postgres:hidden-word@{place}/postgres?sslmode=require", "cannot be used"),
        ("postgresql://postgres:hidden-word@127.0.0.1:1/postgres", "cannot be reached"),
        (f"postgresql://postgres:hidden-word@{place}:x/postgres", "PostgreSQL understands"),
    ):
        with pytest.raises(StoreError, match=said) as failed:
            await open_store(url, tmp_path, SystemClock())
        assert "hidden-word" not in str(failed.value)


async def test_a_newer_schema_is_refused(new: Open, server: Postgres) -> None:
    """A llmao that does not know it changes nothing in it."""
    await new()
    server.sql("INSERT INTO llmao.migrations VALUES (999, 0)")
    with pytest.raises(StoreError, match="newer llmao"):
        await new()


async def test_looking_into_it_makes_nothing(server: Postgres, tmp_path: Path) -> None:
    """`plan` on a database without a store leaves it without one."""
    server.sql("DROP SCHEMA IF EXISTS llmao CASCADE")
    async with looked_into(server.url, tmp_path, SystemClock()) as store:
        assert store is None
    assert "0" == server.sql("SELECT count(*) FROM pg_namespace WHERE nspname = 'llmao'")


async def test_a_backup_moves_to_sqlite_and_back(
    new: Open, server: Postgres, tmp_path: Path
) -> None:
    """Everything arrives, and numbers go on from there."""
    store, clock = await new(), SystemClock()
    await store.append(approved(), action())
    await store.tell([(Fetch("c.1", "r1"), NOW)])
    kept, found = await store.kept(), await store.entries(Wanted())
    file = tmp_path / "llmao.backup"
    await backup(server.url, tmp_path, clock, file)
    await restore("sqlite:///llmao.db", tmp_path, clock, file)
    await backup("sqlite:///llmao.db", tmp_path, clock, file)
    with pytest.raises(StoreError, match="--replace"):
        await restore(server.url, tmp_path, clock, file)
    await store.append(action())
    await restore(server.url, tmp_path, clock, file, replace=True)
    assert (kept, found) == (await store.kept(), await store.entries(Wanted()))
    assert {"c.1"} == set(await store.fetches())
    await store.append(action())
    assert found[0].number < (await store.entries(Wanted()))[0].number
