"""Two replicas on a real PostgreSQL: one writes, whatever happens to it or to the database."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import define, field
from tests.real.lab.install import install_litellm
from tests.real.lab.postgres import Postgres

from llmao_web.shell.clock import SystemClock

pytestmark = pytest.mark.real

CLOCK = SystemClock()
TAKEOVER_S = 15.0


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    with Postgres(install_litellm()) as server:
        yield server


@define
class Replica:
    """One process that stands for election."""

    url: str
    name: str
    notes: Path
    process: subprocess.Popen[bytes] = field(init=False)

    def start(self) -> "Replica":
        """Start it."""
        words = [sys.executable, "-m", "tests.real.standing", self.url, self.name, str(self.notes)]
        self.process = subprocess.Popen(words, env={**os.environ, "PYTHONPATH": ".:src"})
        return self

    def began(self) -> list[float]:
        """Return when its writes began, by the machine's monotonic clock."""
        lines = self.notes.read_text().splitlines() if self.notes.exists() else []
        return [float(line.split()[0]) for line in lines if line.endswith("began")]

    def writes_after(self, moment: float, within_s: float) -> float:
        """Wait for a write begun after a moment; return how long that took."""
        limit = CLOCK.monotonic() + within_s
        while CLOCK.monotonic() < limit:
            if late := [at for at in self.began() if at > moment]:
                return late[0] - moment
            time.sleep(0.05)
        raise AssertionError(f"{self.name} began no write within {within_s} s")


@pytest.fixture
def pair(postgres: Postgres, tmp_path: Path) -> Iterator[tuple[Replica, Replica]]:
    """Give the leader and the follower."""
    first = Replica(postgres.url, "first", tmp_path / "first").start()
    first.writes_after(0.0, TAKEOVER_S)
    second = Replica(postgres.url, "second", tmp_path / "second").start()
    time.sleep(1.5)
    yield first, second
    for each in (first, second):
        each.process.kill()
        each.process.wait()


def turns(first: Replica, second: Replica) -> list[str]:
    """Return who wrote, one name for each time the writer changed."""
    begun = [(at, each.name) for each in (first, second) for at in each.began()]
    names = [name for _, name in sorted(begun)]
    return [name for place, name in enumerate(names) if place == 0 or names[place - 1] != name]


def test_the_follower_writes_nothing_and_takes_over_from_one_that_died(
    pair: tuple[Replica, Replica],
) -> None:
    """The lock goes with the session of a killed process; the next leader begins at once."""
    first, second = pair
    assert [] == second.began()
    first.process.kill()
    died = CLOCK.monotonic()
    assert second.writes_after(died, TAKEOVER_S) < 5.0
    assert ["first", "second"] == turns(first, second)


def test_a_frozen_leader_is_replaced_and_writes_nothing_when_it_thaws(
    pair: tuple[Replica, Replica],
) -> None:
    """SIGSTOP keeps the session and the lock: its end is made by the follower, in time."""
    first, second = pair
    os.kill(first.process.pid, signal.SIGSTOP)
    frozen = CLOCK.monotonic()
    assert second.writes_after(frozen, TAKEOVER_S) < TAKEOVER_S
    os.kill(first.process.pid, signal.SIGCONT)
    time.sleep(3.0)
    assert [] == [at for at in first.began() if at > frozen + 0.5]
    assert ["first", "second"] == turns(first, second)


def test_a_leader_whose_session_is_cut_stops_and_one_leads_again(
    postgres: Postgres, pair: tuple[Replica, Replica]
) -> None:
    """Whoever gets the lock then, never both write by turns."""
    first, second = pair
    cut = CLOCK.monotonic()
    postgres.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE application_name = 'llmao first'"
    )
    time.sleep(4.0)
    after = [each.name for each in (first, second) if any(at > cut + 2 for at in each.began())]
    assert 1 == len(after)
    assert len(turns(first, second)) <= 2


def test_nobody_leads_without_the_database_and_one_does_when_it_is_back(
    postgres: Postgres, pair: tuple[Replica, Replica]
) -> None:
    """A stopped PostgreSQL stops every write within the time of an answer."""
    first, second = pair
    postgres.stop()
    stopped = CLOCK.monotonic()
    time.sleep(4.0)
    assert [] == [at for each in pair for at in each.began() if at > stopped + 0.5]
    postgres.start()
    back = CLOCK.monotonic()
    while not any(at > back for each in pair for at in each.began()):
        assert CLOCK.monotonic() - back < TAKEOVER_S
        time.sleep(0.05)
    time.sleep(2.0)
    assert len(turns(first, second)) <= 2


def test_a_new_leader_knows_the_row_its_predecessor_was_writing(
    postgres: Postgres, tmp_path: Path
) -> None:
    """The write that was out when its leader vanished is one whose outcome nobody knows."""
    first = Replica(postgres.url, "first", tmp_path / "first").start()
    first.writes_after(0.0, TAKEOVER_S)
    while True:
        first.process.send_signal(signal.SIGSTOP)
        if postgres.sql("SELECT writing FROM llmao.leader"):
            break
        first.process.send_signal(signal.SIGCONT)
        time.sleep(0.013)
    first.process.kill()
    first.process.wait()
    second = Replica(postgres.url, "second", tmp_path / "second").start()
    try:
        second.writes_after(0.0, TAKEOVER_S)
        line = second.notes.read_text().splitlines()[0]
        assert ["llmao-1", "127.0.0.2:8001", "unknown"] == line.split()[1:]
    finally:
        second.process.kill()
        second.process.wait()
