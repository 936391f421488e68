"""How often one peer may be wrong before it is told to wait.

Rule of this file: bounded memory, whoever calls; the time is an argument.
"""

import math
from collections import OrderedDict

from attrs import define, field

BURST = 10
REFILL_S = 6.0
PEERS_KEPT = 4096


@define
class Limit:
    """A token bucket per peer: `burst` at once, then one each `refill_s`; the 4096 newest peers."""

    burst: int = BURST
    refill_s: float = REFILL_S
    _full_at: OrderedDict[str, float] = field(factory=OrderedDict, init=False)

    def wait_s(self, peer: str, now: float) -> int:
        """Count one wrong request; return 0, or the whole seconds to wait. now: monotonic."""
        full_at = max(self._full_at.pop(peer, now), now) + self.refill_s
        over_s = full_at - now - self.burst * self.refill_s
        # a refused request costs no token, so that whoever waits as told is heard
        self._full_at[peer] = full_at - self.refill_s if over_s > 0 else full_at
        if len(self._full_at) > PEERS_KEPT:
            self._full_at.popitem(last=False)
        return math.ceil(over_s) if over_s > 0 else 0
