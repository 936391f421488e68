"""Worlds in which everything goes wrong, by seed: every invariant holds in each, and all settle."""

import os
import subprocess
import sys
from collections.abc import Sequence

import pytest

from llmao_web.sim.many import seeds_of
from llmao_web.sim.replicas import SQL_EVERY, TWO_EVERY
from llmao_web.sim.run import Result, run_seed

SEEDS = range(1, 126)
HOURS = 2.0
# Two llmao's take three times as long as one; more happens to them meanwhile.
HOURS_OF_TWO = 1.0


def _told(result: Result) -> str:
    story = "\n".join(f"{one.at:9.1f} s  {one.about}  {one.what}" for one in result.story)
    return f"{result.violation}\n{story}\nLive it again: {result.replay}"


@pytest.mark.sim
def test_two_hours_of_everything() -> None:
    """Two virtual hours of faults break no invariant, and llmao comes to rest with the world."""
    _live([seed for seed in SEEDS if seed % TWO_EVERY], HOURS)


@pytest.mark.sim
def test_two_that_share_a_store() -> None:
    """Two llmao's that fight over one world break no invariant, of the world's or of their own."""
    _live([seed for seed in SEEDS if not seed % TWO_EVERY], HOURS_OF_TWO)


def _live(seeds: Sequence[int], hours: float) -> None:
    lived = list(seeds_of(seeds, hours, os.cpu_count() or 1))
    violated = [_told(result) for result in lived if result.violation is not None]
    assert not violated, "\n\n".join(violated)
    assert len(seeds) == len(lived)


def test_a_short_life() -> None:
    """A life of some minutes holds every invariant; it is here for whoever runs the light tests."""
    result = run_seed(7, 0.15)
    assert result.violation is None, _told(result)
    assert 6 <= result.orders


@pytest.mark.parametrize("seed", [11, SQL_EVERY, TWO_EVERY])
def test_a_seed_is_the_same_world_each_time(seed: int) -> None:
    """Two processes, whose dictionaries hash differently, live the same life event for event."""
    digests = {_digest(hash_seed, seed) for hash_seed in ("1", "2")}
    assert 1 == len(digests)


def _digest(hash_seed: str, seed: int) -> str:
    code = f"from llmao_web.sim.run import run_seed; print(run_seed({seed}, 0.1).digest)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()
