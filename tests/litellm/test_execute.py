"""Writes to LiteLLM through the plugin: what becomes of a row, however the answer goes astray."""

import asyncio
import json

import httpx
import pytest
from tests.litellm.helpers import (
    BEARER,
    ID,
    NOW,
    Hands,
    body,
    failing,
    order,
    reached,
    request,
    saying,
)

from llmao_core.actions import ActionKind, Outcome, OutcomeKind, RowBody
from llmao_core.errors import LlmaoError, NotYet, OutcomeUnknown, Refused
from llmao_core.hooks import FetchRequest
from llmao_core.keys import normalise_base
from llmao_litellm import plugin
from llmao_litellm.fake import FakeLiteLLM, Speeds
from llmao_litellm.fake_http import Reply, detail, error, ok

ADD = ActionKind.ADD_LITELLM
UPDATE = ActionKind.UPDATE_LITELLM
REPLACE = ActionKind.REPLACE_LITELLM
DELETE = ActionKind.DELETE_LITELLM
MOVED = "http://127.0.0.3:8001"
DONE, ALREADY, FAILED = OutcomeKind.DONE, OutcomeKind.ALREADY, OutcomeKind.FAILED


async def run(
    http: httpx.AsyncClient, kind: ActionKind, written: RowBody | None = None, target: str = ID
) -> Outcome:
    return await plugin.llmao_execute(order(kind, written, target), request(), http, NOW)


def paths(proxy: FakeLiteLLM) -> list[str]:
    return [f"{call.method} {call.path}" for call in proxy.log]


# ---- add


async def test_an_add_is_one_row_under_our_id(proxy: FakeLiteLLM, http: httpx.AsyncClient) -> None:
    assert Outcome(DONE) == await run(http, ADD, body())
    [row] = proxy.truth().values()
    assert (ID, BEARER) == (row.id, row.params["api_key"])
    assert "http://127.0.0.2:8001/v1" == row.params["api_base"]
    assert ["POST /model/new"] == paths(proxy)


async def test_an_add_that_is_repeated_is_one_row(
    proxy: FakeLiteLLM, http: httpx.AsyncClient
) -> None:
    """A second create of an id answers 500 with the words of a dead database."""
    await run(http, ADD, body())
    assert DONE == (await run(http, ADD, body())).kind
    assert 1 == len(proxy.truth())


async def test_twenty_adds_at_once_are_one_row(proxy: FakeLiteLLM, http: httpx.AsyncClient) -> None:
    """Nineteen of them lose and hear 500; the row is there as written for all."""
    ends = await asyncio.gather(*(run(http, ADD, body()) for _ in range(20)))
    assert [DONE] * 20 == [end.kind for end in ends]
    assert 1 == len(proxy.truth())


async def test_saved_yet_answered_500(proxy: FakeLiteLLM, http: httpx.AsyncClient) -> None:
    """litellm#38556: a create was answered 500 although the row was stored."""
    proxy.switches.save_then_500 = True
    outcome = await run(http, ADD, body())
    assert (DONE, 1) == (outcome.kind, len(proxy.truth()))
    assert "500" in outcome.said


async def test_an_answer_lost_after_the_write_makes_no_second_row(
    proxy: FakeLiteLLM, http: httpx.AsyncClient
) -> None:
    """litellm#3160: scripts that repeat an add whose answer they missed make duplicates."""
    proxy.switches.lose_answers = 1
    assert DONE == (await run(http, ADD, body())).kind
    assert DONE == (await run(http, ADD, body())).kind
    assert 1 == len(proxy.truth())


async def test_a_lost_answer_is_looked_up_over_a_real_connection_too(hands: Hands) -> None:
    proxy = FakeLiteLLM(hands)
    proxy.switches.lose_answers = 1
    async with proxy.serve() as url, httpx.AsyncClient(trust_env=False) as http:
        asked = FetchRequest("litellm", url, request().api_key)
        outcome = await plugin.llmao_execute(order(ADD, body()), asked, http, NOW)
    assert (DONE, 1) == (outcome.kind, len(proxy.truth()))


async def test_saved_but_not_live_is_said(proxy: FakeLiteLLM, http: httpx.AsyncClient) -> None:
    """The row is stored, no router serves it, and `/model/info` does not list it."""
    proxy.switches.not_live = True
    outcome = await run(http, ADD, body())
    assert FAILED == outcome.kind
    assert outcome.said.startswith("saved_not_live: ")
    assert 1 == len(proxy.truth())


async def test_an_id_that_holds_another_body_is_not_taken_for_ours(
    proxy: FakeLiteLLM, http: httpx.AsyncClient
) -> None:
    """The address counts too: it is in no hash."""
    await run(http, ADD, body(MOVED))
    with pytest.raises(NotYet, match="another body"):
        await run(http, ADD, body())
    assert normalise_base(MOVED) == proxy.truth()[ID].info["asf_api_base"]


async def test_a_proxy_that_ignores_our_id_is_not_asked_again(
    proxy: FakeLiteLLM, http: httpx.AsyncClient
) -> None:
    """Each try would be one more row."""
    await run(http, ADD, body())
    proxy.switches.duplicate_on_retry = True
    with pytest.raises(Refused, match="another id"):
        await run(http, ADD, body())


async def test_a_dead_database_is_no_refusal(proxy: FakeLiteLLM, http: httpx.AsyncClient) -> None:
    proxy.switches.dead_database = True
    with pytest.raises((NotYet, OutcomeUnknown)):
        await run(http, ADD, body())


async def test_a_400_of_a_dead_database_is_no_refusal(
    proxy: FakeLiteLLM, http: httpx.AsyncClient
) -> None:
    proxy.answer_next = [("/model/new", error(400, "Can't reach database server at `db`"))]
    with pytest.raises(NotYet, match="database server"):
        await run(http, ADD, body())


async def test_an_address_changed_by_hand_is_another_body(
    proxy: FakeLiteLLM, http: httpx.AsyncClient
) -> None:
    await run(http, ADD, body())
    proxy.edit(ID, params={"api_base": f"{MOVED}/v1"})
    with pytest.raises(NotYet, match="another body"):
        await run(http, ADD, body())


async def test_no_answer_and_no_row_is_unknown(proxy: FakeLiteLLM, http: httpx.AsyncClient) -> None:
    """A create may still stand in LiteLLM's queue: the last of 200 took 93 s."""
    proxy.answer_next = [("/model/new", Reply(502, b"<html>bad gateway</html>"))]
    with pytest.raises(OutcomeUnknown, match="does not show it yet"):
        await run(http, ADD, body())


async def test_an_answer_that_is_not_litellms_is_looked_up(
    proxy: FakeLiteLLM, http: httpx.AsyncClient
) -> None:
    proxy.answer_next = [("/model/new", Reply(200, b"<html>sign in</html>"))]
    with pytest.raises(OutcomeUnknown):
        await run(http, ADD, body())


async def test_a_body_litellm_cannot_take_is_refused(
    proxy: FakeLiteLLM, http: httpx.AsyncClient
) -> None:
    proxy.answer_next = [("/model/new", detail(422, [{"msg": "Field required"}]))]
    with pytest.raises(Refused, match="Field required"):
        await run(http, ADD, body())


async def test_a_write_never_sent_has_not_happened() -> None:
    async with failing(httpx.ConnectError) as http:
        with pytest.raises(NotYet, match=r"^litellm_unreachable: "):
            await run(http, ADD, body())


async def test_a_write_without_an_answer_may_have_happened() -> None:
    async with failing(httpx.ReadTimeout) as http:
        with pytest.raises(OutcomeUnknown):
            await run(http, ADD, body())


# ---- whoever may not write


@pytest.mark.parametrize("kind", [ADD, UPDATE, REPLACE, DELETE])
@pytest.mark.parametrize("role", ["", "internal_user"])
async def test_a_key_that_may_not_write_is_refused_with_a_remedy(
    proxy: FakeLiteLLM, http: httpx.AsyncClient, kind: ActionKind, role: str
) -> None:
    proxy.plant("qwen3", {"model": "hosted_vllm/qwen3"}, {"id": ID})
    if role:
        proxy.keys["sk-other"] = role
    asked = request(key="sk-other")
    written = None if kind.removes else body()
    with pytest.raises((Refused, NotYet), match=r"litellm_unauthorized: .*proxy_admin"):
        await plugin.llmao_execute(order(kind, written), asked, http, NOW)
    assert [ID] == list(proxy.truth())


async def test_a_proxy_admin_may_do_everything(proxy: FakeLiteLLM, http: httpx.AsyncClient) -> None:
    proxy.keys["sk-svc"] = "proxy_admin"
    asked = request(key="sk-svc")
    for kind in (ADD, UPDATE, REPLACE, DELETE):
        written = None if kind.removes else body()
        assert (await plugin.llmao_execute(order(kind, written), asked, http, NOW)).good


@pytest.mark.parametrize("switch", ["no_database", "store_models"])
@pytest.mark.parametrize("kind", [ADD, DELETE])
async def test_a_proxy_that_stores_no_models_says_what_to_start_it_with(
    proxy: FakeLiteLLM, http: httpx.AsyncClient, kind: ActionKind, switch: str
) -> None:
    setattr(proxy.switches, switch, switch == "no_database")
    with pytest.raises(Refused, match=r"^litellm_no_database: .*STORE_MODEL_IN_DB"):
        await run(http, kind, None if kind.removes else body())


async def test_a_redirect_is_refused() -> None:
    async with saying(307, b"", location="https://elsewhere/") as http:
        with pytest.raises(Refused, match=r"litellm\.base_url"):
            await run(http, ADD, body())


async def test_too_many_requests_is_not_yet() -> None:
    async with saying(429, b"", **{"retry-after": "3"}) as http:
        with pytest.raises(NotYet) as caught:
            await run(http, DELETE)
    assert 3 == caught.value.retry_after_s


# ---- update


@pytest.fixture
async def added(proxy: FakeLiteLLM, http: httpx.AsyncClient) -> FakeLiteLLM:
    await run(http, ADD, body())
    proxy.log.clear()
    return proxy


async def test_an_update_moves_the_row_and_keeps_what_it_does_not_write(
    added: FakeLiteLLM, http: httpx.AsyncClient
) -> None:
    added.edit(ID, info={"note": "by hand"})
    assert Outcome(DONE) == await run(http, UPDATE, body(MOVED))
    row = added.truth()[ID]
    assert (f"{MOVED}/v1", MOVED) == (row.params["api_base"], row.info["asf_api_base"])
    assert ("by hand", BEARER, ID) == (row.info["note"], row.params["api_key"], row.info["id"])


async def test_an_update_is_a_patch(added: FakeLiteLLM, http: httpx.AsyncClient) -> None:
    """`POST /model/update` ignores model_info and drops what its body does not repeat."""
    await run(http, UPDATE, body())
    writes = [path for path in paths(added) if not path.startswith("GET")]
    assert [f"PATCH /model/{ID}/update"] == writes


async def test_an_update_does_not_reset_a_flag(added: FakeLiteLLM, http: httpx.AsyncClient) -> None:
    """A PATCH with litellm_params turns off every flag that it does not repeat."""
    added.edit(ID, params={"use_in_pass_through": True})
    await run(http, UPDATE, body(MOVED))
    assert added.truth()[ID].params["use_in_pass_through"]


async def test_an_update_lets_a_blocked_row_serve_again(
    added: FakeLiteLLM, http: httpx.AsyncClient
) -> None:
    added.edit(ID, blocked=True)
    await run(http, UPDATE, body())
    assert not added.truth()[ID].blocked


async def test_an_adopted_row_is_stamped_under_its_own_id(
    proxy: FakeLiteLLM, http: httpx.AsyncClient
) -> None:
    """A row without our mark at our address keeps the id it has."""
    theirs = proxy.plant("qwen3", {"model": "hosted_vllm/qwen3"}, {"id": "42"})
    await run(http, UPDATE, body(), target=theirs)
    [row] = proxy.truth().values()
    assert ("42", "42", "main") == (row.id, row.info["id"], row.info["llmao_fleet"])


async def test_an_update_of_a_row_that_is_gone_says_so(http: httpx.AsyncClient) -> None:
    with pytest.raises(Refused, match=r"^row_gone: "):
        await run(http, UPDATE, body())


async def test_a_row_that_goes_between_look_and_update_says_so(
    added: FakeLiteLLM, http: httpx.AsyncClient
) -> None:
    gone = error(404, f"Model {ID} not found on proxy.", "not_found_error")
    added.answer_next = [(f"/model/{ID}/update", gone)]
    with pytest.raises(Refused, match=r"^row_gone: "):
        await run(http, UPDATE, body())


async def test_a_yaml_row_is_not_updated(proxy: FakeLiteLLM, http: httpx.AsyncClient) -> None:
    proxy.plant_yaml("qwen3", {"model": "openai/x"}, "in-the-file")
    with pytest.raises(Refused, match="YAML"):
        await run(http, UPDATE, body(), target="in-the-file")


async def test_an_id_with_a_slash_cannot_be_updated(http: httpx.AsyncClient) -> None:
    """LiteLLM answers 404 to such a path, raw or encoded, as if there were no such page."""
    with pytest.raises(Refused, match="/"):
        await run(http, UPDATE, body(), target="box7:8000/qwen3")


async def test_a_lost_answer_to_an_update_is_looked_up(
    added: FakeLiteLLM, http: httpx.AsyncClient
) -> None:
    added.switches.lose_answers = 1
    assert DONE == (await run(http, UPDATE, body(MOVED))).kind


async def test_an_update_that_did_not_arrive_is_not_yet(
    added: FakeLiteLLM, http: httpx.AsyncClient
) -> None:
    added.answer_next = [(f"/model/{ID}", error(500, "it broke", "internal_server_error"))]
    with pytest.raises(NotYet, match="it broke"):
        await run(http, UPDATE, body(MOVED))


async def test_a_row_that_cannot_be_read_is_not_updated(
    added: FakeLiteLLM, http: httpx.AsyncClient
) -> None:
    """Its flags are not known, so that a PATCH could reset them."""
    added.answer_next = [("/v2/model/info", Reply(503, b""))]
    with pytest.raises(NotYet):
        await run(http, UPDATE, body(MOVED))
    assert not [path for path in paths(added) if path.startswith("PATCH")]


# ---- replace


async def test_a_replace_removes_what_is_no_longer_written(
    added: FakeLiteLLM, http: httpx.AsyncClient
) -> None:
    """No update can take a key away: a null changes nothing."""
    added.edit(ID, info={"old": 1})
    await run(http, UPDATE, body())
    assert "old" in added.truth()[ID].info
    assert Outcome(DONE) == await run(http, REPLACE, body())
    assert "old" not in added.truth()[ID].info


async def test_a_replace_of_a_row_that_is_gone_adds_it(
    proxy: FakeLiteLLM, http: httpx.AsyncClient
) -> None:
    assert DONE == (await run(http, REPLACE, body())).kind
    assert [ID] == list(proxy.truth())


async def test_a_replace_adds_nothing_beside_a_row_it_could_not_remove(
    added: FakeLiteLLM, http: httpx.AsyncClient
) -> None:
    added.switches.dead_database = True
    with pytest.raises(NotYet):
        await run(http, REPLACE, body())
    assert "POST /model/new" not in paths(added)


# ---- removals


@pytest.mark.parametrize("kind", [DELETE, ActionKind.DELETE_DUPLICATE, ActionKind.PRUNE_ORPHAN])
async def test_a_removal_removes_its_row_and_no_other(
    added: FakeLiteLLM, http: httpx.AsyncClient, kind: ActionKind
) -> None:
    other = added.plant("gpt", {"model": "openai/gpt"})
    assert Outcome(DONE) == await run(http, kind)
    assert [other] == list(added.truth())


async def test_what_is_gone_already_is_success(http: httpx.AsyncClient) -> None:
    """400 and the words `not found in db`."""
    outcome = await run(http, DELETE)
    assert (ALREADY, True) == (outcome.kind, outcome.good)


async def test_a_bare_400_is_not_gone(added: FakeLiteLLM, http: httpx.AsyncClient) -> None:
    """A dead database answers 400 to a removal."""
    added.switches.dead_database = True
    with pytest.raises(NotYet):
        await run(http, DELETE)
    assert [ID] == list(added.truth())


async def test_a_lost_answer_to_a_removal_is_looked_up(
    added: FakeLiteLLM, http: httpx.AsyncClient
) -> None:
    added.switches.lose_answers = 1
    assert DONE == (await run(http, DELETE)).kind


async def test_a_removal_that_did_not_arrive_is_unknown(
    added: FakeLiteLLM, http: httpx.AsyncClient
) -> None:
    added.answer_next = [("/model/delete", Reply(504, b""))]
    with pytest.raises(OutcomeUnknown, match="still there"):
        await run(http, DELETE)


async def test_a_route_that_haunts_after_its_removal_is_seen(
    added: FakeLiteLLM, http: httpx.AsyncClient, hands: Hands
) -> None:
    """litellm#33168: a deleted deployment went on being listed and routed to.

    The removal is confirmed by the database; the next reads still show the row, until LiteLLM's
    own poll, and repeating the removal meanwhile is safe.
    """
    added.switches.ghost_after_delete = True
    assert DONE == (await run(http, DELETE)).kind
    seen = await plugin.llmao_fetch(request(), http, NOW)
    assert [ID] == [row.id for row in seen.rows]  # type: ignore[union-attr]
    assert ALREADY == (await run(http, DELETE)).kind
    hands.at += 31
    assert () == (await plugin.llmao_fetch(request(), http, NOW)).rows  # type: ignore[union-attr]


# ---- what is told


@pytest.mark.parametrize("kind", [ADD, UPDATE, REPLACE, DELETE])
@pytest.mark.parametrize("status", [200, 400, 404, 422, 500, 503])
async def test_no_secret_is_repeated_from_an_answer(kind: ActionKind, status: int) -> None:
    """A proxy that quotes our key and the box's bearer must not get them into our log."""
    quoted = f"{BEARER} sk-fake-master Bearer {BEARER}"
    said = {"error": {"message": quoted}, "detail": quoted, "model_id": quoted}
    async with saying(status, json.dumps(said).encode()) as http:
        told = ""
        try:
            told = (await run(http, kind, None if kind.removes else body())).said
        except LlmaoError as caught:
            told = str(caught)
    assert told
    assert BEARER not in told
    assert "sk-fake" not in told


async def test_writes_queue_in_the_proxy_and_none_is_lost(hands: Hands) -> None:
    """Each write costs as much as there are rows, one at a time."""
    proxy = FakeLiteLLM(hands, sleep=hands.sleep, speeds=Speeds(write_s=lambda rows: 0.1 * rows))
    async with reached(proxy) as http:
        bodies = [body(row_id=f"llmao-{n}") for n in range(10)]
        await asyncio.gather(*(run(http, ADD, each, each.model_info["id"]) for each in bodies))
    assert 10 == len(proxy.truth())
    assert hands.at - NOW == pytest.approx(4.5)


async def test_an_ok_is_of_the_row_it_was_asked_for(
    added: FakeLiteLLM, http: httpx.AsyncClient
) -> None:
    added.answer_next = [(f"/model/{ID}", ok({"model_id": "another"}))]
    with pytest.raises(OutcomeUnknown):
        await run(http, UPDATE, body(MOVED))
