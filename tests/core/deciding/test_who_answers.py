"""Who answers: what `/v1/models`, asked without and with the bearer, makes of one target."""

from typing import Literal

import pytest
from attrs import evolve
from tests.core.deciding.reports import FAILING, FLEET, LATE, LIVED, MOVED, after, said, told

from llmao_core.probes import Identity, ProbeReport, Reply, ReplyKind, ServedModel
from llmao_core.records import SignalKind
from llmao_core.signal import fold_report

CLOSED, GARBLED = said(401), Reply(ReplyKind.BROKEN)
OURS = ServedModel("small", max_model_len=8192)
OTHERS = tuple(ServedModel(name) for name in "abcdef")


def asked(keyless: Reply, keyed: Reply | None = None, *served: ServedModel) -> ProbeReport:
    return ProbeReport(106.0, 0.1, said(200), Identity(keyless, keyed, served))


@pytest.mark.parametrize(
    ("report", "kind", "detail"),
    [
        (asked(said(200)), "refused", "answers without a key"),
        (asked(said(403)), "garbled", "/v1/models without a key: HTTP 403"),
        (asked(GARBLED), "garbled", "/v1/models: broken answer"),
        (asked(LATE), "ok", ""),
        (asked(CLOSED), "garbled", "/v1/models: not asked"),
        (asked(CLOSED, LATE), "garbled", "/v1/models: timed out"),
        (asked(CLOSED, said(500)), "garbled", "/v1/models: HTTP 500"),
        (asked(CLOSED, said(401)), "refused", "refuses our bearer (HTTP 401)"),
        (asked(CLOSED, said(403)), "refused", "refuses our bearer (HTTP 403)"),
        (asked(CLOSED, said(200)), "other_model", "serves nothing, not small"),
        (asked(CLOSED, said(200), *OTHERS), "other_model", "serves a, b, c, d, e, not small"),
        (asked(CLOSED, said(200), *OTHERS, OURS), "ok", ""),
    ],
)
def test_who_answers_is_what_it_said(report: ProbeReport, kind: str, detail: str) -> None:
    """While /health is well, each answer to `/v1/models` is one signal, and says why."""
    seen = after(None, report)
    assert (SignalKind(kind), detail) == (seen.kind, seen.detail)


@pytest.mark.parametrize(
    ("keyless", "keyed"), [(GARBLED, None), (CLOSED, None), (CLOSED, LATE), (CLOSED, said(500))]
)
def test_a_dead_server_is_dead_whoever_it_is(keyless: Reply, keyed: Reply | None) -> None:
    """Where /health fails, half an answer to `/v1/models` is no signal of its own."""
    seen = after(None, evolve(asked(keyless, keyed), health=said(503)))
    assert (SignalKind.FAILED, "/health: HTTP 503") == (seen.kind, seen.detail)


def test_only_what_works_without_a_key_is_open() -> None:
    """A server that refuses our bearer is closed; one that asks for none is open until it does."""
    opened = after(LIVED, asked(said(200)))
    assert opened.open
    assert not after(opened, evolve(asked(CLOSED, said(401)), probed_at=112.0)).open


def test_a_proof_is_good_until_something_contradicts_it() -> None:
    """It says how long a context may be, and each probe without another makes it older by one."""
    proven = after(LIVED, asked(CLOSED, said(200), OURS))
    assert (True, 0, 8192) == (proven.identity, proven.checked, proven.max_model_len)
    later = after(proven, told(112.0, said(200)), told(118.0, LATE))
    assert (True, 2, 8192) == (later.identity, later.checked, later.max_model_len)


@pytest.mark.parametrize("assumed", [True, False])
def test_a_first_report_proves_no_more_than_is_assumed(assumed: bool) -> None:
    """Who it is stood in a row of ours, or is not known yet."""
    seen = fold_report(None, told(106.0, said(200)), "small", FLEET, assumed)
    assert (assumed, 1, 1) == (seen.identity, seen.oks, seen.checked)


def test_a_busy_server_can_prove_itself() -> None:
    """Its /health is late, its counters move, and it says what it serves."""
    report = evolve(asked(CLOSED, said(200), OURS), health=LATE, counters=MOVED)
    seen = after(evolve(LIVED, identity=False), report)
    assert (SignalKind.BUSY, True, 106.0) == (seen.kind, seen.identity, seen.last_ok)


@pytest.mark.parametrize(
    ("health", "stays"),
    [
        (LATE, True),
        (said(503), True),
        (Reply(ReplyKind.REFUSED), False),
        (Reply(ReplyKind.NO_ROUTE), False),
        (Reply(ReplyKind.DNS), False),
        (Reply(ReplyKind.BROKEN), False),
    ],
)
def test_what_is_silent_may_still_be_ours(health: Reply, stays: bool) -> None:
    """An address that is closed or unknown may come back as somebody else's; a late one may not."""
    assert stays is after(FAILING, told(106.0, health)).identity


@pytest.mark.parametrize(
    "report", [asked(said(200)), asked(CLOSED, said(401)), asked(CLOSED, said(200)), asked(GARBLED)]
)
def test_a_stranger_is_not_ours_any_more(report: ProbeReport) -> None:
    """Whoever answers otherwise than ours would ends the proof, and the run of oks."""
    seen = after(LIVED, report)
    assert (False, 0, 106.0) == (seen.identity, seen.oks, seen.first_fail)


@pytest.mark.parametrize(("required", "refused"), [(True, True), ("warn", False), (False, False)])
def test_open_paths_refuse_only_where_they_must_be_closed(
    required: Literal["warn"] | bool, refused: bool
) -> None:
    """The paths are named; a fleet that is only warned routes to the server."""
    fleet = evolve(FLEET, require_closed=required)
    seen = after(evolve(LIVED, open_paths=("/a", "/b")), told(106.0, said(200)), fleet=fleet)
    reason = "does work without a bearer: /a, /b"
    expected = (SignalKind.REFUSED, True, reason) if refused else (SignalKind.OK, False, "")
    assert expected == (seen.kind, seen.open, seen.detail)


def test_refusals_are_counted_while_they_are_of_one_kind() -> None:
    """Two refusals are two, another model after them is the first of its kind, an ok ends it."""
    reports = [
        evolve(asked(CLOSED, keyed), probed_at=at)
        for at, keyed in ((106.0, said(401)), (112.0, said(403)), (118.0, said(200)))
    ]
    runs = [after(LIVED, *reports[:count]).run for count in (1, 2, 3)]
    assert [1, 2, 1] == runs
    assert 1 == after(LIVED, *reports, told(124.0, said(200)), told(130.0, LATE)).run
