"""What should exist: configuration and approvals, turned into deployments once per change.

Rule of this file: everything here happens when a file or an approval changes, not in a pass.
The bearer of a server is derived in `box_deployment` and nowhere else.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import evolve, field, frozen

from .bearer import derive
from .config import Config, FleetConfig, Host, HostRow, Json, LitellmConfig, Mode, Model, Recipe
from .keys import Key, box_key, commercial_key
from .secret import Secret

_IN_MODEL_INFO = ("allowed_fails", "cooldown_time", "health_check_timeout")


@frozen
class Body:
    """What llmao writes into LiteLLM for one deployment, but for the address.

    litellm_params: without `api_base` and `api_key`. model_info: with the stamp, without
    `asf_api_base`. hash: over all of this, the key as its fingerprint; the address is left out
    because it reads back in clear. fields: names of what is written, so that one that is no
    longer written can be seen in an older row.
    """

    model_name: str
    litellm_params: Json
    model_info: Json
    api_key: Secret | None
    hash: str
    fields: frozenset[str]


@frozen
class Deployment:
    """One deployment that should exist, or a discovered one.

    host, listen_port, name, recipe: of a box; "", 0, "" and None for a commercial one.
    bearer_id: fingerprint of the bearer, safe to show. provider: of a commercial one.
    api_base: of a commercial one, as configured. previous: the same deployment with the bearer of
    the previous salt. former: the same server under the names its host had before.
    """

    key: Key
    litellm_id: str
    model: str
    body: Body
    served: str = ""
    mode: Mode = "chat"
    host: str = ""
    listen_port: int = 0
    name: str = ""
    recipe: Recipe | None = None
    bearer: Secret | None = None
    bearer_id: str = ""
    own: bool = False
    public_port: int | None = None
    provider: str = ""
    api_base: str = ""
    previous: "Deployment | None" = None
    former: tuple["Deployment", ...] = ()


@frozen
class Approval:
    """A host an admin approved, with its rows; becomes part of intended at once."""

    host: str
    rows: tuple[HostRow, ...]
    by: str
    at: float


@frozen
class Labels:
    """What admins said of hosts and keys; a host by its normalised name."""

    drained_hosts: frozenset[str] = frozenset()
    drained_keys: frozenset[Key] = frozenset()
    retired_hosts: frozenset[str] = frozenset()


@frozen
class Intended:
    """Configuration, approvals and labels, ready for reconcile.

    hosts: by normalised name, config and approvals merged, config first.
    by_served: served name → models of `models.yaml` with a recipe, for discovery.
    """

    config: Config
    deployments: tuple[Deployment, ...]
    hosts: Mapping[str, Host]
    approved: frozenset[str] = frozenset()
    labels: Labels = Labels()
    by_served: Mapping[str, tuple[Model, ...]] = field(factory=dict)
    ports: Mapping[tuple[str, int], Deployment] = field(factory=dict)


def build(
    config: Config, approvals: Iterable[Approval] = (), labels: Labels | None = None
) -> Intended:
    """Return what should exist; deterministic, in the order of the files."""
    hosts = {host.name: host for host in config.fleet.hosts}
    configured = {name for host in config.fleet.hosts for name in (host.name, *host.was)}
    approved = [item for item in approvals if item.host not in configured]
    hosts |= {item.host: Host(item.host, item.rows) for item in approved}
    models = {model.model_name: model for model in config.models if model.recipe}
    boxes = [
        _with_former(config, models[row.model], host, row)
        for host in hosts.values()
        for row in host.rows
        if row.model in models and (not row.recipe or row.recipe in models[row.model].recipes)
    ]
    served: dict[str, tuple[Model, ...]] = {}
    for model in models.values():
        for recipe in (model.recipe, *model.recipes.values()):
            name = served_name(model, recipe)
            if model not in served.get(name, ()):
                served[name] = (*served.get(name, ()), model)
    return Intended(
        config=config,
        deployments=(*boxes, *_commercial(config)),
        hosts=hosts,
        approved=frozenset(item.host for item in approved),
        labels=labels or Labels(),
        by_served=served,
        ports={(each.host, each.listen_port): each for box in boxes for each in (*box.former, box)},
    )


def served_name(model: Model, recipe: Recipe | None) -> str:
    """Return the name a vLLM must answer to for this recipe."""
    return (recipe and recipe.served_model_name) or model.model_name


def _with_former(config: Config, model: Model, host: Host, row: HostRow) -> Deployment:
    former = tuple(box_deployment(config, model, old, row, own=host.own) for old in host.was)
    return evolve(box_deployment(config, model, host.name, row, own=host.own), former=former)


def box_deployment(
    config: Config, model: Model, host: str, row: HostRow, *, own: bool = False
) -> Deployment:
    """Return the deployment of one row of a host, its bearer derived."""
    current, *older = [
        _box(config, model, host, row, own=own, bearer=bearer, salt=salt)
        for bearer, salt in bearers(config.fleet, host, row.port)
    ]
    return evolve(current, previous=older[0]) if older else current


def bearers(fleet: FleetConfig, host: str, port: int) -> list[tuple[Secret, Secret]]:
    """Return the current bearer of a server and the previous one, each with its salt.

    host: normalised. A bearer's fingerprint is made with the salt it derives from, so that
    hashes and bearer ids of the previous one stay what they were when it was current.
    """
    if (host, port) in fleet.legacy_servers and fleet.selfhost_api_key:
        return [(fleet.selfhost_api_key, _salt(fleet))]
    derived = [(derive(salt, host, port), salt) for salt in fleet.vllm_api_salt]
    return derived or [(Secret(""), _salt(fleet))]


def _box(
    config: Config,
    model: Model,
    host: str,
    row: HostRow,
    *,
    own: bool,
    bearer: Secret,
    salt: Secret,
) -> Deployment:
    recipe = model.recipes[row.recipe] if row.recipe else model.recipe
    key = box_key(host, row.port, model.model_name)
    name = served_name(model, recipe)
    params = {**model.litellm_params, "model": f"hosted_vllm/{name}"}
    litellm_id = deployment_id(config.fleet.name, key)
    return Deployment(
        key=key,
        litellm_id=litellm_id,
        model=model.model_name,
        body=_body(
            config, model, key, litellm_id=litellm_id, own_params=params, api_key=bearer, salt=salt
        ),
        served=name,
        mode=recipe.mode if recipe else "chat",
        host=host,
        listen_port=row.port,
        name=row.name,
        recipe=recipe,
        bearer=bearer,
        bearer_id=bearer.fingerprint(salt),
        own=own,
        public_port=row.public_port,
    )


def _commercial(config: Config) -> list[Deployment]:
    providers = {provider.name: provider for provider in config.commercial}
    made = []
    for model in config.models:
        if (provider := providers.get(model.provider or "")) is None:
            continue
        key = commercial_key(provider.name, provider.api_base, model.model_name)
        litellm_id = deployment_id(config.fleet.name, key)
        body = _body(
            config,
            model,
            key,
            litellm_id=litellm_id,
            own_params=dict(model.litellm_params),
            api_key=provider.api_key,
            salt=_salt(config.fleet),
        )
        made.append(
            Deployment(
                key=key,
                litellm_id=litellm_id,
                model=model.model_name,
                body=body,
                provider=provider.name,
                api_base=provider.api_base,
            )
        )
    return made


def _salt(fleet: FleetConfig) -> Secret:
    return fleet.vllm_api_salt[0] if fleet.vllm_api_salt else Secret(fleet.name)


def deployment_id(fleet: str, key: Key) -> str:
    """Return the LiteLLM id of a key: `llmao-` and 32 hex digits, no `/` in it."""
    text = json.dumps([fleet, key.base, key.model])
    return "llmao-" + hashlib.sha256(text.encode()).hexdigest()[:32]


def _defaults(litellm: LitellmConfig) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split the deployment defaults into litellm_params and model_info, as LiteLLM reads them."""
    given = litellm.deployment_defaults
    params = {name: value for name, value in given.items() if name not in _IN_MODEL_INFO}
    info = {name: value for name, value in given.items() if name in _IN_MODEL_INFO}
    return params, info


def _body(
    config: Config,
    model: Model,
    key: Key,
    *,
    litellm_id: str,
    own_params: Mapping[str, Any],
    api_key: Secret | None,
    salt: Secret,
) -> Body:
    params, info = _defaults(config.litellm)
    params |= own_params
    info |= model.model_info
    info |= {
        "id": litellm_id,
        "llmao_key": key.base,
        "llmao_fleet": config.fleet.name,
        "self_hosted": model.recipe is not None,
    }
    fields = frozenset(
        [*(f"litellm_params.{name}" for name in params), *(f"model_info.{name}" for name in info)]
    )
    content = [
        model.model_name,
        params,
        info,
        api_key.fingerprint(salt) if api_key else None,
    ]
    digest = hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()
    info |= {"llmao_hash": digest[:32], "llmao_fields": sorted(fields)}
    return Body(model.model_name, params, info, api_key, digest[:32], fields)
