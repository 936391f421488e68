"""`llmao plan --url`: what a running llmao is about to do."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from attrs import evolve

from llmao_core.config import AuthConfig
from llmao_core.errors import LlmaoError
from llmao_core.plan import Plan
from llmao_core.snapshots import SourceState
from llmao_web.commands import plan as plan_command
from llmao_web.commands.moments import shown
from llmao_web.commands.status import Place

from .signing import config_of
from .test_cli_status import Running, run
from .worlds import BOX, NOW, a_plan, a_view


@pytest.fixture
def running() -> Iterator[Running]:
    """Return an llmao all of whose sources are read."""
    with Running(config_of(AuthConfig("open"), public_url="")) as made:
        sources = [evolve(one, state=SourceState.FRESH) for one in a_view().sources]
        made.desk.seen = evolve(a_view(), sources=tuple(sources))
        yield made


def test_the_plan_of_a_running_llmao_is_printed(running: Running) -> None:
    """As a fresh look is: who answered, each action and why it waits, what needs somebody."""
    result = run("plan", "--url", running.url)
    assert (2, "") == (result.exit_code, result.stderr)
    lines = result.stdout.splitlines()
    assert f"# llmao at {running.url}, fleet main, {shown(NOW - 3)}" == lines[0]
    assert [
        f"~ update in LiteLLM: {BOX.name}:8001 gemma4-26b",
        "    body_moved: The body differs from what is intended.",
        f"- remove from LiteLLM: {BOX.name}:8002 qwen3-8b",
        "    remove_unhealthy: 3 probes in a row failed.",
        f"    not now: {a_plan().actions[0].hold.value}",
        "! Nobody can call qwen3-8b.",
    ] == lines[1:7]
    assert "1 to do now, 1 not now; 5 deployments looked at." == lines[-1]


def test_it_has_the_shape_of_a_fresh_look_in_json(running: Running) -> None:
    """And says whose it is, and of when."""
    told = json.loads(run("plan", "--url", running.url, "--json").stdout)
    assert ("main", NOW - 3, True, 5) == (
        told["fleet"],
        told["at"],
        told["settled"],
        told["looked_at"],
    )
    assert [True, False] == [each["runs"] for each in told["actions"]]
    assert "Nobody can call qwen3-8b." == told["attention"][0]["sentence"]


def test_the_exit_code_says_whether_there_is_something_to_do(running: Running) -> None:
    """0: nothing; 1: a source is not read, so that more could be planned."""
    running.desk.planned = Plan()
    calm = run("plan", "--url", running.url)
    assert (0, True) == (calm.exit_code, "Nothing to do: 5 deployments" in calm.stdout)
    running.desk.seen = a_view()
    blind = run("plan", "--url", running.url)
    assert (1, False) == (blind.exit_code, "Nothing to do" in blind.stdout)
    assert "runpod is unread, so nothing rests on it: Unauthorized: RunPod" in blind.stderr
    assert "litellm is unread, so nothing rests on it: it was not read in time" in blind.stderr


@pytest.mark.parametrize(
    "answer", [None, [], {}, {"at": 1, "actions": [{}]}, {"at": 1, "actions": 3}]
)
def test_an_answer_that_is_no_plan_is_refused(
    answer: Any, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever listens there."""
    monkeypatch.setattr(plan_command, "fetched", lambda *_: answer)
    with pytest.raises(LlmaoError, match="is not llmao"):
        plan_command.told(Place(running.url))
