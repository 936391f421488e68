"""Orders, bodies and a proxy that answers whatever it is told, for the tests beside this file."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from llmao_core.actions import ActionKind, Order, RowBody
from llmao_core.hooks import FetchRequest
from llmao_core.keys import box_key
from llmao_core.secret import Secret
from llmao_litellm.fake import MASTER_KEY, FakeLiteLLM

NOW = 1_800_000_000.0
URL = "http://127.0.0.1:4000"
BEARER = "sk-vllm-bearer-of-the-box"
KEY = box_key("127.0.0.2", 8001, "qwen3")
ID = "llmao-" + "a" * 32


class Hands:
    """A clock that a test turns by hand; its sleep takes no time."""

    def __init__(self, at: float = NOW) -> None:
        self.at = at

    def __call__(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += seconds


def body(base: str = "http://127.0.0.2:8001", /, row_id: str = ID, **params: Any) -> RowBody:
    """Return a whole deployment as core writes it."""
    given = {"model": "hosted_vllm/qwen3", "timeout": 600, **params}
    digest = hashlib.sha256(repr(sorted(given.items())).encode()).hexdigest()[:32]
    info = {
        "id": row_id,
        "llmao_key": KEY.base,
        "llmao_fleet": "main",
        "llmao_hash": digest,
        "asf_api_base": base,
        "self_hosted": True,
        "access_groups": ["team-a"],
        "allowed_fails": 5,
    }
    return RowBody("qwen3", f"{base}/v1", given, info, Secret(BEARER))


def order(kind: ActionKind, written: RowBody | None = None, target: str = ID) -> Order:
    return Order(kind, "litellm", KEY, target, written)


def request(source: str = "litellm", key: str = MASTER_KEY, **more: Any) -> FetchRequest:
    return FetchRequest(source, URL, Secret(key), **more)


@asynccontextmanager
async def reached(proxy: FakeLiteLLM) -> AsyncIterator[httpx.AsyncClient]:
    """Give a client whose every request ends at this proxy."""
    async with httpx.AsyncClient(transport=proxy.transport()) as http:
        yield http


def saying(status: int, content: bytes = b"", **headers: str) -> httpx.AsyncClient:
    """Return a client that gets one and the same answer to everything."""

    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(status, content=content, headers=headers)

    return httpx.AsyncClient(transport=httpx.MockTransport(answer))


def failing(error: type[httpx.TransportError], text: str = "") -> httpx.AsyncClient:
    """Return a client whose every request ends in this error."""

    def fail(sent: httpx.Request) -> httpx.Response:
        raise error(text, request=sent)

    return httpx.AsyncClient(transport=httpx.MockTransport(fail))
