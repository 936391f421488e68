"""What is remembered of a key from pass to pass, and what a new instance, or time, takes away."""

from typing import Any

import pytest
from attrs import evolve
from tests.core.deciding.known import AT_ROW, HOST, KNOWN, MAIN, SEEN, folded, probed
from tests.core.deciding.reports import DOWN, LATE, WELL, said
from tests.core.deciding.scenes import AT_LISTEN, AT_PUBLIC, BOX, NOW, entry, fleet, row, scene

from llmao_core.actions import ActionKind, Outcome, OutcomeKind, Write
from llmao_core.fold import HOUR_S, Watch, fold_key, watch
from llmao_core.history import HostHistory, KeyHistory
from llmao_core.placement import Found, Place
from llmao_core.probes import (
    CanaryReport,
    Identity,
    OpenPathsReport,
    ProbeReport,
    Probes,
    ServedModel,
    Target,
)
from llmao_core.records import Kind, Lifecycle, SignalKind
from llmao_core.snapshots import BoxFetches, BoxProtocol, BoxStatus, Endpoint, Instance

SHOWN = Found(
    "vast",
    Instance("4711", BoxStatus.UP, endpoints={8001: Endpoint("http", BOX, 40001)}),
)


# ---- one pass after the other


@pytest.mark.parametrize("host", [None, HOST, HostHistory()])
def test_a_pass_that_saw_nothing_new_remembers_the_same(host: HostHistory | None) -> None:
    """The history is the very same, so that whoever compares has nothing to do."""
    assert KNOWN is folded(host=host)


def test_what_moves_leaves_the_rest() -> None:
    """One more report, and everything else that was known is known still."""
    known = evolve(KNOWN, lifecycle=Lifecycle.HEALTHY, since=NOW - 90.0)
    after = folded(known, probes=probed(NOW))
    expected = evolve(SEEN, probed_at=NOW, took_s=0.1, oks=4, last_ok=NOW, checked=1)
    assert evolve(known, seen={MAIN: expected}, last_ok=NOW) == after


def test_a_report_is_read_as_the_key_is_configured() -> None:
    """By the name that it serves under, and with the limits of the fleet."""
    identity = Identity(said(401), WELL, (ServedModel("small"),))
    named = Probes(reports={MAIN: ProbeReport(NOW, 0.1, WELL, identity)})
    assert SignalKind.OK is folded(probes=named).seen[MAIN].kind
    failing = evolve(SEEN, kind=SignalKind.FAILED, fails=1, counted=NOW - 9.0, first_fail=NOW - 9.0)
    down = Probes(reports={MAIN: ProbeReport(NOW, 0.1, DOWN)})
    assert 2 == folded(evolve(KNOWN, seen={MAIN: failing}), probes=down).seen[MAIN].fails


def test_each_of_several_targets_goes_on_from_what_it_has_shown() -> None:
    """A row that stands elsewhere is counted by itself, beside the address that is current."""
    failing = evolve(SEEN, kind=SignalKind.FAILED, fails=1, counted=NOW - 9.0, first_fail=NOW - 9.0)
    known = evolve(KNOWN, seen={MAIN: SEEN, AT_ROW: failing})
    down = Probes(reports={AT_ROW: ProbeReport(NOW, 0.1, DOWN)})
    after, targets = fold_key(known, entry(None, row(at=AT_ROW.base)), HOST, scene(probes=down))
    assert (MAIN, (AT_ROW,)) == (targets.main, targets.rows)
    assert SEEN is after.seen[MAIN]
    assert 2 == after.seen[AT_ROW].fails


def test_canaries_confirm_a_hang_by_the_threshold() -> None:
    """As many of them as the fleet takes failures."""
    silent = evolve(SEEN, metrics_at=NOW, silent_since=NOW - 90.0)
    canary = CanaryReport(NOW - 5.0, NOW, (LATE,) * scene().fleet.health_fail_threshold)
    after = folded(evolve(KNOWN, seen={MAIN: silent}), probes=Probes(canaries={MAIN: canary}))
    assert after.seen[MAIN].hung


def test_a_row_once_seen_stays_seen() -> None:
    """A key that has lost its row is known to have had one; and a first row is news."""
    assert KNOWN is folded()
    new = evolve(KNOWN, row_seen=False, last_ok=None, seen={})
    after, _ = fold_key(new, entry(None, row()), HOST, scene())
    assert after.row_seen


def test_a_discovered_key_is_remembered_as_one() -> None:
    """Nobody intends it: history alone tells that it proved to be ours, and whose listing said."""
    found = entry(kind=Kind.DISCOVERED, place=Place(found=SHOWN, named=True))
    after, _ = fold_key(KNOWN, found, HOST, scene())
    assert evolve(KNOWN, discovered="vast", dialable=AT_PUBLIC, seen={}) == after


@pytest.mark.parametrize("kind", [Kind.DISCOVERED, Kind.ORPHAN, Kind.UNKNOWN])
def test_a_listing_that_does_not_name_it_leaves_that(kind: Kind) -> None:
    """Only what is intended since was discovered by nobody."""
    known = evolve(KNOWN, discovered="vast")
    assert known is fold_key(known, entry(kind=kind), HOST, scene())[0]
    assert KNOWN == fold_key(known, entry(), HOST, scene())[0]


def test_where_it_was_last_reached_is_remembered() -> None:
    """A listing that maps the port anew moves the key; one that names nobody does not."""
    placed = entry(place=Place(found=SHOWN, named=True))
    after, targets = fold_key(KNOWN, placed, HOST, scene())
    assert (AT_PUBLIC, AT_ROW) == (after.dialable, targets.main)
    assert AT_LISTEN == folded().dialable


# ---- another instance


def test_a_new_instance_begins_anew() -> None:
    """Only removals are kept: they are about the name in LiteLLM, and not about the box."""
    host = HostHistory("vast", "4712", counted=NOW - 30.0)
    expected = KeyHistory(
        instance_id="4712",
        reset=NOW - 30.0,
        dialable=AT_LISTEN,
        removals=KNOWN.removals,
    )
    assert expected == folded(host=host)


def test_an_old_address_is_not_a_new_instances() -> None:
    """What a row is stamped with was reached before the reset, and is nobody's after it."""
    one = row(at=f"{BOX}:40001")
    blind = scene(rows=(one,), intervals={"vast": 60.0})
    for reset, url in ((None, AT_PUBLIC), (NOW - 30.0, "")):
        after, _ = fold_key(KeyHistory(reset=reset), entry(None, one), None, blind)
        assert url == after.dialable


def test_a_probe_of_the_instance_before_is_not_folded() -> None:
    """What was begun before the reset was answered by the earlier box; at it, by this one."""
    reset = KeyHistory(reset=NOW - 30.0, dialable=AT_LISTEN)
    assert {} == folded(reset, probes=probed(NOW - 30.5)).seen
    assert {MAIN} == set(folded(reset, probes=probed(NOW - 30.0)).seen)


def test_nothing_of_the_instance_before_is_folded_into_this_one() -> None:
    """The same for canaries and open paths, which are asked beside the probes."""
    reset = evolve(KNOWN, reset=NOW - 30.0)
    for asked, at in ((NOW - 30.5, None), (NOW - 30.0, NOW - 30.0)):
        canary = CanaryReport(asked, asked + 1.0, (WELL,))
        probes = Probes(
            canaries={MAIN: canary}, open_paths={MAIN: OpenPathsReport(asked, ("/ping",))}
        )
        seen = folded(reset, probes=probes).seen[MAIN]
        assert (at, at) == (seen.canary_at, seen.open_at)


@pytest.mark.parametrize(("reset", "last_ok"), [(None, NOW), (NOW - 30.0, NOW - 10.0)])
def test_an_ok_at_an_old_address_is_not_a_new_instances(
    reset: float | None, last_ok: float
) -> None:
    """A row's own address counts for the key, until another box may have the address."""
    known = evolve(KNOWN, reset=reset)
    routed = entry(None, row(at=f"{BOX}:40001"))
    after, _ = fold_key(known, routed, HOST, scene(probes=probed(NOW, AT_ROW)))
    assert last_ok == after.last_ok


def test_an_ok_at_its_address_is_a_new_instances() -> None:
    """After a reset the dialable URL counts as before."""
    assert NOW == folded(evolve(KNOWN, reset=NOW - 30.0), probes=probed(NOW)).last_ok


def test_an_older_ok_elsewhere_takes_nothing_back() -> None:
    """The newest ok of all is remembered, also of an address that is no longer probed."""
    known = evolve(KNOWN, seen={}, last_ok=NOW + 1.0)
    assert NOW + 1.0 == folded(known, probes=probed(NOW)).last_ok


@pytest.mark.parametrize(
    ("known", "at", "assumed"),
    [
        (None, AT_LISTEN, True),
        (None, AT_PUBLIC, False),
        (KeyHistory(reset=NOW - 30.0), AT_LISTEN, False),
        (KeyHistory(seen={AT_ROW: SEEN}), AT_LISTEN, False),
    ],
    ids=["at start", "another address", "another instance", "later"],
)
def test_a_row_proves_its_server_only_at_start(
    known: KeyHistory | None, at: str, assumed: bool
) -> None:
    """Who stands at a row's address when llmao starts was ours when the row was written."""
    routed = entry(None, row(at=at.removeprefix("http://")))
    after, _ = fold_key(
        evolve(known or KeyHistory(), dialable=AT_LISTEN), routed, None, scene(probes=probed(NOW))
    )
    assert assumed is after.seen[MAIN].identity


# ---- what is probed


def test_a_row_of_the_older_salt_is_probed_with_its_own_bearer() -> None:
    """The main address has a target for each bearer, a row the one that its stamp tells."""
    two = fleet(salts=2)
    older = two.deployments[0].previous
    assert older is not None
    bearers = (two.deployments[0].bearer_id, older.bearer_id)
    assert bearers[0] != bearers[1]
    rows = (row(two, bearer="previous"), row(two, id="copy"))
    targets = watch(entry(two, *rows), AT_PUBLIC)
    assert Target(AT_PUBLIC, bearers[0]) == targets.main
    assert Target(AT_PUBLIC, bearers[1]) == targets.previous
    assert (Target(AT_LISTEN, bearers[1]), Target(AT_LISTEN, bearers[0])) == targets.rows
    single = watch(entry(two, row(two)), AT_LISTEN)
    assert (Target(AT_LISTEN, bearers[1]), (single.main,)) == (single.previous, single.rows)


def test_every_row_is_probed_where_it_stands() -> None:
    """Two rows of one key have an address each; a row without one has no target."""
    assert Watch(MAIN, None, (MAIN,)) == watch(entry(None, row()), AT_LISTEN)
    rows = (row(), row(id="copy", at=f"{BOX}:40001"), evolve(row(id="bare"), base=""))
    assert (MAIN, AT_ROW) == watch(entry(None, *rows), AT_LISTEN).rows


def test_without_an_address_only_rows_are_probed() -> None:
    """A key that no listing places is probed where its row stands."""
    targets = watch(entry(fleet(salts=2), row(fleet(salts=2))), "")
    assert (None, None, 1) == (targets.main, targets.previous, len(targets.rows))


# ---- hand-outs


def handed(
    known: KeyHistory, first: float | None, last: float | None, floor: float | None = None
) -> tuple[float | None, float | None]:
    protocol = BoxProtocol({BOX: BoxFetches(first_handout=first, last_handout=last)})
    after = folded(known, evolve(HOST, floor=floor), protocol=protocol)
    return after.handout, after.last_handout


NEVER = evolve(KNOWN, seen={}, handout=None, last_handout=None, last_ok=None)
LATELY = evolve(NEVER, last_ok=NOW - 40.0)


@pytest.mark.parametrize(
    ("known", "first", "last", "expected"),
    [
        (KNOWN, None, None, (NOW - 60.0, NOW - 50.0)),
        (NEVER, NOW - 90.0, NOW - 20.0, (NOW - 90.0, NOW - 20.0)),
        (NEVER, None, NOW - 20.0, (NOW - 20.0, NOW - 20.0)),
        (LATELY, NOW - 90.0, NOW - 40.0, (None, NOW - 40.0)),
        (LATELY, NOW - 90.0, NOW - 39.0, (NOW - 39.0, NOW - 39.0)),
        (LATELY, NOW - 40.0, NOW - 20.0, (NOW - 20.0, NOW - 20.0)),
        (LATELY, NOW - 39.0, NOW - 20.0, (NOW - 39.0, NOW - 20.0)),
        (evolve(LATELY, handout=NOW - 40.0), NOW - 30.0, NOW - 20.0, (NOW - 30.0, NOW - 20.0)),
        (evolve(LATELY, handout=NOW - 35.0), NOW - 90.0, NOW - 20.0, (NOW - 35.0, NOW - 20.0)),
    ],
)
def test_the_first_hand_out_since_the_last_ok_counts(
    known: KeyHistory,
    first: float | None,
    last: float | None,
    expected: tuple[float | None, float | None],
) -> None:
    """A server is as young as the first configuration it was given since it last was ok."""
    assert expected == handed(known, first, last)


def test_a_hand_out_to_the_instance_before_is_none() -> None:
    """Up to the floor they were another box's."""
    assert (None, None) == handed(NEVER, NOW - 90.0, NOW - 20.0, floor=NOW - 20.0)
    assert (NOW - 20.0, NOW - 20.0) == handed(NEVER, NOW - 90.0, NOW - 20.0, floor=NOW - 21.0)


def test_a_foreign_row_was_handed_nothing() -> None:
    """What has no server of ours behind it has no hand-outs, whoever fetches."""
    protocol = BoxProtocol({BOX: BoxFetches(first_handout=NOW, last_handout=NOW)})
    foreign = entry(kind=Kind.FOREIGN, deployment=None, rows=(row(),))
    after, targets = fold_key(None, foreign, None, scene(protocol=protocol))
    assert (None, None, {}) == (after.handout, after.last_handout, after.seen)
    assert (None, None, ()) == (targets.main, targets.previous, targets.rows)


# ---- removals


def removed(at: float | None, outcome: Outcome | None, **changes: Any) -> dict[str, Write]:
    one = fleet().deployments[0]
    write = Write(ActionKind.DELETE_LITELLM, one.key, NOW - 5.0, at, outcome)
    return {one.litellm_id: evolve(write, **changes)}


DONE = Outcome(OutcomeKind.DONE)


def test_a_removal_is_remembered_once() -> None:
    """However many passes see the same answer, it is one removal."""
    writes = removed(NOW - 4.0, DONE)
    once = folded(writes=writes)
    assert (NOW - 500.0, NOW - 4.0) == once.removals
    assert once is folded(once, writes=writes)


def test_a_removal_of_a_foreign_row_is_none_of_a_key() -> None:
    """It has no id of ours to look for."""
    foreign = entry(kind=Kind.FOREIGN, deployment=None, rows=(row(),))
    after, _ = fold_key(None, foreign, None, scene(writes=removed(NOW - 4.0, DONE)))
    assert () == after.removals


@pytest.mark.parametrize(
    "writes",
    [
        removed(None, None),
        removed(NOW - 4.0, Outcome(OutcomeKind.FAILED)),
        removed(NOW - 4.0, DONE, kind=ActionKind.UPDATE_LITELLM),
    ],
    ids=["under way", "failed", "an update"],
)
def test_only_a_removal_that_happened_is_one(writes: dict[str, Write]) -> None:
    """What is under way, failed, or put something in took no route away."""
    assert KNOWN is folded(writes=writes)


def test_a_removal_that_was_wished_is_excused_for_good() -> None:
    """The wish may be over when the answer is seen again."""
    writes, drained = removed(NOW - 4.0, DONE), fleet(drained=[BOX])
    after, _ = fold_key(KNOWN, entry(drained), HOST, scene(drained, writes=writes))
    assert evolve(KNOWN, excused=NOW - 4.0) == after
    assert after is folded(after, writes=writes)


@pytest.mark.parametrize(("age_s", "known"), [(HOUR_S, True), (HOUR_S + 0.5, False)])
def test_removals_are_remembered_for_an_hour(age_s: float, known: bool) -> None:
    """After it they are forgotten one by one."""
    after = folded(evolve(KNOWN, removals=(NOW - 4_000.0, NOW - age_s, NOW - 500.0)))
    assert ((NOW - age_s, NOW - 500.0) if known else (NOW - 500.0,)) == after.removals


def test_rows_are_not_needed_to_know_where_a_commercial_model_is() -> None:
    """It is where its provider is, and nothing of it is probed."""
    sold = fleet(commercial=["gpt"])
    one = sold.deployments[-1]
    commercial = entry(sold, key=one.key, kind=Kind.COMMERCIAL, deployment=one)
    after, targets = fold_key(None, commercial, None, scene(sold))
    assert (one.key.base, None) == (after.dialable, targets.main)
