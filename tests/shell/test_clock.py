"""Time as a thing: what sleeps wakes in order, and what takes too long is cut off."""

import asyncio

import pytest
from attrs import evolve
from structlog.testing import capture_logs

from llmao_core.config import Config, FleetConfig
from llmao_core.records import ProbeSpec
from llmao_core.testing.clock import VirtualClock
from llmao_web.shell.clock import Steady, SystemClock, deadline, wait_for_any
from llmao_web.shell.probe import Prober
from llmao_web.shell.probing import Probing


async def test_sleepers_wake_in_order(clock: VirtualClock) -> None:
    """By time, then by arrival, each seeing its own time; nothing wakes before."""
    woken: list[tuple[str, float]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((name, clock.monotonic()))

    sleeps = {"c": 3.0, "a": 1.0, "b": 1.0}
    async with asyncio.TaskGroup() as group:
        for name, seconds in sleeps.items():
            group.create_task(sleeper(name, seconds))
        await clock.advance(0.5)
        assert [] == woken
        await clock.advance(9.5)
    assert [("a", 1.0), ("b", 1.0), ("c", 3.0)] == woken


async def test_until_says_when_nobody_sleeps(clock: VirtualClock) -> None:
    """A condition that cannot come true any more ends the test instead of hanging it."""
    with pytest.raises(AssertionError, match="nobody sleeps"):
        await clock.until(lambda: False)


async def test_a_deadline_cuts_off(clock: VirtualClock) -> None:
    """By the clock it was given; who is in time, and whatever it raises, is left alone."""

    async def work(seconds: float) -> str:
        async with deadline(clock, 5.0):
            await clock.sleep(seconds)
            return "done"

    late, early = asyncio.create_task(work(6.0)), asyncio.create_task(work(4.0))
    await clock.advance(5.0)
    assert "done" == await early
    with pytest.raises(TimeoutError):
        await late
    with pytest.raises(KeyError):
        async with deadline(clock, 5.0):
            raise KeyError


async def test_waiting_leaves_nothing_behind(clock: VirtualClock) -> None:
    """Whichever comes first ends it, and the tasks of the others are gone."""
    before, event = asyncio.all_tasks(), asyncio.Event()
    waiting = asyncio.create_task(wait_for_any(clock, 60.0, event, asyncio.Event()))
    await clock.settle()
    event.set()
    await waiting
    await clock.settle()
    assert before == asyncio.all_tasks()
    assert 0.0 == clock.monotonic()


def test_chance_is_bounded() -> None:
    """Jitter is from nothing to what was asked for."""
    clock = SystemClock()
    assert all(0.0 <= clock.jitter(2.0) <= 2.0 for _ in range(100))


# ---- the prober, by the clock


class Scripted(Prober):
    """A prober that probes nothing, and fails when told to."""

    made: "list[Scripted]" = []  # noqa: RUF012
    fail = False

    def __init__(self, *parts: object, log: object) -> None:
        self.limits = parts[3:]
        self.specs: tuple[ProbeSpec, ...] | None = None
        self.running = 0
        Scripted.made.append(self)

    def aim(self, specs: tuple[ProbeSpec, ...]) -> None:
        self.specs = specs

    async def run(self) -> None:
        if Scripted.fail:
            Scripted.fail = False
            raise ZeroDivisionError
        self.running += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.running -= 1


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> type[Scripted]:
    monkeypatch.setattr("llmao_web.shell.probing.Prober", Scripted)
    Scripted.made, Scripted.fail = [], False
    return Scripted


async def test_other_time_limits_are_another_prober(
    clock: VirtualClock, scripted: type[Scripted]
) -> None:
    """A reload that changes a time-out replaces it, aimed the same; another reload does not."""
    config = Config()
    probing = Probing(config, clock, lambda: None)
    task = asyncio.create_task(probing.run())
    probing.aim(())
    await clock.settle()
    probing.apply(evolve(config, fleet=FleetConfig(name="other")))
    await clock.settle()
    assert 1 == len(scripted.made)
    probing.apply(evolve(config, fleet=FleetConfig(health_timeout_s=1.0)))
    await clock.settle()
    old, new = scripted.made
    assert (0, 1) == (old.running, new.running)
    assert ((1.0, 20), ()) == (new.limits, new.specs)
    task.cancel()
    await asyncio.wait([task])
    assert 0 == new.running


async def test_a_prober_that_fails_is_started_again(
    clock: VirtualClock, scripted: type[Scripted]
) -> None:
    """Its bug costs a second of probes and a line in the log, not llmao."""
    scripted.fail = True
    probing = Probing(Config(), clock, lambda: None)
    with capture_logs() as logs:
        task = asyncio.create_task(probing.run())
        await clock.advance(1.5)
    assert 1 == scripted.made[0].running
    assert ["prober"] == [line["source"] for line in logs]
    task.cancel()
    await asyncio.wait([task])


def test_time_never_goes_back() -> None:
    """Set forward it follows at once; set back it runs at half speed until it is met again."""
    wall, passed = 1000.0, 0.0
    steady = Steady(lambda: wall, lambda: passed)

    def after(seconds: float, step: float = 0.0) -> float:
        nonlocal wall, passed
        wall, passed = wall + seconds + step, passed + seconds
        return steady.now()

    assert 1010.0 == after(10)
    assert 1120.0 == after(10, step=100)
    assert 1120.0 == after(0, step=-60)
    assert 1125.0 == after(10)
    assert 1170.0 == after(90)
    assert 1180.0 == after(20)
    assert wall == after(10)
    assert wall == after(10)
