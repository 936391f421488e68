"""How the fake proxy reaches the servers behind it: checks them and sends requests on.

Rule of this file: it dials loopback and nothing else, whatever a row says.
"""

import ipaddress
import json
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

import httpx

from .fake_state import Stored

# The error that a check found, "" when the server answered as it should.
Checker = Callable[[Stored], Awaitable[str]]
# Sends a request body on to a row and returns status and body; 0 when it cannot connect.
Forwarder = Callable[[Stored, str, bytes], Awaitable[tuple[int, bytes]]]


async def always_healthy(row: Stored) -> str:  # noqa: ARG001  a Checker
    """Find nothing wrong with any row."""
    return ""


async def canned(row: Stored, path: str, body: bytes) -> tuple[int, bytes]:  # noqa: ARG001
    """Answer any completion without asking anybody; the answer names the row."""
    message = {"role": "assistant", "content": row.id}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return 200, json.dumps({"object": "chat.completion", "choices": [choice]}).encode()


def is_loopback(url: str) -> bool:
    """Tell whether a URL leads to this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Dialler:
    """Really asks the `api_base` of a row, on loopback; serves as checker and as forwarder."""

    def __init__(self, http: httpx.AsyncClient, check_timeout_s: float = 10.0) -> None:
        self._http = http
        self._check_timeout_s = check_timeout_s

    async def check(self, row: Stored) -> str:
        """Ask for one completion, as LiteLLM's health check does."""
        embeds = row.info.get("mode") == "embedding"
        path = "/embeddings" if embeds else "/chat/completions"
        asked = {"input": ["test"]} if embeds else {"messages": [_MESSAGE], "max_tokens": 16}
        limit = row.info.get("health_check_timeout") or self._check_timeout_s
        body = json.dumps({"model": _model(row), **asked}).encode()
        try:
            status, answer = await self._post(row, path, body, float(limit))
        except httpx.TimeoutException:
            return "Timeout exceeded"
        if status == 0:
            return (
                "litellm.InternalServerError: InternalServerError: Hosted_vllmException - "
                f"Cannot connect to host {urlsplit(_base(row)).netloc}"
            )
        return "" if status == 200 else f"Hosted_vllmException - {status} {answer[:100]!r}"

    async def forward(self, row: Stored, path: str, body: bytes) -> tuple[int, bytes]:
        """Send a request on, the model's name replaced by the row's own."""
        changed = json.dumps({**json.loads(body), "model": _model(row)}).encode()
        limit = float(row.params.get("timeout") or 600)
        try:
            return await self._post(row, path, changed, limit)
        except httpx.TimeoutException:
            return 408, b""

    async def _post(
        self, row: Stored, path: str, body: bytes, timeout_s: float
    ) -> tuple[int, bytes]:
        if not is_loopback(_base(row)):
            return 0, b""
        bearer = row.params.get("api_key") or "fake-api-key"
        headers = {"Authorization": f"Bearer {bearer}", "Content-Type": "application/json"}
        try:
            answer = await self._http.post(
                _base(row).rstrip("/") + path, content=body, headers=headers, timeout=timeout_s
            )
        except httpx.TimeoutException:
            raise
        except httpx.HTTPError:
            return 0, b""
        return answer.status_code, answer.content


_MESSAGE = {"role": "user", "content": "What's 1 + 1?"}


def _base(row: Stored) -> str:
    return str(row.params.get("api_base") or "")


def _model(row: Stored) -> str:
    return str(row.params.get("model")).partition("/")[2]
