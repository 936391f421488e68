"""A box that asks by a name nobody knows is told by every name it has."""

from typing import Any

from llmao_core.records import AttentionItem, ItemKind
from llmao_core.testing.walk import Walk

ADDRESS = "203.0.113.77"


def asking(hosts: dict[str, Any], listed: dict[str, Any], name: str = ADDRESS) -> AttentionItem:
    """Return the item of a box that asks by this name, in a fleet with these boxes."""
    it = Walk()
    fleet = {"hosts": hosts, "listings": {"vast": 60}}
    it.step(0, fleet=fleet, listings={"vast": listed}, unknown=[name])
    [item] = [one for one in it.view.items if one.kind.value == "unknown_host"]
    return item


def test_a_known_box_is_told_by_both_names() -> None:
    """Approving it again would make a second host of one box: there is no button."""
    boxes = {"4711": {"label": "C.4711", "address": ADDRESS}}
    item = asking({"c.4711": {8001: "small"}}, boxes)

    assert "which has that box as c.4711" in item.sentence
    assert item.remedy.endswith("with `was: [c.4711]`.")
    assert "" == item.button
    assert ("asked 1 time", "vast instance 4711") == item.evidence


def test_a_box_nobody_knows_is_told_by_both_names() -> None:
    """Who approves it reads the other name, too, and what it costs."""
    item = asking({}, {"4711": {"label": "C.4711", "address": ADDRESS, "price": 0.45}})

    assert item.sentence.startswith("203.0.113.77 (c.4711) asks for a configuration")
    assert "approve" == item.button
    assert item.sentence.endswith("until it is told what, and costs $0.45/h.")
    assert ("asked 1 time", "vast instance 4711, $0.45/h") == item.evidence


def test_a_box_that_waits_for_approval_says_what_it_costs_or_that_nobody_knows() -> None:
    """Which of two boxes at one address asks is unknown, and so is its price."""
    box = {"label": "C.4711", "address": ADDRESS}
    unpriced = asking({}, {"4711": box})
    assert unpriced.sentence.endswith("and costs what no listing says.")

    shared = asking({}, {"4711": {**box, "price": 1}, "4712": {"address": ADDRESS, "price": 2}})
    assert "costs" not in shared.sentence
    assert "costs" not in asking({}, {}).sentence


def test_a_shared_address_names_every_host_there() -> None:
    """Which of two boxes at one address asks cannot be told."""
    boxes = {
        "4711": {"label": "C.4711", "address": ADDRESS},
        "4712": {"label": "C.4712", "address": ADDRESS},
    }
    item = asking({"c.4711": {8001: "small"}, "c.4712": {8001: "small"}}, boxes)

    assert "c.4711 or c.4712" in item.sentence


def test_who_was_approved_since_is_not_unknown() -> None:
    """Though its box has not asked again yet."""
    it = Walk()
    it.step(0, fleet={"hosts": {}}, unknown=[ADDRESS])
    assert [ItemKind.UNKNOWN_HOST] == [one.kind for one in it.view.items]
    it.step(6, fleet={"hosts": {ADDRESS: {8001: "small"}}})
    assert ItemKind.UNKNOWN_HOST not in [one.kind for one in it.view.items]


def test_a_name_no_listing_has_stands_alone() -> None:
    """Of a box that no listing names nothing more is known."""
    item = asking({}, {}, "box-7")

    assert item.sentence.startswith("box-7 asks for a configuration")
    assert ("asked 1 time",) == item.evidence


def test_a_name_no_host_can_have_is_not_to_be_added() -> None:
    """`llmao check` would refuse it; what is wrong is what the box calls itself."""
    item = asking({}, {}, "my box!")

    assert "calls itself 'my box!', which can name no host: set LLMAO_HOST" in item.sentence
    assert "fleet.hosts" not in item.sentence
    assert "" == item.button
