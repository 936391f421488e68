"""Reads of LiteLLM through the plugin, against the fake proxy and against broken ones."""

import json
from typing import Any

import httpx
import pytest
from tests.litellm.helpers import BEARER, ID, NOW, Hands, failing, reached, request, saying

from llmao_core.errors import Busy, FetchError, Garbled, Unauthorized, Unreachable
from llmao_core.hooks import FetchRequest, SourceKind
from llmao_core.snapshots import Deployments, Health
from llmao_litellm import plugin
from llmao_litellm.fake import MASTER_KEY, FakeLiteLLM
from llmao_litellm.fake_http import Reply, ok
from llmao_litellm.fake_state import Stored

PARAMS = {"model": "hosted_vllm/qwen3", "api_base": "http://127.0.0.2:8001/v1", "api_key": BEARER}


async def deployments(http: httpx.AsyncClient, **more: Any) -> Deployments:
    read = await plugin.llmao_fetch(request(**more), http, NOW)
    assert isinstance(read, Deployments)
    return read


async def health(http: httpx.AsyncClient, at: float = NOW, **more: Any) -> Health:
    read = await plugin.llmao_fetch(request("litellm_health", **more), http, at)
    assert isinstance(read, Health)
    return read


def test_three_cards_and_only_the_deployments_take_orders() -> None:
    first, second, third = plugin.llmao_source()
    assert (SourceKind.DEPLOYMENTS, 60, 6) == (first.kind, first.interval_s, len(first.executes))
    assert (SourceKind.HEALTH, 60, 0) == (second.kind, second.interval_s, len(second.executes))
    assert (SourceKind.ACCESS, 300, 0) == (third.kind, third.interval_s, len(third.executes))


# ---- deployments


async def test_every_row_is_read_ours_and_others(
    proxy: FakeLiteLLM, http: httpx.AsyncClient
) -> None:
    ours = proxy.plant("qwen3", PARAMS, {"id": ID})
    theirs = proxy.plant("gpt", {"model": "openai/gpt"})
    proxy.plant_yaml("yaml", {"model": "openai/gpt"}, "in-the-file")
    rows = {row.id: row for row in (await deployments(http)).rows}
    assert {ours, theirs, "in-the-file"} == rows.keys()
    assert [True, True, False] == [rows[i].in_db for i in (ours, theirs, "in-the-file")]


async def test_no_api_key_is_ever_in_a_read(proxy: FakeLiteLLM, http: httpx.AsyncClient) -> None:
    """LiteLLM leaves it out; a version that does not must not put it into the journal either."""
    proxy.plant("qwen3", PARAMS, {"id": ID})
    proxy.switches.plain = True
    assert BEARER not in repr(await deployments(http))


async def test_an_empty_proxy_is_an_empty_list(http: httpx.AsyncClient) -> None:
    assert () == (await deployments(http)).rows


async def test_a_row_the_router_could_not_load_is_looked_up(
    proxy: FakeLiteLLM, http: httpx.AsyncClient
) -> None:
    """`/model/info` lists the router; `/v2/model/info?modelId=` also knows the database."""
    proxy.plant("qwen3", {"model": "noprovider-x"}, {"id": ID})
    assert () == (await deployments(http)).rows
    [row] = (await deployments(http, look_up=(ID, "llmao-absent"))).rows
    assert (ID, False) == (row.id, row.live)


async def test_another_row_than_was_looked_up_is_garbled(
    proxy: FakeLiteLLM, http: httpx.AsyncClient
) -> None:
    planted = proxy.plant("qwen3", PARAMS, {"id": "llmao-b"})
    other = proxy.show(proxy.truth()[planted])
    proxy.answer_next = [("/v2/model/info", Reply(200, b'{"data":[' + other + b"]}"))]
    with pytest.raises(Garbled, match="another"):
        await deployments(http, look_up=(ID,))


async def test_a_row_that_is_listed_is_not_looked_up(
    proxy: FakeLiteLLM, http: httpx.AsyncClient
) -> None:
    proxy.plant("qwen3", PARAMS, {"id": ID})
    [row] = (await deployments(http, look_up=(ID, ID))).rows
    assert row.live
    assert ["/model/info"] == [call.path for call in proxy.log]


async def test_a_row_of_a_list_that_is_empty_by_mistake_is_found_and_live(
    proxy: FakeLiteLLM, http: httpx.AsyncClient
) -> None:
    """A list may hide rows (empty by mistake, `model_list_healthy_only`): ids tell the truth."""
    proxy.plant("qwen3", PARAMS, {"id": ID})
    proxy.switches.empty_list = True
    [row] = (await deployments(http, look_up=(ID,))).rows
    assert row.live


async def test_replicas_lag(hands: Hands) -> None:
    """litellm#22190: a second worker lists and routes by what it loaded up to 30 s ago.

    What one answer lacks is still found by its id, so that its absence proves nothing.
    """
    proxy = FakeLiteLLM(hands, workers=2, sleep=hands.sleep)
    proxy.create(proxy.workers[0], "qwen3", PARAMS, {"id": ID})
    proxy.worker_of = lambda _: 1
    async with reached(proxy) as http:
        assert () == (await deployments(http)).rows
        assert [ID] == [row.id for row in (await deployments(http, look_up=(ID,))).rows]
        hands.at += 31
        assert [ID] == [row.id for row in (await deployments(http)).rows]


async def test_all_rows_gone_after_an_upgrade(proxy: FakeLiteLLM, http: httpx.AsyncClient) -> None:
    """litellm#14661: after an upgrade the table of models was empty.

    That is an answer like any other: a good read of no rows, which the ids confirm.
    """
    proxy.plant("qwen3", PARAMS, {"id": ID})
    proxy.empty()
    assert () == (await deployments(http, look_up=(ID,))).rows


async def test_a_dead_database_is_not_an_empty_list(
    proxy: FakeLiteLLM, http: httpx.AsyncClient
) -> None:
    """LiteLLM answers 503: it asks the database for team access even for a list from memory."""
    proxy.switches.dead_database = True
    with pytest.raises(Unreachable, match=r"^litellm_unreachable: .*503.*database run"):
        await deployments(http)


async def test_two_thousand_rows_are_read_whole(
    proxy: FakeLiteLLM, http: httpx.AsyncClient
) -> None:
    """`/model/info` has no pages; nothing may be cut off."""
    for n in range(2000):
        proxy.plant("qwen3", PARAMS, {"id": f"llmao-{n}"})
    assert 2000 == len((await deployments(http)).rows)


# ---- what a failed read says


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (301, Garbled, "base_url"),
        (400, Garbled, "base_url"),
        (401, Unauthorized, "litellm_unauthorized: .*master_key"),
        (403, Unauthorized, "proxy_admin"),
        (404, Garbled, "base_url"),
        (429, Busy, "wait"),
        (500, Unreachable, "litellm_unreachable: .*500"),
        (503, Unreachable, "litellm_unreachable: .*503"),
    ],
)
async def test_a_status_has_its_error(status: int, kind: type[FetchError], words: str) -> None:
    async with saying(status, b"no") as http:
        with pytest.raises(kind, match=words):
            await deployments(http)


async def test_busy_says_when_to_come_back() -> None:
    async with saying(429, b"", **{"Retry-After": "7"}) as http:
        with pytest.raises(Busy) as caught:
            await deployments(http)
    assert 7 == caught.value.retry_after_s


@pytest.mark.parametrize("odd", ["Wed, 21 Oct 2015 07:28:00 GMT", "-1", "inf", "nan", "1e9"])
async def test_busy_until_nonsense_names_no_time(odd: str) -> None:
    async with saying(429, b"", **{"Retry-After": odd}) as http:
        with pytest.raises(Busy) as caught:
            await deployments(http)
    assert caught.value.retry_after_s is None


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (httpx.ConnectError, "cannot connect"),
        (httpx.ConnectTimeout, "no answer in time"),
        (httpx.ReadTimeout, "no answer in time"),
        (httpx.RemoteProtocolError, "failed"),
        (httpx.PoolTimeout, "no answer in time"),
    ],
)
async def test_no_answer_is_unreachable(error: type[httpx.TransportError], words: str) -> None:
    async with failing(error) as http:
        with pytest.raises(
            Unreachable, match=rf"^litellm_unreachable: .*127\.0\.0\.1:4000.*{words}"
        ):
            await deployments(http)


async def test_a_proxy_without_a_database_says_what_to_start_it_with() -> None:
    said = {"error": {"message": "No connected db.", "type": "no_db_connection", "code": "400"}}
    async with saying(400, json.dumps(said).encode()) as http:
        with pytest.raises(Unreachable, match=r"^litellm_no_database: .*STORE_MODEL_IN_DB"):
            await deployments(http)


async def test_a_wrong_key_is_refused_and_not_repeated(http: httpx.AsyncClient) -> None:
    """LiteLLM repeats the beginning and the hash of the key it refuses."""
    with pytest.raises(Unauthorized) as caught:
        await deployments(http, key="sk-wrong-one")
    assert "sk-" not in str(caught.value)


@pytest.mark.parametrize("key", ["sk-bad\nkey", "sk-bäd", "sk-\x00"])
async def test_a_key_no_header_can_hold_is_not_shown(proxy: FakeLiteLLM, key: str) -> None:
    """The HTTP library's own complaint would quote the whole header."""
    async with proxy.serve() as url, httpx.AsyncClient(trust_env=False) as http:
        asked = request(key=key)
        with pytest.raises(FetchError) as caught:
            await plugin.llmao_fetch(
                FetchRequest("litellm", url, asked.api_key, timeout_s=5), http, NOW
            )
    assert "sk-" not in str(caught.value)


async def test_credentials_in_the_address_are_not_shown() -> None:
    asked = FetchRequest("litellm", "http://admin:hunter22@127.0.0.1:1")
    async with failing(httpx.ConnectError) as http:
        with pytest.raises(Unreachable) as caught:
            await plugin.llmao_fetch(asked, http, NOW)
    assert "127.0.0.1:1" in str(caught.value)
    assert "hunter22" not in str(caught.value)


# ---- health


class Servers:
    """The servers behind the rows: which are down, and how often each was asked."""

    def __init__(self) -> None:
        self.down: dict[str, str] = {}
        self.asked: list[str] = []

    async def __call__(self, row: Stored) -> str:
        self.asked.append(row.id)
        return self.down.get(row.id, "")


@pytest.fixture
def servers(proxy: FakeLiteLLM) -> Servers:
    servers = Servers()
    proxy.health.check = servers
    for row_id in ("llmao-1", "llmao-2"):
        proxy.plant("qwen3", PARAMS, {"id": row_id})
    return servers


async def test_the_free_read_costs_nobody_a_token(
    servers: Servers, http: httpx.AsyncClient
) -> None:
    assert {} == (await health(http)).opinions
    assert [] == servers.asked


async def test_a_question_is_answered_by_a_check_made_for_it(
    servers: Servers, http: httpx.AsyncClient
) -> None:
    servers.down["llmao-1"] = "Cannot connect to host"
    read = await health(http, ask=("llmao-1", "llmao-2"))
    assert {"llmao-1": False, "llmao-2": True} == {i: o.healthy for i, o in read.opinions.items()}
    assert "Cannot connect" in read.opinions["llmao-1"].said
    assert ["llmao-1", "llmao-2"] == sorted(servers.asked)


async def test_an_answer_is_dated_when_it_was_asked(
    servers: Servers, http: httpx.AsyncClient
) -> None:
    read = await health(http, NOW + 5, ask=("llmao-1",))
    assert NOW + 5 == read.opinions["llmao-1"].checked_at == read.asked["llmao-1"].answered_at


async def test_a_saved_result_is_read_again_for_free(
    servers: Servers, http: httpx.AsyncClient, hands: Hands
) -> None:
    await health(http, ask=("llmao-1",))
    read = await health(http, NOW + 60)
    assert NOW - 0.028 == pytest.approx(read.opinions["llmao-1"].checked_at)
    assert 1 == len(servers.asked)


async def test_a_second_question_gets_a_second_check(
    servers: Servers, http: httpx.AsyncClient, hands: Hands
) -> None:
    await health(http, ask=("llmao-1",))
    servers.down["llmao-1"] = "gone"
    hands.at += 60
    assert not (await health(http, hands.at, ask=("llmao-1",))).opinions["llmao-1"].healthy


async def test_an_answer_from_memory_is_not_taken_for_a_check(
    servers: Servers, proxy: FakeLiteLLM, http: httpx.AsyncClient
) -> None:
    """With `background_health_checks`, `/health` tells what was found some time ago.

    The row is then tested directly, and that is the answer.
    """
    proxy.switches.background_checks = True
    await proxy.health.run_background()
    servers.down["llmao-1"] = "gone"
    read = await health(http, ask=("llmao-1",))
    assert not read.opinions["llmao-1"].healthy
    assert "/health/test_connection" in [call.path for call in proxy.log]


async def test_a_background_result_saved_meanwhile_is_no_answer(
    servers: Servers, proxy: FakeLiteLLM, http: httpx.AsyncClient
) -> None:
    """It is new, and yet nobody knows whether its check began before the question."""
    proxy.switches.background_checks = True
    proxy.answer_next = [("/health/latest", _latest(proxy))]
    await proxy.health.run_background()
    servers.down["llmao-1"] = "gone"
    assert not (await health(http, ask=("llmao-1",))).opinions["llmao-1"].healthy


async def test_memory_without_the_row_is_not_unhealthy(
    servers: Servers, proxy: FakeLiteLLM, http: httpx.AsyncClient
) -> None:
    """A new row is in no background result yet: 503 with two empty lists says nothing."""
    proxy.switches.background_checks = True
    assert (await health(http, ask=("llmao-1",))).opinions["llmao-1"].healthy


async def test_a_test_ends_after_the_rows_own_check_timeout(
    servers: Servers, proxy: FakeLiteLLM, http: httpx.AsyncClient
) -> None:
    """The row's `timeout` of 600 s is for completions; a hung server must not hold the answer."""
    proxy.switches.background_checks = True
    section = {"deployment_defaults": {"health_check_timeout": 7}}
    await health(http, ask=("llmao-1",), section=section)
    [call] = [call for call in proxy.log if call.path == "/health/test_connection"]
    assert {"timeout": 7} == call.json()["litellm_params"]


async def test_a_row_litellm_does_not_have_has_no_opinion(
    servers: Servers, http: httpx.AsyncClient
) -> None:
    read = await health(http, ask=("llmao-9",))
    assert "llmao-9" not in read.opinions
    assert read.asked["llmao-9"].answered_at is None


async def test_one_question_without_an_answer_spoils_no_other(
    servers: Servers, proxy: FakeLiteLLM, http: httpx.AsyncClient
) -> None:
    proxy.answer_next += [
        ("/health/latest", _latest(proxy)),
        ("/health/test", Reply(500, b"")),
        ("/health", Reply(502, b"<html>")),
    ]
    read = await health(http, ask=("llmao-1", "llmao-2"))
    assert ["llmao-2"] == list(read.opinions)


def _latest(proxy: FakeLiteLLM) -> Reply:
    """Return what `/health/latest` would answer now."""
    return ok({"latest_health_checks": proxy.health.saved, "total_models": 0})


async def test_the_paid_read_asks_every_server_once(
    servers: Servers, http: httpx.AsyncClient
) -> None:
    servers.down["llmao-2"] = "gone"
    read = await health(http, paid=True)
    assert {"llmao-1": True, "llmao-2": False} == {i: o.healthy for i, o in read.opinions.items()}
    assert 2 == len(servers.asked)


async def test_a_failed_paid_read_leaves_the_free_one(
    servers: Servers, proxy: FakeLiteLLM, http: httpx.AsyncClient
) -> None:
    """A check of thousands of rows may take too long; what is known for free still counts."""
    await health(http, ask=("llmao-1",))
    proxy.answer_next += [("/health/latest", _latest(proxy)), ("/health", Reply(504, b""))]
    assert ["llmao-1"] == list((await health(http, NOW + 1, paid=True)).opinions)


async def test_health_goes_on_listing_a_deleted_row(
    servers: Servers, proxy: FakeLiteLLM, http: httpx.AsyncClient
) -> None:
    """`/health` keeps its own copy of the list: whoever reads it matches ids with the rows."""
    proxy.delete(proxy.workers[0], "llmao-1")
    read = await health(http, paid=True)
    assert "llmao-1" in read.opinions
    assert ["llmao-2"] == [row.id for row in (await deployments(http)).rows]


async def test_health_of_a_proxy_that_refuses_us_fails(http: httpx.AsyncClient) -> None:
    with pytest.raises(Unauthorized):
        await health(http, key="sk-wrong")


async def test_master_key_is_sent_as_a_bearer(proxy: FakeLiteLLM, http: httpx.AsyncClient) -> None:
    await deployments(http)
    assert [f"Bearer {MASTER_KEY}"] == [call.authorization for call in proxy.log]
