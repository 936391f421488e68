"""The prober for the configuration in force.

Rule of this file: a prober that fails is started again; no probes are no news, never bad news.
"""

import asyncio
from collections.abc import Callable

import httpx

from llmao_core.config import Config
from llmao_core.probes import Probes
from llmao_core.records import ProbeSpec

from .clock import Clock
from .probe import Prober
from .probe_http import new_transport
from .probe_log import ProbeLog
from .unexpected import log_unexpected

AGAIN_S = 1.0


class Probing:
    """The prober for the configuration in force; replaced when its time limits change.

    log: the newest probes of each target, whichever prober made them.
    """

    def __init__(
        self,
        config: Config,
        clock: Clock,
        changed: Callable[[], None],
        transport: Callable[[], httpx.AsyncBaseTransport] = new_transport,
    ) -> None:
        self.log = ProbeLog()
        self._clock = clock
        self._changed = changed
        self._transport = transport
        self._specs: tuple[ProbeSpec, ...] = ()
        self._limits = _limits(config)
        self._prober = self._made()
        self._replaced = asyncio.Event()

    def apply(self, config: Config) -> None:
        """Take the time limits of a configuration."""
        if self._limits != _limits(config):
            self._limits = _limits(config)
            self._prober = self._made()
            self._prober.aim(self._specs)
            self._replaced.set()

    def aim(self, specs: tuple[ProbeSpec, ...]) -> None:
        """Replace what is to be asked."""
        self._specs = specs
        self._prober.aim(specs)

    def probes(self) -> Probes:
        """Return the newest reports."""
        return self._prober.probes()

    async def run(self) -> None:
        """Probe for ever; a prober that fails is logged and started again."""
        while True:
            self._replaced.clear()
            task = asyncio.create_task(self._prober.run())
            replaced = asyncio.create_task(self._replaced.wait())
            try:
                await asyncio.wait([task, replaced], return_when=asyncio.FIRST_COMPLETED)
            finally:
                replaced.cancel()
                task.cancel()
                await asyncio.wait([task])
            if not task.cancelled() and (error := task.exception()) is not None:
                log_unexpected("prober", error)
                await self._clock.sleep(AGAIN_S)

    def _made(self) -> Prober:
        return Prober(self._clock, self._transport, self._changed, *self._limits, log=self.log)


def _limits(config: Config) -> tuple[float, float]:
    return config.fleet.health_timeout_s, config.fleet.canary.timeout_s
