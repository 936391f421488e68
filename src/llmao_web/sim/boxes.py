"""Boxes, the servers on them, and what stands at an address: the truth that others only see.

Rule of this file: truth has no opinion. What llmao, LiteLLM and a provider see of it is the
wire's and the fakes' business.
"""

import enum

from attrs import define, field, frozen

from llmao_core.intended import Deployment
from llmao_core.testing.fake_provider import STRANGER, FakeProvider, Life
from llmao_core.testing.fake_vllm import FakeVLLM, Mode


class Condition(enum.Enum):
    """What a caller with the right bearer finds at an address."""

    SERVING = "serves"
    BUSY = "is busy"
    CLOSED = "refuses connections"
    SILENT = "is silent"
    HUNG = "hangs, and its port is alive"
    DOWN = "answers that it is down"
    UNAUTHORIZED = "refuses the bearer"
    OTHER_MODEL = "serves another model"
    OPEN = "answers without a key"
    STRANGE = "answers what proves nothing"


ALIVE = (Condition.SERVING, Condition.BUSY)
# What is neither serving nor, by the rules, dead: llmao may keep such a row or not.
UNDECIDED = (Condition.STRANGE,)
_OF_MODE = {
    Mode.SERVES: Condition.SERVING,
    Mode.SLOW: Condition.BUSY,
    Mode.LOADING: Condition.CLOSED,
    Mode.REFUSES: Condition.CLOSED,
    Mode.HANGS: Condition.SILENT,
    Mode.FROZEN: Condition.HUNG,
    Mode.DEAD_ENGINE: Condition.DOWN,
    Mode.WRONG_KEY: Condition.UNAUTHORIZED,
    Mode.WRONG_MODEL: Condition.OTHER_MODEL,
    Mode.KEYLESS: Condition.OPEN,
    Mode.FULL: Condition.STRANGE,
    Mode.GARBLED: Condition.STRANGE,
}


@define(eq=False)
class Server:
    """One vLLM. since: when its condition last changed; alive_since: when it last began to serve.

    kept_out_until: how long what its box announced, or an admin asked for, may keep it out. turn:
    counts what happened to it, so that what was to follow an earlier event is dropped.
    """

    host: str
    port: int
    vllm: FakeVLLM
    since: float = 0.0
    alive_since: float = 0.0
    kept_out_until: float = 0.0
    turn: int = 0

    @property
    def condition(self) -> Condition:
        """Return what it does to a caller with the bearer that it was given."""
        return _OF_MODE[self.vllm.mode]

    def become(self, mode: Mode, now: float) -> None:
        """Break, mend or restart it; serving and busy are one uninterrupted service."""
        before = self.condition
        self.turn += 1
        self.vllm.mode = mode
        if self.condition is not before:
            self.since = now
        if before not in ALIVE and self.condition in ALIVE:
            self.alive_since = now


@define(eq=False)
class Box:
    """One host and the instance behind it; a machine of our own has no provider.

    mapped_in: the runs of llmao that were shown where it can be reached now.
    life: counts its starts, so that what was meant for an earlier one is dropped.
    """

    host: str
    address: str
    ports: tuple[int, ...]
    provider: FakeProvider | None = None
    instance: str = ""
    servers: dict[int, Server] = field(factory=dict)
    mapped_in: set[tuple[str, int]] = field(factory=set)
    life: int = 0

    @property
    def exists(self) -> bool:
        """Tell whether it is rented, or our own."""
        return self.provider is None or self.instance in self.provider.truth()

    @property
    def runs(self) -> bool:
        """Tell whether its container runs."""
        if self.provider is None:
            return True
        rented = self.provider.truth().get(self.instance)
        return rented is not None and self.provider.life(rented) is Life.RUNNING

    def public(self, port: int) -> int:
        """Return the public port of a listen port."""
        if self.provider is None:
            return port
        return self.provider.boxes[self.instance].ports[port]

    def base(self, port: int) -> str:
        """Return where a server can be reached now."""
        return f"http://{self.address}:{self.public(port)}"


@frozen
class Spot:
    """What stands at an address and port. server: one of ours; vllm: whoever answers."""

    condition: Condition
    vllm: FakeVLLM | None = None
    server: Server | None = None
    box: Box | None = None


@define(eq=False)
class Ground:
    """All boxes, and who stands where. stranger: what a new tenant of an old address runs."""

    boxes: list[Box]
    providers: tuple[FakeProvider, ...]
    stranger: FakeVLLM

    def at(self, address: str, port: int) -> Spot:
        """Return what stands at an address and public port."""
        for provider in self.providers:
            holder = provider.holder(address, port)
            if holder == STRANGER:
                return Spot(_OF_MODE[self.stranger.mode], self.stranger)
            if holder:
                return self._rented(provider, holder, port)
        return self._own(address, port)

    def _rented(self, provider: FakeProvider, holder: str, port: int) -> Spot:
        for box in self.boxes:
            if box.provider is not provider or box.instance != holder:
                continue
            listen = next((p for p in box.ports if box.public(p) == port), 0)
            if not box.runs:
                return Spot(Condition.CLOSED, box=box)
            server = box.servers.get(listen)
            if server is None:
                return Spot(Condition.CLOSED, box=box)
            return Spot(server.condition, server.vllm, server, box)
        return Spot(Condition.CLOSED)

    def _own(self, address: str, port: int) -> Spot:
        for box in self.boxes:
            if box.provider is None and box.address == address and port in box.servers:
                server = box.servers[port]
                return Spot(server.condition, server.vllm, server, box)
        return Spot(Condition.CLOSED)

    def server_of(self, deployment: Deployment) -> tuple[Box, Server] | None:
        """Return the server that a deployment means, if its box has booted."""
        for box in self.boxes:
            if box.host == deployment.host and (server := box.servers.get(deployment.listen_port)):
                return box, server
        return None
