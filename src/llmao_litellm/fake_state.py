"""What a LiteLLM proxy keeps: a database of rows, and one router per worker that lags behind it.

Rule of this file: the rows and how they change, as recorded on LiteLLM 1.105.0; no HTTP, no
waiting, and the time is asked of whoever made it. For tests, simulation, benchmarks and demo.
"""

import base64
import hashlib
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from attrs import define, evolve, field, frozen

FLAGS = (
    "use_xai_oauth",
    "use_litellm_proxy",
    "use_in_pass_through",
    "allow_client_keepalive_override",
    "merge_reasoning_content_in_choices",
)
_HIDDEN = frozenset(("api_key", "client_secret", "aws_access_key_id", "aws_secret_access_key"))
_SECRET_PARTS = frozenset(("key", "token", "password", "secret", "authorization", "credential"))
_KNOWN_NULLS = (
    "max_tokens",
    "max_input_tokens",
    "max_output_tokens",
    "input_cost_per_token",
    "output_cost_per_token",
    "mode",
    "supports_vision",
    "supports_function_calling",
    "tpm",
    "rpm",
)
_NULLS: Mapping[str, None] = dict.fromkeys(
    (*_KNOWN_NULLS, *(f"input_cost_per_unit_{n}" for n in range(156 - len(_KNOWN_NULLS))))
)
_OPENAI_PARAMS = ("frequency_penalty", "logprobs", "max_tokens", "n", "seed", "stop", "stream",
                  "temperature", "tool_choice", "tools", "top_p", "response_format")  # fmt: skip

Fields = Mapping[str, Any]


@frozen
class Stored:
    """One row. params and info are what was written, in clear; db: false for a YAML row."""

    id: str
    model_name: str
    params: Fields
    info: Fields
    blocked: bool = False
    db: bool = True
    created_at: float = 0.0
    updated_at: float = 0.0

    @property
    def loadable(self) -> bool:
        """Tell whether a router can serve it: LiteLLM must know the provider."""
        return "/" in str(self.params.get("model"))


@define
class Worker:
    """One worker process. health_list: the copy that `/health` checks, renewed less often."""

    router: dict[str, Stored] = field(factory=dict)
    health_list: dict[str, Stored] = field(factory=dict)
    synced_at: float = 0.0


@define
class Switches:
    """What goes wrong; each is off, or as the real proxy does it, until a test says otherwise.

    save_then_500: a create is stored and answered 500. not_live: stored, and no router loads it.
    empty_list: `/model/info` is empty, and 200. plain: answers neither mask nor pad.
    null_removes: a null in a PATCH removes the key. ghost_after_delete: a deleted row is listed
    and routed until the next poll. duplicate_on_retry: a second create of an id makes a second
    row. slow_list_s: a list takes so long. lose_answers: so many of the next writes are carried
    out and never answered. dead_database, no_database, store_models: of the proxy itself.
    """

    save_then_500: bool = False
    not_live: bool = False
    empty_list: bool = False
    plain: bool = False
    null_removes: bool = False
    ghost_after_delete: bool = False
    duplicate_on_retry: bool = False
    slow_list_s: float = 0.0
    lose_answers: int = 0
    dead_database: bool = False
    no_database: bool = False
    store_models: bool = True
    background_checks: bool = False


class State:
    """The rows of one proxy: what its database holds and what each worker has loaded of it."""

    def __init__(
        self, now: Callable[[], float], workers: int = 1, poll_interval_s: float = 30.0
    ) -> None:
        """Say what time it is, how many workers serve, and how often each reloads."""
        self.now = now
        self.poll_interval_s = poll_interval_s
        self.switches = Switches()
        self.db: dict[str, Stored] = {}
        self.yaml: dict[str, Stored] = {}
        self.workers = [Worker(synced_at=now()) for _ in range(workers)]
        self.aliases: dict[str, str] = {}
        self._yaml_file: dict[str, Stored] = {}
        self._made_ids = 0
        self._unloadable: set[str] = set()
        self._shown: dict[str, tuple[Stored, bool, bytes]] = {}

    # ---- workers

    def load(self, worker: Worker, *, polled: bool = False) -> None:
        """Make a worker's router what the database says; a dead database changes nothing."""
        if polled:
            worker.synced_at = self.now()
        if self.switches.dead_database:
            return
        rows = dict(self.db)
        for row_id in self._unloadable:
            rows.pop(row_id, None)
        if self.switches.not_live:
            rows = {row_id: row for row_id, row in rows.items() if row_id in worker.router}
        worker.router = {**self.yaml, **({} if polled else self._ghosts(worker)), **rows}
        worker.health_list = dict(worker.router)

    def _ghosts(self, worker: Worker) -> dict[str, Stored]:
        if not self.switches.ghost_after_delete:
            return {}
        return {k: row for k, row in worker.router.items() if row.db and k not in self.db}

    def poll(self, worker: Worker) -> None:
        """Reload a worker if its time has come."""
        if self.now() - worker.synced_at >= self.poll_interval_s:
            self.load(worker, polled=True)

    def restart(self) -> None:
        """Start all workers anew from YAML and database."""
        self.yaml = dict(self._yaml_file)
        for worker in self.workers:
            self.load(worker, polled=True)

    # ---- writes, as LiteLLM makes them

    def create(self, worker: Worker, name: str, params: Fields, info: Fields) -> Stored | None:
        """Store a new row; None when its id is taken."""
        row_id = str(info.get("id") or self._make_id())
        if row_id in self.db:
            if not self.switches.duplicate_on_retry:
                return None
            row_id = self._make_id()
        at = self.now()
        row = Stored(
            id=row_id,
            model_name=name,
            params=dict.fromkeys(FLAGS, False) | _given(params),
            info=_given(info) | {"id": row_id},
            created_at=at,
            updated_at=at,
        )
        self._put(row)
        # A row under the id of a YAML deployment takes its place until the proxy restarts.
        self.yaml.pop(row_id, None)
        self.load(worker)
        return row

    def _put(self, row: Stored) -> None:
        self.db[row.id] = row
        self._unloadable.discard(row.id)
        if not row.loadable:
            self._unloadable.add(row.id)

    def _make_id(self) -> str:
        self._made_ids += 1
        digest = hashlib.sha256(str(self._made_ids).encode()).hexdigest()
        return f"{digest[:8]}-{digest[8:12]}-4{digest[13:16]}-a{digest[17:20]}-{digest[20:32]}"

    def patch(self, worker: Worker, row_id: str, change: Fields) -> Stored:
        """Merge a change into a row, one level deep; flags that are not repeated are reset."""
        row = self.db[row_id]
        params, info = row.params, row.info
        if isinstance(change.get("litellm_params"), dict):
            reset = {k: v for k, v in params.items() if k not in FLAGS}
            params = self._merge(dict.fromkeys(FLAGS, False) | reset, change["litellm_params"])
        if isinstance(change.get("model_info"), dict):
            made = {"id": change["model_info"].get("id") or self._make_id()}
            info = self._merge(info, change["model_info"]) | made
        blocked = change.get("blocked")
        row = evolve(
            row,
            model_name=change.get("model_name") or row.model_name,
            params=params,
            info=info,
            blocked=row.blocked if blocked is None else bool(blocked),
            updated_at=self.now(),
        )
        self._put(row)
        self.load(worker)
        return row

    def _merge(self, fields: Fields, change: Fields) -> dict[str, Any]:
        merged = {**fields, **_given(change)}
        if self.switches.null_removes:
            merged = {k: v for k, v in merged.items() if k not in change or change[k] is not None}
        return merged

    def delete(self, worker: Worker, row_id: str) -> bool:
        """Delete a row from the database and one router; false when there is none."""
        if self.db.pop(row_id, None) is None:
            return False
        if not self.switches.ghost_after_delete:
            worker.router.pop(row_id, None)
        return True

    # ---- behind its back: what a test or a person with another tool does

    def truth(self) -> dict[str, Stored]:
        """Return the rows of the database, by id."""
        return dict(self.db)

    def plant(
        self, name: str, params: Fields, info: Fields | None = None, *, live: bool = True
    ) -> str:
        """Put a row straight into the database, and into every router if live; return its id."""
        row_id = str((info or {}).get("id") or self._make_id())
        given = {**(info or {}), "id": row_id}
        row = Stored(row_id, name, dict.fromkeys(FLAGS, False) | dict(params), given)
        self._put(row)
        if live:
            self._everywhere(row_id, row)
        return row_id

    def plant_yaml(self, name: str, params: Fields, row_id: str) -> None:
        """Put a deployment into the proxy's YAML file and restart it."""
        row = Stored(row_id, name, dict(params), {"id": row_id}, db=False)
        self._yaml_file[row_id] = row
        self.restart()

    def edit(
        self,
        row_id: str,
        *,
        params: Fields | None = None,
        info: Fields | None = None,
        blocked: bool | None = None,
        model_name: str | None = None,
    ) -> None:
        """Change a row by hand, seen by every worker."""
        row = self.db[row_id]
        row = evolve(
            row,
            model_name=model_name or row.model_name,
            params={**row.params, **(params or {})},
            info={**row.info, **(info or {})},
            blocked=row.blocked if blocked is None else blocked,
        )
        self._put(row)
        self._everywhere(row_id, row)

    def remove(self, row_id: str) -> None:
        """Delete a row by hand, seen by every worker."""
        del self.db[row_id]
        self._everywhere(row_id, None)

    def empty(self) -> None:
        """Lose every row of the database, as an upgrade gone wrong does."""
        self.db.clear()
        self.restart()

    def _everywhere(self, row_id: str, row: Stored | None) -> None:
        for worker in self.workers:
            for listed in (worker.router, worker.health_list):
                listed.pop(row_id, None)
                if row is not None and row.loadable:
                    listed[row_id] = row

    # ---- how rows are shown

    def listing(self, worker: Worker) -> list[bytes]:
        """Return the entries of `/model/info`, encoded: the router's rows, then aliases."""
        if self.switches.empty_list:
            return []
        shown = [self.show(row) for row in worker.router.values()]
        for alias, name in self.aliases.items():
            copies = [row for row in worker.router.values() if row.model_name == name]
            shown += [_encode(self._entry(evolve(row, model_name=alias))) for row in copies]
        return shown

    def show(self, row: Stored) -> bytes:
        """Return one entry of `/model/info`, encoded; kept until the row changes."""
        kept = self._shown.get(row.id)
        if kept is None or kept[0] is not row or kept[1] != self.switches.plain:
            kept = (row, self.switches.plain, _encode(self._entry(row)))
            self._shown[row.id] = kept
        return kept[2]

    def _entry(self, row: Stored) -> dict[str, Any]:
        plain = self.switches.plain
        model = str(row.params.get("model"))
        own = {**row.info, "id": row.id, "db_model": row.db, "member_auto_router": False}
        more: dict[str, Any] = {
            "access_via_team_ids": [],
            "direct_access": True,
            "pricing_overrides": [],
            "key": model,
            "litellm_provider": model.partition("/")[0],
            "supported_openai_params": _OPENAI_PARAMS,
            **_NULLS,
        }
        return {
            "model_name": row.model_name,
            "litellm_params": dict(row.params) if plain else _masked(row.params),
            "model_info": {
                **({} if plain else more),
                **own,
                **({"blocked": row.blocked} if row.db else {}),
            },
        }

    def written(self, row: Stored) -> dict[str, Any]:
        """Return a row as the answer to a write shows it: every string of its params unreadable."""
        at = [datetime.fromtimestamp(t, UTC).isoformat() for t in (row.created_at, row.updated_at)]
        return {
            "model_id": row.id,
            "model_name": row.model_name,
            "litellm_params": {
                k: _cipher(v, row.updated_at) if isinstance(v, str) else v
                for k, v in row.params.items()
            },
            "model_info": {**row.info, "db_model": False, "member_auto_router": False},
            "blocked": row.blocked,
            "created_at": at[0],
            "updated_at": at[1],
        }


def _given(fields: Fields) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _encode(entry: object) -> bytes:
    return json.dumps(entry, separators=(",", ":")).encode()


def _cipher(text: str, nonce: float) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(f"{nonce} {text}".encode()).digest()).decode()


def _masked(params: Fields) -> dict[str, Any]:
    return {k: _mask(k, v) for k, v in params.items() if k not in _HIDDEN}


def _mask(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _mask(k, v) for k, v in value.items()}
    if not _SECRET_PARTS.intersection(name.lower().replace("-", "_").split("_")):
        return value
    text = str(value)
    return "*" * len(text) if len(text) <= 8 else f"{text[:4]}{'*' * (len(text) - 8)}{text[-4:]}"
