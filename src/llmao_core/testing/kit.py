"""The kit for who writes a plugin: a bench to fill in, and the classes of checks to subclass.

Rule of this file: what a bench must offer, and nothing that checks. How to use it:

    class TestMine(ListingProviderTests):           # of llmao_core.testing.kit_listing
        def make_bench(self) -> ListingBench:
            return MyBench()

or, with an entry point `mine = "my_bench:MyBench"` in the group `llmao.bench`,
`pytest --pyargs llmao_core.testing --llmao-provider mine`.
"""

import asyncio
import contextlib
import hashlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import httpx
from attrs import field, frozen

from llmao_core.actions import ActionKind, Order, Outcome, RowBody
from llmao_core.config import Config, GpuProvider, Json, LitellmConfig
from llmao_core.hooks import FetchRequest, SourceCard
from llmao_core.keys import box_key
from llmao_core.secret import Secret
from llmao_core.snapshots import Deployments, Instance, Listing, Row

from .kit_wire import Mishap, Sent, Wire

NOW = 1_800_000_000.0
TIMEOUT_S = 7.5
PLANTED = "hf_planted_secret_of_a_box"
BEARER = "sk-planted-bearer-of-a-box"
FLEET = "kit"


@frozen
class Box:
    """A box to plant. ports: listen → public. secret: for wherever the API has secrets."""

    label: str
    address: str = "203.0.113.20"
    ports: Mapping[int, int] = field(factory=lambda: {8001: 41_201, 8002: 41_202})
    secret: str = field(default=PLANTED, repr=False)


class Bench(ABC):
    """A fake far end with the plugin in front of it.

    plugin: module or object with the hooks. card: the source under test. base_url, key: where the
    fake is and as whom to ask. many: what surely takes more than one page, if `pages`.
    cannot: mishaps that this API has no form of, each with a reason.
    live_key: the environment variable with a real key, for `--llmao-live` at `live_url`.
    A subclass makes its fake, then calls `super().__init__()`.
    """

    plugin: Any
    card: str
    base_url: str = "http://127.0.0.1:4999"
    key: str = "kit-key-of-the-account"
    section: ClassVar[Json] = {}
    pages: bool = True
    many: int = 60
    cannot: ClassVar[Mapping[Mishap, str]] = {}
    live_key: str = ""
    live_url: str = ""
    live: bool = False

    def __init__(self) -> None:
        self.wire = Wire(self.transport(), self.is_read)

    # ---- to be filled in

    @abstractmethod
    def path(self) -> str:
        """Return the path of the plugin's section in config.yaml."""

    @abstractmethod
    def transport(self) -> httpx.AsyncBaseTransport:
        """Return a transport that reaches the fake."""

    @abstractmethod
    def truth(self) -> Mapping[str, object]:
        """Return what the far end holds, by id; it must change whenever the far end does."""

    @abstractmethod
    def plant_some(self, count: int) -> list[str]:
        """Put so many things of any kind into the far end behind the plugin's back."""

    @abstractmethod
    def order(self, kind: ActionKind) -> Order:
        """Prepare what an order of this kind needs, and return one that can be carried out."""

    @abstractmethod
    def good_config(self) -> Config:
        """Return a configuration that the plugin has nothing against."""

    @abstractmethod
    def bad_configs(self) -> tuple[Config, ...]:
        """Return configurations whose section is wrong, each in another way."""

    # ---- to be changed where the API differs

    def mishap(self, kind: Mishap, *, nth: int = 1, writes: bool = False) -> None:
        """Let the nth request from now go wrong, in the way of this API."""
        self.wire.go_wrong(kind, nth=nth, writes=writes)

    def is_read(self, sent: Sent) -> bool:
        """Tell a request that only reads."""
        return sent.method in ("GET", "HEAD")

    def at_work(self) -> AbstractContextManager[object]:
        """Return what must be in place while the plugin works, such as a sleep that takes none."""
        return contextlib.nullcontext()

    # ---- for the checks

    def request(self) -> FetchRequest:
        """Return what a fetch is asked with."""
        return FetchRequest(self.card, self.base_url, Secret(self.key), self.section, TIMEOUT_S)

    def source_card(self) -> SourceCard:
        """Return the card under test; AssertionError when the plugin has none of that name."""
        cards: dict[str, SourceCard] = {one.name: one for one in self.plugin.llmao_source()}
        assert self.card in cards, f"llmao_source() has no card named {self.card}"
        return cards[self.card]

    def go_live(self, key: str) -> None:
        """Reach the real API from now on."""
        self.base_url, self.key, self.live = self.live_url, key, True
        self.wire = Wire(httpx.AsyncHTTPTransport(), self.is_read)

    async def afetch(self, request: FetchRequest | None = None) -> Any:
        """Read once through the plugin."""
        async with httpx.AsyncClient(transport=self.wire, trust_env=False) as http:
            asked = request or self.request()
            return await called(self.plugin.llmao_fetch, request=asked, http=http, now=NOW)

    def fetch(self, request: FetchRequest | None = None) -> Any:
        """Read once through the plugin, in an event loop of its own."""
        return asyncio.run(self.afetch(request))

    async def aexecute(self, order: Order) -> Outcome:
        """Carry out one order through the plugin."""
        async with httpx.AsyncClient(transport=self.wire, trust_env=False) as http:
            more = {"request": self.request(), "http": http, "now": NOW}
            outcome: Outcome = await called(self.plugin.llmao_execute, order=order, **more)
            return outcome

    def execute(self, order: Order) -> Outcome:
        """Carry out one order through the plugin, in an event loop of its own."""
        return asyncio.run(self.aexecute(order))


def called(hook: Any, **arguments: object) -> Any:
    """Call a hook as pluggy does: with the arguments it names."""
    names = inspect.signature(hook).parameters
    return hook(**{name: value for name, value in arguments.items() if name in names})


def things(body: Any) -> tuple[Instance, ...] | tuple[Row, ...]:
    """Return the boxes of a listing, the rows of deployments."""
    assert isinstance(body, Listing | Deployments), f"llmao_fetch returned {type(body).__name__}"
    return body.instances if isinstance(body, Listing) else body.rows


# ---- a provider of boxes


class ListingBench(Bench):
    """A bench for a plugin that lists boxes.

    optional: the fields of a row that may hold anything at all without losing the box.
    """

    optional: tuple[str, ...] = ()

    @abstractmethod
    def plant(self, box: Box) -> str:
        """Rent a box behind the plugin's back and return its id."""

    @abstractmethod
    def show(self, box_id: str, **fields: object) -> None:
        """Let fields of a row say something else from now on."""

    @abstractmethod
    def show_status(self, box_id: str, word: str) -> None:
        """Let the status of a row be this word from now on."""

    def path(self) -> str:
        """Return the path of the plugin's section in config.yaml."""
        return f"providers.{self.card}"

    def plant_some(self, count: int) -> list[str]:
        """Rent boxes with labels and addresses of their own."""
        return [self.plant(Box(f"kit-box-{n}", f"203.0.113.{n + 1}")) for n in range(count)]

    def order(self, kind: ActionKind) -> Order:
        """Return an order about a box that was just rented."""
        target = self.plant(Box(f"kit-{kind.value}".replace("_", "-")))
        return Order(kind, self.card, box_key("203.0.113.20", 8001, "m"), target)

    def good_config(self) -> Config:
        """Return a section with a key and nothing else that could be wrong."""
        return self._config(api_key=Secret(self.key), base_url=self.base_url, section=self.section)

    def bad_configs(self) -> tuple[Config, ...]:
        """Return a key that cannot be sent, a URL that is none, and a field that does not exist."""
        fine: dict[str, Any] = {"api_key": Secret(self.key), "base_url": self.base_url}
        return (
            self._config(**{**fine, "api_key": Secret(f"{self.key}\n")}),
            self._config(**{**fine, "base_url": "ftp://203.0.113.9"}),
            self._config(**fine, section={**self.section, "no_such_field": 1}),
        )

    def _config(self, **fields: Any) -> Config:
        return Config(gpu_providers=(GpuProvider(self.card, **fields),))


# ---- a keeper of deployments


class DeploymentsBench(Bench):
    """A bench for a plugin that reads and writes deployments."""

    pages = False
    orders: int = 0

    def path(self) -> str:
        """Return the path of the section that deployments plugins share."""
        return "litellm"

    @abstractmethod
    def plant_foreign(self, name: str) -> str:
        """Put a row that is not llmao's into the far end and return its id."""

    def plant_some(self, count: int) -> list[str]:
        """Put foreign rows into the far end."""
        return [self.plant_foreign(f"foreign-{n}") for n in range(count)]

    def body(self, name: str, base: str = "http://203.0.113.20:41201") -> RowBody:
        """Return a whole deployment as core writes it, under an id made from its name."""
        key = box_key("203.0.113.20", 8001, name)
        info = {
            "id": f"llmao-{_digest(name)}",
            "llmao_key": key.base,
            "llmao_fleet": FLEET,
            "llmao_hash": _digest(name, base),
            "asf_api_base": base,
            "self_hosted": True,
        }
        params = {"model": f"hosted_vllm/{name}", "timeout": 600}
        return RowBody(name, f"{base}/v1", params, info, Secret(BEARER))

    def order(self, kind: ActionKind) -> Order:
        """Return an order of which the far end knows nothing yet: its row is there if it must."""
        self.orders += 1
        name = f"{kind.value.replace('_', '-')}-{self.orders}"
        if kind is not ActionKind.ADD_LITELLM:
            self.execute(self.adding(name))
        moved = self.body(name, "http://203.0.113.20:49999")
        body = None if kind.removes else self.body(name) if kind is _ADD else moved
        return Order(kind, self.card, self.adding(name).key, moved.model_info["id"], body)

    def adding(self, name: str) -> Order:
        """Return the order that adds a row."""
        body = self.body(name)
        key = box_key("203.0.113.20", 8001, name)
        return Order(_ADD, self.card, key, body.model_info["id"], body)

    def good_config(self) -> Config:
        """Return a section with an address and a key."""
        return Config(litellm=LitellmConfig(base_url=self.base_url, master_key=Secret(self.key)))

    def bad_configs(self) -> tuple[Config, ...]:
        """Return an address that is none, no key, and a key that cannot be sent."""
        return tuple(
            Config(litellm=LitellmConfig(base_url=url, master_key=Secret(key)))
            for url, key in (
                ("ftp://203.0.113.9", self.key),
                (self.base_url, ""),
                (self.base_url, f"{self.key}\n"),
            )
        )


_ADD = ActionKind.ADD_LITELLM


def _digest(*words: str) -> str:
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:32]


@contextlib.contextmanager
def replaced(holder: object, name: str, value: object) -> Iterator[None]:
    """Let an attribute be another one for as long as the block runs."""
    kept = getattr(holder, name)
    setattr(holder, name, value)
    try:
        yield
    finally:
        setattr(holder, name, kept)
