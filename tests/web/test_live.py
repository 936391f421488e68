"""`/live`: an open page hears what changed since it was sent, and nothing it may not see."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve

from llmao_core.records import Availability, View
from llmao_web.pages import live as live_module
from llmao_web.pages.live import MOST_LISTENERS, Live, Source
from llmao_web.pages.models import ADMIN, CALLER, ModelsPages
from llmao_web.pages.names import element
from llmao_web.pages.render import Renderer
from llmao_web.pages.sheet import Sheet, change

from .visiting import ADMIN as ADA
from .visiting import CALLER as CARL
from .visiting import MARKUP, app_of, full, visit, visitor
from .worlds import NOW, FakeDesk, a_view


def following(desk: FakeDesk) -> tuple[Live, ModelsPages]:
    renderer = Renderer("main", desk.clock)
    pages = ModelsPages(desk, desk.clock, renderer, "main")
    live = Live(desk, desk.clock)
    live.sources |= pages.sources()
    return live, pages


def sent_page(live: Live, pages: ModelsPages, *, admin: bool = True) -> str:
    """Return the version of a page that somebody opens now."""
    sheet = pages.made(admin=admin).sheet
    return live.version(ADMIN if admin else CALLER, sheet)


async def next_message(live: Live, page: str, since: str, csrf: str = "") -> Any:
    stream = live.stream(page, since, csrf)
    try:
        return await anext(stream)
    finally:
        await stream.aclose()


def moved(desk: FakeDesk, by: Callable[[View], View]) -> None:
    """Put the view of a later pass on the desk."""
    assert desk.seen is not None
    desk.seen = evolve(by(desk.seen), at=desk.seen.at + 1)


def probed(view: View) -> View:
    first, *others = view.records
    signal = first.signal._replace(at=NOW + 2)
    return evolve(view, records=(first._replace(signal=signal), *others))


def degraded(view: View) -> View:
    first, *others = view.models
    return evolve(view, models=(evolve(first, availability=Availability.DEGRADED), *others))


async def test_a_later_probe_is_sent_as_a_time_and_nothing_else() -> None:
    """A sweep over a thousand servers must not send a thousand rows."""
    desk = full()
    live, pages = following(desk)
    since = sent_page(live, pages)
    moved(desk, probed)
    told = json.loads((await next_message(live, ADMIN, since)).data)
    assert ["ages"] == list(told)
    row = pages._lines.id_of(a_view().records[0])
    assert {row, "overview"} == set(told["ages"])
    assert int(NOW + 2) in told["ages"][row]


async def test_only_the_part_that_changed_is_sent() -> None:
    """The card of one model; above it only the age of the pass."""
    desk = full()
    live, pages = following(desk)
    since = sent_page(live, pages)
    moved(desk, degraded)
    told = json.loads((await next_message(live, ADMIN, since)).data)
    assert ({element("m", "gemma4-26b")}, {"overview"}) == (set(told["parts"]), set(told["ages"]))
    assert "Degraded" in told["parts"][element("m", "gemma4-26b")]
    assert "lists" not in told


async def test_what_comes_and_goes_is_told_as_the_order_of_its_list() -> None:
    """An item that is done leaves, and what stays is not sent again."""
    desk = full()
    live, pages = following(desk)
    since = sent_page(live, pages)
    moved(desk, lambda view: evolve(view, items=view.items[1:]))
    told = json.loads((await next_message(live, ADMIN, since)).data)
    assert [element("i", "b")] == told["lists"]["work"]
    assert {"overview", "work-head"} == set(told["parts"])


async def test_a_change_names_the_version_that_the_reader_then_has() -> None:
    """With it the next connection goes on where this one ended."""
    desk = full()
    live, pages = following(desk)
    since = sent_page(live, pages)
    moved(desk, degraded)
    first = await next_message(live, ADMIN, since)
    moved(desk, probed)
    told = json.loads((await next_message(live, ADMIN, first.id)).data)
    assert ["ages"] == list(told)


@pytest.mark.parametrize("since", ["", "0-1", "nonsense", MARKUP])
async def test_who_has_a_page_that_is_not_known_reads_it_anew(since: str) -> None:
    """After a restart, or too long ago."""
    desk = full()
    live, pages = following(desk)
    sent_page(live, pages)
    stream = live.stream(ADMIN, since, "")
    assert ["refresh"] == [message.event async for message in stream]


async def test_a_page_of_another_make_is_read_anew() -> None:
    """A model more is another page; so is the first pass."""
    desk = full()
    live, pages = following(desk)
    since = sent_page(live, pages)
    moved(desk, lambda view: evolve(view, models=view.models[:2]))
    assert "refresh" == (await next_message(live, ADMIN, since)).event
    empty = FakeDesk()
    live, pages = following(empty)
    since = sent_page(live, pages)
    empty.seen = a_view()
    assert "refresh" == (await next_message(live, ADMIN, since)).event


async def test_without_news_a_reader_hears_now_and_then_that_it_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A proxy closes what is silent; and the stream ends, so that a session is looked at."""
    desk = full()
    live, pages = following(desk)
    since = sent_page(live, pages)
    stream = live.stream(ADMIN, since, "")
    first = await anext(stream)
    assert "still" == first.event
    await stream.aclose()
    monkeypatch.setattr(live_module, "LIFE_S", 20.0)
    began = desk.clock.at

    async def again(_: str) -> Sheet:
        desk.seen = evolve(a_view(), at=desk.clock.at)
        return pages.made(admin=True).sheet

    live.sources[ADMIN] = Source(again)
    spoken = [message async for message in live.stream(ADMIN, sent_page(live, pages), "")]
    assert spoken
    assert 20.0 <= desk.clock.at - began <= 25.0


async def test_a_reader_that_left_is_not_counted() -> None:
    """Places are for who listens."""
    desk = full()
    live, pages = following(desk)
    stream = live.stream(ADMIN, sent_page(live, pages), "")
    await anext(stream)
    assert 1 == live.listeners
    await stream.aclose()
    assert 0 == live.listeners


async def test_a_part_with_a_form_holds_the_readers_own_token() -> None:
    """What is kept for everybody holds nobody's."""
    desk = full()
    live, pages = following(desk)
    since = sent_page(live, pages)
    moved(desk, lambda view: evolve(view, records=tuple(
        record._replace(fails=9) for record in view.records)))  # fmt: skip
    data = (await next_message(live, ADMIN, since, 'to"ken')).data
    assert "to&#34;ken" in json.loads(data)["parts"][pages._lines.id_of(a_view().records[0])]
    assert "<csrf>" not in data


async def test_markup_in_a_change_is_text() -> None:
    """A change is put into the page as HTML."""
    desk = full()
    live, pages = following(desk)
    since = sent_page(live, pages)
    moved(desk, lambda view: evolve(view, records=tuple(
        record._replace(litellm_said=MARKUP) for record in view.records)))  # fmt: skip
    data = (await next_message(live, ADMIN, since)).data
    assert "&lt;script&gt;" in data
    assert "<script" not in data


async def test_versions_are_kept_for_a_few_passes_and_pages_only() -> None:
    """Whatever readers ask for, memory is bounded."""
    desk = full()
    live, pages = following(desk)
    first = sent_page(live, pages)
    for _ in range(20):
        moved(desk, degraded)
        sent_page(live, pages)
    assert live.known(ADMIN, first) is None
    sheet = pages.made(admin=True).sheet
    names = [f"deployment:{number}" for number in range(500)]
    versions = [live.version(name, sheet) for name in names]
    known = [live.known(*each) for each in zip(names, versions, strict=True)]
    assert live_module._PAGES_KEPT == sum(one is not None for one in known)


# ---- who may listen


@pytest.mark.parametrize(
    ("page", "name", "status"),
    [
        ("models/admin", CARL, 403),
        ("models/caller", CARL, 200),
        ("models/admin", ADA, 200),
        ("deployment:llmao-1:6", CARL, 403),
        ("deployment:llmao-1:6", ADA, 200),
        ("nothing", ADA, 404),
        ("", ADA, 404),
    ],
)
async def test_a_caller_hears_of_the_callers_page_only(page: str, name: str, status: int) -> None:
    """The stream is guarded like the page."""
    async with visitor(app_of(full()), name) as client:
        answer = await client.get("/live", params={"page": page, "from": "old"})
    assert status == answer.status_code
    if status == 200:
        assert "text/event-stream" in answer.headers["content-type"]
        assert "event: refresh" in answer.text


async def test_nobody_unknown_listens() -> None:
    """Without a name there is no page either."""
    async with visitor(app_of(full()), "") as client:
        answer = await client.get("/live", params={"page": "models/caller"})
    assert answer.status_code in (303, 401, 403)


async def test_what_a_caller_hears_is_made_of_models_alone() -> None:
    """A probe moves nothing on that page."""
    desk = full()
    _, pages = following(desk)
    before = pages.made(admin=False).sheet
    moved(desk, probed)
    after = pages.made(admin=False).sheet
    told = change(before, after)
    assert told is not None
    assert not told


async def test_there_are_only_so_many_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next reader is told when to come again."""
    monkeypatch.setattr(live_module, "MOST_LISTENERS", 0)
    assert MOST_LISTENERS > 1
    answer = await visit(full(), "/live?page=models/admin", ADA)
    assert (503, "30") == (answer.status_code, answer.headers["retry-after"])
