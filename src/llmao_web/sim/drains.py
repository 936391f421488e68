"""What a person drained in the world, and what must be so because of it.

Rule of this file: a drain counts from its acknowledgement. What was asked and not acknowledged
may be kept or not, and nothing is expected of it.
"""

from attrs import define, field

from llmao_core.intended import Deployment, Labels
from llmao_core.keys import Key


@define(eq=False)
class Drains:
    """What one person drained: a host by its name, or a key.

    drained, lifted: since when, by the acknowledgement. unsure: asked for, not acknowledged.
    """

    drained: dict[str | Key, float] = field(factory=dict)
    lifted: dict[str | Key, float] = field(factory=dict)
    unsure: set[str | Key] = field(factory=set)

    def acknowledged(self, what: str | Key, at: float, *, drained: bool) -> None:
        """Note what is so from now on."""
        self.unsure.discard(what)
        now, before = (self.drained, self.lifted) if drained else (self.lifted, self.drained)
        before.pop(what, None)
        now[what] = at

    def since(self, deployment: Deployment) -> float | None:
        """Return since when a deployment must be kept out; None when it need not be."""
        times = [self.drained[one] for one in _names(deployment) if one in self._sure]
        return min(times, default=None)

    @property
    def _sure(self) -> set[str | Key]:
        return self.drained.keys() - self.unsure

    def may_be_out(self, deployment: Deployment, since: float = float("inf")) -> bool:
        """Tell whether a deployment is drained, may be, or was until a time ago."""
        return any(
            one in self.drained or one in self.unsure or self.lifted.get(one, 0.0) > since
            for one in _names(deployment)
        )

    def lost(self, labels: Labels, until: float) -> list[str]:
        """Return what was acknowledged until a time, and is otherwise in what llmao knows."""
        known = labels.drained_hosts | labels.drained_keys
        lost = [f"the drain of {one}" for one in self._sure - known if self.drained[one] <= until]
        back = [f"the end of the drain of {one}" for one in self.lifted.keys() - self.unsure
                if one in known and self.lifted[one] <= until]  # fmt: skip
        return sorted(lost + back)


def _names(deployment: Deployment) -> tuple[str | Key, str | Key]:
    return deployment.host, deployment.key
