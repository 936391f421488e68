"""What boxes cost while they serve nobody; the common cases are rows of 5-money.yaml."""

from typing import Any

from llmao_core.money import wasted
from llmao_core.records import AttentionItem, HostView, ItemKind
from llmao_core.testing.walk import Walk

BOX = {"address": "203.0.113.10", "ports": {8001: 40001}, "price": 0.45}
ROW = {"key": "203.0.113.10:8001 small", "at": "203.0.113.10:40001"}


def walk(*steps: dict[str, Any], **fleet: Any) -> Walk:
    """Return a walk of the usual box, with vast read every 60 s."""
    first, *rest = steps
    return Walk().go([{"fleet": {"listings": {"vast": 60}, **fleet}, **first}, *rest])


def item(one: Walk, kind: ItemKind) -> AttentionItem:
    [found] = [each for each in one.view.items if each.kind is kind]
    return found


def idle_since(one: Walk) -> float | None:
    views: dict[str, HostView] = {view.name: view for view in one.view.hosts}
    return views["203.0.113.10"].idle_since


def test_the_money_of_whole_hours_is_named() -> None:
    """After two and a half hours the sentence has two hours, the price and what they came to."""
    it = walk({"at": 0, "listings": {"vast": {"4711": BOX}}})
    it.now += 9000
    it.look()

    expected = "203.0.113.10 has served nothing for 2 h and costs $0.45/h: $0.90 so far."
    found = item(it, ItemKind.SERVES_NOTHING)
    assert expected == found.sentence
    assert found.remedy.endswith("or end its rental at vast (instance 4711).")
    assert "203.0.113.10" == found.host
    assert ("vast instance 4711", "203.0.113.10:8001 small: Awaiting, not in LiteLLM") == (
        found.evidence
    )


def test_an_unknown_price_is_not_nothing() -> None:
    """A box whose price no listing tells is an item, and no sum is made up."""
    box = {name: value for name, value in BOX.items() if name != "price"}
    it = walk({"at": 0, "listings": {"vast": {"4711": box}}})
    it.now += 3600
    it.look()

    assert "$" not in item(it, ItemKind.SERVES_NOTHING).sentence


def test_a_small_price_is_not_rounded_away() -> None:
    """Below a tenth of a dollar a third digit is shown."""
    it = walk({"at": 0, "listings": {"vast": {"4711": {**BOX, "price": 0.045}}}}, hosts={})

    assert "costs $0.045/h." in item(it, ItemKind.UNNAMED_BOX).sentence


def test_a_box_that_asked_before_is_approved_from_its_item() -> None:
    """By the name it asks with, which is the one that counts; one that never asked is not."""
    box = {**BOX, "label": "C.4711"}
    it = walk({"at": 0, "listings": {"vast": {"4711": box}}}, hosts={})
    before = item(it, ItemKind.UNNAMED_BOX)
    assert ("", "c.4711") == (before.button, before.host)

    it.step(6, fetches=["203.0.113.10"])
    after = item(it, ItemKind.UNNAMED_BOX)
    assert after.sentence.endswith("It has asked for its configuration as 203.0.113.10.")
    assert after.remedy.startswith("Press Approve, and choose its models; or add 203.0.113.10 to")
    assert ("approve", "203.0.113.10") == (after.button, after.host)


def test_whose_name_is_shared_is_not_approved_by_it() -> None:
    """Which of two boxes at one address has asked cannot be told."""
    boxes = {"4711": {**BOX, "label": "C.4711"}, "4712": {**BOX, "label": "C.4712"}}
    it = walk({"at": 0, "listings": {"vast": boxes}, "fetches": ["203.0.113.10"]}, hosts={})
    found = [one for one in it.view.items if one.kind is ItemKind.UNNAMED_BOX]
    assert ["", ""] == [one.button for one in found]


def lost(it: Walk) -> dict[str, float | None]:
    """Return the boxes that are paid for and serve nobody, and what each costs."""
    return {one.name: one.price_per_hour for one in wasted(it.view.hosts, it.view.items)}


def test_what_is_wasted_has_an_item_or_waits_for_approval() -> None:
    """Down, retired, named by nobody, asking and unknown; not what serves or may yet."""
    boxes = {
        "4711": BOX,
        "1": {"label": "C.1", "price": 0.1},
        "2": {"label": "C.2", "price": 0.2, "status": "down"},
        "3": {"label": "C.3"},
        "4": {"label": "C.4", "price": 0.4},
        "5": {"label": "C.5", "price": 0.0, "status": "down"},
        "6": {"label": "C.6", "price": 0.6},
    }
    it = walk(
        {"at": 0, "listings": {"vast": boxes}, "rows": [ROW], "unknown": ["c.1"],
         "servers": {"203.0.113.10:40001": "serves"}},
        hosts={"203.0.113.10": {8001: "small"}, "c.2": {8001: "large"}, "c.4": {8001: "large"}},
        retired=["c.6"],
    )  # fmt: skip
    assert {"c.1": 0.1, "c.2": 0.2, "c.3": None, "c.6": 0.6} == lost(it)

    it.now += 3600
    it.look()
    assert {"c.1": 0.1, "c.2": 0.2, "c.3": None, "c.4": 0.4, "c.6": 0.6} == lost(it)


def test_serving_ends_it() -> None:
    """A box that serves callers is not idle, and one that does not is idle from then on."""
    it = walk(
        {"at": 0, "listings": {"vast": {"4711": BOX}}, "rows": [ROW],
         "servers": {"203.0.113.10:40001": "serves"}},
    )  # fmt: skip
    assert idle_since(it) is None

    it.step(60, rows=[])
    assert it.now == idle_since(it)


def test_without_the_deployments_it_neither_begins_nor_ends() -> None:
    """Nobody knows which boxes serve callers while LiteLLM cannot be read."""
    it = walk(
        {"at": 0, "listings": {"vast": {"4711": BOX}}, "litellm": "silent"},
        {"at": 60},
    )
    assert idle_since(it) is None

    it.step(66, litellm="answers")
    began = idle_since(it)
    assert it.now == began

    it.step(72, litellm="silent")
    it.step(300, rows=[ROW], servers={"203.0.113.10:40001": "serves"})
    assert began == idle_since(it)


def test_a_box_that_is_gone_for_good_is_forgotten() -> None:
    """After three listings without it nothing is remembered of an instance."""
    it = walk({"at": 0, "listings": {"vast": {"4711": BOX}}}, hosts={})
    assert {("vast", "4711")} == set(it.history.idle)

    it.step(60, listings={"vast": {}})
    assert {("vast", "4711")} == set(it.history.idle)

    it.step(240)
    assert {} == it.history.idle


def test_a_restart_of_the_listing_says_nothing() -> None:
    """While a listing cannot be read the box is remembered, and no item speaks of it."""
    it = walk(
        {"at": 0, "listings": {"vast": {"4711": BOX}}},
        {"at": 60, "trouble": {"vast": "Unreachable: HTTP 502"}},
    )
    it.now += 7200
    it.look()

    assert {("vast", "4711")} == set(it.history.idle)
    assert [] == [one for one in it.view.items if one.kind is ItemKind.SERVES_NOTHING]


def test_a_retired_label_covers_the_instance() -> None:
    """One that no host names any more is the retired box, with what it costs, until it is gone."""
    box = {**BOX, "label": "C.4711"}
    it = walk({"at": 0, "listings": {"vast": {"4711": box}}}, hosts={}, retired=["c.4711"])
    it.now += 9000
    it.look()

    found = item(it, ItemKind.RETIRED_AND_BILLED)
    assert "c.4711 is retired and still rented at $0.45/h, $0.90 so far. It serves nobody." == (
        found.sentence
    )
    assert found.remedy.startswith("End its rental at vast (instance 4711)")
    assert "c.4711" == found.host

    it.step(9060, listings={"vast": {}})
    assert () == it.view.items


def test_a_retired_box_that_costs_nothing_is_no_item() -> None:
    """One that ended and is listed at no price, or at 0, is not paid for."""
    for price in ({}, {"price": 0}):
        box = {"address": BOX["address"], "status": "down", "says": "exited", **price}
        it = walk(
            {"at": 0, "listings": {"vast": {"4711": box}}}, hosts={}, retired=["203.0.113.10"]
        )
        assert () == it.view.items
