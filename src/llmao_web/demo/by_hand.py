"""What people and scripts do at the simulated proxy, behind llmao's back.

Rule of this file: changes to the proxy's rows and switches, as its own pages make them. Nothing
here can be done to a real proxy.
"""

from collections.abc import Mapping
from typing import Any

from llmao_core.config import DEPLOYMENT_DEFAULTS
from llmao_litellm.fake_state import Stored

from . import fleet
from .world import Proxy, World

TEAM_ROW = "team-gpt"
COPY_ROW = "copied-by-hand"
DOUBLE_ROW = "written-twice"
LEFT_ROW = "left-over"
YAML_ROW = "from-the-file"
_TICK_S = 0.7
_TICKS = 8


class Hand:
    """Somebody with the proxy's master key."""

    def __init__(self, world: World, litellm: Proxy) -> None:
        self.world = world
        self.litellm = litellm
        self._keys: Mapping[str, str] = dict(litellm.keys)

    def row(self, host: str, port: int = 8001) -> Stored | None:
        """Return a row that llmao made for a server, None while there is none."""
        rows = self.litellm.truth()
        ids = self.world.rows(host, port)
        return next((rows[one] for one in ids if rows[one].info.get("llmao_fleet")), None)

    async def until_there(self, *servers: tuple[str, int]) -> None:
        """Wait until llmao has written rows for servers, for some seconds at most."""
        for _ in range(_TICKS):
            await self.world.stage.clock.sleep(_TICK_S)
            if all(self.row(host, port) for host, port in servers):
                return

    def delete(self, host: str, port: int = 8001) -> None:
        """Delete a row."""
        if (row := self.row(host, port)) is not None:
            self.litellm.remove(row.id)

    def edit(self, host: str, port: int = 8001, **changes: Any) -> None:
        """Change a row."""
        if (row := self.row(host, port)) is not None:
            self.litellm.edit(row.id, **changes)

    def begin(self) -> None:
        """Have a row of another team's, and one in the proxy's own file."""
        self.add_team_row()
        if (row := self.row(fleet.POD)) is not None:
            params = {name: row.params[name] for name in ("model", "api_base", "api_key")}
            self.litellm.plant_yaml(row.model_name, params, YAML_ROW)

    def add_team_row(self) -> None:
        """Have a row of another team's."""
        if TEAM_ROW not in self.litellm.truth():
            self.litellm.plant("gpt-team", {"model": "openai/gpt"}, {"id": TEAM_ROW})

    def spoil(self) -> None:
        """Delete one row, change a second, block a third, take the mark off a fourth."""
        self.delete(fleet.SINGLE)
        self.edit(fleet.PAIR, 8002, params={"timeout": 5})
        self.edit(fleet.POD, blocked=True)
        self.edit(fleet.BY_ADDRESS, 8002, info={"llmao_key": "", "llmao_fleet": ""})

    def misdirect(self) -> None:
        """Let one row dial a listen port, and another a port where nobody is."""
        self.edit(fleet.PAIR, 8002, params={"api_base": f"http://{fleet.PAIR}:8002/v1"})
        self.edit(fleet.BY_ADDRESS, 8002, params={"api_base": f"http://{fleet.BY_ADDRESS}:9999/v1"})

    async def lose_team_row(self) -> None:
        """Lose another team's row just after llmao wrote."""
        await self.until_there((fleet.SINGLE, 8001))
        if TEAM_ROW in self.litellm.truth():
            self.litellm.remove(TEAM_ROW)

    def double(self) -> None:
        """Write one row twice, copy another, and find one whose box nobody intends any more."""
        if (row := self.row(fleet.PAIR)) is not None:
            self.litellm.plant(row.model_name, row.params, {**row.info, "id": DOUBLE_ROW})
        if (row := self.row(fleet.BY_ADDRESS)) is not None:
            params = {name: row.params[name] for name in ("model", "api_base", "api_key")}
            self.litellm.plant(row.model_name, params, {"id": COPY_ROW})
        if (row := self.row(fleet.SINGLE)) is not None:
            self._leave(row)

    def _leave(self, row: Stored) -> None:
        base = f"http://{fleet.GONE_ADDRESS}:{self.world.stage.places.first_port}"
        bearer = self.world.bearer(fleet.GONE).reveal()
        params = {**row.params, "api_base": f"{base}/v1", "api_key": bearer}
        info = {**row.info, "id": LEFT_ROW, "llmao_key": f"http://{fleet.GONE}:8001"}
        self.litellm.plant(row.model_name, params, {**info, "asf_api_base": base})

    def undouble(self) -> None:
        """Remove what was too many, as far as nobody has."""
        for row_id in (DOUBLE_ROW, COPY_ROW, LEFT_ROW):
            if row_id in self.litellm.truth():
                self.litellm.remove(row_id)

    def insist(self, host: str) -> None:
        """Have the proxy set one field anew after each write of a row."""
        if (row := self.row(host)) is not None:
            self.litellm.insists[row.id] = {"timeout": 5}
            self.litellm.edit(row.id, params={"timeout": 5})

    def give_in(self, host: str) -> None:
        """Have it keep what is written again."""
        self.litellm.insists.clear()
        self.edit(host, params={"timeout": DEPLOYMENT_DEFAULTS["timeout"]})

    def refuse_key(self) -> None:
        """Change the master key."""
        self.litellm.keys.clear()

    def take_key(self) -> None:
        """Change it back."""
        self.litellm.keys.update(self._keys)
