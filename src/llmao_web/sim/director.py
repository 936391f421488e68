"""Seeded chance: what happens next in a world, to whom, and for how long.

Rule of this file: dice and nothing else. Every event is one act, with its chance beside it.
"""

from collections.abc import Callable, Sequence
from random import Random  # noqa: TID251
from typing import Any, TypeVar

from attrs import define, field

from llmao_core.testing.fake_vllm import Mode

from .acts import Acts
from .boxes import Box, Server
from .faults import POSSIBLE, Far
from .virtual import dice

T = TypeVar("T")

BETWEEN_S = 60.0
QUIET = 0.12
QUIET_S = 400.0
_LOADS_S = (5.0, 15.0, 45.0)
_BREAKS = (
    Mode.HANGS, Mode.FROZEN, Mode.SLOW, Mode.DEAD_ENGINE, Mode.WRONG_KEY, Mode.WRONG_MODEL,
    Mode.KEYLESS, Mode.FULL, Mode.GARBLED,
)  # fmt: skip
_SWITCHES: tuple[dict[str, Any], ...] = (
    {"dead_database": True},
    {"save_then_500": True},
    {"ghost_after_delete": True},
    {"not_live": True},
    {"empty_list": True},
    {"slow_list_s": 9.0},
    {"background_checks": True},
)


@define(eq=False)
class Director:
    """Lets things happen to one world, seeded."""

    acts: Acts
    chance: Random = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.chance = dice(self.acts.world.seed, "director")

    async def direct(self, until: float) -> None:
        """Let one thing happen after the other, with quiet times between."""
        world = self.acts.world
        events = self._events()
        names, weights = [each for each, _ in events], [weight for _, weight in events]
        while world.seconds < until and world.violation is None:
            quiet = self.chance.random() < QUIET
            wait_s = QUIET_S if quiet else self.chance.expovariate(1 / BETWEEN_S)
            await world.run(min(wait_s, until - world.seconds))
            self.chance.choices(names, weights)[0]()

    def _events(self) -> Sequence[tuple[Callable[[], None], float]]:
        return (
            (self._server_restarts, 4), (self._server_breaks, 6), (self._box_reboots, 3),
            (self._box_announces, 2), (self._admin_asks_for_a_reboot, 1),
            (self._ports_move, 3), (self._box_is_replaced, 2),
            (self._machine_is_lost, 1), (self._listing_omits, 3), (self._address_is_shared, 1),
            (self._network_is_cut, 3), (self._calls_go_wrong, 5), (self._litellm_breaks, 4),
            (self._litellm_restarts, 1), (self._rows_are_lost, 0.3), (self._somebody_edits, 4),
            (self._llmao_is_killed, 1.5), (self._llmao_is_killed_at_a_step, 3),
            (self._clock_jumps, 0.5), (self._disk_is_full, 1), (self._host_is_approved, 2),
            (self._model_changes, 1),
        )  # fmt: skip

    # ---- dice

    def _pick(self, options: Sequence[T]) -> T:
        return self.chance.choice(options)

    def _time_s(self) -> float:
        return self._pick((8.0, 25.0, 80.0, 240.0)) * self.chance.uniform(0.7, 1.3)

    def _load_s(self) -> float:
        return self._pick(_LOADS_S)

    def _box(self) -> Box:
        return self._pick(self.acts.world.ground.boxes)

    def _server(self) -> Server | None:
        servers = [one for box in self.acts.world.ground.boxes for one in box.servers.values()]
        serving = [one for one in servers if one.vllm.mode is Mode.SERVES]
        return self._pick(serving) if serving else None

    # ---- boxes

    def _server_restarts(self) -> None:
        if server := self._server():
            steps = ((0.0, Mode.REFUSES), (self._pick((1.0, 5.0)), Mode.LOADING))
            self.acts.then(server, *steps, (self._load_s(), Mode.SERVES))

    def _server_breaks(self) -> None:
        if server := self._server():
            mode = self._pick(_BREAKS)
            restart = () if self.chance.random() < 0.5 else ((1.0, Mode.LOADING),)
            again = (self._load_s() if restart else self._time_s(), Mode.SERVES)
            first = ((0.0, mode), (self._time_s(), Mode.REFUSES)) if restart else ((0.0, mode),)
            self.acts.then(server, *first, *restart, again)

    def _box_reboots(self) -> None:
        self.acts.reboot(self._box(), self._pick((5.0, 40.0)), self._load_s())

    def _box_announces(self) -> None:
        self.acts.announce(self._box(), self._load_s())

    def _admin_asks_for_a_reboot(self) -> None:
        self.acts.ask_reboot(self._box(), self._load_s())

    def _ports_move(self) -> None:
        self.acts.remap(self._box(), left_to_stranger=self.chance.random() < 0.5)

    def _box_is_replaced(self) -> None:
        self.acts.rent_anew(self._box(), self._load_s(), self._time_s())

    def _machine_is_lost(self) -> None:
        self.acts.lose(self._box(), self._time_s())

    def _listing_omits(self) -> None:
        self.acts.omit(self._box(), self._pick((1, 3, 6)))

    def _address_is_shared(self) -> None:
        self.acts.share_address(self._time_s())

    # ---- wires

    def _network_is_cut(self) -> None:
        origin = self._pick(("llmao", "llmao", "litellm"))
        address = self._pick(("", self._box().address, self._box().address))
        self.acts.cut(origin, address, self._time_s())

    def _calls_go_wrong(self) -> None:
        far = self._pick((Far.LITELLM, Far.LITELLM, Far.VAST, Far.RUNPOD, Far.BOXES))
        possible = POSSIBLE[far]
        chosen = tuple(self._pick(possible) for _ in range(self._pick((1, 3))))
        self.acts.storm(far, self._time_s(), self._pick((0.2, 0.6, 1.0)), chosen)

    # ---- LiteLLM

    def _litellm_breaks(self) -> None:
        self.acts.break_litellm(self._time_s(), **self._pick(_SWITCHES))

    def _litellm_restarts(self) -> None:
        self.acts.world.litellm.restart()
        self.acts.world.tell("", "LiteLLM restarts")

    def _rows_are_lost(self) -> None:
        self.acts.empty_litellm()

    def _somebody_edits(self) -> None:
        rows = sorted(
            one for one, row in self.acts.world.litellm.db.items()
            if row.info.get("llmao_fleet") == "sim"
        )  # fmt: skip
        if rows:
            how = self._pick(("delete", "block", "move", "timeout", "copy"))
            self.acts.edit_row(self._pick(rows), how)

    # ---- llmao

    def _llmao_is_killed(self) -> None:
        self.acts.kill(self.acts.world.llmao, self._time_s())

    def _llmao_is_killed_at_a_step(self) -> None:
        """Kill it at one of its next steps, whichever that is."""
        left = self.chance.randrange(1, 40)
        down_s = self._pick((1.0, 20.0))
        llmao = self.acts.world.llmao

        def at_step(name: str) -> bool:
            nonlocal left
            left -= 1
            if left:
                return False
            llmao.at_step = lambda _name: False
            self.acts.world.tell("", f"{llmao.name} is killed at: {name}")
            self.acts.world.after(down_s, llmao.start)
            return True

        llmao.at_step = at_step

    def _clock_jumps(self) -> None:
        self.acts.step_clock(self.chance.choice((-300.0, -20.0, -2.0, 2.0, 20.0, 300.0)))

    def _disk_is_full(self) -> None:
        self.acts.fill_disk(self._time_s())

    def _host_is_approved(self) -> None:
        self.acts.come(self._time_s())

    def _model_changes(self) -> None:
        self.acts.change_model(self._pick(("small", "large")), self._pick((600, 300, None)))
