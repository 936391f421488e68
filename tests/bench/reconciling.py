"""llmao's application in a process that reconciles a fleet of 2 000 deployments meanwhile.

Rule of this file: board, loop, reconcile and application are the real ones; only what probes and
what writes are left out. Every deployment is Healthy and routed, and reports come in as a sweep
of 6 s brings them, so that a pass follows a pass.
"""

import asyncio
from typing import Any

from attrs import evolve

from llmao_core.hooks import SourceKind
from llmao_core.intended import build
from llmao_core.plan import Plan, Policy
from llmao_core.probes import ProbeReport, Probes, Reply, ReplyKind
from llmao_core.reconcile import reconcile
from llmao_core.records import ProbeSpec
from llmao_core.secret import Secret
from llmao_core.snapshots import Deployments, Snapshot
from llmao_web.app import create_app
from llmao_web.shell.board import Board
from llmao_web.shell.clock import SystemClock
from llmao_web.shell.loop import Loop
from llmao_web.shell.store import MemoryStore

from .bench_pass import make_fleet

KEYS = 2000
SWEEP_S = 6.0
STEP_S = 0.03


class Nobody:
    """Takes plans and specs, and does nothing about them."""

    def take(self, plan: Plan, revision: int) -> None:
        """Carry out nothing."""

    def follow(self, plan: Plan) -> None:
        """Read nothing."""

    def aim(self, specs: tuple[ProbeSpec, ...]) -> None:
        """Probe nothing."""


def reconciling_app(key: str) -> tuple[Any, Any]:
    """Return the application, and what to run beside it."""
    fleet, clock = make_fleet(KEYS), SystemClock()
    config = fleet.intended.config
    config = evolve(config, fleet=evolve(config.fleet, key=(Secret(key),)))
    board, nobody = Board(clock), Nobody()
    now = clock.now()
    board.intend(build(config))
    board.configure("vast", SourceKind.LISTING, 1e6)
    board.configure("litellm", SourceKind.DEPLOYMENTS, 1e6)
    board.publish("vast", Snapshot(now, fleet.listing))
    board.publish("litellm", Snapshot(now, Deployments(fleet.rows)))
    reports = {target: evolve(each, probed_at=now) for target, each in fleet.reports.items()}
    board.probes = lambda: Probes(dict(reports))
    loop = Loop(
        board,
        clock,
        MemoryStore(),
        reconcile,
        policy=Policy,
        hands=nobody,
        readers=nobody,
        prober=nobody,
    )

    async def probe() -> None:
        targets = list(reports)
        at_once = round(KEYS / SWEEP_S * STEP_S)
        place = 0
        while True:
            await clock.sleep(STEP_S)
            for _ in range(at_once):
                target, place = targets[place % KEYS], place + 1
                reports[target] = ProbeReport(clock.now(), 0.01, Reply(ReplyKind.ANSWERED, 200))
            board.changed()

    async def beside() -> None:
        await asyncio.gather(probe(), loop.run())

    return create_app(board, config, clock), beside
