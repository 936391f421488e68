"""Every secret in a tree of records, for whoever has to keep them out of something.

Rule of this file: it finds, and reveals nothing.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from llmao_core.secret import Secret


def secrets_in(source: Any) -> Iterator[Secret]:
    """Yield every Secret in a tree of records, mappings and sequences."""
    if isinstance(source, Secret):
        yield source
    elif isinstance(source, Mapping):
        for value in source.values():
            yield from secrets_in(value)
    elif isinstance(source, list | tuple | set | frozenset):
        for value in source:
            yield from secrets_in(value)
    elif attrs.has(type(source)):
        for field in attrs.fields(type(source)):
            yield from secrets_in(getattr(source, field.name))
