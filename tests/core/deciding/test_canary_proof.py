"""What canaries prove: that a target works, that it says no, or that it hangs."""

import pytest
from attrs import evolve
from tests.core.deciding.reports import FAILING, FLEET, HANGING, LATE, LIVED, STILL, said

from llmao_core.config import CanaryConfig
from llmao_core.history import Canary, Cause, Seen
from llmao_core.probes import CanaryReport, OpenPathsReport, Reply, ReplyKind
from llmao_core.records import SignalKind
from llmao_core.signal import (
    PREFILL_LIMIT_S,
    fold_canary,
    fold_open_paths,
    suspect_hung,
)

ASKED, ANSWERED = 160.0, 161.5
SAYS_NO = Reply(ReplyKind.ANSWERED, 400, "no such mode")
ENOUGH = (LATE,) * FLEET.health_fail_threshold
SILENT = evolve(LIVED, metrics_at=ASKED, silent_since=90.0)


def canary(*replies: Reply, any_byte: bool = False, at: float = ASKED) -> CanaryReport:
    return CanaryReport(at, ANSWERED, replies, any_byte)


def test_one_answer_proves_that_it_works() -> None:
    """It is a movement like any other: silence and a failure that nothing else showed are over."""
    seen = evolve(LIVED, first_fail=95.0)
    expected = evolve(
        seen,
        canary=Canary.PROVEN,
        canary_at=ASKED,
        canary_said="",
        proven_at=ASKED,
        moved=ANSWERED,
        silent_since=None,
        first_fail=None,
    )
    assert expected == fold_canary(seen, canary(LATE, said(200)), FLEET)


@pytest.mark.parametrize("report", [canary(said(200)), canary(LATE, any_byte=True)])
def test_a_byte_ends_a_hang(report: CanaryReport) -> None:
    """Whatever else fails goes on failing, and began when it did."""
    seen = fold_canary(HANGING, report, FLEET)
    assert (False, None, ANSWERED) == (seen.hung, seen.silent_since, seen.moved)
    assert (SignalKind.FAILED, 88.0) == (seen.kind, seen.first_fail)
    assert seen.hung is False


@pytest.mark.parametrize(
    ("replies", "proof", "text"),
    [
        ((LATE, SAYS_NO), Canary.DECLINED, "HTTP 400 no such mode"),
        ((said(499),), Canary.DECLINED, "HTTP 499"),
        ((said(401),), Canary.FAILED, "HTTP 401"),
        ((said(403),), Canary.FAILED, "HTTP 403"),
        ((said(500), LATE), Canary.FAILED, "HTTP 500"),
        ((LATE, said(500)), Canary.FAILED, "timed out"),
        ((), Canary.FAILED, "not asked"),
    ],
)
def test_a_canary_says_what_came_back(replies: tuple[Reply, ...], proof: Canary, text: str) -> None:
    """A server that understands and declines works; a refusal or a failure proves nothing."""
    seen = fold_canary(LIVED, canary(*replies), FLEET)
    assert (proof, text, ASKED) == (seen.canary, seen.canary_said, seen.canary_at)
    assert (ASKED if proof is Canary.DECLINED else 50.0) == seen.proven_at


def test_a_refused_canary_is_a_stranger() -> None:
    """Who refuses our bearer is not ours; and no canary alone proves that somebody is."""
    assert fold_canary(LIVED, canary(said(401)), FLEET).identity is False
    assert fold_canary(LIVED, canary(said(500)), FLEET).identity is True
    assert fold_canary(evolve(LIVED, identity=False), canary(said(200)), FLEET).identity is False


def test_a_canary_is_folded_once() -> None:
    """What fell silent after an answer is not heard again by reading that answer again."""
    proof = canary(said(200), at=LIVED.canary_at or 0.0)
    assert LIVED == fold_canary(LIVED, proof, FLEET)


def test_enough_silent_canaries_are_a_hang() -> None:
    """It has failed as often as it takes, since it fell silent, and is not ok any more."""
    expected = evolve(
        SILENT,
        canary=Canary.FAILED,
        canary_at=ASKED,
        canary_said="timed out",
        hung=True,
        kind=SignalKind.FAILED,
        detail="requests run and nothing moves",
        cause=Cause.HUNG,
        fails=FLEET.health_fail_threshold,
        oks=0,
        first_fail=90.0,
    )
    assert expected == fold_canary(SILENT, canary(*ENOUGH), FLEET)


def test_what_failed_already_hangs_since_then() -> None:
    """A hang takes nothing back of what was counted."""
    failing = evolve(FAILING, metrics_at=ASKED, fails=5)
    seen = fold_canary(failing, canary(*ENOUGH), FLEET)
    assert (True, 5, 88.0) == (seen.hung, seen.fails, seen.first_fail)


@pytest.mark.parametrize(
    ("seen", "report"),
    [
        (SILENT, canary(*ENOUGH[1:])),
        (evolve(SILENT, silent_since=None), canary(*ENOUGH)),
        (evolve(SILENT, metrics_at=None), canary(*ENOUGH)),
        (evolve(SILENT, metrics_at=ASKED - 0.5), canary(*ENOUGH)),
        (evolve(SILENT, metrics_at=ASKED + 70.0, silent_since=ASKED), canary(*ENOUGH)),
        (evolve(SILENT, silent_since=ASKED - 59.0), canary(*ENOUGH)),
        (evolve(SILENT, canary_at=ASKED), canary(*ENOUGH, any_byte=True)),
    ],
    ids=["too few", "not silent", "never read", "read before", "since", "too short", "a byte"],
)
def test_a_hang_needs_all_of_it(seen: Seen, report: CanaryReport) -> None:
    """Enough canaries without a byte, asked in a long silence that was still seen afterwards."""
    after = fold_canary(seen, report, FLEET)
    assert (SignalKind.OK, False, None) == (after.kind, after.hung, after.first_fail)


def test_a_hang_is_confirmed_when_the_counters_are_read() -> None:
    """The canaries may come first: the next reading that shows silence confirms them."""
    early = fold_canary(evolve(SILENT, metrics_at=ASKED - 1.0), canary(*ENOUGH), FLEET)
    assert fold_canary(evolve(early, metrics_at=ASKED + 5.0), canary(*ENOUGH), FLEET).hung


def test_a_hang_is_confirmed_once() -> None:
    """What showed itself as something else meanwhile is not called failed again."""
    other = evolve(HANGING, kind=SignalKind.OTHER_MODEL, metrics_at=ASKED, canary_at=ASKED)
    assert other is fold_canary(other, canary(*ENOUGH), FLEET)


@pytest.mark.parametrize(
    ("first_tokens", "limit_s"),
    [(None, FLEET.canary.silent_s), (6.0, FLEET.canary.silent_s), (5.0, PREFILL_LIMIT_S)],
)
def test_a_prefill_is_given_time(first_tokens: float | None, limit_s: float) -> None:
    """While every request that runs waits for its first token, silence means little."""
    counters = evolve(STILL, first_tokens=first_tokens)
    seen = evolve(SILENT, counters=counters, silent_since=0.0, metrics_at=limit_s)
    assert suspect_hung(seen, FLEET)
    assert not suspect_hung(evolve(seen, metrics_at=limit_s - 0.5), FLEET)


def test_nothing_is_suspect_without_readings_or_canaries() -> None:
    """Neither where nothing fell silent, nor where nobody would be asked."""
    none = evolve(FLEET, canary=CanaryConfig(enabled=False))
    assert not suspect_hung(SILENT, none)
    assert not suspect_hung(evolve(SILENT, silent_since=None), FLEET)
    assert not suspect_hung(evolve(SILENT, metrics_at=None), FLEET)


def test_open_paths_are_as_old_as_the_question() -> None:
    """A newer check replaces what was found; an older one says nothing."""
    seen = fold_open_paths(LIVED, OpenPathsReport(70.0, ("/metrics",)))
    assert (70.0, ("/metrics",)) == (seen.open_at, seen.open_paths)
    assert seen is fold_open_paths(seen, OpenPathsReport(65.0, ()))
