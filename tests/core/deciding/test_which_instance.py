"""Which instance each host is: by id, by label, by address, or none where several could be it."""

from collections.abc import Mapping
from typing import Any

import pytest
from attrs import evolve
from tests.core.deciding.scenes import BOX, NOW, fleet

from llmao_core.config import Host
from llmao_core.history import HostHistory
from llmao_core.intended import Intended
from llmao_core.placement import (
    Answering,
    Found,
    Place,
    Places,
    answering,
    find,
    fold_host,
)
from llmao_core.snapshots import BoxStatus, Endpoint, Instance, Listing, Snapshot

OTHER = "203.0.113.11"
LABEL = "c.4711"


def box(instance_id: str, *ports: int, at: str = BOX, **changes: Any) -> Instance:
    """Return an instance that runs, at an address, with these listen ports mapped."""
    endpoints = {port: Endpoint("http", at, port + 32_000) for port in ports or (8001,)}
    one = Instance(instance_id, BoxStatus.UP, addresses=(at,), endpoints=endpoints)
    return evolve(one, **changes)


def listed(*instances: Instance, **more: tuple[Instance, ...]) -> dict[str, Snapshot[Listing]]:
    every = {"vast": instances, **more}
    return {name: Snapshot(NOW, Listing(tuple(found))) for name, found in every.items()}


def hosts(*names: str, ports: tuple[int, ...] = (8001,)) -> Intended:
    return fleet(hosts={name: dict.fromkeys(ports, "small") for name in names})


def places(
    intended: Intended,
    *instances: Instance,
    known: Mapping[str, HostHistory] | None = None,
    **more: tuple[Instance, ...],
) -> Places:
    return find(intended, listed(*instances, **more), known or {})


def vast(one: Instance) -> Found:
    return Found("vast", one)


# ---- one instance


@pytest.mark.parametrize("name", [BOX, LABEL, "4711"])
def test_a_host_is_the_one_instance_that_goes_by_its_name(name: str) -> None:
    """By address, label or id."""
    one = box("4711", names=(LABEL,))
    found = places(hosts(name), one)
    assert Place(found=vast(one), named=True) == found.of(name)
    assert ((), frozenset({BOX})) == (found.spare, found.addresses)


def test_an_id_has_no_case() -> None:
    """A host's name is in lower case, whatever the provider writes."""
    one = box("AbC9")
    assert Place(found=vast(one), named=True) == places(hosts("abc9"), one).of("abc9")


def test_without_a_listing_nothing_is_known() -> None:
    """An empty listing is one: then every host is nowhere, and no address is listed."""
    assert Places() == find(hosts(BOX), {}, {})
    assert Places() == places(hosts(BOX))
    assert Place() == places(hosts(BOX), box("4711", at=OTHER)).of(BOX)


def test_what_is_gone_is_not_listed() -> None:
    """Another may have its address already."""
    gone, here = box("4710", status=BoxStatus.GONE), box("4711")
    assert vast(here) == places(hosts(BOX), gone, here).of(BOX).found
    assert Places() == places(hosts(BOX), gone)


def test_who_no_host_names_is_spare() -> None:
    """In the order of providers and ids; an id that one listing has twice is nonsense."""
    first, second = box("1", at=OTHER), box("2", at=OTHER)
    twice = (box("3", at=OTHER), box("3", at=OTHER, price_per_hour=1.0))
    found = places(hosts(BOX), second, box("4711"), *twice, first, runpod=(first,))
    assert (Found("runpod", first), vast(first), vast(second)) == found.spare


def test_one_id_at_two_providers_is_two_instances() -> None:
    """Each may be a host of its own."""
    here, there = box("1"), box("1", at=OTHER)
    found = places(hosts(BOX, OTHER), here, runpod=(there,))
    assert (vast(here), Found("runpod", there)) == (found.of(BOX).found, found.of(OTHER).found)


# ---- several


def test_a_name_of_several_is_none_of_them() -> None:
    """Two instances with one label: neither is taken, and neither is spare."""
    both = box("1", names=(LABEL,)), box("2", names=(LABEL,), at=OTHER)
    found = places(hosts(LABEL), *both)
    assert Place(colliding=tuple(map(vast, both)), named=True) == found.of(LABEL)
    assert found.of(LABEL).ambiguous
    assert () == found.spare


def test_the_order_of_a_listing_says_nothing() -> None:
    """Also where it has one id twice: what is said of them is in one order."""
    both = box("1", names=(LABEL,)), box("1", names=(LABEL,), price_per_hour=2.0)
    one, other = places(hosts(LABEL), *both), places(hosts(LABEL), *reversed(both))
    assert one == other
    assert 2 == len(one.of(LABEL).colliding)


def test_of_two_hosts_that_name_one_instance_the_id_has_it() -> None:
    """The other says whose it is; whichever stands first in the file."""
    one = box("Pod9", names=(LABEL,))
    for order in ((LABEL, "pod9"), ("pod9", LABEL)):
        found = places(hosts(*order), one)
        assert Place(found=vast(one), named=True) == found.of("pod9")
        expected = Place(colliding=(vast(one),), taken_by="pod9", named=True)
        assert expected == found.of(LABEL)
        assert found.of(LABEL).ambiguous
        assert () == found.spare


def test_an_address_whose_instance_has_a_name_is_taken() -> None:
    """A name beats an address; beside another instance there the address has that one."""
    one, beside = box("4711", names=(LABEL,)), box("4712")
    taken = places(hosts(LABEL, BOX), one)
    assert vast(one) == taken.of(LABEL).found
    assert Place(colliding=(vast(one),), taken_by=LABEL, named=True) == taken.of(BOX)
    assert Place(found=vast(beside), named=True) == places(hosts(LABEL, BOX), one, beside).of(BOX)


def known(instance_id: str, provider: str = "vast") -> dict[str, HostHistory]:
    return {BOX: HostHistory(provider, instance_id)}


LEFT, RIGHT = box("1", 8001), box("2", 8001, 8002)


@pytest.mark.parametrize(
    ("ports", "both", "history", "expected"),
    [
        ((8001, 8002), (LEFT, RIGHT), {}, RIGHT),
        ((8001, 8002), (LEFT, RIGHT), known("1"), RIGHT),
        ((8001,), (LEFT, RIGHT), {}, None),
        ((8001,), (LEFT, RIGHT), known("1"), LEFT),
        ((8001,), (LEFT, RIGHT), known("2"), RIGHT),
        ((8001,), (LEFT, RIGHT), known("2", "runpod"), None),
        ((8001,), (LEFT, RIGHT), known("3"), None),
        ((8003,), (LEFT, RIGHT), known("2"), RIGHT),
        ((8001,), (LEFT, evolve(RIGHT, status=BoxStatus.DOWN)), {}, LEFT),
        ((8001,), (evolve(LEFT, status=BoxStatus.DOWN), RIGHT), known("1"), RIGHT),
        ((), (LEFT, evolve(RIGHT, status=BoxStatus.DOWN)), {}, None),
        ((), (LEFT, RIGHT), known("2"), RIGHT),
        ((8003,), (LEFT, evolve(RIGHT, status=BoxStatus.DOWN)), known("2"), None),
    ],
)
def test_behind_a_shared_address_the_one_that_fits_is_it(
    ports: tuple[int, ...],
    both: tuple[Instance, ...],
    history: dict[str, HostHistory],
    expected: Instance | None,
) -> None:
    """The only one up with every port of the host; else the one it was; else none."""
    place = places(hosts(BOX, ports=ports), *both, known=history).of(BOX)
    if expected is None:
        assert Place(colliding=tuple(map(vast, both)), named=True) == place
    else:
        assert Place(found=vast(expected), named=True) == place


# ---- former names


def renamed(old: str) -> Intended:
    intended = hosts(LABEL)
    host = Host(LABEL, intended.hosts[LABEL].rows, was=(old,))
    return evolve(intended, hosts={LABEL: host})


def test_a_former_name_is_where_the_host_is_now() -> None:
    """Its servers serve under the old name until it fetches under the new one."""
    one = box("4711", names=(LABEL,))
    found = places(renamed(OTHER), one)
    assert vast(one) == found.of(OTHER).found == found.of(LABEL).found
    stranger = box("4712", at=OTHER)
    moved = places(renamed(OTHER), one, stranger)
    assert vast(one) == moved.of(OTHER).found


def test_a_host_that_is_not_found_is_where_its_former_name_was() -> None:
    """Until a listing names the new one."""
    one = box("4711", at=OTHER)
    found = places(renamed(OTHER), one)
    assert (vast(one), None) == (found.of(OTHER).found, found.of(LABEL).found)


def test_two_names_of_one_host_are_no_collision() -> None:
    """The instance goes by both."""
    one = box("4711", names=(LABEL,))
    found = places(renamed("4711"), one)
    assert vast(one) == found.of("4711").found == found.of(LABEL).found


# ---- where a port is reached


@pytest.mark.parametrize(
    ("status", "port", "url"),
    [
        (BoxStatus.UP, 8001, f"http://{BOX}:40001"),
        (BoxStatus.STARTING, 8001, f"http://{BOX}:40001"),
        (BoxStatus.UNKNOWN, 8001, f"http://{BOX}:40001"),
        (BoxStatus.UP, 8002, ""),
        (BoxStatus.DOWN, 8001, ""),
        (BoxStatus.GONE, 8001, ""),
    ],
)
def test_a_port_is_reached_where_the_listing_maps_it(
    status: BoxStatus, port: int, url: str
) -> None:
    """Not while the box is down: its ports are those it had."""
    assert url == Place(found=vast(box("4711", status=status))).url(port)
    assert "" == Place(named=True).url(8001)


# ---- who answers to a name


def test_who_answers_to_a_name() -> None:
    """Hosts and spare instances, by label, id and address; nobody else is looked up."""
    one, spare = box("4711", names=(LABEL,)), box("Spare", at=OTHER, names=("both",))
    found = places(hosts(LABEL), one, spare)
    host, nobody = Answering(vast(one), LABEL), Answering(vast(spare), "")
    wanted = {LABEL, "4711", BOX, "spare", OTHER, "nobody"}
    expected = {LABEL: host, "4711": host, BOX: host, "spare": nobody, OTHER: nobody}
    assert {name: (each,) for name, each in expected.items()} == answering(found, wanted)
    assert {} == answering(found, ())


def test_several_may_answer_to_one_name() -> None:
    """Hosts come first; a host that is nowhere answers to nothing."""
    here, there = box("4711", names=(LABEL,)), box("9")
    found = places(hosts(LABEL, "c.99"), here, there)
    expected = (Answering(vast(here), LABEL), Answering(vast(there), ""))
    assert {BOX: expected} == answering(found, [BOX])


# ---- what is remembered of a host


NOWHERE = Place()
INTERVALS = {"vast": 60.0}
PLACED = Place(found=vast(box("4711")), named=True)
THERE = HostHistory("vast", "4711", counted=NOW - 60.0, floor=NOW - 500.0)


def folded(
    old: HostHistory | None, place: Place = NOWHERE, *, by: str = "vast", at: float = NOW
) -> HostHistory:
    listings = {"vast": Snapshot(at, Listing())}
    return fold_host(old, place, by, listings, INTERVALS, NOW - 5.0)


def test_a_host_that_is_found_is_counted_from_there() -> None:
    """It is listed, as of that listing, and was never missed."""
    assert HostHistory("vast", "4711", counted=NOW) == folded(None, PLACED)
    missed = evolve(THERE, missed=3, unlisted=True)
    now = evolve(THERE, counted=NOW)
    assert now == folded(missed, PLACED)
    assert now == folded(evolve(now, missed=1), PLACED)
    assert now == folded(evolve(now, unlisted=True), PLACED)
    assert now is folded(now, PLACED)


@pytest.mark.parametrize(
    ("old", "floor"),
    [
        (THERE, NOW - 500.0),
        (evolve(THERE, instance_id="4710"), NOW - 5.0),
        (evolve(THERE, provider="runpod"), NOW - 5.0),
        (HostHistory(floor=NOW - 500.0), NOW - 500.0),
    ],
    ids=["the same", "another", "another provider's", "the first"],
)
def test_another_instance_begins_after_the_newest_hand_out(old: HostHistory, floor: float) -> None:
    """What was handed out before went to the earlier box."""
    assert evolve(THERE, counted=NOW, floor=floor) == folded(old, PLACED)


def test_a_host_is_missed_once_per_listing() -> None:
    """Reads that come early count once, and the third in a row makes it unlisted."""
    once = folded(THERE)
    assert evolve(THERE, missed=1, counted=NOW) == once
    assert once is folded(once, at=NOW + 59.0)
    twice = folded(once, at=NOW + 60.0)
    assert (2, False) == (twice.missed, twice.unlisted)
    thrice = folded(twice, at=NOW + 120.0)
    assert (3, True, NOW + 120.0) == (thrice.missed, thrice.unlisted, thrice.counted)
    assert HostHistory(missed=1, counted=NOW) == folded(None)


def test_only_the_listing_that_placed_a_host_can_miss_it() -> None:
    """Another account's, or none that is fresh, says nothing of it."""
    assert THERE is folded(THERE, by="runpod")
    assert THERE is folded(THERE, by="")


def test_a_listing_without_an_interval_counts_every_time() -> None:
    """It is read when it is wanted."""
    listings = {"vast": Snapshot(NOW, Listing())}
    lately = evolve(THERE, counted=NOW)
    for intervals in ({"vast": None}, {}):
        assert 1 == fold_host(lately, Place(), "vast", listings, intervals, None).missed


def test_a_host_that_is_named_is_not_missed() -> None:
    """Which of several it is nobody can tell: one of them it is."""
    named = Place(named=True)
    for old in (evolve(THERE, missed=2), evolve(THERE, unlisted=True)):
        assert THERE == folded(old, named)
    assert THERE is folded(THERE, named)
