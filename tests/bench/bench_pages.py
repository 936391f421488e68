"""What `/models` costs the server with 1 000 deployments, for admins and callers, and live.

Rule of this file: views and plans are those of the real reconcile, one deployment in ten down;
what is measured is the CPU time of a request through the whole application, and the garbage
collector is set as the service sets it.

    python -m tests.bench.bench_pages [--quick]
"""

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import httpx
from attrs import define, evolve, field

from llmao_core.box_config import BoxAnswer
from llmao_core.config import Config
from llmao_core.intended import Intended
from llmao_core.plan import Plan, Policy
from llmao_core.probes import Probes, Reply, ReplyKind, Target
from llmao_core.protocol import BoxEvent
from llmao_core.reconcile import reconcile
from llmao_core.records import View
from llmao_web.app import create_app
from llmao_web.commands.serve import tune
from llmao_web.desk import Clock
from llmao_web.pages.live import _encoded
from llmao_web.pages.models import ModelsPages
from llmao_web.pages.render import Renderer
from llmao_web.pages.sheet import change
from llmao_web.shell.clock import SystemClock
from llmao_web.shell.probe_log import Probed

from .bench_pass import Bench

KEYS = 1000
MOST_MS = 100.0
ROUNDS = 15
DOWN_PART = 10
SWEEP_S = 6.0
_REFUSED = Reply(ReplyKind.REFUSED)


@define
class Fleet:
    """A desk over a fleet that a real pass has just looked at, one part of it down."""

    bench: Bench
    seen: View
    planned: Plan

    @classmethod
    def of(cls, keys: int) -> "Fleet":
        """Return a fleet after enough passes that what is down is known to be."""
        fleet = cls(Bench(keys), View(0.0), Plan())
        for _ in range(5):
            fleet.sweep(1)
        return fleet

    def sweep(self, parts: int) -> None:
        """Probe one part of so many of the targets, and pass."""
        bench = self.bench
        bench.renew(parts)
        for target in bench.targets[::DOWN_PART]:
            report = bench.reports[target]
            bench.reports[target] = evolve(report, health=_REFUSED, metrics=_REFUSED)
        snapshots = evolve(bench.snapshots, probes=Probes(dict(bench.reports)))
        self.seen, self.planned, bench.history = reconcile(
            snapshots, bench.history, Policy(), bench.now
        )

    def config(self) -> Config:
        """Return what the fleet was made of."""
        return self.bench.fleet.intended.config

    def intended(self) -> Intended | None:
        return self.bench.fleet.intended

    def answer(self, host: str) -> BoxAnswer | None:
        return None

    def note(self, event: BoxEvent) -> None:
        """Take no note."""

    def view(self) -> View | None:
        return self.seen

    def plan(self) -> Plan | None:
        return self.planned

    def ready(self) -> tuple[bool, tuple[str, ...]]:
        return True, ()

    def probed(self, target: Target) -> tuple[Probed, ...]:
        return ()


def troubled_app(keys: int) -> Any:
    """Return the application over such a fleet, to be looked at."""
    fleet = Fleet.of(keys)
    return create_app(fleet, fleet.config(), _At(fleet.bench.now + 1.0))


@define
class _At:
    """A clock at the time of the fleet, which goes on from there."""

    start: float
    clock: Clock = field(factory=SystemClock)
    began: float = 0.0

    def __attrs_post_init__(self) -> None:
        self.began = self.clock.monotonic()

    def now(self) -> float:
        return self.start + self.clock.monotonic() - self.began

    def monotonic(self) -> float:
        return self.clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self.clock.sleep(seconds)


def best_ms(taken: list[float]) -> tuple[float, float]:
    """Return median and worst, in milliseconds."""
    return statistics.median(taken) * 1e3, max(taken) * 1e3


async def requests(path: str, before: Callable[[Fleet], object], rounds: int) -> dict[str, Any]:
    """Return how long a request takes, something being done to the fleet before each."""
    fleet = Fleet.of(KEYS)
    app: Any = create_app(fleet, fleet.config(), _At(fleet.bench.now))
    transport = httpx.ASGITransport(app)
    taken, size = [], 0
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        for turn in range(rounds + 1):
            before(fleet)
            began = time.process_time()
            answer = await client.get(path)
            if turn:
                taken.append(time.process_time() - began)
            assert 200 == answer.status_code, answer.text[:300]
            size = len(answer.content)
    median, worst = best_ms(taken)
    return {"ms": round(median, 1), "worst_ms": round(worst, 1), "kB": size // 1000}


def first(rounds: int) -> dict[str, Any]:
    """Return how long the first page of a process takes, nothing kept yet."""
    fleet = Fleet.of(KEYS)
    clock, taken = _At(fleet.bench.now), []
    for _ in range(rounds):
        renderer = Renderer("bench", clock)
        pages = ModelsPages(fleet, clock, renderer, "main")
        began = time.process_time()
        pages.made(admin=True)
        taken.append(time.process_time() - began)
    median, worst = best_ms(taken)
    return {"ms": round(median, 1), "worst_ms": round(worst, 1)}


def live(rounds: int) -> dict[str, Any]:
    """Return what one second of a live page costs, and how much is sent of it."""
    fleet = Fleet.of(KEYS)
    clock = _At(fleet.bench.now)
    pages = ModelsPages(fleet, clock, Renderer("bench", clock), "main")
    before, taken, sizes = pages.made(admin=True).sheet, [], []
    for _ in range(rounds):
        fleet.sweep(round(SWEEP_S))
        began = time.process_time()
        after = pages.made(admin=True).sheet
        moved = change(before, after)
        assert moved is not None
        sizes.append(len(_encoded(moved, "token")))
        taken.append(time.process_time() - began)
        before = after
    median, worst = best_ms(taken)
    size = statistics.median(sizes) / 1000
    return {"ms": round(median, 1), "worst_ms": round(worst, 1), "kB": round(size, 1)}


def main() -> int:
    """Measure each kind of look; fail when one takes longer than it may."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few rounds of each")
    tune()
    rounds = 4 if parser.parse_args().quick else ROUNDS

    def sweep(fleet: Fleet) -> None:
        fleet.sweep(1)

    def nothing(_: Fleet) -> None:
        """Leave the pass as it is."""

    results = {
        "first page of a process": first(max(rounds // 3, 2)),
        "admins, after a sweep": asyncio.run(requests("/models", sweep, rounds)),
        "admins, same pass": asyncio.run(requests("/models", nothing, rounds)),
        "callers, after a sweep": asyncio.run(requests("/models?as=caller", sweep, rounds)),
        "live, one second": live(rounds),
    }
    for name, one in results.items():
        size = f"{one['kB']:9} kB" if "kB" in one else ""
        print(f"{name:28s} {one['ms']:8.1f} ms  worst {one['worst_ms']:8.1f} ms {size}")
    print(json.dumps({"bench": "pages", "keys": KEYS, **results}))
    # The first page of a process renders every line; it is shown, and not held to the limit.
    late = [name for name, one in list(results.items())[1:] if one["ms"] > MOST_MS]
    if late:
        print(f"over {MOST_MS:.0f} ms: {', '.join(late)}")
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
