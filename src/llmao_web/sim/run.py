"""One seed from its beginning to its end: the world boots, lives, and must settle.

Rule of this file: the same seed and hours are the same run. A run ends at the first violation.
"""

import contextlib
import gc
import hashlib
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any

import structlog
from attrs import frozen

from llmao_core.reconcile import reconcile
from llmao_web.shell.loop import Reconcile

from .acts import Acts
from .director import Director
from .invariants import Judge
from .person import decide_all, operate
from .rivals import fight
from .virtual import VirtualLoop, play
from .world import Event, Violation, World

BOOT_S = (5.0, 20.0, 60.0)
LOOK_S = 10.0
# Of all calls, outside of bad weather.
BASE_RATE = 0.002
LONGEST_S = 3600.0
STILL_S = 200.0
# A world makes many small things; looking through them often is a tenth of the time.
_COLLECT = (50_000, 20, 50)


@frozen
class Result:
    """How one life ended. replay: the command that lives it again, exactly.

    at_s: how long it was. told: its events; story: the last ones of what was violated. orders,
    runs: how many writes llmao began, and how often it was started. digest: of all events.
    """

    replay: str
    violation: Violation | None
    at_s: float
    story: tuple[Event, ...]
    told: int
    orders: int
    runs: int
    digest: str


Life = Callable[[World, Acts, Judge], Awaitable[None]]


def run_seed(
    seed: int,
    hours: float,
    *,
    rule: Reconcile = reconcile,
    say: Callable[[Event], None] = lambda _event: None,
) -> Result:
    """Live one world for so many hours and let it settle; never raises for what llmao does.

    rule: stands in the place of reconcile. say: told every event as it happens.
    """

    async def life(world: World, acts: Acts, judge: Judge) -> None:
        begin(world, acts, judge)
        world.weather.base_rate = BASE_RATE
        await world.run(max(BOOT_S) * 2)
        world.spawn(operate(world, hours * 3600.0))
        if world.replicas.arbiter is not None:
            world.spawn(fight(acts, world.replicas.arbiter, hours * 3600.0))
        await Director(acts).direct(hours * 3600.0)
        await settle(world, acts, judge)

    return live(seed, life, f"llmao sim --seed {seed} --hours {hours:g}", rule=rule, say=say)


def live(
    seed: int,
    life: Life,
    replay: str,
    *,
    rule: Reconcile = reconcile,
    say: Callable[[Event], None] = lambda _event: None,
) -> Result:
    """Live one life in the world of a seed, and say how it ended."""
    loop = VirtualLoop()
    world = World(loop, seed, rule)
    world.say = say

    async def whole() -> None:
        try:
            await life(world, Acts(world), Judge(world))
        finally:
            await world.close()

    with llmao_logs(lambda said: _logged(world, said)), few_collections():
        play(whole(), loop)
    violation = world.violation
    lines = "\n".join(f"{one.at:.6f} {one.about} {one.what}" for one in world.told)
    return Result(
        replay=replay,
        violation=violation,
        at_s=world.seconds,
        story=tuple(world.story(violation.about)) if violation else (),
        told=len(world.told),
        orders=world.orders,
        runs=sum(each.runs for each in world.replicas.each),
        digest=hashlib.sha256(lines.encode()).hexdigest()[:16],
    )


def begin(world: World, acts: Acts, judge: Judge) -> None:
    """Start llmao, boot every box, and have the judge look on."""
    for llmao in world.replicas.each:
        llmao.start()
    for place, box in enumerate(world.ground.boxes):
        acts.boot(box, BOOT_S[place % len(BOOT_S)], after_s=2.0 * place)
    world.spawn(_look_on(world, judge))
    if judge.leading is not None:
        world.spawn(judge.leading.watch())


async def _look_on(world: World, judge: Judge) -> None:
    while world.violation is None:
        await world.run(LOOK_S)
        judge.look()


async def settle(world: World, acts: Acts, judge: Judge) -> None:
    """Let the world stand still: llmao comes to an end with it, and then does nothing more."""
    if world.violation is not None:
        return
    acts.calm()
    world.spawn(decide_all(world))
    end, orders, since = world.seconds + LONGEST_S, world.orders, world.seconds
    while world.seconds - since < STILL_S and world.violation is None:
        await world.run(LOOK_S)
        if world.orders != orders or acts.going_on or judge.unsettled():
            orders, since = world.orders, world.seconds
        if since > end:
            wrong = judge.unsettled() or [": it never comes to an end"]
            world.fail("settles", "; ".join(wrong), wrong[0].partition(": ")[0])


@contextlib.contextmanager
def few_collections() -> Iterator[None]:
    """Have the garbage collector look seldom."""
    before = gc.get_threshold()
    gc.set_threshold(*_COLLECT)
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextlib.contextmanager
def llmao_logs(heard: Callable[[MutableMapping[str, Any]], None]) -> Iterator[None]:
    """Hand every error that llmao logs to a function, and drop the rest of its log."""

    def drop(_logger: Any, _name: str, said: MutableMapping[str, Any]) -> Any:
        heard(said)
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(
        processors=[structlog.processors.add_log_level, drop],
        wrapper_class=structlog.make_filtering_bound_logger(40),
    )
    try:
        yield
    finally:
        structlog.configure(**before)


def _logged(world: World, said: MutableMapping[str, Any]) -> None:
    """Judge an error in llmao's log: nothing that the world does is llmao's own fault."""
    if said.get("event") in ("unexpected", "plugin failed", "pass failed") or "fault" in str(
        said.get("event")
    ):
        error = f"{said.get('event')}: {said.get('error')} {said.get('at', '')}"
        world.fail("no-fault-of-its-own", error)
