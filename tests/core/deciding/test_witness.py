"""The second opinion that a removal needs: when LiteLLM is asked for it, and what is read."""

import math
from typing import Any

import pytest
from attrs import evolve
from tests.core.deciding.drafts import DEAD, FACTS, FAILED_AT, OURS, ROW, draft
from tests.core.deciding.known import KNOWN, SEEN
from tests.core.deciding.scenes import NOW, entry, scene

from llmao_core.actions import ActionKind, Outcome, OutcomeKind, Write
from llmao_core.facts import AtRow, Gate
from llmao_core.history import Cause, Seen
from llmao_core.plan import Hold
from llmao_core.records import Kind, SignalKind
from llmao_core.restrain import (
    ASK_AGAIN_S,
    Outside,
    asks,
    failing_since,
    first_outside,
    outside,
    reads,
    wants_opinion,
    witness,
)
from llmao_core.rules import ActionRule
from llmao_core.scene import Scene
from llmao_core.snapshots import Asked, Health, Listing, Opinion, Snapshot

LISTED, UNLISTED = Outside(-math.inf, listed=True), Outside(-math.inf, listed=False)
STRANGER = evolve(DEAD, kind=SignalKind.OTHER_MODEL, run=2, fails=0)
ANSWERED = evolve(KNOWN, outside=NOW - 20.0)
ALONE = evolve(KNOWN, outside=None)
SILENT = evolve(SEEN, probed_at=NOW - 1.0, metrics_at=NOW, silent_since=NOW - 60.0)


def checked(healthy: bool, at: float) -> Scene:
    return scene(health=Snapshot(NOW, Health(opinions={ROW.id: Opinion(healthy, at)})))


def asked(at: float) -> Scene:
    return scene(health=Snapshot(NOW, Health(asked={ROW.id: Asked(at)})))


# ---- what answered from outside


def test_the_newest_answer_from_outside_counts() -> None:
    """An ok of any server, or a listing that was read: both show that the network is there."""
    seen = [evolve(SEEN, last_ok=at) for at in (NOW - 9.0, None, NOW - 8.0)]
    listings = {name: Snapshot(at, Listing()) for name, at in (("vast", 5.0), ("runpod", 6.0))}
    assert Outside(NOW - 8.0, listed=False) == outside(scene(), seen)
    listed = scene(listings=listings, intervals={"vast": 60.0})
    assert Outside(6.0, listed=True) == outside(listed, [])
    assert Outside(NOW - 8.0, listed=True) == outside(listed, seen)
    assert Outside(-math.inf, listed=False) == outside(scene(), [])


def test_since_when_a_row_fails() -> None:
    """From its first failure, or, where nothing failed yet, since it fell silent for too long."""
    assert FAILED_AT == failing_since(DEAD, scene())
    assert NOW - 60.0 == failing_since(SILENT, scene())
    assert failing_since(evolve(SILENT, silent_since=NOW - 59.0), scene()) is None
    assert failing_since(SEEN, scene()) is None
    assert failing_since(None, scene()) is None


@pytest.mark.parametrize(
    ("known", "newest", "expected"),
    [
        (None, NOW - 20.0, NOW - 20.0),
        (None, FAILED_AT, None),
        (None, FAILED_AT + 0.5, FAILED_AT + 0.5),
        (FAILED_AT + 5.0, NOW - 20.0, FAILED_AT + 5.0),
        (FAILED_AT, NOW - 20.0, NOW - 20.0),
        (FAILED_AT, FAILED_AT, None),
    ],
)
def test_the_first_answer_since_the_failure_is_kept(
    known: float | None, newest: float, expected: float | None
) -> None:
    """What answered before it failed says nothing of the time since."""
    one = draft(known=evolve(KNOWN, outside=known))
    assert expected == first_outside(one, Outside(newest, listed=True), scene())
    well = draft(known=evolve(KNOWN, outside=known), row_seen=SEEN)
    assert first_outside(well, Outside(newest, listed=True), scene()) is None


# ---- whether it has one


@pytest.mark.parametrize(
    ("opinion", "expected"),
    [
        (None, Hold.WITNESS),
        (Opinion(False, NOW - 20.0), Hold.WITNESS),
        (Opinion(False, NOW - 19.5), Hold.NOT_HELD),
        (Opinion(True, NOW - 19.5), Hold.LITELLM_REACHES),
    ],
)
def test_a_silent_server_needs_litellms_word(opinion: Opinion | None, expected: Hold) -> None:
    """Made after something else had answered llmao: before that, both may have been cut off."""
    found = scene(health=Snapshot(NOW, Health(opinions={ROW.id: opinion} if opinion else {})))
    assert expected is witness(draft(known=ANSWERED), LISTED, found)


def test_a_later_failure_makes_an_opinion_older() -> None:
    """It is of the time since both: the failure, and the answer from elsewhere."""
    late = evolve(DEAD, first_fail=NOW - 10.0)
    one = draft(known=ANSWERED, row_seen=late)
    assert Hold.WITNESS is witness(one, LISTED, checked(False, NOW - 10.0))
    assert Hold.NOT_HELD is witness(one, LISTED, checked(False, NOW - 9.5))


def test_a_refused_connection_is_its_own_witness() -> None:
    """The machine itself said no; it is enough that something else answers llmao."""
    closed = evolve(DEAD, cause=Cause.REFUSED)
    assert Hold.NOT_HELD is witness(draft(known=ANSWERED, row_seen=closed), LISTED, scene())
    assert Hold.WITNESS is witness(draft(known=ALONE, row_seen=closed), LISTED, scene())


@pytest.mark.parametrize("cause", [Cause.SILENT, Cause.REFUSED])
def test_where_nothing_else_answers(cause: Cause) -> None:
    """With a listing to come it waits for that; without one LiteLLM's word must do."""
    one = draft(known=ALONE, row_seen=evolve(DEAD, cause=cause))
    no, yes = checked(False, NOW - 5.0), checked(True, NOW - 5.0)
    assert Hold.WITNESS is witness(one, LISTED, no)
    assert Hold.NOT_HELD is witness(one, UNLISTED, no)
    assert Hold.LITELLM_REACHES is witness(one, UNLISTED, yes)
    assert Hold.WITNESS is witness(one, UNLISTED, checked(False, FAILED_AT))


@pytest.mark.parametrize("at_row", [AtRow.REFUSED, AtRow.OTHER_MODEL])
def test_a_strange_answer_needs_litellms_word_alone(at_row: AtRow) -> None:
    """Somebody answered llmao: whether anything else did says no more."""
    one = draft(known=ALONE, row_seen=STRANGER, facts=FACTS._replace(at_row=at_row))
    assert Hold.NOT_HELD is witness(one, LISTED, checked(False, NOW - 5.0))
    assert Hold.WITNESS is witness(one, LISTED, checked(False, FAILED_AT))
    assert Hold.LITELLM_REACHES is witness(one, LISTED, checked(True, NOW - 5.0))
    first = evolve(STRANGER, first_fail=None)
    one = evolve(one, row_seen=first)
    assert Hold.WITNESS is witness(one, LISTED, checked(False, NOW - 1.0))
    assert Hold.NOT_HELD is witness(one, LISTED, checked(False, NOW - 0.5))


def test_what_needs_no_witness_is_not_held() -> None:
    """By its rule, or because no row of it was ever probed."""
    free = ActionRule("drained", "It is drained.", ActionKind.DELETE_LITELLM)
    assert Hold.WITNESS is witness(draft(), LISTED, scene())
    assert Hold.NOT_HELD is witness(draft(rule=free), LISTED, scene())
    assert Hold.NOT_HELD is witness(draft(row_seen=None), LISTED, scene())
    assert Hold.NOT_HELD is witness(draft(entry=entry()), LISTED, scene())


# ---- when it is asked for


def test_litellm_is_asked_before_the_threshold() -> None:
    """At the failure before the last, so that its answer is there in time; each row once."""
    one = draft(known=ANSWERED)
    quiet = draft(known=ANSWERED, row_seen=evolve(DEAD, fails=1))
    alone = draft(known=ALONE)
    assert (ROW.id,) == asks([one, quiet, alone, draft(entry=entry())], LISTED, scene())
    assert (ROW.id, ROW.id) == asks([one, quiet, alone], UNLISTED, scene())
    second = draft(known=ANSWERED, row_seen=evolve(DEAD, fails=2))
    assert wants_opinion(second, LISTED, scene())
    single = scene(fleet=evolve(scene().fleet, health_fail_threshold=1))
    none = draft(known=ANSWERED, row_seen=evolve(DEAD, fails=0))
    assert not wants_opinion(none, LISTED, single)
    assert wants_opinion(quiet, LISTED, single)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"kind": SignalKind.OK}, False),
        ({"kind": SignalKind.OTHER_MODEL, "run": 2, "fails": 0}, True),
        ({"kind": SignalKind.OTHER_MODEL, "run": 1, "fails": 3}, False),
        ({"kind": SignalKind.REFUSED, "run": 2, "fails": 0}, True),
        ({"kind": SignalKind.REFUSED, "run": 2, "open": True}, False),
        ({"probed_at": NOW - 1_000.0}, False),
    ],
)
def test_what_litellm_is_asked_about(changes: dict[str, Any], expected: bool) -> None:
    """What nearly failed, what was strange twice and is closed; and nothing that is stale."""
    one = draft(known=ANSWERED, row_seen=evolve(DEAD, **changes))
    assert expected is wants_opinion(one, LISTED, scene())


def test_litellm_is_asked_about_a_silence() -> None:
    """An engine in which nothing moves is near its end, though /health answers."""
    assert wants_opinion(draft(known=ANSWERED, row_seen=SILENT), LISTED, scene())


@pytest.mark.parametrize(
    ("cause", "kind", "answered", "found", "expected"),
    [
        (Cause.SILENT, SignalKind.FAILED, True, LISTED, True),
        (Cause.SILENT, SignalKind.FAILED, False, LISTED, False),
        (Cause.SILENT, SignalKind.FAILED, False, UNLISTED, True),
        (Cause.SILENT, SignalKind.FAILED, True, UNLISTED, True),
        (Cause.REFUSED, SignalKind.FAILED, True, UNLISTED, False),
        (Cause.REFUSED, SignalKind.FAILED, False, UNLISTED, True),
        (Cause.REFUSED, SignalKind.FAILED, False, LISTED, False),
        (Cause.REFUSED, SignalKind.FAILED, True, LISTED, False),
        (Cause.REFUSED, SignalKind.REFUSED, True, LISTED, True),
        (Cause.REFUSED, SignalKind.OTHER_MODEL, False, LISTED, True),
    ],
)
def test_litellm_is_asked_only_where_its_word_decides(
    cause: Cause, kind: SignalKind, answered: bool, found: Outside, expected: bool
) -> None:
    """Not where a listing must answer first, nor where the machine itself has refused."""
    known = ANSWERED if answered else ALONE
    seen = evolve(DEAD, cause=cause, kind=kind, run=2)
    assert expected is wants_opinion(draft(known=known, row_seen=seen), found, scene())


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (FAILED_AT, True),
        (FAILED_AT + 0.5, False),
        (NOW - ASK_AGAIN_S, True),
    ],
)
def test_litellm_is_asked_once_a_minute(at: float, expected: bool) -> None:
    """And at once about what failed since it was asked."""
    assert expected is wants_opinion(draft(known=ANSWERED), LISTED, asked(at))
    longer = draft(known=ANSWERED, row_seen=evolve(DEAD, first_fail=NOW - 500.0))
    assert (at <= NOW - ASK_AGAIN_S) is wants_opinion(longer, LISTED, asked(at))
    assert wants_opinion(longer, LISTED, asked(NOW - 500.0))
    assert wants_opinion(draft(known=ANSWERED), LISTED, scene(health=None))


def test_what_never_failed_is_asked_about_at_once() -> None:
    """Another model may stand there without a failure before it."""
    first = evolve(STRANGER, first_fail=None)
    assert wants_opinion(draft(row_seen=first), LISTED, asked(NOW))


@pytest.mark.parametrize("gate", list(Gate))
def test_litellm_is_asked_only_where_something_may_follow(gate: Gate) -> None:
    """What leaves, restarts or is being written goes or comes without an opinion."""
    one = draft(known=ANSWERED, facts=FACTS._replace(gate=gate))
    assert (gate is Gate.OPEN) is wants_opinion(one, LISTED, scene())


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("needed", [True, False])
def test_litellm_is_asked_about_ours_before_a_rule_asks(kind: Kind, needed: bool) -> None:
    """Of an orphan only when its rule wants a witness."""
    rule = ActionRule("any", "It is so.", ActionKind.DELETE_LITELLM, witness=needed)
    one = draft(known=ANSWERED, rule=rule, entry=entry(None, ROW, kind=kind))
    ours = kind in (Kind.INTENDED, Kind.DISCOVERED)
    assert (needed or ours) is wants_opinion(one, LISTED, scene())


@pytest.mark.parametrize("seen", [None, DEAD])
def test_nothing_is_asked_without_a_row(seen: Seen | None) -> None:
    """LiteLLM knows rows and nothing else."""
    assert not wants_opinion(draft(entry=entry(), row_seen=seen), LISTED, scene())
    assert not wants_opinion(draft(row_seen=None), LISTED, scene())


# ---- what is read for it


def test_listings_are_read_for_a_failure_that_nothing_else_answered() -> None:
    """A read that began with the failing probe is none since; the newest failure is meant."""
    listed = scene(intervals={"vast": 60.0, "runpod": 60.0})
    later = draft(known=ALONE, row_seen=evolve(DEAD, first_fail=NOW - 10.0))
    after = math.nextafter(NOW - 10.0, math.inf)
    for drafts in ([draft(), later], [later, draft()]):
        assert {"vast": after, "runpod": after} == reads(drafts, listed)
    for one in (draft(known=ANSWERED), draft(row_seen=SEEN), draft(entry=entry())):
        assert {} == reads([one], listed)


def test_rows_are_read_after_a_write() -> None:
    """As soon as a read proves something of any write, of those that have ended."""
    write = Write(
        ActionKind.UPDATE_LITELLM, OURS.key, NOW - 9.0, NOW - 5.0, Outcome(OutcomeKind.DONE)
    )
    poll_s = scene().poll_s
    writes = {
        "box": evolve(write, kind=ActionKind.REBOOT_BOX, answered=NOW - 50.0),
        "later": evolve(write, answered=NOW - 4.0),
        "first": write,
        "running": evolve(write, answered=None, outcome=None),
        "known": evolve(write, answered=NOW - poll_s),
    }
    for order in (list(writes), list(reversed(writes))):
        found = scene(writes={one: writes[one] for one in order})
        assert {"litellm": NOW - 5.0 + poll_s} == reads([], found)
    assert {} == reads([], scene(writes={one: writes[one] for one in ("running", "known")}))
    waiting = scene(writes={"box": evolve(write, kind=ActionKind.REBOOT_BOX)})
    assert {} == reads([], waiting)
