"""The JSON API: what it tells whom, how it is described, and that it stands up to anything."""

from typing import Any

import httpx
import pytest
import schemathesis
from attrs import evolve
from hypothesis import HealthCheck, settings
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from llmao_core.actions import Outcome, OutcomeKind
from llmao_core.config import ApiToken
from llmao_core.secret import Secret
from llmao_web.app import create_app
from llmao_web.limit import BURST
from llmao_web.shell.ledger import Entry, EntryKind, carried_out
from llmao_web.shell.store import MemoryStore, Transition

from .signing import ADMIN_TOKEN, BY_PASSWORD, READ_TOKEN, Browser, config_of
from .worlds import NOW, FakeClock, a_plan, a_view, desk_of

OPENAPI = "/api/v1/openapi.json"
MODELS = "/api/v1/models"
VIEW = "/api/v1/view"


def store() -> MemoryStore:
    plan, view = a_plan(), a_view()
    moved = [Transition(NOW - 100, each.key, "Loading", "Healthy") for each in view.records]
    entries = [carried_out(each, NOW, Outcome(OutcomeKind.DONE)) for each in plan.actions]
    made = MemoryStore(
        *entries,
        Entry(NOW, "alice", EntryKind.LABELLED, "c.4711", detail={"label": "mine", "note": "é"}),
        *(Entry(NOW, "bob", EntryKind.SIGNED_IN) for _ in range(7)),
    )
    made.moves.extend(moved)
    return made


def app_of(clock: FakeClock | None = None, **auth: Any) -> Any:
    config = config_of(evolve(BY_PASSWORD, **auth))
    desk = desk_of(config)
    desk.clock = clock or desk.clock
    desk.seen, desk.planned = a_view(), a_plan()
    return create_app(desk, config, desk.clock, store())


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}", "accept": "application/json"}


async def ask(path: str, token: str = ADMIN_TOKEN, app: Any = None, **given: Any) -> httpx.Response:
    visitor = Browser(app or app_of())
    return await visitor.client.get(path, headers=bearer(token) if token else {}, **given)


async def described() -> Any:
    return (await ask(OPENAPI, "")).json()


# ---- who may


async def test_without_a_token_there_is_no_answer() -> None:
    """401 with how to sign in, as JSON whatever the client would like best."""
    visitor = Browser(app_of())
    for path in (MODELS, VIEW, "/api/v1/deployments/x"):
        answer = await visitor.get(path)
        assert 401 == answer.status_code
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert "unauthorized" == answer.json()["error"]["code"]
        assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    "header",
    [
        *("Bearer wrong", "Bearer ", f"Bearer {ADMIN_TOKEN}x", f"Bearer {ADMIN_TOKEN[:-1]}"),
        *(f"Bearer {ADMIN_TOKEN.upper()}", "bearer é", f"Bearer {ADMIN_TOKEN} {ADMIN_TOKEN}"),
    ],
)
async def test_a_wrong_token_is_refused(header: str) -> None:
    """And says so, though somebody may be signed in besides."""
    visitor = Browser(app_of())
    await visitor.sign_in()
    answer = await visitor.get(VIEW, headers=[("authorization", header.encode())])
    assert (401, True) == (
        answer.status_code,
        "invalid_token" in answer.headers["www-authenticate"],
    )


async def test_two_tokens_are_none() -> None:
    """What a proxy joined cannot be told apart from what somebody added."""
    headers = [("authorization", f"Bearer {ADMIN_TOKEN}")] * 2
    assert 401 == (await Browser(app_of()).get(VIEW, headers=headers)).status_code


async def test_guessing_tokens_is_slowed_down() -> None:
    """Per address; the right token is still heard, since comparing it costs nothing."""
    app = app_of()
    for _ in range(BURST):
        assert 401 == (await ask(VIEW, "wrong", app)).status_code
    answer = await ask(VIEW, "wrong", app)
    assert (429, True) == (answer.status_code, int(answer.headers["retry-after"]) > 0)
    assert 200 == (await ask(VIEW, app=app)).status_code


async def test_a_token_may_stand_in_the_file_as_its_hash() -> None:
    """As sha256sum prints it."""
    token = ApiToken(
        "x",
        hash=Secret("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"),
        role="admin",
    )
    config = evolve(config_of(), api_tokens=(token,))
    desk = desk_of(config)
    desk.seen = a_view()
    app = create_app(desk, config, desk.clock)
    assert 200 == (await ask(VIEW, "test", app)).status_code
    assert 401 == (await ask(VIEW, "test2", app)).status_code
    assert 401 == (await ask(VIEW, token.hash.reveal() if token.hash else "", app)).status_code


async def test_a_caller_sees_the_models_and_nothing_else() -> None:
    """Not how they are served; every other address is 403."""
    paths = [path for path in (await described())["paths"] if path != MODELS]
    for path in paths:
        answer = await ask(path, READ_TOKEN)
        assert (403, "forbidden") == (answer.status_code, answer.json()["error"]["code"]), path
    answer = await ask(MODELS, READ_TOKEN)
    assert [None] * 4 == [each["replicas"] for each in answer.json()["models"]]
    for word in ("203.0.113", "c.4711", "healthy of", "llmao-"):
        assert word not in answer.text


async def test_an_admin_sees_how_models_are_served() -> None:
    """With the ids under which the deployments can be asked for."""
    model = (await ask(MODELS)).json()["models"][0]
    assert "1 healthy of 1" == model["replicas"]["summary"]
    (name,) = model["replicas"]["deployments"]
    said = (await ask(f"/api/v1/deployments/{name}")).json()
    assert "203.0.113.10:41022" == said["deployment"]["address"]
    assert "update_litellm" == said["action"]["kind"]
    assert ["Healthy"] == [each["after"] for each in said["transitions"]]


async def test_a_box_is_shown_by_host_and_port_and_a_provider_not_at_all() -> None:
    """Where a model provider is asked is nobody's business."""
    shown = {
        each["key"]["shown"]: each["address"] for each in (await ask(VIEW)).json()["deployments"]
    }
    assert "203.0.113.10:41022" == shown["203.0.113.10:8001"]
    assert ("", "") == (shown["c.4711:8001"], shown["openrouter"])


async def test_a_model_has_the_details_of_its_page() -> None:
    """For callers, too."""
    for token in (ADMIN_TOKEN, READ_TOKEN):
        models = (await ask(MODELS, token)).json()["models"]
        told = {each["name"]: each["details"] for each in models}
        assert {"Weights": "google/gemma-4-26b-it"} == told["gemma4-26b"]
        assert {} == told["claude-x"]


async def test_who_is_signed_in_may_read() -> None:
    """With the cookie alone, and only with GET."""
    visitor = Browser(app_of())
    await visitor.sign_in()
    assert 200 == (await visitor.get(VIEW)).status_code
    assert (await visitor.post(VIEW, {})).status_code in (403, 405)


async def test_everybody_may_read_the_models_when_that_is_configured() -> None:
    """auth.callers: everybody."""
    app = app_of(callers="everybody")
    assert 200 == (await ask(MODELS, "", app)).status_code
    assert 401 == (await ask(VIEW, "", app)).status_code


# ---- what it says


async def test_before_the_first_pass_it_says_to_ask_again() -> None:
    """503 with when."""
    config = config_of()
    desk = desk_of(config)
    answer = await ask(VIEW, app=create_app(desk, config, desk.clock))
    assert (503, "5") == (answer.status_code, answer.headers["retry-after"])
    assert "No pass has run yet; ask again." == answer.json()["error"]["message"]


async def test_the_ledger_is_read_page_by_page() -> None:
    """Newest first, each entry once, null at the end."""
    app, seen, before = app_of(), [], 0
    for _ in range(10):
        asked = f"/api/v1/actions?limit=3&before={before}"
        page = (await ask(asked, app=app)).json()
        seen += [each["number"] for each in page["entries"]]
        before = page["before"]
        if before is None:
            break
    assert list(range(10, 0, -1)) == seen
    signed_in = (await ask("/api/v1/actions?kind=signed%20in", app=app)).json()["entries"]
    assert {"signed in"} == {each["kind"] for each in signed_in}


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=1001", "limit=x", "before=-1", "kind=nothing", f"before={'9' * 30}"]
)
async def test_a_wrong_question_is_answered_with_400(query: str) -> None:
    """In the one shape of an error."""
    answer = await ask(f"/api/v1/actions?{query}")
    assert (400, "bad_request") == (answer.status_code, answer.json()["error"]["code"])


async def test_nothing_of_the_api_is_kept() -> None:
    """No cache holds what an admin saw."""
    for path in (MODELS, VIEW, "/api/v1/actions", "/api/v1/nothing", "/api/v1/deployments/x"):
        assert "no-store" == (await ask(path)).headers.get("cache-control"), path


# ---- how it is described


async def test_the_description_is_openapi_3_1_with_examples() -> None:
    """Every answer has an example, and the example has the shape that is promised."""
    spec = await described()
    assert "3.1" == spec["openapi"][:3]
    for path, operations in spec["paths"].items():
        assert {"get"} == set(operations), path
        for status, said in operations["get"]["responses"].items():
            media = said["content"]["application/json"]
            schema = {**media["schema"], "components": spec["components"]}
            examples = [each["value"] for each in media["examples"].values()]
            assert examples, (path, status)
            for example in examples:
                Draft202012Validator(schema).validate(example)


async def test_only_the_api_is_described() -> None:
    """Pages, forms and what boxes ask for are no promise to programs."""
    assert {True} == {path.startswith("/api/v1/") for path in (await described())["paths"]}


clock = FakeClock()
schema = schemathesis.openapi.from_asgi(OPENAPI, app_of(clock))


@schema.auth()
class WithToken:
    """How the fuzzer presents the token; some of its requests leave it out on purpose."""

    def get(self, case: Any, context: Any) -> str:
        return ADMIN_TOKEN

    def set(self, case: Any, data: str, context: Any) -> None:
        case.headers["Authorization"] = f"Bearer {data}"


@schema.parametrize()
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
def test_it_stands_up_to_anything(case: Any) -> None:
    """No question ends in a 500, and every answer is one that the description promises."""
    clock.at += 60  # or the fuzzer's wrong tokens would make it wait
    case.call_and_validate()
