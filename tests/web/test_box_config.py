"""The answer to a box: its JSON, its revision, and what moved, in words."""

import json
from typing import Any

import pytest
from attrs import evolve

from llmao_core.bearer import derive
from llmao_core.box_config import BoxAnswer, answer, answers, difference
from llmao_core.config import Config, Host, HostRow, Model, Recipe
from llmao_core.intended import build
from llmao_core.secret import Secret

from .worlds import BOX, GEMMA, LABEL, QWEN, SALT, fleet

KNOWN = [
    ("203.0.113.10", 8001, "sk-vllm-dpdbaFAsLhUcCHs8E-ak_LdZR1mvuYesd8T9zyrJm7E"),
    ("203.0.113.10", 8002, "sk-vllm-EM2rI9zYycmL213OJNXRfVfCouEm_o-NNqVkNHfbINc"),
    ("c.4711", 8001, "sk-vllm-XA1_iW82x5T9OMyR7c_fwVbcxf1CUufY7um96DJfzc0"),
]


def told(host: str, config: Config | None = None) -> BoxAnswer:
    made = answer(build(config or fleet()), host)
    assert made is not None
    return made


def with_recipe(**changes: Any) -> Config:
    assert GEMMA.recipe is not None
    gemma = evolve(GEMMA, recipe=evolve(GEMMA.recipe, **changes))
    return evolve(fleet(), models=(gemma, QWEN))


def test_the_answer_is_the_json_that_boxes_know() -> None:
    """Names and order of fields, order of rows, whole numbers as whole numbers."""
    expected = {
        "host": "203.0.113.10",
        "revision": told("203.0.113.10").revision,
        "servers": [
            {
                "name": "gemma4-26b",
                "model": "google/gemma-4-26b-it",
                "served_model_name": "gemma4-26b",
                "host": "203.0.113.10",
                "port": 8001,
                "api_key": "sk-vllm-dpdbaFAsLhUcCHs8E-ak_LdZR1mvuYesd8T9zyrJm7E",
                "args": ["--reasoning-parser", "gemma"],
                "max_model_len": 32768,
                "vram_gb": 18,
                "disk_gb": 60,
            },
            {
                "name": "q",
                "model": "Qwen/Qwen3-8B",
                "served_model_name": "qwen3-8b",
                "host": "203.0.113.10",
                "port": 8002,
                "api_key": "sk-vllm-EM2rI9zYycmL213OJNXRfVfCouEm_o-NNqVkNHfbINc",
                "args": [],
                "source": {"kind": "hf"},
            },
        ],
    }
    assert json.dumps(expected).encode() == told("203.0.113.10").body


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gpu_memory_utilization", 0.5),
        ("max_model_len", 4096),
        ("vram_gb", 7.5),
        ("disk_gb", 3),
        ("kv_bytes_per_token", 81920),
    ],
)
def test_an_optional_field_stands_only_when_the_recipe_sets_it(name: str, value: float) -> None:
    """Unset is absent, not null."""
    bare = dict.fromkeys(("max_model_len", "vram_gb", "disk_gb"))
    without = told("203.0.113.10", with_recipe(**bare))
    with_it = told("203.0.113.10", with_recipe(**{**bare, name: value}))
    assert name not in without.servers[0].shown
    assert value == with_it.servers[0].shown[name]
    assert {name} == set(with_it.servers[0].shown) - set(without.servers[0].shown)


@pytest.mark.parametrize(("host", "port", "bearer"), KNOWN)
def test_bearers_are_the_known_ones(host: str, port: int, bearer: str) -> None:
    """The derivation is a contract with boxes that already run."""
    servers = json.loads(told(host).body)["servers"]
    assert [bearer] == [each["api_key"] for each in servers if each["port"] == port]


def test_a_host_nobody_configured_has_no_answer() -> None:
    """None, and not an answer without servers."""
    assert answer(build(fleet()), "203.0.113.99") is None


def test_a_host_without_rows_is_known_and_serves_nothing() -> None:
    """A box whose rows were all removed is told to stop them."""
    made = told("203.0.113.10", fleet(hosts=(Host("203.0.113.10", ()),)))
    assert [] == json.loads(made.body)["servers"]


def test_a_former_name_is_answered_under_that_name_with_the_old_bearer() -> None:
    """Until the box asks under its new name, what it runs stays right."""
    old = json.loads(told("old-name").body)
    assert "old-name" == old["host"]
    assert ["old-name"] == [each["host"] for each in old["servers"]]
    expected = derive(Secret(SALT), "old-name", 8001).reveal()
    assert [expected] == [each["api_key"] for each in old["servers"]]
    assert old["revision"] != told("c.4711").revision


def test_answers_holds_every_name_and_the_same_answers() -> None:
    """The table made once per Intended agrees with the single answer."""
    intended = build(fleet())
    made = answers(intended)
    assert {"203.0.113.10", "c.4711", "old-name"} == set(made)
    assert all(answer(intended, host) == each for host, each in made.items())


def test_the_revision_is_safe_to_show_and_has_its_shape() -> None:
    """`r1-` and hex digits; nothing of a bearer is in what is shown or kept."""
    made = told("203.0.113.10")
    prefix, digits = made.revision[:3], made.revision[3:]
    assert "r1-" == prefix
    assert set(digits) <= set("0123456789abcdef")
    assert "sk-vllm" not in repr(made) + json.dumps(made.assignment)
    assert all(len(each["api_key"]) == 16 for each in made.assignment["servers"])


MOVES: list[tuple[str, Config]] = [
    ("a setting", with_recipe(max_model_len=65536)),
    ("an argument", with_recipe(args=("--x",))),
    ("the salt", fleet(vllm_api_salt=(Secret("salt-2"), Secret(SALT)))),
    ("a port", fleet(hosts=(evolve(BOX, rows=(HostRow("gemma4-26b", 8003, "gemma4-26b"),)),))),
    ("a row", fleet(hosts=(evolve(BOX, rows=BOX.rows[:1]),))),
]


@pytest.mark.parametrize("config", [each[1] for each in MOVES], ids=[each[0] for each in MOVES])
def test_the_revision_moves_when_something_a_box_runs_moves(config: Config) -> None:
    """A key that moves is something that moves."""
    assert told("203.0.113.10").revision != told("203.0.113.10", config).revision


STAYS: list[tuple[str, Config]] = [
    ("another host", fleet(hosts=(BOX, evolve(LABEL, rows=())))),
    ("the fleet key", fleet(key=(Secret("other"),))),
    ("how a number is spelt", with_recipe(vram_gb=18)),
    (
        "LiteLLM's parameters",
        evolve(fleet(), models=(evolve(GEMMA, litellm_params={"order": 2}), QWEN)),
    ),
    ("the order of the hosts", fleet(hosts=(LABEL, BOX))),
]


@pytest.mark.parametrize("config", [each[1] for each in STAYS], ids=[each[0] for each in STAYS])
def test_the_revision_stays_when_nothing_a_box_runs_has_moved(config: Config) -> None:
    """Otherwise every box would be behind for nothing."""
    assert told("203.0.113.10").revision == told("203.0.113.10", config).revision


def test_no_salt_means_keyless() -> None:
    """A vLLM started with an empty key would be open to all: the answer says so."""
    assert told("203.0.113.10", fleet(vllm_api_salt=())).keyless
    assert not told("203.0.113.10").keyless


ONE = fleet(hosts=(evolve(BOX, rows=BOX.rows[:1]),))


def moved(before: Config, after: Config) -> tuple[str, ...]:
    return difference(
        told("203.0.113.10", before).assignment, told("203.0.113.10", after).assignment
    )


def one_with(**changes: Any) -> Config:
    return evolve(ONE, models=with_recipe(**changes).models)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (ONE, ONE, ()),
        (ONE, one_with(max_model_len=65536), ("max_model_len 32768 → 65536",)),
        (ONE, one_with(max_model_len=None), ("max_model_len 32768 removed",)),
        (ONE, one_with(kv_bytes_per_token=9), ("kv_bytes_per_token 9 added",)),
        (ONE, one_with(args=()), ("args --reasoning-parser gemma → (none)",)),
        (
            ONE,
            evolve(ONE, fleet=evolve(ONE.fleet, vllm_api_salt=(Secret("2"),))),
            ("bearer changed",),
        ),
        (ONE, fleet(), ("server q added",)),
        (fleet(), ONE, ("server q removed",)),
        (fleet(), with_recipe(max_model_len=1), ("gemma4-26b: max_model_len 32768 → 1",)),
        (
            fleet(),
            fleet(hosts=(evolve(BOX, rows=BOX.rows[::-1]),)),
            ("order of servers changed",),
        ),
    ],
)
def test_the_difference_is_said_in_words(
    before: Config, after: Config, expected: tuple[str, ...]
) -> None:
    """One phrase for each thing that moved, and none when nothing did."""
    assert expected == moved(before, after)


@pytest.mark.parametrize("nonsense", [{}, {"servers": 5}, {"servers": [1, None, {}]}])
def test_an_assignment_of_another_shape_is_no_crash(nonsense: dict[str, Any]) -> None:
    """A store may hold what an older llmao wrote."""
    new = told("203.0.113.10", ONE).assignment
    assert "server gemma4-26b added" in difference(nonsense, new)


def test_a_long_setting_is_cut() -> None:
    """Words for a page, not a dump."""
    phrase = moved(ONE, one_with(args=tuple(f"--flag-{each}" for each in range(99))))[0]
    assert len(phrase) < 200


def test_a_recipe_variant_is_what_the_box_gets() -> None:
    """The row's recipe stands in the answer, not the model's first one."""
    model = Model("m", recipe=Recipe("a/m"), recipes={"fp8": Recipe("a/m-fp8")})
    config = evolve(
        fleet(hosts=(Host("h.example", (HostRow("m", 8001, "m", recipe="fp8"),)),)), models=(model,)
    )
    assert "a/m-fp8" == json.loads(told("h.example", config).body)["servers"][0]["model"]
