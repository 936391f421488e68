"""A large account is read in no time; `tests/bench/bench_listing.py` has the figure."""

import pytest
from tests.bench.bench_listing import account, cpu_of_a_read, no_pause

from llmao_vast import plugin


def test_a_thousand_instances_cost_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading them takes 0.2 s of CPU; ten times that would be another algorithm."""
    monkeypatch.setattr(plugin, "sleep", no_pause)
    fake = account()
    cpu_of_a_read(fake)
    assert cpu_of_a_read(fake) < 2
