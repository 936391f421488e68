"""Every row of the decision table holds, and the table is complete."""

import re
from functools import cache

import pytest

from llmao_core.records import Badge, ItemKind
from llmao_core.rules import ACTIONS, LIFECYCLES
from llmao_core.testing.cases import Case, read, walked
from llmao_core.testing.render import COMMAND, page, stale
from llmao_core.testing.walk import Walk

CASES = read()

# Names under which the situations were agreed before any code was written.
AGREED = """
    no-config-fetch-yet loading stalled-in-litellm healthy-absent fail-under-threshold
    healthy-present port-remap litellm-health-skew unhealthy-in-litellm listing-gap-serving
    unlisted-present unlisted-absent orphan-early orphan-persisted orphan-at-listen-port hand-edit
    new-rental-same-address commercial-missing commercial-unhealthy commercial-never-unlisted
    no-gpu-source one-gpu-source never-placed discovered-healthy inventory-stale deployments-stale
    restart-orphans other-provider-outage two-names-one-provider-model legacy-pair sibling-ports
    restart-probe-ok restart-probe-failed rental-died-before-restart rejected answers-without-a-key
    foreign wrong-model rebooting-box announced-restart shared-address-resolved
    shared-address-ambiguous renamed-host duplicate-rows unstamped-row foreign-row-untouched
    other-fleet-untouched yaml-row-beside saved-but-not-live pending-write probe-stale-holds
    garbled-holds busy hung witness-missing witness-litellm-reaches witness-single-box brake-on
    emptied-hosts new-salt port-changed-model flapping blocked-by-hand drained runpod-pod-id
    revision-behind pool-uneven oversized commercial-key-rotated
"""


@cache
def walk(name: str) -> Walk:
    return walked(next(case for case in CASES if case.name == name))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_row(case: Case) -> None:
    """What a row expects is the case at its end, and nothing else is."""
    assert case.expected() == case.happened(walk(case.name))


def test_agreed_rows_are_there() -> None:
    """No situation that was agreed on has been lost."""
    assert set() == set(AGREED.split()) - {case.name for case in CASES}


def test_every_rule_decides() -> None:
    """Every rule of both tables is the deciding one in at least one row."""
    records = [record for case in CASES for record in walk(case.name).view.records]
    rules = {rule.name for rule in LIFECYCLES} | {rule.name for rule in ACTIONS}
    assert set() == rules - {name for one in records for name in (one.rule, one.action_rule)}


def test_every_badge_shows() -> None:
    """Every badge is seen in at least one row."""
    shown = {
        badge for case in CASES for one in walk(case.name).view.records for badge in one.badges
    }
    assert set(Badge) == shown


def test_every_item_kind_shows() -> None:
    """Every kind of attention item is seen in at least one row."""
    shown = {item.kind for case in CASES for item in walk(case.name).view.items}
    assert set(ItemKind) == shown


def test_sentences_are_filled_in() -> None:
    """No reason or item that a person reads has a gap or an empty detail in it."""
    for case in CASES:
        view, plan = walk(case.name).view, walk(case.name).plan
        for text in (*(one.reason for one in plan.actions), *(one.sentence for one in view.items)):
            assert not re.search(r"[{}]|: \.|  |\s$", text), f"{case.name}: {text!r}"


def test_page_is_fresh() -> None:
    """docs/decision-table.md says what the rules and the rows say."""
    difference = stale(page([(case, walk(case.name)) for case in CASES]))
    assert not difference, f"{difference}\n\nrun `{COMMAND}`"
