"""An admin who drains hosts and keys, and takes it back, at moments of their own.

Rule of this file: dice of their own, so that the rest of a seed's world happens as it did.
"""

from llmao_core.keys import Key
from llmao_web.shell.ledger import Entry, EntryKind

from .virtual import dice
from .world import World

BETWEEN_S = 400.0
HOST = 0.4


async def operate(world: World, until: float) -> None:
    """Drain something and take something back, at seeded moments, until a time."""
    chance = dice(world.seed, "drains")
    while world.seconds < until and world.violation is None:
        await world.run(chance.expovariate(1 / BETWEEN_S))
        boxes = [one for one in world.intended().deployments if not one.provider]
        drains, picked = world.drains, chance.choice(boxes)
        out = sorted(drains.drained.keys() | drains.unsure, key=str)
        if out and chance.random() < len(out) / (len(out) + 1):
            await drain(world, chance.choice(out), drained=False)
        else:
            named = picked.host if chance.random() < HOST else picked.key
            await drain(world, named, drained=True)


async def drain(world: World, what: str | Key, *, drained: bool) -> None:
    """Let an admin drain a host or key, or take it back."""
    host, key = ("", what) if isinstance(what, Key) else (what, None)
    kind = EntryKind.DRAINED if drained else EntryKind.UNDRAINED
    world.drains.unsure.add(what)
    if await world.front().keep(Entry(world.clock.now(), "admin", kind, host, key)):
        world.drains.acknowledged(what, world.seconds, drained=drained)
        world.tell(str(what), f"is {kind.value}, and that is acknowledged")
    else:
        world.tell(str(what), f"is {kind.value}, and nobody acknowledged it")


async def decide_all(world: World) -> None:
    """Take back what nobody knows of whether it is drained, until that is acknowledged."""
    while world.drains.unsure:
        await drain(world, min(world.drains.unsure, key=str), drained=False)
        await world.run(1.0)
