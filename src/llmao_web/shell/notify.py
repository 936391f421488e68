"""The notifier: looks at the attention items and tells receivers what opened and what is over.

Rule of this file: nobody waits for a receiver. Each has a queue of its own, bounded, in which a
trouble stands once; what cannot be delivered is tried again, later each time.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

import structlog
from attrs import define, evolve

from llmao_core.actions import OutcomeKind
from llmao_core.config import Config, NotifyConfig
from llmao_core.errors import Trouble
from llmao_core.hooks import Message, Notice

from .board import Board
from .clock import Clock
from .host import Ended
from .notices import Following, follow
from .unexpected import log_unexpected

LOOK_S = 5.0
FIRST_BACKOFF_S = 5.0
LONGEST_BACKOFF_S = 300.0
MOST_WAITING = 500
MOST_AT_ONCE = 50
# So many failures in a row are worth a person's look.
FAILURES_SHOWN = 3

log = structlog.get_logger(__name__)


class Notifies(Protocol):
    """The part of the plugin host that delivers messages."""

    async def notify(self, kind: str, message: Message, now: float) -> Ended:
        """Deliver one message by the plugin of that name and say how it ended; never raises."""
        ...


class Receiver:
    """Somebody to tell. name: how pages and log call it, for its URL is a secret."""

    def __init__(self, name: str, given: NotifyConfig, about: Message, parts: "_Parts") -> None:
        self.name = name
        self._given = given
        self._about = about
        self._parts = parts
        self._waiting: dict[str, Notice] = {}
        self._lost = 0
        self._failures = 0
        self._filled = asyncio.Event()

    def offer(self, notices: Sequence[Notice]) -> None:
        """Take what it wants to be told; a newer notice of a trouble replaces one that waits."""
        for notice in notices:
            if self._given.on and notice.kind.value not in self._given.on:
                continue
            newest = notice
            if older := self._waiting.pop(notice.id, None):
                newest = evolve(notice, times=notice.times + older.times)
            self._waiting[notice.id] = newest
            if len(self._waiting) > MOST_WAITING:
                del self._waiting[next(iter(self._waiting))]
                self._lost += 1
        if self._waiting:
            self._filled.set()

    async def run(self) -> None:
        """Deliver for ever."""
        while True:
            await self._filled.wait()
            wait_s = await self.deliver()
            if not self._waiting:
                self._filled.clear()
            if wait_s:
                await self._parts.clock.sleep(wait_s + self._parts.clock.jitter(wait_s / 10))

    async def deliver(self) -> float:
        """Deliver the oldest that wait; return for how many seconds nothing is to be tried."""
        sent = list(self._waiting.values())[:MOST_AT_ONCE]
        lost, now = self._lost, self._parts.clock.now()
        message = evolve(self._about, notices=tuple(sent), lost=lost)
        ended = await self._parts.host.notify(self._given.kind, message, now)
        self._log(ended, len(sent))
        self._parts.board.counts.told(self._given.kind, ended.outcome.kind)
        if ended.outcome.good or ended.outcome.kind is OutcomeKind.REFUSED:
            for notice in sent:
                if self._waiting.get(notice.id) is notice:
                    del self._waiting[notice.id]
            self._lost -= lost
        return self._after(ended)

    def _after(self, ended: Ended) -> float:
        if ended.outcome.good:
            self._failures = 0
            self._parts.board.warn(self.name, None)
            return 0.0
        self._failures += 1
        refused = ended.outcome.kind is OutcomeKind.REFUSED
        if refused or self._failures >= FAILURES_SHOWN:
            trouble = Trouble("NotifyError", ended.outcome.said, self._parts.clock.now())
            self._parts.board.warn(self.name, trouble)
        wait_s = FIRST_BACKOFF_S * 2.0 ** min(self._failures - 1, 16)
        return min(max(wait_s, ended.retry_after_s or 0.0), LONGEST_BACKOFF_S)

    def _log(self, ended: Ended, notices: int) -> None:
        say = log.info if ended.outcome.good else log.warning
        outcome = ended.outcome.kind.value
        say("notified", receiver=self.name, notices=notices, outcome=outcome,
            said=ended.outcome.said)  # fmt: skip


@define
class _Parts:
    board: Board
    host: Notifies
    clock: Clock


class Notifier:
    """Looks every few seconds, and has every receiver told. leads: whether this replica tells."""

    def __init__(
        self, board: Board, host: Notifies, clock: Clock, leads: Callable[[], bool] = lambda: True
    ) -> None:
        self._parts = _Parts(board, host, clock)
        self._leads = leads
        self._following: Following = {}
        self._receivers: dict[str, tuple[object, Receiver]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None

    def apply(self, config: Config) -> None:
        """Tell whom a configuration names; who is named as before keeps what waits for it."""
        wanted = {f"notify[{place}]": each for place, each in enumerate(config.notify)}
        for name in self._receivers.keys() - wanted.keys():
            self._stop(name)
        for name, given in wanted.items():
            about = Message(given.url, config.fleet.name, config.server.public_url)
            if name in self._receivers and self._receivers[name][0] == (given, about):
                continue
            self._stop(name)
            self._receivers[name] = (given, about), Receiver(name, given, about, self._parts)
            self._start(name)

    async def run(self) -> None:
        """Look and tell for ever."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            for name in self._receivers:
                self._start(name)
            while True:
                await self._parts.clock.sleep(LOOK_S)
                self.look()

    def look(self) -> None:
        """Look once; before every source was tried nothing is known well enough to be told."""
        board = self._parts.board
        view = board.view()
        if view is None or not board.ready()[0]:
            return
        self._following, notices = follow(self._following, view.items, self._parts.clock.now())
        # A follower goes along, so that it tells nothing twice when it comes to lead.
        if notices and self._leads():
            for _, receiver in self._receivers.values():
                receiver.offer(notices)

    def _start(self, name: str) -> None:
        if self._group is None:
            return
        self._tasks[name] = self._group.create_task(self._guarded(self._receivers[name][1]))

    def _stop(self, name: str) -> None:
        self._receivers.pop(name, None)
        if task := self._tasks.pop(name, None):
            task.cancel()
        self._parts.board.warn(name, None)

    async def _guarded(self, receiver: Receiver) -> None:
        while True:
            try:
                await receiver.run()
            except Exception as error:
                log_unexpected(receiver.name, error)
                await self._parts.clock.sleep(LONGEST_BACKOFF_S)
