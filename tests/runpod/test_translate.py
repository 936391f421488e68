"""Pods of the recorded shapes, and what they mean."""

from typing import Any

import pytest
from tests.runpod.helpers import SECRETS, answer, listed, one, pod, runtime

from llmao_core.errors import FetchError, Garbled
from llmao_core.snapshots import BoxStatus, Endpoint
from llmao_runpod import translate


def test_a_whole_pod() -> None:
    """Every field of an instance comes from the field of the pod that says it."""
    box = one()
    assert ("k3v9x2m7q1", BoxStatus.UP, "RUNNING") == (box.id, box.status, box.raw_status)
    assert ("box-c",) == box.names
    assert ("198.51.100.77", "198.51.100.78") == box.addresses
    assert {
        22: Endpoint("http", "198.51.100.77", 13007),
        8001: Endpoint("http", "198.51.100.77", 13041),
        8002: Endpoint("http", "198.51.100.78", 13042),
    } == box.endpoints
    assert frozenset({22, 8001, 8002}) == box.declared
    assert ("NVIDIA GeForce RTX 4090", 2, None) == (box.gpu_name, box.gpu_count, box.gpu_memory_gb)
    assert (80, 1.38, "EU-RO-1") == (box.disk_gb, box.price_per_hour, box.location)
    assert 1796025850.0 == box.started_at
    assert ("", "") == (box.detail, box.group)


@pytest.mark.parametrize(
    ("status", "word"),
    [
        (BoxStatus.STARTING, "PROVISIONING"),
        (BoxStatus.STARTING, "STARTING"),
        (BoxStatus.UP, "RUNNING"),
        (BoxStatus.UP, " running "),
        (BoxStatus.DOWN, "EXITED"),
        (BoxStatus.DOWN, "ERROR"),
        (BoxStatus.GONE, "TERMINATED"),
        (BoxStatus.UNKNOWN, "RESTORING"),
        (BoxStatus.UNKNOWN, ""),
        (BoxStatus.UNKNOWN, None),
        (BoxStatus.UNKNOWN, 7),
        (BoxStatus.UNKNOWN, {}),
    ],
)
def test_every_status_has_its_meaning(status: BoxStatus, word: object) -> None:
    assert status is one(status=word).status


@pytest.mark.parametrize("status", ["PROVISIONING", "STARTING", "EXITED", "ERROR", "SOMETHING"])
def test_ports_of_a_pod_that_does_not_run_are_those_it_had(status: str) -> None:
    """They change at every reset, and the old ones were still reported for 90 s."""
    box = one(status=status)
    assert ({}, ()) == (box.endpoints, box.addresses)
    assert frozenset({22, 8001, 8002}) == box.declared


@pytest.mark.parametrize(
    "entry",
    [
        None,
        "8001",
        {},
        {"private": 8001, "public": None, "type": "tcp", "ip": None},
        {"private": 8001, "public": None, "type": "tcp", "ip": "198.51.100.77"},
        {"private": 8001, "public": 13041, "type": "tcp", "ip": None},
        {"private": 8001, "public": 13041, "type": "tcp", "ip": ""},
        {"private": 8001, "public": 13041, "type": "tcp", "ip": "100.65.0.10"},
        {"private": 8001, "public": 13041, "type": "tcp", "ip": "10.1.2.3"},
        {"private": 8001, "public": 13041, "type": "tcp", "ip": "127.0.0.1"},
        {"private": 8001, "public": 13041, "type": "http", "ip": "198.51.100.77"},
        {"private": 8001, "public": 13041, "type": "udp", "ip": "198.51.100.77"},
        {"private": 8001, "public": 13041, "ip": "198.51.100.77"},
        {"private": 8001, "public": 65536, "type": "tcp", "ip": "198.51.100.77"},
        {"private": 8001, "public": 0, "type": "tcp", "ip": "198.51.100.77"},
        {"private": 0, "public": 13041, "type": "tcp", "ip": "198.51.100.77"},
        {"private": True, "public": 13041, "type": "tcp", "ip": "198.51.100.77"},
        {"private": [8001], "public": 13041, "type": "tcp", "ip": "198.51.100.77"},
    ],
)
def test_an_entry_that_leads_nowhere_is_no_endpoint(entry: object) -> None:
    """Refused: no public port, a carrier's own addresses, RunPod's inner HTTP ports."""
    good = {"private": 8002, "public": 13042, "type": "tcp", "ip": " 198.51.100.77\n"}
    box = one(runtime=runtime(entry, good))
    assert {8002: Endpoint("http", "198.51.100.77", 13042)} == box.endpoints


@pytest.mark.parametrize("value", [None, {}, {"ports": None}, {"ports": {}}, [], "x", 7])
def test_a_runtime_without_ports_maps_nothing(value: object) -> None:
    assert ({}, BoxStatus.UP) == (one(runtime=value).endpoints, one(runtime=value).status)


def test_the_proxy_is_a_second_choice_and_only_when_asked_for() -> None:
    """Its name is built from the declared port; a direct port of the same number wins."""
    proxied = Endpoint("https", "k3v9x2m7q1-8888.proxy.runpod.net", 443, via="proxy")
    assert 8888 not in one().endpoints
    assert proxied == one(http_proxy=True).endpoints[8888]
    both = one(http_proxy=True, ports=["8001/tcp", "8001/http"])
    assert "direct" == both.endpoints[8001].via
    assert {} == one(http_proxy=True, status="EXITED").endpoints
    assert frozenset({22, 8001, 8002, 8888}) == one(http_proxy=True).declared


@pytest.mark.parametrize(
    ("ports", "declared"),
    [
        (["8001/tcp", " 8002/TCP "], {8001, 8002}),
        (["8001/udp", "8001", "/tcp", "0/tcp", "70000/tcp", "x/tcp", None, 8001, []], set()),
        (None, set()),
        ("8001/tcp", set()),
    ],
)
def test_declared_ports(ports: object, declared: set[int]) -> None:
    assert declared == one(ports=ports).declared


def test_a_running_pod_without_a_gpu_says_so() -> None:
    """A restart may bring a pod back with none, and still running."""
    assert "running without a GPU" == one(gpu={"id": "NVIDIA H100", "count": 0}).detail
    assert "" == one(gpu=None).detail


def test_a_name_names_one_pod_only() -> None:
    pods = listed(
        pod(id="aaa1", name="Box-C "),
        pod(id="aaa2", name="twin"),
        pod(id="aaa3", name="TWIN"),
        pod(id="aaa4", name="AAA1"),
        pod(id="aaa5", name="198.51.100.9"),
        pod(id="aaa6", name=None),
        pod(id="aaa7", name="last", status="TERMINATED"),
    )
    assert [("box-c",), (), (), (), (), (), ()] == [box.names for box in pods]


@pytest.mark.parametrize("value", [None, "x", -1, float("nan"), True, []])
def test_figures_that_make_no_sense_are_unknown(value: Any) -> None:
    box = one(disk=value, cost=value, startedAt=value, gpu={"count": value})
    assert (None, None, None, 0) == (box.disk_gb, box.price_per_hour, box.started_at, box.gpu_count)


@pytest.mark.parametrize(
    ("status", "cost", "price"),
    [
        ("STARTING", 2.99, 2.99),
        ("STARTING", 0.0, None),
        ("PROVISIONING", None, None),
        ("EXITED", 0.0, 0.0),
        ("RUNNING", 0.0, 0.0),
    ],
)
def test_nothing_is_no_price_of_a_pod_that_is_to_come(
    status: str, cost: object, price: float | None
) -> None:
    assert price == one(status=status, cost=cost).price_per_hour


@pytest.mark.parametrize("at", ["soon", "9999-99-99", "0001-01-01T00:00:00+14:00", ""])
def test_a_time_that_is_none_is_unknown(at: str) -> None:
    assert one(startedAt=at).started_at is None


@pytest.mark.parametrize("value", [None, "", "a/b", {}, True, "x" * 100])
def test_an_id_that_is_none_is_garbled(value: object) -> None:
    with pytest.raises(Garbled, match="without an id"):
        one(id=value)


def test_a_pod_on_two_pages_is_garbled() -> None:
    page = translate.page(answer(pod()))
    with pytest.raises(Garbled, match="twice"):
        translate.listing([page, page], translate.Reading())


@pytest.mark.parametrize(
    ("seconds", "header"),
    [
        (17.0, '"minute";r=0;t=17'),
        (23.0, '"minute";r=0;t=23, "hour";r=2900;t=1800'),
        (1800.0, '"minute";r=0;t=23, "hour";r=0;t=1800'),
        (12.0, "limit=60, remaining=0, reset=12"),
        (None, '"minute";r=3;t=17'),
        (None, "r=0"),
        (None, ""),
        (None, "nonsense"),
        (None, None),
    ],
)
def test_how_long_an_exhausted_window_lasts(seconds: float | None, header: object) -> None:
    assert seconds == translate.window_s(header)


def test_no_secret_gets_past_translation() -> None:
    """What a pod holds in `env`, `args`, `registry` and `ssh` is in no listing and no error."""
    loud = " ".join(SECRETS)
    told = repr(listed(pod(), pod(id="k2", name=loud, message=loud)))
    spoilt: list[Any] = [
        answer(pod(id=loud)),
        answer(pod(), loud),
        answer(pod(), pagination=loud),
        answer(pod(), pagination={"nextCursor": [loud], "hasNextPage": True}),
        answer(pod())[:-3],
        loud.encode(),
        b'{"errors": ["' + loud.encode() + b'"]}',
    ]
    for content in spoilt:
        with pytest.raises(FetchError) as caught:
            translate.listing([translate.page(content)], translate.Reading())
        told += repr(caught.value)
    assert [] == [secret for secret in SECRETS if secret in told]
