"""LiteLLM as a plugin: its deployments, its opinion of them, and the writes to them.

Rule of this file: it knows which requests make up one read; what the answers mean is in
translate.py, how they are asked for in client.py, and how orders are carried out in writes.py.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar
from urllib.parse import urlsplit

from llmao_core.actions import Order, Outcome
from llmao_core.config import Config
from llmao_core.errors import FetchError, LlmaoError, Problem, Unauthorized
from llmao_core.hooks import FetchRequest, Http, SourceCard, SourceKind, hookimpl
from llmao_core.secret import Secret
from llmao_core.snapshots import Access, Asked, Deployments, Health, Opinion, Row

from . import translate, writes
from .access import access
from .client import LiteLLM, LostError

DEPLOYMENTS = "litellm"
HEALTH = "litellm_health"
ACCESS = "litellm_access"

ASK_TIMEOUT_S = 120.0
_AT_ONCE = 8
_TEST_TIMEOUT_S = 10.0
# LiteLLM saves a result after it has answered; waits before each look for it.
_SAVED_AFTER_S = (0.0, 0.2, 0.8)

T = TypeVar("T")


@hookimpl
def llmao_source() -> tuple[SourceCard, ...]:
    """Return the cards: deployments, which also takes orders, health, and who may call."""
    return (
        SourceCard(DEPLOYMENTS, SourceKind.DEPLOYMENTS, 60, writes.EXECUTES),
        SourceCard(HEALTH, SourceKind.HEALTH, 60),
        SourceCard(ACCESS, SourceKind.ACCESS, 300),
    )


@hookimpl
async def llmao_fetch(
    request: FetchRequest, http: Http, now: float
) -> Deployments | Health | Access:
    """Return all deployments, what LiteLLM thinks of them, or who may call.

    Opinions that were asked for are dated `now`, when the question was put. An id whose check
    failed or said nothing has no opinion: unknown.
    """
    proxy = LiteLLM(request, http)
    if request.source == DEPLOYMENTS:
        return await _deployments(proxy, request)
    if request.source == ACCESS:
        return await access(proxy)
    assert request.source == HEALTH
    return await _health(proxy, request, now)


@hookimpl
async def llmao_execute(
    order: Order,
    request: FetchRequest,
    http: Http,
    now: float,  # noqa: ARG001  the hook's
) -> Outcome:
    """Carry out one order; at most two writes of 120 s and the looks that follow them."""
    return await writes.execute(order, request, http)


# ---- deployments


async def _deployments(proxy: LiteLLM, request: FetchRequest) -> Deployments:
    listed = translate.rows((await proxy.read("/model/info")).content)
    seen = {row.id for row in listed}
    wanted = [row_id for row_id in dict.fromkeys(request.look_up) if row_id not in seen]
    found = await _each(wanted, proxy.look_up)
    return Deployments((*listed, *(row for row in found if isinstance(row, Row))))


async def _each(ids: Iterable[str], ask: Callable[[str], Awaitable[T]]) -> list[T]:
    """Return the answers for all ids, a few asked at a time; the first error ends it."""
    slots = asyncio.Semaphore(_AT_ONCE)

    async def one(row_id: str) -> T:
        async with slots:
            return await ask(row_id)

    tasks = [asyncio.ensure_future(one(row_id)) for row_id in ids]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


# ---- health


async def _health(proxy: LiteLLM, request: FetchRequest, now: float) -> Health:
    before = await _latest(proxy)
    opinions = translate.opinions(before, now)
    if request.paid:
        opinions |= await _paid(proxy, now)
    ids = tuple(dict.fromkeys(request.ask))
    answers = await _ask(proxy, request, ids, before)
    opinions |= {row_id: Opinion(healthy, now, said) for row_id, (healthy, said) in answers.items()}
    asked = {row_id: Asked(now, now if row_id in answers else None) for row_id in ids}
    return Health(opinions, asked)


async def _latest(proxy: LiteLLM) -> dict[str, translate.Check]:
    return translate.latest_checks((await proxy.read("/health/latest")).content)


async def _paid(proxy: LiteLLM, now: float) -> dict[str, Opinion]:
    """Return a check of every row; nothing when it fails, because the free ones still count."""
    try:
        heard = await proxy.read("/health", timeout_s=ASK_TIMEOUT_S)
        found = translate.verdicts(heard.content)
    except Unauthorized:
        raise
    except FetchError:
        return {}
    return {row_id: Opinion(healthy, now, said) for row_id, (healthy, said) in found.items()}


Verdict = tuple[bool, str]


async def _ask(
    proxy: LiteLLM, request: FetchRequest, ids: tuple[str, ...], before: dict[str, translate.Check]
) -> dict[str, Verdict]:
    """Return what LiteLLM finds now, asked again where it may have answered from memory.

    With `background_health_checks` LiteLLM answers at once what it found some time ago. A check
    that was made for us is saved under the id; where no new result appears it is tested directly.
    """
    answered = dict(zip(ids, await _each(ids, lambda i: _check_one(proxy, i)), strict=True))
    waiting = {row_id for row_id, verdict in answered.items() if verdict}
    made = await _made_now(proxy, waiting, before)
    rest = [row_id for row_id in ids if row_id not in made]
    tested = dict(zip(rest, await _each(rest, lambda i: _test(proxy, request, i)), strict=True))
    found = {row_id: answered[row_id] for row_id in made} | tested
    return {row_id: verdict for row_id, verdict in found.items() if verdict}


async def _check_one(proxy: LiteLLM, row_id: str) -> Verdict | None:
    try:
        heard = await proxy.read(
            "/health", {"model_id": row_id}, timeout_s=ASK_TIMEOUT_S, also=(404, 503)
        )
        return translate.verdicts(heard.content).get(row_id) if heard.status != 404 else None
    except FetchError:
        return None


async def _made_now(
    proxy: LiteLLM, waiting: set[str], before: dict[str, translate.Check]
) -> set[str]:
    """Return the ids whose saved result is newer than `before`, whatever the clocks say."""
    made: set[str] = set()
    for pause_s in _SAVED_AFTER_S:
        if made >= waiting:
            break
        await asyncio.sleep(pause_s)
        try:
            after = await _latest(proxy)
        except FetchError:
            continue
        made |= {i for i in waiting & after.keys() if _is_newer(after[i], before.get(i))}
    return made


def _is_newer(after: translate.Check, before: translate.Check | None) -> bool:
    return not after.background and (before is None or after.saved_at != before.saved_at)


async def _test(proxy: LiteLLM, request: FetchRequest, row_id: str) -> Verdict | None:
    defaults = request.section.get("deployment_defaults")
    limit = defaults.get("health_check_timeout") if isinstance(defaults, dict) else None
    # The row's own timeout is meant for long completions: a hung server would hold us as long.
    body = {
        "model_info": {"id": row_id},
        "litellm_params": {"timeout": limit or _TEST_TIMEOUT_S},
    }
    try:
        heard = await proxy.ask("POST", "/health/test_connection", body, ASK_TIMEOUT_S)
        return translate.connection_verdict(heard.content) if heard.status == 200 else None
    except (LlmaoError, LostError):
        return None


# ---- configuration


@hookimpl
def llmao_check(config: Config) -> tuple[Problem, ...]:
    """Return what is wrong in section `litellm`."""
    found = (
        *(_problem("base_url", *each) for each in _url_problems(config.litellm.base_url)),
        *(_problem("master_key", *each) for each in _key_problems(config.litellm.master_key)),
    )
    return tuple(found)


def _problem(name: str, what: str, remedy: str) -> Problem:
    return Problem(what, remedy, path=f"litellm.{name}")


def _url_problems(url: str) -> Iterable[tuple[str, str]]:
    example = "Write the proxy's own address, like http://127.0.0.1:4000."
    try:
        parts = urlsplit(url.strip())
        _ = parts.port
    except ValueError:
        return [("base_url is not a URL", example)]
    problems = []
    if parts.scheme not in ("http", "https") or not parts.hostname:
        problems.append(("base_url does not begin with http:// or https:// and a host", example))
    if "@" in parts.netloc:
        problems.append(("base_url holds credentials", "Put the key into litellm.master_key."))
    if parts.query or parts.fragment:
        problems.append(("base_url holds more than an address", "Remove what follows ? or #."))
    if parts.path.rstrip("/").endswith(("/v1", "/ui")):
        problems.append(("base_url leads into the proxy", "Remove /v1 or /ui from its end."))
    return problems


def _key_problems(key: Secret) -> Iterable[tuple[str, str]]:
    if not key:
        return [
            (
                "master_key is not set",
                "Give the proxy's master key, or a proxy_admin's: {env: LITELLM_MASTER_KEY}.",
            )
        ]
    text = key.reveal()
    if not text.isascii() or not text.isprintable() or " " in text:
        return [
            (
                "master_key holds letters that cannot stand in a header",
                "Look for a blank, a line break or a quotation mark around it.",
            )
        ]
    return []


__all__ = [
    "ACCESS",
    "DEPLOYMENTS",
    "HEALTH",
    "llmao_check",
    "llmao_execute",
    "llmao_fetch",
    "llmao_source",
]
