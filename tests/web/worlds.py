"""A small fleet, a desk that has it, and a view of it, built by hand for the tests of the web."""

import asyncio
from typing import Any

from attrs import define, evolve, field

from llmao_core.actions import ActionKind, Order
from llmao_core.box_config import BoxAnswer, answers
from llmao_core.config import (
    Config,
    FleetConfig,
    Host,
    HostRow,
    Model,
    Recipe,
    ServerConfig,
    Source,
)
from llmao_core.errors import Trouble
from llmao_core.intended import Intended, build
from llmao_core.keys import box_key, commercial_key
from llmao_core.plan import Action, Hold, Plan
from llmao_core.probes import Counters, Target
from llmao_core.protocol import BoxEvent, fold
from llmao_core.records import (
    AttentionItem,
    Availability,
    Badge,
    HostView,
    ItemKind,
    Kind,
    Lifecycle,
    LitellmSignal,
    ModelView,
    Record,
    Signal,
    SignalKind,
    SourceView,
    View,
)
from llmao_core.secret import Secret
from llmao_core.snapshots import BoxProtocol, Row, SourceState
from llmao_web.shell.probe_log import Probed

NOW = 1_760_000_000.0
FLEET_KEY = "fleet-key-for-tests"
OLD_KEY = "fleet-key-before"
SALT = "salt-1"
GEMMA = Model(
    "gemma4-26b",
    recipe=Recipe(
        model="google/gemma-4-26b-it",
        args=("--reasoning-parser", "gemma"),
        max_model_len=32768,
        vram_gb=18.0,
        disk_gb=60,
    ),
)
QWEN = Model("qwen3-8b", recipe=Recipe(model="Qwen/Qwen3-8B", source=Source("hf")))
BOX = Host(
    "203.0.113.10", (HostRow("gemma4-26b", 8001, "gemma4-26b"), HostRow("qwen3-8b", 8002, "q"))
)
LABEL = Host("c.4711", (HostRow("qwen3-8b", 8001, "qwen3-8b"),), was=("old-name",))


@define
class FakeClock:
    """Time that stands still until a test moves it."""

    at: float = NOW

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += seconds
        await asyncio.sleep(0)


@define
class FakeDesk:
    """A desk in a few lines: what a test puts there."""

    clock: FakeClock = field(factory=FakeClock)
    what: Intended | None = None
    told: dict[str, BoxAnswer] = field(factory=dict)
    events: list[BoxEvent] = field(factory=list)
    protocol: BoxProtocol = field(factory=BoxProtocol)
    seen: View | None = None
    planned: Plan | None = None
    missing: tuple[str, ...] = ()
    noted: dict[Target, tuple[Probed, ...]] = field(factory=dict)

    def intended(self) -> Intended | None:
        return self.what

    def answer(self, host: str) -> BoxAnswer | None:
        return self.told.get(host)

    def note(self, event: BoxEvent) -> None:
        self.events.append(event)
        self.protocol = fold(self.protocol, event, self.clock.now())

    def view(self) -> View | None:
        return self.seen

    def plan(self) -> Plan | None:
        return self.planned

    def ready(self) -> tuple[bool, tuple[str, ...]]:
        return not self.missing, self.missing

    def probed(self, target: Target) -> tuple[Probed, ...]:
        return self.noted.get(target, ())


def fleet(hosts: tuple[Host, ...] = (BOX, LABEL), **changes: Any) -> Config:
    """Return a configuration; changes go into its `fleet` section, `server` into its own."""
    server = changes.pop("server", ServerConfig())
    given = {
        "key": (Secret(FLEET_KEY), Secret(OLD_KEY)),
        "vllm_api_salt": (Secret(SALT),),
        "hosts": hosts,
        **changes,
    }
    return Config(server=server, fleet=FleetConfig(**given), models=(GEMMA, QWEN))


def desk_of(config: Config) -> FakeDesk:
    """Return a desk that has read a configuration."""
    intended = build(config)
    return FakeDesk(what=intended, told=dict(answers(intended)))


def a_view() -> View:
    """Return a view with one of nearly everything a page must show."""
    intended = build(fleet())
    gemma, qwen, label = intended.deployments[:3]
    claude = commercial_key("openrouter", "https://openrouter.ai/api/v1", "claude-x")
    orphan = box_key("203.0.113.77", 8001, "gone-model")
    records = (
        Record(
            gemma.key,
            Kind.INTENDED,
            Lifecycle.HEALTHY,
            rule="answers",
            because="The newest probe was answered.",
            since=NOW - 7800,
            deployment=gemma,
            provider="vast",
            instance_id="20443311",
            dialable="http://203.0.113.10:41022",
            row=Row("llmao-1", "gemma4-26b", "http://203.0.113.10:41022"),
            signal=Signal(SignalKind.OK, NOW - 4),
            litellm=LitellmSignal.UP,
            litellm_at=NOW - 3000,
            last_ok=NOW - 4,
            max_model_len=32768,
            counters=Counters(1, 1, 1, 0.1, 1, 0, kv_tokens=181000),
            revision_current="r1-0123456789abcdef0123456789abcdef",
            revision_applied="r1-0123456789abcdef0123456789abcdef",
        ),
        Record(
            qwen.key,
            Kind.INTENDED,
            Lifecycle.UNHEALTHY,
            rule="failed_threshold",
            because="3 probes in a row were refused.",
            since=NOW - 95,
            deployment=qwen,
            provider="vast",
            instance_id="20443311",
            dialable="http://203.0.113.10:41023",
            signal=Signal(SignalKind.FAILED, NOW - 2, "connection refused"),
            litellm=LitellmSignal.DOWN,
            litellm_at=NOW - 60,
            litellm_said="APIConnectionError: cannot connect",
            badges=(Badge.REVISION_BEHIND, Badge.OPEN_PATHS),
            fails=3,
            revision_current="r1-0123456789abcdef0123456789abcdef",
            revision_applied="r1-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            write_trouble="delete failed 2 times: 401 from LiteLLM; next try in 40 s",
        ),
        Record(
            label.key,
            Kind.INTENDED,
            Lifecycle.LOADING,
            rule="waiting_for_first_answer",
            because="It was handed its configuration 4 min ago.",
            since=NOW - 240,
            deployment=label,
            provider="vast",
            badges=(Badge.UNPLACED,),
            revision_current="r1-fedcba9876543210fedcba9876543210",
        ),
        Record(
            claude,
            Kind.COMMERCIAL,
            Lifecycle.CONFIGURED,
            provider="openrouter",
            dialable="https://openrouter.ai/api/v1",
        ),
        Record(
            orphan,
            Kind.ORPHAN,
            Lifecycle.UNHEALTHY,
            badges=(Badge.LITELLM_ONLY,),
            row=Row("llmao-2", "gone-model", "http://203.0.113.77:8001"),
        ),
    )
    models = (
        _model("gemma4-26b", "Gemma 4 26B", Availability.AVAILABLE, 1, 1, (gemma.key,), 32768, 5),
        _model("qwen3-8b", "Qwen3 8B", Availability.UNAVAILABLE, 0, 2, (qwen.key, label.key)),
        evolve(
            _model("claude-x", "Claude X", Availability.AVAILABLE, 0, 1, (claude,)),
            checked=False,
            private=False,
        ),
        _model("spare", "Spare", Availability.UNKNOWN, 0, 0, ()),
    )
    return View(
        at=NOW - 3,
        records=records,
        hosts=(
            HostView(
                "203.0.113.10",
                "vast",
                "20443311",
                gpu="1× RTX 4090",
                price_per_hour=0.41,
                last_fetch=NOW - 7900,
                keys=(gemma.key, qwen.key),
            ),
        ),
        models=models,
        items=(
            AttentionItem(
                "a",
                ItemKind.MODEL_UNAVAILABLE,
                "Nobody can call qwen3-8b.",
                ("203.0.113.10:8002 refused 3 probes", "c.4711:8001 is unplaced"),
                NOW - 95,
            ),
            AttentionItem(
                "b",
                ItemKind.UNKNOWN_HOST,
                "203.0.113.99 asks for a configuration.",
                since=NOW - 4000,
                host="203.0.113.99",
                button="approve",
            ),
        ),
        sources=(
            SourceView("vast", SourceState.FRESH, NOW - 40, 60),
            SourceView(
                "runpod",
                SourceState.STALE,
                NOW - 9000,
                600,
                Trouble("Unauthorized", "RunPod refused the key.", NOW - 8400, 14),
            ),
            SourceView("litellm", SourceState.UNREAD, None, 60),
        ),
    )


def _model(
    name: str,
    display: str,
    availability: Availability,
    healthy: int,
    counted: int,
    keys: Any,
    context: int | None = None,
    full: int | None = None,
) -> ModelView:
    return ModelView(
        name,
        display,
        availability,
        True,
        True,
        context,
        full,
        healthy,
        counted,
        keys,
        f"{healthy} healthy of {counted}",
    )


def a_plan() -> Plan:
    """Return a plan with an action that runs and one that is held."""
    gemma, qwen = build(fleet()).deployments[:2]
    return Plan(
        actions=(
            Action(
                Order(ActionKind.DELETE_LITELLM, "litellm", qwen.key, "llmao-3"),
                "remove_unhealthy",
                "3 probes in a row failed.",
                ("fails 3", "last ok 2 min ago"),
                hold=Hold.WITNESS,
                until=NOW + 30,
            ),
            Action(
                Order(ActionKind.UPDATE_LITELLM, "litellm", gemma.key, "llmao-1"),
                "body_moved",
                "The body differs from what is intended.",
            ),
        )
    )
