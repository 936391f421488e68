"""A fake proxy, its clock and a client that reaches it."""

from collections.abc import AsyncIterator

import httpx
import pytest
from tests.litellm.helpers import Hands, reached

from llmao_litellm import plugin
from llmao_litellm.fake import FakeLiteLLM


@pytest.fixture
def hands() -> Hands:
    return Hands()


@pytest.fixture
def proxy(hands: Hands) -> FakeLiteLLM:
    return FakeLiteLLM(hands, sleep=hands.sleep)


@pytest.fixture
async def http(proxy: FakeLiteLLM) -> AsyncIterator[httpx.AsyncClient]:
    async with reached(proxy) as client:
        yield client


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait for results that a real proxy saves a moment after it has answered."""
    monkeypatch.setattr(plugin, "_SAVED_AFTER_S", (0.0,))
