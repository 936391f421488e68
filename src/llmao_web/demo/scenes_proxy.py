"""Scenes at the simulated proxy: people and scripts in its pages, and what it does by itself.

Rule of this file: none of this is played where a real proxy stands in.
"""

from collections.abc import Iterable

from attrs import frozen

from llmao_core.testing.fake_vllm import Mode
from llmao_litellm.fake_http import error

from .by_hand import Hand
from .fleet import BY_ADDRESS, EMBEDDING, PAIR, POD, SINGLE, SMALL
from .scene import LOG, SOURCES, WORK, Scene, at_once, model
from .world import World

_FAILED = error(500, "Failed to add model to db. Check your server logs for more details.")


@frozen
class ProxyScenes:
    """The scenes. hand: who is in the proxy's pages."""

    world: World
    hand: Hand

    def all(self) -> Iterable[Scene]:
        """Yield the scenes."""
        yield from self._rows()
        yield from self._proxy()
        yield from self._writes()

    def _rows(self) -> Iterable[Scene]:
        yield Scene(
            2,
            "Somebody is in LiteLLM's own pages: one deployment is deleted, one changed, one "
            "blocked, one loses llmao's mark. All is put back. Another team's row goes, too, and "
            "llmao says so.",
            (("/models#plan-all", "the plan"), LOG),
            self._spoil,
            at_once(self.hand.add_team_row),
            6,
        )
        yield Scene(
            3,
            f"llmao cannot reach {BY_ADDRESS}, and LiteLLM can: the routes stay. With {POD} it is "
            "the other way round.",
            (WORK, model(EMBEDDING)),
            self._cut,
            self._uncut,
            9,
            f"Meanwhile llmao cannot reach {BY_ADDRESS}, but LiteLLM can: its routes stay.",
        )

    def _proxy(self) -> Iterable[Scene]:
        hand, litellm = self.hand, self.hand.litellm
        yield Scene(
            7,
            "LiteLLM's master key is changed, and llmao does not know the new one: the routes stay "
            "as they are.",
            (SOURCES, WORK),
            at_once(hand.refuse_key),
            at_once(hand.take_key),
            7,
            "Meanwhile LiteLLM's master key is changed: the routes stay as they are.",
        )
        yield Scene(
            8,
            "LiteLLM's database is down, and then LiteLLM is restarted without it: the routes stay "
            "as they are.",
            (SOURCES, WORK),
            self._without_database,
            brief="Meanwhile LiteLLM's database is down: the routes stay as they are.",
        )
        yield Scene(
            11,
            "Every deployment vanishes from LiteLLM at once, as in an upgrade gone wrong.",
            (WORK, LOG),
            at_once(litellm.empty),
            at_once(hand.add_team_row),
        )

    def _writes(self) -> Iterable[Scene]:
        hand = self.hand
        yield Scene(
            10,
            "Two other deployments are edited: one dials a listen port, one a port where nobody "
            "is. Both are put back.",
            (model(EMBEDDING), LOG),
            self._misdirect,
            brief="Meanwhile two others are given wrong addresses, and put back.",
        )
        yield Scene(
            10,
            "A deployment is written twice, one is copied by hand, and one is left of a box "
            "nobody intends: a person decides what goes.",
            (WORK, ("/models#others-name", "other deployments")),
            at_once(hand.double),
            at_once(hand.undouble),
            8,
        )
        yield Scene(
            9,
            f"{POD} port 8001 restarts and does no work: no route without proof. LiteLLM fails a "
            f"write for {SINGLE}, which is tried again.",
            (WORK, model(SMALL)),
            self._unproven,
            at_once(lambda: self.world.become(POD, Mode.SERVES)),
            6,
            f"Meanwhile {POD} port 8001 restarts and does no work: no route without proof.",
        )
        yield Scene(
            12,
            f"LiteLLM sets a field of {SINGLE} anew after each write, and cannot load what is "
            f"written for {BY_ADDRESS}: llmao stops trying and says so.",
            (WORK, LOG),
            self._stubborn,
        )

    async def _spoil(self) -> None:
        self.hand.spoil()
        await self.hand.lose_team_row()

    async def _cut(self) -> None:
        for port in (8001, 8002):
            self.world.become(BY_ADDRESS, Mode.HANGS, port)
        told = self.world.stage.checks.told
        told[f"//{self.world.boxes[BY_ADDRESS].address}:"] = ""
        told[f"//{self.world.boxes[POD].address}:"] = "Connection error."
        await self.world.stage.clock.sleep(1)
        await self.hand.litellm.health.run_background()

    async def _uncut(self) -> None:
        self.world.stage.checks.told.clear()
        for port in (8001, 8002):
            self.world.become(BY_ADDRESS, Mode.SERVES, port)
        await self.hand.litellm.health.run_background()

    async def _without_database(self) -> None:
        switches = self.hand.litellm.switches
        switches.dead_database = True
        await self.world.stage.clock.sleep(4.5)
        switches.dead_database, switches.no_database = False, True
        await self.world.stage.clock.sleep(4.5)
        switches.no_database = False

    async def _misdirect(self) -> None:
        await self.hand.until_there((PAIR, 8002), (BY_ADDRESS, 8002))
        self.hand.misdirect()

    async def _unproven(self) -> None:
        self.hand.litellm.answer_next.append(("/model/new", _FAILED))
        self.hand.delete(SINGLE)
        self.world.become(POD, Mode.LOADING)
        await self.world.stage.clock.sleep(5)
        self.world.become(POD, Mode.FULL)

    async def _stubborn(self) -> None:
        hand, sleep = self.hand, self.world.stage.clock.sleep
        hand.litellm.switches.not_live = True
        # LiteLLM says so in its answers; only a row whose answers are lost is found not live.
        hand.litellm.switches.lose_answers = 4
        hand.delete(BY_ADDRESS, 8002)
        await sleep(8)
        hand.litellm.switches.lose_answers = 0
        hand.insist(SINGLE)
        await sleep(7)
        hand.litellm.switches.not_live = False
        hand.litellm.restart()
        hand.give_in(SINGLE)
