"""What is told, and what is not concluded, while a listing or LiteLLM cannot be read."""

from typing import Any

import pytest

from llmao_core.records import AttentionItem, HostView, ItemKind, Kind, Record
from llmao_core.testing.walk import Walk

BOX = {"label": "C.4711", "address": "203.0.113.10", "ports": {8001: 40001}, "price": 0.45}
SERVES = {"203.0.113.10:40001": {"host": "c.4711:8001", "models": ["small"]}}
ROW = {"key": "c.4711:8001 small", "at": "203.0.113.10:40001"}
FAILS = {"vast": "Unreachable: HTTP 502"}
LISTED = {"vast": {"4711": BOX}}


def walk(*steps: dict[str, Any], **fleet: Any) -> Walk:
    first, *rest = steps
    words = {"hosts": {}, "listings": {"vast": 60}, **fleet}
    return Walk().go([{"fleet": words, **first}, *rest])


def items(it: Walk) -> dict[str, AttentionItem]:
    return {one.id: one for one in it.view.items}


def host(it: Walk) -> HostView:
    [found] = it.view.hosts
    return found


def record(it: Walk) -> Record:
    [found] = it.view.records
    return found


def test_which_sources_are_listings_is_told() -> None:
    """Of a listing that is unread, people are told what it costs them not to know it."""
    it = walk({"at": 0, "listings": LISTED, "servers": SERVES, "rows": [ROW]})
    assert ["vast"] == [one.name for one in it.view.sources if one.listing]


# ---- what nothing intends


def test_what_stands_on_a_listing_that_is_unread_says_so() -> None:
    """In the sentence of its lifecycle, with the name of the listing; and its box is still told."""
    it = walk(
        {"at": 0, "listings": LISTED, "servers": SERVES, "rows": [ROW]},
        {"at": 60, "trouble": FAILS},
        {"at": 900},
    )
    found = record(it)
    assert (Kind.DISCOVERED, "vast") == (found.kind, found.provider)
    assert "vast cannot be read: what was known of its box stands." in found.because
    assert ("vast", "4711", "up", 0.45, (found.key,), True) == (
        host(it).provider, host(it).instance_id, host(it).status, host(it).price_per_hour,
        host(it).keys, host(it).stale,
    )  # fmt: skip


def test_what_a_listing_never_read_may_name_is_not_known() -> None:
    """It has no item of its own and no button, its host can be found, and callers are served."""
    it = walk({"at": 0, "listings": {"vast": "silent"}, "servers": SERVES, "rows": [ROW]})
    found = record(it)
    assert Kind.UNKNOWN is found.kind
    assert "is not known while vast cannot be read." in found.because
    assert ("c.4711", (found.key,), True) == (host(it).name, host(it).keys, host(it).stale)
    assert {} == items(it)
    assert () == it.plan.actions


def test_a_box_that_both_listings_could_name_waits_for_both() -> None:
    """That one of them is read and omits it says nothing of the other."""
    steps = {"at": 0, "listings": {"vast": "silent", "runpod": {}}, "rows": [ROW]}
    it = walk(steps, listings={"vast": 60, "runpod": 60})
    assert Kind.UNKNOWN is record(it).kind


@pytest.mark.parametrize(
    "fleet",
    [
        {"retired": ["c.4711"]},
        {"hosts": {"c.4711": {8002: "large"}}},
        {"salts": 0},
    ],
    ids=["retired", "intended for something else", "without a salt"],
)
def test_what_no_listing_could_explain_is_an_orphan_all_the_same(fleet: dict[str, Any]) -> None:
    """A retired host, one that is configured, or a fleet that discovers nothing."""
    rows = [{"key": "c.4711:8001 small", "at": "203.0.113.10:40001"}]
    it = walk({"at": 0, "listings": {"vast": "silent"}, "rows": rows}, **fleet)
    kinds = {str(one.key): one.kind for one in it.view.records}
    assert Kind.ORPHAN is kinds["c.4711:8001 small"]


# ---- money


def test_money_is_told_as_it_was_listed_last() -> None:
    """What idles goes on standing there, its figures as of the last read and marked as such."""
    it = walk({"at": 0, "listings": LISTED}, hosts={"c.4711": {8001: "small"}})
    it.now += 7300
    it.look()
    name = "serves_nothing:vast:4711"
    before = items(it)[name]
    it.step(7301, trouble=FAILS)
    it.step(18_000)

    after = items(it)[name]
    expected = "So it was when vast was last read, which cannot be read now."
    assert f"{before.sentence} {expected}" == after.sentence
    assert before.since == after.since


def test_a_box_that_serves_since_its_listing_failed_is_not_idle() -> None:
    """Probes and LiteLLM say so, whatever the listing said last."""
    it = walk({"at": 0, "listings": LISTED}, hosts={"c.4711": {8001: "small"}})
    it.now += 3700
    it.look()
    assert "serves_nothing:vast:4711" in items(it)
    it.step(3701, trouble=FAILS)
    it.step(5000, servers=SERVES, rows=[ROW])
    assert "serves_nothing:vast:4711" not in items(it)
    assert host(it).idle_since is None


@pytest.mark.parametrize("listed", [{}, {"1": {"address": "203.0.113.9"}, "2": BOX, "3": BOX}])
def test_what_is_wrong_with_a_host_stays_and_does_not_begin(listed: dict[str, Any]) -> None:
    """That no instance, or more than one, is it: as the listings said when all were read."""
    hosts = {"203.0.113.10": {8001: "small"}}
    it = walk({"at": 0, "listings": {"vast": listed}}, hosts=hosts)
    [before] = (one for one in it.view.items if one.host and one.kind is not ItemKind.UNNAMED_BOX)
    it.step(60, trouble=FAILS)
    it.step(900)
    after = items(it)[before.id]
    assert before.since == after.since
    assert after.sentence.endswith("which cannot be read now.")

    fresh = walk({"at": 0, "listings": {"vast": listed}})
    fresh.step(60, trouble=FAILS)
    fresh.step(900, fleet={"hosts": hosts, "listings": {"vast": 60}})
    assert before.id not in items(fresh)


# ---- since when


@pytest.mark.parametrize("source", ["litellm", "vast"])
def test_an_item_that_cannot_be_seen_is_the_same_when_it_is_seen_again(source: str) -> None:
    """While any source is unread it is not known whether the model can be called."""
    it = walk({"at": 0, "listings": LISTED}, hosts={"c.4711": {8001: "small"}})
    since = items(it)["model_unavailable:small"].since
    it.step(60, trouble={source: "Unreachable: no answer"})
    it.step(600)
    assert "model_unavailable:small" not in items(it)
    back = {"listings": LISTED} if source == "vast" else {"trouble": {source: None}}
    it.step(660, **back)
    assert since == items(it)["model_unavailable:small"].since


def test_what_was_seen_to_end_begins_anew() -> None:
    """An item of the same trouble, later, is another."""
    hosts = {"c.4711": {8001: "small"}}
    it = walk({"at": 0, "listings": LISTED}, hosts=hosts)
    since = items(it)["model_unavailable:small"].since
    it.step(60, servers=SERVES, rows=[ROW])
    assert "model_unavailable:small" not in items(it)
    it.step(120, rows=[])
    assert since < items(it)["model_unavailable:small"].since


# ---- all rows gone


def test_what_vanished_is_told_with_who_puts_it_back() -> None:
    """How many are back, and what the rest waits for."""
    hosts = {f"203.0.113.{one}": {8001: "small"} for one in (10, 11)}
    rows = [{"key": f"{one}:8001 small"} for one in hosts]
    servers = {f"{one}:8001": "serves" for one in hosts}
    words = {"hosts": hosts}
    it = Walk().go([{"fleet": words, "at": 0, "servers": servers, "rows": rows}])
    it.step(60, rows=[])
    gone = items(it)["rows_vanished"]
    assert gone.sentence.startswith("All 2 deployments of llmao's vanished from LiteLLM at once.")
    assert "errors until they are back: llmao puts each back by itself" in gone.sentence
    assert 2 == len(gone.evidence)

    it.step(120, rows=rows[:1])
    assert "1 is back; callers miss the other 1: llmao puts" in items(it)["rows_vanished"].sentence
    it.step(180, rows=rows)
    assert "llmao has put all of them back." in items(it)["rows_vanished"].sentence
    assert gone.since == items(it)["rows_vanished"].since
    it.step(1320)
    assert "rows_vanished" not in items(it)


def test_what_vanishes_again_is_another_trouble() -> None:
    """Told anew, though the first was still told."""
    hosts = {f"203.0.113.{one}": {8001: "small"} for one in (10, 11)}
    rows = [{"key": f"{one}:8001 small"} for one in hosts]
    it = Walk().go([{"fleet": {"hosts": hosts}, "at": 0, "rows": rows}, {"at": 60, "rows": []}])
    it.step(120)
    first = it.history.emptied
    it.step(180, rows=rows)
    it.step(240, rows=[])
    second = it.history.emptied
    assert first
    assert second
    assert 180 == second.at - first.at


@pytest.mark.parametrize(
    ("policy", "said"),
    [("observe", "so llmao puts none back."), ("needs_human", "2 additions of llmao's wait")],
)
def test_what_the_policy_keeps_out_is_not_said_to_come_back(policy: str, said: str) -> None:
    """It waits for a person, or for ever."""
    hosts = {f"203.0.113.{one}": {8001: "small"} for one in (10, 11)}
    rows = [{"key": f"{one}:8001 small"} for one in hosts]
    servers = {f"{one}:8001": "serves" for one in hosts}
    first = {"fleet": {"hosts": hosts}, "policy": {"add_litellm": policy}}
    it = Walk().go([{"at": 0, "servers": servers, "rows": rows, **first}, {"at": 60, "rows": []}])
    assert said in items(it)["rows_vanished"].sentence
