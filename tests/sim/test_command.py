"""`llmao sim`: what it prints, how it exits, and that what it prints lives a failure again."""

import json
import re
from collections.abc import Iterable, Iterator

import pytest
from click.testing import CliRunner

from llmao_core import restrain
from llmao_core.plan import Hold
from llmao_web.commands import sim as command
from llmao_web.commands.sim import sim
from llmao_web.sim.run import Result
from llmao_web.sim.world import Event, Violation


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


def test_a_good_life_as_json() -> None:
    """One object and nothing else, with numbers that can be summed."""
    code, said = _run("--seed", "5", "--hours", "0.05", "--json")
    told = json.loads(said)
    assert (0, 1, []) == (code, told["lives"], told["violated"])
    assert 180 <= told["lived_s"]
    assert told["events"] > told["writes"] > 0
    assert 2 == _run("--json", "-v")[0]


def test_a_violation_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 1, and the one object has what did not hold, what led to it, and the command."""
    end = Result("--seed 7", Violation("x", "y \x1b[2J"), 9.0, (Event(8.0, "c.1", "fell"),),
                 1, 2, 3, "d")  # fmt: skip
    monkeypatch.setattr(command, "seeds_of", lambda *_: iter([end]))
    code, said = _run("--json")
    assert 1 == code
    assert [
        {
            "what": "x: y \x1b[2J",
            "at_s": 9.0,
            "replay": "--seed 7",
            "story": [{"at": 8.0, "about": "c.1", "what": "fell"}],
        }
    ] == json.loads(said)["violated"]
    assert "\x1b" not in said


@pytest.mark.parametrize(
    ("given", "hours"),
    [([], 2), (["--hours", "7"], 7), (["--days", "30"], 720), (["--days", "0.5"], 12)],
)
def test_how_long_a_life_is(
    monkeypatch: pytest.MonkeyPatch, given: list[str], hours: float
) -> None:
    """In hours or in days, two hours unless it is said."""
    asked: list[float] = []

    def lived(_: Iterable[int], hours: float, *__: object) -> Iterator[Result]:
        asked.append(hours)
        return iter(())

    monkeypatch.setattr(command, "seeds_of", lived)
    assert 0 == _run("--seed", "5", *given)[0]
    assert [hours] == asked


@pytest.mark.parametrize(
    "given", [["--days", "1", "--hours", "2"], ["--days", "42"], ["--days", "0"]]
)
def test_no_life_of_two_lengths_or_none(given: list[str]) -> None:
    """Exit code 2, before anything is lived."""
    code, said = _run(*given)
    assert 2 == code
    assert "--days" in said


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
