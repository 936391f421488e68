"""What `config.yaml` and `models.yaml` say, as frozen records.

Rule of this file: shapes and defaults only. Reading is in codec.py, checking in check.py.
Field names are the names in the files; `_s` is seconds, `_gb` is 10^9 bytes.
"""

from collections.abc import Mapping
from typing import Any, Literal

from attrs import field, frozen

from .secret import Secret

Json = Mapping[str, Any]
Mode = Literal["chat", "completion", "embedding", "rerank", "none"]
PolicyName = Literal["auto", "needs_human", "observe"]


def _empty() -> Json:
    return {}


@frozen
class Source:
    """Where a recipe's weights come from."""

    kind: Literal["hf", "url", "registry", "local"] = "hf"


@frozen
class Recipe:
    """How a box serves a model: `model_info.vllm`."""

    model: str
    source: Source | None = None
    served_model_name: str | None = None
    args: tuple[str, ...] = ()
    max_model_len: int | None = None
    vram_gb: float | None = None
    disk_gb: float | None = None
    gpu_memory_utilization: float | None = None
    kv_bytes_per_token: int | None = None
    mode: Mode = "chat"


@frozen
class Model:
    """A public model name: a row of `models.yaml`.

    recipe: set for a self-hosted row; provider: set for a commercial row.
    recipes: variants of the recipe by name, each already merged over it.
    model_info: everything under `model_info` as written, recipe included.
    """

    model_name: str
    display_name: str | None = None
    provider: str | None = None
    litellm_params: Json = field(factory=_empty)
    model_info: Json = field(factory=_empty)
    recipe: Recipe | None = None
    recipes: Mapping[str, Recipe] = field(factory=dict)


@frozen
class HostRow:
    """One server on a box. port: the listen port. public_port: the deprecated pin."""

    model: str
    port: int
    name: str
    recipe: str | None = None
    public_port: int | None = None


@frozen
class Host:
    """A box of `fleet.hosts`. name is normalised; own: it is a machine of our own.

    was: names it had before; their key and bearer serve until it fetches under `name`.
    """

    name: str
    rows: tuple[HostRow, ...]
    own: bool = False
    was: tuple[str, ...] = ()


@frozen
class ServerConfig:
    host: str = "127.0.0.1"
    port: int = 8080
    public_url: str = ""
    trusted_proxies: tuple[str, ...] = ()


DEPLOYMENT_DEFAULTS: Json = {
    "allowed_fails": 10,
    "cooldown_time": 10,
    "health_check_timeout": 10,
    "num_retries": 5,
    "timeout": 600,
}


@frozen
class LitellmConfig:
    base_url: str = "http://127.0.0.1:4000"
    master_key: Secret = field(factory=lambda: Secret(""))
    request_timeout_s: float = 30
    poll_interval_s: float = 30
    deployment_defaults: Json = DEPLOYMENT_DEFAULTS


@frozen
class CanaryConfig:
    enabled: bool = True
    silent_s: float = 60
    timeout_s: float = 20


@frozen
class FleetConfig:
    """Section `fleet`. `key`, `vllm_api_salt`: current, then previous; empty: not set."""

    name: str = "main"
    key: tuple[Secret, ...] = ()
    vllm_api_salt: tuple[Secret, ...] = ()
    listen_ports: tuple[int, ...] = (8001, 8002, 8003)
    legacy_servers: frozenset[tuple[str, int]] = frozenset()
    selfhost_api_key: Secret | None = None
    health_interval_s: float = 6
    health_timeout_s: float = 3
    health_fail_threshold: int = 3
    canary: CanaryConfig = CanaryConfig()
    require_closed: Literal["warn"] | bool = "warn"
    health_grace_s: float = 1200
    skew_interval_s: float = 60
    litellm_health_interval_s: float = 14400
    hosts: tuple[Host, ...] = ()


@frozen
class GpuProvider:
    """A GPU provider's section: a listing to read, when `api_key` is set.

    section: the keys only its plugin understands, secrets resolved.
    interval_s: None is the plugin's own default.
    """

    name: str
    api_key: Secret | None = None
    interval_s: float | None = None
    base_url: str | None = None
    section: Json = field(factory=_empty)


@frozen
class CommercialProvider:
    name: str
    api_base: str
    api_key: Secret | None = None


@frozen
class BrakeConfig:
    fraction: float = 0.5
    at_least: int = 3
    window_s: float = 600


@frozen
class JournalConfig:
    path: str = "journal/"
    keep_days: int = 14
    max_mb: int = 2000


@frozen
class Config:
    """Both files, read and checked together."""

    server: ServerConfig = ServerConfig()
    litellm: LitellmConfig = field(factory=LitellmConfig)
    fleet: FleetConfig = FleetConfig()
    gpu_providers: tuple[GpuProvider, ...] = ()
    commercial: tuple[CommercialProvider, ...] = ()
    models: tuple[Model, ...] = ()
    auth: Json = field(factory=_empty)
    policy: Mapping[str, PolicyName] = field(factory=dict)
    brake: BrakeConfig = BrakeConfig()
    api_tokens: tuple[Json, ...] = ()
    notify: tuple[Json, ...] = ()
    store: str = field(default="sqlite:///llmao.db", repr=False)
    journal: JournalConfig = JournalConfig()
    models_path: str = "models.yaml"
