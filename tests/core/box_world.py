"""A few boxes with lives of their own, around the little world's LiteLLM.

Rule of this file: truth stands on the box; what llmao, LiteLLM and a caller see of it follows.
Each event is one method, so that a machine, a seed or a person can let it happen.
"""

from collections.abc import Sequence

from attrs import define, evolve, field
from tests.core.small_world import World

from llmao_core.actions import OutcomeKind
from llmao_core.config import Config, FleetConfig, GpuProvider, Host, HostRow
from llmao_core.history import History
from llmao_core.intended import Deployment, build
from llmao_core.keys import normalise_base
from llmao_core.plan import Action, Policy
from llmao_core.probes import Counters, Identity, ProbeReport, Probes, ServedModel
from llmao_core.records import ProbeSpec
from llmao_core.secret import Secret
from llmao_core.snapshots import (
    BoxFetches,
    BoxProtocol,
    BoxStatus,
    Endpoint,
    Health,
    Instance,
    Listing,
    Reading,
    Request,
    RequestKind,
    Row,
    Snapshot,
    Snapshots,
)
from llmao_core.testing.fleets import MODELS, SALTS
from llmao_core.testing.replies import OK, REFUSED, TIMED_OUT, UNAUTHORIZED

START = 1_000_000.0
# How long a server must have served before llmao could have known it: a sweep and an identity.
KNOWABLE_S = 75.0
KNOWABLE_UNREACHED_S = 150.0
_HOSTS = (
    Host("203.0.113.1", (HostRow("m0", 8001, "m0"),)),
    Host("c.100", (HostRow("m0", 8001, "m0"),)),
    Host("c.200", (HostRow("m0", 8001, "m0"), HostRow("m1", 8002, "m1"))),
    Host("c.300", (HostRow("m1", 8001, "m1"),)),
)
_SERVES = ("ok", "busy")


@define
class Server:
    """One vLLM: `ok`, `busy`, `hung`, `down` (refuses), `silent` or `stranger` (a new tenant's)."""

    deployment: Deployment
    state: str = "down"
    since: float = START
    ready_at: float | None = None
    hung_at: float = 0.0

    def become(self, state: str, now: float) -> None:
        """Change the state; busy and ok are one uninterrupted service."""
        if not (self.state in _SERVES and state in _SERVES):
            self.since = now
        self.state, self.ready_at = state, None
        self.hung_at = now


@define
class Box:
    """One host and the instance behind it."""

    host: str
    number: int
    address: str
    servers: dict[int, Server]
    public: int
    listed: bool = True
    gap_until: float = 0.0
    reached: bool = True

    def base(self, port: int) -> str:
        """Return where a listen port can be reached."""
        return f"http://{self.address}:{self.public + port - 8000}"


@define
class BoxWorld:
    """Boxes, a neighbour that may share an address, LiteLLM, and llmao."""

    boxes: list[Box] = field(factory=list)
    world: World = field(init=False)
    neighbour: bool = False
    lost: list[OutcomeKind] = field(factory=list)
    lag_until: float = 0.0
    unlisted_until: float = 0.0
    wrongly_removed: list[str] = field(factory=list)
    old_bases: dict[str, str] = field(factory=dict)
    next_number: int = 1000

    def __attrs_post_init__(self) -> None:
        fleet = FleetConfig(vllm_api_salt=SALTS[:1], health_grace_s=120, hosts=_HOSTS)
        config = Config(
            fleet=fleet, models=MODELS[:3], gpu_providers=(GpuProvider("vast", Secret("k")),)
        )
        intended = build(config)
        for place, host in enumerate(_HOSTS):
            servers = {
                one.listen_port: Server(one)
                for one in intended.deployments
                if one.host == host.name
            }
            number = int(host.name[2:]) if host.name.startswith("c.") else 50
            address = host.name if number == 50 else f"203.0.113.{10 + place}"
            self.boxes.append(Box(host.name, number, address, servers, 40_000))
        snapshots = Snapshots(
            intended=intended, protocol=BoxProtocol(), inventories={"vast": Reading(60.0)}
        )
        self.world = World(
            snapshots, Policy(), START, self._probe, self._check, self._canary,
            outcome=self._outcome, lagging=self._lagging, listing=self._list,
            on_removal=self._removed, tick_s=3.0,
        )  # fmt: skip
        self.world.litellm.changed(START)
        for box in self.boxes:
            self.boot(box, 20)

    @property
    def now(self) -> float:
        return self.world.now

    # ---- what is seen

    def _server(self, base: str) -> tuple[Box, Server] | None:
        for box in self.boxes:
            for port, server in box.servers.items():
                if box.base(port) == base:
                    return box, server
        return None

    def _probe(self, spec: ProbeSpec, now: float) -> ProbeReport:
        found = self._server(spec.target.base)
        if found is None:
            return self._elsewhere(spec, now)
        box, server = found
        if not box.reached or server.state == "silent":
            return _report(now, TIMED_OUT, spec, Identity(TIMED_OUT), None)
        if server.state == "down":
            return _report(now, REFUSED, spec, Identity(REFUSED), None)
        ours = spec.target.bearer_id == server.deployment.bearer_id
        if server.state == "stranger" or not ours:
            return _report(now, OK, spec, Identity(UNAUTHORIZED, UNAUTHORIZED), None)
        served = (ServedModel(server.deployment.served, max_model_len=1000),)
        at = server.hung_at if server.state == "hung" else now
        counters = Counters(at, at, at, 0.5, 1, 0, None, 5000)
        if server.state == "busy":
            return _report(now, TIMED_OUT, spec, Identity(TIMED_OUT), counters)
        return _report(now, OK, spec, Identity(UNAUTHORIZED, OK, served), counters)

    def _elsewhere(self, spec: ProbeSpec, now: float) -> ProbeReport:
        """An address nobody of ours has now: a stranger's, or nobody's."""
        if self.old_bases.get(spec.target.base) == "stranger":
            return _report(now, OK, spec, Identity(UNAUTHORIZED, UNAUTHORIZED), None)
        return _report(now, REFUSED, spec, Identity(REFUSED), None)

    def _check(self, row: Row) -> bool:
        return self._serving(row) is not None

    def _serving(self, row: Row) -> tuple[Box, Server] | None:
        """Return the server that answers LiteLLM's requests to a row, if one does."""
        found = self._server(row.base)
        if found is None or found[1].state not in _SERVES:
            return None
        bearer = found[1].deployment.bearer
        held = self.world.litellm.keys.get(row.id)
        right = bearer is not None and held == bearer.reveal()
        named = row.params.get("model") == f"hosted_vllm/{found[1].deployment.served}"
        return found if right and named else None

    def _canary(self, spec: ProbeSpec) -> bool:
        found = self._server(spec.target.base)
        return found is not None and found[0].reached and found[1].state in _SERVES

    def _outcome(self, _action: Action) -> OutcomeKind:
        return self.lost.pop() if self.lost else OutcomeKind.DONE

    def _lagging(self) -> bool:
        return self.now < self.lag_until and int(self.now) % 2 == 0

    def _list(self, world: World) -> None:
        read = world.snapshots.inventories["vast"].snapshot
        wanted = world.plan.reads.get("vast", 0.0)
        due = read is None or self.now - read.taken_at >= 60 or wanted > read.taken_at
        if not due or self.now < self.unlisted_until:
            return
        listed = [
            self._instance(box, box.number)
            for box in self.boxes
            if box.listed and self.now >= box.gap_until
        ]
        if self.neighbour:
            twin = evolve(self._instance(self.boxes[0], 51), endpoints={})
            listed.append(twin)
        reading = Reading(60.0, Snapshot(self.now, Listing(tuple(listed))))
        world.snapshots = evolve(world.snapshots, inventories={"vast": reading})

    def _instance(self, box: Box, number: int) -> Instance:
        endpoints = {
            port: Endpoint("http", box.address, box.public + port - 8000) for port in box.servers
        }
        label = () if box.host == "203.0.113.1" else (box.host,)
        return Instance(
            str(number), BoxStatus.UP, names=label, addresses=(box.address,), endpoints=endpoints
        )

    def _removed(self, world: World, action: Action, row: Row) -> None:
        """Note a route that was taken from a server llmao could have known to serve."""
        if action.rule in ("announced-restart", "drained", "duplicate-rows"):
            return
        found = self._serving(row)
        if found is None:
            return
        limit_s = KNOWABLE_S if found[0].reached else KNOWABLE_UNREACHED_S
        if self.now - found[1].since > limit_s:
            self.wrongly_removed.append(
                f"{self.now - START:.0f} s: {action.rule} {action.key}: {action.reason} "
                f"{action.evidence} serving for {self.now - found[1].since:.0f} s"
            )

    # ---- what happens

    def run(self, seconds: float) -> None:
        """Let time pass; servers that load come up in it."""
        end = self.now + seconds
        while self.now < end:
            for box in self.boxes:
                for server in box.servers.values():
                    if server.ready_at is not None and self.now >= server.ready_at:
                        server.become("ok", self.now)
            self.world.run(min(3.0, end - self.now))

    def boot(self, box: Box, load_s: float) -> None:
        """The box starts, fetches its configuration and loads."""
        protocol = self.world.snapshots.protocol or BoxProtocol()
        before = protocol.hosts.get(box.host, BoxFetches())
        first = before.first_handout if before.first_handout is not None else self.now
        fetched = evolve(before, first_handout=first, last_handout=self.now, handed_out="r")
        self._protocol(evolve(protocol, hosts={**protocol.hosts, box.host: fetched}))
        for server in box.servers.values():
            server.become("down", self.now)
            server.ready_at = self.now + load_s

    def _protocol(self, protocol: BoxProtocol) -> None:
        self.world.snapshots = evolve(self.world.snapshots, protocol=protocol)

    def become(self, box: Box, state: str) -> None:
        """All servers of a box change their state; only one that serves gets busy or hangs."""
        for server in box.servers.values():
            if server.ready_at is None and (
                state not in ("busy", "hung", "ok") or (server.state in ("ok", "busy", "hung"))
            ):
                server.become(state, self.now)

    def remap(self, box: Box, left: str) -> None:
        """The provider maps the ports elsewhere; what is left at the old ones is nobody's."""
        for port in box.servers:
            self.old_bases[box.base(port)] = left
        box.public = 40_000 + (box.public - 40_000 + 10) % 400
        for server in box.servers.values():
            server.since = self.now

    def rent_anew(self, box: Box, load_s: float) -> None:
        """The instance is gone; another one answers to the host's name."""
        self.remap(box, "stranger")
        box.number, self.next_number = self.next_number, self.next_number + 1
        self.boot(box, load_s)

    def announce(self, box: Box, load_s: float) -> None:
        """The box tells that it restarts its servers, and does."""
        protocol = self.world.snapshots.protocol or BoxProtocol()
        before = protocol.hosts.get(box.host, BoxFetches())
        names = {server.deployment.name: self.now for server in box.servers.values()}
        told = evolve(before, restarting=names)
        self._protocol(evolve(protocol, hosts={**protocol.hosts, box.host: told}))
        self.run(6)
        for server in box.servers.values():
            server.become("down", self.now)
            server.ready_at = self.now + load_s

    def restart_llmao(self) -> None:
        """llmao forgets everything but where hosts were placed."""
        self.world.history = History()
        self.world.snapshots = Snapshots(
            intended=self.world.snapshots.intended,
            protocol=BoxProtocol(),
            inventories={"vast": Reading(60.0)},
            placed=self.world.snapshots.placed,
            health=Reading(60.0, Snapshot(self.now, Health())),
            probes=Probes(),
        )
        self.world.litellm_at = 0.0

    def edit_row(self, which: int, how: str) -> None:
        """Somebody changes LiteLLM by hand."""
        litellm = self.world.litellm
        if not litellm.rows:
            return
        one = sorted(litellm.rows)[which % len(litellm.rows)]
        row = litellm.rows[one]
        if how == "delete":
            del litellm.rows[one]
        elif how == "copy":
            copy = evolve(row, id=f"copy-{which}", info={**row.info, "id": f"copy-{which}"})
            litellm.rows[copy.id] = copy
            litellm.keys[copy.id] = litellm.keys[one]
        elif how == "block":
            litellm.rows[one] = evolve(row, blocked=True)
        else:
            base = "http://203.0.113.77:9"
            params = {**row.params, "api_base": f"{base}/v1"}
            litellm.rows[one] = evolve(row, base=normalise_base(base), params=params)
        litellm.changed(self.now)

    # ---- the end of it

    def calm(self) -> None:
        """All faults end; an admin releases what the brake holds."""
        self.lost, self.lag_until, self.unlisted_until, self.neighbour = [], 0.0, 0.0, False
        for box in self.boxes:
            box.reached, box.gap_until, box.listed = True, 0.0, True
            for server in box.servers.values():
                if server.state == "busy":
                    server.become("ok", self.now)
        release = Request(RequestKind.RELEASE_BRAKE, "admin", self.now, self.now + 1e5)
        self.world.snapshots = evolve(self.world.snapshots, requests=(release,))

    def unsettled(self) -> Sequence[str]:
        """Return what is not as it should be once everything is visible: routes ⇔ servers."""
        wrong = []
        rows = list(self.world.litellm.rows.values())
        for box in self.boxes:
            for port, server in box.servers.items():
                mine = [
                    row
                    for row in rows
                    if row.llmao_key == server.deployment.key.base
                    and row.model_name == server.deployment.model
                ]
                name = f"{box.host}:{port} {server.state}"
                if len(mine) > 1:
                    wrong.append(f"{name} has {len(mine)} rows")
                if server.state in _SERVES and not any(self._check(row) for row in mine):
                    bases = [row.base for row in mine]
                    wrong.append(f"{name} serves at {box.base(port)}; routed: {bases}")
                if server.state not in _SERVES and mine:
                    wrong.append(f"{name} has a row at {mine[0].base}")
        return wrong


def _report(
    now: float, health: object, spec: ProbeSpec, identity: Identity, counters: Counters | None
) -> ProbeReport:
    assert hasattr(health, "kind")
    return ProbeReport(
        now, 0.1, health,  # type: ignore[arg-type]
        identity if spec.identity else None,
        OK if counters else None,
        counters if spec.metrics else None,
    )  # fmt: skip
