"""What the store drops, and when.

Rule of this file: an entry that the fold rests on is never dropped. Each step is short, so that
a write waits for it no longer than for another write.
"""

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Double,
    Integer,
    Table,
    and_,
    delete,
    exists,
    func,
    literal,
    or_,
    select,
    tuple_,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from llmao_core.protocol import ASSIGNMENTS_KEPT

from .sql_tables import assignments, capacity, entries, fetches, told, transitions

DAY_S = 86_400.0
ENTRIES_KEPT_S = 180 * DAY_S
MINUTES_KEPT_S = 7 * DAY_S
HOURS_KEPT_S = 90 * DAY_S
TOLD_KEPT_S = 3_600.0
# A flood within the time they are kept must not fill the disk.
MOST_ROWS = 1_000_000
MOST_HOSTS = 20_000
ROWS_AT_ONCE = 2_000
KEYS_AT_ONCE = 50
MOST_ROUNDS = 200
MINUTE_S = 60
HOUR_S = 3_600

# Does a part of the work; tells whether some may be left.
Step = Callable[[AsyncConnection], Awaitable[bool]]


def steps(now: float, dialect: str) -> Iterator[Step]:
    """Yield everything that is dropped at this time; each is called until nothing is left."""
    ordinary = entries.c.slot.is_(None)
    old = entries.c.at < now - ENTRIES_KEPT_S
    yield partial(_drop, entries, and_(ordinary, old))
    yield partial(_drop_beyond, entries, ordinary)
    yield partial(_drop, entries, and_(old, _superseded()))
    yield partial(_drop, entries, and_(old, _only_takes_back()))
    yield partial(_drop, transitions, transitions.c.at < now - ENTRIES_KEPT_S)
    yield partial(_drop_beyond, transitions, transitions.c.number > 0)
    yield partial(_drop, told, told.c.at < now - TOLD_KEPT_S)
    yield _forget_hosts
    yield _forget_assignments
    yield partial(_roll_up, now - MINUTES_KEPT_S, _INSERT[dialect])
    yield partial(_drop_hours, now - HOURS_KEPT_S)


def _superseded() -> ColumnElement[bool]:
    newer = entries.alias("newer")
    return exists().where(newer.c.slot == entries.c.slot, newer.c.number > entries.c.number)


def _only_takes_back() -> ColumnElement[bool]:
    """Return which entries take back something that is not there any more."""
    other = entries.alias("other")
    others = exists().where(other.c.slot == entries.c.slot, other.c.number != entries.c.number)
    return and_(entries.c.leaves_nothing == 1, entries.c.slot.is_not(None), ~others)


async def _drop(table: Table, which: ColumnElement[bool], connection: AsyncConnection) -> bool:
    some = select(table.c.number).where(which).limit(ROWS_AT_ONCE)
    done = await connection.execute(delete(table).where(table.c.number.in_(some)))
    return bool(done.rowcount >= ROWS_AT_ONCE)


async def _drop_beyond(
    table: Table, which: ColumnElement[bool], connection: AsyncConnection
) -> bool:
    newest = (await connection.execute(select(func.max(table.c.number)))).scalar() or 0
    return await _drop(table, and_(which, table.c.number <= newest - MOST_ROWS), connection)


async def _forget_hosts(connection: AsyncConnection) -> bool:
    """Forget the hosts that fetched longest ago."""
    beyond = select(fetches.c.host).order_by(fetches.c.last.desc()).offset(MOST_HOSTS)
    some = beyond.limit(ROWS_AT_ONCE)
    done = await connection.execute(delete(fetches).where(fetches.c.host.in_(some)))
    return bool(done.rowcount >= ROWS_AT_ONCE)


async def _forget_assignments(connection: AsyncConnection) -> bool:
    """Forget what a host was told before the newest few, and all of a host that is forgotten."""
    newer = assignments.alias("newer")
    # What was told at the same time is told apart by its revision.
    later = tuple_(newer.c.at, newer.c.revision) > tuple_(assignments.c.at, assignments.c.revision)
    of_its_host = select(func.count()).where(newer.c.host == assignments.c.host, later)
    known = exists().where(fetches.c.host == assignments.c.host)
    named = (assignments.c.host, assignments.c.revision)
    beyond = or_(of_its_host.scalar_subquery() >= ASSIGNMENTS_KEPT, ~known)
    some = select(*named).where(beyond).limit(ROWS_AT_ONCE)
    done = await connection.execute(delete(assignments).where(tuple_(*named).in_(some)))
    return bool(done.rowcount >= ROWS_AT_ONCE)


async def _roll_up(cutoff: float, make: Callable[..., Any], connection: AsyncConnection) -> bool:
    """Replace the minutes of some servers in the oldest hour by their mean."""
    minutes = capacity.c.over_s == MINUTE_S
    oldest = (await connection.execute(select(func.min(capacity.c.at)).where(minutes))).scalar()
    hour = (oldest // HOUR_S) * HOUR_S if oldest is not None else cutoff
    if hour + HOUR_S > cutoff:
        return False
    within = and_(minutes, capacity.c.at >= hour, capacity.c.at < hour + HOUR_S)
    some = select(capacity.c.key_id).where(within).distinct().limit(KEYS_AT_ONCE)
    keys = (await connection.execute(some)).scalars().all()
    these = and_(within, capacity.c.key_id.in_(keys))
    figures = [column for column in capacity.c if not column.primary_key]
    means = (
        select(
            capacity.c.key_id,
            literal(HOUR_S, Integer),
            literal(hour, Double),
            *(func.avg(figure) for figure in figures),
        )
        .where(these)
        .group_by(capacity.c.key_id)
    )
    names = ["key_id", "over_s", "at", *(figure.name for figure in figures)]
    await connection.execute(make(capacity).from_select(names, means).on_conflict_do_nothing())
    await connection.execute(delete(capacity).where(these))
    return True


async def _drop_hours(cutoff: float, connection: AsyncConnection) -> bool:
    hours = capacity.c.over_s == HOUR_S
    ahead = select(capacity.c.at).where(hours).order_by(capacity.c.at).offset(ROWS_AT_ONCE).limit(1)
    bound = (await connection.execute(ahead)).scalar()
    until = cutoff if bound is None else min(cutoff, bound)
    done = await connection.execute(delete(capacity).where(hours, capacity.c.at < until))
    return bool(done.rowcount)


_INSERT: dict[str, Callable[..., Any]] = {
    "sqlite": sqlite.insert,
    "postgresql": postgresql.insert,
}
