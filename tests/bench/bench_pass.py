"""What a pass of `reconcile` costs, from 10 to 100 000 keys, beside a plain dict diff.

Rule of this file: the garbage collector is treated as the service treats it, for both contenders;
both get the same fleet in the same run, and nothing is read twice from a cache the service would
not have.

    python tests/bench/bench_pass.py [--quick]
"""

import argparse
import gc
import json
import math
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import frozen

from llmao_core.config import Config, FleetConfig, Host, HostRow, Model, Recipe
from llmao_core.draft import row_body
from llmao_core.history import History
from llmao_core.intended import Intended, build
from llmao_core.keys import normalise_base
from llmao_core.plan import Policy
from llmao_core.probes import (
    Counters,
    Identity,
    ProbeReport,
    Probes,
    Reply,
    ReplyKind,
    ServedModel,
    Target,
)
from llmao_core.reconcile import reconcile
from llmao_core.secret import Secret
from llmao_core.snapshots import (
    BoxStatus,
    Deployments,
    Endpoint,
    Instance,
    Listing,
    Reading,
    Row,
    Snapshot,
    Snapshots,
)
from llmao_web.commands.serve import GC_LIMITS
from llmao_web.shell.loop import uncollected

SIZES = (10, 100, 1_000, 10_000, 100_000)
ROWS_PER_HOST = 2
MODELS = 20
NEW_PART = 60  # a sweep takes 6 s, and a report wakes a pass about ten times a second
START = 1_000_000.0
MOST_RATIO = 5.0
MOST_EXPONENT = 1.05

_OK = Reply(ReplyKind.ANSWERED, 200)
_UNAUTHORIZED = Reply(ReplyKind.ANSWERED, 401)


@frozen
class Fleet:
    """A fleet at rest: everything serves and stands in LiteLLM."""

    intended: Intended
    rows: tuple[Row, ...]
    reports: Mapping[Target, ProbeReport]
    listing: Listing

    def at(self, now: float, reports: Mapping[Target, ProbeReport]) -> Snapshots:
        """Return what a pass looks at: the newest reports, and lists read at the full minute."""
        read_at = now - now % 60.0
        return Snapshots(
            intended=self.intended,
            inventories={"vast": Reading(60.0, Snapshot(read_at, self.listing))},
            probes=Probes(reports),
            deployments=Reading(60.0, Snapshot(read_at, Deployments(self.rows))),
        )


def make_fleet(keys: int) -> Fleet:
    """Return a fleet of so many keys, two to a host, on documentation addresses."""
    recipe = {"model": "org/model", "max_model_len": 32_768}
    models = tuple(
        Model(
            f"model-{number}",
            recipe=Recipe("org/model", max_model_len=32_768),
            model_info={"vllm": recipe, "access_groups": ["all"]},
        )
        for number in range(MODELS)
    )
    hosts = tuple(
        Host(
            f"c.{number}",
            tuple(
                HostRow(f"model-{(number + port) % MODELS}", 8001 + port, f"row-{port}")
                for port in range(min(ROWS_PER_HOST, keys - number * ROWS_PER_HOST))
            ),
        )
        for number in range(math.ceil(keys / ROWS_PER_HOST))
    )
    fleet = FleetConfig(vllm_api_salt=(Secret("a salt of the benchmark"),), hosts=hosts)
    intended = build(Config(fleet=fleet, models=models))
    instances = {host.name: _instance(number, host) for number, host in enumerate(hosts)}
    rows, reports = [], {}
    for one in intended.deployments:
        endpoint = instances[one.host].endpoints[one.listen_port]
        url = normalise_base(f"http://{endpoint.host}:{endpoint.port}")
        body = row_body(one, one.body, url, one.litellm_id)
        info = dict(body.model_info)
        rows.append(
            Row(
                one.litellm_id, one.model, url, {**body.litellm_params, "api_base": body.api_base},
                info, url, info["llmao_key"], info["llmao_fleet"], info["llmao_hash"],
            )
        )  # fmt: skip
        identity = Identity(_UNAUTHORIZED, _OK, (ServedModel(one.served, "", 32_768),))
        counters = Counters(1, 1, 1, 0.1, 0, 0, 1, 100_000)
        reports[Target(url, one.bearer_id)] = ProbeReport(START, 0.01, _OK, identity, _OK, counters)
    return Fleet(intended, tuple(rows), reports, Listing(tuple(instances.values())))


def _instance(number: int, host: Host) -> Instance:
    address = f"203.0.{113 + number // 50_000}.{number % 250 + 1}"
    endpoints = {
        row.port: Endpoint("http", address, 10_000 + number // 250 * 8 + row.port % 8)
        for row in host.rows
    }
    return Instance(
        str(number), BoxStatus.UP, "running", names=(host.name,), addresses=(address,),
        endpoints=endpoints, gpu_name="H100", gpu_count=1, price_per_hour=2.0,
    )  # fmt: skip


# ---- the plain diff


def plain_diff(
    intended: Intended,
    listing: Listing,
    rows: Sequence[Row],
    reports: Mapping[Target, ProbeReport],
) -> tuple[list[Any], list[Any], list[str]]:
    """Return what to add, update and delete: every body that serves against the row of its id."""
    instances = {name: instance for instance in listing.instances for name in instance.names}
    wanted: dict[str, dict[str, Any]] = {}
    for one in intended.deployments:
        endpoint = instances[one.host].endpoints[one.listen_port]
        url = f"{endpoint.scheme}://{endpoint.host}:{endpoint.port}"
        report = reports.get(Target(url, one.bearer_id))
        if report is None or not report.health.ok:
            continue
        body = one.body
        wanted[one.litellm_id] = {
            "model_name": body.model_name,
            "litellm_params": {
                **body.litellm_params,
                "api_base": f"{url}/v1",
                "api_key": body.api_key.reveal() if body.api_key else None,
            },
            "model_info": {**body.model_info, "id": one.litellm_id, "asf_api_base": url},
        }
    found = {row.id: row for row in rows}
    adds, updates = [], []
    for litellm_id, want in wanted.items():
        row = found.get(litellm_id)
        if row is None:
            adds.append(want)
        elif _differs(want, row):
            updates.append(want)
    return adds, updates, [one for one in found if one not in wanted]


def _differs(body: Mapping[str, Any], row: Row) -> bool:
    if body["model_name"] != row.model_name:
        return True
    for name, value in body["litellm_params"].items():
        if name != "api_key" and row.params.get(name) != value:
            return True
    return any(row.info.get(name) != value for name, value in body["model_info"].items())


# ---- measuring


def timed(work: Callable[[], object], least: int, budget_s: float) -> tuple[float, float]:
    """Return best and median seconds of a call, repeated within a budget."""
    taken: list[float] = []
    while len(taken) < least or (sum(taken) < budget_s and len(taken) < 200):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return min(taken), statistics.median(taken)


@frozen
class Result:
    """Seconds, best and median, of each kind of pass and of the plain diff; memory in MB."""

    keys: int
    steady: tuple[float, float]
    worst: tuple[float, float]
    first: tuple[float, float]
    diff: tuple[float, float]
    peak_mb: float | None = None

    @property
    def ratio(self) -> float:
        """Return how many plain diffs a steady pass takes."""
        return self.steady[0] / self.diff[0]


class Bench:
    """One fleet, passed over again and again; each pass goes on from the one before."""

    def __init__(self, keys: int) -> None:
        self.fleet = make_fleet(keys)
        self.targets = list(self.fleet.reports)
        self.now, self.turn = START, 0
        self.reports = dict(self.fleet.reports)
        self.history = History()
        self.snapshots = self.fleet.at(self.now, self.reports)

    def first(self) -> None:
        """Make a pass right after a start: nothing is remembered, every report is new."""
        view, _, self.history = uncollected(
            reconcile, self.snapshots, History(), Policy(), self.now
        )
        assert len(view.records) == len(self.targets)

    def renew(self, parts: int) -> None:
        """Let one part of so many of the targets answer once more; not timed."""
        self.now += 6.0 / parts
        self.turn += 1
        for target in self.targets[self.turn % parts :: parts]:
            self.reports[target] = ProbeReport(self.now, 0.01, _OK)
        self.snapshots = self.fleet.at(self.now, dict(self.reports))

    def again(self) -> None:
        """Make one more pass; all is well, so there is nothing to do."""
        _, plan, self.history = uncollected(
            reconcile, self.snapshots, self.history, Policy(), self.now
        )
        assert not plan.actions

    def diff(self) -> None:
        """Diff the same fleet the plain way; there is nothing to do either."""
        fleet = self.fleet
        done = uncollected(plain_diff, fleet.intended, fleet.listing, fleet.rows, fleet.reports)
        assert done == (
            [],
            [],
            [],
        )

    def run(self, parts: int, least: int, budget_s: float) -> tuple[float, float]:
        """Return the seconds of passes with a part of the reports new."""
        taken: list[float] = []
        while len(taken) < least or (sum(taken) < budget_s and len(taken) < 200):
            self.renew(parts)
            began = time.process_time()
            self.again()
            taken.append(time.process_time() - began)
        return min(taken), statistics.median(taken)


def measure(keys: int, budget_s: float, *, memory: bool) -> Result:
    """Measure one size; the fleet itself is frozen, as the service freezes what it starts with."""
    bench = Bench(keys)
    gc.collect()
    gc.freeze()
    before = gc.get_threshold()
    gc.set_threshold(*GC_LIMITS)
    try:
        first = timed(bench.first, 2, budget_s)
        diff = timed(bench.diff, 3, budget_s)
        steady = bench.run(NEW_PART, 4, budget_s)
        worst = bench.run(1, 2, budget_s)
        again = timed(bench.diff, 3, budget_s)
        peak = _peak_mb(bench) if memory else None
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
    best = (min(diff[0], again[0]), min(diff[1], again[1]))
    return Result(keys, steady, worst, first, best, peak)


def _peak_mb(bench: Bench) -> float:
    bench.renew(NEW_PART)
    tracemalloc.start()
    bench.again()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def exponent(results: Sequence[Result], took: Callable[[Result], float], least: int = 0) -> float:
    """Return the slope of time over keys on logarithmic axes, from so many keys up."""
    points = [(math.log(one.keys), math.log(took(one))) for one in results if one.keys >= least]
    return statistics.linear_regression(*zip(*points, strict=True)).slope


def _pass_s(one: Result) -> float:
    return one.steady[0]


def _diff_s(one: Result) -> float:
    return one.diff[0]


def show(results: Sequence[Result]) -> None:
    """Print a table for people and one line for machines."""
    print("     keys  steady ms (median)    worst ms    first ms     diff ms   ratio  peak MB")
    for one in results:
        peak = f"{one.peak_mb:8.1f}" if one.peak_mb is not None else "       -"
        print(
            f"{one.keys:9d} {one.steady[0] * 1e3:10.2f} {one.steady[1] * 1e3:8.2f} "
            f"{one.worst[0] * 1e3:11.2f} {one.first[0] * 1e3:11.2f} {one.diff[0] * 1e3:11.2f} "
            f"{one.ratio:7.2f} {peak}"
        )
    slope = exponent(results, _pass_s)
    print(f"growth exponent: {slope:.3f} (at most {MOST_EXPONENT})")
    for name, took in (("a pass", _pass_s), ("the plain diff", _diff_s)):
        print(f"from 1 000 keys up, {name}: {exponent(results, took, 1_000):.3f}")
    largest = results[-1]
    print(f"ratio to the plain diff at {largest.keys} keys: {largest.ratio:.2f} ({MOST_RATIO})")
    rows = [
        {
            "keys": one.keys, "steady_s": one.steady, "worst_s": one.worst, "first_s": one.first,
            "diff_s": one.diff, "ratio": round(one.ratio, 3), "peak_mb": one.peak_mb,
        }
        for one in results
    ]  # fmt: skip
    print(json.dumps({"bench": "pass", "exponent": slope, "sizes": rows}))


def main() -> int:
    """Run all sizes, or the small ones; fail when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="up to 10 000 keys, about 10 s")
    quick = parser.parse_args().quick
    sizes = SIZES[:-1] if quick else SIZES
    results = [measure(keys, 0.3 if quick else 1.0, memory=not quick) for keys in sizes]
    show(results)
    good = results[-1].ratio <= MOST_RATIO and exponent(results, _pass_s) <= MOST_EXPONENT
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
