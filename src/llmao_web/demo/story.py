"""The story of the demo: scenes in which something breaks and is mended, told one by one.

Rule of this file: a scene begins every few seconds and may last into the next ones; each concerns
servers that those around it leave alone. Two minutes later it begins anew.
"""

import asyncio
from collections.abc import Callable

from attrs import define, field

from llmao_web.pages.tour import Step, Tour

from .by_hand import Hand
from .fleet import POD
from .scene import BEAT_S, BOXES, MODELS, Scene
from .scenes_machines import MachineScenes
from .scenes_proxy import ProxyScenes
from .world import World

BOOT_S = 9.0
OPENING = Step(
    "Boxes rented at Vast and RunPod boot: each asks llmao what to serve, and loads. A route "
    "follows once a server has proven that it works.",
    (MODELS, BOXES),
)


@define
class Story:
    """Tells the scenes. say: told what happens, one sentence each."""

    world: World
    tour: Tour
    say: Callable[[str], None]
    reload: Callable[[bool], None]
    _under_way: set[asyncio.Task[None]] = field(factory=set)

    async def run(self, minutes: float) -> None:
        """Let every box boot, then play the scenes one after the other until the time is up."""
        clock = self.world.stage.clock
        until = clock.monotonic() + minutes * 60
        await self.world.begin()
        await self._told(OPENING, BOOT_S, until)
        self.world.crowd(POD, 8002)
        scenes = list(MachineScenes(self.world, self.reload).all())
        if self.world.litellm is not None:
            hand = Hand(self.world, self.world.litellm)
            hand.begin()
            scenes += ProxyScenes(self.world, hand).all()
        while True:
            for scene in sorted(scenes, key=lambda each: each.number):
                if clock.monotonic() >= until:
                    self.say(f"{minutes:g} minutes are over: the demo ends.")
                    return
                self._begin(scene)
                await self._told(Step(scene.said, scene.places), BEAT_S, until)

    async def close(self) -> None:
        """Drop what is under way and switch everything off."""
        for task in list(self._under_way):
            task.cancel()
        await self.world.close()

    async def _told(self, step: Step, seconds: float, until: float) -> None:
        self.tour.show(step)
        self.say(step.said)
        left_s = until - self.world.stage.clock.monotonic()
        await self.world.stage.clock.sleep(max(min(seconds, left_s), 0.0))

    def _begin(self, scene: Scene) -> None:
        task = asyncio.create_task(self._play(scene))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _play(self, scene: Scene) -> None:
        await scene.act()
        if scene.mend is not None:
            await self.world.stage.clock.sleep(scene.lasts_s)
            await scene.mend()
