"""`llmao sim`: llmao in a simulated world where everything goes wrong, on virtual time.

Rule of this file: it chooses what is lived and prints how it ended; the world is in
`llmao_web.sim`. The exit code is 1 when an invariant did not hold.
"""

import os
from collections.abc import Callable, Iterator

import click
from attrs import define

from llmao_web.shell.clock import SystemClock
from llmao_web.sim.many import cases, quiet, seeds_of
from llmao_web.sim.run import Result
from llmao_web.sim.sweep import Case, run_case
from llmao_web.sim.world import Event

from .printing import clean, print_table


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
    default=2.0,
    show_default=True,
    type=click.FloatRange(0.01, 1000),
    help="How long each lives before it must settle, in virtual hours.",
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
@click.pass_context
def sim(
    ctx: click.Context,
    seed: int,
    seeds: int,
    hours: float,
    sweep: bool,
    case: str | None,
    jobs: int,
    verbose: bool,
) -> None:
    """Let llmao live in a simulated world where everything goes wrong.

    The same seed and hours are the same world, event for event.
    """
    say = _print if verbose else None
    if case is not None:
        lives = _one_case(case, say or quiet)
    elif sweep:
        lives = cases(jobs, say)
    else:
        jobs = min(jobs, seeds)
        lives = seeds_of(range(seed, seed + seeds), hours, jobs, say)
    if not _report(lives):
        ctx.exit(1)


def _one_case(name: str, say: Callable[[Event], None]) -> Iterator[Result]:
    try:
        found = Case.named(name)
    except LookupError:
        raise click.BadParameter(f"there is no case {name!r}", param_hint="--case") from None
    yield run_case(found, say=say)


@define
class _Sum:
    lives: int = 0
    seconds: float = 0.0
    events: int = 0
    writes: int = 0
    starts: int = 0
    violated: int = 0

    def add(self, result: Result) -> None:
        self.lives += 1
        self.seconds += result.at_s
        self.events += result.told
        self.writes += result.orders
        self.starts += result.runs
        self.violated += result.violation is not None


def _report(lives: Iterator[Result]) -> bool:
    """Print each violation as it is found, then the sum; tell whether there was none."""
    clock, total = SystemClock(), _Sum()
    began = clock.monotonic()
    for result in lives:
        total.add(result)
        if result.violation is not None:
            _print_violation(result)
    columns = ("lives", "virtual hours", "events", "writes", "starts", "violations", "seconds")
    hours, took_s = f"{total.seconds / 3600:.1f}", f"{clock.monotonic() - began:.1f}"
    row = (total.lives, hours, total.events, total.writes, total.starts, total.violated, took_s)
    print_table(columns, [row])
    return not total.violated


def _print_violation(result: Result) -> None:
    assert result.violation is not None
    click.secho(f"\n{clean(result.violation)}", fg="red", bold=True)
    click.echo(f"after {result.at_s:.0f} virtual seconds. What led to it:\n")
    for event in result.story:
        _print(event)
    click.echo(f"\nLive it again: {result.replay}\n")


def _print(event: Event) -> None:
    click.echo(f"{event.at:9.1f} s  {clean(event.about):<28}  {clean(event.what)}")
