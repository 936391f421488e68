"""The crew: which runners run, for the configuration in force.

Rule of this file: a source whose settings did not change keeps its runner, and so its backoff;
one that now looks at another place loses what was seen at the old one.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from attrs import define

from llmao_core.actions import ActionKind
from llmao_core.config import Config
from llmao_core.hooks import SourceCard, SourceKind
from llmao_core.plan import Plan

from .board import Board
from .clock import Clock
from .health import HealthRunner
from .host import PluginHost
from .outside import AccessRunner, Keep
from .runners import DeploymentsRunner, Runner
from .sources import Source, sources


@define
class _Member:
    runner: Runner
    settings: tuple[object, ...]
    task: asyncio.Task[Any] | None = None


class Crew:
    """All runners. `run` starts them; `apply` may be called before and while they run.

    keep: takes outside edits; without it nobody looks for any.
    """

    def __init__(
        self, host: PluginHost, board: Board, clock: Clock, keep: Keep | None = None
    ) -> None:
        self._host = host
        self._board = board
        self._clock = clock
        self._keep = keep
        self._members: dict[str, _Member] = {}
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Run every runner for ever."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            for member in self._members.values():
                self._start(member)
            await asyncio.Event().wait()

    def runners(self) -> Mapping[str, Runner]:
        """Return the runners by the name of their source."""
        return {name: member.runner for name, member in self._members.items()}

    def apply(self, config: Config) -> None:
        """Start, replace and stop runners so that they fit a configuration."""
        cards = [each for each in self._host.cards() if self._keep or not _of_access(each)]
        wanted = {each.name: each for each in sources(config, cards)}
        for name in self._members.keys() - wanted.keys():
            self._stop(name)
            self._board.forget(name)
        for name, source in wanted.items():
            self._apply_one(name, source, config)

    def follow(self, plan: Plan) -> None:
        """Read and ask what a plan wants for the next pass.

        A source goes by the name of its card, or by its kind where a plan knows no card.
        """
        for name, member in self._members.items():
            kind = member.runner.source.card.kind.value
            member.runner.wish(plan.reads.get(name, plan.reads.get(kind)))
            if isinstance(member.runner, HealthRunner):
                member.runner.ask(plan.asks)

    def check(self, litellm_id: str) -> None:
        """Have LiteLLM check one id now."""
        for member in self._members.values():
            if isinstance(member.runner, HealthRunner):
                member.runner.ask((litellm_id,))

    def reread_deployments(self, at: float) -> None:
        """Have the LiteLLM deployments read at once, and once more at `at`."""
        for member in self._members.values():
            if member.runner.source.card.kind is SourceKind.DEPLOYMENTS:
                member.runner.appoint(self._clock.now())
                member.runner.appoint(at)

    def _apply_one(self, name: str, source: Source, config: Config) -> None:
        settings = _settings(source, config)
        known = self._members.get(name)
        if known and known.settings == settings:
            return
        if known:
            self._stop(name)
            if _place(known.runner.source) != _place(source):
                self._board.forget(name)
        reboots = ActionKind.REBOOT_BOX in source.card.executes
        self._board.configure(name, source.card.kind, source.interval_s, reboots=reboots)
        self._members[name] = _Member(self._runner(source, config), settings)
        if self._group:
            self._start(self._members[name])

    def _runner(self, source: Source, config: Config) -> Runner:
        parts = (source, self._host, self._board, self._clock)
        if source.card.kind is SourceKind.DEPLOYMENTS:
            return DeploymentsRunner(*parts, config.litellm.poll_interval_s)
        if source.card.kind is SourceKind.HEALTH:
            return HealthRunner(
                *parts,
                fleet=config.fleet.name,
                paid_interval_s=config.fleet.litellm_health_interval_s,
            )
        if self._keep and _of_access(source.card):
            return AccessRunner(*parts, self._keep)
        return Runner(*parts)

    def _start(self, member: _Member) -> None:
        assert self._group is not None
        member.task = self._group.create_task(member.runner.run())

    def _stop(self, name: str) -> None:
        member = self._members.pop(name)
        if member.task:
            member.task.cancel()


def _of_access(card: SourceCard) -> bool:
    return card.kind is SourceKind.ACCESS


def _settings(source: Source, config: Config) -> tuple[object, ...]:
    """Return all that a runner is made from."""
    extras = (
        config.litellm.poll_interval_s,
        config.fleet.name,
        config.fleet.litellm_health_interval_s,
    )
    return (source, *(extras if source.card.kind is not SourceKind.LISTING else ()))


def _place(source: Source) -> tuple[object, ...]:
    """Return where a source looks; a section may name an account, LiteLLM's has no such thing."""
    request = source.request
    listing = source.card.kind is SourceKind.LISTING
    return request.base_url, request.section if listing else None
