"""What is probed next: which targets, with which bearer, which steps of it are due, and when."""

from typing import Any

import pytest
from attrs import evolve
from tests.core.deciding.drafts import FACTS, OURS, ROW, draft
from tests.core.deciding.known import AT_ROW, MAIN
from tests.core.deciding.reports import IDLE, STILL, WELL
from tests.core.deciding.scenes import AT_LISTEN, NOW, entry, fleet, scene

from llmao_core.aim import (
    CANARY_AGAIN_S,
    HUNG_AGAIN_S,
    IDENTITY_EVERY,
    OPEN_AGAIN_S,
    RETRY_S,
    probe_specs,
)
from llmao_core.classify import Aim
from llmao_core.config import CanaryConfig
from llmao_core.draft import Draft
from llmao_core.facts import Gate
from llmao_core.fold import Watch
from llmao_core.history import Cause, KeyHistory, Seen
from llmao_core.join import Exploration
from llmao_core.placement import Found
from llmao_core.probes import Counters, ProbeReport, Probes, Target
from llmao_core.records import Kind, ProbeSpec, SignalKind
from llmao_core.scene import Scene
from llmao_core.secret import Secret
from llmao_core.signal import METRICS_INTERVAL_S
from llmao_core.snapshots import Instance

FLEET = scene().fleet
EVERY_S = FLEET.health_interval_s
OK = Seen(
    NOW - 2.0,
    SignalKind.OK,
    took_s=0.5,
    oks=32,
    identity=True,
    checked=1,
    counters=IDLE,
    metrics_at=NOW - 2.0,
    proven_at=NOW - 50.0,
    open_at=NOW - 50.0,
)
DOWN = evolve(OK, kind=SignalKind.FAILED, cause=Cause.SILENT, counted=NOW - 2.0, oks=0)
HUNG = evolve(DOWN, cause=Cause.HUNG, hung=True, silent_since=NOW - 90.0)
CALM = KeyHistory(dialable=AT_LISTEN, seen={MAIN: OK})


def one(seen: Seen | None = OK, known: KeyHistory = CALM, **changes: Any) -> Draft:
    """Return a key without a row that has shown this at its dialable URL."""
    known = evolve(known, seen={MAIN: seen} if seen else {})
    aim = Aim(OURS, MAIN, seen, stale=False)
    found = draft(entry=entry(), known=known, targets=Watch(MAIN, None, ()), aim=aim, action=None)
    return evolve(found, **changes)


def spec(seen: Seen | None = OK, found: Scene | None = None, **changes: Any) -> ProbeSpec:
    (only,) = probe_specs([one(seen, **changes)], (), found or scene())
    return only


# ---- which targets


def test_a_target_is_asked_for_what_its_key_serves() -> None:
    """With its bearer, by its name, in its mode."""
    assert OURS.bearer is not None
    expected = ProbeSpec(
        MAIN, OURS.bearer, "small", "chat", NOW - 2.0 + EVERY_S, identity=False, metrics=False
    )
    assert expected == spec()


@pytest.mark.parametrize(("reset", "due_at"), [(None, 0.0), (NOW - 9.0, NOW - 9.0)])
def test_what_was_never_probed_is_due(reset: float | None, due_at: float) -> None:
    """With every step but canaries; since the instance changed, if it did."""
    assert OURS.bearer is not None
    expected = ProbeSpec(MAIN, OURS.bearer, "small", "chat", due_at)
    assert expected == spec(None, known=evolve(CALM, reset=reset))


def test_a_foreign_row_is_not_probed() -> None:
    """Nobody knows what should stand behind it."""
    assert () == probe_specs([one(entry=entry(deployment=None))], (), scene())


TWO = fleet(salts=2)
NEWER, OLDER = TWO.deployments[0], TWO.deployments[0].previous
assert OLDER is not None
BOTH = (Target(AT_LISTEN, NEWER.bearer_id), Target(AT_LISTEN, OLDER.bearer_id))
OLD_ROW = Target(AT_ROW.base, OLDER.bearer_id)
ROWS = (BOTH[0], BOTH[1], OLD_ROW, AT_ROW)


def bearers(main: Seen | None) -> list[tuple[Target, Secret | None]]:
    two = evolve(one(main, entry=entry(TWO)), targets=Watch(*BOTH, ROWS))
    return [(each.target, each.bearer) for each in probe_specs([two], (), scene(TWO))]


@pytest.mark.parametrize("main", [None, evolve(OK, identity=False)])
def test_the_older_bearer_is_tried_until_the_newer_is_proven(main: Seen | None) -> None:
    """A row is probed with the bearer it carries, and no target twice."""
    assert OLDER is not None
    older, newer = OLDER.bearer, NEWER.bearer
    expected = [(BOTH[0], newer), (BOTH[1], older), (OLD_ROW, older), (AT_ROW, newer)]
    assert expected == bearers(main)
    del expected[1]
    assert expected == bearers(OK)


def test_a_key_without_an_address_is_probed_at_its_rows() -> None:
    """There is nothing else of it."""
    (only,) = probe_specs([one(targets=Watch(None, None, (AT_ROW,)))], (), scene())
    assert AT_ROW == only.target


def test_two_keys_at_one_target_share_a_probe() -> None:
    """What either needs is done, at the earlier time."""
    first = one(evolve(OK, probed_at=NOW - 1.0))
    second = one(evolve(OK, identity=False, metrics_at=None))
    (only,) = probe_specs([first, second], (), scene())
    assert (NOW - 2.0 + EVERY_S, True, True) == (only.due_at, only.identity, only.metrics)
    (again,) = probe_specs([second, first], (), scene())
    assert only == again
    (calm,) = probe_specs([first, first], (), scene())
    assert (False, False, None) == (calm.identity, calm.metrics, calm.open_due)


def test_two_keys_at_one_target_share_what_is_asked_beside_it() -> None:
    """The larger number of canaries, and the open paths of the one that wants them."""
    hung, proven = one(HUNG), one(evolve(OK, proven_at=None, open_at=None))
    for drafts in ([hung, proven], [proven, hung]):
        (only,) = probe_specs(drafts, (), scene())
        assert (3, NOW, NOW) == (only.canaries, only.canary_due, only.open_due)
    for drafts in ([one(), proven], [proven, one()]):
        (only,) = probe_specs(drafts, (), scene())
        assert (1, NOW, NOW) == (only.canaries, only.canary_due, only.open_due)


def test_a_spare_port_is_asked_who_it_is() -> None:
    """At the pace of LiteLLM's reads; without canaries, since nobody knows its mode."""
    spare = Exploration(Found("vast", Instance("9")), "9", 8001, AT_ROW.base, OURS)
    assert OURS.bearer is not None
    expected = ProbeSpec(AT_ROW, OURS.bearer, "small", "none", 0.0, metrics=False)
    assert (expected,) == probe_specs([], [spare], scene())
    probes = Probes(reports={AT_ROW: ProbeReport(NOW - 9.0, 0.1, WELL)})
    later = expected._replace(due_at=NOW - 9.0 + FLEET.skew_interval_s)
    assert (later,) == probe_specs([], [spare], scene(probes=probes))
    own = one(targets=Watch(AT_ROW, None, ()))
    (only,) = probe_specs([own], [spare], scene())
    assert "chat" == only.mode


# ---- when


@pytest.mark.parametrize(
    ("changes", "due_at"),
    [
        ({"cause": Cause.REFUSED, "counted": NOW - 4.0}, NOW - 1.5 + RETRY_S),
        ({"counted": None}, NOW - 1.5 + RETRY_S),
        ({"counted": NOW - 2.0}, NOW - 1.5 + RETRY_S),
        ({"counted": NOW - 3.5}, NOW - 1.5 + RETRY_S),
        ({"counted": NOW - 4.0}, NOW - 4.0 + EVERY_S),
        ({"counted": NOW - 6.0}, NOW - 6.0 + EVERY_S),
        ({"counted": NOW - 7.0}, NOW - 1.5 + RETRY_S),
        ({"cause": Cause.HUNG, "counted": NOW - 4.0}, NOW - 2.0 + EVERY_S),
        ({"kind": SignalKind.REFUSED, "counted": NOW - 4.0}, NOW - 2.0 + EVERY_S),
    ],
)
def test_a_suspect_is_looked_at_early(changes: dict[str, Any], due_at: float) -> None:
    """A second after its answer, or right when a failure would count, if that is near."""
    assert due_at == spec(evolve(DOWN, **changes)).due_at


@pytest.mark.parametrize(
    ("probed_at", "silent_since", "due_at"),
    [
        (NOW - 2.0, None, NOW + 4.0),
        (NOW - 2.0, NOW - 57.0, NOW + 3.0),
        (NOW - 2.0, NOW - 55.0, NOW + 4.0),
        (NOW - 2.0, NOW - 62.0, NOW + 4.0),
    ],
)
def test_a_silence_is_looked_at_when_it_has_lasted(
    probed_at: float, silent_since: float | None, due_at: float
) -> None:
    """Where canaries are asked; once it is suspect it is looked at as ever."""
    seen = evolve(OK, probed_at=probed_at, silent_since=silent_since)
    assert due_at == spec(seen).due_at
    none = scene(fleet=evolve(FLEET, canary=CanaryConfig(enabled=False)))
    assert NOW + 4.0 == spec(seen, none).due_at


# ---- which steps


@pytest.mark.parametrize(
    ("changes", "due"),
    [
        ({}, False),
        ({"identity": False}, True),
        ({"checked": IDENTITY_EVERY - 1}, True),
        ({"checked": IDENTITY_EVERY - 2}, False),
        ({"checked": IDENTITY_EVERY, "kind": SignalKind.FAILED}, False),
    ],
)
def test_who_answers_is_asked_every_tenth_time(changes: dict[str, Any], due: bool) -> None:
    """And until it is proven; of a suspect that only timed out it is known."""
    assert due is spec(evolve(OK, **changes)).identity


@pytest.mark.parametrize(
    ("changes", "due"),
    [
        ({}, False),
        ({"metrics_at": None}, True),
        ({"kind": SignalKind.FAILED}, True),
        ({"hung": True}, True),
        ({"counters": STILL}, True),
        ({"counters": evolve(IDLE, waiting=1)}, False),
        ({"counters": None}, False),
        ({"metrics_at": NOW + 4.0 - METRICS_INTERVAL_S + FLEET.health_timeout_s}, True),
        ({"metrics_at": NOW + 4.5 - METRICS_INTERVAL_S + FLEET.health_timeout_s}, False),
    ],
)
def test_counters_are_read_while_they_may_move(changes: dict[str, Any], due: bool) -> None:
    """Of an idle server that is well, in time before the last reading is too old."""
    assert due is spec(evolve(OK, **changes)).metrics


# ---- canaries


UNPROVEN = evolve(OK, proven_at=None)


def asked(seen: Seen, found: Scene | None = None, **changes: Any) -> tuple[int, float | None]:
    got = spec(seen, found, **changes)
    return got.canaries, got.canary_due


@pytest.mark.parametrize(
    ("canary_at", "since", "expected"),
    [
        (None, None, (1, NOW)),
        (NOW - CANARY_AGAIN_S, None, (1, NOW)),
        (NOW - CANARY_AGAIN_S + 0.5, None, (0, None)),
        (NOW - 5.0, NOW - 4.5, (1, NOW)),
        (NOW - 5.0, NOW - 5.0, (0, None)),
    ],
)
def test_an_add_is_proven_by_one_canary(
    canary_at: float | None, since: float | None, expected: tuple[int, float | None]
) -> None:
    """Again after a while, and at once after what makes an older proof void."""
    known = evolve(CALM, last_handout=since)
    assert expected == asked(evolve(UNPROVEN, canary_at=canary_at), known=known)
    assert (0, None) == asked(OK)


@pytest.mark.parametrize(
    "changes",
    [
        {"entry": entry(None, ROW)},
        {"entry": entry(kind=Kind.ORPHAN)},
        {"facts": FACTS._replace(gate=Gate.LEAVING)},
        {"aim": None},
        {"aim": Aim(OURS, AT_ROW, UNPROVEN, stale=False)},
        {"found": scene(deployments=None)},
        {"found": scene(fleet=evolve(FLEET, canary=CanaryConfig(enabled=False)))},
        {"seen": evolve(UNPROVEN, kind=SignalKind.BUSY)},
        {"seen": evolve(UNPROVEN, identity=False)},
    ],
    ids=[
        "routed",
        "an orphan",
        "leaving",
        "no aim",
        "another aim",
        "unread",
        "no canaries",
        "busy",
        "a stranger",
    ],
)
def test_nothing_is_asked_that_would_add_nothing(changes: dict[str, Any]) -> None:
    """A canary costs the server work: it is asked where an add waits for nothing else."""
    assert (0, None) == asked(**{"seen": UNPROVEN, **changes})


def test_where_canaries_are_off_open_paths_prove_nothing_more() -> None:
    """A fleet that must be closed lacks that proof, and no canary gives it."""
    strict = evolve(FLEET, require_closed=True, canary=CanaryConfig(enabled=False))
    assert (0, None) == asked(evolve(OK, open_at=None), scene(fleet=strict))


SUSPECT = evolve(OK, silent_since=NOW - 62.0, counters=STILL)


@pytest.mark.parametrize("seen", [HUNG, SUSPECT])
@pytest.mark.parametrize("aim", [Aim(OURS, MAIN, OK, stale=False), None])
@pytest.mark.parametrize(
    ("age_s", "again"),
    [(None, True), (HUNG_AGAIN_S, True), (59.5, False), (5.0, False), (100.0, True)],
)
def test_what_hangs_is_asked_by_several(
    seen: Seen, aim: Aim | None, age_s: float | None, again: bool
) -> None:
    """As many as it takes, once a minute, at any target: without its row nothing else moves it."""
    seen = evolve(seen, canary_at=None if age_s is None else NOW - age_s)
    expected = (FLEET.health_fail_threshold, NOW) if again else (0, None)
    assert expected == asked(seen, aim=aim)


def test_a_new_silence_is_asked_about_at_once() -> None:
    """The canaries of before it say nothing of it; a hang may have no silence any more."""
    lately = evolve(SUSPECT, metrics_at=NOW + 60.0, silent_since=NOW - 4.5, canary_at=NOW - 5.0)
    assert (3, NOW) == asked(lately)
    assert (0, None) == asked(evolve(lately, silent_since=NOW - 5.0))
    assert (0, None) == asked(evolve(HUNG, silent_since=None, canary_at=NOW - 5.0))


@pytest.mark.parametrize(
    ("changes", "due"),
    [
        ({}, None),
        ({"open_at": None}, NOW),
        ({"open_at": NOW - OPEN_AGAIN_S}, NOW),
        ({"open_at": NOW - OPEN_AGAIN_S + 0.5}, None),
        ({"open_at": None, "identity": False}, None),
        ({"open_at": None, "kind": SignalKind.BUSY}, None),
    ],
)
def test_open_paths_are_looked_at_once_an_hour(changes: dict[str, Any], due: float | None) -> None:
    """Of a server that is well and ours."""
    assert due == spec(evolve(OK, **changes)).open_due


def test_counters_that_stand_still_are_no_canary() -> None:
    """An idle engine moves nothing either."""
    idle = Counters(generated=1, prompt=1, finished=1, kv_usage=0, running=0, waiting=0)
    assert (0, None) == asked(evolve(OK, counters=idle))
