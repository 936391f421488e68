"""The configuration of the simulated llmao, and the fleet that it names.

Rule of this file: values only. Small on purpose: every way to name a host once, a pool, a
commercial deployment, a machine of our own and a host that somebody approves later.
"""

from random import Random  # noqa: TID251

from attrs import evolve

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
from llmao_core.secret import Secret
from llmao_litellm.fake import MASTER_KEY
from llmao_runpod.fake import KEY as RUNPOD_KEY
from llmao_vast.fake import KEY as VAST_KEY

from .faults import Far
from .wire import BASES

FLEET = "sim"
SALT = Secret("salt-of-the-simulation")
BY_ADDRESS, BY_LABEL, BY_CONTRACT = "127.0.0.10", "box-b", "c.300"
POD, OWN, LATER = "k3v9x2m001", "127.0.0.14", "127.0.0.15"
LATER_ROWS = (HostRow("small", 8001, "small"),)
_HOSTS = (
    Host(BY_ADDRESS, (HostRow("small", 8001, "small"),)),
    Host(BY_LABEL, (HostRow("small", 8001, "small"), HostRow("large", 8002, "large"))),
    Host(BY_CONTRACT, (HostRow("large", 8001, "large"),)),
    Host(POD, (HostRow("small", 8001, "small"),)),
    Host(OWN, (HostRow("large", 8001, "large"),), own=True),
)


def _model(name: str, timeout: int) -> Model:
    recipe = Recipe(f"org/{name}", max_model_len=256)
    return Model(
        name,
        litellm_params={"timeout": timeout},
        model_info={"vllm": {"model": recipe.model}},
        recipe=recipe,
    )


def make_config(chance: Random) -> Config:
    """Return the configuration of one world; its pace differs from seed to seed."""
    interval_s = chance.choice([50.0, 60.0])
    return Config(
        litellm=LitellmConfig(BASES[Far.LITELLM], Secret(MASTER_KEY)),
        fleet=FleetConfig(
            name=FLEET,
            key=(Secret("fleet-key-of-the-simulation"),),
            vllm_api_salt=(SALT,),
            health_interval_s=interval_s,
            health_timeout_s=chance.choice([3.0, 6.0]),
            health_fail_threshold=chance.choice([2, 3, 3]),
            health_grace_s=chance.choice([120.0, 300.0]),
            litellm_health_interval_s=3600.0,
            hosts=_HOSTS,
        ),
        gpu_providers=(
            GpuProvider("vast", Secret(VAST_KEY), 60.0, BASES[Far.VAST]),
            GpuProvider("runpod", Secret(RUNPOD_KEY), 60.0, BASES[Far.RUNPOD]),
        ),
        commercial=(
            CommercialProvider("openrouter", "http://127.0.0.9:8009/v1", Secret("sk-commercial")),
        ),
        models=(
            _model("small", 600),
            _model("large", 600),
            Model(
                "other",
                provider="openrouter",
                litellm_params={"model": "openrouter/other"},
            ),
        ),
    )


def with_timeout(config: Config, model: str, timeout: int | None) -> Config:
    """Return the configuration in which a model's timeout is another, or no longer given."""
    params = {} if timeout is None else {"timeout": timeout}
    models = tuple(
        evolve(each, litellm_params=params) if each.model_name == model else each
        for each in config.models
    )
    return evolve(config, models=models)


def with_hosts(config: Config, hosts: tuple[Host, ...]) -> Config:
    """Return the configuration with these hosts."""
    return evolve(config, fleet=evolve(config.fleet, hosts=hosts))
