"""Hypothesis strategies for what is intended: whole configurations, sensible or not.

Rule of this file: small pools instead of random text, so that things collide and failing examples
shrink to something a person can read.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from hypothesis import strategies as st

from llmao_core.config import (
    CanaryConfig,
    CommercialProvider,
    Config,
    FleetConfig,
    Host,
    HostRow,
    LitellmConfig,
    Model,
    Recipe,
)
from llmao_core.intended import Approval, Intended, Labels, build
from llmao_core.keys import box_key
from llmao_core.secret import Secret

FLEET = "main"
PORTS = (8001, 8002, 8003)
HOSTS = ("203.0.113.1", "203.0.113.2", "c.100", "pod-1", "box.example", "2001:db8::1", "300")
OLD_NAMES = ("203.0.113.1", "c.200", "old.example")
# Easily found wherever one of them should leak.
SECRETS: Mapping[str, str] = {
    "fleet key": "PLANTED-fleet-key",
    "salt": "PLANTED-salt-one",
    "older salt": "PLANTED-salt-two",
    "selfhost key": "PLANTED-selfhost-key",
    "master key": "PLANTED-master-key",
    "provider key": "PLANTED-provider-key",
}
SALTS = (Secret(SECRETS["salt"]), Secret(SECRETS["older salt"]))


T = TypeVar("T")
_PLACES = tuple(st.integers(0, last) for last in range(40))


def pick(draw: st.DrawFn, options: Sequence[T]) -> T:
    """Draw one of a few options; much cheaper than a strategy made anew for each draw."""
    return options[draw(_PLACES[len(options) - 1])]


def _model(name: str, recipe: Recipe | None, **more: Any) -> Model:
    info: dict[str, Any] = {"access_groups": [name]}
    if recipe is not None:
        info["vllm"] = {"model": recipe.model}
    return Model(name, recipe=recipe, model_info=info, **more)


MODELS: tuple[Model, ...] = (
    _model("m0", Recipe("org/m0", max_model_len=1000), litellm_params={"max_tokens": 7}),
    # Two public names that one server answers to.
    _model("m1", Recipe("org/m1", served_model_name="m0")),
    _model(
        "m2",
        Recipe("org/m2", mode="none"),
        recipes={"small": Recipe("org/m2-small", served_model_name="m2-small")},
    ),
    # Two public names on one provider model.
    _model("x0", None, provider="px", litellm_params={"model": "px/large"}),
    _model("x1", None, provider="px", litellm_params={"model": "px/large"}),
)
PROVIDERS = (CommercialProvider("px", "https://px.example/v1", Secret(SECRETS["provider key"])),)


@st.composite
def host_rows(draw: st.DrawFn) -> tuple[HostRow, ...]:
    """Rows of one host: different listen ports, any model, now and then a pin or a variant."""
    rows = []
    for port in draw(st.lists(st.sampled_from(PORTS), min_size=1, max_size=2, unique=True)):
        model = pick(draw, ("m0", "m0", "m1", "m2"))
        variant = "small" if model == "m2" and draw(st.booleans()) else None
        pin = pick(draw, (None, None, None, 40001, 8001))
        rows.append(HostRow(model, port, f"{model}-{port}", variant, pin))
    return tuple(rows)


@st.composite
def hosts(draw: st.DrawFn) -> tuple[Host, ...]:
    """Up to four hosts, by address, label, pod id or DNS name; some with a former name."""
    names = draw(st.lists(st.sampled_from(HOSTS), max_size=4, unique=True))
    made: list[Host] = []
    # A name used twice is refused when the files are read.
    used = set(names)
    for name in names:
        was = pick(draw, (None, None, None, *OLD_NAMES))
        former = (was,) if was and was not in used else ()
        used.update(former)
        own = pick(draw, (False, False, True))
        made.append(Host(name, draw(host_rows()), own, former))
    return tuple(made)


@st.composite
def fleet_configs(draw: st.DrawFn) -> FleetConfig:
    """The section `fleet`, with short graces so that every age is reached."""
    return FleetConfig(
        name=FLEET,
        key=(Secret(SECRETS["fleet key"]),),
        vllm_api_salt=pick(draw, (SALTS[:1], SALTS, SALTS[::-1], ())),
        legacy_servers=pick(draw, (frozenset(), frozenset({("203.0.113.1", 8001)}))),
        selfhost_api_key=Secret(SECRETS["selfhost key"]),
        health_fail_threshold=pick(draw, (3, 3, 2)),
        canary=CanaryConfig(enabled=pick(draw, (True, True, False))),
        require_closed=pick(draw, ("warn", False, True)),
        health_grace_s=90,
        hosts=draw(hosts()),
    )


@st.composite
def labels(draw: st.DrawFn) -> Labels:
    """What admins said: usually nothing."""
    names = st.frozensets(st.sampled_from(HOSTS), max_size=1)
    none: st.SearchStrategy[frozenset[str]] = st.just(frozenset())
    keys = [box_key(name, PORTS[0], "m0") for name in HOSTS]
    return Labels(
        drained_hosts=draw(none | none | names),
        drained_keys=draw(st.just(frozenset()) | st.frozensets(st.sampled_from(keys), max_size=2)),
        retired_hosts=draw(none | none | names),
    )


@st.composite
def intendeds(draw: st.DrawFn) -> Intended:
    """A whole configuration with approvals and labels, as reconcile gets it."""
    fleet = draw(fleet_configs())
    config = Config(
        fleet=fleet,
        litellm=LitellmConfig(master_key=Secret(SECRETS["master key"])),
        models=MODELS if draw(st.booleans()) else MODELS[:3],
        commercial=PROVIDERS,
    )
    approvals = [
        Approval(name, draw(host_rows()), "admin", 0.0)
        for name in draw(st.lists(st.sampled_from(HOSTS), max_size=1))
    ]
    return build(config, approvals, draw(labels()))
