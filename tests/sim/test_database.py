"""llmao in the simulation over the real store: what it kept is there, wherever it was killed."""

from collections.abc import Awaitable, Callable

import pytest

from llmao_web.shell.ledger import Entry, EntryKind
from llmao_web.sim.acts import Acts
from llmao_web.sim.database import File
from llmao_web.sim.fleet import BY_ADDRESS
from llmao_web.sim.invariants import Judge
from llmao_web.sim.person import drain
from llmao_web.sim.run import Result, begin, live, run_seed
from llmao_web.sim.world import World

SEED = 4
READ_S = 5.0
Life = Callable[[World], Awaitable[None]]


def lived(life: Life) -> Result:
    """Live a life in a world whose store is a file."""

    async def begun(world: World, acts: Acts, judge: Judge) -> None:
        assert isinstance(world.replicas.disk, File)
        begin(world, acts, judge)
        await world.run(READ_S)
        await life(world)

    return live(SEED, begun, "")


def known(world: World) -> frozenset[str]:
    """Return the hosts that llmao knows to be drained."""
    service = world.llmao.service
    assert service is not None
    intended = service.board.intended()
    assert intended is not None
    return intended.labels.drained_hosts


def drained(world: World) -> Entry:
    return Entry(world.clock.now(), "admin", EntryKind.DRAINED, BY_ADDRESS)


async def killed_at(world: World, step: str) -> bool:
    """Have a drain kept and llmao killed at a step of it; tell whether it was acknowledged."""
    world.llmao.at_step = lambda name: name == step
    acknowledged = await world.llmao.keep(drained(world))
    assert world.llmao.service is None
    world.llmao.at_step = lambda _name: False
    world.llmao.start()
    await world.run(READ_S)
    return acknowledged


@pytest.mark.parametrize(
    ("step", "kept"),
    [
        ("store INSERT INTO entries, before", set()),
        ("store COMMIT, before", set()),
        ("store COMMIT, kept", {BY_ADDRESS}),
    ],
)
def test_what_was_committed_and_nothing_else_is_there(step: str, kept: set[str]) -> None:
    """Killed on either side of the commit, llmao finds what it committed, acknowledged or not."""
    found: list[tuple[bool, frozenset[str]]] = []

    async def life(world: World) -> None:
        found.append((await killed_at(world, step), known(world)))

    assert lived(life).violation is None
    assert [(False, frozenset(kept))] == found


def test_the_newest_decision_stands_after_a_kill() -> None:
    """What was drained and taken back is not drained for the llmao that is started again."""

    async def life(world: World) -> None:
        await drain(world, BY_ADDRESS, drained=True)
        await drain(world, BY_ADDRESS, drained=False)
        world.llmao.kill()
        world.llmao.start()
        await world.run(3 * READ_S)

    result = lived(life)
    assert result.violation is None, result.violation


def test_a_full_disk_refuses_a_deed_and_loses_none() -> None:
    """SQLite's own error is a refusal; with room again the next deed is kept, over a kill."""
    told: list[bool] = []

    async def life(world: World) -> None:
        world.replicas.disk.full = True
        told.append(await world.llmao.keep(drained(world)))
        world.replicas.disk.full = False
        told.append(await world.llmao.keep(drained(world)))
        world.llmao.kill()
        world.llmao.start()
        await world.run(READ_S)
        assert {BY_ADDRESS} == known(world)

    assert lived(life).violation is None
    assert [False, True] == told


def test_a_kill_leaves_the_log_of_writes_as_it_was() -> None:
    """The next llmao recovers what lies beside the file, as after `kill -9`."""

    async def life(world: World) -> None:
        disk = world.replicas.disk
        assert isinstance(disk, File)
        world.llmao.kill()
        assert 0 < len(disk.left()["llmao.db-wal"])
        assert [] == disk.lines

    assert lived(life).violation is None


def test_a_short_life_over_the_real_store() -> None:
    """A life of some minutes holds every invariant."""
    result = run_seed(SEED, 0.15)
    assert result.violation is None, result.violation
    assert 6 <= result.orders
