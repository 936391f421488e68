"""The store in a database: SQLite for one process, PostgreSQL for any number.

Rule of this file: one call, one transaction. What grows is dropped in sql_tidy.py.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    Column,
    CompoundSelect,
    Insert,
    Select,
    Table,
    case,
    delete,
    func,
    insert,
    select,
    union,
)
from sqlalchemy.dialects import postgresql, sqlite

from llmao_core.config import Json
from llmao_core.keys import Key
from llmao_core.protocol import BoxEvent
from llmao_core.snapshots import Request

from . import sql_codec as codec
from . import sql_tidy
from .ledger import Entry, EntryKind, Kept, Numbered, fold
from .sql_engine import Database
from .sql_tables import assignments, capacity, entries, fetches, told, transitions
from .store import SHARED_KEPT, Fetches, Sample, Told, Transition, Wanted

LONGEST_PAGE = 1_000
SAMPLES_SHOWN = 20_000
# Longer than most entries, and short enough that PostgreSQL neither moves nor packs it.
_PROOF = Entry(0.0, "llmao", EntryKind.ACTION, detail={"proof": "." * 1_500})

# What an insert does about a row that is there: both dialects have words of their own for it.
_UPSERT: Mapping[str, Callable[..., Any]] = {
    "sqlite": sqlite.insert,
    "postgresql": postgresql.insert,
}


class SqlStore:
    """A Store in a database. replica: what tells this process from the others that share it."""

    def __init__(
        self, database: Database, replica: str, release: Callable[[], None] = lambda: None
    ) -> None:
        self._database = database
        self._replica = replica
        self._release = release

    async def prove(self) -> None:
        """Write an entry and delete it, in one transaction, which needs the room of an entry."""
        wanted = insert(entries).values(codec.entry_row(_PROOF)).returning(entries.c.number)
        async with self._database.writing() as connection:
            number = (await connection.execute(wanted)).scalar_one()
            await connection.execute(delete(entries).where(entries.c.number == number))

    async def kept(self) -> Kept:
        """Return what all entries add up to: the newest of every slot says it."""
        newest = (
            select(func.max(entries.c.number))
            .where(entries.c.slot.is_not(None))
            .group_by(entries.c.slot)
        )
        found = await self._read(
            select(entries).where(entries.c.number.in_(newest)).order_by(entries.c.number)
        )
        return fold(each.entry for row in found if (each := codec.numbered(row)))

    async def append(self, *appended: Entry) -> None:
        """Keep entries, all or none, in this order."""
        rows = [codec.entry_row(entry) for entry in appended]
        if rows:
            async with self._database.writing() as connection:
                await connection.execute(insert(entries), rows)

    async def entries(self, wanted: Wanted) -> Sequence[Numbered]:
        """Return entries, newest first; at most LONGEST_PAGE at a time."""
        query = select(entries).order_by(entries.c.number.desc()).limit(_page(wanted.limit))
        if wanted.kinds:
            query = query.where(entries.c.kind.in_(sorted(kind.value for kind in wanted.kinds)))
        if wanted.host:
            query = query.where(entries.c.host == wanted.host)
        if wanted.key is not None:
            query = query.where(entries.c.key_id == codec.key_id(wanted.key))
        if wanted.before:
            query = query.where(entries.c.number < wanted.before)
        found = (codec.numbered(row) for row in await self._read(query))
        return [each for each in found if each and wanted.takes(each)]

    async def newest(self) -> int:
        """Return the number of the newest entry that changes what is kept, 0 for none."""
        newest = select(func.max(entries.c.number)).where(entries.c.slot.is_not(None))
        (row,) = await self._read(newest)
        return int(row[0] or 0)

    async def moved(self, moved: Iterable[Transition]) -> None:
        """Keep changes of lifecycles."""
        rows = [codec.transition_row(each) for each in moved]
        if rows:
            async with self._database.writing() as connection:
                await connection.execute(insert(transitions), rows)

    async def transitions(self, key: Key | None = None, limit: int = 100) -> Sequence[Transition]:
        """Return changes of lifecycles, newest first; at most LONGEST_PAGE."""
        query = select(transitions).order_by(transitions.c.number.desc()).limit(_page(limit))
        if key is not None:
            query = query.where(transitions.c.key_id == codec.key_id(key))
        found = (codec.transition(row) for row in await self._read(query))
        return [each for each in found if each]

    async def keys(self) -> Sequence[Key]:
        """Return every key of which something is kept."""
        kept = union(*(select(*_key_columns(each)) for each in (transitions, entries)))
        found = (codec.key_of(row) for row in await self._read(kept))
        return list(dict.fromkeys(key for key in found if key))

    async def sample(self, samples: Iterable[Sample]) -> None:
        """Keep one minute's samples; a second one of a time replaces the first."""
        rows = {(row["key_id"], row["over_s"], row["at"]): row for row in _sample_rows(samples)}
        if not rows:
            return
        made = self._upsert(capacity)
        figures = [column.name for column in capacity.c if not column.primary_key]
        replacing = made.on_conflict_do_update(
            index_elements=list(capacity.primary_key),
            set_={name: made.excluded[name] for name in figures},
        )
        async with self._database.writing() as connection:
            await connection.execute(replacing, list(rows.values()))

    async def capacity(self, key: Key, since: float) -> Sequence[Sample]:
        """Return the samples of one server, oldest first; of very many the newest."""
        query = (
            select(capacity)
            .where(capacity.c.key_id == codec.key_id(key), capacity.c.at >= since)
            .order_by(capacity.c.at.desc())
            .limit(SAMPLES_SHOWN)
        )
        return [codec.sample(row, key) for row in reversed(await self._read(query))]

    async def tell(self, noted: Iterable[tuple[BoxEvent | Request, float]]) -> None:
        """Remember fetches, and tell the other replicas where there can be any."""
        events = list(noted)
        fetched, assigned = codec.fetch_rows(events), codec.assignment_rows(events)
        shared = codec.told_rows(events, self._replica) if self._database.shared else []
        if not fetched and not assigned and not shared:
            return
        async with self._database.writing() as connection:
            if fetched:
                await connection.execute(self._remembering(), fetched)
            if assigned:
                await connection.execute(self._assigning(), assigned)
            if shared:
                await connection.execute(insert(told), shared)

    async def told(self, after: int) -> Sequence[Told]:
        """Return what other replicas told, numbers above `after`, oldest first.

        Of more than SHARED_KEPT the newest: who was away so long does not need the rest.
        """
        if not self._database.shared:
            return ()
        query = (
            select(told)
            .where(told.c.number > after, told.c.replica != self._replica)
            .order_by(told.c.number.desc())
            .limit(SHARED_KEPT)
        )
        found = (codec.told(row) for row in reversed(await self._read(query)))
        return [each for each in found if each]

    async def fetches(self) -> Mapping[str, Fetches]:
        """Return what hosts fetched, by normalised name, over restarts."""
        return codec.fetches_of(await self._read(select(fetches)))

    async def assignments(self) -> Mapping[str, Mapping[str, Json]]:
        """Return the newest that each host was told, by revision, the newest last."""
        oldest_first = (assignments.c.at, assignments.c.revision)
        return codec.assignments_of(await self._read(select(assignments).order_by(*oldest_first)))

    async def tidy(self, now: float) -> None:
        """Drop what is older than it is kept, in short steps between which others write."""
        for step in sql_tidy.steps(now, self._database.engine.dialect.name):
            for _ in range(sql_tidy.MOST_ROUNDS):
                async with self._database.writing() as connection:
                    if not await step(connection):
                        break

    async def aclose(self) -> None:
        """Close the database; another process may open it then."""
        try:
            await self._database.aclose()
        finally:
            self._release()

    async def _read(self, query: Select[Any] | CompoundSelect[Any]) -> Sequence[Any]:
        async with self._database.reading() as connection:
            found: Sequence[Any] = (await connection.execute(query)).all()
            return found

    def _upsert(self, table: Any) -> Any:
        return _UPSERT[self._database.engine.dialect.name](table)

    def _assigning(self) -> Insert:
        # The revision says all that it says, but not when it was told last.
        made = self._upsert(assignments)
        updated: Insert = made.on_conflict_do_update(
            index_elements=list(assignments.primary_key), set_={"at": made.excluded.at}
        )
        return updated

    def _remembering(self) -> Insert:
        made, known = self._upsert(fetches), fetches.c
        new = made.excluded
        updated: Insert = made.on_conflict_do_update(
            index_elements=[known.host],
            set_={
                "last": case((new.last > known.last, new.last), else_=known.last),
                "handed_out": case((new.handed_out != "", new.handed_out), else_=known.handed_out),
                "applied": case((new.applied != "", new.applied), else_=known.applied),
            },
        )
        return updated


def _sample_rows(samples: Iterable[Sample]) -> list[codec.Values]:
    return [codec.sample_row(each) for each in samples]


def _key_columns(table: Table) -> list[Column[Any]]:
    return [table.c.key_base, table.c.key_model, table.c.key_shown]


def _page(limit: int) -> int:
    return max(1, min(limit, LONGEST_PAGE))
