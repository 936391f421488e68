"""What the other callers of a pool notice of requests that its members answer with 500."""

import asyncio
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from attrs import define
from tests.real.lab.process import free_port

from llmao_core.secret import Secret
from llmao_core.testing.fake_http import Answer, Request
from llmao_core.testing.fake_vllm import FakeVLLM
from llmao_web.shell.clock import SystemClock

from .conftest import Figures, Lab, NewLlmao
from .proxy import MODEL, Caller, Proxy
from .timing import pause, seconds_until

pytestmark = pytest.mark.real

ROUTED_S = 60
# A member that is cooled down is out at once, for `cooldown_time`: 10 s.
WATCHED_S = 5
HOSTS = ("127.0.0.5", "127.0.0.6")
MARK = "poison"
POISONED = 3


class Frail(FakeVLLM):
    """A vLLM that answers a marked request with 500, and everything else as it should."""

    poisoned = 0

    def receive(self, request: Request) -> Answer | None:
        """Answer one request."""
        if MARK.encode() not in request.body:
            return super().receive(request)
        self.poisoned += 1
        error = {"message": "list index out of range", "type": "InternalServerError", "code": 500}
        return Answer(500, json.dumps({"error": error}).encode())


@define
class Member:
    """One server of the pool, and its place in a configuration."""

    host: str
    port: int
    bearer: str
    vllm: Frail


@pytest.fixture
def pool(lab: Lab) -> Iterator[tuple[Member, ...]]:
    """Give the members of one pool; they live in an event loop of their own."""
    with _loop() as loop:
        members = tuple(_member(lab, host) for host in HOSTS)
        for each in members:
            asyncio.run_coroutine_threadsafe(each.vllm.start(), loop).result()
        yield members
        for each in members:
            asyncio.run_coroutine_threadsafe(each.vllm.stop(), loop).result()


def _member(lab: Lab, host: str) -> Member:
    port = free_port(host)
    bearer = lab.hidden.bearer(host, port)
    now = SystemClock().now
    vllm = Frail(now, Secret(bearer), address=host, port=port, served=(MODEL,), guarded=True)
    return Member(host, port, bearer, vllm)


@contextmanager
def _loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _poisons(proxy: Proxy) -> int:
    """Send one marked request that asks for a stream, and return the status of its answer."""
    messages = [{"role": "user", "content": MARK}]
    body = {"model": MODEL, "messages": messages, "max_tokens": 1, "stream": True}
    return proxy.request("POST", "/v1/chat/completions", json=body).status_code


def test_requests_that_make_members_fail_cost_nobody_else_one(
    proxy: Proxy, new_llmao: NewLlmao, pool: tuple[Member, ...], figures: Figures
) -> None:
    """Three streamed requests are answered 500 by whichever of two members is tried, as often as
    LiteLLM tries; with what llmao writes no member is cooled down for it: somebody who asks the
    same pool meanwhile sees no error."""
    llmao = new_llmao(*pool)
    llmao.start()
    seconds_until(lambda: len(proxy.bases()) == len(HOSTS), ROUTED_S, "both routed")
    for row in proxy.rows():
        assert proxy.answers(row["model_info"]["id"])
    with Caller(proxy) as caller:
        seconds_until(lambda: len(caller.asked) > 10, 60, "asking")
        with ThreadPoolExecutor(POISONED) as senders:
            said = list(senders.map(_poisons, [proxy] * POISONED))
        pause(WATCHED_S)
    figures("poisoned tries", " and ".join(str(each.vllm.poisoned) for each in pool))
    figures("meanwhile", caller.says())
    assert [500] * POISONED == said
    assert all(each.vllm.poisoned for each in pool)
    assert [] == caller.errors
