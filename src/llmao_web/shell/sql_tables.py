"""The tables of the store, as queries name them.

Rule of this file: names and types only; sql_migrations.py makes the tables, and a test holds the
two together.
"""

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import BigInteger, Column, Double, Integer, MetaData, Table, Text
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

metadata = MetaData()


class AnyText(TypeDecorator[str]):
    """Text of which no character is one that a database refuses: escaped as in JSON.

    Plain ASCII stands as it is, and equal text stays equal, so that it can be looked for.
    """

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """Escape what is not plain ASCII."""
        return None if value is None else json.dumps(value)[1:-1]

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """Take the escapes away."""
        return None if value is None else str(json.loads(f'"{value}"'))


class AnyJson(TypeDecorator[Mapping[str, Any]]):
    """A JSON object as text, plain ASCII."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str:  # noqa: ARG002
        """Return the object as text."""
        return json.dumps(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Mapping[str, Any]:  # noqa: ARG002
        """Return the text as an object."""
        found = json.loads(value or "{}")
        return found if isinstance(found, dict) else {}


def _number() -> Column[int]:
    return Column("number", BigInteger, primary_key=True)


def _key() -> tuple[Column[int], Column[str], Column[str], Column[str]]:
    return (
        Column("key_id", BigInteger),
        Column("key_base", AnyText),
        Column("key_model", AnyText),
        Column("key_shown", AnyText),
    )


entries = Table(
    "entries",
    metadata,
    _number(),
    Column("at", Double),
    Column("actor", AnyText),
    Column("kind", Text),
    Column("host", AnyText),
    *_key(),
    Column("detail", AnyJson),
    Column("slot", Text),
    Column("leaves_nothing", Integer),
)

transitions = Table(
    "transitions",
    metadata,
    _number(),
    Column("at", Double),
    *_key(),
    Column("before", AnyText),
    Column("after", AnyText),
)

fetches = Table(
    "fetches",
    metadata,
    Column("host", AnyText, primary_key=True),
    Column("first", Double),
    Column("last", Double),
    Column("handed_out", AnyText),
    Column("applied", AnyText),
)

assignments = Table(
    "assignments",
    metadata,
    Column("host", AnyText, primary_key=True),
    Column("revision", AnyText, primary_key=True),
    Column("at", Double),
    Column("what", AnyJson),
)

told = Table(
    "told",
    metadata,
    _number(),
    Column("at", Double),
    Column("replica", Text),
    Column("what", AnyJson),
)

capacity = Table(
    "capacity",
    metadata,
    Column("key_id", BigInteger, primary_key=True),
    Column("over_s", Integer, primary_key=True),
    Column("at", Double, primary_key=True),
    Column("running", Double),
    Column("waiting", Double),
    Column("kv_used", Double),
    Column("tokens_per_s", Double),
    Column("first_token_s", Double),
)

# What replicas tell each other is over within the hour.
KEPT = (entries, transitions, fetches, assignments, capacity)
