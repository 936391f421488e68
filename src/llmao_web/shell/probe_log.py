"""The log of probes: how the newest requests to each target ended, for people to look at.

Rule of this file: bounded and forgetful. Nothing is concluded from it; no pass ever reads it.
"""

from collections import deque
from collections.abc import Container, Sequence

from attrs import evolve, frozen

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
    """One probe of one target, or several in a row that ended alike. at: when the newest began.

    first: when the oldest of them did; both epoch seconds. took_s: until the newest's last
    answer, None where nobody measured. open_paths: what did work without a bearer; None when that
    was not asked.
    """

    at: float
    first: float
    took_s: float | None
    steps: tuple[Step, ...] = ()
    open_paths: tuple[str, ...] | None = None
    times: int = 1

    def ended_like(self, other: "Probed") -> bool:
        """Tell whether the same was asked and answered."""
        return (self.steps, self.open_paths) == (other.steps, other.open_paths)


class ProbeLog:
    """The newest probes of every target that is aimed at."""

    def __init__(self) -> None:
        self._kept: dict[Target, deque[Probed]] = {}

    def add(self, target: Target, report: AnyReport) -> None:
        """Keep what a probe reported; the oldest goes.

        What ended as the one before it is one line with it: a dead server is probed every second,
        and its log must not reach back for twenty.
        """
        kept = self._kept.get(target)
        if kept is None:
            kept = self._kept[target] = deque(maxlen=KEPT)
        one = _probed(report)
        if kept and kept[-1].ended_like(one):
            before = kept.pop()
            one = evolve(one, first=before.first, times=before.times + 1)
        kept.append(one)

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
            at = report.probed_at
            return Probed(at, at, report.took_s, tuple(_steps(report)))
        case CanaryReport():
            at, took_s = report.asked_at, report.answered_at - report.asked_at
            return Probed(at, at, took_s, tuple(Step("completion", one) for one in report.replies))
        case OpenPathsReport():
            at = report.asked_at
            return Probed(at, at, None, open_paths=report.open_paths)


def _steps(report: ProbeReport) -> list[Step]:
    identity = report.identity
    asked = (
        ("health", report.health),
        ("models without a key", identity.keyless if identity else None),
        ("models", identity.keyed if identity else None),
        ("metrics", report.metrics),
    )
    return [Step(what, reply) for what, reply in asked if reply is not None]
