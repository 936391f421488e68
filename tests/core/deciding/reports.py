"""Reports of one target, and a target that has lived: what the tests of signals begin with.

Rule of this file: no field of LIVED is what a new record would have, so that losing one shows.
"""

from attrs import evolve

from llmao_core.config import FleetConfig
from llmao_core.history import Canary, Cause, Seen
from llmao_core.probes import Counters, ProbeReport, Reply, ReplyKind
from llmao_core.records import SignalKind
from llmao_core.signal import fold_report

FLEET = FleetConfig(name="main")
EVERY_S = FLEET.health_interval_s
WELL, DOWN = Reply(ReplyKind.ANSWERED, 200), Reply(ReplyKind.ANSWERED, 503)
LATE = Reply(ReplyKind.TIMED_OUT)
STILL = Counters(generated=5, prompt=5, finished=5, kv_usage=0.5, running=1, waiting=1)
MOVED = Counters(generated=6, prompt=5, finished=5, kv_usage=0.5, running=1, waiting=1)
IDLE = Counters(generated=5, prompt=5, finished=5, kv_usage=0.5, running=0, waiting=0)

LIVED = Seen(
    probed_at=100.0,
    kind=SignalKind.OK,
    took_s=0.2,
    oks=7,
    run=1,
    last_ok=100.0,
    identity=True,
    checked=3,
    max_model_len=4096,
    counters=STILL,
    metrics_at=100.0,
    moved=90.0,
    silent_since=90.0,
    queued_since=40.0,
    canary=Canary.DECLINED,
    canary_at=50.0,
    canary_said="HTTP 400",
    proven_at=50.0,
    open_at=60.0,
    open_paths=("/ping",),
)
FAILING = evolve(
    LIVED,
    kind=SignalKind.FAILED,
    detail="/health: HTTP 503",
    fails=2,
    oks=0,
    last_ok=82.0,
    cause=Cause.ANSWERED,
    first_fail=88.0,
    counted=94.0,
)
HANGING = evolve(
    FAILING, detail="requests run and nothing moves", fails=3, cause=Cause.HUNG, hung=True
)


def said(status: int) -> Reply:
    return Reply(ReplyKind.ANSWERED, status)


def told(at: float, health: Reply, counters: Counters | None = None) -> ProbeReport:
    return ProbeReport(at, 0.1, health, counters=counters)


def after(seen: Seen | None, *reports: ProbeReport, fleet: FleetConfig = FLEET) -> Seen:
    """Return what the target has shown after these reports as well."""
    for report in reports:
        seen = fold_report(seen, report, "small", fleet, assumed=False)
    assert seen is not None
    return seen
