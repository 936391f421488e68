"""Capacity samples: rates between two reads of one server, and None for all that is unknown."""

import asyncio
from collections.abc import Iterable

import pytest
from attrs import evolve

from llmao_core.history import History, KeyHistory, Seen
from llmao_core.keys import box_key
from llmao_core.plan import Plan
from llmao_core.probes import Counters, Target
from llmao_core.records import Kind, Lifecycle, Record, SignalKind, View
from llmao_core.testing.clock import VirtualClock
from llmao_web.shell.board import Board, Concluded
from llmao_web.shell.capacity import CapacitySampler
from llmao_web.shell.store import MemoryStore, Sample

URL = "http://127.0.0.2:40001"
KEY = box_key("127.0.0.2", 8001, "tiny")
IDLE = Counters(1000, 100, 10, 0.25, 3, 2, first_tokens=20, first_token_s=10.0)
BUSY = Counters(1600, 160, 14, 0.5, 4, 0, first_tokens=24, first_token_s=12.0)


class Minutes:
    """A board whose one server is read just before each minute ends."""

    def __init__(self, leads: bool = True) -> None:
        self.clock = VirtualClock()
        self.board = Board(self.clock)
        self.store = MemoryStore()
        self.sampler = CapacitySampler(self.board, self.store, self.clock, lambda: leads)

    def show(self, counters: Counters | None, at: float, url: str = URL) -> None:
        """Have the last pass know what was read at this time."""
        seen = Seen(at, SignalKind.OK, counters=counters, metrics_at=at)
        history = History(keys={KEY: KeyHistory(seen={Target(url, "bearer"): seen})})
        record = Record(KEY, Kind.INTENDED, Lifecycle.HEALTHY, dialable=url, instance_id="7")
        self.board.conclude(Concluded(View(at, (record,)), Plan(), 0), history)

    async def minute(
        self, counters: Counters | None, age_s: float = 5.0, url: str = URL
    ) -> Sample | None:
        """Let a minute pass in which this was read, and return the sample kept of it."""
        await self.clock.advance(60.0)
        now = self.clock.now()
        self.show(counters, now - age_s, url)
        await self.sampler.sample()
        kept = await self.store.capacity(KEY, now)
        return kept[0] if kept else None


class FullDisk(MemoryStore):
    """A store that cannot keep the first samples it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.full = True

    async def sample(self, samples: Iterable[Sample]) -> None:
        if self.full:
            self.full = False
            raise OSError("no space left")
        await super().sample(samples)


async def test_counters_become_rates() -> None:
    """600 tokens in 60 s are 10 a second; 4 requests that waited 2 s together waited 0.5 s each."""
    world = Minutes()
    first = await world.minute(IDLE)
    second = await world.minute(BUSY)
    assert first is not None
    assert (3, 2, 0.25, None, None) == _figures(first)
    assert second is not None
    assert (4, 0, 0.5, 10.0, 0.5) == _figures(second)
    assert (KEY, world.clock.now(), 60.0) == (second.key, second.at, second.over_s)


def _figures(sample: Sample) -> tuple[float | None, ...]:
    return (
        sample.running,
        sample.waiting,
        sample.kv_used,
        sample.tokens_per_s,
        sample.first_token_s,
    )


@pytest.mark.parametrize(
    "after",
    [evolve(BUSY, generated=1.0), evolve(BUSY, prompt=1.0), evolve(BUSY, finished=1.0)],
)
async def test_each_counter_shows_a_reset(after: Counters) -> None:
    """One that fell is enough, however much the others grew."""
    world = Minutes()
    await world.minute(IDLE)
    reset = await world.minute(after)
    assert reset is not None
    assert (None, None) == (reset.tokens_per_s, reset.first_token_s)


async def test_waits_that_do_not_add_up_are_unknown() -> None:
    """Fewer first tokens than before, or less waiting for more of them, is no mean."""
    for odd in (evolve(BUSY, first_tokens=19.0), evolve(BUSY, first_token_s=9.0)):
        world = Minutes()
        await world.minute(IDLE)
        sample = await world.minute(odd)
        assert sample is not None
        assert (10.0, None) == (sample.tokens_per_s, sample.first_token_s)


async def test_a_reset_is_no_rate() -> None:
    """A server that began to count anew has no rate for that minute, and one for the next."""
    world = Minutes()
    await world.minute(BUSY)
    reset = await world.minute(IDLE)
    after = await world.minute(BUSY)
    assert reset is not None
    assert (None, None) == (reset.tokens_per_s, reset.first_token_s)
    assert after is not None
    assert 10.0 == after.tokens_per_s


async def test_another_server_at_the_key_is_no_rate() -> None:
    """Counters of two servers are never compared, even when they only grew."""
    world = Minutes()
    await world.minute(IDLE)
    moved = await world.minute(BUSY, url="http://127.0.0.2:40002")
    assert moved is not None
    assert moved.tokens_per_s is None


async def test_what_was_not_read_is_not_sampled() -> None:
    """Old counters make no sample, and the next rate is not spread over the gap."""
    world = Minutes()
    await world.minute(IDLE)
    assert await world.minute(IDLE, age_s=61.0) is None
    assert await world.minute(None) is None
    after = await world.minute(BUSY)
    assert after is not None
    assert after.tokens_per_s is None


async def test_no_first_token_is_no_wait() -> None:
    """A minute in which no request had its first token, or a vLLM that does not say, is None."""
    world = Minutes()
    await world.minute(IDLE)
    silent = await world.minute(evolve(IDLE, generated=1060))
    mute = await world.minute(evolve(BUSY, first_token_s=None))
    assert silent is not None
    assert (1.0, None) == (silent.tokens_per_s, silent.first_token_s)
    assert mute is not None
    assert mute.first_token_s is None


async def test_only_the_leader_keeps_samples() -> None:
    """A follower counts along and writes nothing."""
    world = Minutes(leads=False)
    assert await world.minute(IDLE) is None


async def test_a_store_that_fails_stops_nothing() -> None:
    """The next minute is sampled all the same."""
    world, store = Minutes(), FullDisk()
    running = asyncio.create_task(CapacitySampler(world.board, store, world.clock).run())
    for counters in (IDLE, BUSY):
        world.show(counters, world.clock.now() + 30)
        await world.clock.advance(60.0)
    running.cancel()
    assert [10.0] == [each.tokens_per_s for each in await store.capacity(KEY, 0.0)]
