"""What configuration says should exist."""

from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from llmao_core.bearer import derive
from llmao_core.config import (
    CommercialProvider,
    Config,
    FleetConfig,
    Host,
    HostRow,
    LitellmConfig,
    Model,
    Recipe,
)
from llmao_core.intended import Approval, bearers, build, deployment_id
from llmao_core.keys import box_key
from llmao_core.secret import Secret

OLD, NEW = Secret("salt-1"), Secret("salt-2")
RECIPE = Recipe("org/model", max_model_len=4096, mode="chat")
HOSTED = Model(
    "qwen",
    litellm_params={"order": 1},
    model_info={"license": "MIT", "allowed_fails": 9, "vllm": {"model": "org/model"}},
    recipe=RECIPE,
    recipes={"fp8": evolve(RECIPE, model="org/model-fp8")},
)
BOUGHT = Model("claude", provider="router", litellm_params={"model": "router/claude"})
HOST = Host("203.0.113.10", (HostRow("qwen", 8001, "qwen"), HostRow("qwen", 8002, "qwen-b", "fp8")))
CONFIG = Config(
    fleet=FleetConfig(vllm_api_salt=(OLD,), hosts=(HOST,)),
    commercial=(CommercialProvider("router", "https://router.example/v1", Secret("sk-router")),),
    models=(HOSTED, BOUGHT),
)


def _with(config: Config = CONFIG, **fleet: Any) -> Config:
    return evolve(config, fleet=evolve(config.fleet, **fleet))


def test_one_deployment_for_each_row_and_each_commercial_model() -> None:
    """Rows come in the order of the files, commercial ones after them."""
    made = build(CONFIG).deployments
    assert [
        "203.0.113.10:8001 qwen",
        "203.0.113.10:8002 qwen",
        "router claude",
    ] == [str(each.key) for each in made]


def test_building_twice_is_the_same() -> None:
    """Same configuration, same result."""
    assert build(CONFIG) == build(CONFIG)


@given(st.text(max_size=20), st.text(max_size=20))
def test_ids_are_deterministic_and_fit_a_path(fleet: str, model: str) -> None:
    """An id follows from fleet and key, and has nothing in it that a URL would split."""
    key = box_key("a", 8001, model)
    made = deployment_id(fleet, key)
    assert made == deployment_id(fleet, box_key("a", 8001, model))
    assert made.startswith("llmao-")
    assert "/" not in made
    assert 38 == len(made)


def test_ids_differ_by_fleet_host_port_and_model() -> None:
    """Two llmaos on one proxy, two servers, two names: never one id."""
    made = {
        deployment_id(fleet, box_key(host, port, model))
        for fleet in ("a", "b")
        for host in ("x", "y")
        for port in (1, 2)
        for model in ("m", "n")
    }
    assert 16 == len(made)


def test_a_body_carries_the_stamp_and_the_defaults_where_litellm_reads_them() -> None:
    """Time-outs go into litellm_params, health settings into model_info, a model's own win."""
    first = build(CONFIG).deployments[0]
    assert {
        "timeout": 600,
        "num_retries": 9,
        "order": 1,
        "model": "hosted_vllm/qwen",
    } == dict(first.body.litellm_params)
    info = first.body.model_info
    assert 9 == info["allowed_fails"]
    assert 10 == info["cooldown_time"]
    assert {"model": "org/model"} == info["vllm"]
    assert (first.litellm_id, first.key.base, "main", True) == (
        info["id"],
        info["llmao_key"],
        info["llmao_fleet"],
        info["self_hosted"],
    )
    assert info["llmao_hash"] == first.body.hash
    assert "litellm_params.order" in first.body.fields
    assert "model_info.license" in info["llmao_fields"]


def test_no_secret_stands_in_a_body_or_its_repr() -> None:
    """The key travels beside the body, never in what LiteLLM shows."""
    for each in build(CONFIG).deployments:
        assert each.body.api_key
        shown = repr(each) + repr(each.body.litellm_params) + repr(each.body.model_info)
        assert each.body.api_key.reveal() not in shown
        assert "salt-1" not in shown


def test_a_variant_is_what_its_row_names() -> None:
    """The second row runs the variant; both serve one name."""
    first, second, _ = build(CONFIG).deployments
    assert first.recipe
    assert second.recipe
    assert ("org/model", "org/model-fp8") == (first.recipe.model, second.recipe.model)
    assert ("qwen", "qwen") == (first.served, second.served)


@pytest.mark.parametrize(
    "changed",
    [
        _with(vllm_api_salt=(NEW,)),
        evolve(CONFIG, models=(evolve(HOSTED, litellm_params={"order": 2}),)),
        evolve(CONFIG, models=(evolve(HOSTED, model_info={}),)),
        evolve(CONFIG, litellm=LitellmConfig(deployment_defaults={})),
    ],
)
def test_the_hash_moves_with_the_key_and_the_body(changed: Config) -> None:
    """Another bearer or another written value is another hash."""
    assert build(CONFIG).deployments[0].body.hash != build(changed).deployments[0].body.hash


@pytest.mark.parametrize(
    "changed",
    [
        _with(hosts=(evolve(HOST, rows=(evolve(HOST.rows[0], public_port=41000),)),)),
        _with(hosts=(evolve(HOST, rows=(evolve(HOST.rows[0], name="other"),)),)),
        evolve(CONFIG, litellm=LitellmConfig(base_url="http://127.0.0.9:4000")),
    ],
)
def test_the_hash_does_not_move_with_an_address(changed: Config) -> None:
    """A remap, a process name and the proxy's own address are no change of the body."""
    assert build(CONFIG).deployments[0].body.hash == build(changed).deployments[0].body.hash


def test_a_new_key_of_a_provider_moves_the_hash() -> None:
    """A rotated commercial key is seen though LiteLLM never shows it."""
    rotated = evolve(CONFIG, commercial=(evolve(CONFIG.commercial[0], api_key=Secret("sk-other")),))
    assert build(CONFIG).deployments[2].body.hash != build(rotated).deployments[2].body.hash


def test_the_previous_salt_gives_the_previous_deployment() -> None:
    """While rotating, the previous bearer stands ready with id, hash and bearer id as before.

    Otherwise the rotation alone would rewrite every row, and forget every probe, before a box
    has fetched its new bearer.
    """
    before = build(CONFIG).deployments[0]
    after = build(_with(vllm_api_salt=(NEW, OLD))).deployments[0]
    assert derive(NEW, "203.0.113.10", 8001) == after.bearer
    assert after.previous is not None
    assert (before.bearer, before.bearer_id, before.body.hash, before.litellm_id) == (
        after.previous.bearer,
        after.previous.bearer_id,
        after.previous.body.hash,
        after.previous.litellm_id,
    )
    assert after.body.hash != before.body.hash


def test_a_legacy_pair_has_the_shared_bearer() -> None:
    """A pair older than the salt is reached with the shared bearer, before and in a rotation."""
    fleet = evolve(
        CONFIG.fleet,
        vllm_api_salt=(NEW, OLD),
        legacy_servers=frozenset({("203.0.113.10", 8001)}),
        selfhost_api_key=Secret("shared"),
    )
    legacy, derived, _ = build(evolve(CONFIG, fleet=fleet)).deployments
    assert (Secret("shared"), None) == (legacy.bearer, legacy.previous)
    assert derive(NEW, "203.0.113.10", 8002) == derived.bearer
    assert [Secret("shared")] == [bearer for bearer, _ in bearers(fleet, "203.0.113.10", 8001)]


def test_a_former_name_keeps_its_key_and_bearer() -> None:
    """Renamed, a host is still known under its old name, with the key and bearer of that."""
    before = build(CONFIG).deployments[0]
    renamed = evolve(HOST, name="c.4711", was=("203.0.113.10",))
    intended = build(_with(hosts=(renamed,)))
    now = intended.deployments[0]
    assert "c.4711:8001 qwen" == str(now.key)
    assert (before.key, before.litellm_id, before.bearer) == (
        now.former[0].key,
        now.former[0].litellm_id,
        now.former[0].bearer,
    )
    assert now.former[0] == intended.ports["203.0.113.10", 8001]
    assert now == intended.ports["c.4711", 8001]


def test_an_approval_counts_until_the_configuration_names_the_host() -> None:
    """An approved host is intended; one that the files name, or renamed, is theirs."""
    approval = Approval("box-1", (HostRow("qwen", 8001, "qwen"),), "ann", 1.0)
    approved = build(CONFIG, [approval])
    assert "box-1:8001 qwen" in [str(each.key) for each in approved.deployments]
    assert frozenset({"box-1"}) == approved.approved
    for host in (Host("box-1", HOST.rows), Host("c.1", HOST.rows, was=("box-1",))):
        named = build(_with(hosts=(host,)), [approval])
        assert frozenset() == named.approved
        assert [host.name] == list(named.hosts)


def test_rows_of_what_models_yaml_no_longer_has_are_left_out() -> None:
    """An approval outlives the model or variant it names without stopping llmao."""
    rows = (HostRow("gone", 8001, "a"), HostRow("qwen", 8002, "b", "gone"))
    made = build(_with(hosts=()), [Approval("box-1", rows, "ann", 1.0)])
    assert ["router claude"] == [str(each.key) for each in made.deployments]


def test_models_are_found_by_the_name_they_serve() -> None:
    """Discovery looks up what a vLLM answers to."""
    named = evolve(HOSTED, recipe=evolve(RECIPE, served_model_name="Qwen"), recipes={})
    assert {"Qwen": (named,)} == dict(build(evolve(CONFIG, models=(named,))).by_served)


def test_without_a_salt_nothing_is_derived() -> None:
    """An empty bearer is none; a probe would never be sent with a guess."""
    assert not build(_with(vllm_api_salt=())).deployments[0].bearer
