"""The wire between a plugin and its far end: it writes down what is sent, and breaks on demand.

Rule of this file: knows HTTP and no provider. What it answers in a mishap's place repeats the
whole request, key included, so that a plugin which quotes its far end is caught.
"""

import asyncio
import enum
import json
from collections.abc import Callable, Mapping
from typing import Any

import httpx
from attrs import define, field, frozen

from llmao_core.errors import Busy, FetchError, Garbled, Unauthorized, Unreachable

RETRY_AFTER_S = 17.0


class Mishap(enum.Enum):
    """What can go wrong with one request."""

    UNAUTHORIZED = "unauthorized"
    BUSY = "busy"
    BUSY_FOR_A_TIME = "busy, with Retry-After"
    UNREACHABLE = "unreachable"
    SLOW = "slow"
    CUT = "cut off"
    DOWN = "down"
    WEB_PAGE = "a web page"
    HALF_AN_ANSWER = "half an answer"
    EMPTY_BODY = "an empty body"
    NULL = "null"
    NULL_LIST = "null in place of the list"
    EMPTY_OBJECT = "an empty object"
    BARE_LIST = "a bare list"
    BARE_TEXT = "a bare text"
    ERROR_IN_200 = "an error inside 200"
    HALF_A_PAGE = "half a page"
    REDIRECT = "a redirect elsewhere"
    UNANSWERED = "carried out and not answered"


# What a read that meets it must raise. UNANSWERED is for writes.
RAISES: Mapping[Mishap, type[FetchError]] = {
    Mishap.UNAUTHORIZED: Unauthorized,
    Mishap.BUSY: Busy,
    Mishap.BUSY_FOR_A_TIME: Busy,
    Mishap.UNREACHABLE: Unreachable,
    Mishap.SLOW: Unreachable,
    Mishap.CUT: Unreachable,
    Mishap.DOWN: Unreachable,
    Mishap.WEB_PAGE: Garbled,
    Mishap.HALF_AN_ANSWER: Garbled,
    Mishap.EMPTY_BODY: Garbled,
    Mishap.NULL: Garbled,
    Mishap.NULL_LIST: Garbled,
    Mishap.EMPTY_OBJECT: Garbled,
    Mishap.BARE_LIST: Garbled,
    Mishap.BARE_TEXT: Garbled,
    Mishap.ERROR_IN_200: Garbled,
    Mishap.HALF_A_PAGE: Garbled,
    Mishap.REDIRECT: Garbled,
}
_ERRORS: Mapping[Mishap, type[httpx.TransportError]] = {
    Mishap.UNREACHABLE: httpx.ConnectError,
    Mishap.SLOW: httpx.ReadTimeout,
    Mishap.CUT: httpx.RemoteProtocolError,
}
_ANSWERS: Mapping[Mishap, tuple[int, str]] = {
    Mishap.UNAUTHORIZED: (401, '{{"error": "not allowed: {said}"}}'),
    Mishap.BUSY: (429, "too many requests: {said}"),
    Mishap.BUSY_FOR_A_TIME: (429, "too many requests: {said}"),
    Mishap.DOWN: (503, "<html><h1>503</h1>{said}</html>"),
    Mishap.WEB_PAGE: (200, "<!doctype html><title>Sign in</title>{said}"),
    Mishap.EMPTY_BODY: (200, ""),
    Mishap.NULL: (200, "null"),
    Mishap.EMPTY_OBJECT: (200, "{{}}"),
    Mishap.BARE_LIST: (200, "[]"),
    Mishap.BARE_TEXT: (200, '"none"'),
    Mishap.ERROR_IN_200: (200, '{{"success": false, "error": "internal: {said}"}}'),
    Mishap.REDIRECT: (302, "{said}"),
}
_HEADERS: Mapping[Mishap, Mapping[str, str]] = {
    Mishap.BUSY_FOR_A_TIME: {"retry-after": f"{RETRY_AFTER_S:g}"},
    Mishap.REDIRECT: {"location": "http://127.0.0.9:9/elsewhere"},
}


@frozen
class Sent:
    """One request, as it left the plugin. timeout: by phase, in seconds."""

    method: str
    url: str
    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    timeout: Mapping[str, float | None] = field(factory=dict)


@define
class _Ordered:
    kind: Mishap
    left: int
    writes: bool


class Wire(httpx.AsyncBaseTransport):
    """A transport that keeps a log and lets ordered mishaps happen.

    is_read: tells a request that only reads. log: every request, newest last.
    """

    def __init__(self, inner: httpx.AsyncBaseTransport, is_read: Callable[[Sent], bool]) -> None:
        self._inner = inner
        self._is_read = is_read
        self._ordered: list[_Ordered] = []
        self._cut_off = False
        self._hang = False
        self.held = asyncio.Event()
        self.log: list[Sent] = []

    # ---- orders

    def go_wrong(self, kind: Mishap, *, nth: int = 1, writes: bool = False) -> None:
        """Let the nth request from now go wrong; with `writes` only those that write count.

        UNANSWERED lets the request through, loses its answer, and nothing answers after it.
        """
        self._ordered.append(_Ordered(kind, nth, writes))

    def hang(self) -> None:
        """Answer nothing at all from now on; `held` is set when a request waits."""
        self._hang = True
        self.held = asyncio.Event()

    def go_well(self) -> None:
        """Let nothing go wrong any more."""
        self._ordered.clear()
        self._cut_off = self._hang = False

    # ---- requests

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Write a request down, and answer it or let it go wrong."""
        body = await request.aread()
        timeout = dict(request.extensions.get("timeout", {}))
        sent = Sent(request.method, str(request.url), body, dict(request.headers), timeout)
        self.log.append(sent)
        if self._hang:
            self.held.set()
            await asyncio.Event().wait()
        if self._cut_off:
            raise httpx.ConnectError(_said(request), request=request)
        kind = self._due(sent)
        return await (self._inner.handle_async_request(request) if kind is None
                      else self._spoilt(kind, request))  # fmt: skip

    async def aclose(self) -> None:
        """Close what is behind it."""
        await self._inner.aclose()

    def _due(self, sent: Sent) -> Mishap | None:
        due = None
        for one in tuple(self._ordered):
            if one.writes and self._is_read(sent):
                continue
            one.left -= 1
            if one.left == 0:
                self._ordered.remove(one)
                due = due or one.kind
        return due

    async def _spoilt(self, kind: Mishap, request: httpx.Request) -> httpx.Response:
        if kind in _ERRORS:
            raise _ERRORS[kind](_said(request), request=request)
        if kind in _ANSWERS:
            status, text = _ANSWERS[kind]
            said = text.format(said=_said(request)).encode()
            return httpx.Response(status, content=said, headers=_HEADERS.get(kind), request=request)
        response = await self._inner.handle_async_request(request)
        content = await response.aread()
        if kind is Mishap.UNANSWERED:
            self._cut_off = True
            raise httpx.ReadError(_said(request), request=request)
        if kind is Mishap.HALF_AN_ANSWER:
            return httpx.Response(200, content=content[: len(content) // 2], request=request)
        if kind is Mishap.NULL_LIST:
            return httpx.Response(200, json=_without_lists(content), request=request)
        raise NotImplementedError(f"the bench must know how {kind.value} looks, or say it cannot")


def _without_lists(content: bytes) -> dict[str, Any]:
    """Return an answer whose lists are null; an answer without any is the bench's to spoil."""
    answer = json.loads(content)
    spoilt = {k: None if isinstance(v, list) else v for k, v in answer.items()}
    if spoilt == answer:
        raise NotImplementedError("the bench must know which list to leave out, or say it cannot")
    return spoilt


def _said(request: httpx.Request) -> str:
    words: list[Any] = [request.method, request.url, request.headers.get("authorization", "")]
    return " ".join(str(word) for word in words)
