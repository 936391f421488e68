"""What the fake proxy says of the health of its rows, as recorded on LiteLLM 1.105.0.

Rule of this file: a check asks the server behind the row, through whatever checker was given;
with background checks the answers come from memory, and saved results lump a pool together.
"""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

from attrs import frozen

from .fake_http import Call, Reply
from .fake_state import State, Stored, Worker
from .fake_traffic import Checker


@frozen
class _Result:
    row: Stored
    error: str


class HealthDesk:
    """Checks rows, remembers results, and answers the three health paths."""

    def __init__(self, state: State, check: Checker) -> None:
        """Take whose rows they are and how one is checked."""
        self._state = state
        self.check = check
        self.saved: dict[str, dict[str, Any]] = {}
        self._memory: list[_Result] = []

    async def answer(self, call: Call, worker: Worker) -> Reply:
        """Answer `GET /health`, of one row or of all."""
        row_id = call.query.get("model_id")
        if row_id is not None and row_id not in worker.router:
            return _reply(404, {"detail": {"error": f"Model with ID {row_id} not found"}})
        if self._state.switches.background_checks:
            results = self._memory
        else:
            results = await self._run(list(worker.health_list.values()), row_id)
            self._save_one(results, row_id)
        results = [each for each in results if row_id in (None, each.row.id)]
        healthy = [_endpoint(each) for each in results if not each.error]
        unhealthy = [_endpoint(each) for each in results if each.error]
        found = {
            "healthy_endpoints": healthy,
            "unhealthy_endpoints": unhealthy,
            "healthy_count": len(healthy),
            "unhealthy_count": len(unhealthy),
        }
        return _reply(503 if row_id is not None and not healthy else 200, found)

    async def _run(self, rows: list[Stored], row_id: str | None = None) -> list[_Result]:
        chosen = [row for row in rows if row_id in (None, row.id)]
        errors = await asyncio.gather(*map(self.check, chosen))
        return [_Result(row, said) for row, said in zip(chosen, errors, strict=True)]

    def _save_one(self, results: list[_Result], row_id: str | None) -> None:
        if row_id is None or not results or self._state.switches.dead_database:
            return
        row, said = results[0].row, results[0].error
        self._save(row, int(not said), int(bool(said)), said, "default_user_id")

    def _save(self, row: Stored, up: int, down: int, said: str, by: str) -> None:
        at = datetime.fromtimestamp(self._state.now(), UTC).isoformat()
        self.saved[row.id] = {
            "health_check_id": f"check-{row.id}-{at}",
            "model_name": row.model_name,
            "model_id": row.id,
            "status": "healthy" if up else "unhealthy",
            "healthy_count": up,
            "unhealthy_count": down,
            "error_message": said[:500] or None,
            "response_time_ms": 28.0,
            "details": None,
            "checked_by": by,
            "checked_at": at,
            "created_at": at,
        }

    async def run_background(self, worker: int = 0) -> None:
        """Do one round of background checks: remember it all, save it per provider's model."""
        self._memory = await self._run(list(self._state.workers[worker].health_list.values()))
        for each in self._memory:
            pool = [r for r in self._memory if r.row.params["model"] == each.row.params["model"]]
            said = next((r.error for r in pool if r.error), "")
            up = sum(not r.error for r in pool)
            self._save(each.row, up, len(pool) - up, said, "background_health_check")

    async def latest(self, _call: Call, _worker: Worker) -> Reply:
        """Answer `GET /health/latest`: empty, not an error, while the database is dead."""
        if self._state.switches.no_database:
            return _reply(500, {"detail": {"error": "Database not initialized"}})
        saved = {} if self._state.switches.dead_database else self.saved
        return _reply(200, {"latest_health_checks": saved, "total_models": len(saved)})

    async def test(self, call: Call, worker: Worker) -> Reply:
        """Answer `POST /health/test_connection` for a row that the router knows."""
        info = call.json().get("model_info") or {}
        row = worker.router.get(str(info.get("id")))
        if row is None:
            return _reply(500, {"detail": {"error": "Failed to test connection: 'model'"}})
        [found] = await self._run([row])
        status = "error" if found.error else "success"
        return _reply(200, {"status": status, "result": _endpoint(found, by_id=False)})


def _endpoint(found: _Result, *, by_id: bool = True) -> dict[str, Any]:
    row = found.row
    shown = {"api_base": row.params.get("api_base"), "model": row.params.get("model")}
    failed = {"error": f"{found.error}\nstack trace: Traceback …", "exception_status": 500}
    return {
        **shown,
        **(failed if found.error else {}),
        **({"model_id": row.id} if by_id else {}),
    }


def _reply(status: int, data: object) -> Reply:
    return Reply(status, json.dumps(data).encode())
