"""From a rule to an order: what is written where, which row goes, and what a person is told."""

from typing import Any

import pytest
from attrs import evolve
from tests.core.deciding.drafts import DEAD, FACTS, OURS, ROW, draft
from tests.core.deciding.known import SEEN
from tests.core.deciding.scenes import AT_LISTEN, AT_PUBLIC, BOX, NOW, entry, fleet, row

from llmao_core.actions import ActionKind, Order, RowBody
from llmao_core.draft import Draft, draft_action, row_body
from llmao_core.drift import Difference
from llmao_core.facts import AtRow, Drift, Gate
from llmao_core.plan import Action
from llmao_core.records import Kind
from llmao_core.rules import ActionRule
from llmao_core.snapshots import Row

SAYS = "{key}|{model}|{host}|{port}|{life}|{detail}|{drift}|{row}"


def action(kind: ActionKind = ActionKind.DELETE_LITELLM, **changes: Any) -> Action:
    return draft_action(draft(rule=ActionRule("told", SAYS, kind), action=None, **changes))


# ---- the order


def test_a_removal_names_the_row_and_no_body() -> None:
    """Whoever carries it out looks nothing up, and nothing holds it yet."""
    found = action()
    assert Order(ActionKind.DELETE_LITELLM, "litellm", OURS.key, ROW.id) == found.order
    assert "told" == found.rule
    assert found.runs


@pytest.mark.parametrize(
    "kind", [ActionKind.ADD_LITELLM, ActionKind.UPDATE_LITELLM, ActionKind.REPLACE_LITELLM]
)
def test_a_write_is_the_whole_row_where_it_is_reached(kind: ActionKind) -> None:
    """At the dialable URL, with the body of the bearer that is gone by, under the row's id."""
    aim, known = draft().aim, evolve(draft().known, dialable=AT_PUBLIC)
    assert aim is not None
    info = {**OURS.body.model_info, "llmao_hash": "older"}
    older = evolve(OURS, body=evolve(OURS.body, model_info=info))
    adopted = entry(None, evolve(ROW, id="adopted"))
    found = action(kind, aim=evolve(aim, deployment=older), known=known, entry=adopted)
    assert row_body(older, older.body, AT_PUBLIC, "adopted") == found.order.body
    assert "adopted" == found.order.target


def test_what_has_no_row_is_written_under_its_own_id() -> None:
    """With or without an aim; a foreign row has neither id nor body."""
    for changes in ({}, {"aim": None}):
        found = action(ActionKind.ADD_LITELLM, entry=entry(), **changes)
        assert OURS.litellm_id == found.order.target
        assert found.order.body is not None
    foreign = action(ActionKind.UPDATE_LITELLM, entry=entry(deployment=None), aim=None)
    assert ("", None) == (foreign.order.target, foreign.order.body)


def test_the_body_of_a_box_is_dialled_with_v1() -> None:
    """And it is stamped with the root; a commercial row with its provider's."""
    expected = RowBody(
        OURS.body.model_name,
        f"{AT_PUBLIC}/v1",
        OURS.body.litellm_params,
        {**OURS.body.model_info, "id": "an id", "asf_api_base": AT_PUBLIC},
        OURS.body.api_key,
    )
    assert OURS.body.api_key is not None
    assert expected == row_body(OURS, OURS.body, AT_PUBLIC, "an id")
    sold = fleet(commercial=["gpt"]).deployments[-1]
    body = row_body(sold, sold.body, "", sold.litellm_id)
    assert sold.key.base == body.model_info["asf_api_base"]
    assert sold.api_base == body.api_base


# ---- which row goes


A, B, C = (evolve(row(id=one), base=f"http://203.0.113.9{one}") for one in "123")
DERIVED = row()


@pytest.mark.parametrize(
    ("rows", "dialable", "goes"),
    [
        ((DERIVED, evolve(A, id="0")), A.base, "0"),
        ((DERIVED, evolve(A, id="zzz")), A.base, "zzz"),
        ((C, A, B), "http://elsewhere", "2"),
        ((B, A), A.base, "2"),
        ((A, B), B.base, "1"),
        ((A, B, C), A.base, "2"),
    ],
)
def test_of_two_rows_the_one_in_use_stays(rows: tuple[Row, ...], dialable: str, goes: str) -> None:
    """The derived id, else the row at the dialable URL, else the first; and one goes at a time."""
    found = action(
        ActionKind.DELETE_DUPLICATE,
        entry=entry(None, *rows),
        known=evolve(draft().known, dialable=dialable),
    )
    assert goes == found.order.target
    orphan = entry(None, A, B, deployment=None, kind=Kind.ORPHAN)
    assert "2" == action(ActionKind.DELETE_DUPLICATE, entry=orphan, aim=None).order.target


def test_a_copy_goes_where_one_row_is_ours() -> None:
    """Of several rows of ours one goes first, and only a duplicate's order is for the copy."""
    copy = Row("a copy", "small", AT_LISTEN)
    beside = entry(None, DERIVED, copies=(copy,))
    assert "a copy" == action(ActionKind.DELETE_DUPLICATE, entry=beside).order.target
    several = entry(None, DERIVED, A, copies=(copy,))
    assert "1" == action(ActionKind.DELETE_DUPLICATE, entry=several).order.target
    assert DERIVED.id == action(entry=beside).order.target


# ---- what a person is told


def test_the_sentence_of_a_rule_knows_the_case() -> None:
    """Every word it may use has what was seen of this key."""
    found = action(difference=Difference(Drift.DIFFERS, ("rpm", "tpm")))
    told = f"{OURS.key}|small|{BOX}|8001|{draft().life.value}|/health: timed out|rpm, tpm|{ROW.id}"
    assert told == found.reason


def test_what_is_not_there_is_left_out() -> None:
    """A foreign row has no host, what was never probed no detail, what has no row no id."""
    found = action(entry=entry(deployment=None), aim=None, row_seen=None)
    assert f"{OURS.key}|small|||{draft().life.value}|||" == found.reason
    assert not any("address" in line or "LiteLLM id" in line for line in found.evidence)


def evidence(**changes: Any) -> tuple[str, ...]:
    return action(**changes).evidence[len(FACTS) :]


def test_the_evidence_is_all_that_decided() -> None:
    """Each fact by its name, then what probes saw at either address, then the row."""
    found = action().evidence
    assert tuple(f"{one}: {value.value}" for one, value in FACTS._asdict().items()) == found[:9]
    expected = (
        "at the row's address: failed, 3 failures in a row",
        "at the dialable URL: ok",
        f"LiteLLM id: {ROW.id}",
    )
    assert expected == found[9:]


def test_one_address_is_told_once() -> None:
    """Where the row stands at the dialable URL, or nothing was seen there."""
    aim = draft().aim
    assert aim is not None
    same, unseen = evolve(aim, seen=DEAD), evolve(aim, seen=None)
    expected = ("at the row's address: failed, 3 failures in a row", f"LiteLLM id: {ROW.id}")
    for one in (same, unseen, None):
        assert expected == evidence(aim=one)


# ---- the digest


def digest(**changes: Any) -> str:
    return action(**changes).digest


def test_a_digest_is_short_and_of_the_facts() -> None:
    """Counters may move while somebody reads: their press is still for what they were shown."""
    assert 16 == len(digest())
    later = evolve(DEAD, fails=9, probed_at=NOW, detail="/health: HTTP 503")
    assert digest() == digest(row_seen=later, difference=Difference())


@pytest.mark.parametrize(
    "changed",
    [
        {"facts": FACTS._replace(at_row=AtRow.REFUSED)},
        {"facts": FACTS._replace(gate=Gate.LEAVING)},
        {"entry": entry(None, evolve(ROW, id="another"))},
        {"entry": entry(None, ROW, key=evolve(OURS.key, model="large"))},
        {"known": evolve(draft().known, instance_id="4712")},
    ],
    ids=["a fact", "another fact", "a row", "a key", "an instance"],
)
def test_a_digest_changes_with_what_it_rests_on(changed: dict[str, Any]) -> None:
    """A fact, the row, the key, the instance or the rule."""
    assert digest() != digest(**changed)


def test_a_digest_is_of_the_rule() -> None:
    """The same facts may be a reason for something else."""
    rule = ActionRule("another", SAYS, ActionKind.DELETE_LITELLM)
    assert digest() != draft_action(draft(rule=rule)).digest


def test_a_draft_knows_its_row() -> None:
    """The first one is the one to manage."""
    several: Draft = draft(entry=entry(None, A, B), row_seen=SEEN)
    assert A == several.row
    assert draft(entry=entry()).row is None
    assert AtRow.FAILED is several.at_row
