"""The journal beside a running llmao: it keeps every pass and never keeps one waiting."""

import threading
from pathlib import Path
from typing import Any

from attrs import define, field

from llmao_core.config import Config, FleetConfig, Host, HostRow
from llmao_core.intended import build
from llmao_core.plan import Policy
from llmao_core.reconcile import reconcile
from llmao_core.testing.clock import VirtualClock
from llmao_core.testing.fleets import MODELS, SALTS
from llmao_web.shell.board import Board
from llmao_web.shell.journal import Journal
from llmao_web.shell.journal_file import Appender
from llmao_web.shell.journal_reader import passes
from llmao_web.shell.loop import Loop
from llmao_web.shell.replaying import replay
from llmao_web.shell.store import MemoryStore

from .recording import empty_pass, good, keeper, passes_of

NOON = 1_800_014_400.0
LONG_S = 30.0


@define
class _Slow:
    """A file on a disk that answers when it is told to."""

    real: Appender
    go_on: threading.Event
    size: int = 0

    def append(self, at: float, content: bytes, *, keyframe: bool) -> None:
        assert self.go_on.wait(LONG_S)
        self.real.append(at, content, keyframe=keyframe)

    def close(self) -> None:
        self.real.close()


@define
class _Hung:
    """A journal whose disk hangs, and what lets it go on."""

    folder: Path
    go_on: threading.Event = field(factory=threading.Event)
    opened: threading.Event = field(factory=threading.Event)

    def journal(self, waiting: int) -> Journal:
        into = keeper(self.folder)

        def opens(folder: Path, day: str) -> _Slow:
            self.opened.set()
            return _Slow(Appender.begun(folder, day), self.go_on)

        into._opens = opens
        return Journal(into, waiting)


def test_every_pass_taken_is_kept(tmp_path: Path) -> None:
    """Closing writes what waits, in order."""
    journal = Journal(keeper(tmp_path))
    for place in range(20):
        journal.take(empty_pass(NOON + place))
    journal.close(LONG_S)
    assert [NOON + place for place in range(20)] == [one.at for one in passes_of(passes(tmp_path))]
    assert journal.trouble is None


def test_a_slow_disk_keeps_nobody_waiting(tmp_path: Path) -> None:
    """What the disk does not take is dropped and said; afterwards a keyframe begins anew."""
    hung = _Hung(tmp_path)
    journal = hung.journal(waiting=3)
    journal.take(empty_pass(NOON))
    assert hung.opened.wait(LONG_S)
    for place in range(1, 10):
        journal.take(empty_pass(NOON + place))
    told = journal.trouble
    assert told is not None
    assert ("the disk is too slow", NOON + 4) == (told.message, told.since)
    hung.go_on.set()
    while journal.trouble:
        journal.take(empty_pass(NOON + 10))
    journal.close(LONG_S)
    kept = passes_of(passes(tmp_path))
    assert [0, 1, 2, 3, 10] == [one.at - NOON for one in kept[:5]]
    assert kept[4].history is not None


def test_a_hanging_disk_does_not_keep_llmao_from_stopping(tmp_path: Path) -> None:
    """Closing waits so long and no longer."""
    hung = _Hung(tmp_path)
    journal = hung.journal(waiting=1)
    journal.take(empty_pass(NOON))
    assert hung.opened.wait(LONG_S)
    journal.take(empty_pass(NOON))
    journal.close(0.05)
    hung.go_on.set()


class _Nobody:
    """Takes what a loop hands on, and does nothing about it."""

    def take(self, *_: Any) -> None:
        """Carry out nothing."""

    def follow(self, *_: Any) -> None:
        """Read nothing."""

    def aim(self, *_: Any) -> None:
        """Probe nothing."""


async def _here(work: Any, *given: Any) -> Any:
    return work(*given)


async def test_the_loop_hands_over_every_pass_that_came_to_an_end(tmp_path: Path) -> None:
    """What reconcile was given and what it returned; a pass that failed is none."""
    clock, nobody, failing = VirtualClock(NOON), _Nobody(), [False]
    board, journal = Board(clock), Journal(keeper(tmp_path))
    hosts = (Host("203.0.113.1", (HostRow("m0", 8001, "m0"),)),)
    board.intend(build(Config(fleet=FleetConfig(vllm_api_salt=SALTS, hosts=hosts), models=MODELS)))

    def deciding(*given: Any) -> Any:
        assert not failing[0]
        return reconcile(*given)

    loop = Loop(
        board, clock, MemoryStore(), deciding, policy=Policy, hands=nobody,
        readers=nobody, prober=nobody, offload=_here, record=journal.take,
    )  # fmt: skip
    for failing[0] in (False, False, True, False):
        await loop.once()
        await clock.advance(1.0)
    journal.close(LONG_S)
    again = good(replay(passes(tmp_path)))
    assert [0, 1, 3] == [one.recorded.at - NOON for one in again]
    assert all(one.identical for one in again)
    assert [True, False, False] == [one.recorded.history is not None for one in again]
    assert all(one.view.records for one in again)
