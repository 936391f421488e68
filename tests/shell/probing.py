"""What the prober's tests share: specs, and a prober that runs beside the test."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import httpx

from llmao_core.config import Mode as ModelMode
from llmao_core.probes import ProbeReport, Probes, Target
from llmao_core.records import ProbeSpec
from llmao_core.secret import Secret
from llmao_web.shell.clock import Clock, SystemClock
from llmao_web.shell.probe import Prober
from llmao_web.shell.probe_http import new_transport

BEARER = Secret("sk-vllm-right")
LONG_S = 10.0
SHORT_S = 0.4
CLOCK = SystemClock()


def spec(
    base: str,
    due_at: float = 0.0,
    *,
    identity: bool = True,
    metrics: bool = True,
    served: str = "tiny",
    mode: ModelMode = "chat",
    canaries: int = 0,
    canary_due: float | None = None,
    open_due: float | None = None,
) -> ProbeSpec:
    return ProbeSpec(
        Target(base, "right"), BEARER, served, mode, due_at, identity, metrics, canaries,
        canary_due, open_due,
    )  # fmt: skip


class Bench:
    """A prober, and a way to wait until its reports say something."""

    def __init__(
        self,
        clock: Clock = CLOCK,
        timeout_s: float = LONG_S,
        canary_timeout_s: float = LONG_S,
        concurrency: int = 64,
        transport: Callable[[], httpx.AsyncBaseTransport] = new_transport,
    ) -> None:
        self.landed = 0
        self._news = asyncio.Event()
        self.prober = Prober(
            clock, transport, self._changed, timeout_s, canary_timeout_s, concurrency=concurrency
        )

    def _changed(self) -> None:
        self.landed += 1
        self._news.set()

    async def until(self, holds: Callable[[Probes], object]) -> Probes:
        """Return the reports as soon as the condition holds of them."""
        async with asyncio.timeout(20):
            while not holds(probes := self.prober.probes()):
                self._news.clear()
                await self._news.wait()
        return probes

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.prober.run())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def probe_once(asked: ProbeSpec, timeout_s: float = LONG_S) -> Probes:
    return await Bench(timeout_s=timeout_s, canary_timeout_s=timeout_s).prober.probe_once((asked,))


async def report_of(asked: ProbeSpec, timeout_s: float = LONG_S) -> ProbeReport:
    return (await probe_once(asked, timeout_s)).reports[asked.target]
