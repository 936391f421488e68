"""Vast.ai as a plugin: the instances of one account, and their reboots.

Rule of this file: it knows which requests make up one read; what the answers mean is in
translate.py, how they are asked for in client.py.
"""

from asyncio import sleep

from llmao_core.actions import ActionKind, Order, Outcome, OutcomeKind
from llmao_core.config import Config
from llmao_core.errors import FetchError, Garbled, Problem, Refused
from llmao_core.hooks import FetchRequest, Http, SourceCard, SourceKind, hookimpl
from llmao_core.providers import MOST_PAGES, is_local, section_problems
from llmao_core.snapshots import Listing

from . import translate
from .client import Vast

NAME = "vast"
# Vast refuses a second list call within 1 s, pages included, and its clock is not ours.
BETWEEN_PAGES_S = 1.2
_SHORTEST_INTERVAL_S = 2.0


@hookimpl
def llmao_source() -> tuple[SourceCard, ...]:
    """Return the one card."""
    return (SourceCard(NAME, SourceKind.LISTING, 60, frozenset({ActionKind.REBOOT_BOX})),)


@hookimpl
def llmao_check(config: Config) -> tuple[Problem, ...]:
    """Return what is wrong in section `providers.vast`."""
    return section_problems(config, NAME, shortest_s=_SHORTEST_INTERVAL_S)


@hookimpl
async def llmao_fetch(request: FetchRequest, http: Http, now: float) -> Listing:
    """Return every instance of the account; a page that fails fails the whole read.

    Takes 1.2 s for each page of 25 after the first.
    """
    vast = Vast(request, http, now)
    pages = [await vast.page()]
    seen = {""}
    while after := pages[-1].after:
        if after in seen:
            raise Garbled("Vast's list of instances goes round in a circle: its token came twice")
        if len(pages) >= MOST_PAGES:
            raise Garbled(f"Vast's list of instances does not end within {MOST_PAGES} pages")
        seen.add(after)
        await sleep(BETWEEN_PAGES_S)
        pages.append(await vast.page(after))
    return translate.listing(pages, local=is_local(request.base_url))


@hookimpl
async def llmao_execute(order: Order, request: FetchRequest, http: Http, now: float) -> Outcome:
    """Reboot one instance: Vast stops and starts its container and keeps its GPUs.

    One that is rebooting already is left alone, as far as the list tells: where it cannot be
    read the reboot is asked for all the same, and a second one is no harm but time.
    """
    assert order.kind is ActionKind.REBOOT_BOX
    if not (order.target.isascii() and order.target.isdigit() and len(order.target) <= 15):
        raise Refused("This is no instance id of Vast's: those are digits only")
    vast = Vast(request, http, now)
    try:
        seen = translate.listing([await vast.only(order.target)]).instances
    except FetchError:
        seen = ()
    if any(one.id == order.target and one.raw_status == "rebooting" for one in seen):
        return Outcome(OutcomeKind.ALREADY, "It is rebooting already")
    await vast.reboot(order.target)
    return Outcome(OutcomeKind.DONE, "Vast has begun to stop and start the container")


__all__ = ["NAME", "llmao_check", "llmao_execute", "llmao_fetch", "llmao_source"]
