"""`llmao sim`: llmao in a simulated world where everything goes wrong, on virtual time.

Rule of this file: it chooses what is lived and prints how it ended; the world is in
`llmao_web.sim`. The exit code is 1 when an invariant did not hold.
"""

import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import click
from attrs import define, field

from llmao_web.shell.clock import SystemClock
from llmao_web.sim.many import cases, quiet, seeds_of
from llmao_web.sim.run import Result
from llmao_web.sim.sweep import Case, run_case
from llmao_web.sim.world import Event

from .common import json_option
from .printing import clean, print_table

_HOURS = 2.0
_MOST_HOURS = 1000


@click.command()
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0), help="The world.")
@click.option(
    "--seeds",
    default=1,
    show_default=True,
    type=click.IntRange(1, 1_000_000),
    help="How many worlds, from --seed on.",
)
@click.option(
    "--hours",
    show_default=f"{_HOURS:g}",
    type=click.FloatRange(0.01, _MOST_HOURS),
    help="How long each lives before it must settle, in virtual hours.",
)
@click.option(
    "--days",
    type=click.FloatRange(0.001, _MOST_HOURS // 24),
    help="The same in virtual days, instead of --hours.",
)
@click.option("--sweep", is_flag=True, help="Live every case of the three Sieve families.")
@click.option("--case", metavar="NAME", help="Live one case of a sweep, as a failure names it.")
@click.option(
    "--jobs",
    default=os.cpu_count() or 1,
    show_default="one for each core",
    type=click.IntRange(1, 1024),
    help="How many processes live worlds at once.",
)
@click.option("-v", "--verbose", is_flag=True, help="Print every event; one process does it all.")
@json_option
@click.pass_context
def sim(
    ctx: click.Context,
    seed: int,
    seeds: int,
    hours: float | None,
    days: float | None,
    sweep: bool,
    case: str | None,
    jobs: int,
    verbose: bool,
    as_json: bool,
) -> None:
    """Let llmao live in a simulated world where everything goes wrong.

    The same seed and hours are the same world, event for event.
    """
    if hours is not None and days is not None:
        raise click.UsageError("--hours and --days exclude each other.")
    if verbose and as_json:
        raise click.UsageError("--verbose and --json exclude each other.")
    say = _print if verbose else None
    if case is not None:
        lives = _one_case(case, say or quiet)
    elif sweep:
        lives = cases(jobs, say)
    else:
        jobs = min(jobs, seeds)
        lives = seeds_of(range(seed, seed + seeds), _long(hours, days), jobs, say)
    total = _lived(lives, silent=as_json)
    if as_json:
        click.echo(json.dumps(total.as_json(), indent=2))
    else:
        _print_sum(total)
    if total.violated:
        ctx.exit(1)


def _long(hours: float | None, days: float | None) -> float:
    """Return how long a life is, in hours."""
    if days is not None:
        return days * 24
    return _HOURS if hours is None else hours


def _one_case(name: str, say: Callable[[Event], None]) -> Iterator[Result]:
    try:
        found = Case.named(name)
    except LookupError:
        raise click.BadParameter(f"there is no case {name!r}", param_hint="--case") from None
    yield run_case(found, say=say)


@define
class _Sum:
    """What was lived. took_s: on the clock of this machine; lived_s: on the virtual one."""

    took_s: float = 0.0
    lives: int = 0
    lived_s: float = 0.0
    events: int = 0
    writes: int = 0
    starts: int = 0
    violated: list[Result] = field(factory=list)

    def add(self, result: Result) -> None:
        self.lives += 1
        self.lived_s += result.at_s
        self.events += result.told
        self.writes += result.orders
        self.starts += result.runs
        if result.violation is not None:
            self.violated.append(result)

    def as_json(self) -> dict[str, Any]:
        told = attrs.asdict(self, recurse=False)
        return {**told, "violated": [_violation_json(each) for each in self.violated]}


def _lived(lives: Iterator[Result], *, silent: bool) -> _Sum:
    """Return the sum of all lives, and print each violation as it is found unless silent."""
    clock, total = SystemClock(), _Sum()
    began = clock.monotonic()
    for result in lives:
        total.add(result)
        if result.violation is not None and not silent:
            _print_violation(result)
    total.took_s = clock.monotonic() - began
    return total


def _print_sum(total: _Sum) -> None:
    columns = ("lives", "virtual hours", "events", "writes", "starts", "violations", "seconds")
    hours, took_s = f"{total.lived_s / 3600:.1f}", f"{total.took_s:.1f}"
    counts = (total.events, total.writes, total.starts, len(total.violated))
    print_table(columns, [(total.lives, hours, *counts, took_s)])


def _violation_json(result: Result) -> dict[str, Any]:
    story = [{"at": each.at, "about": each.about, "what": each.what} for each in result.story]
    return {
        "what": str(result.violation),
        "at_s": result.at_s,
        "replay": result.replay,
        "story": story,
    }


def _print_violation(result: Result) -> None:
    assert result.violation is not None
    click.secho(f"\n{clean(result.violation)}", fg="red", bold=True)
    click.echo(f"after {result.at_s:.0f} virtual seconds. What led to it:\n")
    for event in result.story:
        _print(event)
    click.echo(f"\nLive it again: {result.replay}\n")


def _print(event: Event) -> None:
    click.echo(f"{event.at:9.1f} s  {clean(event.about):<28}  {clean(event.what)}")
