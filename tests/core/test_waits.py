"""What a server that works and has no route waits for, as people are told it."""

from typing import Any

import pytest

from llmao_core.keys import box_key
from llmao_core.records import Availability, Kind, Lifecycle, Record
from llmao_core.recovery import waits
from llmao_core.snapshots import Row
from llmao_core.testing.walk import Walk

ONE, TWO = "203.0.113.10", "203.0.113.11"
SERVE = {f"{ONE}:8001": "serves", f"{TWO}:8001": "serves"}
KEY = box_key(ONE, 8001, "small")
FLAPPED = (
    "once it has answered 7 more probes in a row, as its route was removed 3 times in the last hour"
)
WORKS = Record(KEY, Kind.INTENDED, Lifecycle.HEALTHY, action_rule="not-proven")


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (WORKS._replace(oks_left=1), "once it has answered 1 more probe in a row"),
        (
            WORKS._replace(oks_left=7, removals=3),
            FLAPPED,
        ),
        (WORKS, "once requests of llmao's own have proven that it works"),
        (
            WORKS._replace(proof="that it answers a request (500)", oks_left=2),
            "once it has proven that it answers a request (500)",
        ),
        (WORKS._replace(action_rule="restarting"), "once it is proven again after its restart"),
        (WORKS._replace(action_rule="kept-out"), ""),
        (WORKS._replace(action_rule="serving-absent"), ""),
        (WORKS._replace(row=Row("1", "small", "")), ""),
        (WORKS._replace(lifecycle=Lifecycle.UNHEALTHY), ""),
    ],
)
def test_what_works_and_has_no_route_says_what_for_it_waits(record: Record, words: str) -> None:
    """With the figures; what is kept out, planned, routed or down waits for nothing of the kind."""
    assert words == waits(record)


def walk(**first: Any) -> Walk:
    """Return a walk of two boxes that serve small and are routed."""
    hosts = {ONE: {8001: "small"}, TWO: {8001: "small"}}
    it = Walk().go(
        [
            {"at": 0, "fleet": {"hosts": hosts}, "servers": SERVE, "writes": "work", **first},
            {"at": 60},
        ]
    )
    assert [True, True] == [one.routed for one in it.view.records]
    return it


def availability(it: Walk) -> Availability:
    return it.view.models[0].availability


def first_of(it: Walk) -> Record:
    return next(one for one in it.view.records if one.host == ONE)


def test_how_often_a_server_must_answer_yet_is_counted_down() -> None:
    """Twice after its route was removed once; each answer is one less."""
    it = walk()
    it.step(90, servers={**SERVE, f"{ONE}:8001": "closed"})
    at = 90.0
    while first_of(it).row is not None:
        at += 15
        it.step(at)
        assert at < 600, "its route goes"
    it.step(at + 1, servers=SERVE, probes=False)
    assert 2 == first_of(it).oks_left
    it.step(at + 120, probes=True)
    it.step(at + 300)
    assert first_of(it).routed


def test_a_route_to_a_server_that_refuses_degrades_its_model() -> None:
    """LiteLLM sends it a part of the callers, whatever is wrong with it."""
    it = walk(policy={"delete_litellm": "observe"})
    assert Availability.AVAILABLE is availability(it)
    it.step(90, servers={**SERVE, f"{ONE}:8001": "locked"})
    it.step(200)
    assert Lifecycle.REJECTED is first_of(it).lifecycle
    assert first_of(it).routed
    assert Availability.DEGRADED is availability(it)
