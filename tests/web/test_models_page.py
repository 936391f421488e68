"""The page `/models`: what a view says is on it, escaped, and no secret or canonical URL is."""

import re
from typing import Any

import httpx
import pytest
from attrs import evolve

from llmao_core.actions import ActionKind
from llmao_core.keys import Key
from llmao_core.plan import Hold, Plan
from llmao_core.records import AttentionItem, Availability, Badge, ItemKind, Kind, View
from llmao_core.verdicts import Lifecycle
from llmao_web.pages.models import MORE_SHOWN, OPEN_LINES, ModelsPages
from llmao_web.pages.names import element, fetch_tone
from llmao_web.pages.render import Renderer, clock_time, span
from llmao_web.pages.sheet import change
from llmao_web.pages.work import ALIKE_SHOWN

from .visiting import CALLER, MARKUP, Text, full, visit
from .worlds import FLEET_KEY, NOW, SALT, FakeDesk, a_plan, a_view, desk_of, fleet


async def page(desk: FakeDesk) -> httpx.Response:
    answer = await visit(desk)
    assert 200 == answer.status_code
    return answer


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
    "not checked",
    "gone-model",
    "Nobody can call qwen3-8b.",
    "c.4711:8001 is unplaced",
    "203.0.113.99 asks for a configuration.",
    "Remove from LiteLLM",
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


def packed(text: str) -> str:
    """Return a text without spaces, and without what marks what is to be typed."""
    return "".join(text.replace("`", "").split())


@pytest.mark.parametrize("badge", [Badge.REVISION_BEHIND, Badge.OPEN_PATHS, Badge.UNPLACED])
async def test_a_badge_comes_with_its_meaning_and_remedy(badge: Badge) -> None:
    """Called by words, with its code for the manual, and what is to be typed set apart."""
    html = (await page(full())).text
    words = packed(Text(html).words)
    assert all(packed(part) in words for part in (badge.label, badge.meaning, badge.remedy))
    assert f"<code>{badge.value}</code>" in html


async def test_an_item_says_what_to_do() -> None:
    """Beside what is wrong, with commands set apart and its code for the manual."""
    desk = full()
    item = AttentionItem("d", ItemKind.DOWN, "a is down.", remedy="Type `reboot` <now>.")
    desk.seen = evolve(a_view(), items=(item,))
    html = (await page(desk)).text
    assert "<strong>What to do:</strong> Type <code>reboot</code> &lt;now&gt;.</p>" in html
    assert "<code>down</code>" in html


async def test_an_item_about_a_box_leads_to_its_page() -> None:
    """If it has one: who only asks has none yet."""
    desk = full()
    items = [
        AttentionItem(host, ItemKind.SERVES_NOTHING, "Costs.", host=host)
        for host in ("203.0.113.10", "203.0.113.99")
    ]
    desk.seen = evolve(a_view(), items=tuple(items))
    html = (await page(desk)).text
    assert 'href="/boxes/203.0.113.10"' in html
    assert 'href="/boxes/203.0.113.99"' not in html


async def test_what_an_orphan_serves_stands_with_its_model() -> None:
    """In the table of the model, as what it is, and not among other deployments."""
    desk, view = full(), a_view()
    record = view.records[0]._replace(kind=Kind.ORPHAN)
    model = evolve(view.models[0], keys=(), orphans=(record.key,), summary="1 orphan still serving")
    desk.seen = evolve(view, records=(record,), models=(model,))
    html = (await page(desk)).text
    assert "1 orphan still serving" in html
    assert '<span class="flag plain">orphan</span>' in html
    assert "Other deployments" not in html
    assert "No deployments yet" not in html


def opened(html: str) -> int:
    return len(re.findall(r'<details class="deployments-of" id="[^"]+" open>', html))


@pytest.mark.parametrize(
    ("availability", "life", "tables"),
    [
        (Availability.UNAVAILABLE, Lifecycle.UNHEALTHY, 1),
        (Availability.DEGRADED, Lifecycle.UNHEALTHY, 1),
        (Availability.UNKNOWN, Lifecycle.UNHEALTHY, 1),
        (Availability.AVAILABLE, Lifecycle.HEALTHY, 0),
        (Availability.AVAILABLE, Lifecycle.UNHEALTHY, 0),
        (Availability.AVAILABLE, Lifecycle.LOADING, 1),
        (Availability.AVAILABLE, Lifecycle.AWAITING, 1),
    ],
)
async def test_a_table_is_open_when_its_model_fails_callers_or_a_server_is_on_its_way(
    availability: Availability, life: Lifecycle, tables: int
) -> None:
    """What fails has its item on top; nothing else shows how far a server is that loads."""
    desk, view = full(), a_view()
    one = view.records[1]._replace(lifecycle=life)
    model = evolve(view.models[1], keys=(one.key,), availability=availability)
    desk.seen = evolve(view, models=(model,), records=(one,))
    assert tables == opened((await page(desk)).text)


async def test_a_long_table_is_folded_whatever_is_wrong() -> None:
    """On a telephone all of them would be a page of a hundred screens."""
    desk, view = full(), a_view()
    model, one = view.models[1], view.records[1]
    keys = [evolve(one.key, model=f"{number}") for number in range(OPEN_LINES + 1)]
    for count, tables in ((OPEN_LINES, 1), (OPEN_LINES + 1, 0)):
        records = tuple(one._replace(key=key) for key in keys[:count])
        availability = Availability.UNAVAILABLE
        seen = evolve(
            model, keys=tuple(record.key for record in records), availability=availability
        )
        desk.seen = evolve(view, records=records, models=(seen,))
        assert tables == opened((await page(desk)).text)


def placed_as(html: str, *names: str) -> list[str]:
    """Return names of models in the order of their places on a page."""
    return sorted(names, key=lambda name: html.index(f"<code>{name}</code>"))


async def test_the_worst_model_comes_first_for_admins() -> None:
    """Callers find their model where it always is; what is placed nowhere fails nobody."""
    desk, view = full(), a_view()
    [first] = [model for model in view.models if model.name == "gemma4-26b"]
    states = {"a": "AVAILABLE", "b": "UNKNOWN", "c": "DEGRADED", "d": "UNAVAILABLE"}
    models = [evolve(first, name=name, availability=Availability[word]) for name, word in
              states.items()]  # fmt: skip
    nowhere = evolve(models[3], name="e", keys=())
    desk.seen = evolve(view, models=(nowhere, *models))
    assert list("dcbae") == placed_as((await page(desk)).text, *"abcde")
    caller = await visit(desk, path="/models?as=caller")
    assert list("eabcd") == placed_as(caller.text, *"abcde")


async def test_an_open_page_is_told_when_another_model_is_the_worst() -> None:
    """Sections that stand there already are moved, and none is sent anew for it."""
    desk, view = full(), a_view()
    pages = ModelsPages(desk, desk.clock, Renderer("demo", desk.clock), "demo")
    before = pages.made(admin=True).sheet
    fails = evolve(view.models[0], availability=Availability.UNAVAILABLE)
    desk.seen = evolve(view, models=(fails, *view.models[1:]))
    moved = change(before, pages.made(admin=True).sheet)
    assert moved is not None
    place = f"{element('m', fails.name)}-section"
    assert place != before.lists["models"][0]
    assert place == moved.lists["models"][0]
    assert place not in moved.parts


@pytest.mark.parametrize(("kind", "word"), [(Kind.FOREIGN, "not llmao&#39;s"), (Kind.INTENDED, "")])
async def test_where_a_deployment_comes_from_is_said_in_words(kind: Kind, word: str) -> None:
    """`Foreign` is a lifecycle, and must not be two things."""
    desk, view = full(), a_view()
    desk.seen = evolve(view, records=(view.records[0]._replace(kind=kind),))
    html = (await page(desk)).text
    assert bool(word) is (f'<span class="flag plain">{word}</span>' in html)
    assert ">foreign<" not in html


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
    record = view.records[0]._replace(
        key=Key("http://203.0.113.10:8001", MARKUP, MARKUP),
        **texts,
        signal=view.records[0].signal._replace(detail=MARKUP),
        revision_current=MARKUP,
        revision_applied=f"{MARKUP}!",
        dialable="http://[:99999",
    )
    names: dict[str, Any] = {"name": MARKUP, "display_name": MARKUP, "summary": MARKUP}
    trouble = view.sources[1].trouble
    assert trouble is not None
    return evolve(
        view,
        records=(record, record._replace(key=Key("x", MARKUP, MARKUP))),
        models=(evolve(view.models[0], keys=(record.key,), **names),),
        items=(evolve(view.items[0], sentence=MARKUP, evidence=(MARKUP,), host=MARKUP),),
        sources=(evolve(view.sources[1], name=MARKUP, trouble=evolve(trouble, message=MARKUP)),),
        hosts=(view.hosts[0]._replace(gpu=MARKUP),),
    )


async def test_markup_in_names_and_labels_is_text() -> None:
    """Whatever a provider, a box or LiteLLM calls itself."""
    desk = full()
    desk.seen = hostile()
    action = a_plan().actions[0]
    desk.planned = Plan((evolve(action, reason=MARKUP, rule=MARKUP, evidence=(MARKUP,)),))
    html = (await page(desk)).text
    assert "<script>" not in html
    assert html.count("&lt;script&gt;") > 15
    assert "{{ 7 * 7 }}" in html


async def test_nothing_is_inline_and_nothing_comes_from_elsewhere() -> None:
    """The policy forbids it, so it would not work."""
    tags = Text((await page(full())).text).tags
    assert not [tag for tag, _ in tags if tag in ("style", "iframe")]
    assert [attrs for tag, attrs in tags if tag == "script" and attrs.get("src")]
    assert not [attrs for tag, attrs in tags if tag == "script" and not attrs.get("src")]
    assert not [attrs for _, attrs in tags if any(name.startswith("on") for name in attrs)]
    assert not [attrs for _, attrs in tags if "style" in attrs]
    links = [attrs.get("href") or attrs.get("src") or attrs.get("action") for _, attrs in tags]
    assert not [link for link in links if link and not link.startswith(("/", "#"))]


async def test_only_without_a_script_the_page_is_read_again_by_itself() -> None:
    """A page that is live would lose what its reader opened."""
    answer = await page(full())
    assert "no-store" == answer.headers["cache-control"]
    assert "refresh" not in answer.headers
    assert '<noscript><meta http-equiv="refresh" content="15"></noscript>' in answer.text
    assert "script-src 'self'; connect-src 'self'" in answer.headers["content-security-policy"]


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
    for part in ("Nothing needs you", "No models yet", "Nothing is planned", "No sources yet"):
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


# ---- callers


HOST_WORDS = [
    "203.0.113", "c.4711", "8001", "8002", "41022", "41023", "vast", "20443311", "RTX", "0.41",
    "Drain", "gone-model", "Unhealthy", "loading", "healthy of", "runpod", "Remove from LiteLLM",
    "openrouter", "r1-", "attention", "/boxes", "/admin", "/deployments", "Work needed", "<form",
]  # fmt: skip


@pytest.mark.parametrize("path", ["/models", "/models?as=admin", "/models?as="])
async def test_a_caller_sees_nothing_of_the_fleet(path: str) -> None:
    """No host, port, provider, price, lifecycle or button, whatever the address says."""
    html = (await visit(full(), path, CALLER)).text
    assert not [word for word in HOST_WORDS if word in html]


CALLER_SAYS = [
    "Gemma 4 26B", "gemma4-26b", "Available", "Unavailable", "Unknown", "32,768 tokens",
    "up to 5 full-context requests", "Private: ", "External: ", "Mode Chat", "Apache-2.0",
    "Tools", "Thinking, on by default", "text + vision", "google/gemma-4-26b-it", CALLER,
]  # fmt: skip


@pytest.mark.parametrize("words", CALLER_SAYS)
async def test_a_caller_is_told_what_can_be_called(words: str) -> None:
    """Status, capabilities, context, privacy, licence."""
    desk = full()
    desk.seen = view = a_view()
    info = {
        "license": "Apache-2.0",
        "modality": "text+vision",
        "supports_function_calling": True,
        "supports_thinking": True,
        "thinks_by_default": True,
    }
    desk.seen = evolve(view, models=(evolve(view.models[0], info=info), *view.models[1:]))
    assert words in Text((await visit(desk, name=CALLER)).text).words


async def test_what_is_written_for_the_fleet_is_not_told_to_callers() -> None:
    """`model_info` may hold anything; a path or an address of weights is one's own, too."""
    desk = full()
    info = {"note": "on 203.0.113.10", "rack": "7", "supports_vision": "http://203.0.113.10"}
    desk.seen = evolve(a_view(), models=(evolve(a_view().models[0], info=info),))
    html = (await visit(desk, name=CALLER)).text
    assert "203.0.113" not in html
    assert "rack" not in html
    assert "Vision" not in html


async def test_an_admin_can_look_as_a_caller_and_come_back() -> None:
    """The same page, with a way back."""
    html = (await visit(full(), "/models?as=caller")).text
    main = html[html.index("<main") :]
    seen = [word for word in HOST_WORDS if word in main and word != "/admin"]
    assert [] == seen
    assert "This is what callers see." in html
    assert 'href="/models"' in main
    assert 'href="/models?as=caller"' in (await visit(full())).text


# ---- what an admin sees first


async def test_the_first_line_counts_what_is_wrong() -> None:
    """Work, models, deployments, plan, sources."""
    words = Text((await page(full())).text).words
    overview = " ".join(words[: words.index("Work needed")].split())
    parts = [
        "2 things need you", "2 of 4 models can be called", "2 down",
        "1 of 5 deployments up and in LiteLLM", "1 up, and not in LiteLLM", "1 of 2 actions held",
        "2 of 3 sources not fresh", "$0.41/h rented",
    ]  # fmt: skip
    assert [] == [part for part in parts if part not in overview]


async def test_the_worst_deployment_of_a_model_comes_first() -> None:
    """The order of the configuration says nothing about trouble."""
    desk, view = full(), a_view()
    model = evolve(view.models[1], keys=tuple(reversed(view.models[1].keys)))
    desk.seen = evolve(view, models=(model,))
    html = (await page(desk)).text
    assert html.index("failed in a row") < html.index(">unplaced<")


async def test_many_of_a_kind_do_not_hide_the_others() -> None:
    """A few of each kind are shown, the rest is one line to open, and that is bounded."""
    down = [
        AttentionItem(f"down:{number}", ItemKind.DOWN, f"box {number} is down.")
        for number in range(300)
    ]
    other = AttentionItem("x", ItemKind.WRONG_KEY, "Somebody asks with a wrong key.")
    desk = full()
    desk.seen = evolve(a_view(), items=(*down, other))
    html = (await page(desk)).text
    assert ALIKE_SHOWN + 1 + MORE_SHOWN == html.count('<li id="i-')
    assert f"and {300 - ALIKE_SHOWN} more <code>down</code>" in html
    assert html.index("wrong key") < html.index("more <code>down")


async def test_a_held_action_has_a_button_that_names_its_evidence() -> None:
    """The press counts only while the evidence is the same."""
    desk = full()
    action = evolve(a_plan().actions[0], digest="d16e57")
    assert (ActionKind.DELETE_LITELLM, Hold.WITNESS) == (action.kind, action.hold)
    desk.planned = Plan((action,))
    tags = Text((await page(desk)).text).tags
    assert any(attrs.get("action") == "/do-run" for tag, attrs in tags if tag == "form")
    assert any(attrs.get("value") == "d16e57" for tag, attrs in tags if tag == "input")
    assert not any(attrs.get("value") == "<csrf>" for _, attrs in tags)


async def test_one_button_releases_all_that_waits_for_one_reason() -> None:
    """Twelve servers are one trouble."""
    desk = full()
    one = a_plan().actions[0]
    desk.planned = Plan((evolve(one, digest="aa"), evolve(a_plan().actions[1], digest="bb",
                         policy="auto", hold=Hold.WITNESS)))  # fmt: skip
    item = AttentionItem("w", ItemKind.WITNESS_MISSING, "Nothing else can say.", button="run")
    desk.seen = evolve(a_view(), items=(item,))
    html = (await page(desk)).text
    assert "Release 2 removals …" in html
    strip = html[html.index("Nothing else can say.") : html.index("Release 2 removals now")]
    assert 'value="aa"' in strip
    assert 'value="bb"' in strip


async def test_an_unknown_host_leads_to_where_it_is_approved() -> None:
    """Its models are to be chosen first."""
    assert 'href="/admin?host=203.0.113.99#approve"' in (await page(full())).text


@pytest.mark.parametrize(
    ("age_s", "tone"), [(0, "good"), (3599, "good"), (3601, "plain"), (604_801, "bad")]
)
def test_the_age_of_the_last_fetch_is_coloured(age_s: float, tone: str) -> None:
    """Green within the hour, red after a week."""
    assert tone == fetch_tone(NOW - age_s, NOW)


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
