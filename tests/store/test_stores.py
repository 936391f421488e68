"""Memory and SQLite, held to what must hold of every store."""

import pytest

from llmao_core.protocol import Fetch
from llmao_web.shell import sql_tidy
from llmao_web.shell.ledger import Entry, EntryKind
from llmao_web.shell.store import MemoryStore, Store, Transition, Wanted

from .contract import BOX, DAY_S, KEY, NOW, AnyStore, Durable, action, approved, assignment


class TestMemory(AnyStore):
    """The store of the demo and of many tests."""

    @pytest.fixture
    def store(self) -> Store:
        return MemoryStore()


class TestSqlite(Durable):
    """The store by default."""

    async def test_tidying_may_stop_anywhere(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """However little of it is done each time, nothing that was taken back comes again."""
        monkeypatch.setattr(sql_tidy, "ROWS_AT_ONCE", 1)
        monkeypatch.setattr(sql_tidy, "MOST_ROUNDS", 1)
        old = NOW - 200 * DAY_S
        withdrawn = Entry(old, "admin", EntryKind.WITHDRAWN, BOX)
        await store.append(*(approved(at=old) for _ in range(4)), withdrawn, withdrawn)
        for _ in range(8):
            await store.tidy(NOW)
            assert () == (await store.kept()).approvals
        assert [] == list(await store.entries(Wanted()))

    async def test_what_grows_is_bounded_within_its_time(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A flood drops the oldest of its own kind, and never what is decided."""
        monkeypatch.setattr(sql_tidy, "MOST_ROWS", 10)
        monkeypatch.setattr(sql_tidy, "MOST_HOSTS", 2)
        await store.append(approved(), *(action(NOW + each) for each in range(30)))
        await store.moved(Transition(NOW + each, KEY, "", "a") for each in range(30))
        await store.tell(
            [(Fetch(f"c.{each}", assignment=assignment(1)), NOW + each) for each in range(5)]
        )
        await store.tidy(NOW + 60)
        assert [NOW + each for each in range(29, 19, -1)] + [NOW] == [
            each.entry.at for each in await store.entries(Wanted())
        ]
        assert 10 == len(await store.transitions())
        assert {"c.3", "c.4"} == set(await store.fetches()) == set(await store.assignments())
