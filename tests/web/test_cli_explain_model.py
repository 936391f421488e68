"""`llmao explain MODEL`: what its callers get, what serves it, and what to do."""

import json
from pathlib import Path

import click
import pytest
from attrs import evolve

from llmao_core.config import AuthConfig
from llmao_core.errors import LlmaoError
from llmao_core.intended import build
from llmao_core.plan import Plan
from llmao_core.records import AttentionItem, Availability, ItemKind, View
from llmao_web.commands.explain import lines, values_of
from llmao_web.shell.once import Looked

from .signing import config_of
from .test_cli_explain import explained
from .test_cli_status import Running
from .worlds import BOX, a_view, fleet

NAME = "qwen3-8b"
LOST = AttentionItem(f"model_unavailable {NAME}", ItemKind.MODEL_UNAVAILABLE, "Nobody serves it.")
FULL = AttentionItem(
    "full", ItemKind.SATURATED, "It is full.", key=build(fleet()).deployments[1].key
)
GONE = AttentionItem("box", ItemKind.UNNAMED_BOX, "Its box costs.", host=BOX.name)
OTHERS = (
    AttentionItem("model_unavailable x", ItemKind.MODEL_UNAVAILABLE, "Another model."),
    AttentionItem("of", ItemKind.DOWN, "Another one.", key=build(fleet()).deployments[0].key),
    AttentionItem("far", ItemKind.UNKNOWN_HOST, "Another box.", host="203.0.113.99"),
)
ITEMS = (LOST, FULL, GONE)
VIEW = evolve(a_view(), items=(*ITEMS, *OTHERS))


def text_of(view: View, name: str) -> list[str]:
    """Return what is printed of a name by a journal or a fresh look."""
    looked = Looked(view, Plan(), settled=True, unread=())
    return [click.unstyle(line) for value in values_of(looked, name) for line in lines(value)]


@pytest.mark.parametrize("name", [NAME, "QWEN3-8B"])
def test_a_model_is_told_with_its_items_and_its_deployments(name: str) -> None:
    """A line for each: what callers get, what is wrong, what to do, and how each server stands."""
    told = text_of(VIEW, name)
    first, availability, context, *rest = told
    assert (NAME, "  Unavailable: 0 healthy of 2") == (first, availability)
    assert "  context: unknown" == context
    for each in ITEMS:
        at = rest.index(f"  attention: {each.sentence}")
        assert f"  what to do: {each.remedy}" == rest[at + 1]
    assert not [line for line in rest if "Another" in line]
    servers = rest[2 * len(ITEMS) :]
    assert (
        f"  {BOX.name}:8002: Unhealthy, not in LiteLLM. "
        "failed_threshold: 3 probes in a row were refused."
    ) == servers[0]
    assert 2 == len(servers)


def test_it_says_what_is_in_litellm_and_what_nobody_probed() -> None:
    """A route, and an availability on configuration alone."""
    gemma, claude = text_of(VIEW, "gemma4-26b"), text_of(VIEW, "claude-x")
    assert "  context: 32768 tokens" in gemma
    assert (
        f"  {BOX.name}:8001: Healthy, in LiteLLM. answers: The newest probe was answered." in gemma
    )
    assert claude[1].startswith("  Available (on configuration alone): ")


def test_the_running_llmao_tells_the_same(tmp_path: Path) -> None:
    """Text and JSON; whoever is asked, the answer has one shape."""
    with Running(config_of(AuthConfig("open"), public_url="")) as running:
        running.desk.seen = VIEW
        text = explained(tmp_path, running, NAME)
        made = explained(tmp_path, running, NAME, "--json")
    assert (0, text_of(VIEW, NAME)) == (text.exit_code, text.stdout.splitlines())
    (value,) = json.loads(made.stdout)
    looked = Looked(VIEW, Plan(), settled=True, unread=())
    assert [value] == json.loads(json.dumps(values_of(looked, NAME)))
    assert "Unavailable" == value["model"]["availability"]
    assert [each.remedy for each in ITEMS] == value["remedies"]


def test_a_name_that_a_model_and_a_box_have_is_told_of_both() -> None:
    """And one that no host can have is a model's all the same."""
    lost = evolve(VIEW.models[1], name=BOX.name)
    odd = evolve(VIEW.models[1], name="Large (v2)", availability=Availability.UNKNOWN)
    view = evolve(VIEW, models=(lost, odd))
    told = text_of(view, BOX.name)
    assert [BOX.name, "  Unavailable: 0 healthy of 2"] == told[:2]
    assert [line for line in told if line.startswith("  box: ")]
    assert f"{BOX.name}:8001 gemma4-26b" in told
    assert ["Large (v2)", "  Unknown: 0 healthy of 2", "  context: unknown"] == text_of(
        view, "large (v2)"
    )
    with pytest.raises(LlmaoError, match=r"of Small \(v2\)\. Known: .*Large \(v2\)"):
        text_of(view, "Small (v2)")


def test_names_move_no_cursor() -> None:
    """A model of LiteLLM's can be called anything."""
    view = evolve(VIEW, models=(evolve(VIEW.models[1], name="m\x07"),))
    assert not [line for line in text_of(view, "m\x07") if "\x07" in line]


def test_an_llmao_of_another_fleet_is_warned_of_before_it_knows_nothing(tmp_path: Path) -> None:
    """Who asks for a box of this folder learns why nobody knows it."""
    config = config_of(AuthConfig("open"), public_url="")
    fleet_of_it = evolve(config.fleet, name="demo")
    with Running(evolve(config, fleet=fleet_of_it)) as running:
        result = explained(tmp_path, running, "127.0.0.99")
    warning, whose, nothing = result.stderr.splitlines()
    assert warning.startswith(f"warning: the llmao at {running.url} has the fleet demo, and ")
    assert whose.startswith(f"As llmao at {running.url}, fleet demo, knows it, ")
    assert "Nothing is known of 127.0.0.99." in nothing
