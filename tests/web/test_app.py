"""The application around the handlers: headers, health, errors, hostile paths."""

from typing import Any

import httpx
import pytest
import structlog
from tests.shell.office_world import config, rig

from llmao_core.errors import LlmaoError
from llmao_web.app import LARGEST_BODY_BYTES, SECURITY_HEADERS, create_app
from llmao_web.shell.leader import Alone, Leadership

from .worlds import FLEET_KEY, FakeDesk, a_view, desk_of, fleet


class Elected(Alone):
    """Leads, or what a test says instead."""

    found = Leadership("east", here=True, known=True)

    def leadership(self) -> Leadership:
        """Return what is known of who leads."""
        return self.found


BROWSER = {"accept": "text/html,application/xhtml+xml"}


async def ask(
    path: str | httpx.URL, desk: FakeDesk | None = None, method: str = "GET", **given: Any
) -> httpx.Response:
    desk = desk or desk_of(fleet())
    app: Any = create_app(desk, fleet(), desk.clock)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        return await client.request(method, path, **given)


@pytest.mark.parametrize(
    "path",
    ["/", "/models", "/healthz", "/readyz", "/vllm/config", "/static/llmao.css", "/nothing"],
)
async def test_every_answer_has_the_security_headers(path: str) -> None:
    """Errors, redirects and files included."""
    answer = await ask(path)
    assert SECURITY_HEADERS == {name: answer.headers.get(name) for name in SECURITY_HEADERS}


def test_the_policy_allows_no_script_and_nothing_inline() -> None:
    """Nothing but our own style sheet and images, in no frame."""
    policy = SECURITY_HEADERS["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy


async def test_the_process_is_healthy_before_anything_is_read() -> None:
    """A provider's outage must not get llmao restarted."""
    answer = await ask("/healthz", FakeDesk(missing=("vast",)))
    assert (200, {"status": "ok"}) == (answer.status_code, answer.json())


async def test_it_is_ready_once_every_source_was_tried() -> None:
    """503 with what is missing until then."""
    waiting = await ask("/readyz", FakeDesk(missing=("litellm", "vast")))
    assert 503 == waiting.status_code
    assert {"ready": False, "reasons": ["litellm", "vast"]} == waiting.json()
    follows = await ask("/readyz", FakeDesk(missing=("leadership",)))
    assert (503, ["leadership"]) == (follows.status_code, follows.json()["reasons"])
    ready = await ask("/readyz")
    assert (200, {"ready": True, "reasons": []}) == (ready.status_code, ready.json())


async def test_it_is_ready_once_it_was_known_who_leads_and_stays_so() -> None:
    """Before the election it is not; a store that is gone takes no page out of rotation."""
    lead = Elected()
    async with rig(lead=lead) as world:
        app: Any = create_app(world.service.board, config(), world.clock)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            lead.found = Leadership("", here=False, known=False, ever_known=False)
            assert ["leadership"] == (await client.get("/readyz")).json()["reasons"]
            lead.found = Leadership("", here=False, known=False)
            assert 200 == (await client.get("/readyz")).status_code


async def test_the_front_door_leads_to_the_models() -> None:
    """One page says most."""
    answer = await ask("/")
    assert (302, "/models") == (answer.status_code, answer.headers["location"])


async def test_a_person_is_shown_a_page_for_an_error() -> None:
    """With a way back, and nothing of what was asked in it."""
    answer = await ask("/<script>alert(1)</script>", headers=BROWSER)
    assert 404 == answer.status_code
    assert answer.headers["content-type"].startswith("text/html")
    assert 'href="/models"' in answer.text
    assert "alert(1)" not in answer.text


async def test_a_machine_is_given_json_for_an_error() -> None:
    """One shape for all."""
    answer = await ask("/nothing")
    assert {"error": {"code": "not_found", "message": "There is nothing at this address."}} == (
        answer.json()
    )
    for_boxes = await ask("/vllm/nothing", headers=BROWSER)
    assert "not_found" == for_boxes.json()["error"]["code"]


HOSTILE = [
    "/static/../app.py",
    "/static/..%2f..%2fapp.py",
    "/static/%2e%2e/%2e%2e/app.py",
    "/static//etc/passwd",
    "/static/%00",
    "/%ff%fe",
    "/models/../../etc/passwd",
    "//evil.example/x",
    "/" + "a" * 5000,
    "/models/%3Cscript%3E",
    "/static/",
    "/static/" + "a" * 5000,
    "/static/llmao.css/..",
]


@pytest.mark.parametrize("path", HOSTILE)
async def test_a_hostile_path_is_404(path: str) -> None:
    """No file of ours or the machine's, no crash, no echo."""
    url = httpx.URL(scheme="http", host="127.0.0.1", raw_path=path.encode())
    answer = await ask(url)
    assert 404 == answer.status_code
    assert "script" not in answer.text


@pytest.mark.parametrize(
    "headers",
    [
        [(b"accept", b"\xff\xfe")],
        [(b"cookie", b"=;=;\xff" * 100)],
        [(b"x-http-method-override", b"DELETE"), (b"x-original-url", b"/evil.example")],
        [(b"content-length", b"99999999999")],
        [(b"range", b"bytes=0-0,-1")],
    ],
)
async def test_hostile_headers_change_nothing(headers: list[tuple[bytes, bytes]]) -> None:
    """The page is the page."""
    answer = await ask("/models", headers=headers)
    assert 200 == answer.status_code
    assert "evil.example" not in answer.text + str(answer.headers)


async def test_a_large_body_is_refused() -> None:
    """At any address that takes one."""
    answer = await ask(
        "/vllm/notice",
        method="POST",
        content=b"x" * (LARGEST_BODY_BYTES + 1),
        headers={"authorization": f"Bearer {FLEET_KEY}", "x-llmao-host": "c.4711"},
    )
    assert (413, "request_entity_too_large") == (
        answer.status_code,
        answer.json()["error"]["code"],
    )


class Broken(FakeDesk):
    """A desk whose plan cannot be had."""

    error: Exception = RuntimeError("sk-secret-inside")

    def plan(self) -> Any:
        raise self.error


async def test_an_unexpected_error_says_nothing_of_its_inside() -> None:
    """The log has it; the caller has a sentence."""
    for headers in ({}, BROWSER):
        with structlog.testing.capture_logs() as lines:
            answer = await ask("/models", Broken(seen=a_view()), headers=headers)
        assert ["request failed"] == [line["event"] for line in lines]
        assert 500 == answer.status_code
        assert "sk-secret-inside" not in answer.text
        assert "Traceback" not in answer.text


async def test_our_own_error_says_its_sentence() -> None:
    """Messages of LlmaoError are written for people and hold no secret."""
    desk = Broken(seen=a_view())
    desk.error = LlmaoError("The journal is full: free some space.")
    with structlog.testing.capture_logs():
        answer = await ask("/models", desk)
    assert "free some space" in answer.text


@pytest.mark.parametrize("path", ["/", "/models", "/signin"])
async def test_head_is_get_without_the_body(path: str) -> None:
    """With the headers of the page."""
    got, head = await ask(path), await ask(path, method="HEAD")
    assert b"" == head.content
    assert got.status_code == head.status_code
    assert got.headers.get("content-length") == head.headers.get("content-length")


async def test_head_of_nothing_has_no_body() -> None:
    """As HTTP says."""
    answer = await ask("/nothing", method="HEAD")
    assert (404, b"") == (answer.status_code, answer.content)


async def test_the_style_sheet_is_served_and_kept() -> None:
    """By llmao itself, under an address that changes with it."""
    page = await ask("/models")
    address = page.text.partition('rel="stylesheet" href="')[2].partition('"')[0]
    assert address.startswith("/static/llmao.css?v=")
    answer = await ask(address)
    assert 200 == answer.status_code
    assert "immutable" in answer.headers["cache-control"]
