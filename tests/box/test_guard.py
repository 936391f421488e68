"""The guard in front of vLLM: nothing but `/health` without the bearer."""

from typing import Any

import pytest
from box.install_set import RequireBearer

KEY = "sk-vllm-secret"


async def ask(path: str, headers: Any = (), kind: str = "http", key: str = KEY) -> int:
    """Return the status; 200 is the application's own."""
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        sent.append({"status": 200})

    async def send(message: Any) -> None:
        sent.append(message)

    await RequireBearer(app)({"type": kind, "path": path, "headers": list(headers)}, None, send)
    return int(sent[0].get("status") or sent[0]["code"])


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_API_KEY", KEY)


def bearer(text: bytes) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", text)]


OPEN_IN_VLLM = [
    "/invocations", "/generative_scoring", "/tokenize", "/detokenize", "/metrics", "/version",
    "/ping", "/load", "/docs", "/openapi.json", "/is_scaling_elastic_ep", "/v1/models",
    "/v1/chat/completions", "/health/", "//health", "/Health", "/health%20", "", "/health/../v1",
]  # fmt: skip


@pytest.mark.parametrize("path", OPEN_IN_VLLM)
async def test_every_path_asks_for_the_bearer(path: str) -> None:
    """Also those that vLLM leaves open, and what only looks like the one that is."""
    assert (401, 200) == (await ask(path), await ask(path, bearer(b"Bearer " + KEY.encode())))


async def test_health_is_for_everybody() -> None:
    """It tells nothing."""
    assert 200 == await ask("/health")
    assert 200 == await ask("/health", bearer(b"Bearer wrong"))


@pytest.mark.parametrize(
    "given",
    [
        b"",
        b"Bearer",
        b"Bearer ",
        b"Bearer wrong",
        b"Bearer  sk-vllm-secret",
        b"Bearer sk-vllm-secret ",
        b"Basic sk-vllm-secret",
        b"sk-vllm-secret",
        b"Bearer sk-vllm-secreT",
        b"Bearer \xff\xfe",
    ],
)
async def test_what_is_not_the_bearer(given: bytes) -> None:
    """One answer for all."""
    assert 401 == await ask("/v1/models", bearer(given))


async def test_two_headers_are_none() -> None:
    """Who sends two wants one of them to be overlooked."""
    good = bearer(b"Bearer " + KEY.encode())
    assert 401 == await ask("/v1/models", good + bearer(b"Bearer x"))


async def test_other_kinds_of_connection() -> None:
    """The server's own start passes; a websocket needs the bearer, too."""
    assert 200 == await ask("", kind="lifespan")
    assert 1008 == await ask("/health", kind="websocket")
    assert 200 == await ask("/v1/realtime", bearer(b"bearer " + KEY.encode()), "websocket")


def test_without_a_key_it_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty key would be no key."""
    monkeypatch.setenv("VLLM_API_KEY", "")
    with pytest.raises(RuntimeError, match="open to everybody"):
        RequireBearer(None)  # type: ignore[arg-type]
