"""`/live`: tells an open page what changed since it was sent, as server-sent events.

Rule of this file: a listener is sent the difference between the newest sheet and the one it has,
and no queue is kept: whoever is slow misses what came between. How many listen is bounded.
"""

import asyncio
import itertools
import threading
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any
from urllib.parse import urlencode
from weakref import WeakValueDictionary

from attrs import frozen
from litestar import Request, get
from litestar.exceptions import (
    NotFoundException,
    PermissionDeniedException,
    ServiceUnavailableException,
)
from litestar.handlers import HTTPRouteHandler
from litestar.response import ServerSentEvent, ServerSentEventMessage
from litestar.serialization import encode_json

from llmao_web.desk import Clock, Desk
from llmao_web.people import FOR_CALLERS, csrf_of, user_of

from .render import with_csrf
from .sheet import Change, Sheet, change

MOST_LISTENERS = 64
PACE_S = 1.0
# A stream ends now and then, so that a session that is over is noticed.
LIFE_S = 600.0
# The script counts on it: it takes three times as long without a word for a broken connection.
QUIET_S = 15.0
_VERSIONS_KEPT = 8
_PAGES_KEPT = 64


@frozen
class Source:
    """A kind of page that can be followed. sheet: takes what stands behind the name."""

    sheet: Callable[[str], Awaitable[Sheet]]
    admin: bool = True


class Live:
    """The sheets that were sent to somebody lately, and who listens."""

    def __init__(self, desk: Desk, clock: Clock) -> None:
        self.sources: dict[str, Source] = {}
        # What the demo adds to each sheet.
        self.complete: Callable[[Sheet], Sheet] = _as_it_is
        self._desk = desk
        self._clock = clock
        # Versions of an earlier process mean nothing to this one.
        self._epoch = f"{int(clock.now() * 1000):x}"
        self._numbers = itertools.count(1)
        self._kept: OrderedDict[str, OrderedDict[str, Sheet]] = OrderedDict()
        # Pages are made in threads.
        self._lock = threading.Lock()
        self._making: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.listeners = 0

    def address(self, page: str, sheet: Sheet) -> str:
        """Return where the script of a page that was just made hears of changes."""
        return (
            f"/live?{urlencode({'page': page, 'from': self.version(page, self.complete(sheet))})}"
        )

    def version(self, page: str, sheet: Sheet) -> str:
        """Return the name of a sheet, the same for as long as it is the newest."""
        with self._lock:
            versions = self._kept.setdefault(page, OrderedDict())
            self._kept.move_to_end(page)
            newest = next(reversed(versions), "")
            if not newest or versions[newest] is not sheet:
                newest = f"{self._epoch}-{next(self._numbers)}"
                versions[newest] = sheet
            _drop_oldest(versions, _VERSIONS_KEPT)
            _drop_oldest(self._kept, _PAGES_KEPT)
            return newest

    def known(self, page: str, version: str) -> Sheet | None:
        """Return a sheet that was sent before; None when it is too long ago."""
        with self._lock:
            versions = self._kept.get(page)
            return versions.get(version) if versions else None

    def source(self, page: str) -> tuple[Source, str]:
        """Return what a page is made by, and what is handed to it; NotFoundException for none."""
        name, _, rest = page.partition(":")
        if name not in self.sources:
            raise NotFoundException
        return self.sources[name], rest

    async def stream(
        self, page: str, since: str, csrf: str
    ) -> AsyncGenerator[ServerSentEventMessage, None]:
        """Yield what changes on a page, until it must be read anew or the stream is old."""
        self.listeners += 1
        try:
            async for message in self._changes(page, since, csrf):
                yield message
        finally:
            self.listeners -= 1

    async def _changes(
        self, page: str, since: str, csrf: str
    ) -> AsyncGenerator[ServerSentEventMessage, None]:
        began = spoken = self._clock.monotonic()
        sent = self.known(page, since)
        while self._clock.monotonic() - began < LIFE_S:
            view = self._desk.view()
            sheet = await self._sheet(page)
            moved = change(sent, sheet) if sent is not None else None
            if moved is None:
                yield ServerSentEventMessage(data="now", event="refresh")
                return
            if moved:
                version = self.version(page, sheet)
                yield ServerSentEventMessage(data=_encoded(moved, csrf), event="change", id=version)
                sent, spoken = sheet, self._clock.monotonic()
            await self._clock.sleep(PACE_S)
            while self._desk.view() is view:
                if self._clock.monotonic() - spoken >= QUIET_S:
                    yield ServerSentEventMessage(data="nothing new", event="still")
                    spoken = self._clock.monotonic()
                await self._clock.sleep(PACE_S)

    async def _sheet(self, page: str) -> Sheet:
        """Return the newest sheet of a page; one listener makes it, the others wait for it."""
        source, rest = self.source(page)
        lock = self._making.setdefault(page, asyncio.Lock())
        async with lock:
            return self.complete(await source.sheet(rest))


def _as_it_is(sheet: Sheet) -> Sheet:
    return sheet


def live_page(live: Live) -> HTTPRouteHandler:
    """Return the handler of `/live`."""

    @get("/live", opt=FOR_CALLERS)
    async def listen(request: Request[Any, Any, Any]) -> ServerSentEvent:
        """Follow one page."""
        page = str(request.query_params.get("page", ""))
        source, _ = live.source(page)
        if source.admin and not user_of(request).admin:
            raise PermissionDeniedException
        if live.listeners >= MOST_LISTENERS:
            raise ServiceUnavailableException(headers={"retry-after": "30"})
        asked = str(request.query_params.get("from", ""))
        since = request.headers.get("last-event-id") or asked
        return ServerSentEvent(live.stream(page, since, csrf_of(request)))

    return listen


def _encoded(moved: Change, csrf: str) -> str:
    parts = {name: with_csrf(html, csrf) for name, html in moved.parts.items()}
    whole = {"parts": parts, "ages": moved.ages, "lists": moved.lists}
    return encode_json({name: value for name, value in whole.items() if value}).decode()


def _drop_oldest(kept: OrderedDict[str, Any], most: int) -> None:
    while len(kept) > most:
        kept.popitem(last=False)
