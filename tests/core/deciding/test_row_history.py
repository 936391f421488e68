"""What is remembered of one row of LiteLLM: how long it is nobody's, and what it does not keep."""

import pytest
from attrs import evolve
from tests.core.deciding.scenes import NOW, fleet, row, scene

from llmao_core.actions import ActionKind, Outcome, OutcomeKind, Write
from llmao_core.fold import fold_row
from llmao_core.history import RowHistory

SKEW_S = scene().fleet.skew_interval_s
POLL_S = scene().poll_s
DONE = Outcome(OutcomeKind.DONE)
KNOWN = RowHistory(passes=2, counted=NOW - SKEW_S, kept_wrong=1, write=NOW - 400.0, hash="old")
WRITE = Write(
    ActionKind.UPDATE_LITELLM, fleet().deployments[0].key, NOW - 301.0, NOW - 300.0, DONE, "new"
)


def folded(
    known: RowHistory | None,
    write: Write | None = None,
    *,
    orphan: bool = False,
    differs: bool = False,
) -> RowHistory:
    one = row()
    found = scene(rows=(one,), writes={one.id: write} if write else {})
    return fold_row(known, one, orphan=orphan, differs=differs, scene=found)


def test_an_orphan_is_counted_once_per_read() -> None:
    """Reads that come early are one read, and a row that is nobody's begins at one."""
    assert evolve(KNOWN, passes=3, counted=NOW) == folded(KNOWN, orphan=True, differs=True)
    early = evolve(KNOWN, counted=NOW - SKEW_S + 1.0)
    assert early == folded(early, orphan=True, differs=True)
    assert RowHistory(passes=1, counted=NOW) == folded(None, orphan=True)


def test_a_row_that_is_wanted_again_was_never_an_orphan() -> None:
    """Its count begins anew, should it be one again."""
    assert evolve(KNOWN, passes=0, counted=None) == folded(KNOWN, differs=True)
    wanted = evolve(KNOWN, passes=0)
    assert wanted is folded(wanted, differs=True)


def test_a_write_that_reads_back_different_was_not_kept() -> None:
    """Each write is judged once, by what it wrote."""
    known = evolve(KNOWN, passes=0)
    judged = evolve(known, kept_wrong=2, write=NOW - 300.0, hash="new")
    assert judged == folded(known, WRITE, differs=True)
    assert judged is folded(judged, WRITE, differs=True)


def test_a_write_that_reads_back_right_was_kept() -> None:
    """What differs later was changed by people: it is not held against that write."""
    known = evolve(KNOWN, passes=0)
    kept = folded(known, WRITE)
    assert evolve(known, kept_wrong=0, write=NOW - 300.0) == kept
    assert kept is folded(kept, WRITE, differs=True)
    assert kept is folded(kept)


def test_a_read_from_before_the_write_judges_nothing_yet() -> None:
    """It shows the row as it was: right or not, this write is still to be judged."""
    later = evolve(WRITE, answered=NOW + 1.0)
    known = evolve(KNOWN, passes=0)
    assert evolve(known, kept_wrong=0) == folded(known, later)
    assert known is folded(known, later, differs=True)
    at_once = evolve(WRITE, answered=NOW)
    assert evolve(known, kept_wrong=0, write=NOW) == folded(known, at_once)


def test_while_a_write_is_not_confirmed_nothing_is_counted() -> None:
    """Another worker may still list the row as it was before."""
    lately = evolve(WRITE, answered=NOW - POLL_S + 1.0)
    assert KNOWN is folded(KNOWN, lately, orphan=True, differs=True)


@pytest.mark.parametrize(
    "write",
    [
        None,
        evolve(WRITE, outcome=Outcome(OutcomeKind.FAILED)),
        evolve(WRITE, outcome=None),
        evolve(WRITE, answered=None, outcome=None),
        evolve(WRITE, kind=ActionKind.DELETE_LITELLM, hash=""),
    ],
    ids=["none", "failed", "unknown", "under way", "a removal"],
)
def test_only_a_body_that_was_written_can_be_lost(write: Write | None) -> None:
    """What was not written, or may not have been, says nothing of what LiteLLM keeps."""
    known = evolve(KNOWN, passes=0)
    assert known is folded(known, write, differs=True)
    assert evolve(known, kept_wrong=0) == folded(known, write)


def test_an_unread_litellm_changes_nothing() -> None:
    """Rows of an older read are no reading of this pass."""
    unread = scene(rows=(row(),), deployments=None)
    assert KNOWN is fold_row(KNOWN, row(), orphan=True, differs=True, scene=unread)
    assert RowHistory() == fold_row(None, row(), orphan=True, differs=True, scene=unread)
