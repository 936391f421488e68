"""What benches around a FakeProvider share.

Rule of this file: an adapter and nothing more; what a provider does is in its own fake.
"""

from collections.abc import Mapping
from typing import ClassVar

import httpx

from .fake_provider import FakeProvider
from .kit import Box, ListingBench
from .kit_wire import Mishap


class RentedBench(ListingBench):
    """A bench whose boxes are rented from a fake.

    fake: to be made before `super().__init__()`. own: mishaps of a list that the fake has in its
    provider's own way; the others, and those of writes, are the wire's. word: the field that
    shows a box's status.
    """

    fake: FakeProvider
    own: ClassVar[Mapping[Mishap, str]] = {}
    word: str

    def transport(self) -> httpx.AsyncBaseTransport:
        """Reach the fake in the process."""
        return self.fake.transport()

    def plant(self, box: Box) -> str:
        """Rent a box."""
        return self.fake.plant(box.label, address=box.address, ports=box.ports, secret=box.secret)

    def show(self, box_id: str, **fields: object) -> None:
        """Let fields of its row say something else."""
        self.fake.boxes[box_id].shown |= fields

    def show_status(self, box_id: str, word: str) -> None:
        """Let its status be this word."""
        self.show(box_id, **{self.word: word})

    def truth(self) -> Mapping[str, object]:
        """Return the boxes that exist, with their ports and reboots."""
        return {
            box.id: (box.label, box.address, dict(box.ports), box.life, box.reboots)
            for box in self.fake.truth().values()
        }

    def mishap(self, kind: Mishap, *, nth: int = 1, writes: bool = False) -> None:
        """Let a list go wrong in the provider's own way where there is one."""
        if kind in self.own and not writes:
            self.fake.go_wrong(self.own[kind], page=nth)
        else:
            super().mishap(kind, nth=nth, writes=writes)
