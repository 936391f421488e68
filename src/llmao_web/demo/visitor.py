"""What a visitor of the demo did by hand, as llmao's own API tells it.

Rule of this file: it asks and changes nothing; no answer is no knowledge, and what was known stays.
"""

from collections import defaultdict
from typing import Any

import httpx
from attrs import frozen

_HEALTHY = "Healthy"
_RETIRED = "retired_and_billed"


@frozen
class Deeds:
    """Hosts that were approved, drained, retired and are rented still, and that serve.

    ports: host and port of what was drained alone, beside others of the host that were not.
    out: those to which LiteLLM sends nothing, because somebody drains or reboots them.
    unrouted: those with a server that works and has no route yet.
    """

    approved: frozenset[str] = frozenset()
    drained: frozenset[str] = frozenset()
    ports: frozenset[tuple[str, str]] = frozenset()
    retired: frozenset[str] = frozenset()
    serving: frozenset[str] = frozenset()
    out: frozenset[str] = frozenset()
    unrouted: frozenset[str] = frozenset()


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
    leaving = [each for each in deployments if each["drained"] or each["restarting"]]
    drained: defaultdict[str, set[str]] = defaultdict(set)
    for each in deployments:
        if each["drained"]:
            drained[each["host"]].add(each["key"]["shown"].rpartition(":")[2])
    beside = drained.keys() & {each["host"] for each in deployments if not each["drained"]}
    routed = {each["host"] for each in leaving if each["litellm"]["id"]}
    serving = [each for each in deployments if each["lifecycle"] == _HEALTHY]
    return Deeds(
        approved=frozenset(each["name"] for each in view["boxes"] if each["approved"]),
        drained=frozenset(drained.keys() - beside),
        ports=frozenset((host, port) for host in beside for port in drained[host]),
        retired=frozenset(each["host"] for each in view["items"] if each["kind"] == _RETIRED),
        serving=frozenset(each["host"] for each in serving),
        out=frozenset(each["host"] for each in leaving) - routed,
        unrouted=frozenset(
            each["host"] for each in serving if each not in leaving and not each["litellm"]["id"]
        ),
    )
