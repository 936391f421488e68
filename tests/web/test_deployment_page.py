"""The page of one deployment: why it is as it is, what happened to it, how busy it was."""

from collections.abc import Sequence
from typing import Any

import pytest
from attrs import define, evolve, field
from structlog.testing import capture_logs

from llmao_core.actions import Outcome, OutcomeKind
from llmao_core.keys import Key
from llmao_core.plan import Plan
from llmao_core.probes import (
    CanaryReport,
    Identity,
    OpenPathsReport,
    ProbeReport,
    Reply,
    ReplyKind,
    Target,
)
from llmao_core.records import AttentionItem, ItemKind
from llmao_web.pages.charts import HEIGHT, LEAST_S, WIDTH, begin, charts, pool, table
from llmao_web.pages.deployment import DeploymentPages
from llmao_web.pages.names import page_id, page_of
from llmao_web.pages.render import Renderer
from llmao_web.pages.sheet import change
from llmao_web.shell.ledger import Entry, EntryKind, Numbered, carried_out
from llmao_web.shell.probe_log import ProbeLog
from llmao_web.shell.store import MemoryStore, Sample, StoreError, Transition, Wanted

from .visiting import CALLER, MARKUP, Text, full, visit
from .worlds import FLEET_KEY, NOW, SALT, FakeDesk, a_plan, a_view

GEMMA, QWEN = (record.key for record in a_view().records[:2])


@define
class Broken:
    """Records that cannot be read."""

    tried: list[str] = field(factory=list)

    async def transitions(self, key: Key | None = None, limit: int = 100) -> Sequence[Transition]:
        self.tried.append(f"{key} {limit}")
        raise StoreError("The store does not answer: check its disk.")

    async def keys(self) -> Sequence[Key]:
        raise StoreError("The store does not answer: check its disk.")

    async def entries(self, wanted: Wanted) -> Sequence[Numbered]:
        self.tried.append(str(wanted.limit))
        return ()

    async def capacity(self, key: Key, since: float) -> Sequence[Sample]:
        self.tried.append(f"{key} {since}")
        return ()


async def kept() -> MemoryStore:
    """Return a store in which something happened to qwen on 203.0.113.10."""
    action = evolve(a_plan().actions[0], order=evolve(a_plan().actions[0].order, key=QWEN))
    store = MemoryStore(
        carried_out(action, NOW - 60, Outcome(OutcomeKind.REFUSED, "401 from LiteLLM")),
        Entry(NOW - 30, "ada", EntryKind.DRAINED, host="203.0.113.10"),
        Entry(NOW - 20, "eve", EntryKind.DRAINED, host="203.0.113.99"),
        Entry(NOW - 10, "llmao", EntryKind.PLACED, "203.0.113.10", detail={"provider": "vast"}),
    )
    await store.moved(
        [Transition(NOW - 95, QWEN, "Healthy", "Unhealthy"), Transition(NOW - 9, GEMMA, "", "Q")]
    )
    await store.sample(
        Sample(NOW - 60 * minute, QWEN, minute, 1.0, 0.25, 512.5, 0.8)
        for minute in range(30, 0, -1)
    )
    return store


async def page(key: Key = QWEN, query: str = "", **more: Any) -> str:
    answer = await visit(full(), page_of("main", key) + query, **more)
    assert 200 == answer.status_code
    return answer.text


SAYS = [
    "203.0.113.10:8002",
    "qwen3-8b",
    "Unhealthy",
    "3 probes in a row were refused.",
    "failed_threshold",
    "failed connection refused",
    "down APIConnectionError: cannot connect",
    "delete failed 2 times",
    "Remove from LiteLLM:",
    "waits for a second opinion",
    "fails 3",
    "open_paths",
    "(public 41023)",
    "Healthy → Unhealthy",
    "remove from LiteLLM: refused",
    "LiteLLM: 401 from LiteLLM",
    "rule: remove_unhealthy",
    "drained 203.0.113.10",
    "found it listed by vast",
    "by ada",
    "Requests",
    "Time to first token",
]


@pytest.mark.parametrize("words", SAYS)
async def test_the_page_says_why_and_what_happened(words: str) -> None:
    """Verdict, evidence, plan, timeline, charts."""
    assert words in Text(await page(records=await kept())).words


async def test_what_is_to_be_done_about_it_is_on_the_page() -> None:
    """Whoever comes here from an item need not go back for its remedy."""
    desk, view = full(), a_view()
    items = [
        AttentionItem(f"{key}", ItemKind.DOWN, f"{key} is down.", key=key, remedy="Type `top`.")
        for key in (QWEN, GEMMA)
    ]
    desk.seen = evolve(view, items=tuple(items))
    html = (await visit(desk, page_of("main", QWEN))).text
    assert f"{QWEN} is down." in html
    assert "<strong>What to do:</strong> Type <code>top</code>." in html
    assert f"{GEMMA} is down." not in html


def test_charts_begin_at_the_first_sample() -> None:
    """Not hours before it, not before what was asked for, and never with less than some minutes."""

    def at(*times: float) -> list[Sample]:
        return [Sample(NOW - each, QWEN, 1.0) for each in times]

    asked = NOW - 21_600
    assert NOW - 3000 == begin(at(3000, 60), asked, NOW)
    assert NOW - LEAST_S == begin(at(90, 30), asked, NOW)
    assert asked == begin(at(30_000, 60_000, 21_600), asked, NOW)
    assert asked == begin([], asked, NOW)


async def test_the_axis_says_where_the_charts_begin() -> None:
    """Half an hour of samples fills them, whatever was asked for."""
    words = Text(await page(records=await kept())).words
    assert "30 min ago top" in " ".join(words.split())
    assert "6 h ago" not in words


async def test_a_keyboard_reaches_the_figures_that_do_not_fit() -> None:
    """What scrolls has a place in the order of the keyboard, and a name."""
    html = await page(records=await kept())
    assert '<div class="wide" tabindex="0" role="region" aria-label="Capacity as a table">' in html


async def test_what_happened_to_others_is_not_on_the_page() -> None:
    """Another key's transitions, another host's drains."""
    html = await page(records=await kept())
    assert "203.0.113.99" not in html
    assert "by eve" not in html
    assert "→ Q" not in html


async def test_the_newest_comes_first() -> None:
    """Of both logs together."""
    html = await page(records=await kept())
    places = [html.index(words) for words in ("drained 203", "LiteLLM: refused", "→ Unhealthy")]
    assert sorted(places) == places


async def test_no_secret_and_no_url_of_a_box_is_on_the_page() -> None:
    """Neither in the page nor in its address."""
    for key in (GEMMA, QWEN):
        html = await page(key, records=await kept()) + page_of("main", key)
        for hidden in (FLEET_KEY, SALT, "sk-vllm", "http://", "openrouter.ai", key.base):
            assert hidden not in html.replace("http://www.w3.org", "")


@pytest.mark.parametrize(
    "name", ["", "llmao-0", "..%2f..%2fetc", "%00", "a" * 5000, "http:%2f%2f203.0.113.10:8002"]
)
async def test_an_unknown_name_is_no_page(name: str) -> None:
    """A canonical URL names no page either."""
    answer = await visit(full(), f"/deployments/{name}")
    assert 404 == answer.status_code


async def test_a_caller_gets_no_such_page() -> None:
    """It is about a box."""
    answer = await visit(full(), page_of("main", QWEN), CALLER)
    assert 403 == answer.status_code
    assert "203.0.113" not in answer.text


async def test_a_store_that_cannot_be_read_takes_only_its_part_away() -> None:
    """The verdict is in memory."""
    words = Text(await page(records=Broken())).words
    assert "The store does not answer: check its disk." in words
    assert "3 probes in a row were refused." in words


async def test_markup_is_text() -> None:
    """Whatever a box, LiteLLM or an admin wrote."""
    desk, view = full(), a_view()
    key = Key("http://203.0.113.10:8002", MARKUP, MARKUP)
    record = view.records[1]._replace(key=key, because=MARKUP, litellm_said=MARKUP, rule=MARKUP)
    desk.seen = evolve(view, records=(record,))
    action = evolve(a_plan().actions[0], reason=MARKUP, evidence=(MARKUP,))
    action = evolve(action, order=evolve(action.order, key=key))
    desk.planned = Plan((action,))
    store = MemoryStore(
        carried_out(action, NOW, Outcome(OutcomeKind.FAILED, MARKUP)),
        Entry(NOW, MARKUP, EntryKind.PRESSED, key=key),
        Entry(NOW, "ada", EntryKind.ACTION, key=key, detail={"evidence": MARKUP, "rule": 7}),
    )
    await store.moved([Transition(NOW, key, MARKUP, MARKUP)])
    html = (await visit(desk, page_of("main", key), records=store)).text
    assert html.count("&lt;script&gt;") > 10
    assert "<script>" not in html


@pytest.mark.parametrize("query", ["?hours=1", "?hours=0", "?hours=9999", "?hours=-1", "?hours=²"])
async def test_any_time_asked_for_is_answered(query: str) -> None:
    """What is no choice is the usual one."""
    shown = "1 h" if query == "?hours=1" else "6 h"
    html = await page(query=query, records=await kept())
    assert f'aria-current="true">{shown}<' in html


async def test_a_chart_has_words_and_figures_for_those_who_do_not_see_it() -> None:
    """Title, description, and the same as a table."""
    html = await page(query="?hours=1", records=await kept())
    text = Text(html)
    assert html.count('role="img"') == 4 == html.count("<desc")
    ids = {attrs["id"] for _, attrs in text.tags if "id" in attrs}
    named = [attrs["aria-labelledby"] for _, attrs in text.tags if "aria-labelledby" in attrs]
    assert {one for names in named for one in (names or "").split()} <= ids
    assert "running: newest 1, most 30." in text.words
    assert "512.50" in text.words


async def test_without_samples_it_says_so() -> None:
    """An empty chart would look like zero."""
    html = await page()
    assert "Nothing was measured in this time." in html
    assert "<svg" not in html


# ---- probes


def answered(status: int) -> Reply:
    return Reply(ReplyKind.ANSWERED, status)


def probed_desk() -> FakeDesk:
    """Return a desk that noted probes of gemma, with both bearers."""
    desk = full()
    record = a_view().records[0]
    assert record.deployment
    target = Target(record.dialable, record.deployment.bearer_id)
    log = ProbeLog()
    refused = Identity(answered(401), answered(200))
    log.add(target, ProbeReport(NOW - 90, 0.25, answered(200), refused, answered(200)))
    log.add(target, CanaryReport(NOW - 60, NOW - 57.5, (Reply(ReplyKind.TIMED_OUT),)))
    log.add(target, OpenPathsReport(NOW - 50, ("/tokenize",)))
    log.add(target, ProbeReport(NOW - 30, 0.0, Reply(ReplyKind.REFUSED, said=MARKUP)))
    desk.noted[target] = tuple(log.of(target))
    return desk


async def test_every_probe_is_there_with_how_each_request_ended() -> None:
    """Newest first, in words, with how long it took; what was not asked is not there."""
    html = (await visit(probed_desk(), page_of("main", GEMMA))).text
    words = " ".join(Text(html).words.split())
    newest = words.index("30 s ago health connection refused")
    told = words[newest:]
    places = [
        told.index(each)
        for each in (
            "paths without a key open",
            "completion timed out",
            "2.5 s",
            "health 200 · models without a key 401 · models 200 · metrics 200 250 ms",
        )
    ]
    assert sorted(places) == places
    assert "<script>" not in html


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({}, "has not probed it at this address since it started"),
        ({"dialable": ""}, "No address is known for it"),
        ({"deployment": None}, "Nothing intends it, so llmao does not probe it"),
    ],
)
async def test_without_probes_the_page_says_why(change: dict[str, Any], why: str) -> None:
    """Nothing known is said, and never shown as nothing wrong."""
    desk, view = full(), a_view()
    desk.seen = evolve(view, records=(view.records[0]._replace(**change),))
    assert why in (await visit(desk, page_of("main", GEMMA))).text


# ---- gone


async def test_a_deployment_that_is_gone_keeps_what_the_store_has_of_it() -> None:
    """Its changes and actions, and when it was last heard of; no address of its server."""
    desk, store = full(), await kept()
    desk.seen = evolve(a_view(), records=())
    await store.moved([Transition(NOW - 5, QWEN, "Unhealthy", "")])
    answer = await visit(desk, page_of("main", QWEN), records=store)
    words = " ".join(Text(answer.text).words.split())
    assert 200 == answer.status_code
    for part in (
        "203.0.113.10:8002", "This deployment is gone", "Last heard of 5 s ago",
        "last it was Unhealthy", "Healthy → Unhealthy", "remove from LiteLLM: refused",
    ):  # fmt: skip
        assert part in words, part
    assert QWEN.base not in answer.text


async def test_the_open_page_of_what_is_gone_is_kept_current() -> None:
    """An action that is written later comes in; back among the living, the page is read anew."""
    desk, store = full(), await kept()
    desk.seen = gone = evolve(a_view(), records=())
    pages = DeploymentPages(desk, store, desk.clock, Renderer("main", desk.clock), "main")
    follow, name = pages.sources()["deployment"].sheet, page_id("main", QWEN)
    assert (
        f"page=deployment%3A{name}%3A&amp;from="
        in (await visit(desk, page_of("main", QWEN), records=store)).text
    )
    before = await follow(f"{name}:")
    await store.moved([Transition(NOW - 5, QWEN, "Unhealthy", "")])
    assert before is await follow(f"{name}:"), "of the same pass"

    desk.seen = evolve(gone, at=NOW)
    moved = change(before, await follow(f"{name}:"))
    assert moved
    assert {"gone-head": (int(NOW - 5),)} == moved.ages
    assert ["timeline"] == [*moved.lists]
    desk.seen = a_view()
    assert change(before, await follow(f"{name}:")) is None


async def test_a_store_that_fails_leaves_the_open_page_of_what_is_gone_as_it_is() -> None:
    """It says nothing new, and nothing wrong."""
    desk, store = full(), await kept()
    desk.seen = evolve(a_view(), records=())
    pages = DeploymentPages(desk, store, desk.clock, Renderer("main", desk.clock), "main")
    follow, name = pages.sources()["deployment"].sheet, page_id("main", QWEN)
    before = await follow(f"{name}:")
    store.keys = Broken().keys  # type: ignore[method-assign]
    desk.seen = evolve(a_view(), records=(), at=NOW)
    assert before is await follow(f"{name}:")


async def test_before_the_first_pass_nothing_is_called_gone() -> None:
    """What is not known yet is not absent."""
    desk = full()
    desk.seen = None
    html = (await visit(desk, page_of("main", QWEN), records=await kept())).text
    assert "cannot tell whether this deployment is still there" in html
    assert "is gone" not in html


async def test_a_store_that_cannot_be_read_makes_nothing_absent() -> None:
    """404 is for what was never known."""
    with capture_logs():
        answer = await visit(full(), "/deployments/llmao-0", records=Broken())
    assert 500 == answer.status_code
    assert "check its disk" in answer.text


# ---- charts


def test_a_gap_in_what_was_measured_is_a_gap_in_the_line() -> None:
    """Never a line through a time of which nothing is known."""
    early = [Sample(NOW - 3600 + 60 * minute, QWEN, 2.0) for minute in range(5)]
    late = [Sample(NOW - 300 + 60 * minute, QWEN, 4.0) for minute in range(5)]
    running, waiting = charts([*early, *late], NOW - 3600, NOW)[0].lines
    assert 2 == running.path.count("M")
    assert ("", None) == (waiting.path, waiting.newest)
    assert (4.0, 4.0) == (running.newest, running.most)


@pytest.mark.parametrize("value", [-5.0, 0.0, 0.5, 1.0, 7.0])
def test_a_line_stays_within_its_chart(value: float) -> None:
    """Whatever vLLM says its use is."""
    line = charts([Sample(NOW - 30, QWEN, kv_used=value)], NOW - 60, NOW)[1].lines[0]
    x, y = line.path.removeprefix("M").split("h")[0].split(" ")
    assert 0 <= float(x) <= WIDTH
    assert 0 <= float(y) <= HEIGHT


def test_samples_are_pooled_and_none_is_lost() -> None:
    """A week of minutes is a few hundred points; a stretch's figure is its mean."""
    samples = [Sample(NOW - 600 + second, QWEN, float(second % 2)) for second in range(600)]
    pooled = pool(samples, NOW - 600, NOW, 10)
    assert [0.5] * 10 == [each.running for each in pooled]
    assert [each.at for each in table(samples, NOW - 600, NOW)] == sorted(
        (each.at for each in table(samples, NOW - 600, NOW)), reverse=True
    )
    assert () == pool(samples, NOW, NOW + 60, 10)


def test_the_name_of_a_page_is_the_id_in_litellm() -> None:
    """So that an id found there leads here."""
    deployment = a_view().records[0].deployment
    assert deployment is not None
    assert deployment.litellm_id == page_id("main", GEMMA)
