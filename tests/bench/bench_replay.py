"""What a journal costs and how fast it replays: a fleet of 1 000 keys, probed every 15 s.

Rule of this file: the world, the journal and the replay are the real ones on a clock that jumps;
what is measured is processor seconds of one process, and bytes on disk. A pass every 3 s, as a
live llmao makes: some while the reports of a sweep come in, one on the slow tick, one for each
read.

    python -m tests.bench.bench_replay [--minutes N]
"""

import argparse
import gc
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from random import Random  # noqa: TID251 - seeded, so that every run is the same

from attrs import define, evolve, frozen
from tests.core.small_world import Litellm, World

from llmao_core.config import JournalConfig
from llmao_core.intended import build
from llmao_core.plan import Policy
from llmao_core.probes import Counters, Identity, ProbeReport, Reply, ReplyKind, ServedModel
from llmao_core.records import ProbeSpec
from llmao_core.snapshots import Health, Reading, Row, Snapshot
from llmao_web.shell.journal import Keeper
from llmao_web.shell.journal_file import Damage
from llmao_web.shell.journal_reader import passes
from llmao_web.shell.journal_record import Pass
from llmao_web.shell.loop import uncollected
from llmao_web.shell.replaying import compare, everywhere, replay, stretches

from .bench_pass import make_fleet

KEYS = 1000
START = 1_800_000_000.0
SWEEP_S = 15.0
TICK_S = 3.0
DEAD_EVERY_S, DEAD_S = 60.0, 120.0
DAY_S = 86_400.0
GOAL_SPEED = 200
_OK = Reply(ReplyKind.ANSWERED, 200)
_UNAUTHORIZED = Reply(ReplyKind.ANSWERED, 401)
_REFUSED = Reply(ReplyKind.REFUSED)


class Proxy(Litellm):
    """LiteLLM, whose every answer is parsed anew."""

    def read(self, now: float, *, lagging: bool) -> tuple[Row, ...]:
        """Return what one worker lists, in objects of their own."""
        return tuple(
            evolve(row, params=dict(row.params), info=dict(row.info))
            for row in super().read(now, lagging=lagging)
        )


@define
class Recorded(World):
    """A world whose passes are kept."""

    keeper: Keeper | None = None
    passes: int = 0
    recording_s: float = 0.0

    def _pass(self) -> None:
        looked, before = self.snapshots, self.history
        uncollected(super()._pass)
        one = Pass(self.now, looked, self.policy, before, self.view, self.plan, self.history)
        assert self.keeper is not None
        began = time.process_time()
        self.keeper.keep(one, after_gap=False)
        self.recording_s += time.process_time() - began
        self.passes += 1


class Fleet:
    """Servers that are busy with real work; every minute another one is dead for two."""

    def __init__(self, keeper: Keeper) -> None:
        fleet = make_fleet(KEYS)
        config = fleet.intended.config
        config = evolve(config, fleet=evolve(config.fleet, health_interval_s=SWEEP_S))
        self._chance = Random(1)
        self._bases = {target.base: place for place, target in enumerate(fleet.reports)}
        self._tokens = [0.0] * KEYS
        health = Reading(60.0, Snapshot(START, Health()))
        snapshots = evolve(fleet.at(START, {}), intended=build(config), health=health)
        self.world = Recorded(
            snapshots, Policy(), START, self._probe, self._check, lambda spec: True,
            litellm=Proxy(), tick_s=TICK_S, keeper=keeper,
        )  # fmt: skip
        self.world.litellm.rows.update({row.id: row for row in fleet.rows})

    def _dead(self, base: str) -> bool:
        place, now = self._bases[base], self.world.now - START
        began = (place * 7 % KEYS) * DEAD_EVERY_S
        return began <= now < began + DEAD_S

    def _check(self, row: Row) -> bool:
        return not self._dead(row.base)

    def _probe(self, spec: ProbeSpec, now: float) -> ProbeReport:
        chance = self._chance
        began, took_s = now - chance.random(), 0.005 + chance.random() / 50
        if self._dead(spec.target.base):
            return ProbeReport(began, took_s, _REFUSED)
        place = self._bases[spec.target.base]
        self._tokens[place] += chance.randrange(20_000)
        done = self._tokens[place]
        running = float(chance.randrange(8))
        counters = Counters(
            done,
            done * 3,
            done // 300,
            round(chance.random(), 4),
            running,
            0.0,
            done // 300,
            100_000,
        )
        identity = None
        if spec.identity:
            served = (ServedModel(spec.served, "org/model", 32_768),)
            identity = Identity(_UNAUTHORIZED, _OK, served)
        return ProbeReport(began, took_s, _OK, identity, _OK, counters)


@frozen
class Result:
    """passes: recorded. bytes: on disk. *_s: processor seconds of this process.

    wall_s: of a comparison by all processors, as `llmao replay --against` makes it.
    """

    minutes: float
    passes: int
    bytes: int
    recording_s: float
    reading_s: float
    replaying_s: float
    comparing_s: float
    wall_s: float
    differing: int

    def speed(self, taken_s: float) -> int:
        """Return how many times faster than real time that is."""
        return round(self.minutes * 60 / taken_s)

    def show(self) -> None:
        """Print it for people, and one line for machines."""
        per_pass = 1e3 / self.passes
        day = DAY_S / (self.minutes * 60)
        told = {
            "bench": "replay",
            "keys": KEYS,
            "minutes": self.minutes,
            "passes": self.passes,
            "record_ms": round(self.recording_s * per_pass, 2),
            "read_ms": round(self.reading_s * per_pass, 2),
            "views_ms": round(self.replaying_s * per_pass, 2),
            "compare_ms": round(self.comparing_s * per_pass, 2),
            "mb_per_day": round(self.bytes * day / 1e6, 1),
            "views_times_real_time": self.speed(self.replaying_s),
            "compare_times_real_time": self.speed(self.comparing_s),
            "processors": os.cpu_count(),
            "all_times_real_time": self.speed(self.wall_s),
            "goal_times": GOAL_SPEED,
            "differing": self.differing,
        }
        for name, value in told.items():
            print(f"{name:16} {value}")
        print(json.dumps(told))


def record(folder: Path, minutes: float) -> tuple[int, float]:
    """Let a fleet live; return its passes, and the seconds it took to keep them."""
    keeper = Keeper(folder, JournalConfig())
    world = Fleet(keeper).world
    world.run(minutes * 60)
    keeper.close()
    assert keeper.trouble is None, keeper.trouble
    return world.passes, world.recording_s


def measure(folder: Path, minutes: float) -> Result:
    """Record and replay; every pass must come out as it was."""
    made, recording_s = record(folder, minutes)
    size = sum(path.stat().st_size for path in folder.iterdir())
    gc.collect()
    gc.freeze()
    began = time.process_time()
    told = sum(not isinstance(one, Damage) for one in passes(folder))
    reading_s = time.process_time() - began
    began = time.process_time()
    views = sum(not isinstance(one, Damage) and one.identical for one in replay(passes(folder)))
    replaying_s = time.process_time() - began
    began = time.process_time()
    compared = list(map(compare, stretches(folder)))
    comparing_s = time.process_time() - began
    began = time.perf_counter()
    again = list(everywhere(folder))
    wall_s = time.perf_counter() - began
    assert made == told == views == sum(one.passes for one in compared)
    assert compared == again
    differing = sum(len(one.differing) + one.worded + len(one.damages) for one in compared)
    return Result(
        minutes, made, size, recording_s, reading_s, replaying_s, comparing_s, wall_s, differing
    )


def main() -> int:
    """Measure; fail when a pass differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="of the fleet's life")
    minutes = parser.parse_args().minutes
    with tempfile.TemporaryDirectory() as folder:
        result = measure(Path(folder), minutes)
    result.show()
    return 1 if result.differing else 0


if __name__ == "__main__":
    sys.exit(main())
