"""LiteLLM's teams and keys: who may call what, for how much, and never with what key.

Rule of this file: all pages or an error. Of a key only a digest of LiteLLM's own hash gets out,
which tells two keys apart and opens nothing.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

from llmao_core.errors import Garbled
from llmao_core.snapshots import Access, Grant

from .client import LiteLLM
from .translate import parse

# LiteLLM gives at most 100 of either at once; more pages than this are not a list.
_AT_ONCE = "100"
_MOST_PAGES = 1000
_LONGEST_NAME = 80
_LARGEST = 1e15
_KEY = re.compile(r"\bsk-[\w-]{8,}")
_OLDEST_FIRST = {"sort_by": "created_at", "sort_order": "asc"}


@frozen
class _List:
    """One list: where it is, what its answers call things, and how an entry is read."""

    path: str
    params: Mapping[str, str]
    name: str
    total: str
    read: Callable[[Mapping[str, Any]], Grant]


async def access(proxy: LiteLLM) -> Access:
    """Return every team and every key; LiteLLM itself leaves out those of its own pages."""
    teams = await _all(proxy, TEAMS)
    return Access((*teams, *await _all(proxy, KEYS)))


async def _all(proxy: LiteLLM, wanted: _List) -> tuple[Grant, ...]:
    found: dict[str, Grant] = {}
    totals: set[int] = set()
    for page in range(1, _MOST_PAGES + 1):
        params = {**wanted.params, **_OLDEST_FIRST, "page": str(page)}
        data = parse((await proxy.read(wanted.path, params)).content)
        entries, pages, total = _page(data, wanted)
        totals.add(total)
        found |= {grant.id: grant for grant in map(wanted.read, entries)}
        if page >= pages:
            break
    else:
        raise Garbled(f"LiteLLM's list of {wanted.name} has more than {_MOST_PAGES} pages")
    if totals != {len(found)}:
        raise Garbled(f"LiteLLM's list of {wanted.name} changed while it was read")
    return tuple(found.values())


def _page(data: object, wanted: _List) -> tuple[list[Mapping[str, Any]], int, int]:
    """Return the entries of a page, and how many pages and entries there are in all."""
    page = data if isinstance(data, dict) else {}
    entries = page.get(wanted.name)
    pages, total = page.get("total_pages"), page.get(wanted.total)
    whole = isinstance(entries, list) and all(isinstance(each, dict) for each in entries)
    if not whole or not isinstance(pages, int) or not isinstance(total, int):
        raise Garbled(f"LiteLLM's list of {wanted.name} is not one of its pages")
    return entries or [], pages, total


def _team(entry: Mapping[str, Any]) -> Grant:
    return _grant("team", entry, _identity(entry, "team_id"), entry.get("team_alias"))


def _key(entry: Mapping[str, Any]) -> Grant:
    digest = hashlib.sha256(b"llmao.grant\n" + _identity(entry, "token").encode()).hexdigest()
    return _grant("key", entry, digest[:16], entry.get("key_alias"))


def _identity(entry: Mapping[str, Any], name: str) -> str:
    found = entry.get(name)
    if not isinstance(found, str) or not found:
        raise Garbled(f"LiteLLM lists something without a {name}")
    return found


def _grant(what: str, entry: Mapping[str, Any], grant_id: str, name: object) -> Grant:
    models = entry.get("models")
    listed = models if isinstance(models, list) else []
    return Grant(
        what=what,
        id=_shown(grant_id),
        name=_shown(name) if isinstance(name, str) else "",
        budget=_number(entry.get("max_budget")),
        models=tuple(sorted(_shown(each) for each in listed if isinstance(each, str))),
        blocked=entry.get("blocked") is True,
    )


def _shown(text: str) -> str:
    """Return a name on one line, without what looks like a key somebody put into it."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    line = _KEY.sub("sk-***", line)
    return line if len(line) <= _LONGEST_NAME else line[: _LONGEST_NAME - 1] + "…"


def _number(value: object) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if abs(value) < _LARGEST else None


TEAMS = _List("/v2/team/list", {"page_size": _AT_ONCE}, "teams", "total", _team)
KEYS = _List(
    "/key/list",
    {"size": _AT_ONCE, "return_full_object": "true"},
    "keys",
    "total_count",
    _key,
)
