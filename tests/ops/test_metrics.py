"""`/metrics`: what stands there is so, gives nothing away, and is what dashboard and alerts ask."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from attrs import evolve
from prometheus_client.parser import text_string_to_metric_families
from tests.web.worlds import FLEET_KEY, FakeDesk, a_plan, a_view, desk_of, fleet

from llmao_core.actions import ActionKind, OutcomeKind
from llmao_core.errors import Trouble
from llmao_core.protocol import Fetch, Restarting, Unknown, WrongKey
from llmao_core.records import HostView, ItemKind, Lifecycle, SourceView
from llmao_core.snapshots import SourceState
from llmao_core.testing.clock import VirtualClock
from llmao_web.app import create_app
from llmao_web.shell.board import Board
from llmao_web.shell.counts import Counts

DOCS = Path(__file__).parents[2] / "docs"
Labels = frozenset[tuple[str, str]]
Figures = Mapping[tuple[str, Labels], float]


def a_desk() -> FakeDesk:
    """Return a desk with a view and a plan, one source of it old and one failing."""
    desk = desk_of(fleet())
    now = desk.clock.now()
    sources = (
        SourceView("intended", SourceState.FRESH, None, None),
        SourceView("litellm", SourceState.FRESH, now - 7.0, 60.0),
        SourceView("vast", SourceState.UNREAD, None, 60.0, Trouble("Unauthorized", "no", now, 4)),
    )
    hosts = (
        HostView("a", "vast", "1", price_per_hour=0.25),
        HostView("also-a", "vast", "1", price_per_hour=0.25),
        HostView("b", "vast", "2", price_per_hour=0.5),
        HostView("c", "runpod", "1", price_per_hour=None),
    )
    desk.seen = evolve(a_view(), at=now - 3.0, sources=sources, hosts=hosts)
    desk.planned = a_plan()
    return desk


def a_count() -> Counts:
    """Return counts in which everything has happened once."""
    counts = Counts()
    for kind in ActionKind:
        for outcome in OutcomeKind:
            counts.acted(kind, outcome)
    for outcome in OutcomeKind:
        counts.told("json", outcome)
    for event in (Fetch("a", "r"), Fetch("a"), Unknown("b"), WrongKey("c"), Restarting("a", ())):
        counts.noted(event)
    counts.passes.observe(0.03)
    return counts


async def scraped(
    desk: FakeDesk | None = None, counts: Counts | None = None, accept: str = ""
) -> httpx.Response:
    desk = desk or a_desk()
    counted = (counts or a_count()).registry
    app: Any = create_app(desk, fleet(), desk.clock, counted=counted)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        return await client.get("/metrics", headers={"accept": accept})


async def figures(desk: FakeDesk | None = None, counts: Counts | None = None) -> Figures:
    answer = await scraped(desk, counts)
    assert 200 == answer.status_code
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def one(found: Figures, name: str, **labels: str) -> float:
    return found[name, frozenset(labels.items())]


async def test_a_view_is_what_is_shown() -> None:
    """Records, models and items are counted, the ones that are not there with 0."""
    desk = a_desk()
    found, view = await figures(desk), desk.seen
    assert view is not None
    for life in Lifecycle:
        count = sum(record.lifecycle is life for record in view.records)
        assert count == one(found, "llmao_records", lifecycle=life.value)
    for kind in ItemKind:
        count = sum(item.kind is kind for item in view.items)
        assert count == one(found, "llmao_items", kind=kind.value)
    assert len(view.models) == sum(
        value for (name, _), value in found.items() if name == "llmao_models"
    )
    assert 3.0 == one(found, "llmao_view_age_seconds")
    assert 1.0 == one(found, "llmao_ready")


async def test_sources_have_an_age_once_they_were_read() -> None:
    """One that was never read has failures and no age; what is read from a file has neither."""
    found = await figures()
    assert 7.0 == one(found, "llmao_source_age_seconds", source="litellm")
    assert 0.0 == one(found, "llmao_source_failures", source="litellm")
    assert 4.0 == one(found, "llmao_source_failures", source="vast")
    assert 60.0 == one(found, "llmao_source_interval_seconds", source="vast")
    ages = {dict(labels)["source"] for name, labels in found if name == "llmao_source_age_seconds"}
    assert {"litellm"} == ages


async def test_an_instance_is_paid_for_once() -> None:
    """Two hosts that are one instance cost what it costs; an unknown price is no price."""
    found = await figures()
    assert 0.75 == one(found, "llmao_price_per_hour", provider="vast")
    assert 1 == sum(name == "llmao_price_per_hour" for name, _ in found)


async def test_a_plan_is_what_is_shown() -> None:
    """Its size, and what of it waits for which reason."""
    desk = a_desk()
    found = await figures(desk)
    assert desk.planned is not None
    assert len(desk.planned.actions) == one(found, "llmao_plan_actions")
    held = sum(value for (name, _), value in found.items() if name == "llmao_plan_held")
    assert sum(bool(action.hold.value) for action in desk.planned.actions) == held


async def test_what_is_counted_is_shown() -> None:
    """Actions by how they ended, boxes by what they were answered, passes by how long."""
    found = await figures()
    assert 1.0 == one(found, "llmao_actions_total", kind="delete_litellm", outcome="done")
    assert 1.0 == one(found, "llmao_messages_total", kind="json", outcome="refused")
    answers = ("handed_out", "unchanged", "unknown_host", "wrong_key", "notice_taken")
    for answer in answers:
        assert 1.0 == one(found, "llmao_box_fetches_total", answer=answer)
    assert 1.0 == one(found, "llmao_pass_seconds_bucket", le="0.05")
    assert 0.0 == one(found, "llmao_pass_seconds_bucket", le="0.025")


async def test_what_boxes_do_is_counted_by_the_board() -> None:
    """Once per request."""
    board = Board(VirtualClock())
    for _ in range(3):
        board.note(WrongKey("127.0.0.9", "somebody"))
    found = await figures(counts=board.counts)
    assert 3.0 == one(found, "llmao_box_fetches_total", answer="wrong_key")


async def test_before_the_first_pass_there_is_little() -> None:
    """Nothing is shown as 0 that is not known."""
    found = await figures(FakeDesk(missing=("litellm",)), Counts())
    assert 0.0 == one(found, "llmao_ready")
    assert not [name for name, _ in found if name.startswith(("llmao_records", "llmao_view"))]


async def test_strangers_make_no_new_series() -> None:
    """A thousand wrong keys from a thousand peers are one line."""
    counts = Counts()
    for number in range(1000):
        counts.noted(WrongKey(f"127.0.{number // 250}.{number % 250}", f"host-{number}"))
    found = await figures(counts=counts)
    assert 1 == sum(name == "llmao_box_fetches_total" for name, _ in found)


async def test_nothing_is_given_away() -> None:
    """No secret, no host, no address and no key of a deployment."""
    desk = a_desk()
    text = (await scraped(desk)).text
    assert desk.seen is not None
    assert FLEET_KEY not in text
    for record in desk.seen.records:
        for word in (record.key.base, record.key.shown, record.dialable):
            assert not word or word not in text
    assert "also-a" not in text


async def test_both_formats_of_prometheus_are_spoken() -> None:
    """The newer one when it is asked for."""
    plain = await scraped()
    assert plain.headers["content-type"].startswith("text/plain")
    newer = await scraped(accept="application/openmetrics-text; version=1.0.0")
    assert newer.headers["content-type"].startswith("application/openmetrics-text")
    assert newer.text.endswith("# EOF\n")


# ---- what asks for them


def of_alerts() -> Iterator[str]:
    for group in yaml.safe_load((DOCS / "alerts.yaml").read_text())["groups"]:
        for rule in group["rules"]:
            assert {"alert", "expr", "labels", "annotations"} <= rule.keys() <= RULE, rule
            assert rule["labels"]["severity"] in ("page", "ticket")
            assert {"summary", "description"} == rule["annotations"].keys()
            yield rule["expr"]


RULE = {"alert", "expr", "for", "labels", "annotations"}


def of_dashboard() -> Iterator[str]:
    for panel in json.loads((DOCS / "grafana" / "llmao.json").read_text())["panels"]:
        yield from (target["expr"] for target in panel["targets"])


_SELECTED = re.compile(r"\b(llmao_\w+)(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'(\w+)(=~|=|!=|!~)"([^"]*)"')


@pytest.mark.parametrize("expression", [*of_alerts(), *of_dashboard()])
async def test_what_is_asked_for_exists(expression: str) -> None:
    """Every metric, and every value of a label, that a rule or a panel names is exposed."""
    found = await figures()
    selected = list(_SELECTED.finditer(expression))
    assert selected
    for name, matchers in (each.groups() for each in selected):
        labels = [dict(given) for metric, given in found if metric == name]
        assert labels, f"there is no metric {name}"
        for label, _, value in _MATCHER.findall(matchers or ""):
            known = {each.get(label) for each in labels}
            assert set(value.split("|")) <= known, f"{name} has no {label} {value}"


_GROUPED = re.compile(r"by \(([^)]*)\) \((?:\w+\()?(llmao_\w+)")


@pytest.mark.parametrize("expression", [*of_alerts(), *of_dashboard()])
async def test_what_is_grouped_by_is_a_label(expression: str) -> None:
    """A label that does not exist would make one group of everything."""
    found = await figures()
    for names, metric in _GROUPED.findall(expression):
        labels = {label for name, given in found if name == metric for label, _ in given}
        assert {each.strip() for each in names.split(",")} <= labels


def test_panels_do_not_lie_on_each_other() -> None:
    """Each has a place of its own, and the ids differ."""
    panels = json.loads((DOCS / "grafana" / "llmao.json").read_text())["panels"]
    assert len(panels) == len({panel["id"] for panel in panels})
    taken: set[tuple[int, int]] = set()
    for place in (panel["gridPos"] for panel in panels):
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        assert place["x"] + place["w"] <= 24
        taken |= cells
