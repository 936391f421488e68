"""A key that is known in every respect, and what a pass makes of it.

Rule of this file: no field of KNOWN is what a new history would have, so that losing one shows.
"""

from typing import Any

from tests.core.deciding.reports import WELL
from tests.core.deciding.scenes import AT_LISTEN, AT_PUBLIC, NOW, entry, fleet, scene

from llmao_core.fold import fold_key
from llmao_core.history import HostHistory, KeyHistory, Seen
from llmao_core.probes import ProbeReport, Probes, Target
from llmao_core.records import SignalKind

MAIN = Target(AT_LISTEN, fleet().deployments[0].bearer_id)
AT_ROW = Target(AT_PUBLIC, MAIN.bearer_id)
SEEN = Seen(NOW - 10.0, SignalKind.OK, oks=3, last_ok=NOW - 10.0, identity=True)
KNOWN = KeyHistory(
    seen={MAIN: SEEN},
    instance_id="4711",
    dialable=AT_LISTEN,
    handout=NOW - 60.0,
    last_handout=NOW - 50.0,
    last_ok=NOW - 10.0,
    removals=(NOW - 500.0,),
    row_seen=True,
    broken=NOW - 400.0,
    outside=NOW - 300.0,
    excused=NOW - 200.0,
)
HOST = HostHistory("vast", "4711", counted=NOW - 30.0)


def folded(
    known: KeyHistory | None = KNOWN, host: HostHistory | None = HOST, **usable: Any
) -> KeyHistory:
    return fold_key(known, entry(), host, scene(**usable))[0]


def probed(at: float, target: Target = MAIN) -> Probes:
    return Probes(reports={target: ProbeReport(at, 0.1, WELL)})
