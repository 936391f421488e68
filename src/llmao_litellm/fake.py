"""A LiteLLM proxy to test against: its HTTP, as recorded on 1.105.0, and what can go wrong with it.

Rule of this file: statuses, bodies and their oddities are the real proxy's; a test runs both and
compares. Nothing in production imports it but the demo.

    fake = FakeLiteLLM(now=clock.now)
    async with httpx.AsyncClient(transport=fake.transport()) as http: ...    # in the process
    async with fake.serve() as url: ...                                      # on a loopback port
"""

import asyncio
import contextlib
import json
import re
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable

from attrs import frozen

from .fake_access import AccessDesk
from .fake_health import HealthDesk
from .fake_http import Call, Reply, Served, detail, error, ok
from .fake_state import State, Stored, Worker
from .fake_traffic import Checker, Forwarder, always_healthy, canned

MASTER_KEY = "sk-fake-master"
_NO_DB = "{'error': \"No DB Connected. Here's how to do it - https://docs.litellm.ai/docs/\"}"
_NOT_STORED = "{'error': \"Set `'STORE_MODEL_IN_DB='True'` in your env to enable this feature.\"}"
_NOT_ADDED = "{'error': 'Failed to add model to db. Check your server logs for more details.'}"
_DEAD = "Authentication Error, Can't reach database server at `127.0.0.1`:`5432`"
_INTERNAL = "internal_server_error"


@frozen
class Speeds:
    """How long things take, in seconds: a create, PATCH or block by number of rows, a delete."""

    write_s: Callable[[int], float] = lambda _: 0.0
    delete_s: float = 0.0


Route = Callable[[Call, Worker], Awaitable[Reply]]


class FakeLiteLLM(State, Served):
    """A LiteLLM proxy: an ASGI application whose rows, switches and log are at hand.

    keys: more keys → role. log: every request, newest last. answer_next: what to answer
    instead, first match of a path prefix, used once.
    """

    def __init__(
        self,
        now: Callable[[], float],
        *,
        workers: int = 1,
        poll_interval_s: float = 30.0,
        master_key: str = MASTER_KEY,
        check: Checker = always_healthy,
        forward: Forwarder = canned,
        speeds: Speeds | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Say what time it is, how fast things go, and how to reach the servers behind it."""
        super().__init__(now, workers, poll_interval_s)
        self.keys = {master_key: "proxy_admin"}
        self.log: deque[Call] = deque(maxlen=10_000)
        self.answer_next: list[tuple[str, Reply]] = []
        self.worker_of: Callable[[Call], int] = lambda _: len(self.log) % workers
        self.health = HealthDesk(self, check)
        self.access = AccessDesk(self.switches)
        self._forward = forward
        self._speeds = speeds or Speeds()
        self._sleep = sleep
        self._writing = asyncio.Lock()
        self._turn = 0
        self._routes = self._make_routes()

    # ---- answering

    async def handle(self, call: Call) -> Reply:
        """Answer one request."""
        worker = self.workers[self.worker_of(call) % len(self.workers)]
        self.log.append(call)
        for place, (prefix, reply) in enumerate(self.answer_next):
            if call.path.startswith(prefix):
                del self.answer_next[place]
                return reply
        self.poll(worker)
        route, admin = self._route(call)
        if route is None:
            return detail(404, "Not Found")
        if refused := self._refuse(call, admin):
            return refused
        return await route(call, worker)

    def _route(self, call: Call) -> tuple[Route | None, bool | None]:
        """Return the handler and whether it wants an admin; None wants no key at all."""
        if found := self._routes.get(f"{call.method} {call.path}"):
            return found
        if call.method == "PATCH" and re.fullmatch(r"/model/[^/]+/update", call.path):
            return self._patch, True
        return None, None

    def _make_routes(self) -> dict[str, tuple[Route, bool | None]]:
        return {
            "GET /model/info": (self._list, False),
            "GET /v1/model/info": (self._list, False),
            "GET /v2/model/info": (self._list_v2, False),
            "POST /model/new": (self._new, True),
            "POST /model/delete": (self._delete, True),
            "POST /model/block": (self._block, True),
            "POST /model/unblock": (self._block, True),
            "GET /health": (self.health.answer, False),
            "GET /health/latest": (self.health.latest, False),
            "POST /health/test_connection": (self.health.test, True),
            "GET /health/readiness": (self._ready, None),
            "GET /health/liveliness": (self._alive, None),
            "POST /v1/chat/completions": (self._complete, False),
            "POST /chat/completions": (self._complete, False),
            "GET /v1/models": (self._models, False),
            "GET /v2/team/list": (self.access.list_teams, True),
            "GET /key/list": (self.access.list_keys, True),
        }

    def _refuse(self, call: Call, admin: bool | None) -> Reply | None:
        if admin is None:
            return None
        key = call.authorization.removeprefix("Bearer ")
        if not key:
            return error(401, "Authentication Error, No api key passed in.")
        if (role := self.keys.get(key)) is None:
            said = f"Invalid proxy server token passed. Received API Key = {key[:3]}..."
            return error(401, f"Authentication Error, {said}", "token_not_found_in_db")
        if admin and role != "proxy_admin":
            said = f"User does not have permission to make this model call. Your role={role}."
            return error(403, f"{{'error': '{said}'}}")
        return None

    # ---- lists

    async def _list(self, call: Call, worker: Worker) -> Reply:
        if self.switches.slow_list_s:
            await self._sleep(self.switches.slow_list_s)
        if self.switches.dead_database:
            return error(503, _DEAD, "no_db_connection")
        if wanted := call.query.get("litellm_model_id"):
            row = worker.router.get(wanted)
            if row is None:
                return detail(400, {"error": f"Model id = {wanted} not found on litellm proxy"})
            return Reply(200, b'{"data":[' + self.show(row) + b"]}")
        return Reply(200, b'{"data":[' + b",".join(self.listing(worker)) + b"]}")

    async def _list_v2(self, call: Call, worker: Worker) -> Reply:
        wanted, search = call.query.get("modelId"), call.query.get("search")
        database = {} if self.switches.dead_database else self.db
        if wanted:
            row = worker.router.get(wanted) or database.get(wanted)
            rows = [row] if row else []
        else:
            rows = list(({**database, **worker.router} if search else worker.router).values())
            rows = [row for row in rows if (search or "").lower() in row.model_name.lower()]
        size, page = int(call.query.get("size", "50")), int(call.query.get("page", "1"))
        shown = b",".join(map(self.show, rows[size * (page - 1) : size * page]))
        pages = -(-len(rows) // size)
        tail = f'],"total_count":{len(rows)},"current_page":{page},"total_pages":{pages}'
        return Reply(200, b'{"data":[' + shown + tail.encode() + f',"size":{size}}}'.encode())

    async def _models(self, _call: Call, worker: Worker) -> Reply:
        names = dict.fromkeys(r.model_name for r in worker.router.values() if not r.blocked)
        return ok({"data": [{"id": name, "object": "model"} for name in names], "object": "list"})

    # ---- writes

    async def _new(self, call: Call, worker: Worker) -> Reply:
        body = call.json()
        params = body.get("litellm_params")
        if not isinstance(params, dict) or not isinstance(body.get("model_name"), str):
            return error(500, "Internal server error", _INTERNAL)
        if "model" not in params:
            where = ["body", "litellm_params", "model"]
            return detail(422, [{"type": "missing", "loc": where, "msg": "Field required"}])
        if (refused := self._without_database(_NOT_ADDED)) is not None:
            return refused
        async with self._slowly():
            row = self.create(worker, body["model_name"], params, body.get("model_info") or {})
        if row is None or self.switches.save_then_500:
            return self._answer(error(500, _NOT_ADDED))
        if row.id not in worker.router:
            return self._answer(error(500, _not_live(row), _INTERNAL))
        return self._answer(ok(self.written(row)))

    async def _patch(self, call: Call, worker: Worker) -> Reply:
        row_id = call.path.split("/")[2]
        if (refused := self._without_database(_DEAD, 500)) is not None:
            return refused
        async with self._slowly():
            # It may go while the write waits.
            if (missing := self._no_such(row_id)) is not None:
                return missing
            row = self.patch(worker, row_id, call.json())
        return self._answer(ok(self.written(row)))

    async def _block(self, call: Call, worker: Worker) -> Reply:
        row_id = str(call.json().get("model_id"))
        async with self._slowly():
            if (missing := self._no_such(row_id)) is not None:
                return missing
            blocked = call.path == "/model/block"
            row = self.patch(worker, row_id, {"blocked": blocked})
        return self._answer(ok(self.written(row)))

    def _no_such(self, row_id: str) -> Reply | None:
        if row_id in self.yaml and row_id not in self.db:
            said = "Cannot edit config-based model. Store model in DB via /model/new first."
            return error(400, said, "validation_error")
        if row_id not in self.db:
            return error(404, f"Model {row_id} not found on proxy.", "not_found_error")
        return None

    async def _delete(self, call: Call, worker: Worker) -> Reply:
        row_id = call.json().get("id")
        if not isinstance(row_id, str):
            return detail(
                422, [{"type": "missing", "loc": ["body", "id"], "msg": "Field required"}]
            )
        if (refused := self._without_database(_DEAD, 400)) is not None:
            return refused
        await self._sleep(self._speeds.delete_s)
        if not self.delete(worker, row_id):
            return error(400, f"{{'error': 'Model with id={row_id} not found in db'}}")
        return self._answer(ok({"message": f"Model: {row_id} deleted successfully"}))

    def _without_database(self, dead: str, status: int = 500) -> Reply | None:
        if self.switches.no_database:
            return error(500, _NO_DB)
        if not self.switches.store_models:
            return error(500, _NOT_STORED)
        return error(status, dead) if self.switches.dead_database else None

    @contextlib.asynccontextmanager
    async def _slowly(self) -> AsyncIterator[None]:
        """Let one write happen at a time, each as slow as the number of rows makes it."""
        async with self._writing:
            await self._sleep(self._speeds.write_s(len(self.db)))
            yield

    def _answer(self, reply: Reply) -> Reply:
        if self.switches.lose_answers <= 0:
            return reply
        self.switches.lose_answers -= 1
        return Reply(reply.status, reply.body, reply.headers, cut=True)

    # ---- completions

    async def _complete(self, call: Call, worker: Worker) -> Reply:
        name = call.json().get("model")
        rows = [r for r in worker.router.values() if name in (r.model_name, r.id)]
        if not rows:
            said = f"/chat/completions: Invalid model name passed in model={name}"
            return error(400, said, "invalid_request_error")
        usable = [row for row in rows if not row.blocked]
        if not usable:
            said = "litellm.PermissionDeniedError: Model is blocked"
            return error(403, said, "permission_error")
        for _ in range(3):
            self._turn += 1
            row = usable[self._turn % len(usable)]
            status, body = await self._forward(row, "/chat/completions", call.body)
            if 0 < status < 500:
                return Reply(status, body, {"x-litellm-model-id": row.id})
        return error(500, "litellm.InternalServerError: Hosted_vllmException", _INTERNAL)

    # ---- process

    async def _ready(self, _call: Call, _worker: Worker) -> Reply:
        if self.switches.no_database:
            return ok({"status": "healthy", "db": "Not connected"})
        dead = self.switches.dead_database
        said = {"status": "healthy", "db": "disconnected" if dead else "connected"}
        return Reply(503 if dead else 200, json.dumps(said).encode())

    async def _alive(self, _call: Call, _worker: Worker) -> Reply:
        return ok("I'm alive!")


def _not_live(row: Stored) -> str:
    return (
        f"Model create was saved to the database, but the model id(s) ['{row.id}'] are not live in "
        "this pod's router after the reload and are not being served by this pod."
    )
