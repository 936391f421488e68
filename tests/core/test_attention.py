"""What an operator reads at night: every item says for whom it is bad and what to do about it."""

import re
from functools import cache

import pytest
from attrs import evolve

from llmao_core.records import AttentionItem, Availability, Badge, ItemKind, Lifecycle, ModelView
from llmao_core.testing.cases import read, walked
from llmao_core.testing.walk import Walk

BOX = "203.0.113.10"
SMALL = f"{BOX}:8001 small"
# What only somebody who built llmao understands.
OURS_ALONE = re.compile(r"threshold|_litellm\b|open_paths|canary|None\b")
MONEY = (
    ItemKind.RETIRED_AND_BILLED,
    ItemKind.DOWN_AND_BILLED,
    ItemKind.SERVES_NOTHING,
    ItemKind.UNNAMED_BOX,
)


@cache
def items() -> tuple[AttentionItem, ...]:
    """Return every item of every row of the decision table."""
    return tuple(item for case in read() for item in walked(case).view.items)


@pytest.mark.parametrize("kind", ItemKind)
def test_every_item_says_what_to_do(kind: ItemKind) -> None:
    """In a sentence that begins with what to do, in words that are in the documents."""
    found = [item for item in items() if item.kind is kind]
    assert found
    for item in found:
        assert re.fullmatch(r"[A-Z`].{15,}[.]", item.remedy), item
        assert item.remedy not in item.sentence
        assert 0 == item.remedy.count("`") % 2, item
        assert not OURS_ALONE.search(item.sentence + item.remedy), item


@pytest.mark.parametrize("kind", [ItemKind.MODEL_UNAVAILABLE, ItemKind.DOWN, ItemKind.SATURATED])
def test_what_hurts_callers_names_them(kind: ItemKind) -> None:
    """Callers of which model."""
    for item in items():
        if item.kind is kind:
            assert re.search(r"[Cc]allers", item.sentence), item


def test_what_costs_money_says_how_much() -> None:
    """In dollars per hour, or that no listing says it."""
    for item in items():
        if item.kind in MONEY:
            assert re.search(r"\$\d+\.\d\d+/h|no listing says", item.sentence), item


@pytest.mark.parametrize("badge", Badge)
def test_a_badge_is_called_by_words_and_says_what_to_do(badge: Badge) -> None:
    """Its code is for commands and documents."""
    assert re.fullmatch(r"[A-Za-z' ]{3,28}", badge.label), badge
    assert re.fullmatch(r"[A-Z`].{15,}[.]", badge.remedy), badge
    assert len(Badge) == len({each.label for each in Badge})


# ---- servers that are down


def fleet_of(*hosts: str) -> Walk:
    """Return a walk over boxes that all serve small, the first of which then dies."""
    it = Walk()
    it.step(
        0,
        fleet={"hosts": {host: {8001: "small"} for host in hosts}},
        servers={f"{host}:8001": "serves" for host in hosts},
        writes="work",
    )
    it.step(60)
    it.step(66, servers={f"{hosts[0]}:8001": "closed"})
    it.step(300)
    return it


def down(it: Walk) -> AttentionItem:
    [found] = [each for each in it.view.items if each.kind is ItemKind.DOWN]
    return found


def test_a_server_that_is_down_says_who_else_serves() -> None:
    """Nobody: callers get errors. Others: they get answers."""
    alone, among = down(fleet_of(BOX)), down(fleet_of(BOX, "203.0.113.11", "203.0.113.12"))
    assert "Nothing else serves small: its callers get errors." in alone.sentence
    assert "2 other servers of small serve its callers." in among.sentence


def test_a_server_that_is_down_names_its_program() -> None:
    """The command can be pasted on the box."""
    it = fleet_of(BOX)
    assert "`supervisorctl tail vllm-vllm-8001`" in down(it).remedy
    assert f"{SMALL} is down. It served, and now probe after probe fails." in down(it).sentence
    assert "/health: connection refused." in down(it).sentence


@pytest.mark.parametrize("can", [True, False])
def test_a_reboot_is_advised_where_its_provider_can_be_told_to(can: bool) -> None:
    """Elsewhere it is the console that reboots, and there is no button to press."""
    it = Walk()
    it.step(
        0,
        fleet={"hosts": {BOX: {8001: "small"}}, "listings": {"vast": 60}},
        listings={"vast": {"4711": {"address": BOX, "ports": {8001: 40001}}}},
        servers={f"{BOX}:40001": "serves"},
        writes="work",
    )
    known = {name: evolve(one, reboots=can) for name, one in it.snapshots.inventories.items()}
    it.snapshots = evolve(it.snapshots, inventories=known)
    it.step(60)
    it.step(66, servers={f"{BOX}:40001": "closed"})
    it.step(300)
    assert can is (f"press Reboot on the page of {BOX}" in down(it).remedy)
    assert can is not ("reboot it there" in down(it).remedy)


@pytest.mark.parametrize(
    ("life", "helps"),
    [
        (Lifecycle.UNHEALTHY, "`supervisorctl tail vllm-"),
        (Lifecycle.STALLED, "`supervisorctl tail llmao-install`"),
        (Lifecycle.REJECTED, "the present key"),
        (Lifecycle.FOREIGN, "whether the box still exists"),
        (Lifecycle.WRONG_MODEL, "installs what it should serve"),
    ],
)
def test_every_way_to_be_down_has_a_remedy_of_its_own(life: Lifecycle, helps: str) -> None:
    """What helps one does not help the other."""
    remedies = []
    for case in read():
        view = walked(case).view
        lives = {record.key: record.lifecycle for record in view.records}
        remedies += [
            item.remedy
            for item in view.items
            if item.kind is ItemKind.DOWN and item.key is not None and lives[item.key] is life
        ]
    assert remedies
    assert all(helps in remedy for remedy in remedies)


# ---- what LiteLLM reaches, and llmao does not


def cut_off() -> Walk:
    """Return a walk over a box that llmao reaches no more, and LiteLLM does."""
    it = Walk()
    it.step(
        0,
        fleet={"listings": {"vast": 60}},
        listings={"vast": {"4711": {"address": BOX, "ports": {8001: 40001}}}},
        servers={f"{BOX}:40001": {"max_model_len": 8192}},
        rows=[{"key": SMALL, "at": f"{BOX}:40001"}],
        litellm_answers={SMALL: "up"},
    )
    it.step(60, servers={f"{BOX}:40001": "silent"})
    it.step(300)
    return it


def test_what_only_litellm_reaches_is_one_story() -> None:
    """Callers are served, so nothing is called down, and nothing asks for a removal or a reboot."""
    it = cut_off()
    [found], [record] = it.view.items, it.view.records
    assert (ItemKind.CANNOT_REACH, "") == (found.kind, found.button)
    assert f"Check the network from llmao to {BOX}" in found.remedy
    assert "callers are served, and its route stays" in record.because
    assert (Badge.VLLM_DOWN_LITELLM_UP,) == record.badges
    assert not re.search("[Rr]elease|[Rr]eboot", found.remedy)


def test_a_model_that_litellm_still_reaches_can_be_called() -> None:
    """It is not as it should be, and callers get answers, with the context they had."""
    told = model(cut_off())
    assert (Availability.DEGRADED, 0, 1) == (told.availability, told.healthy, told.reached)
    assert "1 reached by LiteLLM only" == told.summary
    assert 8192 == told.context


def test_a_removal_that_an_admin_released_is_no_longer_served() -> None:
    """Whoever releases it knows that it is dead."""
    it = cut_off()
    action = next(iter(it.plan.actions))
    it.step(301, press={"run": SMALL})
    assert action.key == next(iter(it.plan.actions)).key
    assert not any(record.reached for record in it.view.records)


# ---- orphans


def left_over() -> Walk:
    """Return a walk over one server that works and that nothing intends any more."""
    it = Walk()
    it.step(
        0,
        fleet={"hosts": {}},
        servers={f"{BOX}:8001": "serves"},
        rows=[{"key": SMALL}],
    )
    it.step(300)
    return it


def model(it: Walk) -> ModelView:
    [found] = [each for each in it.view.models if each.name == "small"]
    return found


def test_a_model_that_only_an_orphan_serves_can_be_called() -> None:
    """Callers get answers, so it is not called unavailable; and it says by what it is served."""
    it = left_over()
    small = model(it)
    assert Availability.DEGRADED is small.availability
    assert "nowhere placed, 1 orphan still serving" == small.summary
    assert [SMALL] == [str(key) for key in small.orphans]
    assert small.private
    [item] = it.view.items
    assert "Nothing else serves small: without it its callers get errors." in item.sentence
    assert item.remedy.startswith(f"To keep it, add {BOX} to `fleet.hosts`")


def test_an_orphan_that_died_serves_nobody() -> None:
    """It is no server, and the model is as unavailable as it is."""
    it = left_over()
    it.step(306, servers={f"{BOX}:8001": "closed"})
    it.step(400)
    assert Availability.UNAVAILABLE is model(it).availability
    assert () == model(it).orphans


def test_an_orphan_beside_a_server_that_works_changes_nothing() -> None:
    """The model is as available as what is meant to serve it."""
    it = Walk()
    it.step(
        0,
        fleet={"hosts": {"203.0.113.11": {8001: "small"}}},
        servers={f"{BOX}:8001": "serves", "203.0.113.11:8001": "serves"},
        rows=[{"key": SMALL}],
        writes="work",
    )
    it.step(300)
    assert Availability.AVAILABLE is model(it).availability
    assert "1 healthy, 1 orphan still serving" == model(it).summary


# ---- what nobody named


def test_a_discovered_server_is_told_as_it_is_with_both_ways_to_keep_it() -> None:
    """Once it is in LiteLLM callers have it, and it can be approved as well as written down."""
    it = Walk()
    it.step(
        0,
        fleet={"hosts": {}, "listings": {"vast": 60}},
        listings={"vast": {"4711": {"address": BOX, "ports": {8001: 40001}}}},
        servers={f"{BOX}:40001": "serves"},
        writes="work",
    )
    it.step(60)
    it.step(120)
    [found] = [one for one in it.view.items if one.kind is ItemKind.DISCOVERED]
    [record] = it.view.records
    assert record.row is not None
    assert found.sentence.endswith("Callers get it.")
    assert "approve" == found.button
    assert re.search("Approve.*`fleet.hosts`", found.remedy)
