"""The fake proxy where no other test needs it: routing, what it shows, and the servers it asks."""

import asyncio
import json
from collections.abc import AsyncIterator

import httpx
import pytest
from tests.litellm.helpers import BEARER, ID, Hands

from llmao_litellm.fake import MASTER_KEY, FakeLiteLLM
from llmao_litellm.fake_traffic import Dialler

PARAMS = {"model": "hosted_vllm/served", "api_base": "http://127.0.0.2:1/v1", "api_key": BEARER}
ADMIN = {"Authorization": f"Bearer {MASTER_KEY}"}


@pytest.fixture
async def api(proxy: FakeLiteLLM) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(
        transport=proxy.transport(), base_url="http://proxy", headers=ADMIN
    ) as api:
        yield api


async def chat(api: httpx.AsyncClient, model: str = "qwen3") -> httpx.Response:
    return await api.post("/v1/chat/completions", json={"model": model, "messages": []})


async def test_a_request_is_routed_by_name_and_by_id(
    proxy: FakeLiteLLM, api: httpx.AsyncClient
) -> None:
    proxy.plant("qwen3", PARAMS, {"id": ID})
    assert [ID, ID] == [
        (await chat(api, name)).headers["x-litellm-model-id"] for name in ("qwen3", ID)
    ]
    assert 400 == (await chat(api, "nobody")).status_code


async def test_members_of_a_pool_share_the_requests(
    proxy: FakeLiteLLM, api: httpx.AsyncClient
) -> None:
    for row_id in ("a", "b"):
        proxy.plant("qwen3", PARAMS, {"id": row_id})
    served = {(await chat(api)).headers["x-litellm-model-id"] for _ in range(4)}
    assert {"a", "b"} == served


async def test_a_blocked_row_is_skipped_and_still_listed(
    proxy: FakeLiteLLM, api: httpx.AsyncClient
) -> None:
    proxy.plant("qwen3", PARAMS, {"id": ID})
    assert (await api.post("/model/block", json={"model_id": ID})).json()["blocked"]
    assert 403 == (await chat(api)).status_code
    assert [] == (await api.get("/v1/models")).json()["data"]
    assert (await api.get("/model/info")).json()["data"][0]["model_info"]["blocked"]
    await api.post("/model/unblock", json={"model_id": ID})
    assert 200 == (await chat(api)).status_code


@pytest.mark.parametrize("path", [f"/model/{ID}/update", "/model/block"])
async def test_a_row_that_goes_while_a_write_of_it_waits_is_not_found(
    hands: Hands, path: str
) -> None:
    """Somebody deletes it meanwhile; the proxy answers and does not break."""

    async def meanwhile(_: float) -> None:
        proxy.remove(ID)

    proxy = FakeLiteLLM(hands, sleep=meanwhile)
    proxy.plant("qwen3", PARAMS, {"id": ID})
    async with httpx.AsyncClient(
        transport=proxy.transport(), base_url="http://proxy", headers=ADMIN
    ) as api:
        method = "POST" if path == "/model/block" else "PATCH"
        assert 404 == (await api.request(method, path, json={"model_id": ID})).status_code


async def test_a_list_is_padded_and_masked_as_the_real_one(
    proxy: FakeLiteLLM, api: httpx.AsyncClient
) -> None:
    proxy.plant("qwen3", {**PARAMS, "my_token": "abc"}, {"id": ID})
    [entry] = (await api.get("/model/info")).json()["data"]
    assert 156 == sum(value is None for value in entry["model_info"].values())
    assert ("***", False) == (
        entry["litellm_params"]["my_token"],
        "api_key" in entry["litellm_params"],
    )


async def test_the_other_worker_routes_to_a_deleted_row_until_it_reloads(hands: Hands) -> None:
    """Measured with two workers: 11 of 24 requests still went there."""
    proxy = FakeLiteLLM(hands, workers=2, sleep=hands.sleep)
    proxy.plant("qwen3", PARAMS, {"id": ID})
    proxy.delete(proxy.workers[0], ID)
    async with httpx.AsyncClient(
        transport=proxy.transport(), base_url="http://proxy", headers=ADMIN
    ) as api:
        proxy.worker_of = lambda _: 1
        assert 200 == (await chat(api)).status_code
        hands.at += 30
        assert 400 == (await chat(api)).status_code


async def test_a_row_under_the_id_of_a_yaml_deployment_takes_its_place(
    proxy: FakeLiteLLM, api: httpx.AsyncClient
) -> None:
    """Deleting the row leaves neither, until the proxy restarts."""
    proxy.plant_yaml("qwen3", PARAMS, "in-the-file")
    new = {"model_name": "qwen3", "litellm_params": PARAMS, "model_info": {"id": "in-the-file"}}
    assert 200 == (await api.post("/model/new", json=new)).status_code
    assert 200 == (await api.post("/model/delete", json={"id": "in-the-file"})).status_code
    assert [] == (await api.get("/model/info")).json()["data"]
    proxy.restart()
    assert 1 == len((await api.get("/model/info")).json()["data"])


async def test_v2_has_pages(proxy: FakeLiteLLM, api: httpx.AsyncClient) -> None:
    """Its default size is 50: nobody who reads one page has read all."""
    for n in range(60):
        proxy.plant("qwen3", PARAMS, {"id": f"llmao-{n}"})
    page = (await api.get("/v2/model/info")).json()
    assert (50, 60, 2) == (len(page["data"]), page["total_count"], page["total_pages"])


async def test_readiness_tells_of_the_database(proxy: FakeLiteLLM, api: httpx.AsyncClient) -> None:
    assert 200 == (await api.get("/health/readiness", headers={})).status_code
    proxy.switches.dead_database = True
    assert 503 == (await api.get("/health/readiness")).status_code


# ---- the servers behind it


class Box:
    """A server on loopback that knows one bearer and one model."""

    def __init__(self) -> None:
        self.base = ""
        self.asked = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length: ")[2].split("\r\n")[0])
        asked = json.loads(await reader.readexactly(length))
        good = f"bearer {BEARER}".lower() in head and asked["model"] == "served"
        self.asked += 1
        status, said = (200, b"{}") if good else (401, b'{"error":"Unauthorized"}')
        writer.write(f"HTTP/1.1 {status} x\r\ncontent-length: {len(said)}\r\n\r\n".encode() + said)
        writer.close()
        await writer.wait_closed()


@pytest.fixture
async def box() -> AsyncIterator[Box]:
    box = Box()
    server = await asyncio.start_server(box.serve, "127.0.0.2", 0)
    host, port = server.sockets[0].getsockname()
    box.base = f"http://{host}:{port}/v1"
    async with server:
        yield box


async def test_health_really_asks_the_server(proxy: FakeLiteLLM, box: Box) -> None:
    proxy.plant("qwen3", {**PARAMS, "api_base": box.base}, {"id": "up"})
    proxy.plant("qwen3", {**PARAMS, "api_base": box.base, "api_key": "old"}, {"id": "old-key"})
    proxy.plant("qwen3", PARAMS, {"id": "down"})
    async with httpx.AsyncClient(trust_env=False) as http:
        proxy.health.check = Dialler(http).check
        async with httpx.AsyncClient(
            transport=proxy.transport(), base_url="http://proxy", headers=ADMIN
        ) as api:
            found = (await api.get("/health")).json()
            alone = await api.get("/health", params={"model_id": "down"})
    assert ["up"] == [each["model_id"] for each in found["healthy_endpoints"]]
    assert ["old-key", "down"] == [each["model_id"] for each in found["unhealthy_endpoints"]]
    assert (503, 2) == (alone.status_code, box.asked)


async def test_a_request_is_sent_on_with_the_rows_key_and_model(hands: Hands, box: Box) -> None:
    async with httpx.AsyncClient(trust_env=False) as http:
        proxy = FakeLiteLLM(hands, forward=Dialler(http).forward)
        proxy.plant("qwen3", {**PARAMS, "api_base": box.base}, {"id": ID})
        async with proxy.serve() as url:
            answer = await http.post(
                f"{url}/v1/chat/completions", json={"model": "qwen3"}, headers=ADMIN
            )
    assert (200, ID) == (answer.status_code, answer.headers["x-litellm-model-id"])


async def test_nothing_but_loopback_is_dialled(proxy: FakeLiteLLM) -> None:
    """A row may say anything; the demo and the tests must not reach out."""

    def nobody(sent: httpx.Request) -> httpx.Response:
        raise AssertionError(sent.url)

    row_id = proxy.plant("qwen3", {**PARAMS, "api_base": "http://203.0.113.7:8001/v1"})
    async with httpx.AsyncClient(transport=httpx.MockTransport(nobody)) as http:
        assert "Cannot connect" in await Dialler(http).check(proxy.truth()[row_id])


async def test_a_lost_answer_breaks_the_connection_and_is_no_fault_of_the_fake(
    proxy: FakeLiteLLM, caplog: pytest.LogCaptureFixture
) -> None:
    """Half an answer arrives, the next request is answered, and nothing is logged as an error."""
    async with proxy.serve() as url, httpx.AsyncClient(base_url=url, headers=ADMIN) as api:
        proxy.switches.lose_answers = 1
        with pytest.raises(httpx.RemoteProtocolError, match="without sending complete"):
            await api.post("/model/new", json={"model_name": "m", "litellm_params": PARAMS})
        assert 200 == (await api.get("/model/info")).status_code
    assert [] == [each for each in caplog.records if each.levelname == "ERROR"]
