"""Many lives, in as many processes as there are cores.

Rule of this file: a life is the same in whichever process it is lived; results come in order.
"""

import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import TypeVar

from .run import Result, run_seed
from .sweep import all_cases, run_case
from .world import Event

T = TypeVar("T")
Say = Callable[[Event], None] | None


def seeds_of(seeds: Iterable[int], hours: float, jobs: int, say: Say = None) -> Iterator[Result]:
    """Yield how the world of each seed ended. say: told every event, in one process then."""
    return _each(partial(run_seed, hours=hours), seeds, jobs, say)


def cases(jobs: int, say: Say = None) -> Iterator[Result]:
    """Yield how each case of the three sweeps ended."""
    return _each(run_case, all_cases(), jobs, say)


def quiet(_event: Event) -> None:
    """Tell nobody."""


def _each(live: Callable[..., Result], what: Iterable[T], jobs: int, say: Say) -> Iterator[Result]:
    if say is not None or jobs == 1:
        yield from (live(each, say=say or quiet) for each in what)
        return
    # Started afresh, so that no process inherits another's event loop.
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=fresh) as pool:
        yield from pool.map(live, what)
