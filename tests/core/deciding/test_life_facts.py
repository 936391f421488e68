"""What decides a lifecycle: which bearer is gone by, what its probes come to, and since when."""

from typing import Any

import pytest
from attrs import evolve
from tests.core.deciding.known import KNOWN, MAIN, SEEN
from tests.core.deciding.scenes import AT_LISTEN, BOX, NOW, entry, fleet, scene

from llmao_core.classify import Aim, aim_of, life_facts, said
from llmao_core.facts import Evidence, Handout, LifeFacts, Named, RowSeen, Served
from llmao_core.fold import Watch
from llmao_core.history import KeyHistory, Seen
from llmao_core.placement import Place
from llmao_core.probes import Target
from llmao_core.records import LitellmSignal, SignalKind
from llmao_core.snapshots import Opinion

THRESHOLD = scene().fleet.health_fail_threshold
GRACE_S = scene().fleet.health_grace_s
STALE_S = scene().stale_s
REFUSED = evolve(SEEN, kind=SignalKind.REFUSED, run=3)


# ---- which bearer


TWO = fleet(salts=2)
NEWER = TWO.deployments[0]
OLDER = Target(AT_LISTEN, NEWER.previous.bearer_id if NEWER.previous else "")
BOTH = Watch(Target(AT_LISTEN, NEWER.bearer_id), OLDER, ())
PROVEN, UNPROVEN = SEEN, evolve(SEEN, identity=False)


def chosen(main: Seen | None, older: Seen | None) -> Aim:
    seen = {BOTH.main: main, BOTH.previous: older}
    known = evolve(KNOWN, seen={target: one for target, one in seen.items() if target and one})
    aim = aim_of(entry(TWO), known, BOTH, scene(TWO))
    assert aim is not None
    return aim


@pytest.mark.parametrize("main", [None, UNPROVEN])
def test_a_box_that_still_runs_the_older_bearer_is_gone_by_it(main: Seen | None) -> None:
    """It proved who it is with the older one, and with the newer it has not."""
    assert NEWER.previous is not None
    assert Aim(NEWER.previous, OLDER, PROVEN, stale=False, previous=True) == chosen(main, PROVEN)
    old = evolve(PROVEN, probed_at=NOW - STALE_S - 1.0)
    assert chosen(main, old).stale


@pytest.mark.parametrize(
    ("main", "older"), [(PROVEN, PROVEN), (None, UNPROVEN), (UNPROVEN, None), (None, None)]
)
def test_else_the_newer_bearer_is_gone_by(main: Seen | None, older: Seen | None) -> None:
    """Also where nothing was seen of either: then it is stale."""
    assert Aim(NEWER, BOTH.main, main, stale=main is None) == chosen(main, older)


def test_what_was_seen_long_ago_is_stale() -> None:
    """To the limit it may be rested on."""
    assert not chosen(evolve(SEEN, probed_at=NOW - STALE_S), None).stale
    assert chosen(evolve(SEEN, probed_at=NOW - STALE_S - 0.5), None).stale


def test_what_is_not_ours_to_probe_has_no_aim() -> None:
    """A foreign row has no server, a commercial one no bearer."""
    sold = fleet(commercial=["gpt"]).deployments[-1]
    for deployment in (None, sold):
        assert aim_of(entry(deployment=deployment), KNOWN, Watch(None, None, ()), scene()) is None


def test_a_key_without_an_address_has_seen_nothing() -> None:
    """Its rows may be probed; the key itself has no target."""
    aim = aim_of(entry(), KNOWN, Watch(None, None, (MAIN,)), scene())
    assert Aim(entry().deployment or NEWER, None, None, stale=True) == aim


# ---- what the probes come to


def facts(seen: Seen | None = SEEN, known: KeyHistory = KNOWN, *, stale: bool = False) -> LifeFacts:
    aim = Aim(NEWER, MAIN, seen, stale)
    return life_facts(entry(), known, aim, LitellmSignal.UNKNOWN, scene(), frozenset())


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"kind": SignalKind.OK}, Evidence.OK),
        ({"kind": SignalKind.NONE}, Evidence.UNSEEN),
        ({"kind": SignalKind.GARBLED}, Evidence.GARBLED),
        ({"kind": SignalKind.FAILED, "fails": THRESHOLD - 1}, Evidence.FAILED),
        ({"kind": SignalKind.FAILED, "fails": THRESHOLD}, Evidence.FAILED_ENOUGH),
        ({"kind": SignalKind.BUSY, "identity": True}, Evidence.BUSY),
        ({"kind": SignalKind.BUSY, "identity": False}, Evidence.BUSY_UNPROVEN),
        ({"kind": SignalKind.REFUSED, "run": 1}, Evidence.REFUSED),
        ({"kind": SignalKind.REFUSED, "run": 2}, Evidence.REFUSED_TWICE),
        ({"kind": SignalKind.REFUSED, "run": 3}, Evidence.REFUSED_LONG),
        ({"kind": SignalKind.OTHER_MODEL, "run": 1}, Evidence.OTHER_MODEL),
        ({"kind": SignalKind.OTHER_MODEL, "run": 2}, Evidence.OTHER_TWICE),
    ],
)
def test_a_signal_is_one_fact(changes: dict[str, Any], expected: Evidence) -> None:
    """Counts are held against their limits, and stale or missing signals are no evidence."""
    seen = evolve(SEEN, **changes)
    assert expected is facts(seen).evidence
    assert Evidence.UNSEEN is facts(seen, stale=True).evidence
    assert Evidence.UNSEEN is facts(None).evidence


@pytest.mark.parametrize(
    ("opinion", "signal", "expected"),
    [
        (None, LitellmSignal.UNKNOWN, Evidence.LITELLM_UNKNOWN),
        (Opinion(True, NOW), LitellmSignal.UP, Evidence.LITELLM_UP),
        (Opinion(False, NOW), LitellmSignal.DOWN, Evidence.LITELLM_DOWN),
    ],
)
def test_where_nothing_is_probed_litellm_speaks(
    opinion: Opinion | None, signal: LitellmSignal, expected: Evidence
) -> None:
    """Of a commercial model its checks are all there is."""
    assert signal is said(opinion)
    assert expected is life_facts(entry(), KNOWN, None, signal, scene(), frozenset()).evidence


@pytest.mark.parametrize(
    ("last_ok", "last_handout", "expected"),
    [
        (None, None, Served.NO),
        (None, NOW - 5.0, Served.NO),
        (NOW - 5.0, None, Served.YES),
        (NOW - 5.0, NOW - 5.0, Served.NO),
        (NOW - 5.0, NOW - 6.0, Served.YES),
    ],
)
def test_it_served_if_it_was_ok_after_its_hand_out(
    last_ok: float | None, last_handout: float | None, expected: Served
) -> None:
    """An ok at the moment of the hand-out was of what ran before."""
    known = evolve(KNOWN, last_ok=last_ok, last_handout=last_handout)
    assert expected is facts(known=known).served


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (None, None, Handout.NONE),
        (None, NOW - GRACE_S, Handout.YOUNG),
        (None, NOW - GRACE_S - 0.5, Handout.OLD),
        (NOW - GRACE_S - 0.5, NOW, Handout.OLD),
        (NOW - GRACE_S, NOW, Handout.YOUNG),
    ],
)
def test_a_hand_out_is_young_for_the_grace(
    first: float | None, last: float | None, expected: Handout
) -> None:
    """It counts from the first since the last ok: a box that fetches again and again gets old."""
    assert expected is facts(known=evolve(KNOWN, handout=first, last_handout=last)).handout


def test_a_row_was_seen_or_not() -> None:
    """Whatever LiteLLM has now."""
    assert RowSeen.YES is facts().row_seen
    assert RowSeen.NO is facts(known=evolve(KNOWN, row_seen=False)).row_seen


@pytest.mark.parametrize(
    ("seen", "listed", "shown", "dialable", "addresses", "expected"),
    [
        (REFUSED, True, False, AT_LISTEN, set(), Named.NOWHERE),
        (evolve(REFUSED, run=2), True, False, AT_LISTEN, set(), Named.MAYBE),
        (REFUSED, False, False, AT_LISTEN, set(), Named.MAYBE),
        (REFUSED, True, True, AT_LISTEN, set(), Named.MAYBE),
        (REFUSED, True, False, AT_LISTEN, {BOX}, Named.MAYBE),
        (REFUSED, True, False, "http://203.0.113.99:40001", {BOX}, Named.MAYBE),
        (REFUSED, True, False, "http://203.0.113.99:40001", {"203.0.113.99"}, Named.MAYBE),
        (REFUSED, True, False, "https://203.0.113.99:443", {"203.0.113.99"}, Named.MAYBE),
        (REFUSED, True, False, "http://[2001:db8::1]:8001", {"2001:db8::1"}, Named.MAYBE),
        (REFUSED, True, False, "http://203.0.113.99:40001", {"203.0.113.98"}, Named.NOWHERE),
    ],
)
def test_an_address_that_no_listing_names_is_somebody_elses(
    seen: Seen, listed: bool, shown: bool, dialable: str, addresses: set[str], expected: Named
) -> None:
    """Only what refused for long, when every listing is fresh, and by neither of its addresses."""
    known = evolve(KNOWN, dialable=dialable)
    placed = entry(place=Place(named=shown))
    aim = Aim(NEWER, MAIN, seen, stale=False)
    found = scene(all_listed=listed)
    told = life_facts(placed, known, aim, LitellmSignal.UNKNOWN, found, frozenset(addresses))
    assert expected is told.named
