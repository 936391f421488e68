"""Rows of the recorded shapes, and what they mean."""

import json
from typing import Any

import pytest
from tests.vast.helpers import SECRETS, answer, listed, one, row

from llmao_core.errors import FetchError, Garbled
from llmao_core.snapshots import BoxStatus, Endpoint
from llmao_vast import translate


def test_a_whole_row() -> None:
    """Every field of an instance comes from the field of the row that says it."""
    box = one()
    assert ("41230011", BoxStatus.UP, "running") == (box.id, box.status, box.raw_status)
    assert ("c.41230011", "box-a") == box.names
    assert ("203.0.113.24",) == box.addresses
    assert {
        22: Endpoint("http", "203.0.113.24", 41207),
        8001: Endpoint("http", "203.0.113.24", 41233),
        8002: Endpoint("http", "203.0.113.24", 41218),
    } == box.endpoints
    assert frozenset({8001, 8002}) == box.declared
    assert ("RTX 4090", 2, 24.564) == (box.gpu_name, box.gpu_count, box.gpu_memory_gb)
    assert (120.0, 0.7342) == (box.disk_gb, box.price_per_hour)
    assert (1796040001.52, "Oregon, US", "51877") == (box.started_at, box.location, box.group)
    assert "success, running vastai/vllm:v0.25.1" == box.detail


@pytest.mark.parametrize(
    ("status", "word"),
    [
        (BoxStatus.STARTING, None),
        (BoxStatus.STARTING, "created"),
        (BoxStatus.STARTING, "loading"),
        (BoxStatus.STARTING, "rebooting"),
        (BoxStatus.STARTING, "recycling"),
        (BoxStatus.UP, "running"),
        (BoxStatus.UP, " Running\n"),
        (BoxStatus.DOWN, "stopped"),
        (BoxStatus.DOWN, "exited"),
        (BoxStatus.DOWN, "frozen"),
        (BoxStatus.UNKNOWN, "unknown"),
        (BoxStatus.UNKNOWN, "offline"),
        (BoxStatus.UNKNOWN, "RESTARTING"),
        (BoxStatus.UNKNOWN, ""),
        (BoxStatus.UNKNOWN, 7),
        (BoxStatus.UNKNOWN, ["running"]),
    ],
)
def test_every_status_has_its_meaning(status: BoxStatus, word: object) -> None:
    assert status is one(actual_status=word).status


def test_a_status_that_is_not_there_is_unknown() -> None:
    """A field that Vast renamed is not a box that starts."""
    short = row()
    del short["actual_status"]
    assert BoxStatus.UNKNOWN is listed(short)[0].status


def test_released_hardware_is_gone() -> None:
    assert BoxStatus.GONE is one(cur_state="unloaded").status


@pytest.mark.parametrize("status", ["stopped", "exited", "frozen"])
def test_a_box_that_is_down_has_no_endpoint(status: str) -> None:
    """The map of a stopped box may be another's by now; its address still names it."""
    box = one(actual_status=status)
    assert ({}, ("203.0.113.24",)) == (box.endpoints, box.addresses)


def test_a_box_that_lost_contact_keeps_its_mapping() -> None:
    """Only a probe can tell whether a box whose host went silent still serves."""
    assert 8001 in one(actual_status="offline").endpoints


# ---- ports


@pytest.mark.parametrize(
    "binding",
    [
        None,
        [],
        {},
        "41233",
        [None],
        [{}],
        [{"HostIp": "0.0.0.0", "HostPort": None}],
        [{"HostIp": "0.0.0.0", "HostPort": "0"}],
        [{"HostIp": "0.0.0.0", "HostPort": "65536"}],
        [{"HostIp": "0.0.0.0", "HostPort": "-1"}],
        [{"HostIp": "0.0.0.0", "HostPort": "9" * 5000}],
        [{"HostIp": "0.0.0.0", "HostPort": "４１２３３"}],
        [{"HostIp": "0.0.0.0", "HostPort": True}],
        [{"HostIp": "0.0.0.0", "HostPort": 41233.5}],
        [{"HostIp": "::", "HostPort": "41233"}],
        [{"HostIp": "127.0.0.1", "HostPort": "41233"}],
    ],
)
def test_a_binding_that_leads_nowhere_is_no_endpoint(binding: object) -> None:
    box = one(ports={"8001/tcp": binding, "8002/tcp": [{"HostIp": "0.0.0.0", "HostPort": "5"}]})
    assert {8002: Endpoint("http", "203.0.113.24", 5)} == box.endpoints


@pytest.mark.parametrize("side", ["0.0.0.0", "", " 0.0.0.0 ", "203.0.113.24", None])
def test_any_way_to_write_all_of_ipv4_is_taken(side: object) -> None:
    box = one(ports={"8001/tcp": [{"HostIp": "::", "HostPort": "6"},
                                  {"HostIp": side, "HostPort": 7}]})  # fmt: skip
    assert 7 == box.endpoints[8001].port


@pytest.mark.parametrize("name", ["8001/udp", "8001", "0/tcp", "65536/tcp", "x/tcp", "/tcp", ""])
def test_only_tcp_ports_that_exist_are_taken(name: str) -> None:
    assert {} == one(ports={name: [{"HostIp": "0.0.0.0", "HostPort": "41233"}]}).endpoints


@pytest.mark.parametrize("ports", [None, [], [41233], "8001", 8001, {}])
def test_a_map_that_is_none_maps_nothing(ports: object) -> None:
    assert {} == one(ports=ports).endpoints


@pytest.mark.parametrize(
    "at",
    [None, "", " ", "\n", 7, [], "n/a", "203.0.113", "10.0.0.5", "192.168.1.2", "172.17.0.1",
     "100.64.3.4", "169.254.1.1", "0.0.0.0", "255.255.255.255", "224.0.0.1", "127.0.0.1",
     "fe80::1%eth0", "::"],
)  # fmt: skip
def test_an_address_that_nobody_can_dial_is_none(at: object) -> None:
    """Loopback is refused, too: a real provider that answers it would send probes to ourselves."""
    box = one(public_ipaddr=at)
    assert ((), {}) == (box.addresses, box.endpoints)


@pytest.mark.parametrize("at", ["203.0.113.24\n", " 203.0.113.24 ", "::ffff:203.0.113.24"])
def test_an_address_has_one_spelling(at: str) -> None:
    assert ("203.0.113.24",) == one(public_ipaddr=at).addresses


def test_a_fake_on_loopback_may_have_boxes_on_loopback() -> None:
    page = translate.page(answer(row(public_ipaddr="127.0.0.2")))
    [box] = translate.listing([page], local=True).instances
    assert "127.0.0.2" == box.endpoints[8001].host


@pytest.mark.parametrize(
    ("ports", "extra_env"),
    [
        ({8001, 8002}, [["-p 8001:8001", "1"], ["-p 41000:8002/tcp", "1"]]),
        ({8001, 8002}, {"-p 8001:8001": "1", "-p 8002:8002": "1"}),
        ({8001}, ["-p 8001:8001", "x"]),
        ({8001, 8002}, [["-p 8001:8001 -p 8002:8002", "1"]]),
        ({8001}, [["-p 0.0.0.0:8001:8001", "1"]]),
        (set(), [["-p 8001:8001/udp", "1"]]),
        (set(), [["-p 70000:70000", "1"]]),
        (set(), [["PORTS", "-p 8001:8001"], [], [None], None, [7, 8]]),
        (set(), None),
        (set(), "-p 8001:8001"),
    ],
)
def test_declared_ports_stand_in_the_environment(ports: set[int], extra_env: object) -> None:
    assert ports == one(extra_env=extra_env).declared


# ---- names


def test_a_label_names_one_box_only() -> None:
    """A label that two boxes carry, or that belongs to another by right, names neither."""
    boxes = listed(
        row(id=1, label="Box-A "),
        row(id=2, label="twin"),
        row(id=3, label=" TWIN"),
        row(id=4, label="c.1"),
        row(id=5, label="C.99"),
        row(id=6, label="1"),
        row(id=7, label="203.0.113.99"),
        row(id=8, label="two words"),
        row(id=9, label=None),
        row(id=10, label=7),
    )
    assert [
        ("c.1", "box-a"), ("c.2",), ("c.3",), ("c.4",), ("c.5",), ("c.6",), ("c.7",), ("c.8",),
        ("c.9",), ("c.10",),
    ] == [box.names for box in boxes]  # fmt: skip


def test_a_box_that_is_gone_leaves_its_label_to_the_next() -> None:
    old, new = listed(row(id=1, cur_state="unloaded"), row(id=2))
    assert (("c.1",), ("c.2", "box-a")) == (old.names, new.names)


# ---- nonsense


@pytest.mark.parametrize("value", [None, "x", -1, float("inf"), 10**400, True, [], {}])
def test_figures_that_make_no_sense_are_unknown(value: Any) -> None:
    box = one(gpu_ram=value, disk_space=value, dph_total=value, start_date=value, num_gpus=value)
    assert (None, None) == (box.gpu_memory_gb, box.disk_gb)
    assert (None, None, 0) == (box.price_per_hour, box.started_at, box.gpu_count)


@pytest.mark.parametrize("value", [None, 7, "", "a/../b", "9" * 100, True, 1.5, -4, {}])
def test_an_id_that_is_none_is_garbled(value: object) -> None:
    """A box that cannot be named would be missing from the listing: then there is none."""
    if value == 7:
        assert "7" == one(id=value).id
        return
    with pytest.raises(Garbled, match="without an id"):
        one(id=value)


@pytest.mark.parametrize("content", [b"[]", b"7", b"null", b'"x"', b'{"instances":[]', b"\xff\xfe"])
def test_what_is_no_list_is_garbled(content: bytes) -> None:
    with pytest.raises(Garbled):
        translate.page(content)


@pytest.mark.parametrize("total", ["3", 2.5, True, -1, 0, 2])
def test_a_total_that_does_not_fit_is_garbled(total: object) -> None:
    with pytest.raises(Garbled):
        translate.listing([translate.page(answer(row(), total_instances=total))])


def test_a_list_without_a_total_is_whole_when_no_page_follows() -> None:
    assert translate.listing([translate.page(answer(row(), total_instances=None))]).instances


def test_no_secret_gets_past_translation() -> None:
    """What a row holds in `env`, `onstart`, tokens and keys is in no listing and no error."""
    loud = " ".join(SECRETS)
    told = repr(listed(row(status_msg=f"OCI runtime create failed: docker run {loud}", env=loud)))
    spoilt: list[Any] = [
        answer(row(id=loud)),
        answer(row(), loud),
        answer(row(), next_token=[loud]),
        answer(row(), total_instances=loud),
        answer(row(), success=False, error=loud, msg=loud),
        json.dumps([row()]).encode(),
        answer(row())[:-3],
        loud.encode(),
    ]
    for content in spoilt:
        with pytest.raises(FetchError) as caught:
            translate.listing([translate.page(content)])
        told += repr(caught.value)
    assert [] == [secret for secret in SECRETS if secret in told]
