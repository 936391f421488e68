"""The plugin manager: who is installed, and one plugin asked at a time.

Rule of this file: the only one that calls hooks. A hook is called by the name of its plugin,
under a deadline, and whatever it does wrong becomes a value: a Failure, an Outcome, a Problem.
Being cancelled is no error and passes through.
"""

import asyncio
import importlib.metadata
import inspect
import re
import traceback
from collections.abc import Awaitable, Iterable, Mapping
from typing import Any

import httpx
import pluggy
import structlog
from attrs import frozen

from llmao_core import hooks
from llmao_core.actions import Order, Outcome, OutcomeKind
from llmao_core.config import Config
from llmao_core.errors import (
    Busy,
    ConfigError,
    FetchError,
    NotYet,
    OutcomeUnknown,
    Problem,
    Refused,
    Trouble,
)
from llmao_core.hooks import Fetched, FetchRequest, Message, SourceCard, SourceKind
from llmao_core.secret import Secret
from llmao_core.snapshots import Access, Deployments, Health, Listing, Snapshot

from .clock import Clock, deadline

GROUP = "llmao"
FETCH_DEADLINE_S = 120.0
# Two writes of two minutes each, and the looks after them.
EXECUTE_DEADLINE_S = 270.0
NOTIFY_DEADLINE_S = 30.0

_CARD_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_BODIES: Mapping[SourceKind, type[Fetched]] = {
    SourceKind.LISTING: Listing,
    SourceKind.DEPLOYMENTS: Deployments,
    SourceKind.HEALTH: Health,
    SourceKind.ACCESS: Access,
}
_SAID_CHARS = 300
# uvicorn, and so LiteLLM, closes a connection that idles for 5 s: a write sent at that moment is
# lost, and its row waits for a poll interval. We close first.
_LIMITS = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=2.0)

log = structlog.get_logger(__name__)


@frozen
class Failure:
    """A read that failed. retry_after_s: what the far end asked for, if it did."""

    trouble: Trouble
    retry_after_s: float | None = None


@frozen
class Ended:
    """The end of an order. retry_after_s: what the far end asked for, if it did."""

    outcome: Outcome
    retry_after_s: float | None = None


class PluginHost:
    """All installed plugins, behind typed functions.

    transport: carries the requests of every plugin; None is the network.
    Raises ConfigError from the constructor when a plugin cannot be used, with every problem.
    """

    def __init__(
        self,
        clock: Clock,
        plugins: Mapping[str, object],
        *,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._clock = clock
        self._transport = transport
        self._manager = pluggy.PluginManager(GROUP)
        self._manager.add_hookspecs(hooks)
        self._clients: dict[str, httpx.AsyncClient] = {}
        self._cards: dict[str, SourceCard] = {}
        self._plugin_of: dict[str, str] = {}
        problems = [problem for name in plugins for problem in self._register(name, plugins[name])]
        if problems:
            raise ConfigError(problems)

    @classmethod
    def installed(cls, clock: Clock) -> "PluginHost":
        """Return the host of every plugin that an installed package announces."""
        plugins: dict[str, object] = {}
        problems: list[Problem] = []
        for entry in sorted(importlib.metadata.entry_points(group=GROUP), key=lambda e: e.name):
            if entry.name in plugins:
                problems.append(Problem(f"Two packages install a plugin named {entry.name}."))
                continue
            try:
                plugins[entry.name] = entry.load()
            except Exception as error:
                _log_failure(entry.name, "load", error)
                problems.append(
                    Problem(
                        f"Plugin {entry.name} cannot be loaded: {type(error).__name__}.",
                        "Reinstall or remove its package.",
                    )
                )
        if problems:
            raise ConfigError(problems)
        return cls(clock, plugins)

    # ---- at start

    def cards(self) -> tuple[SourceCard, ...]:
        """Return the cards of all plugins."""
        return tuple(self._cards.values())

    def plugin_of(self, card: str) -> str:
        """Return the name of the plugin that a card belongs to."""
        return self._plugin_of[card]

    def listings(self) -> frozenset[str]:
        """Return the names of the GPU providers whose plugin is installed."""
        return frozenset(
            card.name for card in self._cards.values() if card.kind is SourceKind.LISTING
        )

    def check(self, config: Config) -> tuple[Problem, ...]:
        """Return what every plugin finds wrong with its own section, and receivers without one."""
        own = (
            problem
            for name, _ in self._manager.list_name_plugin()
            for problem in self._check_one(name, config)
        )
        return (*own, *self._check_receivers(config))

    def notifiers(self) -> frozenset[str]:
        """Return the names of the plugins that deliver messages."""
        found = self._manager.hook.llmao_notify.get_hookimpls()
        return frozenset(each.plugin_name for each in found)

    def _check_receivers(self, config: Config) -> Iterable[Problem]:
        have = self.notifiers()
        for place, receiver in enumerate(config.notify):
            if receiver.kind not in have:
                yield Problem(
                    "No installed plugin delivers messages of this kind.",
                    f"Installed: {', '.join(sorted(have)) or 'none'}.",
                    path=f"notify[{place}].kind",
                )

    def _register(self, name: str, plugin: object) -> list[Problem]:
        try:
            self._manager.register(plugin, name)
            self._manager.check_pending()
        except (pluggy.PluginValidationError, ValueError) as error:
            if self._manager.has_plugin(name):
                self._manager.unregister(name=name)
            known = ", ".join(sorted(hook for hook in vars(hooks) if hook.startswith("llmao_")))
            said = " ".join(str(error).split())
            return [Problem(f"Plugin {name} does not fit: {said}.", f"The hooks are {known}.")]
        return self._register_cards(name)

    def _register_cards(self, name: str) -> list[Problem]:
        try:
            answers = self._call("llmao_source", name)
        except Exception as error:
            _log_failure(name, "llmao_source", error)
            return [Problem(f"Plugin {name} cannot say what it is: {type(error).__name__}.")]
        cards = answers[0] if answers else ()
        if not isinstance(cards, tuple) or not all(isinstance(card, SourceCard) for card in cards):
            return [Problem(f"Plugin {name}: llmao_source returns a tuple of SourceCard.")]
        return [problem for card in cards for problem in self._register_card(name, card)]

    def _register_card(self, name: str, card: SourceCard) -> list[Problem]:
        if not _CARD_NAME.fullmatch(card.name):
            return [Problem(f"Plugin {name}: {card.name!r} is no name of a card.")]
        if not card.interval_s > 0:
            return [Problem(f"Plugin {name}: the interval of card {card.name} is not above 0.")]
        if card.name in self._cards:
            other = self._plugin_of[card.name]
            return [Problem(f"Plugins {other} and {name} both have a card named {card.name}.")]
        self._cards[card.name] = card
        self._plugin_of[card.name] = name
        return []

    def _check_one(self, name: str, config: Config) -> tuple[Problem, ...]:
        try:
            answers = self._call("llmao_check", name, config=config)
        except Exception as error:
            _log_failure(name, "llmao_check", error)
            return (Problem(f"Plugin {name} cannot check its section: {type(error).__name__}."),)
        found = answers[0] if answers else ()
        if not isinstance(found, tuple) or not all(isinstance(each, Problem) for each in found):
            return (Problem(f"Plugin {name}: llmao_check returns a tuple of Problem."),)
        return found

    # ---- each read, each action

    async def fetch(
        self, card: str, request: FetchRequest, now: float, deadline_s: float = FETCH_DEADLINE_S
    ) -> Snapshot[Any] | Failure:
        """Return one complete snapshot begun at `now`, or why there is none; never raises."""
        name = self._plugin_of[card]
        kind = self._cards[card].kind
        retry_after_s = None
        try:
            body = await self._await("llmao_fetch", name, deadline_s, request=request, now=now)
            return Snapshot(now, _fitting(body, kind))
        except Busy as error:
            trouble, retry_after_s = _trouble(error, request, now), error.retry_after_s
        except FetchError as error:
            trouble = _trouble(error, request, now)
        except TimeoutError:
            trouble = Trouble("Unreachable", f"No answer within {deadline_s:g} s.", now)
        except asyncio.CancelledError:
            if _being_cancelled():
                raise
            trouble = Trouble("FetchError", f"Plugin {name} gave up on its own read.", now)
        except Exception as error:
            _log_failure(name, "llmao_fetch", error)
            what = f"Plugin {name} failed with {type(error).__name__}; the log has the place."
            trouble = Trouble("FetchError", what, now)
        return Failure(trouble, retry_after_s)

    async def execute(
        self,
        order: Order,
        request: FetchRequest,
        now: float,
        deadline_s: float = EXECUTE_DEADLINE_S,
    ) -> Ended:
        """Carry out one order and say how it ended; never raises."""
        name = self._plugin_of.get(order.executor, order.executor)
        held = _secrets(request, order)
        return await self._ended(
            "llmao_execute", name, deadline_s, held, order=order, request=request, now=now
        )

    async def notify(self, kind: str, message: Message, now: float) -> Ended:
        """Deliver one message by the plugin named `kind`; never raises."""
        held = [message.url]
        return await self._ended(
            "llmao_notify", kind, NOTIFY_DEADLINE_S, held, message=message, now=now
        )

    async def _ended(
        self, hook: str, name: str, deadline_s: float, held: list[Secret], **arguments: object
    ) -> Ended:
        retry_after_s = None
        try:
            return Ended(_outcome(await self._await(hook, name, deadline_s, **arguments), hook))
        except Refused as error:
            kind, said = OutcomeKind.REFUSED, str(error)
        except NotYet as error:
            kind, said, retry_after_s = OutcomeKind.FAILED, str(error), error.retry_after_s
        except OutcomeUnknown as error:
            kind, said = OutcomeKind.UNKNOWN, str(error)
        except TimeoutError:
            kind, said = OutcomeKind.UNKNOWN, f"No answer within {deadline_s:g} s."
        except asyncio.CancelledError:
            if _being_cancelled():
                raise
            kind, said = OutcomeKind.UNKNOWN, f"Plugin {name} gave up on its own write."
        except Exception as error:
            _log_failure(name, hook, error)
            kind = OutcomeKind.UNKNOWN
            said = f"Plugin {name} failed with {type(error).__name__}; the log has the place."
        return Ended(Outcome(kind, _masked(said, held)), retry_after_s)

    async def aclose(self) -> None:
        """Close the connections of every plugin."""
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.aclose()

    def _call(self, hook: str, name: str, **arguments: object) -> list[Any]:
        others = [plugin for other, plugin in self._manager.list_name_plugin() if other != name]
        answers: list[Any] = self._manager.subset_hook_caller(hook, others)(**arguments)
        return answers

    async def _await(self, hook: str, name: str, deadline_s: float, **arguments: object) -> object:
        if not self._manager.has_plugin(name):
            raise Refused(f"No plugin named {name} is installed.")
        async with deadline(self._clock, deadline_s):
            answers = self._call(hook, name, http=self._client(name), **arguments)
            if not answers:
                raise NotImplementedError(f"plugin {name} has no {hook}")
            if not inspect.isawaitable(answers[0]):
                raise TypeError(f"{hook} of plugin {name} is not async")
            answer: Awaitable[object] = answers[0]
            return await answer

    def _client(self, name: str) -> httpx.AsyncClient:
        if name not in self._clients:
            version = importlib.metadata.version("llmao")
            self._clients[name] = httpx.AsyncClient(
                follow_redirects=False,
                trust_env=False,
                headers={"User-Agent": f"llmao/{version}"},
                timeout=30.0,
                limits=_LIMITS,
                transport=self._transport,
            )
        return self._clients[name]


def _fitting(body: object, kind: SourceKind) -> Fetched:
    wanted = _BODIES[kind]
    if not isinstance(body, wanted):
        raise TypeError(f"llmao_fetch returned {type(body).__name__}, not {wanted.__name__}")
    if isinstance(body, Listing) and not body.complete:
        raise FetchError("The listing is a part of one, and a part is no answer.")
    return body


def _outcome(answer: object, hook: str) -> Outcome:
    if not isinstance(answer, Outcome):
        raise TypeError(f"{hook} returned {type(answer).__name__}, not Outcome")
    return answer


def _being_cancelled() -> bool:
    """Tell a cancellation that is meant for us from one that a plugin made up."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _trouble(error: FetchError, request: FetchRequest, now: float) -> Trouble:
    return Trouble(type(error).__name__, _masked(str(error), _secrets(request)), now)


def _log_failure(plugin: str, hook: str, error: BaseException) -> None:
    """Log the type and the place, without the message: that may hold anything."""
    places = "".join(traceback.format_tb(error.__traceback__, limit=-6))
    log.error("plugin failed", plugin=plugin, hook=hook, error=type(error).__name__, at=places)


def _secrets(request: FetchRequest, order: Order | None = None) -> list[Secret]:
    held = [request.api_key, *_secrets_in(request.section)]
    if order and order.body:
        held.append(order.body.api_key)
    return [secret for secret in held if secret]


def _secrets_in(value: object) -> Iterable[Secret]:
    if isinstance(value, Secret):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _secrets_in(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _secrets_in(each)


def _masked(text: str, secrets: Iterable[Secret]) -> str:
    for secret in secrets:
        text = text.replace(secret.reveal(), "…")
    return text if len(text) <= _SAID_CHARS else text[: _SAID_CHARS - 1] + "…"
