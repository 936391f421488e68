"""What brings a model back fits what is wrong with it: the server that takes least is named."""

from typing import Any

import pytest

from llmao_core.records import AttentionItem, ItemKind, Lifecycle
from llmao_core.testing.walk import Walk

ONE, TWO = "203.0.113.10", "203.0.113.11"
HOSTS = {ONE: {8001: "small"}, TWO: {8001: "small"}}


def of(it: Walk, kind: ItemKind = ItemKind.MODEL_UNAVAILABLE) -> AttentionItem:
    [found] = [each for each in it.view.items if each.kind is kind]
    return found


def walk(*steps: dict[str, Any], **fleet: Any) -> Walk:
    """Return a walk of two boxes that should serve small; the second never does."""
    first, *rest = steps
    return Walk().go([{"at": 0, "fleet": {"hosts": HOSTS, **fleet}, **first}, *rest])


def works(**more: Any) -> dict[str, Any]:
    return {"servers": {f"{ONE}:8001": "serves"}, **more}


@pytest.mark.parametrize(
    ("first", "said"),
    [
        (works(writes="none"), "Wait: adding 203.0.113.10:8001 small is under way."),
        (works(policy={"add_litellm": "needs_human"}), "waits for you, as the policy says: press"),
        (works(policy={"add_litellm": "observe"}), "only observed: set its policy to `auto`"),
        (works(writes="fail"), "is held: waits before the next try. Its own item says what"),
    ],
)
def test_the_action_that_brings_it_back_is_named_with_what_it_waits_for(
    first: dict[str, Any], said: str
) -> None:
    """A server that works counts, though another never asked for its configuration."""
    remedy = of(walk(first)).remedy
    assert "dding 203.0.113.10:8001 small" in remedy
    assert said in remedy
    assert "does not ask" not in remedy


def test_a_server_that_works_and_has_to_prove_itself_is_named() -> None:
    """No action is planned yet; what is missing has an item of its own."""
    it = walk({"servers": {f"{ONE}:8001": {"canary": 500}}})
    it.step(60)
    assert "has not proven" in of(it, ItemKind.NOT_PROVEN).sentence
    assert of(it).remedy.startswith("See the item of 203.0.113.10:8001 small: it answers and has")


def test_a_server_that_refuses_our_key_is_to_be_mended() -> None:
    """Its box asks well enough, so nothing is said of one that does not."""
    it = walk({"servers": {f"{ONE}:8001": "locked"}})
    it.step(60)
    lives = {str(one.key): one.lifecycle for one in it.view.records}
    assert Lifecycle.REJECTED is lives[f"{ONE}:8001 small"]
    assert of(it).remedy.startswith("Mend 203.0.113.10:8001 small, which is Rejected: its own")


def test_a_drained_server_is_undrained_and_a_retired_one_taken_back() -> None:
    """Undraining a retired host does nothing."""
    drained = walk(works(), drained=[ONE])
    assert of(drained).remedy.startswith("Undrain 203.0.113.10:8001 small, or rent")
    retired = walk(works(), retired=[ONE])
    assert of(retired).remedy.startswith("Take 203.0.113.10 back from retirement on its page")


def test_what_loads_is_waited_for_and_what_is_down_mended_meanwhile() -> None:
    """The one that needs nobody comes first."""
    it = walk(works(writes="work"))
    it.step(60)
    it.step(66, servers={f"{ONE}:8001": "closed"}, fetches=[TWO])
    it.step(300)
    remedy = of(it).remedy
    assert remedy.startswith("Wait: 203.0.113.11:8001 small loads.")
    assert remedy.endswith("What is down has its own item: mend it meanwhile.")


def test_a_box_that_no_listing_has_any_more_is_not_waited_for() -> None:
    """Neither for what loaded on it when it went."""
    box = {"4711": {"address": ONE, "ports": {8001: 40001}}}
    it = Walk()
    fleet = {"hosts": {ONE: {8001: "small"}}, "listings": {"vast": 60}}
    it.step(0, fleet=fleet, listings={"vast": box}, fetches=[ONE])
    assert of(it).remedy.startswith("Wait: 203.0.113.10:8001 small loads.")
    it.step(60, listings={"vast": {}})
    it.step(300)
    assert "The box of 203.0.113.10:8001 small is gone: rent another and approve it." == (
        of(it).remedy
    )
    gone = of(it, ItemKind.REMOVE_HOST)
    assert "203.0.113.10:8001 small is called Loading until the time is up" in gone.sentence
    assert ("203.0.113.10:8001 small: Loading, not in LiteLLM",) == gone.evidence


def test_a_box_that_is_listed_no_more_and_answers_is_not_called_gone() -> None:
    """Nor is it to be removed before somebody knows who rents it."""
    box = {"4711": {"address": ONE, "ports": {8001: 8001}}}
    it = Walk()
    fleet = {"hosts": {ONE: {8001: "small"}}, "listings": {"vast": 60}}
    it.step(0, fleet=fleet, listings={"vast": box}, **works(writes="work"))
    it.step(60, listings={"vast": {}})
    it.step(300)
    found = of(it, ItemKind.REMOVE_HOST)
    assert "and yet 203.0.113.10:8001 small answers" in found.sentence
    assert "gone" not in found.sentence
    assert found.remedy.startswith("See under which name or account it is rented now")


def test_what_never_answered_has_an_address_to_look_for_or_a_box_that_does_not_ask() -> None:
    """Which of the two it is decides where to look."""
    assert "why it does not ask" in of(walk({})).remedy
    it = Walk()
    fleet = {"hosts": {"c.1": {8001: "small"}}, "listings": {"vast": 60}}
    it.step(0, fleet=fleet, listings={"vast": {}})
    assert of(it).remedy.startswith("No address is known of c.1: see in the provider's console")


def test_the_evidence_has_every_server_that_should_serve_it() -> None:
    """So that nobody has to look for what else there is."""
    assert (
        "203.0.113.10:8001 small: Healthy, drained, not in LiteLLM",
        "203.0.113.11:8001 small: Awaiting, not in LiteLLM",
    ) == of(walk(works(), drained=[ONE])).evidence
