"""What decides an action: what stands before it, how the row stands, and what an add has proven."""

from typing import Any

import pytest
from attrs import evolve
from tests.core.deciding.known import MAIN, SEEN
from tests.core.deciding.scenes import AT_LISTEN, AT_PUBLIC, BOX, NOW, entry, fleet, row, scene

from llmao_core.actions import ActionKind, Write
from llmao_core.classify import Aim, api_base, copy_of, lacks_proof, plan_facts, required_oks
from llmao_core.config import CanaryConfig
from llmao_core.drift import EQUAL
from llmao_core.facts import AtRow, Base, Gate, Passes, PlanFacts, Ready, Route, Want
from llmao_core.history import History, KeyHistory, Reboot, RowHistory, Seen
from llmao_core.join import Joined
from llmao_core.records import Kind, Lifecycle, SignalKind
from llmao_core.scene import Scene
from llmao_core.snapshots import BoxFetches, BoxProtocol, Row

OURS = fleet().deployments[0]
THRESHOLD = scene().fleet.health_fail_threshold
WELL = evolve(SEEN, oks=32, proven_at=NOW)
CALM = KeyHistory(dialable=AT_LISTEN, seen={MAIN: WELL})


def facts(
    one: Joined | None = None,
    known: KeyHistory = CALM,
    seen: Seen | None = WELL,
    row_seen: Seen | None = None,
    row_known: RowHistory | None = None,
    history: History | None = None,
    found: Scene | None = None,
    *,
    stale: bool = False,
) -> PlanFacts:
    return plan_facts(
        one or entry(),
        known,
        Aim(OURS, MAIN, seen, stale),
        row_seen,
        Lifecycle.HEALTHY,
        EQUAL,
        row_known,
        found or scene(),
        history or History(),
    )


def test_what_was_decided_before_is_passed_on() -> None:
    """The lifecycle and the row's difference are facts as they are."""
    told = facts()
    assert (Lifecycle.HEALTHY, EQUAL.drift) == (told.life, told.drift)


# ---- what stands before


def under_way(target: str) -> dict[str, Write]:
    return {target: Write(ActionKind.UPDATE_LITELLM, OURS.key, NOW)}


FETCHED = BoxProtocol({BOX: BoxFetches(restarting={OURS.name: NOW - 9.0})})
REBOOT = Reboot("vast", "4711", "admin", NOW - 100.0, NOW + 500.0)


@pytest.mark.parametrize(
    ("usable", "expected"),
    [
        ({}, Gate.OPEN),
        ({"deployments": None}, Gate.BLIND),
        ({"writes": under_way(OURS.litellm_id)}, Gate.PENDING),
        ({"writes": under_way("copy")}, Gate.PENDING),
        ({"writes": under_way("another")}, Gate.OPEN),
        ({"reboots": {BOX: REBOOT}}, Gate.REBOOTING),
        ({"reboots": {BOX: evolve(REBOOT, sent=NOW)}}, Gate.RESTARTING),
        ({"protocol": FETCHED}, Gate.RESTARTING),
    ],
)
def test_what_stands_before_any_decision(usable: dict[str, Any], expected: Gate) -> None:
    """The row of the derived id and every other row of the key may have a write under way."""
    routed = entry(None, row(id="first"), row(id="copy"))
    assert expected is facts(routed, found=scene(**usable)).gate


def test_a_leaving_key_leaves_before_its_box_reboots() -> None:
    """Drained is drained, whatever else is announced; and another's write is no write of it."""
    drained = fleet(drained=[BOX])
    found = scene(drained, reboots={BOX: REBOOT}, protocol=FETCHED, writes=under_way("another"))
    assert Gate.LEAVING is facts(entry(drained), found=found).gate
    assert Gate.REBOOTING is facts(found=scene(reboots={BOX: REBOOT}, protocol=FETCHED)).gate


@pytest.mark.parametrize(
    ("broken", "expected"),
    [(None, Gate.RESTARTING), (NOW - 9.0, Gate.RESTARTING), (NOW - 8.5, Gate.OPEN)],
)
def test_a_restart_that_was_seen_to_happen_is_over(broken: float | None, expected: Gate) -> None:
    """From then on its probes decide, as ever."""
    assert expected is facts(known=evolve(CALM, broken=broken), found=scene(protocol=FETCHED)).gate


def test_the_write_of_a_foreign_row_is_seen() -> None:
    """It has no derived id, and is pending by its own."""
    foreign = entry(None, row(id="first"), kind=Kind.FOREIGN, deployment=None)
    assert Gate.PENDING is facts(foreign, found=scene(writes=under_way("first"))).gate
    assert Gate.OPEN is facts(foreign, found=scene(writes=under_way("another"))).gate


# ---- why it is there, and how it is routed


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"kind": Kind.INTENDED}, Want.INTENDED),
        ({"kind": Kind.DISCOVERED}, Want.DISCOVERED),
        ({"kind": Kind.COMMERCIAL}, Want.COMMERCIAL),
        ({"kind": Kind.FOREIGN}, Want.FOREIGN),
        ({"kind": Kind.ORPHAN}, Want.ORPHAN),
        ({"kind": Kind.UNKNOWN}, Want.UNKNOWN),
        ({"kind": Kind.ORPHAN, "displaced": True}, Want.DISPLACED),
        ({"kind": Kind.ORPHAN, "deployment": evolve(OURS, host="")}, Want.BOXLESS),
        ({"kind": Kind.ORPHAN, "deployment": None}, Want.BOXLESS),
    ],
)
def test_why_a_key_is_there(changes: dict[str, Any], expected: Want) -> None:
    """An orphan is told apart by whether its port is wanted, and whether it is a box at all."""
    assert expected is facts(entry(**changes)).want


OTHERS_COPY = Row("a copy", "small", AT_LISTEN)


@pytest.mark.parametrize(
    ("rows", "copies", "expected"),
    [
        ((), (), Route.NONE),
        ((), (OTHERS_COPY,), Route.NONE),
        ((row(),), (), Route.ONE),
        ((row(),), (OTHERS_COPY,), Route.BESIDE),
        ((row(),), (evolve(OTHERS_COPY, in_db=False),), Route.ONE),
        ((row(),), (evolve(OTHERS_COPY, fleet="other"),), Route.ONE),
        ((row(), row(id="second")), (OTHERS_COPY,), Route.SEVERAL),
    ],
)
def test_how_a_key_is_routed(
    rows: tuple[Row, ...], copies: tuple[Row, ...], expected: Route
) -> None:
    """A copy counts only where nobody has marked it, and LiteLLM's own file does not hold it."""
    assert expected is facts(entry(rows=rows, copies=copies)).route


def test_of_several_copies_the_first_goes() -> None:
    """The same one in every pass, whatever order LiteLLM lists them in."""
    copies = tuple(evolve(OTHERS_COPY, id=one) for one in ("b", "a", "c"))
    assert copies[1] == copy_of(entry(copies=copies))


# ---- at the row's own address


@pytest.mark.parametrize(
    ("changes", "displaced", "expected"),
    [
        ({}, False, AtRow.ALIVE),
        ({"kind": SignalKind.BUSY}, False, AtRow.ALIVE),
        ({"kind": SignalKind.GARBLED}, False, AtRow.UNKNOWN),
        ({"kind": SignalKind.FAILED, "fails": THRESHOLD}, False, AtRow.FAILED),
        ({"kind": SignalKind.FAILED, "fails": THRESHOLD - 1}, False, AtRow.UNKNOWN),
        ({"kind": SignalKind.OTHER_MODEL, "run": 2}, False, AtRow.OTHER_MODEL),
        ({"kind": SignalKind.OTHER_MODEL, "run": 1}, False, AtRow.UNKNOWN),
        ({"kind": SignalKind.OTHER_MODEL, "run": 1}, True, AtRow.OTHER_MODEL),
        ({"kind": SignalKind.REFUSED, "run": 2}, False, AtRow.REFUSED),
        ({"kind": SignalKind.REFUSED, "run": 2, "open": True}, False, AtRow.OPEN),
        ({"kind": SignalKind.REFUSED, "run": 1, "open": True}, True, AtRow.UNKNOWN),
        ({"probed_at": NOW - 1_000.0}, False, AtRow.UNKNOWN),
    ],
)
def test_what_stands_at_the_rows_own_address(
    changes: dict[str, Any], displaced: bool, expected: AtRow
) -> None:
    """A strange answer counts the second time; the expected model of a displaced row at once."""
    told = facts(entry(displaced=displaced), row_seen=evolve(SEEN, **changes))
    assert expected is told.at_row
    assert AtRow.UNKNOWN is facts(row_seen=None).at_row


@pytest.mark.parametrize(
    ("at", "dialable", "expected"),
    [
        (AT_LISTEN, AT_LISTEN, Base.CURRENT),
        (AT_PUBLIC, AT_LISTEN, Base.ELSEWHERE),
        (AT_PUBLIC, "", Base.CURRENT),
    ],
)
def test_a_row_stands_where_it_can_be_reached(at: str, dialable: str, expected: Base) -> None:
    """Where nobody knows how to reach the server, its row is left where it is."""
    one = entry(None, row(at=at.removeprefix("http://")))
    assert expected is facts(one, evolve(CALM, dialable=dialable)).base


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (f"{AT_LISTEN}/v1", Base.CURRENT),
        (AT_LISTEN, Base.ELSEWHERE),
        (f"{AT_LISTEN}/v1/", Base.ELSEWHERE),
        (None, Base.CURRENT),
    ],
)
def test_an_address_is_compared_as_it_is_written(written: str | None, expected: Base) -> None:
    """A lost `/v1` is another address to LiteLLM; one that it does not show is taken as right."""
    one = row()
    one = evolve(one, params={**one.params, "api_base": written})
    assert expected is facts(entry(None, one)).base
    assert Base.CURRENT is facts(entry(None, one), evolve(CALM, dialable="")).base


def test_nothing_stands_elsewhere_without_a_row_or_a_server() -> None:
    """A key that is not routed, and a row that is not ours, have no address to compare."""
    elsewhere = row(at=f"{BOX}:40001")
    assert Base.CURRENT is facts(entry()).base
    assert Base.CURRENT is facts(entry(None, elsewhere, deployment=None)).base


def test_a_commercial_row_stands_where_its_provider_is() -> None:
    """It is compared with the configured address, as that is written."""
    sold = fleet(commercial=["gpt"])
    one = sold.deployments[-1]
    assert "https://api.acme.example/v1" == api_base(one, "")
    assert f"{AT_PUBLIC}/v1" == api_base(OURS, AT_PUBLIC)
    bases = []
    for base, raw in (
        (one.key.base, one.api_base),
        ("https://api.other.example", one.api_base),
        (one.key.base, one.key.base),
    ):
        there = Row("gpt", "gpt", base, params={"api_base": raw})
        commercial = entry(rows=(there,), kind=Kind.COMMERCIAL, deployment=one)
        known = evolve(CALM, dialable=one.key.base)
        told = plan_facts(
            commercial, known, None, None, Lifecycle.HEALTHY, EQUAL, None, scene(), History()
        )
        bases.append(told.base)
        assert Ready.NO is told.ready
    assert [Base.CURRENT, Base.ELSEWHERE, Base.ELSEWHERE] == bases


# ---- ready


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (None, Ready.NO),
        (WELL, Ready.PROVEN),
        (evolve(WELL, identity=False), Ready.ALIVE),
        (evolve(WELL, oks=0), Ready.OK),
        (evolve(WELL, proven_at=None), Ready.OK),
        (evolve(WELL, kind=SignalKind.BUSY), Ready.ALIVE),
        (evolve(WELL, kind=SignalKind.BUSY, identity=False), Ready.NO),
        (evolve(WELL, kind=SignalKind.FAILED), Ready.NO),
        (evolve(WELL, kind=SignalKind.REFUSED), Ready.NO),
    ],
)
def test_how_ready_a_server_is(seen: Seen | None, expected: Ready) -> None:
    """An add takes an ok, of ours, often enough, that has done work; a stale one is none."""
    assert expected is facts(seen=seen).ready
    assert Ready.NO is facts(seen=seen, stale=True).ready
    assert Ready.NO is facts(known=evolve(CALM, dialable=""), seen=seen).ready


def test_what_has_a_row_needs_no_proof() -> None:
    """Only an add asks for it."""
    routed = entry(None, row())
    assert Ready.OK is facts(routed, seen=evolve(WELL, oks=0, proven_at=None)).ready
    assert Ready.OK is facts(routed).ready


@pytest.mark.parametrize(
    ("removals", "expected"), [(0, 1), (1, 2), (2, 4), (4, 16), (5, 32), (6, 32), (40, 32)]
)
def test_each_removal_doubles_the_oks_an_add_takes(removals: int, expected: int) -> None:
    """To a limit: a server that comes and goes is back in the end."""
    known = evolve(CALM, removals=tuple(NOW - at for at in range(removals)))
    assert expected == required_oks(known)
    proven = evolve(WELL, proven_at=NOW + 1.0)
    assert Ready.PROVEN is facts(known=known, seen=evolve(proven, oks=expected)).ready
    assert Ready.OK is facts(known=known, seen=evolve(proven, oks=expected - 1)).ready


@pytest.mark.parametrize(
    "known",
    [
        evolve(CALM, last_handout=NOW - 5.0),
        evolve(CALM, broken=NOW - 5.0),
        evolve(CALM, excused=NOW - 5.0),
        evolve(CALM, removals=(NOW - 9.0, NOW - 5.0)),
        evolve(CALM, removals=(NOW - 9.0,), last_handout=NOW - 8.0, broken=NOW - 5.0),
    ],
)
def test_a_proof_is_as_new_as_what_happened_last(known: KeyHistory) -> None:
    """After a hand-out, a restart or a removal it must show anew that it works."""
    for at, lacks in ((NOW - 5.0, ""), (NOW - 5.5, "that it answers a request")):
        aim = Aim(OURS, MAIN, evolve(WELL, proven_at=at), stale=False)
        assert lacks == lacks_proof(known, aim, scene())


def test_without_canaries_an_ok_is_proof_enough() -> None:
    """Where nobody is asked, or the model answers no completion, nothing is lacking."""
    aim = Aim(OURS, MAIN, evolve(WELL, proven_at=None), stale=False)
    none = evolve(scene().fleet, canary=CanaryConfig(enabled=False))
    assert "that it answers a request" == lacks_proof(CALM, aim, scene())
    assert "" == lacks_proof(CALM, aim, scene(fleet=none))
    silent = evolve(aim, deployment=evolve(OURS, mode="none"))
    assert "" == lacks_proof(CALM, silent, scene())


@pytest.mark.parametrize(
    ("open_at", "paths", "lacks"),
    [(None, (), True), (NOW, ("/ping",), True), (NOW, (), False)],
)
def test_where_paths_must_be_closed_that_is_proven_too(
    open_at: float | None, paths: tuple[str, ...], lacks: bool
) -> None:
    """A fleet that is only warned asks for no such proof."""
    aim = Aim(OURS, MAIN, evolve(WELL, open_at=open_at, open_paths=paths), stale=False)
    strict = evolve(scene().fleet, require_closed=True)
    expected = "that its paths are closed" if lacks else ""
    assert expected == lacks_proof(CALM, aim, scene(fleet=strict))
    assert "" == lacks_proof(CALM, aim, scene())


# ---- orphans


@pytest.mark.parametrize(
    ("passes", "read", "kind", "expected"),
    [
        (3, {"vast", "runpod"}, Kind.ORPHAN, Passes.ENOUGH),
        (2, {"vast", "runpod"}, Kind.ORPHAN, Passes.EARLY),
        (3, {"vast"}, Kind.ORPHAN, Passes.EARLY),
        (None, {"vast", "runpod"}, Kind.ORPHAN, Passes.EARLY),
        (3, {"vast", "runpod"}, Kind.INTENDED, Passes.EARLY),
    ],
)
def test_an_orphan_is_one_for_long_enough(
    passes: int | None, read: set[str], kind: Kind, expected: Passes
) -> None:
    """In three reads, once every configured listing has been read."""
    known = None if passes is None else RowHistory(passes=passes)
    told = facts(
        entry(None, row(), kind=kind),
        row_known=known,
        history=History(listings_read=frozenset(read)),
        found=scene(intervals={"vast": 60.0, "runpod": 60.0}),
    )
    assert expected is told.passes


@pytest.mark.parametrize("want", [{}, {"displaced": True}, {"deployment": None}])
def test_every_kind_of_orphan_is_counted(want: dict[str, Any]) -> None:
    """Also one whose port is wanted for another model, and one that is no box."""
    orphan = entry(None, row(), kind=Kind.ORPHAN, **want)
    assert Passes.ENOUGH is facts(orphan, row_known=RowHistory(passes=3)).passes
