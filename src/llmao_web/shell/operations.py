"""What runs beside the passes for those who operate llmao: samples, notifications, outside edits.

Rule of this file: composition only; nothing here has a say in what is done to LiteLLM.
"""

import asyncio
from collections.abc import Sequence

from llmao_core.config import Config

from .board import Board
from .capacity import CapacitySampler
from .clock import Clock
from .leader import Lead
from .ledger import Entry
from .notify import Notifier, Notifies
from .store import Writes


class Operations:
    """The sampler and the notifier; `lead` tells whether this replica is the one to do it."""

    def __init__(
        self, host: Notifies, board: Board, store: Writes, clock: Clock, lead: Lead
    ) -> None:
        self._store = store
        self._lead = lead
        self._sampler = CapacitySampler(board, store, clock, lead.leads)
        self._notifier = Notifier(board, host, clock, lead.leads)
        board.counts.leader.set_function(lambda: float(lead.leads()))

    def apply(self, config: Config) -> None:
        """Put a configuration in force."""
        self._notifier.apply(config)

    async def run(self) -> None:
        """Run for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._sampler.run())
            group.create_task(self._notifier.run())

    async def keep(self, edits: Sequence[Entry]) -> None:
        """Keep outside edits; each replica sees them, and one writes them down."""
        if self._lead.leads():
            await self._store.append(*edits)
