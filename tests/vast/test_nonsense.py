"""Whatever Vast answers: an error of ours or a good listing, and never a secret in either."""

import asyncio
import contextlib
import json
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.vast.helpers import NOW, SECRETS, order, request, row

from llmao_core.errors import ExecuteError, FetchError, OutcomeUnknown
from llmao_core.keys import endpoint_url, host_name
from llmao_core.snapshots import Listing
from llmao_vast import plugin
from llmao_vast.fake import KEY

NAMES = st.sampled_from(["instances", "success", "next_token", "total_instances", "error", *row()])
WORDS = st.sampled_from(["running", "8001/tcp", "0.0.0.0", "::", "41233", "auth_error", "\ud800"])
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.text(max_size=8)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(NAMES | WORDS | st.text(max_size=3), inner, max_size=5)
    ),
    max_leaves=25,
)
STATUSES = st.sampled_from([200, 200, 200, 200, 204, 301, 401, 404, 410, 429, 500, 503])


@st.composite
def nearly_whole(draw: st.DrawFn) -> bytes:
    """Return a good list in which one value, anywhere, is another."""
    whole: Any = {"success": True, "total_instances": 2, "next_token": None}
    whole["instances"] = [row(), row(id=2)]
    node, steps = whole, draw(st.integers(0, 5))
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = draw(st.sampled_from(keys))
        if not steps or not isinstance(node[key], dict | list) or not node[key]:
            node[key] = draw(VALUES)
            return json.dumps(whole).encode()
        node, steps = node[key], steps - 1


CONTENTS = nearly_whole() | VALUES.map(lambda v: json.dumps(v).encode()) | st.binary(max_size=60)
ANSWERS = st.lists(st.tuples(STATUSES, CONTENTS), min_size=1, max_size=3)


def saying(answers: list[tuple[int, bytes]]) -> httpx.AsyncClient:
    """Return a client that gives these answers in turn, the last one for ever."""
    left = list(answers)

    def answer(_: httpx.Request) -> httpx.Response:
        status, content = left.pop(0) if len(left) > 1 else left[0]
        return httpx.Response(status, content=content)

    return httpx.AsyncClient(transport=httpx.MockTransport(answer))


async def no_time(_: float) -> None:
    """Wait for nothing."""


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "sleep", no_time)


@settings(deadline=None, max_examples=300)
@given(ANSWERS)
def test_a_read_is_good_or_an_error_of_ours(answers: list[tuple[int, bytes]]) -> None:
    told = asyncio.run(_fetch(answers))
    assert [] == [secret for secret in (*SECRETS, KEY) if secret in told]


async def _fetch(answers: list[tuple[int, bytes]]) -> str:
    async with saying(answers) as http:
        try:
            read = await plugin.llmao_fetch(request(), http, NOW)
        except FetchError as caught:
            return str(caught) or pytest.fail("an error without words")
    _check(read)
    return repr(read)


def _check(listing: Listing) -> None:
    """Assert what reconcile takes for granted of a listing."""
    assert listing.complete
    assert len(listing.instances) == len({one.id for one in listing.instances})
    for one in listing.instances:
        assert one.id
        assert list(one.names) == [host_name(name) for name in one.names]
        assert list(one.addresses) == [host_name(at) for at in one.addresses]
        for listen, endpoint in one.endpoints.items():
            assert 1 <= listen <= 65535
            assert endpoint_url(endpoint.scheme, endpoint.host, endpoint.port)
    repr(listing).encode()


@settings(deadline=None, max_examples=100)
@given(ANSWERS)
def test_a_reboot_ends_in_an_outcome_or_an_error_of_ours(answers: list[tuple[int, bytes]]) -> None:
    async def run() -> None:
        async with saying(answers) as http:
            with contextlib.suppress(ExecuteError, OutcomeUnknown):
                assert (await plugin.llmao_execute(order("1"), request(), http, NOW)).good

    asyncio.run(run())
