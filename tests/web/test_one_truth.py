"""What two places of a page say of one thing agrees: money, ages, and what is to be expected."""

import re

import pytest
from attrs import evolve

from llmao_core.errors import Trouble
from llmao_core.keys import box_key
from llmao_core.probes import Reply, ReplyKind, Target
from llmao_core.records import (
    AttentionItem,
    Availability,
    HostView,
    ItemKind,
    Kind,
    Lifecycle,
    Record,
    Signal,
    SignalKind,
    SourceView,
    View,
)
from llmao_core.snapshots import SourceState
from llmao_web.pages.models import AS_INTENDED, NOT_BY_ITSELF, idle_words
from llmao_web.pages.overview import tiles
from llmao_web.pages.probes import probe_lines
from llmao_web.pages.work import work_of
from llmao_web.shell.probe_log import Probed, Step

from .visiting import Text, full, visit
from .worlds import NOW, FakeDesk, a_view


def box(name: str, price: float | None, **more: object) -> HostView:
    return HostView(name, "vast", name, "up", price_per_hour=price)._replace(**more)  # type: ignore[arg-type]


def idle(host: HostView) -> AttentionItem:
    kind = ItemKind.SERVES_NOTHING
    return AttentionItem(f"{kind.value}:vast:{host.instance_id}", kind, "It idles.")


def money(view: View) -> list[str]:
    return [f"{one.figure} {one.words}" for one in tiles(view, None) if "/h" in one.figure]


# ---- money


def test_what_is_wasted_stands_beside_what_the_fleet_costs() -> None:
    """By the boxes of the items about money; a price that nobody knows is counted as such."""
    one, two, three = box("1", 0.4), box("2", 0.3), box("3", None)
    view = View(NOW, hosts=(one, two, three))
    assert ["$0.70/h rented, 1 without a price"] == money(view)
    assert [
        "$0.70/h rented, 1 without a price",
        "$0.30/h of it for a box that serves nobody",
    ] == money(evolve(view, items=(idle(two),)))
    assert (
        "$0.30/h of it for 2 boxes that serve nobody, 1 without a price"
        == (money(evolve(view, items=(idle(two), idle(three))))[1])
    )
    assert (
        "$?/h of it for a box that serves nobody, 1 without a price"
        == (money(evolve(view, items=(idle(three),)))[1])
    )


def test_a_box_that_is_rented_no_more_or_never_was_costs_nothing() -> None:
    """Nor is its price one that nobody knows."""
    hosts = (box("1", None, status=""), HostView("gpu.example.org"))
    assert [] == money(View(NOW, hosts=hosts))


def test_what_a_listing_that_is_unread_says_of_money_is_marked() -> None:
    """As it was listed last; of one that was never read it is not known what it costs."""
    vast = SourceView("vast", SourceState.STALE, NOW - 900, 60.0, listing=True)
    runpod = SourceView("runpod", SourceState.UNREAD, None, 60.0, listing=True)
    litellm = SourceView("litellm", SourceState.UNREAD, None, 60.0)
    view = View(NOW, hosts=(box("1", 0.4, stale=True),), sources=(vast,))
    assert ["$0.40/h rented, vast as last listed"] == money(view)
    both = evolve(view, sources=(litellm, vast, runpod))
    assert ["$0.40/h rented, vast as last listed, without runpod: not known now"] == money(both)
    assert ["$?/h rented, without runpod: not known now"] == money(evolve(both, hosts=()))


# ---- what callers get


def figures(view: View) -> list[str]:
    return [f"{one.figure} {one.words}" for one in tiles(view, None)]


def test_what_is_not_known_is_not_counted_as_none() -> None:
    """While LiteLLM is unread nobody knows which models can be called."""
    view = a_view()
    unknown = tuple(evolve(one, availability=Availability.UNKNOWN) for one in view.models)
    assert "? of 4 models can be called: not known now" in figures(evolve(view, models=unknown))
    known = evolve(unknown[0], availability=Availability.AVAILABLE)
    some = evolve(view, models=(known, *unknown[1:]))
    assert "1 of 4 models can be called, 3 not known now" in figures(some)


def test_a_server_without_a_route_is_told_apart() -> None:
    """It is up, and callers do not get it; nor one that LiteLLM blocks or could not load."""
    record = a_view().records[0]
    assert record.row
    blocked = record._replace(row=evolve(record.row, blocked=True))
    records = (record, record._replace(row=None), blocked)
    told = figures(View(NOW, records=records))
    assert "1 of 3 deployments up and in LiteLLM" in told
    assert "2 up, and not in LiteLLM" in told
    assert "1 of 1 deployment up and in LiteLLM" in figures(View(NOW, records=records[:1]))


async def test_the_price_of_a_box_with_two_deployments_is_not_told_twice_as_if_paid_twice() -> None:
    """Each line says that it is the price of the box; alone on its box it needs no word."""
    desk = full()
    said = " ".join(Text((await visit(desk)).text).words.split())
    assert 2 == said.count("shared by 2")
    assert 2 == said.count("box: $0.41/h")
    assert desk.seen
    host = desk.seen.hosts[0]
    desk.seen = evolve(desk.seen, hosts=(host._replace(keys=host.keys[:1]),))
    said = " ".join(Text((await visit(desk)).text).words.split())
    assert "shared by" not in said
    assert "box: $" not in said


# ---- ages


def test_a_model_that_cannot_be_called_says_when_its_first_server_went_down() -> None:
    """Its item came later; what is an orphan or belongs to another model is not meant."""
    view = a_view()
    name = view.models[1].name
    first, second = (one for one in view.records if one.key.model == name)
    second = second._replace(lifecycle=Lifecycle.STALLED, since=NOW - 600)
    others = tuple(one for one in view.records if one.key.model != name)
    item = AttentionItem(f"model_unavailable:{name}", ItemKind.MODEL_UNAVAILABLE, "…", since=NOW)
    view = evolve(view, items=(item,), records=(first, second, *others))
    [work] = work_of(view, None, "main")
    assert (NOW, NOW - 600) == (work.since, work.down_since)


async def test_an_item_says_what_its_age_counts() -> None:
    """How long it has stood there, which is not how long a server has been down."""
    said = " ".join(Text((await visit(full())).text).words.split())
    assert "here for 1 min" in said


# ---- what is to be expected


async def loading(kind: SignalKind) -> str:
    """Return the tone of the newest probe of a server that loads."""
    desk = full()
    assert desk.seen
    gemma, qwen, *rest = desk.seen.records
    qwen = qwen._replace(lifecycle=Lifecycle.LOADING, signal=Signal(kind, NOW - 2, "it said so"))
    desk.seen = evolve(desk.seen, records=(gemma, qwen, *rest))
    html = (await visit(desk)).text
    [tone] = re.findall(rf'class="word (\w+)">{kind.value}<', html)
    return str(tone)


@pytest.mark.parametrize(
    ("kind", "tone"), [(SignalKind.FAILED, "plain"), (SignalKind.REFUSED, "bad")]
)
async def test_a_server_that_loads_answers_nothing_yet(kind: SignalKind, tone: str) -> None:
    """A probe that fails is calm; one that is refused is not to be expected of it."""
    assert tone == await loading(kind)


def test_the_log_of_probes_is_calm_while_a_server_loads() -> None:
    """What failed before it began to load was a failure."""
    desk = FakeDesk()
    record = a_view().records[1]
    refused = Reply(ReplyKind.REFUSED, said="connection refused")
    assert record.deployment
    desk.noted[Target(record.dialable, record.deployment.bearer_id)] = tuple(
        Probed(at, at, 0.1, (Step("/health", refused),)) for at in (NOW - 5, NOW - 500)
    )
    loads = record._replace(lifecycle=Lifecycle.LOADING, since=NOW - 60)

    def tones(one: object) -> list[str]:
        return [line.ended[0].tone for line in probe_lines(desk, one)]  # type: ignore[arg-type]

    assert ["plain", "bad"] == tones(loads)
    assert ["bad", "bad"] == tones(record)


# ---- what is to come


def waiting_view() -> View:
    """Return a view in which LiteLLM is as intended, and one server has to prove itself first."""
    key = box_key("203.0.113.9", 8001, "small")
    one = Record(key, Kind.INTENDED, Lifecycle.HEALTHY, action_rule="not-proven", oks_left=3)
    litellm = SourceView("litellm", SourceState.FRESH, NOW - 5, 60.0)
    return View(NOW, records=(one,), sources=(litellm,))


def test_an_empty_plan_names_what_works_and_has_no_route_yet() -> None:
    """That all is as intended would be a riddle beside the errors of callers."""
    view = waiting_view()
    words = "Nothing to do now. 203.0.113.9:8001 small gets its route once it has answered 3 more"
    assert idle_words(view).startswith(words)
    assert "0 actions planned, 1 to come" in figures(view)
    assert AS_INTENDED == idle_words(evolve(view, records=()))


@pytest.mark.parametrize("kind", [ItemKind.LITELLM_NO_DATABASE, ItemKind.MODEL_UNAVAILABLE])
def test_an_empty_plan_is_not_called_good_while_callers_get_errors(kind: ItemKind) -> None:
    """What llmao cannot do by itself stands under Work needed, and the plan sends people there."""
    item = AttentionItem("small", kind, "It does not work.")
    view = evolve(waiting_view(), records=(), items=(item,))
    assert idle_words(view) == NOT_BY_ITSELF


def test_a_source_that_fails_is_told_before_it_is_stale() -> None:
    """Its newest read failed: the line of counts says so, as the item does."""
    view = waiting_view()
    failing = evolve(view.sources[0], trouble=Trouble("Unreachable", "HTTP 502", NOW - 5))
    assert "1 sources fresh" in figures(view)
    assert "1 of 1 source cannot be read now" in figures(evolve(view, sources=(failing,)))
    assert "cannot be read now" in idle_words(evolve(view, sources=(failing,)))
