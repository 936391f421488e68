"""The suite for a plugin that lists boxes.

Rule of this file: as of kit_suite.py.
"""

import math
from typing import Any

import pytest
from attrs import evolve

from llmao_core.actions import ActionKind
from llmao_core.config import Config
from llmao_core.errors import LlmaoError, Refused
from llmao_core.hooks import SourceKind
from llmao_core.keys import host_name, is_address, normalise_base
from llmao_core.snapshots import BoxStatus, Endpoint, Instance, Listing

from .kit import Box, ListingBench, called
from .kit_host import HostTests
from .kit_orders import OrderTests
from .kit_reading import ReadingTests
from .kit_suite import overheard, reading, secrets_of

NONSENSE: tuple[Any, ...] = (
    None, "", "  ", "nonsense ☃\n", "\ud800", -1, 1e300, 10**30, True, [], {}, [None], [[]],
    {"a": None}, {"8001/tcp": "x"}, [{"HostPort": []}], "0", 70_000,
)  # fmt: skip
_STRANGE_STATUSES = ("zz_brand_new", "", "\u2603", "x" * 5000)
_STRANGE_TARGETS = ("", "../../x", "a/b?c=d", "999999999", "x" * 500, "\n", "☃")


class ListingProviderTests(ReadingTests, OrderTests, HostTests, kit=True):
    """What a plugin that lists boxes must do: subclass it, and say how a bench is made."""

    wants = SourceKind.LISTING

    def test_without_a_section_there_is_no_problem(self, bench: ListingBench) -> None:
        """A provider that nobody configured has nothing to complain about."""
        assert called(bench.plugin.llmao_check, config=Config()) == ()

    @reading
    def test_the_answer_is_a_whole_listing(self, bench: ListingBench) -> None:
        """A fetch returns a Listing that says it is complete, made of Instances."""
        body = bench.fetch()
        assert isinstance(body, Listing)
        assert body.complete is True
        assert isinstance(body.instances, tuple)
        assert all(isinstance(one, Instance) for one in body.instances)

    @reading
    def test_every_field_is_what_it_says(self, bench: ListingBench) -> None:
        """Names and addresses are normalised, numbers finite, ports 1 to 65535, URLs dialable."""
        if not bench.live:
            bench.plant_some(3)
        for one in bench.fetch().instances:
            _check(one)

    def test_each_listen_port_has_its_endpoint(self, bench: ListingBench) -> None:
        """Every mapped listen port is there, at the address and public port it is mapped to."""
        box = Box("kit-ports", "203.0.113.30", {8001: 41_301, 8002: 41_302, 9000: 9000})
        found = _one(bench, bench.plant(box))
        assert set(found.endpoints) == set(box.ports)
        for listen, endpoint in found.endpoints.items():
            if endpoint.via == "direct":
                wanted = (box.address, box.ports[listen])
                assert (endpoint.host, endpoint.port) == wanted

    def test_two_boxes_at_one_address_stay_two(self, bench: ListingBench) -> None:
        """Boxes that share an address are both listed, each with its own ports."""
        one = bench.plant(Box("kit-a", "203.0.113.40", {8001: 41_001}))
        two = bench.plant(Box("kit-b", "203.0.113.40", {8001: 41_002}))
        ports = [_one(bench, each).endpoints[8001].port for each in (one, two)]
        assert ports == [41_001, 41_002]

    def test_a_label_is_a_name_of_its_box(self, bench: ListingBench) -> None:
        """A box answers to the label people gave it, normalised."""
        assert "kit-label" in _one(bench, bench.plant(Box("Kit-Label"))).names

    def test_a_label_of_two_boxes_names_neither(self, bench: ListingBench) -> None:
        """A name that two boxes bear points to none of them."""
        ids = [bench.plant(Box("kit-twin", f"203.0.113.{n}")) for n in (41, 42)]
        assert ["kit-twin" in _one(bench, one).names for one in ids] == [False, False]

    def test_an_unknown_status_is_unknown(self, bench: ListingBench) -> None:
        """A status word that is not known is UNKNOWN, and the box is listed."""
        for word in _STRANGE_STATUSES:
            box_id = bench.plant(Box("kit-status"))
            bench.show_status(box_id, word)
            assert _one(bench, box_id).status is BoxStatus.UNKNOWN, repr(word)

    def test_nonsense_in_a_row_loses_no_box(self, bench: ListingBench) -> None:
        """Nulls, other types and unknown words in optional fields leave the box in the list."""
        assert bench.optional, "the bench names no optional fields"
        planted = {name: bench.plant(Box(f"kit-{name}")) for name in bench.optional}
        for value in NONSENSE:
            for name, box_id in planted.items():
                bench.show(box_id, **{name: value})
            found = {one.id: one for one in bench.fetch().instances}
            lost = [name for name, box_id in planted.items() if box_id not in found]
            assert not lost, f"{value!r} in {lost} lost the box"
            for one in found.values():
                _check(one)

    def test_a_field_nobody_knows_is_ignored(self, bench: ListingBench) -> None:
        """What the API will have tomorrow changes nothing today."""
        box_id = bench.plant(Box("kit-new"))
        before = bench.fetch()
        bench.show(box_id, brand_new={"of": ["tomorrow"]})
        assert bench.fetch() == before

    def test_what_is_shown_of_a_box_hides_its_secrets(self, bench: ListingBench) -> None:
        """No secret of a box gets out when its row is full of nonsense."""
        planted = {name: bench.plant(Box(f"kit-{name}")) for name in bench.optional}
        with overheard() as ear:
            for value in NONSENSE:
                for name, box_id in planted.items():
                    bench.show(box_id, **{name: value})
                try:
                    ear.note(bench.fetch())
                except LlmaoError as error:
                    ear.note(error)
        assert ear.secrets(*secrets_of(bench)) == []

    def test_an_order_for_a_box_that_is_not_there_is_refused(self, bench: ListingBench) -> None:
        """An unknown or impossible instance id is Refused, and nothing changes."""
        for kind in sorted(bench.source_card().executes, key=lambda kind: kind.value):
            order = bench.order(kind)
            before = dict(bench.truth())
            for target in _STRANGE_TARGETS:
                with pytest.raises(Refused):
                    bench.execute(evolve(order, target=target))
                assert dict(bench.truth()) == before, f"{kind.value} {target!r}"

    def test_a_listing_writes_no_deployments(self, bench: ListingBench) -> None:
        """A provider of boxes carries out orders about boxes only."""
        assert bench.source_card().executes <= {ActionKind.REBOOT_BOX}


def _one(bench: ListingBench, box_id: str) -> Instance:
    [found] = [one for one in bench.fetch().instances if one.id == box_id]
    assert isinstance(found, Instance)
    return found


def _check(one: Instance) -> None:
    """Fail unless every field is what its docstring says."""
    assert one.id, "no id"
    assert isinstance(one.status, BoxStatus), one.id
    assert all(_normal(name) for name in one.names), f"{one.id}: names {one.names}"
    assert all(_normal(a) and is_address(a) for a in one.addresses), f"{one.id}: {one.addresses}"
    for listen, endpoint in one.endpoints.items():
        _check_endpoint(one.id, listen, endpoint)
    assert all(_is_port(port) for port in one.declared), f"{one.id}: {one.declared}"
    numbers = (one.gpu_memory_gb, one.disk_gb, one.price_per_hour, one.started_at)
    assert all(each is None or _is_amount(each) for each in numbers), f"{one.id}: {numbers}"
    assert type(one.gpu_count) is int, f"{one.id}: {one.gpu_count!r}"
    assert one.gpu_count >= 0, f"{one.id}: {one.gpu_count}"
    texts = (one.raw_status, one.detail, one.gpu_name, one.location, one.group)
    assert all(_is_line(each) for each in texts), f"{one.id}: {texts!r}"


def _check_endpoint(box_id: str, listen: int, endpoint: Endpoint) -> None:
    where = f"{box_id}: {listen} at {endpoint!r}"
    assert _is_port(listen), where
    assert _is_port(endpoint.port), where
    assert endpoint.scheme in ("http", "https"), where
    assert endpoint.via in ("direct", "proxy"), where
    assert _normal(endpoint.host), where
    assert endpoint.url, where
    assert normalise_base(endpoint.url) == endpoint.url, where


def _normal(name: object) -> bool:
    try:
        return isinstance(name, str) and host_name(name) == name
    except ValueError:
        return False


def _is_port(port: object) -> bool:
    return type(port) is int and 1 <= port <= 65535


def _is_amount(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) and value >= 0


def _is_line(text: object) -> bool:
    return isinstance(text, str) and text.isprintable() and len(text) <= 500
