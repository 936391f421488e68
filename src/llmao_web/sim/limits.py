"""How long things may take: the sums of what the rules need, in seconds.

Rule of this file: every figure is of the configuration or of the rules; what is added for the
wire and for passes is named here and nowhere else.
"""

from attrs import frozen

from llmao_core.aim import CANARY_AGAIN_S, HUNG_AGAIN_S, IDENTITY_EVERY, RETRY_S
from llmao_core.config import FleetConfig
from llmao_core.restrain import ASK_AGAIN_S

from .boxes import Condition

MOST_OKS = 32
# A check that LiteLLM makes, with the pauses before its saved result is looked up.
OPINION_S = 30.0
# Passes, a write of 0.2 s to each row, the latency of the wire.
SLACK_S = 15.0
# A read asked for at once may be refused as too early and be tried again.
LISTING_S = 20.0
# Writes are made one after the other; two before this one may run into their time-out.
WRITES_S = 60.0


def backoff_s(failures: int, *, removes: bool) -> float:
    """Return how long a write may wait after so many failures in a row."""
    return min(5.0 * 2.0 ** min(failures - 1, 16), 20.0 if removes else 300.0)


@frozen
class Limits:
    """The limits of one configuration. poll_s: LiteLLM's poll interval.

    told_s: how long the llmao that leads may not know what another was told.
    """

    fleet: FleetConfig
    poll_s: float
    told_s: float = 0.0

    @property
    def probe_s(self) -> float:
        """Return how long until a server has been probed again, and failed or not."""
        return self.fleet.health_interval_s + self.fleet.health_timeout_s

    @property
    def read_s(self) -> float:
        """Return how long until LiteLLM has been read, by a worker that lags."""
        return self.again_s + self.poll_s + SLACK_S

    @property
    def again_s(self) -> float:
        """Return after how long a source that failed is read again, at the latest."""
        return self.fleet.skew_interval_s * 1.1

    @property
    def pending_s(self) -> float:
        """Return for how long a row is left alone after a write, with the read that ends it."""
        return self.poll_s + SLACK_S

    @property
    def heeded_s(self) -> float:
        """Return how long after a decision a write may begin that was planned before it."""
        return SLACK_S + self.told_s

    @property
    def begun_s(self) -> float:
        """Return how long after it was planned a write may begin: after those before it."""
        return self.heeded_s + WRITES_S

    @property
    def drained_s(self) -> float:
        """Return for how long the row of a drained key may stay: until LiteLLM has been read."""
        return self.read_s + self.pending_s + SLACK_S + self.told_s

    def knowable_s(self, *, reached: bool) -> float:
        """Return how long a server must have served for llmao to have seen it, or LiteLLM."""
        seen_s = 2 * self.probe_s + SLACK_S
        if reached:
            return seen_s
        return seen_s + self.fleet.health_fail_threshold * self.probe_s + ASK_AGAIN_S + OPINION_S

    def absent_s(self, removals: int) -> float:
        """Return for how long a serving server may have no row; removals: of the last hour."""
        oks = min(2.0**removals, MOST_OKS)
        proof_s = CANARY_AGAIN_S + self.fleet.canary.timeout_s
        waits_s = self.read_s + self.pending_s + self.told_s
        return self.probe_s * (oks + 1) + proof_s + waits_s + SLACK_S

    def present_s(self, condition: Condition) -> float:
        """Return for how long the row of a dead server may stay."""
        fleet, threshold = self.fleet, self.fleet.health_fail_threshold
        opinion_s = ASK_AGAIN_S + OPINION_S
        found_s = self.probe_s + LISTING_S + SLACK_S
        if condition is Condition.CLOSED:
            return found_s + threshold * (RETRY_S + SLACK_S / 10)
        if condition in (Condition.SILENT, Condition.DOWN):
            return found_s + threshold * self.probe_s + opinion_s
        if condition is Condition.HUNG:
            canary_s = HUNG_AGAIN_S + fleet.canary.timeout_s
            return found_s + fleet.canary.silent_s + 2 * self.probe_s + canary_s + opinion_s
        return found_s + (IDENTITY_EVERY + 2) * self.probe_s + opinion_s
