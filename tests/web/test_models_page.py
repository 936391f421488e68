"""The page `/models`: what a view says is on it, escaped, and no secret or canonical URL is."""

import re
from html.parser import HTMLParser
from typing import Any

import httpx
import pytest
from attrs import evolve

from llmao_core.keys import Key
from llmao_core.plan import Plan
from llmao_core.records import Badge, View
from llmao_web.app import create_app
from llmao_web.pages.render import clock_time, span

from .worlds import FLEET_KEY, NOW, SALT, FakeDesk, a_plan, a_view, desk_of, fleet

MARKUP = '<script>alert("x")</script>&\'{{ 7 * 7 }}'


async def page(desk: FakeDesk) -> httpx.Response:
    app: Any = create_app(desk, fleet(), desk.clock)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://llmao.test") as client:
        answer = await client.get("/models")
    assert 200 == answer.status_code
    return answer


def full() -> FakeDesk:
    desk = desk_of(fleet())
    desk.seen, desk.planned = a_view(), a_plan()
    return desk


class Text(HTMLParser):
    """The words of a page, and its tags."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.words = ""
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_data(self, data: str) -> None:
        self.words += f" {data.strip()}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


SAYS = [
    "Gemma 4 26B",
    "● Available".removeprefix("● "),
    "203.0.113.10:8001",
    "Healthy",
    "2 h 10 min",
    "The newest probe was answered.",
    "41022",
    "32,768",
    "181,000",
    "up to 5 full-context requests",
    "3 probes in a row were refused.",
    "connection refused",
    "APIConnectionError: cannot connect",
    "next try in 40 s",
    "r1-aaaaaaaa",
    "none reported",
    "unplaced",
    "c.4711:8001",
    "on configuration alone",
    "gone-model",
    "Nobody can call qwen3-8b.",
    "c.4711:8001 is unplaced",
    "203.0.113.99 asks for a configuration.",
    "delete_litellm",
    "remove_unhealthy",
    "waits for a second opinion",
    "last ok 2 min ago",
    "body_moved",
    "runpod",
    "stale",
    "RunPod refused the key.",
    "14 in a row",
    "never",
    "No deployments yet",
    "$0.41/h",
]


@pytest.mark.parametrize("words", SAYS)
async def test_the_page_says_what_the_view_says(words: str) -> None:
    """Models, deployments, items, plan and sources."""
    assert words in Text((await page(full())).text).words


@pytest.mark.parametrize("badge", [Badge.REVISION_BEHIND, Badge.OPEN_PATHS, Badge.UNPLACED])
async def test_a_badge_comes_with_its_meaning_and_remedy(badge: Badge) -> None:
    """Without a look into the manual."""
    words = Text((await page(full())).text).words
    assert all(part in words for part in (badge.value, badge.meaning, badge.remedy))


async def test_no_secret_and_no_url_of_a_box_is_on_the_page() -> None:
    """Neither the canonical URL, which nobody may dial, nor the dialable one."""
    html = (await page(full())).text
    for hidden in (FLEET_KEY, SALT, "sk-vllm", "http://203", "http://c.4711", "openrouter.ai"):
        assert hidden not in html


def hostile() -> View:
    """Return a view in which every text is markup."""
    view = a_view()
    texts: dict[str, Any] = dict.fromkeys(
        ("rule", "because", "provider", "instance_id", "litellm_said", "write_trouble"), MARKUP
    )
    record = evolve(
        view.records[0],
        key=Key("http://203.0.113.10:8001", MARKUP, MARKUP),
        **texts,
        signal=evolve(view.records[0].signal, detail=MARKUP),
        revision_current=MARKUP,
        revision_applied=f"{MARKUP}!",
        dialable="http://[:99999",
    )
    names: dict[str, Any] = {"name": MARKUP, "display_name": MARKUP, "summary": MARKUP}
    trouble = view.sources[1].trouble
    assert trouble is not None
    return evolve(
        view,
        records=(record, evolve(record, key=Key("x", MARKUP, MARKUP))),
        models=(evolve(view.models[0], keys=(record.key,), **names),),
        items=(evolve(view.items[0], sentence=MARKUP, evidence=(MARKUP,), host=MARKUP),),
        sources=(evolve(view.sources[1], name=MARKUP, trouble=evolve(trouble, message=MARKUP)),),
        hosts=(evolve(view.hosts[0], gpu=MARKUP),),
    )


async def test_markup_in_names_and_labels_is_text() -> None:
    """Whatever a provider, a box or LiteLLM calls itself."""
    desk = full()
    desk.seen = hostile()
    action = a_plan().actions[0]
    desk.planned = Plan((evolve(action, reason=MARKUP, rule=MARKUP, evidence=(MARKUP,)),))
    html = (await page(desk)).text
    assert "<script" not in html
    assert html.count("&lt;script&gt;") > 15
    assert "{{ 7 * 7 }}" in html


async def test_nothing_is_inline_and_nothing_comes_from_elsewhere() -> None:
    """The policy forbids it, so it would not work."""
    tags = Text((await page(full())).text).tags
    assert not [tag for tag, _ in tags if tag in ("script", "style", "iframe")]
    assert not [attrs for _, attrs in tags if any(name.startswith("on") for name in attrs)]
    assert not [attrs for _, attrs in tags if "style" in attrs or "http-equiv" in attrs]
    links = [attrs.get("href") or attrs.get("src") for _, attrs in tags]
    assert not [link for link in links if link and not link.startswith(("/", "#"))]


async def test_the_page_is_read_again_by_itself_and_kept_by_nobody() -> None:
    """Until it is live."""
    answer = await page(full())
    assert ("5", "no-store") == (answer.headers["refresh"], answer.headers["cache-control"])


async def test_before_the_first_pass_it_says_what_is_missing() -> None:
    """An empty page is no news."""
    desk = desk_of(fleet())
    desk.missing = ("litellm", "vast")
    words = Text((await page(desk)).text).words
    assert "No pass has run yet" in words
    assert "litellm, vast" in words


async def test_an_empty_view_says_what_to_do() -> None:
    """Every empty part has its sentence."""
    desk = desk_of(fleet())
    desk.seen, desk.planned = View(at=NOW), Plan()
    words = Text((await page(desk)).text).words
    for part in ("Nothing needs you", "No models yet", "Nothing to do", "No sources yet"):
        assert part in words


async def test_headings_and_tables_are_named() -> None:
    """For those who hear the page: one h1, captions, scopes, labelled sections."""
    html = (await page(full())).text
    tags = Text(html).tags
    assert 1 == sum(tag == "h1" for tag, _ in tags)
    assert sum(tag == "table" for tag, _ in tags) == sum(tag == "caption" for tag, _ in tags)
    ids = {attrs["id"] for _, attrs in tags if "id" in attrs}
    assert {attrs["aria-labelledby"] for _, attrs in tags if "aria-labelledby" in attrs} <= ids
    assert re.search(r'<html lang="en">', html)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "0 s"),
        (0.9, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (3599, "59 min"),
        (3600, "1 h"),
        (7800, "2 h 10 min"),
        (86400, "1 d"),
        (270000, "3 d 3 h"),
    ],
)
def test_a_span_is_said_in_two_units_at_most(seconds: float, words: str) -> None:
    """Short enough for a table."""
    assert words == span(seconds)


@pytest.mark.parametrize("at", [1e300, float("inf"), float("nan"), -1e18])
def test_a_time_that_is_none_is_no_crash(at: float) -> None:
    """LiteLLM may answer any number."""
    assert "" == clock_time(at)
