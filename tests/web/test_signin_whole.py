"""The whole of the web, with everything behind it: what must show nowhere, and who gets nowhere."""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from attrs import evolve
from structlog.testing import capture_logs
from tests.shell.office_world import config, rig

from llmao_core.records import View
from llmao_web.app import create_app
from llmao_web.shell.secrets_in import secrets_in

from .signing import ADMIN_TOKEN, BY_PASSWORD, TOKENS, Browser, app_of, config_of
from .test_api import OPENAPI, bearer
from .test_deeds import browser
from .worlds import a_view, desk_of

GUARDED = evolve(config(), auth=BY_PASSWORD, api_tokens=TOKENS)
ADMINS_PAGES = {"/models", "/boxes", "/admin"}
_LINK = re.compile(r'(?:href|src|action)="(/[^"#]*)')


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with capture_logs():
        yield


async def crawled(visitor: Browser, starts: list[str]) -> dict[str, str]:
    """Return every page of ours that can be reached and every answer of the API, by path."""
    spec = (await visitor.get(OPENAPI)).json()
    view = (await visitor.get("/api/v1/view", headers=bearer(ADMIN_TOKEN))).json()
    ids = [*(each["id"] for each in view["deployments"]), "nothing"]
    waiting = [*starts, OPENAPI, *(path for path in spec["paths"] if "{" not in path)]
    waiting += [f"/api/v1/deployments/{quote(each)}" for each in ids]
    pages: dict[str, str] = {}
    while waiting and len(pages) < 300:
        path = waiting.pop().replace("&amp;", "&")
        if path in pages or path.startswith("/do-"):
            continue
        answer = await visitor.get(path, headers=bearer(ADMIN_TOKEN) if "/api/" in path else {})
        pages[path] = f"{answer.text}{dict(answer.headers)}".replace(visitor.cookie, "its own")
        if "html" in answer.headers.get("content-type", ""):
            waiting += _LINK.findall(answer.text)
    return pages


def hidden(view: View, *sources: Any) -> dict[str, str]:
    """Return what must show nowhere, by a word for it."""
    secrets = {each.reveal() for source in sources for each in secrets_in(source)} - {"", "k"}
    urls = {record.key.base for record in view.records}
    return {f"secret {at}": text for at, text in enumerate(sorted(secrets))} | {
        f"canonical URL {at}": text for at, text in enumerate(sorted(urls))
    }


def leaks(pages: dict[str, str], words: dict[str, str]) -> list[tuple[str, str]]:
    return [
        (path, name) for path, page in pages.items() for name, text in words.items() if text in page
    ]


async def test_no_secret_and_no_canonical_url_is_anywhere() -> None:
    """Every page an admin can reach and every answer of the API, of a service that runs."""
    async with rig(GUARDED) as world:
        visitor = browser(world, url="http://127.0.0.1:8080")
        await visitor.sign_in()
        pages = await crawled(visitor, [*ADMINS_PAGES, "/models?as=caller", "/signin"])
        board = world.service.board
        view, intended = board.view(), board.intended()
        assert view
        words = hidden(view, GUARDED, intended, view)
    assert pages.keys() >= ADMINS_PAGES
    assert any(path.startswith("/deployments/") for path in pages)
    assert len(words) > 8
    assert [] == leaks(pages, words)


async def test_nothing_of_a_busy_view_leaks_either() -> None:
    """With probes, errors, badges, an orphan and a commercial deployment in it."""
    given = config_of()
    app, desk = app_of(given)
    visitor = Browser(app)
    await visitor.sign_in()
    pages = await crawled(visitor, ["/models", "/models?as=caller"])
    assert [] == leaks(pages, hidden(a_view(), given, desk.what))


async def test_the_search_finds_what_is_there() -> None:
    """Or it would prove nothing: a secret shown on purpose is found."""
    given = config_of()
    desk = desk_of(given)
    desk.seen = a_view()
    item = evolve(a_view().items[0], sentence="sk-shown-on-purpose")
    desk.seen = evolve(a_view(), items=(item,))
    visitor = Browser(create_app(desk, given, desk.clock))
    await visitor.sign_in()
    pages = await crawled(visitor, ["/models"])
    found = {path for path, _ in leaks(pages, {"planted": "sk-shown-on-purpose"})}
    assert {"/models", "/api/v1/view", "/api/v1/items"} == found


@pytest.mark.parametrize("callers", ["signed_in", "everybody"])
async def test_a_stranger_does_nothing_and_writes_nothing_down(callers: Any) -> None:
    """Not even a refusal in the ledger, which anybody could then fill."""
    given = evolve(GUARDED, auth=evolve(BY_PASSWORD, callers=callers))
    async with rig(given) as world:
        stranger = browser(world, url="http://127.0.0.1:8080")
        paths = [route.path for route in stranger.app.routes if route.path.startswith("/do-")]
        assert len(paths) > 10
        for path in set(paths) - {"/do-sign-in", "/do-sign-out"}:
            answer = await stranger.post(path, {"csrf": await stranger.csrf()})
            assert 401 == answer.status_code, path
        assert [] == world.kinds()


async def test_what_is_not_said_to_be_for_callers_is_for_admins() -> None:
    """Every address there is, as a stranger asks for it: a handler nobody thought about is shut."""
    async with rig(GUARDED) as world:
        stranger = browser(world, url="http://127.0.0.1:8080")
        # what boxes, load balancers and browsers ask for, and the way in
        free = (
            "/vllm/",
            "/box/",
            "/healthz",
            "/readyz",
            "/metrics",
            "/static/",
            "/signin",
            "/do-sign",
        )
        shut = [
            route.path
            for route in stranger.app.routes
            if not route.path.startswith((*free, OPENAPI))
        ]
        assert {*ADMINS_PAGES, "/api/v1/view", "/live", "/"} <= set(shut)
        for path in shut:
            asked = re.sub(r"\{[^}]*\}", "x", path)
            answer = await stranger.client.request("GET", asked, headers={"accept": "text/plain"})
            assert answer.status_code in (401, 405), path
