"""The hooks a plugin implements, and the two markers.

Hooks are grouped by when they are called. Nothing outside `llmao_web/shell/host.py` calls them:
the host asks one plugin at a time, by name, under a deadline, and turns errors into values.
A hook ships only with a plugin that uses it.
"""

import enum
from collections.abc import Mapping
from typing import Any, Protocol

import pluggy
from attrs import field, frozen

from .actions import ActionKind, Order, Outcome
from .config import Config, Json
from .errors import Problem
from .item_kinds import ItemKind
from .secret import Secret
from .snapshots import Access, Deployments, Health, Listing

hookspec = pluggy.HookspecMarker("llmao")
hookimpl = pluggy.HookimplMarker("llmao")


class SourceKind(enum.Enum):
    """What a source tells about."""

    LISTING = "listing"
    DEPLOYMENTS = "deployments"
    HEALTH = "health"
    ACCESS = "access"


@frozen
class SourceCard:
    """One source of a plugin.

    name: unique, lower case; a listing's name is its section under `providers`.
    interval_s: default time between reads. executes: the kinds of order it carries out.
    """

    name: str
    kind: SourceKind
    interval_s: float
    executes: frozenset[ActionKind] = frozenset()


class Answer(Protocol):
    """The part of an httpx.Response a plugin may use."""

    status_code: int
    headers: Mapping[str, str]

    @property
    def content(self) -> bytes: ...
    @property
    def text(self) -> str: ...
    def json(self) -> Any: ...


class Http(Protocol):
    """The part of an httpx.AsyncClient a plugin may use; the host owns it."""

    async def request(self, method: str, url: str, *args: Any, **kwargs: Any) -> Any: ...


@frozen
class FetchRequest:
    """What one fetch is asked for.

    source: name of the card. base_url, api_key: where and as whom. section: the plugin's own
    settings. ask: LiteLLM ids to check now (health only). paid: whether a check that costs
    tokens is due (health only). look_up: ids that a list may not show (deployments only).
    timeout_s: for each request made.
    """

    source: str
    base_url: str
    api_key: Secret | None = None
    section: Json = field(factory=dict)
    timeout_s: float = 30
    ask: tuple[str, ...] = ()
    paid: bool = False
    look_up: tuple[str, ...] = ()


Fetched = Listing | Deployments | Health | Access


@frozen
class Notice:
    """An attention item that opened or is over.

    id: the same for as long as it is the same trouble. opened: False when it is over. since: when
    it was first seen; at: when this was noticed. host: "" when it is about none. times: how often
    it opened since people were last told of it. remedy: what to do, "" when it is over.
    """

    id: str
    kind: ItemKind
    opened: bool
    sentence: str
    since: float
    at: float
    host: str = ""
    times: int = 1
    remedy: str = ""


@frozen
class Message:
    """What one receiver is told at once.

    url: where to. fleet: whose. link: to llmao's own pages, "" for none. lost: older notices that
    could not be kept for it.
    """

    url: Secret
    fleet: str
    link: str
    notices: tuple[Notice, ...] = ()
    lost: int = 0


# ---- at start


@hookspec
def llmao_source() -> tuple[SourceCard, ...]:
    """Return the plugin's cards; no I/O. Every plugin is asked."""
    raise NotImplementedError


@hookspec
def llmao_check(config: Config) -> tuple[Problem, ...]:
    """Return the problems in the plugin's own section; no I/O. Every plugin is asked."""
    raise NotImplementedError


# ---- each read


@hookspec
async def llmao_fetch(request: FetchRequest, http: Http, now: float) -> Fetched:
    """Return one complete snapshot, or raise a FetchError; never a part; change nothing.

    Only the plugin whose card is named in the request is asked.
    """
    raise NotImplementedError


# ---- each action


@hookspec
async def llmao_execute(order: Order, request: FetchRequest, http: Http, now: float) -> Outcome:
    """Carry out one order and say how it ended; repeating it is safe.

    Only the plugin named in the order is asked. Raises Refused, NotYet or OutcomeUnknown.
    """
    raise NotImplementedError


# ---- each message


@hookspec
async def llmao_notify(message: Message, http: Http, now: float) -> Outcome:
    """Deliver one message and say how it ended; it may come twice.

    Only the plugin is asked whose name a receiver gives as its `kind`. Raises Refused, NotYet or
    OutcomeUnknown; a message that was refused is not tried again.
    """
    raise NotImplementedError
