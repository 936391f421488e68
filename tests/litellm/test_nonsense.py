"""Whatever a proxy answers: an error of ours or a good read, and never a secret in the words."""

import asyncio
import json
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.litellm.helpers import BEARER, ID, NOW, body, order, request

from llmao_core.actions import ActionKind, Outcome
from llmao_core.config import Config, LitellmConfig
from llmao_core.errors import ExecuteError, FetchError, OutcomeUnknown
from llmao_core.secret import Secret
from llmao_core.snapshots import Access, Deployments, Health
from llmao_litellm import plugin, writes
from llmao_litellm.fake import MASTER_KEY

NAMES = st.sampled_from(
    ["data", "model_name", "litellm_params", "model_info", "id", "api_base", "llmao_key", "error",
     "detail", "message", "latest_health_checks", "model_id", "status", "checked_at", ID,
     "healthy_endpoints", "unhealthy_endpoints", "result", "healthy_count", "response_time_ms"]
)  # fmt: skip
WORDS = st.sampled_from(
    [ID, "http://[::1", "http://x:99999/v1", "healthy", "error", "not found in db", MASTER_KEY,
     f"Bearer {BEARER}", "2027-01-15T08:00:00Z", "9999-99-99", "not found on proxy", "\ud800"]
)  # fmt: skip
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.text(max_size=8)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(NAMES | st.text(max_size=3), inner, max_size=5)
    ),
    max_leaves=25,
)
CONTENTS = VALUES.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=60)
STATUSES = st.sampled_from([200, 200, 200, 201, 204, 400, 401, 404, 408, 418, 422, 429, 500, 503])


WHOLE: list[Any] = [
    {
        "data": [
            {
                "model_name": "qwen3",
                "litellm_params": {"api_base": "http://127.0.0.2:8001/v1", "order": 1},
                "model_info": {"id": ID, "db_model": True, "llmao_hash": "x", "blocked": False},
            }
        ]
    },
    {
        "latest_health_checks": {
            ID: {
                "model_id": ID,
                "status": "unhealthy",
                "checked_at": "2027-01-15T08:00:00Z",
                "response_time_ms": 5.0,
                "healthy_count": 0,
                "error_message": f"Bearer {BEARER}",
            }
        }
    },
    {"healthy_endpoints": [{"model_id": ID}], "unhealthy_endpoints": [{"model_id": "b"}]},
    {"status": "error", "result": {"error": f"sk: {MASTER_KEY}"}},
    {"model_id": ID},
    {"error": {"message": f"{{'error': 'not found in db {MASTER_KEY}'}}", "type": "x"}},
]


@st.composite
def nearly_whole(draw: st.DrawFn) -> bytes:
    """Return a good answer in which one value, anywhere, is another."""
    answer = json.loads(json.dumps(draw(st.sampled_from(WHOLE))))
    node, steps = answer, draw(st.integers(0, 3))
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = draw(st.sampled_from(keys))
        if not steps or not isinstance(node[key], dict | list) or not node[key]:
            node[key] = draw(VALUES)
            return json.dumps(answer).encode()
        node, steps = node[key], steps - 1


ANSWERS = st.lists(st.tuples(STATUSES, nearly_whole() | CONTENTS), min_size=1, max_size=4)


def saying(answers: list[tuple[int, bytes]]) -> httpx.AsyncClient:
    """Return a client that gives these answers in turn, the last one for ever."""
    left = list(answers)

    def answer(_: httpx.Request) -> httpx.Response:
        status, content = left.pop(0) if len(left) > 1 else left[0]
        return httpx.Response(status, content=content)

    return httpx.AsyncClient(transport=httpx.MockTransport(answer))


@settings(deadline=None, max_examples=300)
@given(ANSWERS)
def test_a_read_is_good_or_an_error_of_ours(answers: list[tuple[int, bytes]]) -> None:
    for source, more in (
        ("litellm", {"look_up": (ID,)}),
        ("litellm_health", {"ask": (ID,), "paid": True}),
        ("litellm_access", {}),
    ):
        told = asyncio.run(_fetch(source, more, answers))
        assert MASTER_KEY not in told
        assert BEARER not in told


async def _fetch(source: str, more: dict[str, Any], answers: list[tuple[int, bytes]]) -> str:
    async with saying(answers) as http:
        try:
            read = await plugin.llmao_fetch(request(source, **more), http, NOW)
        except FetchError as caught:
            return str(caught) or pytest.fail("an error without words")
    if isinstance(read, Deployments):
        assert len(read.rows) == len({row.id for row in read.rows})
        json.dumps([row.info for row in read.rows]).encode()
        return ""
    if isinstance(read, Access):
        return repr(read)
    assert isinstance(read, Health)
    assert all(opinion.checked_at <= NOW for opinion in read.opinions.values())
    return repr([opinion.said for opinion in read.opinions.values()])


@settings(deadline=None, max_examples=300)
@given(ANSWERS, st.sampled_from(sorted(writes.EXECUTES, key=lambda kind: kind.value)))
def test_a_write_ends_in_an_outcome_or_an_error_of_ours(
    answers: list[tuple[int, bytes]], kind: ActionKind
) -> None:
    told = asyncio.run(_execute(kind, answers))
    assert MASTER_KEY not in told
    assert BEARER not in told


async def _execute(kind: ActionKind, answers: list[tuple[int, bytes]]) -> str:
    async with saying(answers) as http:
        written = None if kind.removes else body()
        try:
            outcome = await plugin.llmao_execute(order(kind, written), request(), http, NOW)
        except (ExecuteError, OutcomeUnknown) as caught:
            return str(caught) or pytest.fail("an error without words")
    assert isinstance(outcome, Outcome)
    return outcome.said


# ---- section litellm of a configuration


def problems(**given: Any) -> list[str]:
    litellm = LitellmConfig(**{"master_key": Secret("sk-master"), **given})
    return [problem.path for problem in plugin.llmao_check(Config(litellm=litellm))]


@pytest.mark.parametrize("url", ["http://127.0.0.1:4000", "https://llm.example.org/proxy/"])
def test_a_good_section_has_no_problem(url: str) -> None:
    assert [] == problems(base_url=url)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:4000",
        "ftp://host",
        "http://",
        "http://[::1",
        "http://host:99999",
        "http://user:pw@host",
        "http://host?key=1",
        "http://host#x",
        "http://host/v1",
        "http://host/ui/",
    ],
)
def test_an_address_that_is_none_is_a_problem(url: str) -> None:
    assert "litellm.base_url" in problems(base_url=url)


@pytest.mark.parametrize("key", ["", "sk-a b", "sk-a\n", "sk-ä", "\x00"])
def test_a_key_that_is_none_is_a_problem(key: str) -> None:
    assert ["litellm.master_key"] == problems(master_key=Secret(key))


@given(st.text(max_size=30))
def test_no_address_stops_the_check(url: str) -> None:
    problems(base_url=url)


def test_a_problem_does_not_show_what_it_found() -> None:
    litellm = LitellmConfig("http://user:hunter22@host", Secret("sk-hunter22 "))
    assert "hunter22" not in repr(plugin.llmao_check(Config(litellm=litellm)))
