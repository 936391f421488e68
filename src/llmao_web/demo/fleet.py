"""What the demo's fleet consists of: its configuration, and who is rented where.

Rule of this file: names, addresses and figures. Time runs fast: what takes minutes in a fleet
takes seconds here.
"""

import secrets

from attrs import field, frozen

from llmao_core.config import (
    BrakeConfig,
    CanaryConfig,
    CommercialProvider,
    Config,
    FleetConfig,
    GpuProvider,
    Host,
    HostRow,
    LitellmConfig,
    Mode,
    Model,
    Recipe,
    ServerConfig,
)
from llmao_core.history import History, Idle
from llmao_core.secret import Secret
from llmao_web.shell.ledger import Entry, EntryKind

from .ports import somewhere

POLL_S = 2.0
VAST_S = 2.5
RUNPOD_S = 5.0
GRACE_S = 12.0
FLEET = "demo"

PAIR = "c.41235107"
SINGLE = "c.41235218"
BY_ADDRESS = "127.0.0.4"
POD = "k3v9x2m001"
STRANGER = "c.41235773"
STOPPED = "c.41235329"
IDLE = "c.41235440"
SPARE = "c.41235551"
UNASKED = "c.41235662"
RETIRED = "c.41235884"
NOBODY = "c.40000001"
GONE = "c.40000009"
GONE_ADDRESS = "127.0.0.12"

COMMERCIAL_ADDRESS = "127.0.0.11"

CHAT, SMALL, EMBEDDING, RANKING, LARGE = (
    "gemma4-26b",
    "qwen3-8b",
    "bge-m3",
    "bge-reranker",
    "glm-air",
)
COMMERCIAL = "claude-x"
LENGTHS = {CHAT: 32768, SMALL: 40960, EMBEDDING: 8192, RANKING: 8192, LARGE: 65536}
# Name, weights, and what they take of a card and of the disk, in GB.
_WEIGHTS = {
    CHAT: ("Gemma 4 26B", "google/gemma-4-26b-it", 18.0, 20.0),
    SMALL: ("Qwen3 8B", "Qwen/Qwen3-8B", 17.0, 18.0),
    EMBEDDING: ("BGE M3", "BAAI/bge-m3", 2.0, 3.0),
    RANKING: ("BGE Reranker v2", "BAAI/bge-reranker-v2-m3", 2.0, 3.0),
    LARGE: ("GLM 4.5 Air", "zai-org/GLM-4.5-Air", 62.0, 65.0),
}
# Memory of one card as Vast lists it, in MiB; RunPod lists none.
CARD_MIB = {
    "RTX 3090": 24_576,
    "RTX 4090": 24_564,
    "RTX 5090": 32_607,
    "A100 SXM4": 81_920,
    "H100 NVL": 95_830,
}
# What a host of fleet.hosts is to serve: model and listen port.
HOSTS = {
    PAIR: ((CHAT, 8001), (SMALL, 8002)),
    SINGLE: ((SMALL, 8001),),
    BY_ADDRESS: ((CHAT, 8001), (EMBEDDING, 8002)),
    POD: ((SMALL, 8001), (RANKING, 8002)),
    STOPPED: ((CHAT, 8001),),
    IDLE: ((LARGE, 8001),),
    NOBODY: ((SMALL, 8001),),
}


@frozen
class Rental:
    """One box as it is rented. boots: it asks for its configuration and serves."""

    name: str
    provider: str
    address: str
    gpu: str
    price_per_hour: float
    ports: tuple[int, ...] = (8001, 8002)
    gpu_count: int = 1
    boots: bool = True
    stopped: bool = False


RENTALS = (
    Rental(PAIR, "vast", "127.0.0.2", "RTX 5090", 1.12, gpu_count=2),
    Rental(SINGLE, "vast", "127.0.0.3", "RTX 4090", 0.38, (8001,)),
    Rental(BY_ADDRESS, "vast", "127.0.0.4", "A100 SXM4", 1.34),
    Rental(POD, "runpod", "127.0.0.5", "RTX 4090", 0.69),
    Rental(STRANGER, "vast", "127.0.0.6", "RTX 5090", 0.61, (8001, 8002, 8003)),
    Rental(STOPPED, "vast", "127.0.0.7", "RTX 4090", 0.09, (8001,), boots=False, stopped=True),
    Rental(IDLE, "vast", "127.0.0.8", "H100 NVL", 2.4, (8001,)),
    Rental(SPARE, "vast", "127.0.0.9", "RTX 3090", 0.22, (8001,)),
    Rental(RETIRED, "vast", "127.0.0.13", "RTX 3090", 0.19, (8001,), boots=False),
    Rental(UNASKED, "vast", "127.0.0.10", "RTX 3090", 0.21, (8001,), boots=False),
)


@frozen
class Keys:
    """The demo's secrets, made anew at each start. salts: current, then previous."""

    fleet: Secret = field(factory=lambda: Secret(secrets.token_urlsafe(24)))
    salts: tuple[Secret, Secret] = field(
        factory=lambda: (Secret(secrets.token_urlsafe(24)), Secret(secrets.token_urlsafe(24)))
    )
    commercial: Secret = field(factory=lambda: Secret(secrets.token_urlsafe(24)))
    vast: Secret = field(factory=lambda: Secret(secrets.token_urlsafe(24)))
    runpod: Secret = field(factory=lambda: Secret("rpa_" + secrets.token_urlsafe(24)))


@frozen
class Places:
    """Where llmao finds everything. litellm_key: the master key of that proxy.

    first_port: the lowest at which a server is reached.
    """

    litellm: str
    litellm_key: Secret
    vast: str
    runpod: str
    fleet: str = FLEET
    # Two demos on one machine must not want the same ports.
    first_port: int = field(factory=lambda: somewhere((COMMERCIAL_ADDRESS, GONE_ADDRESS)))


def demo_config(places: Places, server: ServerConfig, keys: Keys) -> Config:
    """Return the configuration of the demo: a small fleet whose time runs fast."""
    return Config(
        server=server,
        litellm=LitellmConfig(places.litellm, places.litellm_key, poll_interval_s=POLL_S),
        fleet=_fleet(places.fleet, keys),
        gpu_providers=(
            GpuProvider("vast", keys.vast, VAST_S, places.vast),
            GpuProvider("runpod", keys.runpod, RUNPOD_S, places.runpod),
        ),
        commercial=(
            CommercialProvider(
                "openrouter",
                f"http://{COMMERCIAL_ADDRESS}:{places.first_port}/v1",
                keys.commercial,
            ),
        ),
        models=(
            _model(CHAT),
            _model(SMALL),
            _model(EMBEDDING, mode="embedding"),
            # Its recipe forgets the mode on purpose: it refuses llmao's test request.
            _model(RANKING, mode="chat", told="rerank"),
            _model(LARGE),
            Model(
                COMMERCIAL,
                "Claude X",
                provider="openrouter",
                litellm_params={"model": "openrouter/claude-x"},
            ),
        ),
        policy={"delete_duplicate": "needs_human"},
        brake=BrakeConfig(fraction=0.15, at_least=2, window_s=8),
    )


def _fleet(name: str, keys: Keys) -> FleetConfig:
    return FleetConfig(
        name=name,
        key=(keys.fleet,),
        vllm_api_salt=keys.salts,
        health_interval_s=1.5,
        health_timeout_s=1,
        canary=CanaryConfig(silent_s=3, timeout_s=1),
        health_grace_s=GRACE_S,
        skew_interval_s=2,
        hosts=tuple(
            Host(host, tuple(HostRow(model, port, model) for model, port in rows))
            for host, rows in HOSTS.items()
        ),
    )


def _model(name: str, mode: Mode = "chat", told: Mode | None = None) -> Model:
    """Return a model of our own. told: the mode that callers and LiteLLM read, if another."""
    shown, weights, vram_gb, disk_gb = _WEIGHTS[name]
    length = LENGTHS[name]
    recipe = Recipe(weights, max_model_len=length, vram_gb=vram_gb, disk_gb=disk_gb, mode=mode)
    info = {
        "mode": told or mode,
        "vllm": {"model": weights, "max_model_len": length, "vram_gb": vram_gb},
    }
    return Model(name, shown, model_info=info, recipe=recipe)


def remembered(now: float) -> History:
    """Return what llmao would remember had it run for hours: one box has been idle since."""
    since = now - 3 * 3600 - 600
    return History(idle={("vast", instance_of(IDLE)): Idle(since, now)})


def decided(now: float) -> tuple[Entry, ...]:
    """Return what was decided before: a box was retired yesterday, and its rental never ended."""
    return (Entry(now - 86_400, "alice", EntryKind.RETIRED, RETIRED),)


def instance_of(name: str) -> str:
    """Return a provider's own id of the box that is called so."""
    return name.removeprefix("c.")
