"""The prober: asks every target what is due there, and holds the newest report of each kind.

Rule of this file: dials and reports, decides nothing. When something is due stands on the
ProbeSpec; a question is put when its time is newer than the last time it was put. Never two
questions of one kind to one target at once, and a bound on each kind: one hung box costs one slot.
"""

import asyncio
import heapq
import itertools
import resource
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeVar

import httpx
import structlog
from attrs import define, field

from llmao_core.probes import CanaryReport, OpenPathsReport, ProbeReport, Probes, Target
from llmao_core.records import ProbeSpec

from .clock import Clock, wait_for_any
from .probe_http import mask
from .probe_log import AnyReport, ProbeLog
from .probe_steps import Steps, can_ask_canary

CONCURRENCY = 256
_CANARY_SLOTS = 32
_OPEN_PATHS_SLOTS = 8
# Probes may hold half of the process's descriptors; a probe has two connections at once.
_DESCRIPTORS_PER_SLOT = 4
# Questions due this close to each other are put together: thousands would wake the loop singly.
_TOGETHER_S = 0.02
_IDLE_S = 60.0
_NOTE_EVERY_S = 60.0
_NEVER = float("-inf")

R = TypeVar("R", bound=AnyReport)

log = structlog.get_logger(__name__)


def _probe_due(spec: ProbeSpec) -> float | None:
    return spec.due_at


def _canary_due(spec: ProbeSpec) -> float | None:
    return spec.canary_due if can_ask_canary(spec) else None


def _open_due(spec: ProbeSpec) -> float | None:
    return spec.open_due


@define(eq=False)
class _Lane(Generic[R]):
    """One kind of question.

    put: asks one target; None is no report. slots: how many at once. begun: when each target was
    last asked. under_way: who is being asked, or waits for a slot.
    """

    name: str
    due: Callable[[ProbeSpec], float | None]
    put: Callable[[Steps, ProbeSpec], Awaitable[R | None]]
    slots: asyncio.Semaphore
    reports: dict[Target, R] = field(factory=dict)
    begun: dict[Target, float] = field(factory=dict)
    under_way: dict[Target, asyncio.Task[None]] = field(factory=dict)

    def due_at(self, spec: ProbeSpec) -> float | None:
        """Return when to ask; None when it is not to be asked or already was."""
        due = self.due(spec)
        return due if due is not None and due > self.begun.get(spec.target, _NEVER) else None

    def forget(self, specs: Mapping[Target, ProbeSpec]) -> None:
        """Drop what is known of targets no longer aimed at, and stop asking them."""
        for known in (self.begun, self.reports):
            for target in [target for target in known if target not in specs]:
                del known[target]
        for target, task in self.under_way.items():
            if target not in specs:
                task.cancel()


class Prober:
    """Probes targets as they fall due.

    transport: makes the HTTP transport (probe_http.new_transport). changed: called when a report
    lands.
    timeout_s: of a whole probe. canary_timeout_s: of one canary. concurrency: probes at once.
    log: given every report.
    """

    def __init__(
        self,
        clock: Clock,
        transport: Callable[[], httpx.AsyncBaseTransport],
        changed: Callable[[], None],
        timeout_s: float,
        canary_timeout_s: float,
        *,
        concurrency: int = CONCURRENCY,
        log: ProbeLog | None = None,
    ) -> None:
        self._clock = clock
        self._transport = transport
        self._changed = changed
        self._timeout_s = timeout_s
        self._canary_timeout_s = canary_timeout_s
        self._log = log or ProbeLog()
        slots = _affordable(concurrency)
        self._slow_slots = asyncio.Semaphore(max(slots // 2, 1))
        self._probing = _Lane[ProbeReport](
            "probe", _probe_due, Steps.probe, asyncio.Semaphore(slots)
        )
        self._canaries = _Lane[CanaryReport](
            "canary", _canary_due, Steps.canary, asyncio.Semaphore(_CANARY_SLOTS)
        )
        self._open_paths = _Lane[OpenPathsReport](
            "open paths", _open_due, Steps.open_paths, asyncio.Semaphore(_OPEN_PATHS_SLOTS)
        )
        self._lanes: tuple[_Lane[Any], ...] = (self._probing, self._canaries, self._open_paths)
        self._specs: Mapping[Target, ProbeSpec] = {}
        self._aimed = asyncio.Event()
        self._copy: Probes | None = None
        self._crashes = 0
        self._crash_noted: float | None = None

    def aim(self, specs: tuple[ProbeSpec, ...]) -> None:
        """Replace what is to be asked; drop what was learned about other targets."""
        before, self._specs = self._specs, {spec.target: spec for spec in specs}
        if before.keys() != self._specs.keys():
            for lane in self._lanes:
                lane.forget(self._specs)
            self._log.retain(self._specs)
            self._copy = None
        self._aimed.set()

    def probes(self) -> Probes:
        """Return the newest reports; the same object until another one lands."""
        if self._copy is None:
            self._copy = Probes(
                reports=dict(self._probing.reports),
                canaries=dict(self._canaries.reports),
                open_paths=dict(self._open_paths.reports),
            )
        return self._copy

    async def run(self) -> None:
        """Ask whatever falls due, until cancelled."""
        async with self._transport() as transport, asyncio.TaskGroup() as group:
            steps = self._steps(transport)
            agenda: list[_Entry] = []
            while True:
                if self._aimed.is_set():
                    self._aimed.clear()
                    agenda = self._agenda()
                wait_s = self._start_due(agenda, group, steps)
                await wait_for_any(self._clock, wait_s, self._aimed)

    async def probe_once(self, specs: tuple[ProbeSpec, ...]) -> Probes:
        """Ask everything that stands on the specs once, whenever it is due, and keep nothing.

        Raises OSError, in a group, when llmao itself cannot open connections.
        """
        async with self._transport() as transport:
            steps = self._steps(transport)
            reports, canaries, open_paths = await asyncio.gather(
                _put_all(self._probing, steps, specs),
                _put_all(self._canaries, steps, specs),
                _put_all(self._open_paths, steps, specs),
            )
        return Probes(reports, canaries, open_paths)

    def _steps(self, transport: httpx.AsyncBaseTransport) -> Steps:
        return Steps(self._clock, transport, self._timeout_s, self._canary_timeout_s)

    # ---- when

    def _agenda(self) -> "list[_Entry]":
        """Return what is to be asked, as a heap by time."""
        order = itertools.count()
        agenda = [
            (due, next(order), lane, target)
            for lane in self._lanes
            for target, spec in self._specs.items()
            if (due := lane.due_at(spec)) is not None and target not in lane.under_way
        ]
        heapq.heapify(agenda)
        return agenda

    def _start_due(self, agenda: "list[_Entry]", group: asyncio.TaskGroup, steps: Steps) -> float:
        """Start what is due and return how long to wait for the next."""
        now = self._clock.now()
        while agenda and agenda[0][0] <= now:
            _due, _order, lane, target = heapq.heappop(agenda)
            self._start(group, steps, lane, target)
        wait_s = agenda[0][0] - now if agenda else _IDLE_S
        return min(max(wait_s, _TOGETHER_S), _IDLE_S)

    def _start(
        self, group: asyncio.TaskGroup, steps: Steps, lane: _Lane[Any], target: Target
    ) -> None:
        def ended(_: asyncio.Task[None]) -> None:
            del lane.under_way[target]
            spec = self._specs.get(target)
            if spec is not None and lane.due_at(spec) is not None:
                self._aimed.set()

        lane.under_way[target] = task = group.create_task(self._ask(steps, lane, target))
        task.add_done_callback(ended)

    # ---- one question

    async def _ask(self, steps: Steps, lane: _Lane[R], target: Target) -> None:
        report: R | None = None
        try:
            async with self._slot(lane, target):
                spec = self._wanted(lane, target)
                if spec is None:
                    return
                lane.begun[target] = self._clock.now()
                report = await lane.put(steps, spec)
        except Exception as error:  # our own trouble says nothing about the target: no report
            self._note_crash(lane.name, target, error)
        if report is None:
            await self._clock.sleep(self._timeout_s)
            lane.begun.pop(target, None)
        else:
            lane.reports[target] = report
            self._log.add(target, report)
            self._copy = None
            self._changed()

    def _wanted(self, lane: _Lane[R], target: Target) -> ProbeSpec | None:
        """Return the spec as it stands now: it may have changed while waiting for a slot."""
        spec = self._specs.get(target)
        due = lane.due_at(spec) if spec is not None else None
        return spec if due is not None and due <= self._clock.now() else None

    @asynccontextmanager
    async def _slot(self, lane: _Lane[R], target: Target) -> AsyncIterator[None]:
        """Hold one of the lane's slots; targets that were slow share half of the probing slots.

        A cause shared by many boxes then delays only them.
        """
        last = self._probing.reports.get(target)
        if lane is not self._probing or last is None or last.took_s < self._timeout_s / 2:
            async with lane.slots:
                yield
        else:
            async with self._slow_slots, lane.slots:
                yield

    def _note_crash(self, what: str, target: Target, error: Exception) -> None:
        """Log it, at most once a minute: what fails for one fails for thousands."""
        self._crashes += 1
        now = self._clock.monotonic()
        if self._crash_noted is not None and now - self._crash_noted < _NOTE_EVERY_S:
            return
        self._crash_noted = now
        log.error(
            "probe failed by llmao's own fault",
            what=what,
            target=target.base,
            error=mask(repr(error), None),
            times=self._crashes,
        )


_Entry = tuple[float, int, _Lane[Any], Target]


async def _put_all(lane: _Lane[R], steps: Steps, specs: Iterable[ProbeSpec]) -> dict[Target, R]:
    reports: dict[Target, R] = {}

    async def put(spec: ProbeSpec) -> None:
        async with lane.slots:
            report = await lane.put(steps, spec)
        if report is not None:
            reports[spec.target] = report

    async with asyncio.TaskGroup() as group:
        for spec in specs:
            if lane.due(spec) is not None:
                group.create_task(put(spec))
    return reports


def _affordable(concurrency: int) -> int:
    """Return how many probes at once the process's descriptors allow."""
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return max(concurrency, 1)
    return max(min(concurrency, soft // _DESCRIPTORS_PER_SLOT), 1)
