"""What is asked of one vLLM: a probe, a canary, a look at its open paths.

Rule of this file: asks and reports, decides nothing. The bearer goes only where this probe saw
a 401 without it and a 200 with it, or where identity was not due because it is proven.
"""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import httpx
from attrs import frozen

from llmao_core.config import Mode
from llmao_core.probes import (
    CanaryReport,
    Identity,
    OpenPathsReport,
    ProbeReport,
    Reply,
    ReplyKind,
    ServedModel,
)
from llmao_core.records import ProbeSpec
from llmao_core.secret import Secret

from .clock import Clock
from .metrics_text import read_counters
from .probe_http import Answered, ask, mask

MAX_METRICS_BYTES = 5_000_000
MAX_SERVED = 1000
_MAX_MODEL_LEN = 2**53
_MAX_NAME_CHARS = 512

# The share of the time-out in which a prompt answer comes. A /health that takes longer makes a
# suspect, whose /metrics is asked beside it.
_PROMPT = 0.25

# Paths that run the model or its tokenizer. {} is no valid request for any of them: a server
# that asks for no bearer says 400 or 422. What changes a server's state is not in here.
WORKING_PATHS = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/messages",
    "/v1/responses",
    "/v1/embeddings",
    "/v1/rerank",
    "/inference/v1/generate",
    "/invocations",
    "/generative_scoring",
    "/tokenize",
    "/detokenize",
    "/pooling",
    "/classify",
    "/score",
    "/rerank",
)
_CLOSED = frozenset((401, 403, 404, 405))

_CANARIES: Mapping[Mode, tuple[str, Mapping[str, Any]]] = {
    "chat": (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": "1"}], "max_tokens": 1},
    ),
    "completion": ("/v1/completions", {"prompt": "1", "max_tokens": 1}),
    "embedding": ("/v1/embeddings", {"input": "1"}),
    "rerank": ("/v1/rerank", {"query": "1", "documents": ["1"]}),
}


@frozen
class Steps:
    """The questions, with what they are asked with. Each ends within its time-out.

    Raises OSError when llmao itself cannot open a connection, and nothing else.
    """

    clock: Clock
    transport: httpx.AsyncBaseTransport
    timeout_s: float
    canary_timeout_s: float

    async def probe(self, spec: ProbeSpec) -> ProbeReport:
        """Probe one target.

        The steps follow each other on one connection while they are answered promptly, and run
        side by side when one is not: they share one time-out, so a dead target costs it once.
        """
        began, started = self.clock.now(), self.clock.monotonic()
        until = asyncio.get_running_loop().time() + self.timeout_s
        async with asyncio.TaskGroup() as group:
            identity = group.create_task(self._identity(spec, until)) if spec.identity else None
            health = group.create_task(self._health(spec, until, identity))
            metrics = group.create_task(self._metrics(spec, until, health, identity))
        told = metrics.result()
        counters = None
        if told is not None and told.reply.ok:
            counters = read_counters(told.body.decode("utf-8", "replace"))
        return ProbeReport(
            probed_at=began,
            took_s=self.clock.monotonic() - started,
            health=health.result().reply,
            identity=identity.result() if identity else None,
            metrics=told.reply if told else None,
            counters=counters,
        )

    async def canary(self, spec: ProbeSpec) -> CanaryReport:
        """Ask for completions of one token, all at once. Not streamed: a stream's 200 comes
        before its first token, and would make a hung engine look alive.
        """
        asked_at = self.clock.now()
        until = asyncio.get_running_loop().time() + self.canary_timeout_s
        path, body = _CANARIES[spec.mode]
        content = json.dumps({"model": spec.served, **body}).encode()
        async with asyncio.TaskGroup() as group:
            asked = [
                group.create_task(self._post(spec, path, until, content, spec.bearer))
                for _ in range(spec.canaries)
            ]
        answers = [task.result() for task in asked]
        return CanaryReport(
            asked_at=asked_at,
            answered_at=self.clock.now(),
            replies=tuple(_completed(answer) for answer in answers),
            any_byte=any(answer.heard for answer in answers),
        )

    async def open_paths(self, spec: ProbeSpec) -> OpenPathsReport | None:
        """Ask for work without a bearer; None when some path gave no answer and none was open."""
        asked_at = self.clock.now()
        until = asyncio.get_running_loop().time() + self.timeout_s
        async with asyncio.TaskGroup() as group:
            asked = {
                path: group.create_task(self._post(spec, path, until, b"{}"))
                for path in WORKING_PATHS
            }
        replies = {path: task.result().reply for path, task in asked.items()}
        answered = {
            path: reply.status
            for path, reply in replies.items()
            if reply.kind is ReplyKind.ANSWERED
        }
        found = tuple(path for path, status in answered.items() if status not in _CLOSED)
        if not found and len(answered) < len(replies):
            return None
        return OpenPathsReport(asked_at, found)

    async def _identity(self, spec: ProbeSpec, until: float) -> Identity:
        keyless, _ = await self._models(spec, until, None)
        if keyless.kind is not ReplyKind.ANSWERED or keyless.status != 401:
            return Identity(keyless)
        return Identity(keyless, *await self._models(spec, until, spec.bearer))

    async def _models(
        self, spec: ProbeSpec, until: float, bearer: Secret | None
    ) -> tuple[Reply, tuple[ServedModel, ...]]:
        """Ask `/v1/models`; a 2xx that lists no models is a broken answer, whoever gave it."""
        answer = await self._get(spec, "/v1/models", until, bearer)
        if not answer.reply.ok:
            return answer.reply, ()
        served = served_models(answer.body, spec.bearer)
        if served is None:
            said = f"HTTP {answer.reply.status}, and no list of models"
            return Reply(ReplyKind.BROKEN, said=said), ()
        return answer.reply, served

    async def _health(
        self, spec: ProbeSpec, until: float, identity: asyncio.Task[Identity] | None
    ) -> Answered:
        if identity is not None:
            await self._patience(identity)
        return await self._get(spec, "/health", until)

    async def _metrics(
        self,
        spec: ProbeSpec,
        until: float,
        health: asyncio.Task[Answered],
        identity: asyncio.Task[Identity] | None,
    ) -> Answered | None:
        if identity is not None and not _proven(await identity):
            return None
        await self._patience(health)
        suspect = not health.done() or not health.result().reply.ok
        if not spec.metrics and not suspect:
            return None
        url = spec.target.base + "/metrics"
        return await ask(
            self.transport, "GET", url, until, bearer=spec.bearer, max_bytes=MAX_METRICS_BYTES
        )

    async def _patience(self, step: asyncio.Task[Any]) -> None:
        """Wait for a step, but no longer than a prompt answer takes."""
        await asyncio.wait((step,), timeout=self.timeout_s * _PROMPT)

    async def _get(
        self, spec: ProbeSpec, path: str, until: float, bearer: Secret | None = None
    ) -> Answered:
        return await ask(self.transport, "GET", spec.target.base + path, until, bearer=bearer)

    async def _post(
        self,
        spec: ProbeSpec,
        path: str,
        until: float,
        content: bytes,
        bearer: Secret | None = None,
    ) -> Answered:
        return await ask(
            self.transport, "POST", spec.target.base + path, until, bearer=bearer, content=content
        )


def can_ask_canary(spec: ProbeSpec) -> bool:
    """Tell whether there is a request that this model could complete."""
    return spec.canaries > 0 and spec.mode in _CANARIES


def _proven(identity: Identity) -> bool:
    return identity.keyed is not None and identity.keyed.ok


def _completed(answer: Answered) -> Reply:
    """Return the reply, where a 2xx that holds no JSON object completes nothing."""
    if answer.reply.ok and not isinstance(_json(answer.body), dict):
        return Reply(ReplyKind.BROKEN, said=f"HTTP {answer.reply.status}, and no JSON")
    return answer.reply


# ---- /v1/models


def served_models(body: bytes, bearer: Secret) -> tuple[ServedModel, ...] | None:
    """Return what `/v1/models` lists; None when it is no such list.

    Entries that make no sense are left out; when all are, it is no list.
    """
    answer = _json(body)
    listed = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(listed, list):
        return None
    models = (_served_model(entry, bearer) for entry in listed[:MAX_SERVED])
    served = tuple(model for model in models if model is not None)
    return None if listed and not served else served


def _served_model(entry: object, bearer: Secret) -> ServedModel | None:
    if not isinstance(entry, dict):
        return None
    name, root, length = entry.get("id"), entry.get("root"), entry.get("max_model_len")
    if not isinstance(name, str) or not 0 < len(name) <= _MAX_NAME_CHARS or not name.isprintable():
        return None
    # a bool is an int, and True is no length
    known = type(length) is int and 0 < length < _MAX_MODEL_LEN
    return ServedModel(
        id=name.replace(bearer.reveal(), "…") if bearer else name,
        root=mask(root, bearer) if isinstance(root, str) else "",
        max_model_len=length if known else None,
    )


def _json(body: bytes) -> object:
    """Return what the JSON says; None for what is none, however it is broken."""
    try:
        parsed: object = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return parsed
