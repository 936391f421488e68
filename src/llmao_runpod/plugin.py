"""RunPod as a plugin: the pods of one account, and their restarts.

Rule of this file: it knows which requests make up one read; what the answers mean is in
translate.py, how they are asked for in client.py.
"""

import re

from llmao_core.actions import ActionKind, Order, Outcome, OutcomeKind
from llmao_core.config import Config
from llmao_core.errors import FetchError, Garbled, NotYet, Problem, Refused
from llmao_core.hooks import FetchRequest, Http, SourceCard, SourceKind, hookimpl
from llmao_core.providers import MOST_PAGES, is_local, section_problems
from llmao_core.snapshots import BoxStatus, Listing

from . import translate
from .client import RunPod

NAME = "runpod"
HTTP_PROXY = "http_proxy"
# 60 a minute and 50 000 a day, shared with every other tool of the account.
_SHORTEST_INTERVAL_S = 5.0
_POD_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


@hookimpl
def llmao_source() -> tuple[SourceCard, ...]:
    """Return the one card."""
    return (SourceCard(NAME, SourceKind.LISTING, 600, frozenset({ActionKind.REBOOT_BOX})),)


@hookimpl
def llmao_check(config: Config) -> tuple[Problem, ...]:
    """Return what is wrong in section `providers.runpod`."""
    return section_problems(
        config, NAME, shortest_s=_SHORTEST_INTERVAL_S, switches=frozenset({HTTP_PROXY})
    )


@hookimpl
async def llmao_fetch(request: FetchRequest, http: Http, now: float) -> Listing:
    """Return every pod of the account, members of clusters included.

    A port that has no public one is reached through RunPod's proxy where the section says
    `http_proxy: true` and the port is declared as http; the proxy cuts an answer at 100 s.
    """
    runpod = RunPod(request, http, now)
    pages = [await runpod.page()]
    seen: set[str] = set()
    while cursor := pages[-1].after:
        if cursor in seen or len(pages) >= MOST_PAGES:
            raise Garbled("RunPod's list of pods does not come to an end")
        seen.add(cursor)
        pages.append(await runpod.page(cursor))
    how = translate.Reading(
        http_proxy=request.section.get(HTTP_PROXY) is True, local=is_local(request.base_url)
    )
    return translate.listing(pages, how)


@hookimpl
async def llmao_execute(order: Order, request: FetchRequest, http: Http, now: float) -> Outcome:
    """Restart one pod; its public ports change by that.

    A pod that is starting takes no restart, so a second order does not begin another one.
    """
    assert order.kind is ActionKind.REBOOT_BOX
    if not _POD_ID.fullmatch(order.target):
        raise Refused("This is no pod id of RunPod's")
    runpod = RunPod(request, http, now)
    if await runpod.restart(order.target) == 200:
        return Outcome(OutcomeKind.DONE, "RunPod has begun to restart the pod")
    try:
        status = await runpod.status_of(order.target)
    except FetchError as error:
        raise NotYet(f"RunPod does not restart the pod now, nor say why: {error}") from None
    if status is BoxStatus.STARTING:
        return Outcome(OutcomeKind.ALREADY, "The pod is starting already")
    raise Refused(f"RunPod cannot restart a pod that is {status.value}")


__all__ = ["NAME", "llmao_check", "llmao_execute", "llmao_fetch", "llmao_source"]
