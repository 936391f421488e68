"""Which rows belong to which key, and what is nobody's."""

from collections.abc import Mapping
from typing import Any

import pytest
from attrs import evolve
from tests.core.deciding.scenes import AT_LISTEN, AT_PUBLIC, BOX, fleet, row, scene

from llmao_core.history import History, HostHistory, KeyHistory
from llmao_core.intended import Intended
from llmao_core.join import Joined, join
from llmao_core.keys import Key
from llmao_core.placement import Found, Place, Places
from llmao_core.records import Kind
from llmao_core.scene import Scene
from llmao_core.snapshots import BoxStatus, Endpoint, Instance, Row
from llmao_core.testing.situation import SALTS

OURS = fleet().deployments[0]
NOBODYS = Row("theirs", "small", "http://198.51.100.7:8000")
PLACED = Places(
    {
        BOX: Place(
            found=Found(
                "vast",
                Instance("4711", BoxStatus.UP, endpoints={8001: Endpoint("http", BOX, 40001)}),
            ),
            named=True,
        )
    }
)


def joined(
    *rows: Row,
    intended: Intended | None = None,
    places: Places | None = None,
    hosts: Mapping[str, HostHistory] | None = None,
    history: History | None = None,
    **usable: Any,
) -> list[Joined]:
    found: Scene = scene(intended, rows=rows, **usable)
    return list(join(found, places or Places(), hosts or {}, history or History()).entries)


def bare(one_id: str, at: str, **changes: Any) -> Row:
    """Return a row at an address that nobody has stamped."""
    return evolve(Row(one_id, "small", at), **changes)


# ---- ours by id and by stamp


def test_a_key_without_rows_is_one_entry() -> None:
    """Every deployment has one, in the order of the files, with its place."""
    both = fleet(commercial=["gpt"])
    box, sold = joined(intended=both, places=PLACED)
    assert (Kind.INTENDED, (), ()) == (box.kind, box.rows, box.copies)
    assert PLACED.of(BOX) == box.place
    assert (Kind.COMMERCIAL, both.deployments[1]) == (sold.kind, sold.deployment)
    assert Place() == sold.place


def test_the_row_of_the_derived_id_is_managed_first() -> None:
    """Then the stamped ones, by id."""
    first, second, derived = row(id="a"), row(id="zz"), row()
    for order in ((second, derived, first), (first, derived, second)):
        (one,) = joined(*order)
        assert (derived, first, second) == one.rows
    (one,) = joined(second, first)
    assert (first, second) == one.rows


def test_the_derived_id_is_ours_whatever_its_stamp_says() -> None:
    """Nobody else makes such an id; a row of LiteLLM's own file is never ours."""
    stripped = evolve(row(), llmao_key="", fleet="", stamped_base="")
    other = evolve(row(id="other"))
    (one,) = joined(stripped, other)
    assert (stripped, other) == one.rows
    away = evolve(row(), in_db=False, base="http://198.51.100.7:1", stamped_base="")
    mine, theirs = joined(away)
    assert ((), Kind.FOREIGN) == (mine.rows, theirs.kind)


@pytest.mark.parametrize(
    "changes",
    [{"in_db": False}, {"fleet": "other"}, {"llmao_key": ""}, {"model_name": "large"}],
)
def test_a_stamp_must_be_whole(changes: dict[str, Any]) -> None:
    """Of this fleet, of this key and model, and in LiteLLM's database."""
    away = evolve(row(id="x"), base="http://198.51.100.7:1", stamped_base="", **changes)
    mine, rest = joined(away)
    assert ((), (away,)) == (mine.rows, rest.rows)


# ---- adopted and copied


@pytest.mark.parametrize("at", [AT_LISTEN, AT_PUBLIC])
def test_a_row_at_a_keys_address_is_adopted(at: str) -> None:
    """At its canonical or its listed URL: the first by id, the others are copies beside it."""
    rows = [bare("b", at), bare("a", at), bare("c", at, in_db=False)]
    (one,) = joined(*rows, places=PLACED)
    assert ((rows[1],), (rows[0], rows[2])) == (one.rows, one.copies)


def test_our_mark_without_a_key_is_adopted() -> None:
    """Somebody took the rest of the stamp away; the address tells whose it is."""
    one = bare("a", AT_LISTEN, fleet="main")
    assert (one,) == joined(one)[0].rows


def test_all_addresses_of_a_key_are_one() -> None:
    """Of rows at its canonical URL and where it was last reached, the first by id is adopted."""
    rows = bare("a", AT_PUBLIC), bare("b", AT_LISTEN)
    one = joined(*rows, history=last(), intervals={"vast": 60.0})[0]
    assert ((rows[0],), (rows[1],)) == (one.rows, one.copies)


def test_a_stamp_tells_nothing_where_the_address_is_known() -> None:
    """What stands at an old stamp of an adopted row is somebody else's."""
    told = bare("a", AT_LISTEN, stamped_base="http://198.51.100.7:41000")
    more = bare("b", "http://198.51.100.7:41000")
    one = joined(told, more, history=last(), intervals={"vast": 60.0})[0]
    assert ((told,), ()) == (one.rows, one.copies)


def test_only_what_may_be_ours_is_adopted() -> None:
    """Not LiteLLM's own file, not another fleet's, not another model, not another address."""
    file, other = bare("a", AT_LISTEN, in_db=False), bare("b", AT_LISTEN, fleet="other")
    model = bare("c", AT_LISTEN, model_name="large")
    one, *foreign = joined(file, other, model, NOBODYS)
    assert ((), (file,)) == (one.rows, one.copies)
    assert [(other,), (model,), (NOBODYS,)] == [each.rows for each in foreign]
    assert {Kind.FOREIGN} == {each.kind for each in foreign}


def test_what_stands_beside_our_row_is_a_copy() -> None:
    """A row with our own mark at the same address is no copy: it stays an orphan of its own."""
    beside, twin = bare("a", AT_LISTEN), evolve(row(id="twin"), llmao_key="http://gone:1")
    one, orphan = joined(row(), beside, twin)
    assert ((row(),), (beside,)) == (one.rows, one.copies)
    assert (Kind.ORPHAN, (twin,)) == (orphan.kind, orphan.rows)


def test_the_stamp_of_an_adopted_row_tells_where_more_stands() -> None:
    """It says where the key was reached, and what stands there is a copy."""
    told = bare("a", AT_LISTEN, stamped_base="http://198.51.100.7:41000")
    more = bare("b", "http://198.51.100.7:41000")
    (one,) = joined(told, more, intervals={"vast": 60.0})
    assert ((told,), (more,)) == (one.rows, one.copies)


def test_a_row_is_given_to_one_key() -> None:
    """Two boxes that are reached at one address do not both have it."""
    two = fleet(hosts={BOX: {8001: "small"}, "203.0.113.11": {8001: "small"}})
    here = Place(found=PLACED.of(BOX).found, named=True)
    places = Places({BOX: here, "203.0.113.11": here})
    one = bare("a", AT_PUBLIC)
    first, second = joined(one, intended=two, places=places)
    assert ((one,), ()) == (first.rows, second.rows)


def last(reset: float | None = None, **changes: Any) -> History:
    known = KeyHistory(instance_id="4711", dialable=AT_PUBLIC, reset=reset)
    return History(keys={OURS.key: evolve(known, **changes)})


@pytest.mark.parametrize(
    ("instance", "adopted"), [("4711", True), ("4712", False), ("", True), (None, True)]
)
def test_where_a_key_was_last_reached_is_its_address(instance: str | None, adopted: bool) -> None:
    """Unless another instance has the name now: its address may be anybody's."""
    hosts = {} if instance is None else {BOX: HostHistory("vast", instance)}
    one = bare("a", AT_PUBLIC)
    first = joined(one, hosts=hosts, history=last(), intervals={"vast": 60.0})[0]
    assert ((one,) if adopted else ()) == first.rows
    unnamed = last(instance_id="")
    first = joined(one, hosts=hosts, history=unnamed, intervals={"vast": 60.0})[0]
    assert (one,) == first.rows


@pytest.mark.parametrize(
    ("reset", "instance", "copied"), [(None, "4711", 1), (1.0, "4711", 0), (None, "4712", 0)]
)
def test_after_a_reset_an_old_stamp_tells_nothing(
    reset: float | None, instance: str, copied: int
) -> None:
    """What stands at a row's old address is not beside it any more."""
    stamped, beside = row(at=AT_PUBLIC.removeprefix("http://")), bare("a", AT_PUBLIC)
    one = joined(
        stamped,
        beside,
        hosts={BOX: HostHistory("vast", instance)},
        history=last(reset, dialable=""),
        intervals={"vast": 60.0},
    )[0]
    assert copied == len(one.copies)


def test_a_commercial_key_is_where_its_provider_is() -> None:
    """Nothing at another address is beside it."""
    both = fleet(commercial=["gpt"])
    sold = both.deployments[-1]
    one, away = (
        bare(each, at, model_name="gpt") for each, at in (("a", sold.key.base), ("b", "x"))
    )
    _, commercial, foreign = joined(one, away, intended=both)
    assert ((one,), (away,)) == (commercial.rows, foreign.rows)


@pytest.mark.parametrize(("pin", "adopted"), [(40001, True), (None, False)])
def test_a_pinned_port_is_an_address(pin: int | None, adopted: bool) -> None:
    """Of a host that can be dialled; a contract label cannot."""
    pins = {f"{BOX}:8001": pin} if pin else {}
    one = bare("a", AT_PUBLIC)
    first = joined(one, intended=fleet(pins=pins), intervals={"vast": 60.0}, places=PLACED)[0]
    assert (one,) == first.rows
    moved = Place(
        found=Found("vast", Instance("1", endpoints={8001: Endpoint("http", BOX, 41000)})),
        named=True,
    )
    first = joined(one, intended=fleet(pins=pins), places=Places({BOX: moved}))[0]
    assert ((one,) if adopted else ()) == first.rows
    label = fleet(hosts={"c.4711": {8001: "small"}}, pins={"c.4711:8001": 40001})
    strange = bare("a", "http://c.4711:40001")
    assert () == joined(strange, intended=label)[0].rows


# ---- nobody's


def test_a_foreign_row_is_an_entry_of_its_own() -> None:
    """It is named by its id, since nobody derived it, and its address is not shown."""
    _, foreign = joined(NOBODYS)
    key = Key("row:theirs", "small", "LiteLLM row theirs")
    assert (key, key.shown) == (foreign.key, foreign.key.shown)
    assert Joined(key, Kind.FOREIGN, rows=(NOBODYS,)) == foreign


def test_rows_that_are_left_come_by_id() -> None:
    """In one order, whatever LiteLLM lists first."""
    rows = [bare(one, "http://198.51.100.7:8000") for one in ("b", "c", "a")]
    assert ["a", "b", "c"] == [one.rows[0].id for one in joined(*rows)[1:]]


GONE = "203.0.113.99"


def orphan(intended: Intended | None = None, **changes: Any) -> Joined:
    lost = row(fleet(hosts={GONE: {8001: "small"}}), key=f"{GONE}:8001 small")
    found = joined(evolve(lost, **changes), intended=intended)
    return found[-1]


def test_an_orphan_is_known_by_its_stamp() -> None:
    """What served there, under which name, and with which bearer it can be probed."""
    one = orphan()
    was = fleet(hosts={GONE: {8001: "small"}}).deployments[0]
    told = one.deployment
    assert told is not None
    assert (Kind.ORPHAN, False, was.key) == (one.kind, one.displaced, one.key)
    assert f"{GONE}:8001 small" == str(one.key)
    same: list[tuple[Any, Any]] = [
        (getattr(was, name), getattr(told, name))
        for name in ("litellm_id", "model", "served", "host", "listen_port", "bearer", "bearer_id")
    ]
    assert [(each, each) for each, _ in same] == same
    assert told.key == one.key
    assert ("", {}, {}, None) == (
        told.body.model_name,
        told.body.litellm_params,
        told.body.model_info,
        told.body.api_key,
    )
    assert ("", frozenset()) == (told.body.hash, told.body.fields)


def test_an_orphan_has_the_place_of_its_host() -> None:
    """A listing may still name it."""
    lost = row(fleet(hosts={GONE: {8001: "small"}}), key=f"{GONE}:8001 small")
    there = Place(named=True)
    found = joined(lost, places=Places({GONE: there}))
    assert there == found[-1].place


@pytest.mark.parametrize(
    "changes",
    [
        {"llmao_key": "http://203.0.113.99"},
        {"llmao_key": "http://203.0.113.99:x"},
        {"llmao_key": "http://203.0.113.99:²"},
        {"llmao_key": "http://:8001"},
        {"llmao_key": "http://203.0.113.99:0"},
        {"info": {}},
    ],
)
def test_an_orphan_whose_stamp_names_no_server_is_no_box(changes: dict[str, Any]) -> None:
    """Nothing of it can be probed, and it is named by its id."""
    one = orphan(**changes)
    told = one.deployment
    assert told is not None
    assert ("", 0, None, "") == (told.host, told.listen_port, told.bearer, told.bearer_id)
    assert f"LiteLLM row {told.litellm_id}" == one.key.shown


def test_an_orphan_at_an_ipv6_address_is_a_box() -> None:
    """Its name has no brackets."""
    told = orphan(llmao_key="http://[2001:db8::1]:8001").deployment
    assert told is not None
    assert ("2001:db8::1", 8001) == (told.host, told.listen_port)


def test_an_orphan_is_probed_with_the_newest_salt() -> None:
    """Where there is none, it has no bearer; a row without a model is served under no name."""
    two = orphan(fleet(salts=2), params={}).deployment
    assert two is not None
    assert two.bearer is not None
    assert two.bearer.fingerprint(SALTS[0]) == two.bearer_id
    assert "" == two.served
    none = orphan(fleet(salts=0)).deployment
    assert none is not None
    assert (None, "") == (none.bearer, none.bearer_id)


@pytest.mark.parametrize(
    ("wanted", "displaced"),
    [({8001: "large"}, True), ({8001: "small"}, False), ({8002: "large"}, False)],
)
def test_an_orphan_whose_port_is_wanted_for_another_is_displaced(
    wanted: dict[int, str], displaced: bool
) -> None:
    """A second row of the same model is not; nor is one at another port."""
    assert displaced is orphan(fleet(hosts={GONE: wanted})).displaced


def test_orphans_of_one_key_are_told_apart() -> None:
    """Each has a key of its own, the second by its id, so that each is decided by itself."""
    was = fleet(hosts={GONE: {8001: "small"}})
    rows = [row(was, key=f"{GONE}:8001 small", id=one) for one in ("b", "a")]
    _, first, second = joined(*rows)
    assert [f"{GONE}:8001 small", f"{GONE}:8001 small (b)"] == [str(first.key), str(second.key)]
    assert (("a",), ("b",)) == tuple(tuple(r.id for r in one.rows) for one in (first, second))
    assert second.deployment is not None
    assert second.key == second.deployment.key
    assert first.key.base == second.key.base
