"""Dead, hung and busy are three things: what single reports make of one target."""

from attrs import evolve

from llmao_core.config import FleetConfig
from llmao_core.history import Seen
from llmao_core.probes import CanaryReport, Counters, ProbeReport, Reply, ReplyKind
from llmao_core.records import SignalKind
from llmao_core.signal import fold_canary, fold_report, suspect_hung

FLEET = FleetConfig(name="main")
OK, LATE = Reply(ReplyKind.ANSWERED, 200), Reply(ReplyKind.TIMED_OUT)
STILL = Counters(generated=5, prompt=5, finished=5, kv_usage=0.5, running=1, waiting=0)


def told(at: float, health: Reply = OK, counters: Counters | None = None) -> ProbeReport:
    metrics = OK if counters else None
    return ProbeReport(at, 0.1, health, metrics=metrics, counters=counters)


def shown(*reports: ProbeReport) -> Seen:
    """Return what a target has shown after some reports; who it is stands in a row of ours."""
    seen: Seen | None = None
    for report in reports:
        seen = fold_report(seen, report, "small", FLEET, assumed=True)
    assert seen is not None
    return seen


def test_an_engine_that_reads_prompts_is_busy() -> None:
    """It generates and finishes nothing for minutes, and every counter but one stands still."""
    reading = told(40.0, LATE, evolve(STILL, prompt=9_000))
    assert SignalKind.BUSY is shown(told(0.0, OK, STILL), reading).kind
    assert SignalKind.FAILED is shown(told(0.0, OK, STILL), told(40.0, LATE, STILL)).kind


def test_an_early_look_at_a_suspect_counts_once() -> None:
    """Three looks within seconds are one failure: a short stall takes nobody out."""
    looks = [told(at, LATE) for at in (10.0, 13.0, 15.0)]
    assert 1 == shown(told(0.0), *looks).fails
    later = told(10.0 + FLEET.health_interval_s, LATE)
    assert 2 == shown(told(0.0), *looks, later).fails


def test_a_queue_that_grows_is_no_progress() -> None:
    """Requests run, more of them wait, and no token comes: whether it hangs is asked."""
    seen = shown(
        *(
            told(at, OK, evolve(STILL, waiting=at))
            for at in (0.0, FLEET.canary.silent_s / 2, FLEET.canary.silent_s)
        )
    )
    assert SignalKind.OK is seen.kind
    assert suspect_hung(seen, FLEET)


def test_a_hung_engine_stays_hung_while_nothing_moves() -> None:
    """Its /health answers all the while; only movement shows that it works again."""
    still = [told(at, OK, STILL) for at in (0.0, FLEET.canary.silent_s)]
    at = FLEET.canary.silent_s
    asked = CanaryReport(at, at + 30.0, (LATE,) * FLEET.health_fail_threshold)
    seen = fold_canary(shown(*still), asked, FLEET)
    for later in (at + 31.0, at + 37.0):
        seen = fold_report(seen, told(later, OK, STILL), "small", FLEET, assumed=False)
        seen = fold_canary(seen, asked, FLEET)
        assert (SignalKind.FAILED, True) == (seen.kind, seen.hung)
    moved = told(at + 43.0, OK, evolve(STILL, generated=6))
    assert SignalKind.OK is fold_report(seen, moved, "small", FLEET, assumed=False).kind
