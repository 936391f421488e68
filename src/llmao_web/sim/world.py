"""The world: LiteLLM, two providers, boxes, llmao, and the story of what happened to them.

Rule of this file: composition, time and memory. What happens is in acts.py, what must hold in
invariants.py.
"""

import asyncio
import contextlib
import traceback
from collections import deque
from collections.abc import Callable, Coroutine
from functools import lru_cache
from typing import Any, TypeVar

import httpx
from attrs import define, frozen

from llmao_core.actions import Order
from llmao_core.config import Config
from llmao_core.intended import Approval, Deployment, Intended, build
from llmao_core.keys import normalise_base
from llmao_core.plan import Plan
from llmao_core.reconcile import reconcile
from llmao_core.records import View
from llmao_core.secret import Secret
from llmao_core.testing.fake_provider import FakeProvider
from llmao_core.testing.fake_vllm import FakeVLLM, Mode
from llmao_core.testing.served import Call, Reply, Served
from llmao_litellm import plugin as litellm_plugin
from llmao_litellm.fake import FakeLiteLLM, Speeds
from llmao_litellm.fake_state import Stored
from llmao_runpod import plugin as runpod_plugin
from llmao_runpod.fake import FakeRunPod
from llmao_vast import plugin as vast_plugin
from llmao_vast.fake import FakeVast
from llmao_web.shell.host import Ended
from llmao_web.shell.loop import Reconcile

from .boxes import ALIVE, Box, Condition, Ground, Server, Spot
from .drains import Drains
from .faults import Far, Weather
from .fleet import (
    BY_ADDRESS,
    BY_CONTRACT,
    BY_LABEL,
    FLEET,
    LATER_ROWS,
    OWN,
    POD,
    make_config,
)
from .process import Llmao
from .replicas import NAMES, Replicas
from .virtual import START_S, SimClock, VirtualLoop, dice
from .wire import Wire, reach

T = TypeVar("T")

WORKERS = 2
EVENTS_KEPT = 20_000
COMMERCIAL_ADDRESS = "127.0.0.9"
_CHECK_S = 10.0
_PLUGINS: dict[str, object] = {
    "litellm": litellm_plugin, "runpod": runpod_plugin, "vast": vast_plugin,
}  # fmt: skip


@frozen
class Event:
    """One line of the story. about: a host's name, a key as people see it, or ""."""

    at: float
    about: str
    what: str


@lru_cache(maxsize=1000)
def base_url(api_base: str) -> httpx.URL:
    """Return the root that an `api_base` leads to."""
    return httpx.URL(normalise_base(api_base))


@frozen
class Violation:
    """An invariant that does not hold. about: whose story to tell."""

    name: str
    what: str
    about: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.what}"


@define(eq=False)
class Written:
    """What the world noted of llmao's orders for one LiteLLM row."""

    ended_at: float = 0.0
    failed_at: float = 0.0
    failures: int = 0


class World:
    """All of one seed.

    told: every event, oldest first. violation: the first that was found. orders: begun by llmao.
    coming: until when something is still to happen by itself. touched: when people last changed
    a row. planted: copies that people made. foreign: rows that are not ours, as they must stay.
    approved: hosts, and when their approval was acknowledged. drains: what people drained.
    """

    def __init__(self, loop: VirtualLoop, seed: int, rule: Reconcile = reconcile) -> None:
        self.loop = loop
        self.seed = seed
        self.told: deque[Event] = deque(maxlen=EVENTS_KEPT)
        self.say: Callable[[Event], None] = lambda _event: None
        self.violation: Violation | None = None
        self.config: Config = make_config(dice(seed, "config"))
        self.weather = Weather(dice(seed, "weather"))
        self._true = SimClock(loop, dice(seed, "world"))
        self.litellm = self._litellm(dice(seed, "workers"))
        self.vast = FakeVast(self._true.now)
        self.runpod = FakeRunPod(self._true.now)
        self.ground = Ground(self._boxes(), (self.vast, self.runpod), self._stranger())
        served: dict[Far, Served] = {
            Far.LITELLM: self.litellm, Far.VAST: self.vast, Far.RUNPOD: self.runpod,
        }  # fmt: skip
        self._tasks: set[asyncio.Task[Any]] = set()
        self.wire = Wire(self.ground, served, self.weather, loop.time, self.spawn, self._delivered)
        self.pass_s = dice(seed, "pass").choice([1.0, 3.0, 6.0])
        self.replicas = Replicas.of(seed, loop.time, dice(seed, "balance"))
        self.replicas.each = tuple(self._llmao(name, rule) for name in self.replicas.names)
        self.on_pass: Callable[[Llmao, View, Plan], None] = lambda _who, _view, _plan: None
        self.on_order: Callable[[Order, Llmao], None] = lambda _order, _who: None
        self.on_list: Callable[[], None] = lambda: None
        self.orders = 0
        self.coming = 0.0
        self._over = asyncio.Event()
        self.written: dict[str, Written] = {}
        self.approved: dict[str, float] = {}
        self.drains = Drains()
        self._built: tuple[Config, frozenset[str], Intended] | None = None
        self.touched: dict[str, float] = {}
        self.planted: set[str] = set()
        self.foreign: dict[str, Stored] = {}

    # ---- making it

    def _llmao(self, name: str, rule: Reconcile) -> Llmao:
        made = Llmao(
            self.wire,
            _PLUGINS,
            # The first one's dice are those of a world with one.
            SimClock(self.loop, dice(self.seed, "jitter" + name.removeprefix(NAMES[0]))),
            lambda: self.config,
            wrote=self._wrote,
            passed=self._passed,
            rule=rule,
            pass_s=self.pass_s,
            disk=self.replicas.disk,
            arbiter=self.replicas.arbiter,
            name=name,
        )
        made.died = lambda error: self.fail("alive", f"{name} ended with {error!r}")
        return made

    def _litellm(self, chance: Any) -> FakeLiteLLM:
        made = FakeLiteLLM(
            self._true.now,
            workers=WORKERS,
            check=self._check,
            speeds=Speeds(write_s=lambda _rows: 0.2, delete_s=0.04),
            sleep=asyncio.sleep,
        )
        made.worker_of = lambda _call: chance.randrange(WORKERS)
        # The second worker lags: it loads half a poll interval after the first.
        made.workers[1].synced_at -= made.poll_interval_s / 2
        return made

    def _boxes(self) -> list[Box]:
        vast, runpod = self.vast, self.runpod
        return [
            Box(BY_ADDRESS, BY_ADDRESS, (8001,), vast,
                vast.plant(address=BY_ADDRESS, ports=(8001,))),
            Box(BY_LABEL, "127.0.0.11", (8001, 8002), vast,
                vast.plant(BY_LABEL, address="127.0.0.11", ports=(8001, 8002))),
            Box(BY_CONTRACT, "127.0.0.12", (8001,), vast,
                vast.plant(address="127.0.0.12", ports=(8001,), id="300")),
            Box(POD, "127.0.0.13", (8001,), runpod,
                runpod.plant("pod", address="127.0.0.13", ports=(8001,))),
            Box(OWN, OWN, (8001,)),
        ]  # fmt: skip

    def _stranger(self) -> FakeVLLM:
        return FakeVLLM(self._true.now, Secret("sk-of-a-stranger"), mode=Mode.SERVES)

    def server(self, box: Box, port: int, bearer: Secret, served: str) -> Server:
        """Return a new server of a box, which loads."""
        vllm = FakeVLLM(
            self._true.now, bearer, served=(served,), guarded=True, slow_s=12.0, mode=Mode.LOADING
        )
        return Server(box.host, port, vllm, self.seconds)

    # ---- time and tasks

    @property
    def seconds(self) -> float:
        """Return the virtual seconds since it began."""
        return self.loop.seconds

    def spawn(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Have something happen beside the rest, whoever waits for it."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            at = "".join(traceback.format_tb(error.__traceback__, limit=-4))
            self.fail("simulation", f"the world itself failed with {error!r}\n{at}")

    def after(self, seconds: float, what: Callable[[], None]) -> None:
        """Have something happen later."""
        self.coming = max(self.coming, self.seconds + seconds)
        self.loop.call_later(seconds, what)

    async def close(self) -> None:
        """End everything that still runs."""
        for llmao in self.replicas.each:
            llmao.kill()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.sleep(0)
        self.replicas.close()

    # ---- which llmao

    @property
    def llmao(self) -> Llmao:
        """Return the llmao that leads, else one that could."""
        return self.replicas.leading()

    def front(self) -> Llmao:
        """Return the llmao that a box or a person comes to."""
        return self.replicas.front()

    @property
    def clock(self) -> SimClock:
        """Return the clock of the llmao that leads."""
        return self.llmao.clock

    def approve(self, host: str) -> None:
        """Note that the approval of a host was acknowledged."""
        self.approved.setdefault(host, self.seconds)

    # ---- the story

    def tell(self, about: str, what: str) -> None:
        """Note what happened."""
        event = Event(self.seconds, about, what)
        self.told.append(event)
        self.say(event)

    def fail(self, name: str, what: str, about: str = "") -> None:
        """Note that an invariant does not hold; the first one ends the run."""
        if self.violation is None:
            self._over.set()
            self.violation = Violation(name, what, about)
            self.tell(about, f"VIOLATED {name}: {what}")

    def story(self, about: str, most: int = 40) -> list[Event]:
        """Return the last events about a key, its host, and what concerned everything."""
        concerns = ("", about, about.rpartition(":")[0])
        wanted = [one for one in self.told if not about or one.about in concerns]
        return wanted[-most:]

    # ---- what is true

    def intended(self) -> Intended:
        """Return what should exist by configuration and acknowledged approvals."""
        return self._build(self.config, frozenset(self.approved))

    def _build(self, config: Config, approved: frozenset[str]) -> Intended:
        if self._built is None or self._built[0] is not config or self._built[1] != approved:
            approvals = [Approval(one, LATER_ROWS, "admin", START_S) for one in sorted(approved)]
            self._built = (config, approved, build(config, approvals))
        return self._built[2]

    def deployment_of(self, row: Stored) -> Deployment | None:
        """Return the deployment that one of our rows stands for."""
        for one in self.intended().deployments:
            if one.key.base == row.info.get("llmao_key") and one.model == row.model_name:
                return one
        return None

    def deployment_by(self, litellm_id: str) -> Deployment | None:
        """Return the deployment whose row has an id."""
        every = self.intended().deployments
        return next((one for one in every if one.litellm_id == litellm_id), None)

    def rows_of(self, deployment: Deployment) -> list[Stored]:
        """Return LiteLLM's rows with our stamp for a deployment."""
        return [
            row
            for row in self.litellm.db.values()
            if row.info.get("llmao_key") == deployment.key.base
            and row.model_name == deployment.model
            and row.info.get("llmao_fleet") == FLEET
        ]

    def finds(self, row: Stored, origin: str = "litellm") -> tuple[Condition, Spot]:
        """Return what a caller with a row's address and key finds."""
        spot = self.wire.spot(origin, base_url(str(row.params.get("api_base"))))
        if spot.condition not in (*ALIVE, Condition.STRANGE, Condition.HUNG) or spot.vllm is None:
            return spot.condition, spot
        if row.params.get("api_key") != spot.vllm.bearer.reveal():
            return Condition.UNAUTHORIZED, spot
        if str(row.params.get("model")).partition("/")[2] not in spot.vllm.served:
            return Condition.OTHER_MODEL, spot
        return spot.condition, spot

    async def _check(self, row: Stored) -> str:
        """Ask the server behind a row for a completion, as LiteLLM does."""
        base = normalise_base(str(row.params.get("api_base")))
        if COMMERCIAL_ADDRESS in base:
            return ""
        request = httpx.Request(
            "POST",
            f"{base}/v1/chat/completions",
            headers={"Authorization": f"Bearer {row.params.get('api_key')}"},
            json={
                "model": str(row.params.get("model")).partition("/")[2],
                "messages": [{"role": "user", "content": "1"}],
            },
        )
        try:
            async with asyncio.timeout(float(row.info.get("health_check_timeout") or _CHECK_S)):
                status, _ = await reach(self.wire.spot("litellm", request.url), request)
        except TimeoutError:
            return "Timeout exceeded"
        except httpx.HTTPError as error:
            return str(error)
        return "" if status == 200 else f"Hosted_vllmException - {status}"

    # ---- what is noted

    def _delivered(self, who: object, far: Far, call: Call, reply: Reply) -> None:
        if reply.status != 200 or call.method != "GET":
            return
        if far in (Far.VAST, Far.RUNPOD):
            assert isinstance(who, Llmao)
            self._shown(who, self.vast if far is Far.VAST else self.runpod)
        elif call.path == "/model/info" and not call.query:
            self.on_list()

    def _shown(self, who: Llmao, provider: FakeProvider) -> None:
        """Note for every box whether llmao has now been shown where it is."""
        listed = {one.id: one for one in provider.listed()}
        for box in self.ground.boxes:
            found = listed.get(box.instance) if box.provider is provider else None
            if found is not None and provider.ports_of(found) == found.ports:
                box.mapped_in.add((who.name, who.runs))

    def _passed(self, who: Llmao, view: View, plan: Plan) -> None:
        self.on_pass(who, view, plan)

    def _wrote(self, who: Llmao, order: Order, ended: Ended | None) -> None:
        if ended is None:
            self.orders += 1
            self.on_order(order, who)
            return
        noted = self.written.setdefault(order.target, Written())
        noted.ended_at = self.seconds
        good = ended.outcome.good
        noted.failures = 0 if good else noted.failures + 1
        noted.failed_at = noted.failed_at if good else self.seconds
        said = f"{order.kind.value}: {ended.outcome.kind.value} {ended.outcome.said}".strip()
        self.tell(str(order.key), said)

    # ---- for whoever waits

    async def run(self, seconds: float) -> None:
        """Let time pass until something is violated or there is enough of it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._over.wait()
