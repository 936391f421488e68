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
    "allowed_fails": 15,
    "cooldown_time": 10,
    "health_check_timeout": 10,
    "num_retries": 9,
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
class AdminConfig:
    """Somebody who may sign in with a password. hash: argon2, from `llmao hash-password`."""

    name: str
    hash: Secret


@frozen
class OidcConfig:
    """An OpenID provider. admin_groups: members of any of them are admins, others are callers.

    name_claim, groups_claim: where the ID token, or else the userinfo, says who it is about.
    """

    issuer: str
    client_id: str
    client_secret: Secret
    admin_groups: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    name_claim: str = "preferred_username"
    groups_claim: str = "groups"


@frozen
class ProxyConfig:
    """A proxy that signs people in. addresses: the TCP peers whose headers are believed."""

    addresses: tuple[str, ...]
    user_header: str = "X-Forwarded-User"
    groups_header: str = "X-Forwarded-Groups"
    admins: tuple[str, ...] = ()
    admin_groups: tuple[str, ...] = ()


@frozen
class AuthConfig:
    """Who may see what. callers: who may see `/models` and what callers see of the API.

    session_key: signs sessions, so that they outlive a restart and hold on every replica;
    without it each start has its own. session_idle_s, session_max_s: since last seen, since
    sign-in.
    """

    mode: Literal["open", "password", "oidc", "proxy"] = "open"
    callers: Literal["signed_in", "everybody"] = "signed_in"
    session_key: Secret | None = None
    session_idle_s: float = 7200
    session_max_s: float = 43200
    admins: tuple[AdminConfig, ...] = ()
    oidc: OidcConfig | None = None
    proxy: ProxyConfig | None = None


@frozen
class ApiToken:
    """A bearer token of `/api/v1`, itself or its SHA-256 in hex. role: what its holder sees."""

    name: str
    token: Secret | None = None
    hash: Secret | None = None
    role: Literal["caller", "admin"] = "caller"


@frozen
class NotifyConfig:
    """Somebody to tell of attention items. kind: the name of a plugin; on: kinds of item, or all.

    url: a secret, since who has it can post there.
    """

    url: Secret = field(factory=lambda: Secret(""))
    kind: str = "json"
    on: tuple[str, ...] = ()


@frozen
class Config:
    """Both files, read and checked together."""

    server: ServerConfig = ServerConfig()
    litellm: LitellmConfig = field(factory=LitellmConfig)
    fleet: FleetConfig = FleetConfig()
    gpu_providers: tuple[GpuProvider, ...] = ()
    commercial: tuple[CommercialProvider, ...] = ()
    models: tuple[Model, ...] = ()
    auth: AuthConfig = AuthConfig()
    policy: Mapping[str, PolicyName] = field(factory=dict)
    brake: BrakeConfig = BrakeConfig()
    api_tokens: tuple[ApiToken, ...] = ()
    notify: tuple[NotifyConfig, ...] = ()
    store: str = field(default="sqlite:///llmao.db", repr=False)
    journal: JournalConfig = JournalConfig()
    models_path: str = "models.yaml"
