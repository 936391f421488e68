"""A vLLM for tests, simulation, kit and demo: answers as the real one does, breaks on command.

Rule of this file: what is served is what vLLM 0.32.0 was seen to serve: paths, status codes,
bodies, metric names. Nothing runs in the background; counters follow from the time handed in.
"""

import enum
import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from attrs import field, frozen

from llmao_core.secret import Secret

from .fake_http import Answer, LoopbackServer, Request
from .fake_vllm_metrics import Load, Tally, metrics_text

GUARDED_PREFIXES = ("/v1", "/v2", "/inference", "/cohere")
_LOG_LENGTH = 10_000
_HTML = b"<html><head><title>Welcome</title></head><body>It works!</body></html>"
_JSON = Mapping[str, Any]
_Route = Callable[[Request], Answer | None]


class Mode(enum.Enum):
    """What is wrong with it. The value says what a client sees."""

    SERVES = "serves"
    LOADING = "the port is bound, and refuses"
    REFUSES = "nobody listens"
    HANGS = "accepts, and never answers"
    FROZEN = "/health 200, requests run, counters stand still, completions hang"
    SLOW = "/health and completions take slow_s, counters move"
    WRONG_KEY = "refuses our bearer"
    WRONG_MODEL = "serves another name"
    KEYLESS = "answers without a bearer"
    DEAD_ENGINE = "/health 503, completions 500"
    FULL = "completions 503"
    GARBLED = "HTML for everything"


_DOWN = (Mode.LOADING, Mode.REFUSES)
_STILL = (Mode.HANGS, Mode.FROZEN, Mode.DEAD_ENGINE, *_DOWN)
_BUSY = Load(running=8, waiting=8, kv_usage=0.9, generated_per_s=100.0)
_IMPLIED = {Mode.SLOW: _BUSY, Mode.FROZEN: _BUSY}


@frozen
class Seen:
    """One request it got. status: None when it is never answered."""

    at: float
    method: str
    path: str
    bearer: Secret | None
    status: int | None
    body: bytes = field(default=b"", repr=False)


class FakeVLLM:
    """One vLLM at one loopback address and port; everything public may be changed while it runs.

    now: epoch seconds. port: 0 takes a free one and keeps it. served: the first is the model's
    metrics label. task: what the model can do. guarded: llmao's own guard is in front, so that
    everything but /health asks for the bearer. slow_s: how long SLOW takes, on the event loop.
    """

    def __init__(
        self,
        now: Callable[[], float],
        bearer: Secret,
        *,
        address: str = "127.0.0.2",
        port: int = 0,
        served: Sequence[str] = ("tiny",),
        root: str = "",
        max_model_len: int = 256,
        kv_tokens: int = 1280,
        task: Literal["generate", "embed", "rerank"] = "generate",
        guarded: bool = False,
        slow_s: float = 40.0,
        mode: Mode = Mode.SERVES,
    ) -> None:
        self.bearer = bearer
        self.served = tuple(served)
        self.root = root
        self.max_model_len = max_model_len
        self.kv_tokens = kv_tokens
        self.task = task
        self.guarded = guarded
        self.slow_s = slow_s
        self.seen: deque[Seen] = deque(maxlen=_LOG_LENGTH)
        self._now = now
        self._mode = mode
        self._started = False
        self._load = Load()
        self._tally = Tally(created=now())
        self._server = LoopbackServer(address, port, self.receive)
        self._routes = self._table()

    def _table(self) -> Mapping[str, Mapping[str, _Route]]:
        return {
            "/health": {"GET": self._health},
            "/ping": {"GET": self._health},
            "/version": {"GET": self._version},
            "/metrics": {"GET": self._metrics},
            "/v1/models": {"GET": self._models},
            "/tokenize": {"POST": self._tokenize},
            "/detokenize": {"POST": self._detokenize},
            "/is_scaling_elastic_ep": {"POST": self._elastic},
            "/invocations": {"POST": self._work},
            **{path: {"POST": self._work} for path in _TASKS},
        }

    @property
    def base(self) -> str:
        """Return the root to dial, without /v1."""
        address = self._server.address
        shown = f"[{address}]" if ":" in address else address
        return f"http://{shown}:{self._server.port}"

    @property
    def port(self) -> int:
        """Return the port; 0 before it was first bound."""
        return self._server.port

    @property
    def mode(self) -> Mode:
        """Return what is wrong with it."""
        return self._mode

    @mode.setter
    def mode(self, mode: Mode) -> None:
        """Break or mend it now; coming back from a shut port is a restart."""
        self._settle()
        if self._mode in _DOWN and mode not in _DOWN:
            self._tally = Tally(created=self._now())
        self._mode = mode
        if self._started:
            self._set_port()

    @property
    def load(self) -> Load:
        """Return what it is doing."""
        return self._load

    @load.setter
    def load(self, load: Load) -> None:
        """Do something else from now on."""
        self._settle()
        self._load = load

    async def start(self) -> None:
        """Open the port, or hold it shut if the mode says so."""
        self._started = True
        self._set_port()

    async def stop(self) -> None:
        """Shut the port and drop every connection; new ones are refused."""
        self._started = False
        self._server.close()

    def _set_port(self) -> None:
        if self._mode in _DOWN:
            self._server.hold()
        else:
            self._server.listen()

    def _settle(self) -> None:
        """Bring the counters up to now; a server that stands still counts nothing."""
        load = Load() if self._mode in _STILL else self._doing()
        self._tally = self._tally.after(load, self._now())

    def _doing(self) -> Load:
        """Return the load, or the one a mode cannot be without."""
        if self._load.running == 0:
            return _IMPLIED.get(self._mode, self._load)
        return self._load

    def receive(self, request: Request) -> Answer | None:
        """Answer one request, with or without a socket; None is never answered."""
        answer = self._answer(request)
        bearer = _presented(request)
        status = answer.status if answer else None
        self.seen.append(
            Seen(self._now(), request.method, request.path, bearer, status, request.body)
        )
        return answer

    def _answer(self, request: Request) -> Answer | None:
        if self._mode is Mode.HANGS:
            return None
        if self._mode is Mode.GARBLED:
            return Answer(200, _HTML, "text/html")
        if not self._lets_in(request):
            return Answer(401, b'{"error":"Unauthorized"}')
        methods = self._routes.get(request.path)
        if methods is None:
            return Answer(404, b'{"detail":"Not Found"}')
        route = methods.get(request.method)
        if route is None:
            return Answer(405, b'{"detail":"Method Not Allowed"}')
        return route(request)

    def _lets_in(self, request: Request) -> bool:
        if self._mode is Mode.KEYLESS or request.path == "/health":
            return True
        if not self.guarded and (
            request.method == "OPTIONS" or not request.path.startswith(GUARDED_PREFIXES)
        ):
            return True
        bearer = _presented(request)
        return self._mode is not Mode.WRONG_KEY and bearer == self.bearer

    def _names(self) -> tuple[str, ...]:
        return ("another-model",) if self._mode is Mode.WRONG_MODEL else self.served

    # ---- what the paths answer

    def _health(self, _: Request) -> Answer:
        if self._mode is Mode.DEAD_ENGINE:
            return Answer(503)
        return Answer(200, delay_s=self.slow_s if self._mode is Mode.SLOW else 0.0)

    def _version(self, _: Request) -> Answer:
        return _json({"version": "0.32.0"})

    def _metrics(self, _: Request) -> Answer:
        self._settle()
        text = metrics_text(self._names()[0], self._doing(), self._tally, self.kv_tokens)
        return Answer(200, text.encode(), "text/plain; version=1.0.0; charset=utf-8")

    def _models(self, _: Request) -> Answer:
        created = int(self._now())
        return _json(
            {"object": "list", "data": [self._model(name, created) for name in self._names()]}
        )

    def _model(self, name: str, created: int) -> _JSON:
        permission = {
            "id": f"modelperm-{created:016x}",
            "object": "model_permission",
            "created": created,
            "allow_sampling": True,
            "organization": "*",
            "is_blocking": False,
        }
        return {
            "id": name,
            "object": "model",
            "created": created,
            "owned_by": "vllm",
            "root": self.root or name,
            "parent": None,
            "max_model_len": self.max_model_len,
            "permission": [permission],
        }

    def _tokenize(self, request: Request) -> Answer:
        prompt = _body(request).get("prompt")
        if not isinstance(prompt, str):
            return _error(400, "BadRequestError", "prompt or messages is required", "prompt")
        tokens = list(range(len(prompt.split())))
        length = self.max_model_len
        return _json({"count": len(tokens), "max_model_len": length, "tokens": tokens})

    def _detokenize(self, request: Request) -> Answer:
        tokens = _body(request).get("tokens")
        if not isinstance(tokens, list):
            return _error(400, "BadRequestError", "tokens is required", "tokens")
        return _json({"prompt": " ".join("word" for _ in tokens)})

    def _elastic(self, _: Request) -> Answer:
        return _json({"is_scaling_elastic_ep": False})

    def _work(self, request: Request) -> Answer | None:
        """Run one request on the engine, however it came in."""
        body = _body(request)
        refusal = self._refusal(request.path, body)
        if refusal is not None:
            return refusal
        if self._mode is Mode.FROZEN:
            return None
        if self._mode is Mode.DEAD_ENGINE:
            return _error(500, "InternalServerError", "EngineCore encountered an issue.")
        if self._mode is Mode.FULL:
            said = "The engine is currently busy and cannot accept new requests."
            return _error(503, "Service Unavailable", said)
        return self._completion(body)

    def _refusal(self, path: str, body: _JSON) -> Answer | None:
        if not body.keys() & _INPUTS:
            return _error(400, "Bad Request", "1 validation error: a field is required")
        if self.task not in _TASKS.get(path, (self.task,)):
            return _error(400, "BadRequestError", f"The model does not support {path}")
        name = body.get("model")
        if name is not None and name not in self._names():
            known = ", ".join(self._names())
            said = f"The model `{name}` does not exist. Valid aliases: {known}."
            return _error(404, "NotFoundError", said, "model")
        if _wanted(body) > self.max_model_len:
            said = f"max_tokens is too large; the context length is {self.max_model_len}"
            return _error(400, "BadRequestError", said, "max_tokens")
        return None

    def _completion(self, body: _JSON) -> Answer:
        self._settle()
        tokens = _wanted(body) if self.task == "generate" else 0
        self._tally = self._tally.served(prompt=_PROMPT_TOKENS, generated=tokens)
        usage = {
            "prompt_tokens": _PROMPT_TOKENS,
            "total_tokens": _PROMPT_TOKENS + tokens,
            "completion_tokens": tokens,
        }
        answer = _result(self.task, body, "word " * tokens)
        delay_s = self.slow_s if self._mode is Mode.SLOW else 0.0
        head = {"id": "cmpl-1", "created": int(self._now()), "model": self._names()[0]}
        return _json({**head, **answer, "usage": usage}, delay_s)


_PROMPT_TOKENS = 5
_DEFAULT_TOKENS = 16
_INPUTS = frozenset({"messages", "prompt", "input", "query", "queries", "items"})
_TASKS: Mapping[str, tuple[str, ...]] = {
    "/v1/chat/completions": ("generate",),
    "/v1/completions": ("generate",),
    "/v1/messages": ("generate",),
    "/v1/responses": ("generate",),
    "/generative_scoring": ("generate",),
    "/v1/embeddings": ("embed",),
    "/v1/rerank": ("rerank",),
}


def _presented(request: Request) -> Secret | None:
    """Return the bearer as vLLM reads it: the scheme in any case, then one space."""
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    return Secret(value) if scheme.lower() == "bearer" and value else None


def _body(request: Request) -> _JSON:
    try:
        body = json.loads(request.body)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _wanted(body: _JSON) -> int:
    wanted = body.get("max_tokens")
    return wanted if isinstance(wanted, int) and wanted >= 0 else _DEFAULT_TOKENS


def _result(task: str, body: _JSON, text: str) -> _JSON:
    if task == "embed":
        vector = {"object": "embedding", "index": 0, "embedding": [0.6, 0.8]}
        return {"object": "list", "data": [vector]}
    if task == "rerank":
        return {"results": [{"index": 0, "relevance_score": 0.5}]}
    choice: dict[str, object] = {"index": 0, "finish_reason": "length"}
    if "messages" in body:
        message = {"role": "assistant", "content": text}
        return {"object": "chat.completion", "choices": [{**choice, "message": message}]}
    return {"object": "text_completion", "choices": [{**choice, "text": text}]}


def _json(body: _JSON, delay_s: float = 0.0) -> Answer:
    return Answer(200, json.dumps(body, separators=(",", ":")).encode(), delay_s=delay_s)


def _error(status: int, kind: str, message: str, param: str | None = None) -> Answer:
    error = {"message": message, "type": kind, "param": param, "code": status}
    return Answer(status, json.dumps({"error": error}).encode())
