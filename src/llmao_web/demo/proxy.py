"""A real proxy in the place of the simulated one: what the demo leaves there, it takes away.

Rule of this file: only rows with the mark of this demo's own fleet are touched.
"""

import secrets

import httpx

from llmao_core.actions import ActionKind, Order
from llmao_core.draft import EXECUTOR
from llmao_core.errors import FetchError
from llmao_core.hooks import FetchRequest
from llmao_core.keys import Key
from llmao_core.secret import Secret
from llmao_core.snapshots import Deployments
from llmao_litellm import plugin

from .fleet import FLEET, Places


def real_places(url: str, key: Secret) -> Places:
    """Return where a real proxy is; the fleet's name there is one that no other demo has."""
    return Places(url.rstrip("/"), key, "", "", f"{FLEET}-{secrets.token_hex(3)}")


async def remove_rows(places: Places, now: float) -> tuple[int, int]:
    """Remove the demo's rows from the proxy; return how many went and how many are left.

    FetchError: the proxy could not be read.
    """
    request = FetchRequest(plugin.DEPLOYMENTS, places.litellm, places.litellm_key)
    gone = left = 0
    async with httpx.AsyncClient(trust_env=False) as http:
        read = await plugin.llmao_fetch(request, http, now)
        assert isinstance(read, Deployments)
        for row in read.rows:
            if not row.in_db or row.fleet != places.fleet:
                continue
            key = Key(row.llmao_key, row.model_name, row.id)
            order = Order(ActionKind.DELETE_LITELLM, EXECUTOR, key, row.id)
            try:
                outcome = await plugin.llmao_execute(order, request, http, now)
            except FetchError:
                left += 1
                continue
            gone, left = gone + outcome.good, left + (not outcome.good)
    return gone, left
