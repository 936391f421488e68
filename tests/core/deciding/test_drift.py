"""How a row differs from what llmao writes: what is compared, and what LiteLLM cannot show."""

from collections.abc import Mapping
from typing import Any

import pytest
from attrs import evolve
from tests.core.deciding.scenes import fleet, row

from llmao_core.drift import EQUAL, Difference, compare, tried
from llmao_core.facts import Drift
from llmao_core.records import Badge
from llmao_core.snapshots import Row

OURS = fleet().deployments[0]
BODY = OURS.body
ROW = row()


def with_part(part: str, values: dict[str, Any]) -> Row:
    """Return the row with other params or other info."""
    return evolve(ROW, params=values) if part == "params" else evolve(ROW, info=values)


def difference(one: Row = ROW, **body: Any) -> Difference:
    return compare(one, OURS, evolve(BODY, **body))


def without(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {one: value for one, value in values.items() if one != name}


def differs(*fields: str, badge: Badge) -> Difference:
    return Difference(Drift.DIFFERS, fields, (badge,))


def test_a_row_as_it_was_written_is_equal() -> None:
    """Whatever people added beside what llmao wrote is theirs."""
    added = evolve(ROW, params={**ROW.params, "rpm": 5}, info={**ROW.info, "note": "x"})
    assert EQUAL == difference()
    assert EQUAL == difference(added)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"fleet": ""}, "stamp"),
        ({"llmao_key": "http://203.0.113.11:8001"}, "stamp"),
        ({"model_name": "large"}, "model_name"),
    ],
)
def test_a_row_without_our_mark_is_unstamped(changes: dict[str, Any], field: str) -> None:
    """Its hash is none of ours then, and says nothing more."""
    one = evolve(ROW, hash="", **changes)
    assert differs(field, badge=Badge.UNSTAMPED) == difference(one)


def test_a_blocked_row_differs() -> None:
    """LiteLLM routes nothing to it, though all else is as it was written."""
    one = evolve(ROW, blocked=True)
    assert differs("blocked", badge=Badge.BLOCKED) == difference(one)
    assert differs("blocked", badge=Badge.BLOCKED) == difference(evolve(one, hash="older"))


def test_a_row_that_is_not_live_differs() -> None:
    """Only LiteLLM's database knows it."""
    assert differs("not live", badge=Badge.NOT_LIVE) == difference(evolve(ROW, live=False))


def test_all_that_is_wrong_is_told() -> None:
    """In one order, so that the same row is the same difference."""
    one = evolve(
        ROW, fleet="", blocked=True, live=False, params={**ROW.params, "model": "hosted_vllm/x"}
    )
    expected = Difference(
        Drift.DIFFERS,
        ("stamp", "blocked", "model", "not live"),
        (Badge.UNSTAMPED, Badge.BLOCKED, Badge.BODY_MISMATCH, Badge.NOT_LIVE),
    )
    assert expected == difference(one)


def test_a_hash_tells_what_does_not_show() -> None:
    """A key is hidden: that another one was written shows in the hash alone."""
    one = evolve(ROW, hash="older")
    assert differs("llmao_hash", badge=Badge.BODY_MISMATCH) == difference(one)
    edited = evolve(one, params={**ROW.params, "model": "hosted_vllm/x"})
    assert differs("model", badge=Badge.BODY_MISMATCH) == difference(edited)


@pytest.mark.parametrize("name", ["rpm", "api_version"])
def test_each_field_that_was_written_is_compared(name: str) -> None:
    """Changed or missing, in parameters and in model info; each by its own name."""
    for part, values in (("params", ROW.params), ("info", ROW.info)):
        which = "litellm_params" if part == "params" else "model_info"
        written = {which: {name: 7, **getattr(BODY, which), "last": 1}}
        for there in ({name: 8, "last": 1}, {"last": 1}):
            one = with_part(part, {**values, **there})
            assert (name,) == difference(one, **written).fields
        right = with_part(part, {**values, name: 7, "last": 2})
        assert ("last",) == difference(right, **written).fields


def test_nothing_was_written_where_it_is_null() -> None:
    """LiteLLM leaves a null out, or shows its own default in its place."""
    for which, part in (("litellm_params", "params"), ("model_info", "info")):
        written = {which: {"rpm": None, "last": 1, **getattr(BODY, which)}}
        one = with_part(part, {**getattr(ROW, part), "rpm": 4})
        assert ("last",) == difference(one, **written).fields


@pytest.mark.parametrize("name", ["api_key", "AWS_Secret_Name", "auth_header", "tenancy_id"])
def test_what_litellm_hides_is_not_missed(name: str) -> None:
    """For its name alone; where it shows such a field after all, it is compared."""
    for which, part in (("litellm_params", "params"), ("model_info", "info")):
        written = {which: {name: "x", **getattr(BODY, which), "last": 1}}
        assert ("last",) == difference(ROW, **written).fields
        shown = with_part(part, {**getattr(ROW, part), name: "y", "last": 1})
        assert (name,) == difference(shown, **written).fields


@pytest.mark.parametrize("name", ["id", "llmao_hash", "llmao_key", "llmao_fleet", "llmao_fields"])
def test_the_stamp_is_compared_by_itself(name: str) -> None:
    """An adopted row keeps its id, and the hash has its own comparison."""
    written = {"model_info": {name: "other", **without(BODY.model_info, name), "last": 1}}
    assert ("last",) == difference(ROW, **written).fields


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (["litellm_params.z", "litellm_params.a"], ("litellm_params.a", "litellm_params.z")),
        (["litellm_params.a", 7], ("7", "litellm_params.a")),
        ("litellm_params.a", ("blocked",)),
        (None, ("blocked",)),
        ([], ("blocked",)),
    ],
)
def test_a_field_that_is_no_longer_written_must_go(
    written: object, expected: tuple[str, ...]
) -> None:
    """No update takes it away; a list that is none of ours says nothing."""
    known = sorted(BODY.fields)
    fields = [*known, *written] if isinstance(written, list) else written
    one = evolve(ROW, blocked=True, info={**ROW.info, "llmao_fields": fields})
    found = difference(one)
    assert expected == found.fields
    assert (Badge.BLOCKED,) == found.badges
    must_go = expected != ("blocked",)
    assert (Drift.MUST_GO if must_go else Drift.DIFFERS) is found.drift


@pytest.mark.parametrize(
    ("live", "kept_wrong", "anew"), [(False, 2, True), (False, 1, False), (True, 2, False)]
)
def test_a_row_that_does_not_come_alive_is_made_anew(
    live: bool, kept_wrong: int, anew: bool
) -> None:
    """After two writes that LiteLLM confirmed."""
    found = differs("not live", badge=Badge.NOT_LIVE)
    expected = evolve(found, drift=Drift.MUST_GO) if anew else found
    assert expected == tried(found, evolve(ROW, live=live), kept_wrong)
