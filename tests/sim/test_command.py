"""`llmao sim`: what it prints, how it exits, and that what it prints lives a failure again."""

import re

import pytest
from click.testing import CliRunner

from llmao_core import restrain
from llmao_core.plan import Hold
from llmao_web.commands.sim import sim


def _run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(sim, arguments)
    return done.exit_code, done.output


def test_a_good_life_is_one_line() -> None:
    """Exit code 0, and the sum of what was lived."""
    code, said = _run("--seed", "5", "--hours", "0.05")
    assert 0 == code
    head, row = said.splitlines()
    assert ["lives", "virtual hours", "events", "writes", "starts", "violations"] == (
        head.split("\t")[:6]
    )
    assert ("1", "0") == (row.split("\t")[0], row.split("\t")[5])


def test_every_event_is_told() -> None:
    """With -v the story is printed as it happens."""
    code, said = _run("--seed", "5", "--hours", "0.05", "-v")
    assert 0 == code
    assert "fetched its configuration and loads" in said
    assert "llmao begins add_litellm by serving-absent" in said


@pytest.mark.sim
def test_a_violation_is_lived_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 1, with seed, time, story and a command that comes to the very same end."""
    monkeypatch.setattr(restrain, "witness", lambda *_: Hold.NOT_HELD)
    found = next(said for code, said in map(_seed, range(1, 30)) if code)
    replay = re.search(r"Live it again: llmao sim (.*)", found)
    assert replay is not None
    code, again = _run(*replay[1].split())
    assert 1 == code
    assert _story(found) == _story(again)
    assert "no-serving-route-removed" in again


def _seed(seed: int) -> tuple[int, str]:
    return _run("--seed", str(seed), "--hours", "2")


def _story(said: str) -> str:
    return said.partition("Live it again")[0]


def test_a_case_that_there_is_not() -> None:
    """A name of no case is a wrong argument, and says so."""
    code, said = _run("--case", "crash/nothing/1")
    assert 2 == code
    assert "there is no case" in said


def test_a_case_by_its_name() -> None:
    """One case of a sweep is lived alone."""
    code, said = _run("--case", "missed/llmao/0", "-v")
    assert 0 == code
    assert "llmao stands still" in said
