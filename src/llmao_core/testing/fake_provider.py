"""What fake GPU providers share: rented boxes, a key, a log, and what is made to go wrong.

Rule of this file: what is true of a box stands in one place, whatever an API shows of it; how it
is shown is each fake's own. Nothing here dials a box or tells the time by itself.
"""

import enum
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from attrs import define, field, frozen

from .served import Call, Reply, Served

FIRST_PUBLIC_PORT = 41_200
STRANGER = "a stranger"


class Life(enum.Enum):
    """What a rented box is doing, whatever its provider calls it.

    OUTBID: paused, may come back by itself. EXITED: its container ended, and it is billed all the
    same. LOST: the provider has not heard from its machine.
    """

    WAITING = "waiting"
    LOADING = "loading"
    RUNNING = "running"
    REBOOTING = "rebooting"
    STOPPED = "stopped"
    OUTBID = "outbid"
    EXITED = "exited"
    LOST = "lost"
    DESTROYED = "destroyed"


@define
class Rented:
    """One box. ports: listen → public. shown: fields of its row that say something else.

    listed_from, mapped_from, listed_until: the reads that show it, and its ports.
    """

    id: str
    address: str
    ports: dict[int, int]
    label: str | None = None
    life: Life = Life.RUNNING
    price_per_hour: float = 0.7
    gpu_name: str = "RTX 4090"
    gpu_count: int = 1
    machine: int = 51_877
    started_at: float = 0.0
    secret: str = field(default="hf_secret_of_a_box", repr=False)
    listed_from: int = 0
    mapped_from: int = 0
    listed_until: float = float("inf")
    reboots: int = 0
    up_at: float | None = None
    shown: dict[str, Any] = field(factory=dict, repr=False)

    @property
    def exists(self) -> bool:
        return self.life is not Life.DESTROYED


@frozen
class Mishap:
    """Something that goes wrong. page: of a list, from 1; 0 for any request at all."""

    name: str
    page: int = 0
    times: int = 1


@define
class _Pending:
    mishap: Mishap
    left: int


class FakeProvider(Served):
    """A GPU provider's account: its boxes, and what is known and done by whom.

    log: every request, newest last. reads: lists begun. A subclass shows boxes in its API's way
    and names in `replies` and `twists` what can go wrong with it. Boxes that are dialled have
    addresses on loopback, which a plugin believes only of a `base_url` that is on loopback, too.
    """

    replies: Mapping[str, Callable[[], Reply]] = {}
    twists: frozenset[str] = frozenset()

    def __init__(self, now: Callable[[], float], key: str) -> None:
        self.now = now
        self.key = key
        self.boxes: dict[str, Rented] = {}
        self.log: deque[Call] = deque(maxlen=10_000)
        self.reads = 0
        self._pending: list[_Pending] = []
        self._strangers: set[tuple[str, int]] = set()

    # ---- the world

    def plant(
        self,
        label: str | None = None,
        *,
        address: str = "127.0.0.2",
        ports: Mapping[int, int] | Iterable[int] = (8001,),
        life: Life = Life.RUNNING,
        listed_after: int = 0,
        mapped_after: int = 0,
        **more: Any,
    ) -> str:
        """Rent a box and return its id.

        ports: listen → public, or listen ports that get public ones free at this address.
        listed_after, mapped_after: how many reads do not show it, or its ports, yet. more: fields
        of Rented.
        """
        box_id = str(more.pop("id", "") or self._new_id())
        given = dict(ports) if isinstance(ports, Mapping) else self._allot(address, ports)
        self.boxes[box_id] = Rented(
            box_id,
            address,
            given,
            label,
            life,
            listed_from=self.reads + listed_after + 1,
            mapped_from=self.reads + mapped_after + 1,
            **{"started_at": self.now(), **more},
        )
        return box_id

    def turn(self, box_id: str, life: Life) -> None:
        """Let a box do something else from now on."""
        self.boxes[box_id].life = life
        self.boxes[box_id].up_at = None

    def remap(
        self, box_id: str, ports: Mapping[int, int] | None = None, *, to_stranger: bool = False
    ) -> None:
        """Give a box other public ports, by default any that are free at its address.

        to_stranger: another tenant gets the old ones.
        """
        box = self.boxes[box_id]
        if to_stranger:
            self._strangers |= {(box.address, public) for public in box.ports.values()}
        box.ports = dict(ports) if ports else self._allot(box.address, box.ports)

    def destroy(self, box_id: str, *, lingers: int = 0) -> None:
        """Give a box back; its row stays for so many reads more."""
        self.turn(box_id, Life.DESTROYED)
        self.boxes[box_id].listed_until = self.reads + lingers

    def hand_over(self, box_id: str, *, lingers: int = 0) -> None:
        """Give a box back, and its address and ports to another tenant at once."""
        box = self.boxes[box_id]
        self.destroy(box_id, lingers=lingers)
        self._strangers |= {(box.address, public) for public in box.ports.values()}

    def reboot(self, box_id: str, takes_s: float) -> None:
        """Stop and start a box."""
        box = self.boxes[box_id]
        box.life, box.up_at = Life.REBOOTING, self.now() + takes_s
        box.reboots += 1

    def life(self, box: Rented) -> Life:
        """Return what a box does now; one that has rebooted runs again."""
        if box.life is Life.REBOOTING and box.up_at is not None and self.now() >= box.up_at:
            self.turn(box.id, Life.RUNNING)
        return box.life

    def holder(self, address: str, public_port: int) -> str:
        """Return who answers at an address and port: the id of a box, STRANGER or ""."""
        if (address, public_port) in self._strangers:
            return STRANGER
        return next(
            (
                one.id
                for one in self.boxes.values()
                if one.exists and one.address == address and public_port in one.ports.values()
            ),
            "",
        )

    def truth(self) -> dict[str, Rented]:
        """Return the boxes that exist, by id, whatever a list shows."""
        return {one.id: one for one in self.boxes.values() if one.exists}

    def listed(self) -> list[Rented]:
        """Return the boxes that this read shows."""
        return [
            one
            for one in self.boxes.values()
            if one.listed_from <= self.reads and (one.exists or self.reads <= one.listed_until)
        ]

    def ports_of(self, box: Rented) -> dict[int, int]:
        """Return the mapping that this read shows of a box."""
        running = self.life(box) is Life.RUNNING and box.mapped_from <= self.reads
        return dict(box.ports) if running else {}

    def _allot(self, address: str, listen: Iterable[int]) -> dict[int, int]:
        """Return public ports for listen ports; boxes that share an address share its ports."""
        used = {
            public
            for one in self.boxes.values()
            if one.address == address
            for public in one.ports.values()
        }
        first = max(used, default=FIRST_PUBLIC_PORT - 1) + 1
        return {port: first + place for place, port in enumerate(listen)}

    def _new_id(self) -> str:
        raise NotImplementedError

    # ---- what goes wrong

    def go_wrong(self, name: str, *, page: int = 0, times: int = 1) -> None:
        """Let something go wrong with the next requests: a name of `replies` or `twists`."""
        if name not in self.replies and name not in self.twists:
            known = ", ".join(sorted({*self.replies, *self.twists}))
            raise ValueError(f"unknown mishap {name}; known are {known}")
        self._pending.append(_Pending(Mishap(name, page, times), times))

    def go_well(self) -> None:
        """Let nothing go wrong any more."""
        self._pending.clear()

    def mishap(self, page: int) -> str:
        """Return what goes wrong with this request, "" for nothing, and count it as done."""
        for pending in self._pending:
            if pending.mishap.page in (0, page):
                pending.left -= 1
                if not pending.left:
                    self._pending.remove(pending)
                return pending.mishap.name
        return ""

    # ---- answering

    async def handle(self, call: Call) -> Reply:
        """Answer one request: what is to go wrong, then key and limits, then the API itself."""
        self.log.append(call)
        name = self.mishap(self.page_of(call))
        if name in self.replies:
            return self.replies[name]()
        if refused := self.refuse(call):
            return refused
        return await self.answer(call, name)

    def page_of(self, call: Call) -> int:
        """Return which page of the list is asked for, from 1; 0 for another request."""
        raise NotImplementedError

    def refuse(self, call: Call) -> Reply | None:
        """Return the refusal of a request by its key or by a limit."""
        raise NotImplementedError

    def answer(self, call: Call, twist: str) -> Awaitable[Reply]:
        """Return the answer to a request; twist: what is wrong with it, "" for nothing."""
        raise NotImplementedError
