"""Scenes in which machines, providers or configuration go wrong; a real proxy sees them, too.

Rule of this file: what is told is what is done. Numbers are their places in the story.
"""

from collections.abc import Callable, Iterable

from attrs import frozen

from llmao_core.secret import Secret
from llmao_core.testing.fake_vllm import Mode

from . import fleet
from .fleet import BY_ADDRESS, CHAT, EMBEDDING, PAIR, POD, SINGLE, SMALL
from .scene import ADMIN, BOXES, LOG, SOURCES, WORK, Scene, at_once, box, model
from .world import World


@frozen
class MachineScenes:
    """The scenes. reload: has the configuration read again, with a mistake unless told `True`."""

    world: World
    reload: Callable[[bool], None]

    def all(self) -> Iterable[Scene]:
        """Yield the scenes."""
        yield from self._moving()
        yield from self._failing()
        yield from self._last()

    def _moving(self) -> Iterable[Scene]:
        world = self.world
        yield Scene(
            1,
            f"{PAIR} port 8001 dies: its route goes, and comes back once it has proven itself.",
            (model(CHAT), WORK),
            at_once(lambda: world.become(PAIR, Mode.REFUSES)),
            at_once(lambda: world.become(PAIR, Mode.SERVES)),
            6,
        )
        yield Scene(
            3,
            f"{SINGLE} vanishes from Vast's listing, and a stranger answers at its address: llmao "
            "sends it no bearer and takes the route out.",
            (WORK, BOXES),
            lambda: world.vanish(SINGLE),
            self._vanished_returns,
            13,
        )
        yield Scene(
            4,
            f"Vast maps other public ports to {PAIR}, and a stranger has its old one: the routes "
            "follow once the servers answer there.",
            (box(PAIR), LOG),
            lambda: world.remap(PAIR, taken=True),
            world.rid,
            7,
        )
        yield Scene(
            4,
            f"{POD} port 8001 comes up with another model than it should.",
            (model(SMALL), WORK),
            lambda: world.restart(POD, mode=Mode.WRONG_MODEL),
            at_once(lambda: world.become(POD, Mode.SERVES)),
            8,
            f"Meanwhile {POD} port 8001 comes up with a wrong model.",
        )
        yield Scene(
            5,
            f"Two new boxes share the address {BY_ADDRESS} for a while: llmao takes neither until "
            "it is plain which is meant.",
            (BOXES, WORK),
            self._replace,
        )

    def _failing(self) -> Iterable[Scene]:
        yield Scene(
            5,
            f"{PAIR} port 8001 is so busy that it answers late, and is left alone. Port 8002 "
            "answers /health and does nothing any more: it is found out and taken out.",
            (box(PAIR), model(SMALL)),
            at_once(lambda: self._strain(Mode.SLOW, Mode.FROZEN)),
            at_once(lambda: self._strain(Mode.SERVES, Mode.SERVES)),
            14,
            f"Meanwhile {PAIR} port 8001 is busy and left alone; 8002 hangs and is taken out.",
        )
        yield Scene(
            7,
            "Vast's API answers 502, so nothing is concluded from it. Somebody asks with a wrong "
            "fleet key, and gets nothing.",
            (SOURCES, WORK),
            self._outage,
        )
        yield Scene(
            6,
            f"{SINGLE} still runs the bearer of the previous salt, and serves all the same.",
            (WORK, box(SINGLE)),
            lambda: self._salt(previous=True),
            lambda: self._salt(previous=False),
            7,
        )
        yield Scene(
            9,
            f"{PAIR} port 8002 restarts with a context far longer than its recipe says, and "
            f"{BY_ADDRESS} runs an older revision.",
            (model(SMALL), box(BY_ADDRESS)),
            lambda: self._restart_with(262_144, "r1-" + "0" * 32),
            lambda: self._restart_with(fleet.LENGTHS[SMALL], ""),
            5,
        )

    def _last(self) -> Iterable[Scene]:
        world = self.world
        yield Scene(
            13,
            f"Both servers of {PAIR} refuse our bearer at once: too large a part of the fleet, so "
            "the brake holds the removals.",
            (WORK, ADMIN),
            self._lock_out,
            at_once(lambda: self._strain(Mode.SERVES, Mode.SERVES)),
            9,
        )
        yield Scene(
            8,
            "The configuration is read again and has a mistake: the old one stays in force.",
            (WORK, ADMIN),
            at_once(lambda: self.reload(False)),
            at_once(lambda: self.reload(True)),
            8,
        )
        yield Scene(
            13,
            f"Vast says that both listen ports of {BY_ADDRESS} have the same public port.",
            (box(BY_ADDRESS), model(EMBEDDING)),
            self._share_port,
            lambda: world.remap(BY_ADDRESS),
            6,
            f"Meanwhile Vast names one public port for both listen ports of {BY_ADDRESS}.",
        )
        yield Scene(
            6,
            f"{BY_ADDRESS} announces that it restarts {EMBEDDING}: the route goes first.",
            (model(EMBEDDING), LOG),
            self._announced,
            brief=f"Meanwhile {BY_ADDRESS} announces a restart of {EMBEDDING}: its route goes.",
        )

    def _strain(self, first: Mode, second: Mode) -> None:
        self.world.become(PAIR, first, 8001)
        self.world.become(PAIR, second, 8002)

    async def _vanished_returns(self) -> None:
        await self.world.rid()
        await self.world.list_again(SINGLE)

    async def _replace(self) -> None:
        twin = await self.world.replace(BY_ADDRESS)
        await self.world.stage.clock.sleep(6)
        twin.provider.destroy(twin.instance)

    async def _lock_out(self) -> None:
        self._strain(Mode.LOADING, Mode.LOADING)
        await self.world.stage.clock.sleep(1.5)
        self._strain(Mode.WRONG_KEY, Mode.WRONG_KEY)

    async def _outage(self) -> None:
        self.world.stage.providers["vast"].go_wrong("gateway", times=3)
        await self.world.boxes[fleet.UNASKED].report(key=Secret("a-key-of-another-fleet"))

    async def _salt(self, *, previous: bool) -> None:
        if (server := self.world.server(SINGLE)) is not None:
            server.bearer = self.world.bearer(SINGLE, previous=previous)
            await self.world.restart(SINGLE)

    async def _restart_with(self, max_model_len: int, revision: str) -> None:
        if (server := self.world.server(PAIR, 8002)) is not None:
            server.max_model_len = max_model_len
        await self.world.boxes[BY_ADDRESS].report(revision)
        await self.world.restart(PAIR, 8002, down_s=3.0)

    async def _share_port(self) -> None:
        # The scene before ends with a row of the same box.
        await self.world.stage.clock.sleep(4)
        one = self.world.boxes[BY_ADDRESS]
        public = one.public(8001)
        one.provider.remap(one.instance, {8001: public, 8002: public})

    async def _announced(self) -> None:
        one = self.world.boxes[BY_ADDRESS]
        if 8002 in one.told:
            await one.announce(8002)
            await self.world.stage.clock.sleep(2)
            await self.world.restart(BY_ADDRESS, 8002)
