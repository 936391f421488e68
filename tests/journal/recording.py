"""Passes to keep: a little world whose every pass is recorded, and single ones from drawn cases."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.core import small_world
from tests.core.box_world import BoxWorld

from llmao_core.config import JournalConfig
from llmao_core.history import History
from llmao_core.plan import Plan, Policy
from llmao_core.reconcile import reconcile
from llmao_core.records import View
from llmao_core.snapshots import Snapshots
from llmao_core.testing.strategies import Case
from llmao_web.shell.journal import Keeper
from llmao_web.shell.journal_file import Damage, records
from llmao_web.shell.journal_reader import journal_files
from llmao_web.shell.journal_record import Pass, Recorded
from llmao_web.shell.replaying import Replayed

_NOTHING = History()


def keeper(folder: Path, **config: Any) -> Keeper:
    """Return a keeper into a folder."""
    return Keeper(folder, JournalConfig(**config))


def a_pass(case: Case) -> Pass:
    """Return what a case came to."""
    return Pass(case.now, case.snapshots, case.policy, case.history, *case.run())


def empty_pass(at: float, plan: Plan | None = None) -> Pass:
    """Return a pass in which nothing was read; it follows on any other of these."""
    return Pass(at, Snapshots(), Policy(), _NOTHING, View(at), plan or Plan(), _NOTHING)


@contextmanager
def lived(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[BoxWorld, list[Pass]]]:
    """Give a world of four boxes and the passes it makes, as they are made."""
    made: list[Pass] = []

    def recording(
        snapshots: Snapshots, history: History, policy: Policy, now: float
    ) -> tuple[View, Plan, History]:
        came = reconcile(snapshots, history, policy, now)
        made.append(Pass(now, snapshots, policy, history, *came))
        return came

    with monkeypatch.context() as patched:
        patched.setattr(small_world, "reconcile", recording)
        yield BoxWorld(), made


def troubled(world: BoxWorld) -> None:
    """Let a box hang, be mapped anew, rented anew and lost, and llmao restart."""
    first, second, third, fourth = world.boxes
    world.run(60)
    world.become(first, "hung")
    world.run(90)
    world.remap(second, "stranger")
    world.rent_anew(third, 30)
    world.become(first, "ok")
    world.run(90)
    world.edit_row(1, "copy")
    world.become(fourth, "down")
    world.run(60)
    world.restart_llmao()
    world.run(60)


def keep(folder: Path, made: Sequence[Pass], **config: Any) -> None:
    """Write passes into a folder, all of them."""
    into = keeper(folder, **config)
    for one in made:
        into.keep(one, after_gap=False)
    into.close()
    assert into.trouble is None, into.trouble


def contents(folder: Path) -> list[bytes]:
    """Return the JSON of every record of a journal."""
    found = [each for path in journal_files(folder) for each in records(path)]
    assert not [each for each in found if isinstance(each, Damage)]
    return [each.content for each in found if not isinstance(each, Damage)]


def good(told: Iterator[Replayed | Damage]) -> list[Replayed]:
    """Return the passes of a replay in which nothing is damaged."""
    found = list(told)
    assert not [one for one in found if isinstance(one, Damage)]
    return [one for one in found if isinstance(one, Replayed)]


def passes_of(told: Iterator[Recorded | Damage]) -> list[Recorded]:
    """Return what can be read."""
    return [one for one in told if isinstance(one, Recorded)]
