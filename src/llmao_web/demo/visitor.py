"""What a visitor of the demo did by hand, as llmao's own API tells it.

Rule of this file: it asks and changes nothing; no answer is no knowledge, and what was known stays.
"""

from typing import Any

import httpx
from attrs import frozen

_HEALTHY = "Healthy"
_RETIRED = "retired_and_billed"


@frozen
class Deeds:
    """Hosts that were approved, drained, retired and are rented still, and that serve."""

    approved: frozenset[str] = frozenset()
    drained: frozenset[str] = frozenset()
    retired: frozenset[str] = frozenset()
    serving: frozenset[str] = frozenset()


@frozen
class Watch:
    """Looks at what llmao shows to anybody on this machine."""

    http: httpx.AsyncClient
    llmao_url: str

    async def look(self, before: Deeds) -> Deeds:
        """Return what was done by hand until now; `before` when llmao does not say."""
        try:
            answer = await self.http.get(f"{self.llmao_url}/api/v1/view")
        except httpx.HTTPError:
            return before
        return _deeds(answer.json()) if answer.status_code == 200 else before


def _deeds(view: Any) -> Deeds:
    deployments = view["deployments"]
    return Deeds(
        approved=frozenset(each["name"] for each in view["boxes"] if each["approved"]),
        drained=frozenset(each["host"] for each in deployments if each["drained"]),
        retired=frozenset(each["host"] for each in view["items"] if each["kind"] == _RETIRED),
        serving=frozenset(each["host"] for each in deployments if each["lifecycle"] == _HEALTHY),
    )
