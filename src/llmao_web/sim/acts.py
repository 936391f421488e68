"""What can happen in the world, one function each.

Rule of this file: an act changes the truth and says so in the story; it knows nothing of what
llmao makes of it, and everything that it breaks is mended later or by `calm`.
"""

import asyncio
from typing import Any

from attrs import define, evolve

from llmao_core.protocol import Fetch, Restarting, Unknown
from llmao_core.reboot import REQUEST_S
from llmao_core.reboot import ask as ask_reboot
from llmao_core.snapshots import Request, RequestKind
from llmao_core.testing.fake_provider import Life, Rented
from llmao_core.testing.fake_vllm import Mode
from llmao_litellm.fake_state import Switches
from llmao_web.shell.ledger import Entry, EntryKind, row_detail

from .boxes import Box, Server
from .faults import Far, Fault, Window
from .fleet import BY_ADDRESS, LATER, LATER_ROWS, with_timeout
from .process import Llmao
from .world import World

FETCH_AGAIN_S = 10.0
RESTART_FOLLOWS_S = 4.0
RELEASED_S = 1e6


@define(eq=False)
class Acts:
    """Everything that may happen to one world. neighbour: an instance that shares an address."""

    world: World
    neighbour: str = ""
    booting: int = 0

    @property
    def going_on(self) -> bool:
        """Tell whether something that has begun is not over: a box boots, a fault will end."""
        stays = sum(box.host == LATER and LATER not in self.world.approved
                    for box in self.world.ground.boxes)  # fmt: skip
        return self.booting > stays or self.world.coming > self.world.seconds

    # ---- boxes

    def boot(self, box: Box, load_s: float, after_s: float = 0.0) -> None:
        """Let a box start, fetch what to serve, load and serve."""
        box.life += 1
        for server in box.servers.values():
            server.become(Mode.REFUSES, self.world.seconds)
        self.world.spawn(self._boot(box, box.life, load_s, after_s))

    async def _boot(self, box: Box, life: int, load_s: float, after_s: float) -> None:
        self.booting += 1
        try:
            await self._start(box, life, load_s, after_s)
        finally:
            self.booting -= 1

    async def _start(self, box: Box, life: int, load_s: float, after_s: float) -> None:
        await asyncio.sleep(after_s)
        while box.life == life:
            if box.runs and self._fetched(box):
                break
            await asyncio.sleep(FETCH_AGAIN_S)
        if box.life != life:
            return
        for server in box.servers.values():
            server.become(Mode.LOADING, self.world.seconds)
        self.world.tell(box.host, f"fetched its configuration and loads for {load_s:.0f} s")
        await asyncio.sleep(load_s)
        if box.life != life or not box.runs:
            return
        for server in box.servers.values():
            if server.vllm.mode is Mode.LOADING:
                server.become(Mode.SERVES, self.world.seconds)
        self.world.tell(box.host, "serves")

    def _fetched(self, box: Box) -> bool:
        """Ask llmao what to serve; tell whether there was an answer."""
        service = self.world.front().service
        if service is None or service.board.intended() is None:
            return False
        told = service.board.answer(box.host)
        if told is None:
            service.board.note(Unknown(box.host))
            return False
        service.board.note(Fetch(box.host, handed_out=told.revision, applied=told.revision))
        for each in told.servers:
            port, name = each.shown["port"], each.shown["served_model_name"]
            server = box.servers.get(port)
            if server is None:
                box.servers[port] = self.world.server(box, port, each.api_key, name)
            else:
                server.vllm.bearer = each.api_key
        return True

    def reboot(self, box: Box, takes_s: float, load_s: float) -> None:
        """Stop and start a box; at RunPod its ports are others afterwards."""
        self.world.tell(box.host, f"reboots, which takes {takes_s:.0f} s")
        if box.provider is not None and box.exists:
            box.provider.reboot(box.instance, takes_s)
            if box.provider is self.world.runpod:
                box.mapped_in.clear()
        self.boot(box, load_s, takes_s)

    def announce(self, box: Box, load_s: float) -> None:
        """Let a box announce that it restarts its servers, and restart them."""
        service = self.world.front().service
        if service is None or not box.servers:
            return
        told = service.board.answer(box.host)
        names = tuple(sorted(told.names)) if told else ()
        service.board.note(Restarting(box.host, names))
        self.world.tell(box.host, f"announces a restart of {', '.join(names)}")
        for server in box.servers.values():
            self._keep_out(server, 0.0)
            self.then(server, (RESTART_FOLLOWS_S, Mode.LOADING), (load_s, Mode.SERVES))

    def _keep_out(self, server: Server, asked_s: float) -> None:
        fleet = self.world.config.fleet
        most_s = asked_s + fleet.health_grace_s + fleet.health_interval_s + fleet.health_timeout_s
        server.kept_out_until = self.world.seconds + most_s

    def ask_reboot(self, box: Box, load_s: float) -> None:
        """Let an admin ask on the box's page that its provider reboot it."""
        service = self.world.front().service
        view = service.board.view() if service else None
        host = next((each for each in view.hosts if each.name == box.host), None) if view else None
        if service is None or host is None or box.provider is None or not box.exists:
            return
        self.world.tell(box.host, "an admin asks for its reboot")
        service.board.request(ask_reboot(host, "admin", self.world.clock.now()))
        for server in box.servers.values():
            self._keep_out(server, REQUEST_S)
        self.world.spawn(self._rebooted(box, box.provider.boxes[box.instance], load_s))

    async def _rebooted(self, box: Box, rented: Rented, load_s: float) -> None:
        """Let the box boot when its provider has begun to reboot it."""
        before, until = rented.reboots, self.world.seconds + REQUEST_S
        while self.world.seconds < until and box.instance == rented.id:
            if rented.reboots > before:
                self.world.tell(box.host, "its provider reboots it")
                if box.provider is self.world.runpod:
                    box.mapped_in.clear()
                self.boot(box, load_s)
                return
            await asyncio.sleep(1.0)

    def remap(self, box: Box, *, left_to_stranger: bool) -> None:
        """Give a box other public ports; its old ones are somebody's or nobody's."""
        if box.provider is None or not box.exists:
            return
        box.provider.remap(box.instance, to_stranger=left_to_stranger)
        box.mapped_in.clear()
        for server in box.servers.values():
            server.alive_since = self.world.seconds
        whose = "a stranger has" if left_to_stranger else "nobody has"
        self.world.tell(box.host, f"is mapped anew; {whose} its old ports")

    def rent_anew(self, box: Box, load_s: float, gone_s: float) -> None:
        """Destroy a box; its address goes to a stranger; another is rented in its place later."""
        if box.provider is not self.world.vast or box.instance == "300" or not box.exists:
            return
        self.world.tell(box.host, f"is destroyed; another is rented in {gone_s:.0f} s")
        self.world.vast.hand_over(box.instance)
        box.mapped_in.clear()
        box.life += 1
        for server in box.servers.values():
            server.become(Mode.REFUSES, self.world.seconds)
        self.world.after(gone_s, lambda: self._rent(box, load_s))

    def _rent(self, box: Box, load_s: float) -> None:
        label = None if box.host in (BY_ADDRESS, LATER) else box.host
        box.instance = self.world.vast.plant(label, address=box.address, ports=box.ports)
        box.mapped_in.clear()
        self.world.tell(box.host, f"is rented anew as {box.instance}")
        self.boot(box, load_s)

    def lose(self, box: Box, seconds: float) -> None:
        """Let a box lose its machine for a while: its provider says so, and it is silent."""
        if box.provider is None or not box.exists or not box.runs:
            return
        self.world.tell(box.host, f"its machine is lost for {seconds:.0f} s")
        box.provider.turn(box.instance, Life.LOST)
        box.life += 1
        self.world.after(seconds, lambda: self._found(box, box.instance))

    def _found(self, box: Box, instance: str) -> None:
        if box.provider is not None and box.exists and box.instance == instance:
            box.provider.turn(instance, Life.RUNNING)
            self.boot(box, 30.0)

    def omit(self, box: Box, reads: int) -> None:
        """Let the listing omit a box for so many reads."""
        if box.provider is not None:
            self.world.tell(box.host, f"its listing omits it for {reads} reads")
            box.provider.boxes[box.instance].listed_from = box.provider.reads + reads + 1

    def share_address(self, seconds: float) -> None:
        """Let another instance of ours share an address and a listen port for a while."""
        if self.neighbour:
            return
        self.neighbour = self.world.vast.plant(address=BY_ADDRESS, ports=(8001,))
        self.world.tell(BY_ADDRESS, f"shares its address with a neighbour for {seconds:.0f} s")
        self.world.after(seconds, self.unshare_address)

    def unshare_address(self) -> None:
        """Let the neighbour go."""
        if self.neighbour:
            self.world.vast.destroy(self.neighbour)
            self.world.tell(BY_ADDRESS, "its neighbour is gone")
        self.neighbour = ""
        for box in self.world.ground.boxes:
            if box.host == BY_ADDRESS:
                box.mapped_in.clear()

    # ---- servers

    def then(self, server: Server, *steps: tuple[float, Mode]) -> None:
        """Let a server become one thing after the other, unless something else comes first."""
        if not steps:
            return
        (wait_s, mode), *rest = steps
        turn = server.turn

        def go() -> None:
            if server.turn == turn:
                server.become(mode, self.world.seconds)
                self.world.tell(server.host, f"port {server.port}: {mode.value}")
                self.then(server, *rest)

        if wait_s <= 0:
            go()
        else:
            self.world.after(wait_s, go)

    # ---- networks

    def cut(self, origin: str, address: str, seconds: float) -> None:
        """Let llmao or LiteLLM not reach an address, or any when it is "", for a while."""
        pair = (origin, address)
        self.world.wire.cut.add(pair)
        self.world.tell("", f"{origin} cannot reach {address or 'any box'} for {seconds:.0f} s")
        self.world.after(seconds, lambda: self._mend(pair))

    def _mend(self, pair: tuple[str, str]) -> None:
        if pair in self.world.wire.cut:
            self.world.wire.mend(pair)
            self.world.tell("", f"{pair[0]} reaches {pair[1] or 'boxes'} again")

    def storm(self, far: Far, seconds: float, rate: float, faults: tuple[Fault, ...]) -> None:
        """Let calls to a far end go wrong for a while."""
        names = ", ".join(fault.name for fault in faults)
        self.world.weather.open(Window(far, self.world.seconds + seconds, rate, faults))
        how = f"{rate:.0%} of calls to {far.value} go wrong for {seconds:.0f} s: {names}"
        self.world.tell("", how)

    # ---- LiteLLM

    def break_litellm(self, seconds: float, **switches: Any) -> None:
        """Let something be wrong with LiteLLM itself for a while."""
        litellm = self.world.litellm
        litellm.switches = evolve(litellm.switches, **switches)
        self.world.tell("", f"LiteLLM for {seconds:.0f} s: {switches}")
        self.world.weather.open(Window(Far.LITELLM, self.world.seconds + seconds, 0.0, ()))
        self.world.after(seconds, self.mend_litellm)

    def mend_litellm(self) -> None:
        """Let LiteLLM work as it should; a worker that lags catches up at its next poll."""
        self.world.litellm.switches = Switches()
        self.world.weather.mark(Far.LITELLM, self.world.seconds)

    def empty_litellm(self) -> None:
        """Lose every row, as an upgrade gone wrong does."""
        self.world.litellm.empty()
        self.world.planted.clear()
        self.world.foreign.clear()
        self.world.tell("", "LiteLLM has lost all rows")
        self.world.weather.mark(Far.LITELLM, self.world.seconds)

    def edit_row(self, row_id: str, how: str) -> None:
        """Change one of LiteLLM's rows by hand."""
        litellm = self.world.litellm
        row = litellm.db.get(row_id)
        if row is None:
            return
        if how == "delete":
            litellm.remove(row_id)
            self.world.planted.discard(row_id)
        elif how == "block":
            litellm.edit(row_id, blocked=True)
        elif how == "move":
            litellm.edit(row_id, params={"api_base": "http://127.0.0.99:9/v1"})
        elif how == "timeout":
            litellm.edit(row_id, params={"timeout": 7})
        else:
            copy = f"copy-{len(litellm.db)}-{row_id[-6:]}"
            litellm.plant(row.model_name, row.params, {**row.info, "id": copy})
            self.world.planted.add(copy)
        self.world.touched[row_id] = self.world.seconds
        deployment = self.world.deployment_of(row)
        about = str(deployment.key) if deployment else ""
        self.world.tell(about, f"somebody changes its row by hand: {how}")

    # ---- llmao and people

    def kill(self, llmao: Llmao, down_s: float) -> None:
        """Kill an llmao and start it later."""
        self.world.tell("", f"{llmao.name} is killed, and started in {down_s:.3g} s")
        llmao.kill()
        self.world.after(down_s, llmao.start)

    def step_clock(self, seconds: float) -> None:
        """Let llmao's clock jump."""
        self.world.clock.offset_s += seconds
        self.world.tell("", f"llmao's clock jumps by {seconds:+.0f} s")
        for far in Far:
            self.world.weather.mark(far, self.world.seconds)

    def fill_disk(self, seconds: float) -> None:
        """Let the store fail for a while."""
        self.world.replicas.disk.full = True
        self.world.tell("", f"the disk is full for {seconds:.0f} s")
        self.world.after(seconds, self._empty_disk)

    def _empty_disk(self) -> None:
        self.world.replicas.disk.full = False
        self.world.replicas.disturb()

    def come(self, approve_s: float) -> None:
        """Let a box that nobody configured come and ask, and an admin approve it later."""
        world = self.world
        if not any(box.host == LATER for box in world.ground.boxes):
            box = Box(LATER, LATER, (8001,), world.vast)
            box.instance = world.vast.plant(address=LATER, ports=box.ports)
            world.ground.boxes.append(box)
            world.tell(LATER, "a box that nobody configured comes")
            self.boot(box, 20.0)
        world.after(approve_s, lambda: self.approve(LATER))

    def approve(self, host: str) -> None:
        """Let an admin approve a host."""
        self.world.spawn(self._approve(host))

    async def _approve(self, host: str) -> None:
        rows = [row_detail(row) for row in LATER_ROWS]
        entry = Entry(
            self.world.clock.now(), "admin", EntryKind.APPROVED, host, detail={"rows": rows}
        )
        if await self.world.front().keep(entry):
            self.world.approve(host)
            self.world.tell(host, "is approved, and the approval acknowledged")
        else:
            self.world.tell(host, "is approved, and nobody acknowledged it")

    def change_model(self, model: str, timeout: int | None) -> None:
        """Change a model in the configuration, and have it read again."""
        self.world.config = with_timeout(self.world.config, model, timeout)
        self.world.tell("", f"the timeout of {model} is now {timeout}")
        self.reload()

    def reload(self) -> None:
        """Have the configuration read again, wherever llmao runs."""
        for llmao in self.world.replicas.each:
            if llmao.service is not None:
                llmao.service.reload()

    def release_brake(self) -> None:
        """Let an admin release what the brake holds."""
        service, now = self.world.llmao.service, self.world.clock.now()
        if service is not None:
            service.board.request(
                Request(RequestKind.RELEASE_BRAKE, "admin", now, now + RELEASED_S)
            )

    # ---- the end of it

    def calm(self) -> None:
        """End every fault; what loads goes on loading, and what hangs or is down restarts."""
        world, now = self.world, self.world.seconds
        world.tell("", "the world stands still from now on")
        world.weather.calm(now)
        for pair in tuple(world.wire.cut):
            world.wire.mend(pair)
        world.wire.frozen.clear()
        world.replicas.disk.full = False
        self.unshare_address()
        self.mend_litellm()
        for llmao in world.replicas.each:
            llmao.clock.thaw()
            llmao.reach_store(again=True)
            llmao.start()
        self.release_brake()
        self.reload()
        for far in Far:
            world.weather.mark(far, now)
