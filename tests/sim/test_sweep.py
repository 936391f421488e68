"""The three Sieve families, each swept over everything llmao does and reads."""

import os

import pytest

from llmao_core.actions import ActionKind
from llmao_web.sim.many import cases
from llmao_web.sim.run import Result
from llmao_web.sim.sweep import (
    ACTS,
    BOOTED_S,
    CRASH,
    MISSED,
    SOURCES,
    STALE,
    STEPS,
    Case,
    crashes,
    run_case,
)
from llmao_web.sim.world import Event

# A place behind all steps: llmao is not killed.
NEVER = 10_000


def _failed(result: Result) -> str:
    story = "\n".join(f"{one.at:9.1f} s  {one.about}  {one.what}" for one in result.story)
    return f"{result.violation}\n{story}\nLive it again: {result.replay}"


@pytest.mark.sim
def test_the_three_families() -> None:
    """Every case ends well.

    Crash: killed before, between or after any write, llmao ends where it would have ended. Stale
    view: a source that shows the past takes no serving route. Missed transition: what a source
    never showed is no loss.
    """
    lived = list(cases(os.cpu_count() or 1))
    violated = [_failed(result) for result in lived if result.violation is not None]
    assert not violated, "\n\n".join(violated)
    assert len(lived) >= 2 * len(SOURCES) * len(STEPS) + 4 * len(ACTS)
    replays = " ".join(result.replay for result in lived)
    assert [] == [act for act in ACTS if f"'{CRASH}/{act}/0'" not in replays]


def _begun(act: str) -> set[ActionKind]:
    """Return what is begun after an act and before the world is calmed: where llmao is killed."""
    told: list[Event] = []
    run_case(Case(CRASH, act, NEVER), say=told.append)
    whats = [one.what for one in told if one.at >= BOOTED_S]
    sweeping = whats[: whats.index("the world stands still from now on")]
    return {kind for kind in ActionKind for what in sweeping if f"begins {kind.value} by" in what}


@pytest.mark.sim
def test_the_crash_sweep_meets_every_kind_of_action() -> None:
    """A kind that no act leads to would never be killed between its steps."""
    met: set[ActionKind] = set()
    for act in ("add", "update body", "replace", "duplicate", "prune", "reboot"):
        met |= _begun(act)
    assert set(ActionKind) == met


def test_a_crash_between_the_write_and_its_log() -> None:
    """The route was written and the log was not: after the restart there is one route."""
    case = next(each for each in crashes("put back") if "store action, before" in each.said)
    result = run_case(case)
    assert result.violation is None, _failed(result)


def test_a_case_has_a_name_that_lives_it_again() -> None:
    """A name leads back to its case; what is no name leads to none."""
    for case in (Case(CRASH, "add", 3), Case(STALE, "vast", 0), Case(MISSED, "llmao", 5)):
        assert case == Case.named(case.name)
    for name in ("", "crash", "crash/nothing/1", "stale/vast/x", f"missed/vast/{len(STEPS)}"):
        with pytest.raises(LookupError):
            Case.named(name)
