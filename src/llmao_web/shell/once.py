"""One look at everything, for people who want to know what llmao would do.

Rule of this file: the real runners, prober and reconcile, and nobody who writes. It looks until
nothing more is to be learned soon, or until its time is over.
"""

import asyncio

from attrs import evolve, field, frozen

from llmao_core.config import Config
from llmao_core.errors import LlmaoError
from llmao_core.intended import build
from llmao_core.plan import Plan, Policy
from llmao_core.probes import ProbeReport, Probes, Target
from llmao_core.reconcile import reconcile
from llmao_core.records import ProbeSpec, SignalKind, View
from llmao_core.snapshots import Health

from .board import Board
from .clock import Clock, wait_for_any
from .crew import Crew
from .host import PluginHost
from .loop import FAILED, Loop, Offload, Reconcile
from .probing import Probing
from .store import Store

OPINION_TAKES_S = 30.0


@frozen
class Looked:
    """What one look came to. settled: nothing more was to be learned soon.

    unread: sources that could not be read, with the reason.
    """

    view: View
    plan: Plan
    settled: bool
    unread: tuple[tuple[str, str], ...]


async def look_once(
    config: Config,
    host: PluginHost,
    clock: Clock,
    store: Store,
    *,
    reconcile: Reconcile = reconcile,
    offload: Offload = asyncio.to_thread,
) -> Looked:
    """Read every source and probe every target until it settles; change nothing.

    Failing targets are probed up to the threshold and LiteLLM is asked about them; the check of
    everything, which costs tokens, is not made. Raises LlmaoError when no pass came to an end.
    """
    board = Board(clock)
    kept = await store.kept()
    board.intend(build(config, kept.approvals, kept.labels))
    board.place(kept.placed)
    probing = Probing(config, clock, board.changed)
    board.probes = probing.probes
    crew = Crew(host, board, clock)
    crew.apply(evolve(config, fleet=evolve(config.fleet, litellm_health_interval_s=0.0)))
    watch = _Watch(config, board)
    loop = Loop(
        board,
        clock,
        store,
        reconcile,
        policy=lambda: Policy.of(config.policy, config.brake),
        hands=watch,
        readers=crew,
        prober=probing,
        offload=offload,
    )
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each.run()) for each in (crew, probing, loop)]
            await wait_for_any(clock, _longest_s(config), watch.settled)
            for task in tasks:
                task.cancel()
    finally:
        await host.aclose()
    return _looked(board, settled=watch.settled.is_set())


def _longest_s(config: Config) -> float:
    fleet = config.fleet
    probes_s = fleet.health_fail_threshold * (fleet.health_interval_s + fleet.health_timeout_s)
    return probes_s + fleet.canary.timeout_s + OPINION_TAKES_S


def _looked(board: Board, *, settled: bool) -> Looked:
    view, plan = board.view(), board.plan()
    if view is None or plan is None:
        raise LlmaoError("No pass came to an end in time.")
    if failed := [item.sentence for item in view.items if item.id == FAILED]:
        raise LlmaoError(failed[0])
    unread = tuple(
        (name, f"{trouble.kind}: {trouble.message}" if trouble else "it was not read in time")
        for name, trouble in board.unread()
    )
    return Looked(view, plan, settled, unread)


@frozen
class _Known:
    """What the board had when a pass ended; the next pass has seen at least that."""

    ready: bool = False
    probes: Probes = field(factory=Probes)
    health: Health = field(factory=Health)


class _Watch:
    """Stands where the executor stands, and looks whether anything is still to come.

    A pass is judged by what the board had before it began: what came in meanwhile is in the next.
    """

    def __init__(self, config: Config, board: Board) -> None:
        self.settled = asyncio.Event()
        self._threshold = config.fleet.health_fail_threshold
        self._board = board
        self._revision = -1
        self._known = _Known()
        self._probed: dict[Target, set[float]] = {}

    def take(self, plan: Plan, revision: int) -> None:
        """Look at what a pass came to, and carry out nothing."""
        view = self._board.view()
        assert view is not None
        if self._known.ready and not self._asking(plan) and not self._probing(view):
            self.settled.set()
        health = self._board.health().snapshot
        self._known = _Known(
            self._board.ready()[0], self._board.probes(), health.body if health else Health()
        )
        for target, report in self._known.probes.reports.items():
            self._probed.setdefault(target, set()).add(report.probed_at)
        if self._revision != revision:
            self._board.wake.set()
        self._revision = revision

    def _asking(self, plan: Plan) -> bool:
        asked = self._known.health.asked
        return any(
            each not in asked or asked[each].answered_at is None for each in (*plan.asks, *asked)
        )

    def _probing(self, view: View) -> bool:
        failing = any(
            record.signal.kind is SignalKind.FAILED and record.fails < self._threshold
            for record in view.records
        )
        return failing or any(self._to_come(spec) for spec in view.targets)

    def _to_come(self, spec: ProbeSpec) -> bool:
        probes = self._known.probes
        report = probes.reports.get(spec.target)
        if report is None:
            return True
        if spec.canary_due is not None and spec.target not in probes.canaries:
            return True
        if spec.open_due is not None and spec.target not in probes.open_paths:
            return True
        return not _good(report) and len(self._probed[spec.target]) < self._threshold


def _good(report: ProbeReport) -> bool:
    keyed = report.identity is None or (
        report.identity.keyed is not None and report.identity.keyed.ok
    )
    return report.health.ok and keyed
