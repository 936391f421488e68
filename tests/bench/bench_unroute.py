"""How long a dead box keeps its route, and a ready one waits for it, in a fleet of 500.

    python -m tests.bench.bench_unroute [--quick]

Rule of this file: three processes on loopback. The boxes are one, llmao as it is served is
another, so that only llmao is measured; LiteLLM and whoever breaks the boxes are this one. A
trial ends when the row leaves, or enters, the proxy's own database. Every other box must keep
its row. Prints a table and one line of JSON; fails when a figure is missed.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import uvloop
from attrs import asdict, define, field, frozen

from llmao_core.config import FleetConfig
from llmao_core.intended import Deployment
from llmao_core.testing.fake_vllm import Mode
from llmao_litellm.fake_traffic import Dialler

from .unroute_world import (
    CLOCK,
    QUICK,
    WHOLE,
    Proxy,
    Scale,
    configuration,
    deployments,
    plant,
    run_boxes,
    run_llmao,
)

STARTS_WITHIN_S = 90.0
PATIENCE_S = 150.0
MISSED = float("inf")


@frozen
class Fault:
    """One kind of trial. ends: the row goes, or else comes. within_s: what is asked of p99."""

    name: str
    before: Mode
    after: Mode
    within_s: float
    ends: bool = True


def faults(config: FleetConfig) -> tuple[Fault, ...]:
    """Return the kinds of trials, and what the specification allows each."""
    silent_s, sweep_s = config.canary.silent_s, config.health_interval_s
    return (
        Fault("killed", Mode.SERVES, Mode.REFUSES, 10.0),
        Fault("hung", Mode.SERVES, Mode.HANGS, 30.0),
        Fault("frozen", Mode.SERVES, Mode.FROZEN, silent_s + 35.0),
        Fault("ready", Mode.LOADING, Mode.SERVES, sweep_s + 1.0, ends=False),
    )


# ---- the trials


@define
class Stage:
    """Everything that runs. took: seconds of each trial by kind, MISSED when it never ended."""

    scale: Scale
    proxy: Proxy
    told: list[Deployment]
    boxes: asyncio.subprocess.Process
    llmao: psutil.Process
    log: Path
    took: dict[str, list[float]] = field(factory=dict)

    def set_mode(self, box: int, mode: Mode) -> None:
        """Break or mend a box."""
        assert self.boxes.stdin is not None
        self.boxes.stdin.write(f"{box} {mode.name}\n".encode())

    async def trial(self, fault: Fault, box: int) -> None:
        """Do it to one box, take the time, and mend it."""
        row_id, began = self.told[box].litellm_id, CLOCK.monotonic()
        self.set_mode(box, fault.after)
        seconds = MISSED
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self.proxy.until(row_id, there=not fault.ends)
            seconds = CLOCK.monotonic() - began
        except TimeoutError:
            pass
        self.took.setdefault(fault.name, []).append(seconds)
        self.set_mode(box, Mode.SERVES)

    async def all_trials(self, kinds: tuple[Fault, ...]) -> None:
        """Begin a trial every `gap_s`, one kind after the other, each on a box of its own."""
        async with asyncio.TaskGroup() as group:
            for number in range(self.scale.trials * len(kinds)):
                group.create_task(self.trial(kinds[number % len(kinds)], number))
                await CLOCK.sleep(self.scale.gap_s)

    async def watch_busy(self, boxes: range) -> None:
        """Have some boxes answer slowly, their counters moving, for long enough."""
        for box in boxes:
            self.set_mode(box, Mode.SLOW)
        await CLOCK.sleep(self.scale.busy_s)

    async def settle(self) -> None:
        """Wait until llmao has seen every box once and has nothing left to do."""
        async with asyncio.timeout(STARTS_WITHIN_S):
            while not any(self._rested(line) for line in passes(self.log)):
                await CLOCK.sleep(0.5)
        await CLOCK.sleep(self.scale.settle_s)

    def _rested(self, line: Mapping[str, Any]) -> bool:
        up = line["lifecycles"].get("Healthy", 0)
        return bool(up == len(self.proxy.db)) and not line["runs"]


def passes(log: Path) -> list[Mapping[str, Any]]:
    """Return what llmao's log says of its passes."""
    with log.open() as lines:
        whole = (json.loads(line) for line in lines if line.endswith("}\n"))
        return [line for line in whole if line.get("event") == "pass"]


@asynccontextmanager
async def staged(scale: Scale, waiting: set[int]) -> AsyncIterator[Stage]:
    """Start all three; boxes in `waiting` load and have no row yet."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    async with AsyncExitStack() as open_:
        http = await open_.enter_async_context(httpx.AsyncClient(trust_env=False, limits=limits))
        log = Path(open_.enter_context(tempfile.TemporaryDirectory())) / "llmao.log"
        proxy, told = Proxy(Dialler(http)), deployments(scale)
        plant(proxy, (each for box, each in enumerate(told) if box not in waiting))
        url = await open_.enter_async_context(proxy.serve())
        boxes = await open_.enter_async_context(_child("--boxes", scale))
        assert boxes.stdout is not None
        await boxes.stdout.readline()
        out = open_.enter_context(log.open("wb"))
        llmao = await open_.enter_async_context(_child("--llmao", scale, url, stdout=out))
        stage = Stage(scale, proxy, told, boxes, psutil.Process(llmao.pid), log)
        for box in waiting:
            stage.set_mode(box, Mode.LOADING)
        yield stage


@asynccontextmanager
async def _child(
    role: str, scale: Scale, *arguments: str, stdout: Any = asyncio.subprocess.PIPE
) -> AsyncIterator[asyncio.subprocess.Process]:
    quick = ("--quick",) if scale is QUICK else ()
    command = ("-m", "tests.bench.bench_unroute", role, *arguments, *quick)
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, stdin=asyncio.subprocess.PIPE, stdout=stdout
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        try:
            async with asyncio.timeout(20):
                await process.wait()
        except TimeoutError:
            process.kill()


# ---- the run


@frozen
class Rest:
    """What llmao costs while nothing happens: CPU seconds a minute, memory, pass times."""

    cpu_s_per_min: float
    rss_mb: float
    passes: int
    pass_p50_ms: float
    pass_max_ms: float


async def at_rest(stage: Stage) -> Rest:
    """Look at llmao for a while."""
    before, seen = stage.llmao.cpu_times(), len(passes(stage.log))
    await CLOCK.sleep(stage.scale.rest_s)
    after = stage.llmao.cpu_times()
    spent_s = after.user + after.system - before.user - before.system
    took = sorted(line["seconds"] * 1000 for line in passes(stage.log)[seen:])
    return Rest(
        cpu_s_per_min=round(spent_s * 60 / stage.scale.rest_s, 1),
        rss_mb=round(stage.llmao.memory_info().rss / 1e6),
        passes=len(took),
        pass_p50_ms=round(statistics.median(took), 1),
        pass_max_ms=round(took[-1], 1),
    )


def at(took: list[float], part: float) -> float:
    """Return a percentile: the smallest figure that so large a part does not exceed."""
    ordered = sorted(took)
    return round(ordered[min(int(len(ordered) * part), len(ordered) - 1)], 2)


async def run(scale: Scale) -> bool:
    """Run it all and tell whether every figure is met."""
    kinds = faults(configuration(scale, "").fleet)
    broken = scale.trials * len(kinds)
    waiting = {box for box in range(broken) if kinds[box % len(kinds)].before is Mode.LOADING}
    busy = range(broken, broken + scale.busy)
    assert busy.stop <= scale.boxes
    async with staged(scale, waiting) as stage:
        await stage.settle()
        rest = await at_rest(stage)
        stage.proxy.gone.clear()
        async with asyncio.TaskGroup() as group:
            group.create_task(stage.watch_busy(busy))
            group.create_task(stage.all_trials(kinds))
        wrongly = {each.litellm_id for each in stage.told[broken:]} & stage.proxy.gone
        return report(stage, kinds, rest, len(wrongly))


def report(stage: Stage, kinds: tuple[Fault, ...], rest: Rest, wrongly: int) -> bool:
    """Print it all and tell whether every figure is met."""
    print(f"{'':10}{'trials':>8}{'p50 s':>8}{'p99 s':>8}{'max s':>8}{'allowed':>9}")
    figures, met = {}, not wrongly
    for kind in kinds:
        took = stage.took[kind.name]
        p50, p99, most = at(took, 0.5), at(took, 0.99), at(took, 1.0)
        met = met and p99 <= kind.within_s
        figures[kind.name] = {"n": len(took), "p50_s": p50, "p99_s": p99, "max_s": most}
        print(f"{kind.name:10}{len(took):8}{p50:8}{p99:8}{most:8}{kind.within_s:9.0f}")
    print(f"rows removed that should have stayed, of busy and serving boxes: {wrongly}")
    print(
        f"at rest: {rest.cpu_s_per_min} CPU s a minute, {rest.rss_mb} MB,"
        f" pass {rest.pass_p50_ms} ms (longest {rest.pass_max_ms})"
    )
    load = psutil.getloadavg()[0]
    line = {
        "bench": "unroute",
        "boxes": stage.scale.boxes,
        **figures,
        "wrongly_removed": wrongly,
        "at_rest": asdict(rest),
        "load": load,
        "met": met,
    }
    print(json.dumps(line))
    return met


def main() -> int:
    """Run the whole, or one of the processes it starts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="50 boxes, a minute and a half")
    parser.add_argument("--boxes", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--llmao", help=argparse.SUPPRESS)
    given = parser.parse_args()
    scale = QUICK if given.quick else WHOLE
    if given.boxes:
        asyncio.run(run_boxes(scale))
        return 0
    if given.llmao:
        run_llmao(scale, given.llmao)
        return 0
    return 0 if uvloop.run(run(scale)) else 1


if __name__ == "__main__":
    sys.exit(main())
