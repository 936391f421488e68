"""Pages at their edges: doors, errors, and what is empty say what is so and where to go on."""

from typing import Any

import httpx
import pytest
from attrs import evolve

from llmao_core.config import AuthConfig, OidcConfig
from llmao_core.plan import Plan
from llmao_core.records import SourceView, View
from llmao_core.secret import Secret
from llmao_core.snapshots import SourceState

from .signing import BY_PASSWORD, BY_PROXY, SESSION_KEY, Browser, app_of, config_of
from .visiting import ADMIN, CALLER, Text, full, visit
from .worlds import NOW, FakeDesk, desk_of, fleet

OIDC = OidcConfig("https://id.example.org", "llmao", Secret("of-llmao"))
BY_OIDC = AuthConfig("oidc", session_key=Secret(SESSION_KEY), oidc=OIDC)


@pytest.mark.parametrize(
    ("auth", "says"),
    [
        (BY_PASSWORD, "Password"),
        (BY_OIDC, "You sign in at the provider"),
        (BY_PROXY, "the header that the proxy sends"),
    ],
)
async def test_the_door_says_what_to_do_and_leads_nowhere_else(auth: AuthConfig, says: str) -> None:
    """A link to a page that leads back here is none."""
    app, _ = app_of(config_of(auth))
    html = (await Browser(app).get("/signin")).text
    assert says in Text(html).words
    assert "<nav" not in html


@pytest.mark.parametrize(
    ("name", "path", "status", "says"),
    [
        (ADMIN, "/nothing", 404, "gone for good"),
        (CALLER, "/boxes/c.1", 404, "There is nothing at this address"),
        (CALLER, "/deployments/x", 403, "Only an admin may do or see this."),
    ],
)
async def test_an_error_page_says_what_it_is_and_where_to_go_on(
    name: str, path: str, status: int, says: str
) -> None:
    """In a sentence, with its number for who is asked about it."""
    answer = await visit(full(), path, name)
    assert status == answer.status_code
    words = Text(answer.text).words
    assert says in words
    assert f"Error {status}" in words
    assert 'href="/models"' in answer.text


async def test_an_error_page_keeps_what_its_visitor_can_reach(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An admin is still one when llmao makes a mistake, and learns nothing of its inside."""

    def mistaken(_: Any) -> None:
        raise RuntimeError("sk-inside")

    monkeypatch.setattr(FakeDesk, "view", mistaken)
    answer = await visit(full())
    assert 500 == answer.status_code
    assert 'href="/admin"' in answer.text
    assert "LiteLLM goes on serving them" in answer.text
    assert "sk-inside" not in answer.text


async def plan_said(state: SourceState) -> str:
    desk = desk_of(fleet())
    source = SourceView("litellm", state, None, 60.0)
    desk.seen, desk.planned = View(at=NOW, sources=(source,)), Plan()
    answer: httpx.Response = await visit(desk)
    return Text(answer.text).words


@pytest.mark.parametrize("state", [SourceState.UNREAD, SourceState.STALE])
async def test_an_empty_plan_is_no_good_news_while_litellm_is_unread(state: SourceState) -> None:
    """Nothing is planned then because nothing is known, and that is said."""
    assert "Nothing to do" not in await plan_said(state)
    assert "Nothing is planned: what LiteLLM has is not known now." in await plan_said(state)


async def test_an_empty_plan_is_good_news_when_litellm_was_read() -> None:
    """Then LiteLLM is as intended."""
    assert "Nothing to do: LiteLLM is as intended." in await plan_said(SourceState.FRESH)


async def test_a_fresh_llmao_without_models_says_how_to_begin() -> None:
    """To admins; callers are told whom to ask."""
    desk = full()
    assert desk.seen is not None
    desk.seen = evolve(desk.seen, models=())
    assert 'href="/admin#config"' in (await visit(desk)).text
    told = Text((await visit(desk, name=CALLER)).text).words
    assert "Ask who runs this llmao." in told
    assert "models.yaml" not in told
