"""Teams and keys of the fake proxy, and the two lists of them.

Rule of this file: shapes and statuses as recorded on LiteLLM 1.105.0, cut down to the fields
that say something; a key is never in an answer, its hash is.
"""

import hashlib
from collections.abc import Iterable
from typing import Any

from .fake_http import Call, Reply, error, ok
from .fake_state import Switches, Worker

_DEAD = "Service Unavailable, the authentication database is temporarily unreachable."


class AccessDesk:
    """Who may call what. teams: by id; keys: by LiteLLM's hash of the key; oldest first."""

    def __init__(self, switches: Switches) -> None:
        """Begin without either. switches: what goes wrong with the proxy."""
        self._switches = switches
        self.teams: dict[str, dict[str, Any]] = {}
        self.keys: dict[str, dict[str, Any]] = {}

    def add_team(self, name: str, **fields: Any) -> str:
        """Add a team and return its id."""
        team_id = f"team-{len(self.teams) + 1}"
        self.teams[team_id] = {
            "team_id": team_id,
            "team_alias": name,
            "max_budget": None,
            "models": [],
            "blocked": False,
            "spend": 0.0,
            **fields,
        }
        return team_id

    def add_key(self, key: str, name: str | None = None, **fields: Any) -> str:
        """Add a key and return LiteLLM's hash of it."""
        token = hashlib.sha256(key.encode()).hexdigest()
        self.keys[token] = {
            "token": token,
            "key_name": f"sk-...{key[-4:]}",
            "key_alias": name,
            "max_budget": None,
            "models": [],
            "blocked": None,
            "spend": 0.0,
            "team_id": None,
            **fields,
        }
        return token

    async def list_teams(self, call: Call, _worker: Worker) -> Reply:
        """Answer GET /v2/team/list."""
        if self._switches.dead_database:
            return error(503, _DEAD, "no_db_connection")
        shown, page, pages = _paged(self.teams.values(), call, "page_size")
        total = len(self.teams)
        return ok({"teams": shown, "total": total, "page": page, "total_pages": pages})

    async def list_keys(self, call: Call, _worker: Worker) -> Reply:
        """Answer GET /key/list; without `return_full_object` only the hashes."""
        if self._switches.dead_database:
            return error(503, _DEAD, "no_db_connection")
        shown, page, pages = _paged(self.keys.values(), call, "size")
        full = call.query.get("return_full_object") == "true"
        keys = shown if full else [each["token"] for each in shown]
        total = len(self.keys)
        return ok({"keys": keys, "total_count": total, "current_page": page, "total_pages": pages})


def _paged(
    entries: Iterable[dict[str, Any]], call: Call, size_name: str
) -> tuple[list[dict[str, Any]], int, int]:
    """Return one page, its number, and how many there are; newest first unless asked otherwise."""
    ordered = list(entries)
    if call.query.get("sort_order", "desc") != "asc":
        ordered.reverse()
    size, page = int(call.query.get(size_name, "10")), int(call.query.get("page", "1"))
    return ordered[size * (page - 1) : size * page], page, -(-len(ordered) // size)
