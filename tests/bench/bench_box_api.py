"""How fast `GET /vllm/config` is, next to a bare Litestar and a bare FastAPI handler.

Run by hand: `python -m tests.bench.bench_box_api`. Servers and the load client are processes of
their own on loopback; rounds are interleaved and the best of each pair counts, so that a busy
machine disturbs all alike. Prints a table and one line of JSON.
"""

import argparse
import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import uvloop
from attrs import asdict, evolve, frozen

from .box_apps import APPS, BOXES, KEY, RECONCILING, SERVERS, host_of, serve

RATE = 200
TARGET = 0.8
MOST_P99_MS = 50.0


@frozen
class Load:
    """What the client saw, and what it cost the server.

    per_s: good answers per second. cpu_us: processor time of the server for each of them, which
    a busy machine hardly disturbs.
    """

    per_s: int
    p50_ms: float
    p99_ms: float
    errors: int
    asked: int
    cpu_us: float = 0.0


# ---- the load


def _request(port: int, host: str) -> bytes:
    return (
        f"GET /vllm/config HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        f"Authorization: Bearer {KEY}\r\nX-LLMAO-Host: {host}\r\n"
        "X-LLMAO-Revision: r1-00\r\n\r\n"
    ).encode()


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> bool:
    writer.write(request)
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
    await reader.readexactly(length)
    return head.startswith(b"http/1.1 200")


async def _keep_asking(port: int, host: str, until: float, took: list[float]) -> int:
    errors = 0
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    request = _request(port, host)
    while (began := time.perf_counter()) < until:
        good = await _ask(reader, writer, request)
        errors += not good
        took.append(time.perf_counter() - began)
    writer.close()
    return errors


async def steady(port: int, connections: int, seconds: float, host: str = "") -> Load:
    """Ask over some connections, each as fast as it is answered."""
    took: list[float] = []
    until = time.perf_counter() + seconds
    hosts = [host or host_of(box) for box in range(connections)]
    asking = [_keep_asking(port, each, until, took) for each in hosts]
    errors = sum(await asyncio.gather(*asking))
    return _load(took, seconds, errors)


async def paced(port: int, connections: int, seconds: float, host: str) -> Load:
    """Ask RATE times a second; what counts is the time from when a request was meant to go."""
    took: list[float] = []
    began = time.perf_counter()

    async def ask(number: int) -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        errors, request = 0, _request(port, host)
        for turn in range(number, int(seconds * RATE), connections):
            meant = began + turn / RATE
            await asyncio.sleep(meant - time.perf_counter())
            errors += not await _ask(reader, writer, request)
            took.append(time.perf_counter() - meant)
        writer.close()
        return errors

    errors = sum(await asyncio.gather(*map(ask, range(connections))))
    return _load(took, time.perf_counter() - began, errors)


async def burst(port: int, *_: object) -> Load:
    """Let 500 boxes boot within one second, each over a connection of its own."""
    took: list[float] = []
    began = time.perf_counter()
    asked = [_boot(port, box, took) for box in range(BOXES)]
    good = await asyncio.gather(*asked, return_exceptions=True)
    errors = sum(each is not True for each in good)
    return _load(took, time.perf_counter() - began, errors)


async def _boot(port: int, box: int, took: list[float]) -> bool:
    await asyncio.sleep(box / BOXES)
    began = time.perf_counter()
    async with asyncio.timeout(10):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        good = await _ask(reader, writer, _request(port, host_of(box)))
    writer.close()
    took.append(time.perf_counter() - began)
    return good


def _load(took: list[float], seconds: float, errors: int) -> Load:
    took.sort()
    at = [took[min(int(len(took) * part), len(took) - 1)] * 1000 for part in (0.5, 0.99)]
    per_s = round((len(took) - errors) / seconds)
    return Load(per_s, round(at[0], 2), round(at[1], 2), errors, len(took))


ASKS: dict[str, Callable[..., Coroutine[Any, Any, Load]]] = {
    "steady": steady,
    "paced": paced,
    "burst": burst,
}

# ---- the run


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _me(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "tests.bench.bench_box_api", *arguments]


@contextmanager
def running(app: str, server: str) -> Iterator[tuple[int, psutil.Process]]:
    """Run one application under one server; give its port and process."""
    port = _free_port()
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            _me("--serve", app, "--server", server, "--port", str(port)), stdout=log, stderr=log
        )
        try:
            _wait_for(port, process)
            yield port, psutil.Process(process.pid)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    for _ in range(300):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            if process.poll() is not None:
                raise RuntimeError("the server ended by itself") from None
            time.sleep(0.05)
        else:
            return
    raise RuntimeError("the server did not start")


def measured(port: int, process: psutil.Process, *arguments: str) -> Load:
    """Run the client in a process of its own, and look what the server spends meanwhile."""
    before = process.cpu_times()
    answer = subprocess.run(
        _me("--client", "--port", str(port), *arguments),
        check=True,
        capture_output=True,
        timeout=60,
    )
    load = Load(**json.loads(answer.stdout))
    after = process.cpu_times()
    spent_s = after.user + after.system - before.user - before.system
    return evolve(load, cpu_us=round(spent_s / load.asked * 1e6, 1))


def run(seconds: float, connections: int, rounds: int) -> dict[str, Any]:
    """Measure every pair in every round, and the boot of 500 boxes."""
    best: dict[tuple[str, str], Load] = {}
    asking = ("--connections", str(connections), "--seconds")
    for _ in range(rounds):
        for server in SERVERS:
            for app in APPS:
                with running(app, server) as (port, process):
                    measured(port, process, *asking, "0.5")
                    seen = measured(port, process, *asking, str(seconds))
                best[server, app] = _better(best.get((server, app)), seen)
    boots = {}
    for server in SERVERS:
        with running("llmao", server) as (port, process):
            boots[server] = measured(port, process, "--ask", "burst")
    return _report(best, boots | while_reconciling(seconds), connections)


def while_reconciling(seconds: float) -> dict[str, Load]:
    """Measure a box's answer in a process that reconciles 2 000 deployments, under uvicorn."""
    asking = ("--box", "c.7", "--seconds", str(seconds * 3), "--ask")
    with running(RECONCILING, "uvicorn") as (port, process):
        measured(port, process, *asking, "paced")
        return {how: measured(port, process, *asking, how) for how in ("paced", "steady")}


def _better(before: Load | None, seen: Load) -> Load:
    """Return the faster round, with the errors of both and the lower cost."""
    if before is None:
        return seen
    faster = max(before, seen, key=lambda load: load.per_s)
    return evolve(
        faster, errors=before.errors + seen.errors, cpu_us=min(before.cpu_us, seen.cpu_us)
    )


def _report(
    best: dict[tuple[str, str], Load], boots: dict[str, Load], connections: int
) -> dict[str, Any]:
    lines = {f"{server:8} {app:10}": each for (server, app), each in best.items()}
    lines |= {f"{what:8} 500 boots": each for what, each in boots.items() if what in SERVERS}
    lines |= {f"reconciling, {what}": each for what, each in boots.items() if what in ASKS}
    print(f"{'':20}{'per s':>8}{'p50 ms':>8}{'p99 ms':>8}{'cpu us':>8}{'errors':>8}")
    for name, each in lines.items():
        print(
            f"{name:20}{each.per_s:8}{each.p50_ms:8}{each.p99_ms:8}{each.cpu_us:8}{each.errors:8}"
        )
    per_s = {
        server: round(best[server, "llmao"].per_s / best[server, "litestar"].per_s, 2)
        for server in SERVERS
    }
    cpu = {
        server: round(best[server, "litestar"].cpu_us / best[server, "llmao"].cpu_us, 2)
        for server in SERVERS
    }
    errors = sum(each.errors for each in lines.values())
    return {
        "bench": "box_api",
        "cpus": os.cpu_count(),
        "connections": connections,
        "steady": {f"{server}/{app}": asdict(each) for (server, app), each in best.items()},
        "boots": {server: asdict(boots[server]) for server in SERVERS},
        "reconciling": {how: asdict(boots[how]) for how in ("paced", "steady")},
        "llmao_over_litestar": {"per_s": per_s, "cpu": cpu},
        "target": TARGET,
        "load": os.getloadavg()[0],
        "met": cpu["uvicorn"] >= TARGET and boots["paced"].p99_ms < MOST_P99_MS and not errors,
    }


def main() -> None:
    """Run the whole, or one of the processes it starts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--connections", type=int, default=32, choices=range(1, BOXES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--serve", choices=(*APPS, RECONCILING), help=argparse.SUPPRESS)
    parser.add_argument("--server", choices=SERVERS, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--client", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--ask", choices=ASKS, default="steady", help=argparse.SUPPRESS)
    parser.add_argument("--box", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        uvloop.run(serve(given.serve, given.server, given.port))
    elif given.client:
        asked = (given.port, given.connections, min(given.seconds, 30), given.box)
        print(json.dumps(asdict(uvloop.run(ASKS[given.ask](*asked)))))
    else:
        print(json.dumps(run(given.seconds, given.connections, given.rounds)))


if __name__ == "__main__":
    main()
