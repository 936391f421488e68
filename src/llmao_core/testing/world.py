"""A described world: what a step may change in it, and what llmao remembers of it.

Rule of this file: one method per word of a step, named after the word; nothing is read, probed or
decided here.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import define, evolve, field

from llmao_core.config import BrakeConfig
from llmao_core.errors import Trouble
from llmao_core.history import History
from llmao_core.plan import Plan, Policy
from llmao_core.reboot import ask
from llmao_core.records import View
from llmao_core.snapshots import (
    BoxFetches,
    BoxProtocol,
    Health,
    Listing,
    Opinion,
    Reading,
    Request,
    RequestKind,
    Row,
    Snapshot,
    Snapshots,
    UnknownHost,
    WrongKeys,
)
from llmao_core.testing.situation import (
    ONE_BOX,
    Server,
    base_of,
    find_key,
    instance_of,
    intend,
    known,
    row_of,
    server_of,
)

START_S = 1_000_000.0
SKEW_S = 60.0
WRITES = ("none", "work", "lost", "not kept", "not live", "fail")


@define
class World:
    """What there is to see, and what llmao has concluded of it so far.

    servers: by base. rows: by LiteLLM id. listings: None while one cannot be read. answers: what
    LiteLLM says when asked about a key. view, plan, history: of the newest pass. ran: every action
    that was free to run in some pass, as `kind, by rule`. asked: LiteLLM ids that the newest look
    asked about.
    """

    words: dict[str, Any] = field(factory=lambda: dict(ONE_BOX))
    snapshots: Snapshots = field(factory=Snapshots)
    history: History = field(factory=History)
    policy: Policy = field(factory=Policy)
    now: float = START_S
    view: View = field(factory=lambda: View(START_S))
    plan: Plan = field(factory=Plan)
    ran: list[str] = field(factory=list)
    asked: tuple[str, ...] = ()
    servers: dict[str, Server] = field(factory=dict)
    rows: dict[str, Row] = field(factory=dict)
    listings: dict[str, Listing | None] = field(factory=dict)
    answers: dict[str, str] = field(factory=dict)
    litellm_reads: bool = True
    probing: bool = True
    writes: str = "none"

    def change(self, changes: Mapping[str, Any]) -> None:
        """Change the world as a step says."""
        known(changes, STEP_WORDS, "step")
        if changes.get("restart"):
            self._restart()
        if "fleet" in changes or self.snapshots.intended is None:
            self._load(changes.get("fleet", {}))
        for name, words in changes.items():
            if name not in ("fleet", "restart"):
                getattr(self, f"_set_{name}")(words)

    def _load(self, words: Mapping[str, Any]) -> None:
        self.words |= words
        self.snapshots = evolve(self.snapshots, intended=intend(self.words))
        for name in self.words.get("listings", {}):
            self.listings.setdefault(name, None)

    def _restart(self) -> None:
        """Start llmao anew: only what the store keeps is left."""
        placed = self.view.placed
        self.snapshots = Snapshots(intended=self.snapshots.intended, placed=placed)
        self.history = History()

    def _set_servers(self, words: Mapping[str, Any]) -> None:
        self.servers |= {base_of(where): server_of(what) for where, what in words.items()}

    def _set_probes(self, on: bool) -> None:
        self.probing = on

    def _set_rows(self, words: Iterable[Mapping[str, Any]]) -> None:
        assert self.snapshots.intended is not None
        made = [row_of(one, self.snapshots.intended) for one in words]
        self.rows = {row.id: row for row in made}
        assert len(self.rows) == len(made), "two rows with one id"

    def _set_listings(self, words: Mapping[str, Any]) -> None:
        for name, boxes in words.items():
            self.listings[name] = (
                None
                if boxes == "silent"
                else Listing(tuple(instance_of(one, what) for one, what in boxes.items()))
            )

    def _set_litellm(self, word: str) -> None:
        self.litellm_reads = word == "answers"

    def _set_checks(self, words: Mapping[str, str]) -> None:
        self._opine({self._row_id(one): says for one, says in words.items()})

    def _set_litellm_answers(self, words: Mapping[str, str]) -> None:
        self.answers = dict(words)

    def _set_fetches(self, hosts: Iterable[str]) -> None:
        for host in hosts:
            old = self._protocol.hosts.get(host, BoxFetches())
            first = old.first_handout if old.first_handout is not None else self.now
            self._fetched(
                host, evolve(old, first_handout=first, last_handout=self.now, last_seen=self.now)
            )

    def _set_restarting(self, names: Mapping[str, str]) -> None:
        for host, name in names.items():
            old = self._protocol.hosts.get(host, BoxFetches())
            self._fetched(host, evolve(old, restarting={**old.restarting, name: self.now}))

    def _set_applied(self, revisions: Mapping[str, str]) -> None:
        for host, revision in revisions.items():
            old = self._protocol.hosts.get(host, BoxFetches())
            self._fetched(host, evolve(old, applied=revision))

    def _set_revisions(self, revisions: Mapping[str, str]) -> None:
        self.snapshots = evolve(self.snapshots, revisions=dict(revisions))

    def _set_unknown(self, hosts: Iterable[str]) -> None:
        unknown = tuple(UnknownHost(host, self.now, self.now, 1) for host in hosts)
        self.snapshots = evolve(self.snapshots, protocol=evolve(self._protocol, unknown=unknown))

    def _set_wrong_key(self, peers: Iterable[str]) -> None:
        wrong = tuple(WrongKeys(peer, "", 3, self.now) for peer in peers)
        self.snapshots = evolve(self.snapshots, protocol=evolve(self._protocol, wrong_keys=wrong))

    def _set_writes(self, word: str) -> None:
        assert word in WRITES, f"writes: {word!r}; known are {WRITES}"
        self.writes = word

    def _set_policy(self, words: Mapping[str, Any]) -> None:
        kinds = {name: value for name, value in words.items() if name != "brake"}
        self.policy = Policy.of(kinds, BrakeConfig(**words.get("brake", {})))

    def _set_trouble(self, words: Mapping[str, str | None]) -> None:
        """Note that a source cannot be read, and why; None: it can again."""
        for name, word in words.items():
            kind, _, said = (word or "").partition(": ")
            trouble = Trouble(kind, said, self.now) if word else None
            if name == "litellm":
                self.litellm_reads = trouble is None
                deployments = evolve(self.snapshots.deployments, trouble=trouble)
                self.snapshots = evolve(self.snapshots, deployments=deployments)
            elif name in self.listings:
                self.listings[name] = None
                reading = evolve(self.snapshots.inventories[name], trouble=trouble)
                inventories = {**self.snapshots.inventories, name: reading}
                self.snapshots = evolve(self.snapshots, inventories=inventories)
            else:
                troubles = {**self.snapshots.troubles, name: trouble}
                left = {one: what for one, what in troubles.items() if what is not None}
                self.snapshots = evolve(self.snapshots, troubles=left)

    def _set_press(self, words: Mapping[str, str]) -> None:
        """Press a button: `run: KEY`, `reboot: HOST`, or `release: brake`."""
        until = self.now + 600
        if "release" in words:
            made = Request(RequestKind.RELEASE_BRAKE, "admin", self.now, until)
        elif "reboot" in words:
            host = next(one for one in self.view.hosts if one.name == words["reboot"])
            made = ask(host, "admin", self.now)
        else:
            action = next(one for one in self.plan.actions if str(one.key) == words["run"])
            made = Request(
                RequestKind.RUN, "admin", self.now, until, action.key, action.kind, action.digest
            )
        self.snapshots = evolve(self.snapshots, requests=(*self.snapshots.requests, made))

    @property
    def _protocol(self) -> BoxProtocol:
        return self.snapshots.protocol or BoxProtocol()

    def _fetched(self, host: str, fetches: BoxFetches) -> None:
        protocol = evolve(self._protocol, hosts={**self._protocol.hosts, host: fetches})
        self.snapshots = evolve(self.snapshots, protocol=protocol)

    def _row_id(self, text: str) -> str:
        if text in self.rows:
            return text
        assert self.snapshots.intended is not None
        key = find_key(self.snapshots.intended, text)
        return next(
            one.id
            for one in self.rows.values()
            if (one.llmao_key, one.model_name) == (key.base, key.model) or one.base == key.base
        )

    def _opine(self, says: Mapping[str, str]) -> None:
        assert set(says.values()) <= {"up", "down"}, f"LiteLLM says up or down, not {says}"
        self._health(opinions={one: Opinion(word == "up", self.now) for one, word in says.items()})

    def _health(self, **more: Mapping[str, Any]) -> None:
        old = self.snapshots.health.snapshot or Snapshot(self.now, Health())
        body = evolve(
            old.body,
            opinions={**old.body.opinions, **more.get("opinions", {})},
            asked={**old.body.asked, **more.get("asked", {})},
        )
        self.snapshots = evolve(
            self.snapshots, health=Reading[Health](SKEW_S, Snapshot(old.taken_at, body))
        )


STEP_WORDS = frozenset(
    {"at", "fleet", "restart"}
    | {name.removeprefix("_set_") for name in vars(World) if name.startswith("_set_")}
)
