"""What is counted of a target, report by report; what a report does not say stays as it was."""

import pytest
from attrs import evolve
from tests.core.deciding.reports import (
    EVERY_S,
    FAILING,
    HANGING,
    IDLE,
    LATE,
    LIVED,
    MOVED,
    STILL,
    after,
    said,
    told,
)

from llmao_core.history import Cause, Seen
from llmao_core.probes import Reply, ReplyKind
from llmao_core.records import SignalKind
from llmao_core.signal import METRICS_INTERVAL_S, SATURATED_S, saturated_s

AT = 100.0 + EVERY_S
NEWS = evolve(LIVED, probed_at=AT, took_s=0.1, checked=4)
WORSE = evolve(FAILING, probed_at=AT, took_s=0.1, checked=4)
WELL, DOWN = said(200), said(503)


def test_one_more_ok_changes_nothing_else() -> None:
    """The report that comes most often moves four fields, whatever else is known."""
    expected = evolve(NEWS, oks=8, last_ok=AT)
    assert expected == after(LIVED, told(AT, WELL))


def test_one_more_ok_reads_the_counters() -> None:
    """With counters it says also when they moved, and since when nothing waits or is silent."""
    expected = evolve(NEWS, oks=8, last_ok=AT, counters=MOVED, metrics_at=AT, moved=AT)
    assert evolve(expected, silent_since=None) == after(LIVED, told(AT, WELL, MOVED))


def test_an_ok_ends_what_failed() -> None:
    """No count of failures, no cause and no beginning is left of them."""
    expected = evolve(
        WORSE,
        kind=SignalKind.OK,
        detail="",
        fails=0,
        oks=1,
        last_ok=AT,
        cause=Cause.NONE,
        first_fail=None,
        counted=None,
    )
    assert expected == after(FAILING, told(AT, WELL))


def test_a_busy_server_has_not_failed() -> None:
    """It is late and its counters move: failures end, and it was alive just now."""
    expected = evolve(
        WORSE,
        kind=SignalKind.BUSY,
        detail="slow to answer, and its counters move",
        fails=0,
        last_ok=AT,
        cause=Cause.NONE,
        first_fail=None,
        counted=None,
        counters=MOVED,
        metrics_at=AT,
        moved=AT,
        silent_since=None,
    )
    assert expected == after(FAILING, told(AT, LATE, MOVED))


def test_a_busy_stranger_was_not_ours_just_now() -> None:
    """Without a proof of who it is, being busy is no ok."""
    assert 82.0 == after(evolve(FAILING, identity=False), told(AT, LATE, MOVED)).last_ok


def test_what_moved_long_ago_is_not_busy() -> None:
    """Counters must have moved since the last regular look at them."""
    just = evolve(LIVED, moved=AT - METRICS_INTERVAL_S)
    assert SignalKind.FAILED is after(just, told(AT, LATE, STILL)).kind
    assert SignalKind.BUSY is after(evolve(just, moved=AT - 14.9), told(AT, LATE, STILL)).kind


@pytest.mark.parametrize(
    ("health", "cause", "detail"),
    [
        (DOWN, Cause.ANSWERED, "/health: HTTP 503"),
        (LATE, Cause.SILENT, "/health: timed out"),
        (Reply(ReplyKind.REFUSED), Cause.REFUSED, "/health: connection refused"),
        (Reply(ReplyKind.NO_ROUTE), Cause.SILENT, "/health: no route"),
    ],
)
def test_a_failure_says_how_it_failed(health: Reply, cause: Cause, detail: str) -> None:
    """The way of the newest failure that counts decides which witness is needed."""
    expected = evolve(WORSE, fails=3, counted=AT, cause=cause, detail=detail)
    seen = after(FAILING, told(AT, health))
    assert expected == evolve(seen, identity=True, checked=4)


def test_the_first_failure_begins_a_run() -> None:
    """When it began is kept to the end of the run."""
    first = after(LIVED, told(AT, DOWN))
    expected = evolve(
        NEWS,
        kind=SignalKind.FAILED,
        detail="/health: HTTP 503",
        fails=1,
        oks=0,
        cause=Cause.ANSWERED,
        first_fail=AT,
        counted=AT,
    )
    assert expected == first
    assert (2, AT) == (
        after(first, told(AT + EVERY_S, DOWN)).fails,
        after(first, told(AT + EVERY_S, DOWN)).first_fail,
    )


def test_an_early_failure_is_seen_and_not_counted() -> None:
    """Only a peer that refuses is believed at once; else the count and its cause stay."""
    early = evolve(FAILING, counted=98.0)
    assert (2, Cause.ANSWERED, 98.0, 88.0) == _counts(after(early, told(101.0, LATE)))
    refused = told(101.0, Reply(ReplyKind.REFUSED))
    assert (3, Cause.REFUSED, 101.0, 88.0) == _counts(after(early, refused))


def test_an_early_failure_after_an_ok_ends_the_oks() -> None:
    """A run of oks is over at any failure, whether it counts or not."""
    seen = after(evolve(LIVED, counted=98.0), told(101.0, LATE))
    assert (0, 0, 101.0) == (seen.fails, seen.oks, seen.first_fail)


def _counts(seen: Seen) -> tuple[int, Cause, float | None, float | None]:
    return seen.fails, seen.cause, seen.counted, seen.first_fail


def test_a_report_is_folded_once() -> None:
    """A pass that sees the same report again, or an older one, has seen nothing."""
    once = after(LIVED, told(AT, DOWN))
    assert once is after(once, told(AT, DOWN))
    assert once is after(once, told(AT - 1.0, WELL))


def test_a_hung_engine_counts_no_more_failures() -> None:
    """Its /health answers: it stays what its canaries showed, from when it began."""
    expected = evolve(HANGING, probed_at=AT, took_s=0.1, checked=4, metrics_at=AT)
    assert expected == after(HANGING, told(AT, WELL, STILL))


def test_a_hung_engine_that_fails_hangs_on() -> None:
    """A late /health is a failure like any other, and nothing has moved."""
    seen = after(HANGING, told(AT, LATE, STILL))
    assert (True, 4) == (seen.hung, seen.fails)
    assert not after(HANGING, told(AT, DOWN, MOVED)).hung


def test_movement_ends_a_hang() -> None:
    """An engine that moves and is well is ok, with nothing left of the hang."""
    seen = after(HANGING, told(AT, WELL, MOVED))
    assert (SignalKind.OK, False, Cause.NONE) == (seen.kind, seen.hung, seen.cause)


def test_a_hung_engine_that_is_well_again_still_hangs() -> None:
    """A failure of another kind in between takes nothing back while nothing moves."""
    seen = after(HANGING, told(AT, DOWN), told(AT + EVERY_S, WELL, STILL))
    assert (Cause.HUNG, 88.0, 0) == (seen.cause, seen.first_fail, seen.oks)


def test_counters_of_a_failed_report_are_read() -> None:
    """Silence and a queue begin and end by them, however /health was."""
    fresh = evolve(LIVED, silent_since=None)
    seen = after(fresh, told(AT, DOWN, STILL))
    assert (AT, 90.0, 90.0, 40.0) == _metrics(seen)
    assert (AT, 90.0, None, None) == _metrics(after(LIVED, told(AT, DOWN, IDLE)))


def test_an_idle_engine_was_not_silent() -> None:
    """Silence begins with the first reading that shows requests, however long nothing moved."""
    idle = evolve(LIVED, counters=IDLE, silent_since=None)
    assert AT == after(idle, told(AT, WELL, STILL)).silent_since


def test_a_report_without_counters_says_nothing_of_them() -> None:
    """What was read before stays, and is as old as it was."""
    assert (100.0, 90.0, 90.0, 40.0) == _metrics(after(LIVED, told(AT, DOWN)))


def _metrics(seen: Seen) -> tuple[float | None, ...]:
    return seen.metrics_at, seen.moved, seen.silent_since, seen.queued_since


def test_one_request_that_waits_is_a_queue() -> None:
    """A queue begins with the first reading that has one."""
    fresh = evolve(LIVED, queued_since=None)
    assert AT == after(fresh, told(AT, WELL, STILL)).queued_since


def test_a_queue_must_last_to_count() -> None:
    """It is told from its limit on, and never where nothing waits or nothing was read."""
    lasting = evolve(LIVED, queued_since=0.0, metrics_at=SATURATED_S)
    assert SATURATED_S == saturated_s(lasting)
    assert 0.0 == saturated_s(evolve(lasting, queued_since=0.5))
    assert 0.0 == saturated_s(evolve(lasting, queued_since=None))
    assert 0.0 == saturated_s(evolve(lasting, metrics_at=None))
