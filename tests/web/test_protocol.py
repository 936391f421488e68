"""The box protocol snapshot: what each event adds, and that strangers cannot make it grow."""

from llmao_core.protocol import (
    HOSTS_KEPT,
    RESTARTING_KEPT,
    UNKNOWN_KEPT,
    WRONG_KEYS_KEPT,
    BoxEvent,
    Fetch,
    Restarting,
    Unknown,
    WrongKey,
    fold,
    fold_all,
)
from llmao_core.snapshots import BoxFetches, BoxProtocol


def after(*events: BoxEvent) -> BoxProtocol:
    """Return the snapshot after events at 1.0, 2.0, 3.0 …"""
    protocol = BoxProtocol()
    for at, event in enumerate(events, 1):
        protocol = fold(protocol, event, float(at))
    return protocol


def test_only_a_hand_out_moves_the_hand_outs() -> None:
    """HEAD and 304 report the applied revision and nothing more."""
    handed = Fetch("h", handed_out="r1-b", applied="r1-a")
    expected = BoxFetches(
        first_handout=2.0, last_handout=3.0, handed_out="r1-c", applied="r1-b", last_seen=4.0
    )
    asked = (Fetch("h", applied="r1-0"), handed, Fetch("h", "r1-c", "r1-a"), Fetch("h", "", "r1-b"))
    assert expected == after(*asked).hosts["h"]


def test_a_box_that_reports_nothing_keeps_what_it_reported() -> None:
    """A first boot after a rebuild asks without a revision; the answer is still known."""
    assert "r1-a" == after(Fetch("h", "", "r1-a"), Fetch("h", "r1-b")).hosts["h"].applied


def test_events_change_nothing_in_the_snapshot_before() -> None:
    """A pass that is under way keeps what it looks at."""
    before = after(Fetch("h", "r1-a"))
    fold(before, Fetch("h", "r1-b"), 9.0)
    fold(before, Restarting("h", ("x",)), 9.0)
    assert after(Fetch("h", "r1-a")) == before


def test_an_unknown_host_is_counted_from_first_to_last() -> None:
    """Name, first and last seen, count; newest first."""
    seen = after(Unknown("a"), Unknown("b"), Unknown("a")).unknown
    assert [("a", 1.0, 3.0, 2), ("b", 2.0, 2.0, 1)] == [
        (each.host, each.first_seen, each.last_seen, each.count) for each in seen
    ]


def test_a_host_that_is_served_is_no_longer_unknown() -> None:
    """Approving it ends the item with its next fetch."""
    assert () == after(Unknown("a"), Fetch("a", "r1-a")).unknown


def test_wrong_keys_are_counted_per_peer_and_claimed_host() -> None:
    """Many boxes may stand behind one proxy."""
    seen = after(WrongKey("p", "a"), WrongKey("p", "b"), WrongKey("p", "a")).wrong_keys
    assert [("p", "a", 2, 3.0), ("p", "b", 1, 2.0)] == [
        (each.peer, each.claimed_host, each.count, each.last_seen) for each in seen
    ]


def test_an_announcement_has_the_time_of_the_newest() -> None:
    """Names announced again move; others stay."""
    box = after(Restarting("h", ("a", "b")), Restarting("h", ("a",))).hosts["h"]
    assert {"a": 2.0, "b": 1.0} == box.restarting


def test_a_flood_of_made_up_names_stays_bounded_and_keeps_the_newest() -> None:
    """Memory is not a stranger's to fill."""
    protocol = after(*(Unknown(f"h{each}") for each in range(UNKNOWN_KEPT + 9)))
    assert UNKNOWN_KEPT == len(protocol.unknown)
    assert f"h{UNKNOWN_KEPT + 8}" == protocol.unknown[0].host


def test_a_flood_of_wrong_keys_stays_bounded() -> None:
    """Whatever peers and claims are made up."""
    protocol = after(*(WrongKey(f"p{each}", "x") for each in range(WRONG_KEYS_KEPT + 9)))
    assert WRONG_KEYS_KEPT == len(protocol.wrong_keys)


def test_a_flood_of_announcements_stays_bounded() -> None:
    """And the newest are the ones kept."""
    old = Restarting("h", tuple(f"n{each}" for each in range(RESTARTING_KEPT)))
    box = after(old, Restarting("h", ("new",))).hosts["h"]
    assert RESTARTING_KEPT == len(box.restarting)
    assert 2.0 == box.restarting["new"]


def test_hosts_stay_bounded_and_the_longest_unseen_goes() -> None:
    """Even when configuration after configuration names others."""
    full = {f"h{each}": BoxFetches(last_seen=float(each)) for each in range(HOSTS_KEPT)}
    protocol = fold(BoxProtocol(hosts=full), Fetch("new", "r1-a"), 1e9)
    assert HOSTS_KEPT == len(protocol.hosts)
    assert "h0" not in protocol.hosts
    assert "new" in protocol.hosts


def test_many_events_at_once_are_the_same_as_one_after_the_other() -> None:
    """Fetches between strangers, wrong keys and announcements, the bound on hosts included."""
    events: list[BoxEvent] = [
        Unknown("a"),
        Fetch("a", "r1-1"),
        Fetch("b", "", "r1-0"),
        Unknown("c"),
        Fetch("a", "r1-2", "r1-1"),
        WrongKey("peer", "b"),
        Restarting("a", ("x",)),
        Unknown("b"),
        *(Fetch(f"h{number}", "r1-1") for number in range(HOSTS_KEPT)),
    ]
    noted = [(event, float(at)) for at, event in enumerate(events, 1)]
    expected = after(*events[:9])
    assert expected == fold_all(BoxProtocol(), noted[:9])
    grown = fold_all(BoxProtocol(), noted)
    assert HOSTS_KEPT == len(grown.hosts)
    assert "b" not in grown.hosts
    assert f"h{HOSTS_KEPT - 1}" in grown.hosts
