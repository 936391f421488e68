"""How long a sweep over a whole fleet takes, and what each HTTP transport costs.

    python tests/bench/bench_probes.py [--targets 2000]

Fake vLLMs on loopback sockets, in a process of their own, 1 % of them hanging. Prints a table
and one JSON line. Fails when a sweep of the whole fleet takes longer than its time-out + 2 s;
the first sweep, four requests to each where later ones make one, is shown beside that.
"""

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress

import httpx
import uvloop
from attrs import frozen

from llmao_core.probes import ReplyKind, Target
from llmao_core.records import ProbeSpec
from llmao_core.secret import Secret
from llmao_core.testing.fake_vllm import FakeVLLM, Mode
from llmao_web.commands.serve import tune
from llmao_web.shell.clock import SystemClock
from llmao_web.shell.probe import CONCURRENCY, Prober
from llmao_web.shell.probe_http import new_transport

TIMEOUT_S = 3.0
ALLOWED_S = TIMEOUT_S + 2.0
LIMIT_S = 120.0
COMPARED_HOSTS = 500
BEARER = Secret("sk-vllm-bench")
CLOCK = SystemClock()


@frozen
class Sweep:
    """One sweep. cpu_s: of the probing process. wrong: targets not reported as they are."""

    transport: str
    what: str
    targets: int
    took_s: float
    cpu_s: float
    wrong: int


def raise_descriptor_limit() -> int:
    """Raise the soft limit to the hard one and return it."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


# ---- the fleet, in its own process


async def serve(count: int, hanging: int) -> None:
    """Serve until standard input ends; say first where."""
    raise_descriptor_limit()
    fakes = [
        FakeVLLM(
            CLOCK.now,
            BEARER,
            address=f"127.0.{index // 250}.{2 + index % 250}",
            mode=Mode.HANGS if index < hanging else Mode.SERVES,
        )
        for index in range(count)
    ]
    for fake in fakes:
        await fake.start()
    print(json.dumps([fake.base for fake in fakes]), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    for fake in fakes:
        await fake.stop()


class Fleet:
    """A fleet that ends with its `with` block, or with this process."""

    def __init__(self, count: int, hanging: int) -> None:
        self.hanging = hanging
        command = [sys.executable, __file__, "--serve", str(count), "--hanging", str(hanging)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.bases: list[str] = json.loads(self._process.stdout.readline())

    def __enter__(self) -> "Fleet":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=30)


# ---- the sweeps


def specs(bases: list[str], due_at: float, everything: bool) -> tuple[ProbeSpec, ...]:
    return tuple(
        ProbeSpec(
            Target(base, "bench"), BEARER, "tiny", "chat", due_at,
            identity=everything, metrics=everything,
        )
        for base in bases
    )  # fmt: skip


async def sweep(
    transport: str,
    make: Callable[[], httpx.AsyncBaseTransport],
    fleet: Fleet,
    sweeps: tuple[str, ...],
) -> list[Sweep]:
    """Run sweeps one after the other with one client; the first fills its pool."""
    done = asyncio.Event()
    due_at = 0.0

    def landed() -> None:
        reports = prober.probes().reports
        if len(reports) == len(fleet.bases) and all(
            report.probed_at >= due_at for report in reports.values()
        ):
            done.set()

    left = 0

    def count() -> None:
        nonlocal left
        left -= 1
        if left <= 0:
            landed()

    prober = Prober(CLOCK, make, count, TIMEOUT_S, 20.0, concurrency=CONCURRENCY)
    running = asyncio.create_task(prober.run())
    results = []
    for what in sweeps:
        done.clear()
        left, due_at = len(fleet.bases), CLOCK.now()
        started, cpu = time.perf_counter(), time.process_time()
        prober.aim(specs(fleet.bases, due_at, what == "all steps"))
        async with asyncio.timeout(LIMIT_S):
            await done.wait()
        took_s, cpu_s = time.perf_counter() - started, time.process_time() - cpu
        wrong = count_wrong(prober, fleet)
        results.append(Sweep(transport, what, len(fleet.bases), took_s, cpu_s, wrong))
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    return results


def count_wrong(prober: Prober, fleet: Fleet) -> int:
    reports = prober.probes().reports
    wrong = 0
    for index, base in enumerate(fleet.bases):
        kind = reports[Target(base, "bench")].health.kind
        expected = ReplyKind.TIMED_OUT if index < fleet.hanging else ReplyKind.ANSWERED
        wrong += kind is not expected
    return wrong


def httpx_pool(kept: int | None) -> Callable[[], httpx.AsyncBaseTransport]:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=kept)
    return lambda: httpx.AsyncHTTPTransport(limits=limits, trust_env=False)


TRANSPORTS = {
    "httpx, keeps all": httpx_pool(None),
    "httpx, keeps 20": httpx_pool(20),
    "httpx, keeps none": httpx_pool(0),
    "httpx over aiohttp": new_transport,
}


async def measure(targets: int) -> list[Sweep]:
    results = []
    with Fleet(COMPARED_HOSTS, 0) as fleet:
        for name, make in TRANSPORTS.items():
            results += await sweep(name, make, fleet, ("all steps", "health", "health"))
    with Fleet(targets, targets // 100) as fleet:
        name = "httpx over aiohttp"
        results += await sweep(name, new_transport, fleet, ("all steps", "health", "health"))
    return results


async def measure_aim(targets: int) -> float:
    """Return the milliseconds of one `aim` at the whole fleet."""
    prober = Prober(CLOCK, new_transport, lambda: None, TIMEOUT_S, 20.0)
    bases = [f"http://127.0.0.2:{port}" for port in range(targets)]
    rounds = [specs(bases, float(number), everything=True) for number in range(10)]
    started = time.perf_counter()
    for aimed in rounds:
        prober.aim(aimed)
    return (time.perf_counter() - started) / len(rounds) * 1000


def report(results: list[Sweep], aim_ms: float, descriptors: int) -> bool:
    """Print it all and return whether every sweep of the whole fleet was in time."""
    print(f"{'transport':<20} {'sweep':<10} {'targets':>7} {'s':>7} {'cpu s':>7} {'wrong':>6}")
    for one in results:
        print(
            f"{one.transport:<20} {one.what:<10} {one.targets:>7} {one.took_s:>7.2f} "
            f"{one.cpu_s:>7.2f} {one.wrong:>6}"
        )
    compared = {
        name: sum(one.took_s for one in results[index * 3 : index * 3 + 3])
        for index, name in enumerate(TRANSPORTS)
    }
    ours = compared["httpx over aiohttp"]
    ratios = {name: round(took_s / ours, 2) for name, took_s in compared.items()}
    whole = results[len(TRANSPORTS) * 3 :]
    slowest_s = max(one.took_s for one in whole if one.what == "health")
    in_time = slowest_s <= ALLOWED_S and not any(one.wrong for one in whole)
    summary = {
        "targets": whole[0].targets,
        "first_sweep_s": round(whole[0].took_s, 2),
        "slowest_sweep_s": round(slowest_s, 2),
        "allowed_s": ALLOWED_S,
        "aim_ms": round(aim_ms, 2),
        "ratio_at_500_hosts": ratios,
        "descriptors": descriptors,
        "in_time": in_time,
    }
    print(json.dumps(summary))
    return in_time


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--targets", type=int, default=2000)
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--hanging", type=int, default=0, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve is not None:
        asyncio.run(serve(arguments.serve, arguments.hanging))
        return
    descriptors = raise_descriptor_limit()
    tune()
    results = uvloop.run(measure(arguments.targets))
    aim_ms = asyncio.run(measure_aim(arguments.targets))
    sys.exit(not report(results, aim_ms, descriptors))


if __name__ == "__main__":
    main()
