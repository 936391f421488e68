"""Whatever RunPod answers: an error of ours or a good listing, and never a secret in either."""

import asyncio
import contextlib
import json
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runpod.helpers import NOW, SECRETS, order, pod, request

from llmao_core.errors import ExecuteError, FetchError, OutcomeUnknown
from llmao_core.keys import endpoint_url, host_name
from llmao_core.snapshots import Listing
from llmao_runpod import plugin
from llmao_runpod.fake import KEY

NAMES = st.sampled_from(
    ["pods", "pagination", "nextCursor", "hasNextPage", "data", "myself", *pod()]
)
WORDS = st.sampled_from(["RUNNING", "8001/tcp", "8001/http", "tcp", "::", "13041", "\ud800"])
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
    whole: Any = {"pods": [pod(), pod(id="k2")]}
    whole["pagination"] = {"nextCursor": None, "hasNextPage": False}
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


@settings(deadline=None, max_examples=300)
@given(ANSWERS)
def test_a_read_is_good_or_an_error_of_ours(answers: list[tuple[int, bytes]]) -> None:
    told = asyncio.run(_fetch(answers))
    assert [] == [secret for secret in (*SECRETS, KEY) if secret in told]


async def _fetch(answers: list[tuple[int, bytes]]) -> str:
    given = request(section={"http_proxy": True})
    async with saying(answers) as http:
        try:
            read = await plugin.llmao_fetch(given, http, NOW)
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
