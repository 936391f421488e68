"""The story of the demo: scenes in which something breaks and is mended, told as they are played.

Rule of this file: what is told stays true while it is shown, whatever a visitor does meanwhile.
After the last scenes it begins anew.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby

from attrs import define, field

from llmao_web.pages.tour import Line, Step, Tour

from .by_hand import Hand
from .fleet import POD
from .scene import BOXES, MODELS, SHOWN_S, WORK, Scene, told, waiting
from .scenes_machines import MachineScenes
from .scenes_proxy import ProxyScenes
from .visitor import Deeds, Watch
from .world import World

BOOT_S = 9.0
_LOOK_S = 1.0
# The longest that a server which went often has to answer before its route comes back.
PROVING_S = 60.0
OPENING = Step(
    (
        Line(
            "Boxes rented at Vast and RunPod boot: each asks llmao what to serve, and loads. A "
            "route follows once a server has proven that it works.",
            (MODELS, BOXES),
        ),
    )
)
MENDED = Line(
    "What broke is mended. What is left under Work needed waits for a person.", (WORK, MODELS)
)
PROVING = Line(
    "What broke is mended. Servers get their routes back once proven: each loss makes that longer.",
    (WORK, MODELS),
)


@define
class Story:
    """Tells the scenes. say: told what happens, one sentence each. shown_s: how long each is."""

    world: World
    tour: Tour
    say: Callable[[str], None]
    reload: Callable[[bool], None]
    shown_s: float = SHOWN_S
    _deeds: Deeds = field(factory=Deeds)
    _under_way: set[asyncio.Task[None]] = field(factory=set)

    async def run(self, minutes: float) -> None:
        """Let every box boot, then play the scenes one after the other until the time is up."""
        until = self.world.stage.clock.monotonic() + minutes * 60
        await self.world.begin()
        await self._show(lambda: OPENING, BOOT_S, until)
        self.world.crowd(POD, 8002)
        scenes = self._scenes()
        while await self._played(scenes, until):
            await self._show(self._rest, self.shown_s, until, PROVING_S)
        self.say(f"{minutes:g} minutes are over: the demo ends.")

    def _scenes(self) -> list[Scene]:
        scenes = list(MachineScenes(self.world, self.reload).all())
        if self.world.litellm is not None:
            hand = Hand(self.world, self.world.litellm)
            hand.begin()
            scenes += ProxyScenes(self.world, hand).all()
        return sorted(scenes, key=lambda each: each.place)

    async def _played(self, scenes: Sequence[Scene], until: float) -> bool:
        """Play scenes, those of one place together; tell whether there is time left after them."""
        for _, together in groupby(scenes, key=lambda each: each.place):
            playing = tuple(together)
            for scene in playing:
                self._begin(scene)
            await self._show(partial(self._told, playing), self.shown_s, until)
            if self.world.stage.clock.monotonic() >= until:
                return False
        return True

    def _told(self, scenes: Sequence[Scene]) -> Step:
        return told(scenes, self._deeds)

    def _rest(self) -> Step:
        mended = PROVING if self._deeds.unrouted else MENDED
        return Step((mended, waiting(self._deeds)))

    async def close(self) -> None:
        """Drop what is under way and switch everything off."""
        for task in list(self._under_way):
            task.cancel()
        await self.world.close()

    async def _show(
        self, step: Callable[[], Step], seconds: float, until: float, proving_s: float = 0.0
    ) -> None:
        """Show a step for so long, and say it anew when a visitor has changed what is true.

        proving_s: how much longer at most, while a server that works has no route.
        """
        clock = self.world.stage.clock
        ends = min(clock.monotonic() + seconds, until)
        longest = min(ends + proving_s, until)
        watch = Watch(self.world.stage.http, self.world.llmao_url)
        for line in step().lines:
            self.say(line.said)
        while True:
            self.tour.show(step())
            left_s = (longest if self._deeds.unrouted else ends) - clock.monotonic()
            if left_s <= 0:
                return
            await clock.sleep(min(_LOOK_S, left_s))
            self._deeds = await watch.look(self._deeds)
            for host in self._deeds.out:
                self.world.finish(host)

    def _begin(self, scene: Scene) -> None:
        task = asyncio.create_task(self._play(scene))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _play(self, scene: Scene) -> None:
        await scene.act()
        if scene.mend is not None:
            await self.world.stage.clock.sleep(scene.lasts_s)
            await scene.mend()
