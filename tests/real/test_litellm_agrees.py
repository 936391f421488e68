"""The fake proxy against a real one: the same requests, and what llmao reads of the answers.

Each step is put to both in turn; the status and the part of the body that the plugin reads must
be equal. Where this fails, the fake is wrong.
"""

import asyncio
import http.server
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from attrs import field, frozen
from tests.litellm.helpers import ID, NOW, body, order
from tests.real.lab.litellm import LiteLLM

from llmao_core.actions import ActionKind, Outcome, OutcomeKind
from llmao_core.hooks import FetchRequest
from llmao_core.secret import Secret
from llmao_core.snapshots import Deployments, Health
from llmao_litellm import plugin, translate
from llmao_litellm.fake import FakeLiteLLM
from llmao_litellm.fake_traffic import Dialler

pytestmark = pytest.mark.real

UP = ("127.0.0.2", 18001)
BASE = f"http://{UP[0]}:{UP[1]}/v1"
DEAD = "http://127.0.0.2:18009/v1"
ALIASES = {"other-name": "pool", "third-name": "qwen3"}
OURS = ("llmao_key", "llmao_hash", "vllm", "count", "db_model", "blocked", "id", "access_groups")


class _Server(http.server.BaseHTTPRequestHandler):
    """Answers any completion."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        message = {"role": "assistant", "content": "2"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        said = json.dumps({"id": "x", "object": "chat.completion", "choices": [choice]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_: object) -> None:
        pass


# ---- the parts that the plugin reads


def nothing(_: bytes) -> object:
    return None


def rows(content: bytes) -> object:
    return sorted(
        (
            row.id,
            row.model_name,
            row.base,
            row.in_db,
            row.blocked,
            sorted((k, repr(v)) for k, v in row.params.items()),
            sorted((k, repr(v)) for k, v in row.info.items() if k in OURS),
        )
        for row in translate.rows(content)
    )


def written(content: bytes) -> object:
    data = json.loads(content)
    return data["model_id"], data["model_name"], data["blocked"], sorted(data["litellm_params"])


def words(content: bytes) -> object:
    return translate.error_text(content), translate.error_type(content)


def kind(content: bytes) -> object:
    return translate.error_type(content)


def not_live(content: bytes) -> object:
    return "not live" in translate.error_text(content)


def gone(content: bytes) -> object:
    return "not found in db" in translate.error_text(content)


def deleted(content: bytes) -> object:
    return "deleted successfully" in translate.error_text(content)


def verdicts(content: bytes) -> object:
    found = translate.verdicts(content)
    return {row_id: healthy for row_id, (healthy, _) in found.items()}


def saved(content: bytes) -> object:
    checks = translate.latest_checks(content)
    return {i: (c.healthy, c.background, c.checked_at > 0) for i, c in checks.items()}


def connection(content: bytes) -> object:
    found = translate.connection_verdict(content)
    return found and found[0]


def chat(content: bytes) -> object:
    return json.loads(content)["choices"][0]["message"]["role"]


@frozen
class Step:
    """One request. part: what of the answer must be equal. key: instead of the master key."""

    name: str
    method: str
    path: str
    part: Callable[[bytes], object]
    json: Any = None
    params: dict[str, str] = field(factory=dict)
    key: str | None = None


def new(row_id: str | None, base: str = BASE, **more: Any) -> dict[str, Any]:
    params = {"model": "hosted_vllm/m", "api_base": base, "api_key": "sk-box", "order": 1, "rpm": 9}
    info = {"llmao_key": "http://b:1", "llmao_hash": "h", "count": 3, "access_groups": ["a", "b"],
            "vllm": {"args": ["--x"], "null": None}, "nothing": None,
            "health_check_timeout": 5}  # fmt: skip
    return {
        "model_name": "pool",
        "litellm_params": params | more,
        "model_info": info | ({"id": row_id} if row_id else {}),
    }


def patch(row_id: str, **change: Any) -> dict[str, Any]:
    return {"json": change, "method": "PATCH", "path": f"/model/{row_id}/update"}


def info(name: str, row_id: str = "") -> Step:
    return Step(
        name, "GET", "/model/info", rows, params={"litellm_model_id": row_id} if row_id else {}
    )


def v2(name: str, row_id: str) -> Step:
    return Step(name, "GET", "/v2/model/info", rows, params={"modelId": row_id})


NEW, DELETE = "/model/new", "/model/delete"
STEPS = (
    info("an empty proxy"),
    Step("create", "POST", NEW, written, new("llmao-a")),
    info("a row as listed"),
    info("one row by id", "llmao-a"),
    Step("one unknown row", "GET", "/model/info", words, params={"litellm_model_id": "nope"}),
    v2("v2 by id", "llmao-a"),
    v2("v2 by unknown id", "nope"),
    Step("create again", "POST", NEW, words, new("llmao-a", DEAD)),
    info("after a second create"),
    Step("masked params", "POST", NEW, written,
         new("llmao-m", my_token="abcdefghijkl", extra_headers={"Authorization": "Bearer abc"})),
    info("masked as listed", "llmao-m"),
    Step("flags", "POST", NEW, written, new("llmao-f", use_in_pass_through=True)),
    Step("patch resets flags", part=written,
         **patch("llmao-f", litellm_params={"model": "hosted_vllm/m", "api_base": DEAD},
                 model_info={"id": "llmao-f", "count": None, "more": 1}, blocked=False)),
    info("after the patch", "llmao-f"),
    Step("patch unknown", part=words, **patch("nope", model_name="x")),
    Step("patch with a slash", part=words, **patch("a%2Fb", model_name="x")),
    Step("block", "POST", "/model/block", written, {"model_id": "llmao-f"}),
    info("blocked as listed", "llmao-f"),
    Step("unblocked by patch", part=written,
         **patch("llmao-f", model_info={"id": "llmao-f"}, blocked=False)),
    Step("not loadable", "POST", NEW, not_live, new("llmao-n", model="noprovider-x")),
    v2("not loadable by v2", "llmao-n"),
    Step("not loadable by id", "GET", "/model/info", words, params={"litellm_model_id": "llmao-n"}),
    Step("delete not loadable", "POST", DELETE, deleted, {"id": "llmao-n"}),
    Step("health of one that is up", "GET", "/health", verdicts, params={"model_id": "llmao-a"}),
    Step("health of one that is dead", "GET", "/health", verdicts, params={"model_id": "llmao-f"}),
    Step("health of none", "GET", "/health", words, params={"model_id": "nope"}),
    Step("health of all", "GET", "/health", verdicts),
    Step("test one that is up", "POST", "/health/test_connection", connection,
         {"model_info": {"id": "llmao-a"}, "litellm_params": {"timeout": 5}}),
    Step("test one that is dead", "POST", "/health/test_connection", connection,
         {"model_info": {"id": "llmao-f"}, "litellm_params": {"timeout": 5}}),
    Step("test none", "POST", "/health/test_connection", words,
         {"model_info": {"id": "nope"}, "litellm_params": {"timeout": 5}}),
    Step("saved results", "GET", "/health/latest", saved),
    Step("chat by id", "POST", "/v1/chat/completions", chat,
         {"model": "llmao-a", "messages": [{"role": "user", "content": "hi"}]}),
    Step("delete", "POST", DELETE, deleted, {"id": "llmao-f"}),
    Step("delete again", "POST", DELETE, gone, {"id": "llmao-f"}),
    Step("health lists the deleted", "GET", "/health", verdicts),
    info("the deleted is not listed"),
    Step("delete without id", "POST", DELETE, nothing, {}),
    Step("no model", "POST", NEW, nothing, {"model_name": "x", "litellm_params": {}}),
    Step("no params", "POST", NEW, kind, {"model_name": "x"}),
    Step("wrong key", "GET", "/model/info", kind, key="sk-wrong"),
    Step("no key", "GET", "/model/info", kind, key=""),
    Step("ready", "GET", "/health/readiness", lambda c: json.loads(c)["db"], key=""),
)  # fmt: skip

Seen = dict[str, tuple[int, object]]


async def _walk(api: httpx.AsyncClient, key: str) -> Seen:
    seen: Seen = {}
    for step in STEPS:
        if step.path == "/health/latest":
            await asyncio.sleep(1)  # a real one saves after it has answered
        sent = key if step.key is None else step.key
        # A real one breaks the connection after some of its own errors: each step has its own.
        headers = {"Connection": "close"} | ({"Authorization": f"Bearer {sent}"} if sent else {})
        heard = await api.request(
            step.method, step.path, params=step.params, json=step.json,
            headers=headers,
        )  # fmt: skip
        seen[step.name] = (heard.status_code, step.part(heard.content))
    return seen


async def _walk_fake() -> Seen:
    async with httpx.AsyncClient(trust_env=False) as out:
        dialler = Dialler(out)
        fake = FakeLiteLLM(lambda: NOW, check=dialler.check, forward=dialler.forward)
        fake.aliases = dict(ALIASES)
        [key] = fake.keys
        async with httpx.AsyncClient(transport=fake.transport(), base_url="http://fake") as api:
            return await _walk(api, key)


async def _walk_real(url: str, key: str) -> Seen:
    async with httpx.AsyncClient(base_url=url, timeout=60, trust_env=False) as api:
        return await _walk(api, key)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Serve completions on loopback; gives the root."""
    server = http.server.ThreadingHTTPServer(UP, _Server)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield BASE.removesuffix("/v1")
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def proxy(server: str) -> Iterator[LiteLLM]:
    """A real proxy whose model group also has an alias."""
    config = {
        "general_settings": {"master_key": "os.environ/LITELLM_MASTER_KEY"},
        "router_settings": {"model_group_alias": ALIASES},
    }
    with LiteLLM(config=config) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def both(proxy: LiteLLM) -> tuple[Seen, Seen]:
    """Walk the steps on a real proxy and on the fake, with one server behind both."""
    return asyncio.run(_walk_real(proxy.url, proxy.master_key)), asyncio.run(_walk_fake())


@pytest.mark.parametrize("name", [step.name for step in STEPS])
def test_the_fake_answers_as_the_real_one(name: str, both: tuple[Seen, Seen]) -> None:
    """Status and the part that llmao reads are the same."""
    real, fake = both
    assert real[name] == fake[name]


class Hands:
    """The plugin at work on a real proxy."""

    def __init__(self, proxy: LiteLLM, client: httpx.AsyncClient) -> None:
        self._proxy, self._client = proxy, client

    def _request(self, source: str, **more: Any) -> FetchRequest:
        return FetchRequest(source, self._proxy.url, Secret(self._proxy.master_key), **more)

    async def do(self, kind: ActionKind, base: str | None = None, **params: Any) -> Outcome:
        written = None if base is None else body(base, **params)
        asked = self._request("litellm")
        return await plugin.llmao_execute(order(kind, written), asked, self._client, NOW)

    async def rows(self) -> list[Any]:
        asked = self._request("litellm", look_up=(ID,))
        read = await plugin.llmao_fetch(asked, self._client, NOW)
        assert isinstance(read, Deployments)
        return [row for row in read.rows if row.id == ID]

    async def healthy(self) -> bool | None:
        asked = self._request("litellm_health", ask=(ID,))
        read = await plugin.llmao_fetch(asked, self._client, NOW)
        assert isinstance(read, Health)
        # LiteLLM keeps the saved results of deleted rows: only an answer to us counts here.
        return read.opinions[ID].healthy if read.asked[ID].answered_at else None


async def test_the_plugin_keeps_a_real_row(proxy: LiteLLM, server: str) -> None:
    """Add, repeat, update, ask, replace and remove; an alias is no second row."""
    kinds, dead = ActionKind, "http://127.0.0.2:18009"
    async with httpx.AsyncClient(trust_env=False) as client:
        hands = Hands(proxy, client)
        assert Outcome(OutcomeKind.DONE) == await hands.do(kinds.ADD_LITELLM, server)
        assert OutcomeKind.DONE is (await hands.do(kinds.ADD_LITELLM, server)).kind
        [row] = await hands.rows()
        assert ("qwen3", server, server) == (row.model_name, row.base, row.stamped_base)
        assert translate.holds(row, body(server))
        assert await hands.healthy() is True
        flag = {"use_in_pass_through": True}
        assert (await hands.do(kinds.UPDATE_LITELLM, dead, **flag)).good
        assert await hands.healthy() is False
        assert (await hands.do(kinds.UPDATE_LITELLM, server)).good
        [row] = await hands.rows()
        assert (server, True) == (row.base, row.params["use_in_pass_through"])
        assert (await hands.do(kinds.REPLACE_LITELLM, server)).good
        [row] = await hands.rows()
        assert row.params["use_in_pass_through"] is False
        assert Outcome(OutcomeKind.DONE) == await hands.do(kinds.DELETE_LITELLM)
        assert OutcomeKind.ALREADY is (await hands.do(kinds.DELETE_LITELLM)).kind
        assert [] == await hands.rows()
        assert await hands.healthy() is None


async def test_a_row_saved_but_not_live_is_told_and_seen(proxy: LiteLLM) -> None:
    """The provider is unknown: the row is stored, and no router loads it."""
    async with httpx.AsyncClient(trust_env=False) as client:
        hands = Hands(proxy, client)
        ended = await hands.do(ActionKind.ADD_LITELLM, "http://127.0.0.2:1", model="noprovider-x")
        assert ended.said.startswith("saved_not_live: ")
        assert [False] == [row.live for row in await hands.rows()]
        assert (await hands.do(ActionKind.DELETE_LITELLM)).good
