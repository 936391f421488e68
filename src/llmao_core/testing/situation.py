"""The words a situation is described in: a fleet, its servers, its listings, its LiteLLM rows.

Rule of this file: plain text and mappings in, contract types out; nothing here decides, and a word
it does not know is an error.
"""

from collections.abc import Mapping
from typing import Any

from attrs import evolve, field, frozen

from llmao_core.config import (
    CommercialProvider,
    Config,
    FleetConfig,
    GpuProvider,
    Host,
    HostRow,
    LitellmConfig,
    Model,
    Recipe,
)
from llmao_core.draft import row_body
from llmao_core.intended import Approval, Deployment, Intended, Labels, box_deployment, build
from llmao_core.keys import Key, host_name, normalise_base
from llmao_core.secret import Secret
from llmao_core.snapshots import BoxStatus, Endpoint, Instance, Row

SALTS = (Secret("salt-of-today-4711"), Secret("salt-of-yesterday-0815"))
FLEET_KEY = Secret("fleet-key-secret")
LEGACY_KEY = Secret("legacy-shared-bearer")
PROVIDER_KEYS = {"first": Secret("sk-provider-first"), "second": Secret("sk-provider-second")}
PROVIDER = CommercialProvider("acme", "https://api.acme.example/v1")

BOX = "203.0.113.10"
ONE_BOX: Mapping[str, Any] = {"hosts": {BOX: {8001: "small"}}}
FLEET_WORDS = frozenset(
    [
        "hosts",
        "listings",
        "models",
        "commercial",
        "provider_key",
        "salts",
        "require_closed",
        "legacy",
        "own",
        "was",
        "pins",
        "approved",
        "drained",
        "retired",
        "drained_keys",
        "fleet_name",
        "canary",
    ]
)


def _model(name: str, length: int) -> Model:
    recipe = Recipe(f"org/{name}", max_model_len=length)
    info = {"vllm": {"model": recipe.model, "max_model_len": length}}
    return Model(name, recipe=recipe, model_info=info)


MODELS: Mapping[str, Model] = {
    "small": _model("small", 8192),
    "large": _model("large", 32768),
    "gpt": Model("gpt", provider="acme", litellm_params={"model": "openai/gpt"}),
    "gpt-eu": Model("gpt-eu", provider="acme", litellm_params={"model": "openai/gpt"}),
}


# ---- what should exist


def intend(words: Mapping[str, Any]) -> Intended:
    """Return what a described fleet intends.

    hosts: name → {listen port: model}. listings: provider → interval. commercial: models of the
    provider `acme`. models: model → litellm_params over the usual ones. own, approved, drained,
    retired: lists of hosts. was: host → former names. pins: `host:port` → public port. salts: how
    many of SALTS are set, newest first, or `old` for yesterday's alone.
    """
    known(words, FLEET_WORDS, "fleet")
    approved = set(words.get("approved", ()))
    hosts = [_host(name, rows, words) for name, rows in words.get("hosts", {}).items()]
    approvals = [
        Approval(one.name, one.rows, "admin", 0.0) for one in hosts if one.name in approved
    ]
    config = _config(words, [one for one in hosts if one.name not in approved])
    intended = build(config, approvals)
    labels = Labels(
        drained_hosts=frozenset(words.get("drained", ())),
        drained_keys=frozenset(find_key(intended, key) for key in words.get("drained_keys", ())),
        retired_hosts=frozenset(words.get("retired", ())),
    )
    return evolve(intended, labels=labels)


def _config(words: Mapping[str, Any], hosts: list[Host]) -> Config:
    commercial = tuple(words.get("commercial", ()))
    changes = words.get("models", {})
    names = [name for name, model in MODELS.items() if model.recipe] + list(commercial)
    models = [
        evolve(
            MODELS[name], litellm_params={**MODELS[name].litellm_params, **changes.get(name, {})}
        )
        for name in names
    ]
    salts = words.get("salts", 1)
    fleet = FleetConfig(
        name=words.get("fleet_name", "main"),
        key=(FLEET_KEY,),
        vllm_api_salt=(SALTS[1],) if salts == "old" else SALTS[:salts],
        hosts=tuple(hosts),
        require_closed=words.get("require_closed", "warn"),
        legacy_servers=frozenset(address(one) for one in words.get("legacy", ())),
        selfhost_api_key=LEGACY_KEY if words.get("legacy") else None,
    )
    provider = evolve(PROVIDER, api_key=PROVIDER_KEYS[words.get("provider_key", "first")])
    return Config(
        litellm=LitellmConfig(master_key=Secret("sk-master-secret")),
        fleet=fleet,
        gpu_providers=tuple(GpuProvider(name) for name in words.get("listings", {})),
        commercial=(provider,) if commercial else (),
        models=tuple(models),
    )


def _host(name: str, rows: Mapping[int, str], words: Mapping[str, Any]) -> Host:
    pins = words.get("pins", {})
    return Host(
        name=host_name(name),
        rows=tuple(
            HostRow(model, port, f"vllm-{port}", public_port=pins.get(f"{name}:{port}"))
            for port, model in rows.items()
        ),
        own=name in words.get("own", ()),
        was=tuple(words.get("was", {}).get(name, ())),
    )


def address(text: str) -> tuple[str, int]:
    """Split `host:port`."""
    host, _, port = text.rpartition(":")
    return host_name(host), int(port)


def base_of(text: str) -> str:
    """Return the base URL that `host:port` or a whole URL stands for."""
    return normalise_base(text if "://" in text else f"http://{text}")


def known(words: Mapping[str, Any], allowed: frozenset[str], where: str) -> None:
    """Refuse words nobody understands."""
    if unknown := set(words) - allowed:
        raise ValueError(f"{where}: unknown {sorted(unknown)}; known are {sorted(allowed)}")


def find_key(intended: Intended, text: str) -> Key:
    """Return the key that pages show as `text`."""
    return deployment_of(intended, text).key


def deployment_of(intended: Intended, text: str) -> Deployment:
    """Return the deployment shown as `host:port model` or `provider model`, intended or not."""
    for one in intended.deployments:
        for each in (one, *one.former):
            if str(each.key) == text:
                return each
    shown, _, name = text.partition(" ")
    host, port = address(shown)
    row = HostRow(name, port, f"vllm-{port}")
    return box_deployment(intended.config, MODELS[name], host, row)


# ---- what LiteLLM has

ROW_WORDS = frozenset(
    [
        "key",
        "foreign",
        "model",
        "at",
        "id",
        "edit",
        "unstamped",
        "other_fleet",
        "yaml",
        "blocked",
        "live",
        "older_field",
        "bearer",
    ]
)


def row_of(words: Mapping[str, Any], intended: Intended) -> Row:
    """Return one row of LiteLLM.

    key: a row as llmao's own write for that key reads back. at: its address. id: a copy under
    another id. edit: parameters changed by hand. unstamped: without llmao's marks. other_fleet: of
    another llmao. yaml: of LiteLLM's own file. blocked, live. older_field: a parameter that an
    earlier llmao wrote and this one does not. bearer: `previous`. foreign: an id that llmao never
    made, with `model` and `at`.
    """
    known(words, ROW_WORDS, "row")
    if "foreign" in words:
        return Row(
            words["foreign"], words["model"], base_of(words["at"]), in_db="yaml" not in words
        )
    if "other_fleet" in words:
        config = evolve(
            intended.config, fleet=evolve(intended.config.fleet, name=words["other_fleet"])
        )
        intended = build(config)
    row = written(deployment_of(intended, words["key"]), words)
    return _changed(row, words)


def written(deployment: Deployment, words: Mapping[str, Any]) -> Row:
    """Return the row that llmao's write of a deployment reads back as."""
    if words.get("bearer") == "previous":
        assert deployment.previous is not None
        deployment = deployment.previous
    url = base_of(words["at"]) if "at" in words else normalise_base(deployment.key.base)
    body = row_body(deployment, deployment.body, url, words.get("id", deployment.litellm_id))
    return as_read(body)


def as_read(body: Any) -> Row:
    """Return what LiteLLM shows of a body once it has saved it: the key is hidden."""
    info = dict(body.model_info)
    return Row(
        id=info["id"],
        model_name=body.model_name,
        base=normalise_base(body.api_base),
        params={**body.litellm_params, "api_base": body.api_base},
        info=info,
        stamped_base=normalise_base(info["asf_api_base"]),
        llmao_key=info["llmao_key"],
        fleet=info["llmao_fleet"],
        hash=info["llmao_hash"],
    )


def _changed(row: Row, words: Mapping[str, Any]) -> Row:
    edit = words.get("edit", {})
    row = evolve(
        row,
        base=normalise_base(edit["api_base"]) if "api_base" in edit else row.base,
        params={**row.params, **edit},
        blocked=words.get("blocked", False),
        live=words.get("live", True),
        in_db=not words.get("yaml", False),
    )
    if "older_field" in words:
        name = words["older_field"]
        fields = [*row.info["llmao_fields"], f"litellm_params.{name}"]
        row = evolve(
            row, params={**row.params, name: 1}, info={**row.info, "llmao_fields": fields}, hash="0"
        )
    if words.get("unstamped") or words.get("yaml"):
        own = ("llmao_", "asf_")
        info = {name: value for name, value in row.info.items() if not name.startswith(own)}
        row = evolve(row, info=info, stamped_base="", llmao_key="", fleet="", hash="")
    return row


# ---- what a listing names

INSTANCE_WORDS = frozenset(["label", "address", "ports", "status", "says", "price"])


def instance_of(instance_id: str, words: Mapping[str, Any]) -> Instance:
    """Return one box of a listing. ports: listen port → public port at its address.

    says: the provider's own word for its status. price: dollars per hour.
    """
    known(words, INSTANCE_WORDS, f"instance {instance_id}")
    where = words.get("address", "")
    ports = words.get("ports", {})
    return Instance(
        id=instance_id,
        status=BoxStatus(words.get("status", "up")),
        raw_status=words.get("says", ""),
        price_per_hour=words.get("price"),
        names=(host_name(words["label"]),) if "label" in words else (),
        addresses=(where,) if where else (),
        endpoints={port: Endpoint("http", where, public) for port, public in ports.items()},
        declared=frozenset(ports),
        gpu_name="RTX 4090",
        gpu_count=1,
    )


# ---- what stands behind an address

SERVER_WORDS = frozenset(
    [
        "does",
        "models",
        "host",
        "max_model_len",
        "kv_tokens",
        "open_paths",
        "canary",
        "prefill",
        "waiting",
        "salt",
    ]
)
DOES = frozenset(
    [
        "serves",
        "busy",
        "late",
        "silent",
        "closed",
        "unrouted",
        "failing",
        "locked",
        "keyless",
        "garbled",
        "stuck",
        "quiet",
        "shy",
    ]
)


@frozen
class Server:
    """Whatever answers at one address.

    does: serves; busy (/health and /v1/models late, counters move); late (only /health is);
    silent (time-outs); closed (connection refused); unrouted; failing (/health 503); locked
    (refuses every bearer); keyless (works without one); garbled; stuck (/health is fine, requests
    run, nothing moves); quiet (the same, and it answers a completion); shy (/health is fine,
    /v1/models times out). models: names it lists, () for whatever it is asked. host: `host:port`
    whose bearer it takes, "" for any; salt: `today`, `yesterday` or `legacy`. canary: HTTP status
    it answers a completion with. prefill: a stuck batch is all in prefill. waiting: requests in
    its queue.
    """

    does: str = "serves"
    models: tuple[str, ...] = ()
    host: str = ""
    salt: str = "today"
    max_model_len: int | None = None
    kv_tokens: int | None = None
    open_paths: tuple[str, ...] = field(default=(), converter=tuple)
    canary: int = 200
    prefill: bool = False
    waiting: float = 0.0


def server_of(words: str | Mapping[str, Any]) -> Server:
    """Return a server from one word or a mapping."""
    if isinstance(words, str):
        words = {"does": words}
    known(words, SERVER_WORDS, "server")
    server = Server(**{**words, "models": tuple(words.get("models", ()))})
    if server.does not in DOES:
        raise ValueError(f"server: does {server.does!r}; known are {sorted(DOES)}")
    return server
