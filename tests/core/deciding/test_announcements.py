"""What people and boxes announce: a key that leaves, a box that reboots, a server that restarts."""

from typing import Any

import pytest
from attrs import evolve
from tests.core.deciding.known import KNOWN, MAIN, folded, probed
from tests.core.deciding.reports import DOWN
from tests.core.deciding.scenes import BOX, NOW, SMALL, entry, fleet, scene

from llmao_core.fold import announced, leaving, to_reboot
from llmao_core.history import KeyHistory, Reboot
from llmao_core.probes import ProbeReport, Probes
from llmao_core.records import Kind
from llmao_core.scene import Scene
from llmao_core.snapshots import BoxFetches, BoxProtocol

REBOOT = Reboot("vast", "4711", "admin", NOW - 100.0, NOW + 500.0)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({}, False),
        ({"drained": [BOX]}, True),
        ({"retired": [BOX]}, True),
        ({"drained_keys": [SMALL]}, True),
        ({"drained": ["203.0.113.11"], "retired": ["203.0.113.11"]}, False),
    ],
)
def test_a_key_leaves_when_it_or_its_host_was_told_to(
    words: dict[str, Any], expected: bool
) -> None:
    """Drained or retired, by host or by key; another host's leaving says nothing."""
    told = fleet(**words)
    assert expected is leaving(entry(told), scene(told))
    assert not leaving(entry(told, deployment=None, key=evolve(entry().key, base="x")), scene(told))


@pytest.mark.parametrize(
    ("reboots", "expected"),
    [({}, False), ({BOX: REBOOT}, True), ({BOX: evolve(REBOOT, sent=NOW)}, False)],
)
def test_a_reboot_is_to_come_until_it_is_sent(reboots: dict[str, Reboot], expected: bool) -> None:
    """Once the provider was told it is under way, and announced."""
    assert expected is to_reboot(entry(), scene(reboots=reboots))
    assert not to_reboot(entry(deployment=None), scene(reboots=reboots))


def restarting(at: float | None, sent: float | None) -> Scene:
    one = fleet().deployments[0]
    fetches = BoxFetches(restarting={} if at is None else {one.name: at})
    reboots = {} if sent is None else {BOX: evolve(REBOOT, sent=sent)}
    return scene(protocol=BoxProtocol({BOX: fetches}), reboots=reboots)


GRACE_S = scene().fleet.health_grace_s


@pytest.mark.parametrize(
    ("at", "sent", "expected"),
    [
        (None, None, None),
        (NOW - 9.0, None, NOW - 9.0),
        (None, NOW - 8.0, NOW - 8.0),
        (NOW - 9.0, NOW - 8.0, NOW - 8.0),
        (NOW - 7.0, NOW - 8.0, NOW - 7.0),
        (NOW - GRACE_S, None, NOW - GRACE_S),
        (NOW - GRACE_S - 0.5, None, None),
    ],
)
def test_an_announcement_lapses(
    at: float | None, sent: float | None, expected: float | None
) -> None:
    """The newest of what a box announced and what its provider was told holds for the grace."""
    assert expected == announced(entry(), restarting(at, sent))


@pytest.mark.parametrize("kind", list(Kind))
def test_only_a_server_of_ours_restarts(kind: Kind) -> None:
    """An orphan's address may be anybody's; a commercial or foreign row has no box."""
    expected = NOW - 9.0 if kind in (Kind.INTENDED, Kind.DISCOVERED) else None
    assert expected == announced(entry(kind=kind), restarting(NOW - 9.0, None))
    assert announced(entry(kind=kind, deployment=None), restarting(NOW - 9.0, None)) is None


def broken(known: KeyHistory, last_handout: float | None, failed_at: float | None) -> float | None:
    one = fleet().deployments[0]
    fetches = BoxFetches(last_handout=last_handout, restarting={one.name: NOW - 9.0})
    reports = {} if failed_at is None else {MAIN: ProbeReport(failed_at, 0.1, DOWN)}
    protocol = BoxProtocol({BOX: fetches})
    return folded(known, protocol=protocol, probes=Probes(reports=reports)).broken


@pytest.mark.parametrize(
    ("known", "last_handout", "failed_at", "expected"),
    [
        (NOW - 400.0, None, None, NOW - 400.0),
        (NOW - 400.0, NOW - 9.0, NOW - 9.0, NOW - 400.0),
        (NOW - 400.0, NOW - 8.0, NOW - 7.0, NOW - 8.0),
        (NOW - 400.0, NOW - 9.0, NOW - 7.0, NOW - 7.0),
        (NOW - 9.0, NOW - 8.0, None, NOW - 8.0),
        (NOW - 8.5, NOW - 8.0, NOW - 7.0, NOW - 8.5),
        (None, NOW - 8.0, None, NOW - 8.0),
    ],
)
def test_an_announced_restart_is_seen_to_happen(
    known: float | None,
    last_handout: float | None,
    failed_at: float | None,
    expected: float | None,
) -> None:
    """The first fetch or failure after the announcement shows it, and later ones move nothing."""
    assert expected == broken(evolve(KNOWN, broken=known), last_handout, failed_at)


def test_without_an_announcement_a_failure_is_no_restart() -> None:
    """And a server that is ok has not begun to restart."""
    down = Probes(reports={MAIN: ProbeReport(NOW, 0.1, DOWN)})
    assert KNOWN.broken == folded(probes=down).broken
    protocol = restarting(NOW - 9.0, None).protocol
    assert KNOWN.broken == folded(protocol=protocol, probes=probed(NOW)).broken


def test_a_reboot_under_way_is_an_announcement() -> None:
    """It is seen to happen also where no box has fetched since llmao started."""
    down = Probes(reports={MAIN: ProbeReport(NOW, 0.1, DOWN)})
    reboots = {BOX: evolve(REBOOT, sent=NOW - 9.0)}
    assert NOW == folded(probes=down, reboots=reboots).broken
