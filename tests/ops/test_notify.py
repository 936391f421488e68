"""Notifications get through, once, however the receiver behaves; and the loop waits for none."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpx
import pytest
import structlog
from attrs import define, evolve, field

from llmao_core.actions import Outcome, OutcomeKind
from llmao_core.codec import load
from llmao_core.config import Config, NotifyConfig, ServerConfig
from llmao_core.errors import ConfigError, LlmaoError
from llmao_core.hooks import Message, Notice
from llmao_core.plan import Plan
from llmao_core.records import AttentionItem, ItemKind, View
from llmao_core.secret import Secret
from llmao_core.source_file import File
from llmao_core.testing.clock import VirtualClock
from llmao_core.testing.served import Call, Reply, Served, ok
from llmao_web.shell.board import Board, Concluded
from llmao_web.shell.clock import SystemClock
from llmao_web.shell.host import Ended, PluginHost
from llmao_web.shell.notify import LONGEST_BACKOFF_S, MOST_AT_ONCE, MOST_WAITING, Notifier
from llmao_web.webhook import JSON, SLACK, as_json, as_slack

PATH = "/services/T0/a-path-that-is-a-secret"
DOWN = AttentionItem("down:a", ItemKind.DOWN, "a is down.", ("evidence",), since=3.0, host="a")
BRAKE = AttentionItem("brake_on", ItemKind.BRAKE_ON, "The brake holds 4 removals.")
NOTICE = Notice("down:a", ItemKind.DOWN, True, "a is down.", 3.0, 9.0, "a", remedy="Look at it.")


# ---- the notifier, on a clock by hand


@define
class Host:
    """Stands where the plugin host stands; `answer` says how each message ends."""

    answer: Callable[[int], Ended] = lambda _: Ended(Outcome(OutcomeKind.DONE))
    sent: list[tuple[float, str, Message]] = field(factory=list)
    held: asyncio.Event | None = None
    hanging: str = ""

    async def notify(self, kind: str, message: Message, now: float) -> Ended:
        self.sent.append((now, kind, message))
        if self.held:
            await self.held.wait()
        if message.url.reveal() == self.hanging:
            await asyncio.Event().wait()
        return self.answer(len(self.sent))


class World:
    """A board whose items a test chooses, and a notifier that looks at it."""

    def __init__(self, *receivers: NotifyConfig, leads: bool = True) -> None:
        self.clock = VirtualClock(start=0.0)
        self.board = Board(self.clock)
        self.board.ready = lambda: (True, ())  # type: ignore[method-assign]
        self.host = Host()
        self.leads = leads
        self.notifier = Notifier(self.board, self.host, self.clock, lambda: self.leads)
        self.use(*receivers)

    def use(self, *receivers: NotifyConfig) -> None:
        server = ServerConfig(public_url="https://llmao.example")
        self.notifier.apply(Config(server=server, notify=receivers))

    def show(self, *items: AttentionItem) -> None:
        view = View(self.clock.now(), items=items)
        self.board.conclude(Concluded(view, Plan(), 0), self.board.history)

    @property
    def told(self) -> list[list[tuple[str, bool]]]:
        return [[(one.id, one.opened) for one in sent.notices] for _, _, sent in self.host.sent]

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[VirtualClock]:
        task = asyncio.create_task(self.notifier.run())
        await self.clock.settle()
        yield self.clock
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def to(url: str = "https://hooks.example/x", kind: str = "json", *on: ItemKind) -> NotifyConfig:
    return NotifyConfig(Secret(url), kind, tuple(each.value for each in on))


async def test_an_item_that_opens_and_closes_is_told() -> None:
    """Two messages, by the plugin that the receiver names."""
    world = World(to(kind="slack"))
    async with world.running() as clock:
        world.show(DOWN)
        await clock.advance(30)
        world.show()
        await clock.advance(30)
    assert [[("down:a", True)], [("down:a", False)]] == world.told
    _, kind, message = world.host.sent[0]
    assert ("slack", "main", "https://llmao.example") == (kind, message.fleet, message.link)


async def test_a_receiver_is_told_what_it_wants() -> None:
    """Only the kinds it names; all when it names none."""
    world = World(to("https://a.example", "json", ItemKind.BRAKE_ON), to("https://b.example"))
    async with world.running() as clock:
        world.show(DOWN, BRAKE)
        await clock.advance(30)
    told = {sent.url.reveal(): [one.id for one in sent.notices] for _, _, sent in world.host.sent}
    assert {
        "https://a.example": ["brake_on"],
        "https://b.example": ["brake_on", "down:a"],
    } == told


async def test_nothing_is_told_before_every_source_was_tried() -> None:
    """The first passes know too little to wake somebody."""
    world = World(to())
    world.board.ready = lambda: (False, ("vast",))  # type: ignore[method-assign]
    async with world.running() as clock:
        world.show(DOWN)
        await clock.advance(60)
    assert [] == world.told


async def test_a_failing_receiver_is_tried_again_later_each_time() -> None:
    """5 s, doubling to 5 minutes; then what waits comes in one piece."""
    world = World(to())
    failed = Ended(Outcome(OutcomeKind.FAILED, "The receiver answered 500."))
    world.host.answer = lambda number: failed if number < 9 else Ended(Outcome(OutcomeKind.DONE))
    async with world.running() as clock:
        world.show(DOWN)
        await clock.advance(20)
        world.show(DOWN, BRAKE)
        await clock.advance(2000)
    times = [at for at, _, _ in world.host.sent]
    gaps = [later - sooner for sooner, later in itertools.pairwise(times)]
    assert [5, 10, 20, 40, 80, 160, LONGEST_BACKOFF_S, LONGEST_BACKOFF_S] == gaps
    assert [("down:a", True), ("brake_on", True)] == world.told[-1]


async def test_a_receiver_that_asks_to_wait_is_waited_for() -> None:
    """Its own time counts when it is longer than ours."""
    world = World(to())
    busy = Ended(Outcome(OutcomeKind.FAILED, "The receiver answered 429."), 120.0)
    world.host.answer = lambda number: busy if number == 1 else Ended(Outcome(OutcomeKind.DONE))
    async with world.running() as clock:
        world.show(DOWN)
        await clock.advance(200)
    assert [120.0] == [world.host.sent[1][0] - world.host.sent[0][0]]


async def test_what_was_refused_is_not_tried_again() -> None:
    """A person is shown it, until a message gets through."""
    world = World(to())
    refused = Ended(Outcome(OutcomeKind.REFUSED, "The receiver answered 404."))
    world.host.answer = lambda number: refused if number == 1 else Ended(Outcome(OutcomeKind.DONE))
    async with world.running() as clock:
        world.show(DOWN)
        await clock.advance(60)
        assert 1 == len(world.told)
        trouble = world.board.snapshots().troubles["notify[0]"]
        assert "The receiver answered 404." == trouble.message
        world.show(DOWN, BRAKE)
        await clock.advance(60)
    assert [("brake_on", True)] == world.told[1]
    assert {} == world.board.snapshots().troubles


async def test_a_trouble_stands_once_in_a_queue() -> None:
    """While a receiver is away a trouble that began and ended is told as ended, once."""
    world = World(to())
    failed = Ended(Outcome(OutcomeKind.FAILED, "no"))
    world.host.answer = lambda number: failed if number < 4 else Ended(Outcome(OutcomeKind.DONE))
    async with world.running() as clock:
        world.show(DOWN)
        await clock.advance(16)
        world.show()
        await clock.advance(300)
    assert [("down:a", False)] == world.told[-1]


async def test_a_queue_is_bounded() -> None:
    """The oldest are lost, their number is told, and a message holds a bounded part."""
    world = World(to())
    world.host.held = asyncio.Event()
    many = [
        AttentionItem(f"down:{number:04}", ItemKind.DOWN, ".", since=float(number))
        for number in range(MOST_WAITING + 20)
    ]
    async with world.running() as clock:
        world.show(*many)
        await clock.advance(60)
        world.host.held.set()
        await clock.advance(60)
    first = world.host.sent[0][2]
    assert (20, MOST_AT_ONCE, "down:0020") == (first.lost, len(first.notices), first.notices[0].id)
    assert 0 == world.host.sent[1][2].lost
    assert MOST_WAITING == len({one.id for _, _, sent in world.host.sent for one in sent.notices})


async def test_a_receiver_that_hangs_keeps_nobody_waiting() -> None:
    """Others are told, and looks go on."""
    world = World(to("https://a.example"), to("https://b.example"))
    world.host.hanging = "https://a.example"
    async with world.running() as clock:
        world.show(DOWN)
        await clock.advance(30)
        world.show()
        await clock.advance(30)
    assert [[("down:a", True)], [("down:a", True)], [("down:a", False)]] == world.told


async def test_only_the_leader_tells_and_nothing_twice() -> None:
    """A follower that comes to lead does not repeat what its predecessor told."""
    world = World(to(), leads=False)
    async with world.running() as clock:
        world.show(DOWN)
        await clock.advance(60)
        world.leads = True
        await clock.advance(60)
        assert [] == world.told
        world.show()
        await clock.advance(60)
    assert [[("down:a", False)]] == world.told


async def test_a_reload_keeps_what_waits_for_those_who_stay() -> None:
    """A receiver that is named as before goes on; one that is no longer named is told nothing."""
    stays, goes = to("https://a.example"), to("https://b.example")
    world = World(stays, goes)
    failed = Ended(Outcome(OutcomeKind.FAILED, "no"))
    world.host.answer = lambda number: failed if number < 3 else Ended(Outcome(OutcomeKind.DONE))
    async with world.running() as clock:
        world.show(DOWN)
        await clock.advance(16)
        world.use(stays)
        await clock.advance(60)
    urls = [sent.url.reveal() for _, _, sent in world.host.sent]
    assert ["https://a.example", "https://b.example", "https://a.example"] == urls


# ---- the plugins, over a socket


@define(slots=False)
class Receiver(Served):
    """A small server that answers what it is told to, or never."""

    reply: Reply = field(factory=lambda: ok({}))
    held: asyncio.Event | None = None
    got: list[Call] = field(factory=list)

    async def handle(self, call: Call) -> Reply:
        self.got.append(call)
        if self.held:
            await self.held.wait()
        return self.reply


@pytest.fixture
async def host() -> AsyncIterator[PluginHost]:
    made = PluginHost(SystemClock(), {"json": JSON, "slack": SLACK})
    yield made
    await made.aclose()


async def deliver(host: PluginHost, url: str, kind: str = "json") -> Ended:
    message = Message(Secret(url), "main", "https://llmao.example", (NOTICE,))
    return await host.notify(kind, message, 9.0)


async def test_json_is_posted(host: PluginHost) -> None:
    """The notice, whole, and nothing that is evidence."""
    receiver = Receiver()
    async with receiver.serve() as url:
        ended = await deliver(host, url + PATH)
    assert Ended(Outcome(OutcomeKind.DONE)) == ended
    assert PATH == receiver.got[0].path
    assert {
        "fleet": "main",
        "link": "https://llmao.example",
        "lost": 0,
        "notices": [
            {
                "id": "down:a",
                "kind": "down",
                "state": "open",
                "sentence": "a is down.",
                "remedy": "Look at it.",
                "host": "a",
                "since": 3.0,
                "at": 9.0,
                "times": 1,
            }
        ],
    } == receiver.got[0].json()


async def test_slack_is_posted(host: PluginHost) -> None:
    """One text."""
    receiver = Receiver()
    async with receiver.serve() as url:
        await deliver(host, url + PATH, "slack")
    line = ":red_circle: a is down. *What to do:* Look at it."
    text = f"*llmao main*\n{line}\n<https://llmao.example|Open llmao>"
    assert {"text": text} == receiver.got[0].json()


def test_slack_shows_names_and_obeys_none() -> None:
    """A host that calls itself <!channel> wakes nobody."""
    notice = evolve(NOTICE, sentence="<!channel> & co asks", remedy="", opened=False, times=3)
    message = Message(Secret("https://x"), "a>b", "", (notice,), lost=2)
    lines = as_slack(message)["text"].split("\n")
    assert [
        "*llmao a&gt;b*",
        ":large_green_circle: Over: &lt;!channel&gt; &amp; co asks (3 times)",
        "… and 2 older notices that could not be delivered.",
    ] == lines


@pytest.mark.parametrize(
    ("status", "kind", "wait_s"),
    [
        (204, OutcomeKind.DONE, None),
        (429, OutcomeKind.FAILED, 7.0),
        (500, OutcomeKind.FAILED, 7.0),
        (302, OutcomeKind.REFUSED, None),
        (404, OutcomeKind.REFUSED, None),
        (410, OutcomeKind.REFUSED, None),
    ],
)
async def test_an_answer_is_what_it_means(
    host: PluginHost, status: int, kind: OutcomeKind, wait_s: float | None
) -> None:
    """Good, later, or never; a redirect is not followed."""
    headers = {"retry-after": "7", "location": "http://127.0.0.1:1/"}
    receiver = Receiver(Reply(status, b"", headers))
    async with receiver.serve() as url:
        ended = await deliver(host, url + PATH)
    assert (kind, wait_s) == (ended.outcome.kind, ended.retry_after_s)
    assert 1 == len(receiver.got)


async def test_a_receiver_that_never_answers_is_given_up(
    host: PluginHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it took the message is not known."""
    monkeypatch.setattr("llmao_web.webhook.TIMEOUT_S", 0.05)
    held = asyncio.Event()
    async with Receiver(held=held).serve() as url:
        ended = await deliver(host, url + PATH)
        held.set()
    assert OutcomeKind.UNKNOWN is ended.outcome.kind


async def test_a_receiver_that_breaks_off_may_have_taken_it(host: PluginHost) -> None:
    """It is told again."""
    receiver = Receiver(Reply(200, b"{}", cut=True))
    async with receiver.serve() as url:
        ended = await deliver(host, url + PATH)
    assert OutcomeKind.UNKNOWN is ended.outcome.kind


@pytest.mark.parametrize("url", ["http://127.0.0.1:9" + PATH, "http://[::1" + PATH, "nonsense"])
async def test_no_outcome_tells_the_url(host: PluginHost, url: str) -> None:
    """Neither in what is said nor in what is logged."""
    with structlog.testing.capture_logs() as logs:
        ended = await deliver(host, url)
    assert not ended.outcome.good
    assert PATH not in f"{ended!r}{logs!r}"


@pytest.mark.parametrize("url", ["http://127.0.0.1:9" + PATH, "http://[::1" + PATH, "nonsense"])
async def test_the_plugin_itself_does_not_tell_it_either(url: str) -> None:
    """Not even to a host that would mask it."""
    message = Message(Secret(url), "main", "", (NOTICE,))
    async with httpx.AsyncClient(trust_env=False) as http:
        with pytest.raises(LlmaoError) as caught:
            await JSON.llmao_notify(message, http)
    assert PATH not in str(caught.value)
    assert caught.value.__suppress_context__


async def test_a_message_shows_no_secret() -> None:
    """Its URL is one, and what is posted has no place for it."""
    message = Message(Secret("https://x" + PATH), "main", "", (NOTICE,))
    assert PATH not in f"{message!r}{as_json(message)!r}{as_slack(message)!r}"


# ---- configuration


def problems(text: str, host: PluginHost) -> list[str]:
    """Return what is wrong with a section `notify`, warnings too."""
    config = "fleet: {key: k, vllm_api_salt: s}\n" + text
    try:
        loaded = load(
            File("config.yaml", config.encode()),
            lambda path: File(path, b"models: []"),
            lambda _: "",
            plugin_check=host.check,
        )
    except ConfigError as error:
        found: Any = error.problems
    else:
        found = loaded.warnings
    return [f"{one.path} {one.what}" for one in found if one.path.startswith("notify")]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("notify: [{url: 'https://hooks.example/x?token=1'}]", []),
        ("notify: [{url: 'http://127.0.0.1:9/x', kind: slack, on: [brake_on, down]}]", []),
        (
            "notify: [{url: 'http://hooks.example/x'}]",
            ["notify[0].url What llmao tells goes there in clear."],
        ),
        ("notify: [{url: 'ftp://a'}]", ["notify[0].url This is no http:// or https:// URL."]),
        ("notify: [{kind: json}]", ["notify[0].url There is no URL to post to."]),
        ("notify: [{url: CHANGE_ME}]", ["notify[0].url There is no URL to post to."]),
        (
            "notify: [{url: 'https://a', kind: pager}]",
            ["notify[0].kind No installed plugin delivers messages of this kind."],
        ),
        (
            "notify: [{url: 'https://a', on: [down, brake]}]",
            ["notify[0].on[1] There is no such kind of attention item."],
        ),
        ("notify: [{url: 'https://a', one: []}]", ["notify[0].one Unknown key `one`."]),
    ],
)
def test_a_section_is_checked(given: str, found: list[str]) -> None:
    """Each thing that is wrong, with its place."""
    made = PluginHost(SystemClock(), {"json": JSON, "slack": SLACK})
    assert found == problems(given, made)


def test_the_webhooks_are_installed() -> None:
    """Both kinds are announced by llmao's own package."""
    assert {"json", "slack"} <= PluginHost.installed(SystemClock()).notifiers()


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with structlog.testing.capture_logs():
        yield
