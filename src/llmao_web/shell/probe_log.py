"""The log of probes: how the newest requests to each target ended, for people to look at.

Rule of this file: bounded and forgetful. Nothing is concluded from it; no pass ever reads it.
"""

from collections import deque
from collections.abc import Container, Sequence

from attrs import frozen

from llmao_core.probes import CanaryReport, OpenPathsReport, ProbeReport, Reply, Target

KEPT = 20
AnyReport = ProbeReport | CanaryReport | OpenPathsReport


@frozen
class Step:
    """One request of a probe, and how it ended. what: what was asked for, in words."""

    what: str
    reply: Reply


@frozen
class Probed:
    """One probe of one target. at: when it began, epoch seconds.

    took_s: until its last answer, None where nobody measured. open_paths: what did work without
    a bearer; None when that was not asked.
    """

    at: float
    took_s: float | None
    steps: tuple[Step, ...] = ()
    open_paths: tuple[str, ...] | None = None


class ProbeLog:
    """The newest probes of every target that is aimed at."""

    def __init__(self) -> None:
        self._kept: dict[Target, deque[Probed]] = {}

    def add(self, target: Target, report: AnyReport) -> None:
        """Keep what a probe reported; the oldest goes."""
        kept = self._kept.get(target)
        if kept is None:
            kept = self._kept[target] = deque(maxlen=KEPT)
        kept.append(_probed(report))

    def retain(self, targets: Container[Target]) -> None:
        """Drop what is known of all other targets."""
        for target in [each for each in self._kept if each not in targets]:
            del self._kept[target]

    def of(self, target: Target) -> Sequence[Probed]:
        """Return what is known of one target, the newest end first; () for nothing."""
        return tuple(reversed(self._kept.get(target, ())))


def _probed(report: AnyReport) -> Probed:
    match report:
        case ProbeReport():
            return Probed(report.probed_at, report.took_s, tuple(_steps(report)))
        case CanaryReport():
            took_s = report.answered_at - report.asked_at
            return Probed(
                report.asked_at, took_s, tuple(Step("completion", one) for one in report.replies)
            )
        case OpenPathsReport():
            return Probed(report.asked_at, None, open_paths=report.open_paths)


def _steps(report: ProbeReport) -> list[Step]:
    identity = report.identity
    asked = (
        ("health", report.health),
        ("models without a key", identity.keyless if identity else None),
        ("models", identity.keyed if identity else None),
        ("metrics", report.metrics),
    )
    return [Step(what, reply) for what, reply in asked if reply is not None]
