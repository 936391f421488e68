"""A box and a llmao for every test that wants one."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.web.worlds import desk_of

from .lab import Machine, Served, box_fleet, llmao


@pytest.fixture
def machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Machine:
    """A box with one card of 24 GB and a vLLM that only says that it is healthy."""
    return Machine(tmp_path, monkeypatch, capsys)


@pytest.fixture
def served(machine: Machine) -> Iterator[Served]:
    """A llmao that knows the box, and that the box asks."""
    config = box_fleet()
    with llmao(desk_of(config), config) as running:
        machine.set("LLMAO_URL", running.url)
        yield running
