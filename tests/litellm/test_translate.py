"""What LiteLLM's answers are read as; the answers are cut from recorded ones."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.litellm.helpers import ID, NOW, body

from llmao_core.errors import Garbled
from llmao_core.secret import Secret
from llmao_litellm import translate

FOREIGN = "1f3e186e-0000-4000-a000-000000000001"


def entry(row_id: Any = ID, **more: Any) -> dict[str, Any]:
    """Return one entry of `/model/info` as recorded."""
    info = {"id": row_id, "db_model": True, "blocked": False, "max_tokens": None, "mode": None}
    params = {"api_base": "http://127.0.0.2:8001/v1/", "model": "hosted_vllm/qwen3", "rpm": None}
    return {
        "model_name": "qwen3",
        "litellm_params": params | more.pop("params", {}),
        "model_info": info | more.pop("info", {}),
        **more,
    }


def listing(*entries: Any) -> bytes:
    return json.dumps({"data": entries}).encode()


def read(**more: Any) -> Any:
    return translate.rows(listing(entry(**more)))[0]


# ---- rows


def test_padding_nulls_are_dropped() -> None:
    """LiteLLM pads each row with some 156 nulls; none of them says anything."""
    row = read()
    assert {"id", "db_model", "blocked"} == set(row.info)
    assert {"api_base", "model"} == set(row.params)


def test_a_nested_null_is_kept() -> None:
    """Only LiteLLM's own padding goes: what a recipe holds is stored exactly."""
    assert {"null": None} == read(info={"vllm": {"null": None}}).info["vllm"]


def test_base_is_normalised() -> None:
    assert "http://127.0.0.2:8001" == read().base


def test_stamp_is_read() -> None:
    stamp = {
        "llmao_key": "http://127.0.0.2:8001",
        "llmao_fleet": "main",
        "llmao_hash": "abc",
        "asf_api_base": "http://127.0.0.2:8001/",
    }
    row = read(info=stamp)
    expected = ("http://127.0.0.2:8001", "main", "abc", "http://127.0.0.2:8001")
    assert expected == (row.llmao_key, row.fleet, row.hash, row.stamped_base)


@pytest.mark.parametrize("nonsense", [5, {}, [], True, None])
def test_a_stamp_that_is_no_text_is_no_stamp(nonsense: Any) -> None:
    """Anybody may write anything into model_info; it must not stop the read."""
    row = read(row_id=FOREIGN, info={"llmao_key": nonsense, "asf_api_base": nonsense})
    assert ("", "") == (row.llmao_key, row.stamped_base)


def test_a_yaml_row_is_not_in_the_database() -> None:
    assert not read(info={"db_model": False}).in_db


def test_a_blocked_row_says_so() -> None:
    assert read(info={"blocked": True}).blocked


@pytest.mark.parametrize(
    "hidden",
    [
        {"my_token": "***"},
        {"password": "**"},
        {"extra_headers": {"Authorization": "Bear** abc"}},
        {"aws-access-key": "x"},
    ],
)
def test_masked_params_are_dropped(hidden: dict[str, Any]) -> None:
    """What LiteLLM masks by name cannot be compared, so the row does not show it."""
    assert {"api_base", "model"} == set(read(params=hidden).params)


@pytest.mark.parametrize("shown", ["max_tokens", "input_cost_per_token", "order", "custom_lp"])
def test_params_that_only_look_secret_are_kept(shown: str) -> None:
    assert 1 == read(params={shown: 1}).params[shown]


def test_secrets_in_model_info_are_dropped() -> None:
    """LiteLLM shows all of model_info to anybody; llmao does not pass it on."""
    row = read(row_id=FOREIGN, info={"api_key": "sk-foreign", "llmao_key": "k", "key": "m"})
    assert "sk-foreign" not in repr(row)
    assert ("k", "m") == (row.info["llmao_key"], row.info["key"])


def test_an_alias_is_not_a_second_row() -> None:
    """`model_group_alias` repeats a row's id under the alias, after the row itself."""
    rows = translate.rows(listing(entry(), entry(model_name="alias")))
    assert ["qwen3"] == [row.model_name for row in rows]


def test_a_wildcard_is_one_row() -> None:
    """A wildcard row is listed once per model it stands for, all under one id."""
    names = ["openai/a", "openai/b", "openai/c"]
    rows = translate.rows(listing(*(entry(FOREIGN, model_name=name) for name in names)))
    assert 1 == len(rows)


def test_one_id_with_two_bodies_is_garbled_if_it_may_be_ours() -> None:
    two = listing(entry(), entry(params={"api_base": "http://127.0.0.9/v1"}))
    with pytest.raises(Garbled, match="entry 1"):
        translate.rows(two)


@pytest.mark.parametrize(
    "entries",
    [
        ["text"],
        [None],
        [{}],
        [{"model_info": []}],
        [{"model_info": {}}],
        [entry(5)],
        [entry("")],
        [entry(model_name=None)],
        [entry(litellm_params=[])],
        [entry(FOREIGN, info={"llmao_fleet": "main"}, model_name=5)],
    ],
)
def test_a_row_that_may_be_ours_must_be_whole(entries: list[Any]) -> None:
    """A row of ours that is left out looks like one that is gone: the read fails instead."""
    with pytest.raises(Garbled):
        translate.rows(listing(entry(FOREIGN), *entries))


def test_a_broken_row_of_somebody_else_stops_nobody() -> None:
    """Its id and its missing mark prove that it is not ours; it is listed with what it has."""
    rows = translate.rows(listing(entry(), entry(FOREIGN, model_name=5, litellm_params="x")))
    assert [(ID, "qwen3"), (FOREIGN, "")] == [(row.id, row.model_name) for row in rows]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not JSON"),
        (b"<html>", "web page"),
        (b'{"data":[{"model_name":"q', "half"),
        (b"[]", "not an object"),
        (b"null", "not an object"),
        (b'{"data":{}}', "no list"),
        (b'{"error":{"message":"it broke"}}', "it broke"),
        (b"[" * 100_000, "not JSON"),
        (b"\xff\xfe", "not JSON"),
    ],
)
def test_an_odd_answer_is_garbled_and_says_why(content: bytes, words: str) -> None:
    with pytest.raises(Garbled, match=words):
        translate.rows(content)


def test_half_a_character_does_no_harm() -> None:
    """A lone surrogate could be written to no file; it becomes a question mark."""
    row = translate.rows(listing(entry(FOREIGN, info={"note": "\ud800"})))[0]
    assert "?" == row.info["note"]


# ---- health


def saved(**more: Any) -> dict[str, translate.Check]:
    one = {
        "model_id": ID,
        "model_name": "qwen3",
        "status": "healthy",
        "healthy_count": 1,
        "unhealthy_count": 0,
        "response_time_ms": 3000.0,
        "checked_by": "default_user_id",
        "checked_at": "2027-01-15T08:00:00.500000+00:00",
    }
    return translate.latest_checks(json.dumps({"latest_health_checks": {ID: one | more}}).encode())


def test_a_saved_check_is_dated_from_its_beginning() -> None:
    """A check that began before a question does not answer it, so its length is taken off."""
    assert NOW + 0.5 - 3.0 == saved()[ID].checked_at


def test_a_background_check_may_have_begun_a_minute_earlier() -> None:
    """Its response time is not the check's own."""
    assert NOW + 0.5 - 60 == saved(checked_by="background_health_check")[ID].checked_at


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have this machine live eight hours east of Greenwich."""
    monkeypatch.setenv("TZ", "UTC-8")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("elsewhere")
def test_a_time_without_a_zone_is_utc() -> None:
    """Wherever llmao runs: LiteLLM's database keeps UTC, and an old check must not look new."""
    assert NOW - 3 == saved(checked_at="2027-01-15T08:00:00")[ID].checked_at


def test_a_pool_that_is_half_healthy_says_nothing_of_a_member() -> None:
    """LiteLLM's background check counts all members of a pool together under each of them."""
    assert {} == saved(healthy_count=1, unhealthy_count=1)


@pytest.mark.parametrize(
    "odd",
    [
        {"model_id": None},
        {"model_id": "another"},
        {"status": "maybe"},
        {"checked_at": None},
        {"checked_at": "yesterday"},
        {"checked_at": 5},
    ],
)
def test_an_odd_saved_check_is_no_opinion(odd: dict[str, Any]) -> None:
    assert {} == saved(**odd)


def test_a_check_from_the_future_is_one_from_now() -> None:
    """The database's clock may run ahead; that must not make a check newer than a question."""
    assert NOW - 100 == translate.opinions(saved(), NOW - 100)[ID].checked_at


def test_a_row_in_both_lists_is_unknown() -> None:
    both = {"healthy_endpoints": [{"model_id": "a"}], "unhealthy_endpoints": [{"model_id": "a"}]}
    assert {} == translate.verdicts(json.dumps(both).encode())


def test_a_health_error_is_its_first_line() -> None:
    error = "litellm.InternalServerError: InternalServerError: Hosted_vllmException - no\nstack …"
    down = {"healthy_endpoints": [], "unhealthy_endpoints": [{"model_id": "a", "error": error}]}
    assert {"a": (False, "no")} == translate.verdicts(json.dumps(down).encode())


# ---- writes


def test_a_null_is_not_written() -> None:
    """LiteLLM takes a null for "leave it as it is"; it would never read back."""
    assert "rpm" not in translate.create_body(body(rpm=None))["litellm_params"]


def test_an_update_repeats_the_flags_the_row_has() -> None:
    """LiteLLM resets every flag that an update does not repeat."""
    row = read(params={"use_in_pass_through": True, "use_xai_oauth": False})
    params = translate.update_body(body(), ID, row)["litellm_params"]
    assert {"use_in_pass_through": True} == {f: params[f] for f in translate.FLAGS if f in params}


def test_an_update_sends_the_flags_of_the_body_over_the_rows() -> None:
    row = read(params={"use_in_pass_through": True})
    change = translate.update_body(body(use_in_pass_through=False), ID, row)
    assert change["litellm_params"]["use_in_pass_through"] is False


def test_an_update_names_the_row_it_changes() -> None:
    """Without an id LiteLLM makes one up; an adopted row keeps its own."""
    assert FOREIGN == translate.update_body(body(), FOREIGN, read())["model_info"]["id"]


# ---- words


@pytest.mark.parametrize(
    "secret",
    [
        "Bearer abc.def-ghi",
        "sk-vllm-0123456789",
        "rpa_ABCDEF123456",
        "0123456789abcdef0123456789abcdef",
        "api_key=hunter22",
        '"password": "hunter22"',
        "http://user:hunter22@host/",
    ],
)
def test_what_looks_like_a_secret_is_masked(secret: str) -> None:
    told = translate.masked(f"it said {secret} and stopped")
    left = [p for p in ("abc.def", "0123456789", "ABCDEF", "hunter22") if p in told]
    assert [] == left


def test_our_own_ids_are_not_masked() -> None:
    assert ID in translate.masked(f"row {ID} is gone")


def test_a_known_secret_is_masked_wherever_it_stands() -> None:
    assert "a***b" == translate.masked("aopen sesameb", [Secret("open sesame")])


def test_an_excerpt_is_short_and_on_one_line() -> None:
    told = translate.masked("word\n\x1b[31m" * 200)
    assert len(told) <= 200
    assert told.isprintable()


@pytest.mark.parametrize(
    "content",
    [
        b'{"error":{"message":"no"}}',
        b'{"error":"no"}',
        b'{"detail":"no"}',
        b'{"detail":{"error":"no"}}',
        b'{"detail":[{"loc":["body"],"msg":"no"}]}',
    ],
)
def test_error_words_are_found_where_litellm_puts_them(content: bytes) -> None:
    assert "no" == translate.error_text(content)
