"""What to do about a server at which requests wait: nobody rents a box while one is on its way."""

from typing import Any

import pytest

from llmao_core.ailing import AWAITED_S, to_relieve
from llmao_core.keys import box_key
from llmao_core.records import Kind, Lifecycle, Record

NOW = 1_760_000_000.0
FULL = Record(box_key("203.0.113.10", 8001, "small"), Kind.INTENDED, Lifecycle.HEALTHY)
OTHER = Record(
    box_key("203.0.113.11", 8001, "small"),
    Kind.INTENDED,
    Lifecycle.HEALTHY,
    since=NOW - 60,
    dialable="http://203.0.113.11:40001",
)
RENT = "Rent one more box, and approve it with small."


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"lifecycle": Lifecycle.LOADING}, "203.0.113.11:8001 small loads, and takes its share"),
        ({"restarting": True}, "203.0.113.11:8001 small is being rebooted, and takes"),
        ({"lifecycle": Lifecycle.AWAITING}, "is to ask for its configuration, and takes"),
    ],
)
def test_a_server_that_is_on_its_way_is_waited_for(changes: dict[str, Any], said: str) -> None:
    """It loads, its box reboots, or it was approved and is about to ask."""
    remedy = to_relieve(FULL.key, (FULL, OTHER._replace(**changes)), NOW)
    assert remedy.startswith("Wait: 203.0.113.11:8001 small ")
    assert said in remedy


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"lifecycle": Lifecycle.UNHEALTHY},
        {"lifecycle": Lifecycle.LOADING, "drained": True},
        {"lifecycle": Lifecycle.LOADING, "kind": Kind.ORPHAN},
        {"lifecycle": Lifecycle.LOADING, "key": box_key("203.0.113.11", 8001, "large")},
        {"lifecycle": Lifecycle.AWAITING, "dialable": ""},
        {"lifecycle": Lifecycle.AWAITING, "since": NOW - AWAITED_S},
    ],
)
def test_what_is_not_on_its_way_is_no_help(changes: dict[str, Any]) -> None:
    """It serves already, is down, kept out, another model's, or may never come."""
    assert RENT == to_relieve(FULL.key, (FULL, OTHER._replace(**changes)), NOW)


def test_a_server_whose_own_box_is_to_be_rebooted_gets_no_more_requests() -> None:
    """Those that wait there end first, and another box would change nothing for them."""
    remedy = to_relieve(FULL.key, (FULL._replace(restarting=True), OTHER), NOW)
    assert remedy.startswith("Wait: its box is to be rebooted")
