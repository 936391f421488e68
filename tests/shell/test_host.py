"""The plugin host: one plugin at a time, and every mistake a plugin can make is a value."""

import asyncio
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from llmao_core.actions import ActionKind, Order, Outcome, OutcomeKind, RowBody
from llmao_core.config import Config
from llmao_core.errors import (
    Busy,
    ConfigError,
    NotYet,
    OutcomeUnknown,
    Problem,
    Refused,
    Trouble,
    Unauthorized,
)
from llmao_core.hooks import FetchRequest, SourceCard, SourceKind, hookimpl
from llmao_core.keys import box_key
from llmao_core.secret import Secret
from llmao_core.snapshots import Health, Listing, Snapshot
from llmao_core.testing.clock import VirtualClock
from llmao_web.shell.host import Ended, Failure, PluginHost

KEY = box_key("127.0.0.2", 8001, "tiny")
ORDER = Order(ActionKind.DELETE_LITELLM, "alpha", KEY, "llmao-1")


class Plugin:
    """A plugin made of the attributes it is given."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


def card(name: str, kind: SourceKind = SourceKind.LISTING) -> SourceCard:
    return SourceCard(name, kind, 60.0)


def plugin(name: str, fetch: Any = None, execute: Any = None, check: Any = None) -> object:
    """Return a plugin with one card, made of the given hooks."""
    given = {"llmao_fetch": fetch, "llmao_execute": execute, "llmao_check": check}
    hooks = {each: hookimpl(hook) for each, hook in given.items() if hook}
    return Plugin(llmao_source=hookimpl(lambda: (card(name),)), **hooks)


def request(api_key: str = "hush-hush") -> FetchRequest:
    return FetchRequest("alpha", "http://127.0.0.1:1", Secret(api_key), {"token": Secret("pssst")})


def host(**plugins: object) -> PluginHost:
    return PluginHost(VirtualClock(), plugins)


async def fetched(fetch: Any) -> Snapshot[Any] | Failure:
    return await host(alpha=plugin("alpha", fetch)).fetch("alpha", request(), 10.0)


async def executed(execute: Any) -> Ended:
    return await host(alpha=plugin("alpha", execute=execute)).execute(ORDER, request(), 10.0)


def raising(error: BaseException) -> Any:
    async def hook(request: FetchRequest) -> Any:
        raise error

    return hook


def returning(value: object) -> Any:
    async def hook(request: FetchRequest) -> Any:
        return value

    return hook


def problems(**plugins: object) -> str:
    with pytest.raises(ConfigError) as caught:
        host(**plugins)
    return str(caught.value)


async def test_only_the_named_plugin_is_asked() -> None:
    """Another plugin's raising hook is never called and takes nothing away."""
    both = host(
        alpha=plugin("alpha", returning(Listing())),
        beta=plugin("beta", raising(AssertionError("asked"))),
    )
    assert Snapshot(10.0, Listing()) == await both.fetch("alpha", request(), 10.0)


async def test_a_fetch_error_keeps_its_kind_and_loses_its_secrets() -> None:
    """The class of the error is the kind of the trouble; secrets of the request are masked."""
    got = await fetched(raising(Unauthorized("key hush-hush with pssst refused")))
    assert Failure(Trouble("Unauthorized", "key … with … refused", 10.0)) == got


async def test_busy_says_when_to_come_back() -> None:
    """What a far end asks for reaches the runner."""
    got = await fetched(raising(Busy("slow down", 17.0)))
    assert isinstance(got, Failure)
    assert 17.0 == got.retry_after_s


@pytest.mark.parametrize(
    "fetch",
    [
        raising(KeyError("hush-hush")),
        returning(None),
        returning(Health()),
        returning(Listing(complete=False)),
        lambda request: Listing(),
        None,
    ],
    ids=["raises", "None", "wrong kind", "a part", "not async", "no hook"],
)
async def test_whatever_a_plugin_does_wrong_is_a_failure(fetch: Any) -> None:
    """No mistake of a plugin raises, none is an empty read, and none leaks a secret."""
    with capture_logs() as logs:
        got = await fetched(fetch)
    assert isinstance(got, Failure)
    assert "hush-hush" not in f"{got}{logs}"


async def test_a_hanging_plugin_meets_the_deadline() -> None:
    """A fetch that never answers is unreachable when the deadline has passed."""
    clock = VirtualClock()

    async def hang(request: FetchRequest) -> Any:
        await asyncio.Event().wait()

    hosts = PluginHost(clock, {"alpha": plugin("alpha", hang)})
    task = asyncio.create_task(hosts.fetch("alpha", request(), 10.0, deadline_s=5.0))
    await clock.advance(4.9)
    assert not task.done()
    await clock.advance(0.2)
    got = await task
    assert isinstance(got, Failure)
    assert "Unreachable" == got.trouble.kind


async def test_cancelling_is_not_swallowed() -> None:
    """Who cancels a fetch gets the cancellation, not a failure."""
    started = asyncio.Event()

    async def hang(request: FetchRequest) -> Any:
        started.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(fetched(hang))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_plugin_that_cancels_itself_fails_like_any_other() -> None:
    """A CancelledError nobody asked for is the plugin's mistake, and kills no runner."""
    assert isinstance(await fetched(raising(asyncio.CancelledError())), Failure)


@pytest.mark.parametrize(
    ("hook", "kind"),
    [
        (raising(Refused("no")), OutcomeKind.REFUSED),
        (raising(NotYet("later")), OutcomeKind.FAILED),
        (raising(OutcomeUnknown("lost")), OutcomeKind.UNKNOWN),
        (raising(ValueError("bug")), OutcomeKind.UNKNOWN),
        (returning("done"), OutcomeKind.UNKNOWN),
        (returning(Outcome(OutcomeKind.ALREADY)), OutcomeKind.ALREADY),
    ],
)
async def test_every_end_of_an_order_is_an_outcome(hook: Any, kind: OutcomeKind) -> None:
    """What may have happened is unknown; only what a plugin says did not happen, did not."""
    assert kind is (await executed(hook)).outcome.kind


async def test_an_order_for_nobody_is_refused() -> None:
    """No plugin of that name: nothing happened, and waiting does not help."""
    ended = await host().execute(ORDER, request(), 10.0)
    assert OutcomeKind.REFUSED is ended.outcome.kind


async def test_the_key_of_a_row_is_masked_too() -> None:
    """An executor that quotes the body it wrote does not leak the bearer."""
    body = RowBody("tiny", "http://127.0.0.2:8001/v1", {}, {}, Secret("sk-vllm-zzz"))
    order = Order(ActionKind.ADD_LITELLM, "alpha", KEY, "llmao-1", body)
    hosts = host(alpha=plugin("alpha", execute=raising(Refused("422: sk-vllm-zzz"))))
    assert "422: …" == (await hosts.execute(order, request(), 10.0)).outcome.said


async def test_clients_send_no_credentials_along_a_redirect() -> None:
    """The client of a plugin follows no redirect, reads no environment, and says who it is."""
    seen: list[httpx.AsyncClient] = []

    async def fetch(request: FetchRequest, http: Any) -> Any:
        seen.append(http)
        return Listing()

    hosts = host(alpha=plugin("alpha", fetch))
    await hosts.fetch("alpha", request(), 10.0)
    await hosts.fetch("alpha", request(), 10.0)
    await hosts.aclose()
    client, again = seen
    assert client is again
    assert (False, False) == (client.follow_redirects, client.trust_env)
    assert client.headers["User-Agent"].startswith("llmao/")
    assert client.is_closed


def test_a_misspelt_hook_is_named() -> None:
    """A hook llmao does not know stops the start, with its name and the names that exist."""
    broken = Plugin(llmao_fech=hookimpl(lambda request: None))
    said = problems(alpha=broken)
    assert "llmao_fech" in said
    assert "llmao_fetch" in said


def test_a_wrong_argument_is_named() -> None:
    """A hook with an argument that does not exist stops the start."""
    assert "reqest" in problems(alpha=plugin("alpha", fetch=lambda reqest: None))


def test_two_cards_of_one_name_are_refused() -> None:
    """Names of sources are unique over all plugins, and both plugins are named."""
    said = problems(alpha=plugin("vast"), beta=plugin("vast"))
    assert "alpha and beta" in said


def test_every_broken_plugin_is_reported_at_once() -> None:
    """One raising plugin does not hide what is wrong with the next."""

    def explode() -> Any:
        raise RuntimeError("hush-hush")

    one = Plugin(llmao_source=hookimpl(explode))
    two = Plugin(llmao_source=hookimpl(lambda: [1]))
    said = problems(one=one, two=two)
    assert "RuntimeError" in said
    assert "tuple of SourceCard" in said
    assert "hush-hush" not in said


def test_checks_of_all_plugins_are_collected() -> None:
    """A plugin whose check raises, or answers nonsense, is a problem beside the others'."""

    def explode(config: Config) -> Any:
        raise RuntimeError("hush-hush")

    found = host(
        alpha=plugin("alpha", check=lambda config: (Problem("interval is too short"),)),
        beta=plugin("beta", check=explode),
        gamma=plugin("gamma", check=lambda config: "fine"),
        delta=plugin("delta"),
    ).check(Config())
    assert 3 == len(found)
    assert Problem("interval is too short") in found
    assert "hush-hush" not in str(found)
