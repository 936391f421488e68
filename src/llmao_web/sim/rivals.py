"""Two replicas fight: what happens to them and between them, at seeded moments.

Rule of this file: dice of their own. Each trouble ends by itself, and says so.
"""

from collections.abc import Callable
from random import Random  # noqa: TID251

from attrs import define

from .acts import Acts
from .arbiter import Arbiter
from .process import Llmao
from .virtual import dice

BETWEEN_S = 150.0
_FREEZES_S = (2.0, 4.5, 8.0, 12.0, 45.0)
_DOWN_S = (0.5, 6.0, 30.0)


async def fight(acts: Acts, arbiter: Arbiter, until: float) -> None:
    """Let one trouble follow the other, until a time."""
    world = acts.world
    chance = dice(world.seed, "replicas")
    rivals = Rivals(acts, arbiter, chance)
    while world.seconds < until and world.violation is None:
        await world.run(chance.expovariate(1 / BETWEEN_S))
        chance.choice(rivals.troubles())()


@define(eq=False)
class Rivals:
    """What can happen to two replicas."""

    acts: Acts
    arbiter: Arbiter
    chance: Random

    def troubles(self) -> tuple[Callable[[], None], ...]:
        """Return everything that can happen."""
        return (
            self._one_freezes, self._leader_freezes_at_a_permit, self._session_is_cut,
            self._one_is_cut_off, self._both_are_cut_off, self._both_start_at_once,
            self._one_is_killed,
        )  # fmt: skip

    def _leading(self) -> Llmao:
        return self.acts.world.llmao

    def _some(self) -> Llmao:
        """Return the leader, mostly."""
        other = self.chance.random() < 0.25
        each = self.acts.world.replicas.each
        return each[self._leading() is each[0]] if other else self._leading()

    # ---- frozen

    def _one_freezes(self) -> None:
        self.freeze(self._some(), self.chance.choice(_FREEZES_S), self.chance.random() < 0.3)

    def freeze(self, llmao: Llmao, seconds: float, stands_still: bool) -> None:
        """Let the machine of a replica do nothing for a while. stands_still: its clock, too."""
        world = self.acts.world
        clock = ", and so is its clock" if stands_still else ""
        world.tell("", f"{llmao.name} is frozen for {seconds:g} s{clock}")
        llmao.clock.freeze(stands_still=stands_still)
        world.replicas.disturb()
        world.after(seconds, lambda: self._thaw(llmao))

    def _thaw(self, llmao: Llmao) -> None:
        if llmao.clock.frozen:
            self.acts.world.tell("", f"{llmao.name} goes on")
            llmao.clock.thaw()
            self.acts.world.replicas.disturb()

    def _leader_freezes_at_a_permit(self) -> None:
        """Freeze the leader when the database has let it write and it does not know it yet."""
        seconds, still = self.chance.choice(_FREEZES_S), self.chance.random() < 0.3

        def let(_who: object) -> None:
            self.arbiter.on_permit = lambda _who: None
            self.freeze(self._leading(), seconds, still)

        self.arbiter.on_permit = let

    # ---- cut

    def _session_is_cut(self) -> None:
        llmao = self._some()
        self.acts.world.tell("", f"the session of {llmao.name} is ended")
        self.arbiter.cut(llmao)

    def _one_is_cut_off(self) -> None:
        self.cut_off(self._some(), self.chance.choice(_FREEZES_S))

    def _both_are_cut_off(self) -> None:
        seconds = self.chance.choice(_FREEZES_S)
        for llmao in self.acts.world.replicas.each:
            self.cut_off(llmao, seconds)

    def cut_off(self, llmao: Llmao, seconds: float) -> None:
        """Let a replica not reach the database for a while, which does not know of it."""
        world = self.acts.world
        world.tell("", f"{llmao.name} does not reach the database for {seconds:g} s")
        llmao.reach_store(again=False)
        world.replicas.disturb()
        world.after(seconds, lambda: self._reconnect(llmao))

    def _reconnect(self, llmao: Llmao) -> None:
        if llmao.cut_off:
            self.acts.world.tell("", f"{llmao.name} reaches the database again")
            llmao.reach_store(again=True)
            self.acts.world.replicas.disturb()

    # ---- killed

    def _one_is_killed(self) -> None:
        self.acts.kill(self._some(), self.chance.choice(_DOWN_S))

    def _both_start_at_once(self) -> None:
        seconds = self.chance.choice(_DOWN_S)
        for llmao in self.acts.world.replicas.each:
            self.acts.kill(llmao, seconds)
