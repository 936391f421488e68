"""One request to a server nobody trusts, as a value.

Rule of this file: whatever the far end does becomes a Reply, and what it said is masked before
it is kept. Only our own trouble (no descriptors, no memory) is raised: that says nothing about
the far end.
"""

import asyncio
import errno
import re
import socket
import ssl
from collections.abc import Iterator
from functools import lru_cache

import aiohttp
import httpx
from attrs import field, frozen
from httpx_aiohttp import AiohttpTransport

from llmao_core.probes import Reply, ReplyKind
from llmao_core.secret import Secret

MAX_BODY_BYTES = 1_000_000
_EXCERPT_CHARS_READ = 4000
_EXCERPT_CHARS = 200
# Long enough for the steps of one probe to share a connection, too short for the next probe to:
# that one must show that a new connection can be made.
_KEEP_ALIVE_S = 0.9
_DNS_TTL_S = 30
_URLS_KEPT = 10_000
_HEADERS = ((b"User-Agent", b"llmao"), (b"Accept-Encoding", b"identity"))

_OURS = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
_NO_ROUTE = frozenset(
    (
        errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EHOSTDOWN, errno.EACCES,
        errno.EPERM, errno.EINVAL, errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL,
    )
)  # fmt: skip
_FAR_ENDS_FAULT = (
    httpx.HTTPError,
    httpx.InvalidURL,
    httpx.StreamError,
    aiohttp.ClientError,
    aiohttp.http_exceptions.HttpProcessingError,
    OSError,
    ValueError,
)
_KEY_LIKE = re.compile(r"\bsk-[A-Za-z0-9_-]{4,}")
_UNPRINTABLE = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202f\u2066-\u2069]+")


@frozen
class Answered:
    """The end of one request. heard: a status line came. body: of an answer with 2xx."""

    reply: Reply
    heard: bool = False
    body: bytes = field(default=b"", repr=False)


def new_transport() -> httpx.AsyncBaseTransport:
    """Return a transport for thousands of hosts; close it after use.

    aiohttp does the work: httpx's own pool looks through all its connections for each request.
    A bare transport has no proxy, cookies, redirects or unpacking of bodies, and costs a third
    less than a client around it. Measured in tests/bench/bench_probes.py.
    """
    verify = httpx.create_ssl_context()

    def session() -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            limit=0, keepalive_timeout=_KEEP_ALIVE_S, ttl_dns_cache=_DNS_TTL_S, ssl=verify
        )
        return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())

    return AiohttpTransport(verify=verify, client=session)


async def ask(
    transport: httpx.AsyncBaseTransport,
    method: str,
    url: str,
    until: float,
    *,
    bearer: Secret | None = None,
    content: bytes | None = None,
    max_bytes: int = MAX_BODY_BYTES,
) -> Answered:
    """Send one request and return how it ended, at the loop's time `until` at the latest.

    Follows no redirect. Raises OSError for trouble of our own, and nothing else.
    """
    heard = 0
    try:
        async with asyncio.timeout_at(until):
            headers = _headers(bearer, content)
            request = httpx.Request(method, _parsed(url), headers=headers, content=content)
            response = await transport.handle_async_request(request)
            heard = response.status_code
            assert isinstance(response.stream, httpx.AsyncByteStream)
            try:
                body = await _read(response.stream, max_bytes)
            finally:
                await response.stream.aclose()
    except TimeoutError:
        return Answered(Reply(ReplyKind.TIMED_OUT, said=_stopped(heard)), heard > 0)
    except _FAR_ENDS_FAULT as error:
        return Answered(_failure(error, bearer), heard > 0)
    if body is None:
        said = f"HTTP {heard}, then more than {max_bytes} bytes"
        return Answered(Reply(ReplyKind.BROKEN, said=said), heard=True)
    if 200 <= heard < 300:
        return Answered(Reply(ReplyKind.ANSWERED, heard), heard=True, body=body)
    return Answered(Reply(ReplyKind.ANSWERED, heard, excerpt(body, bearer)), heard=True)


@lru_cache(maxsize=_URLS_KEPT)
def _parsed(url: str) -> httpx.URL:
    return httpx.URL(url)


def _headers(bearer: Secret | None, content: bytes | None) -> list[tuple[bytes, bytes]]:
    headers = list(_HEADERS)
    if content is not None:
        headers.append((b"Content-Type", b"application/json"))
    if bearer is not None:
        headers.append((b"Authorization", b"Bearer " + bearer.reveal().encode()))
    return headers


async def _read(stream: httpx.AsyncByteStream, max_bytes: int) -> bytes | None:
    """Return the body as it came, never unpacked; None when there is too much of it."""
    parts, size = [], 0
    async for part in stream:
        size += len(part)
        if size > max_bytes:
            return None
        parts.append(part)
    return b"".join(parts)


def _stopped(heard: int) -> str:
    return f"HTTP {heard}, and no end" if heard else ""


# ---- what went wrong


def _failure(error: BaseException, bearer: Secret | None) -> Reply:
    kind = _kind(error)
    if kind in (ReplyKind.REFUSED, ReplyKind.TIMED_OUT):
        return Reply(kind)
    return Reply(kind, said=mask(str(error) or type(error).__name__, bearer))


def _kind(error: BaseException) -> ReplyKind:
    """Return how it ended.

    A connection that was accepted and then reset is BROKEN, not REFUSED: a proxy in front, a
    full backlog or a server on its way down does that too, and only a refusal says that nothing
    listens.
    """
    causes = tuple(_causes(error))
    if any(
        isinstance(cause, socket.gaierror | aiohttp.ClientConnectorDNSError) for cause in causes
    ):
        return ReplyKind.DNS
    if any(isinstance(cause, ssl.SSLError | ssl.CertificateError) for cause in causes):
        return ReplyKind.BROKEN
    for cause in causes:
        if isinstance(cause, OSError) and (kind := _kind_of_errno(cause)) is not None:
            return kind
    if isinstance(error, httpx.InvalidURL | httpx.UnsupportedProtocol | httpx.ConnectError):
        return ReplyKind.NO_ROUTE
    return ReplyKind.BROKEN


def _kind_of_errno(error: OSError) -> ReplyKind | None:
    if error.errno in _OURS:
        raise OSError(error.errno, "llmao itself cannot open another connection") from None
    if error.errno == errno.ECONNREFUSED:
        return ReplyKind.REFUSED
    if error.errno == errno.ETIMEDOUT:
        return ReplyKind.TIMED_OUT
    return ReplyKind.NO_ROUTE if error.errno in _NO_ROUTE else None


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


# ---- what it said


def mask(text: str, bearer: Secret | None) -> str:
    """Return a short excerpt on one line, without the bearer or anything that looks like a key."""
    head = text[: 2 * _EXCERPT_CHARS_READ]
    if bearer:
        head = head.replace(bearer.reveal(), "…")
    # cut again, or half a bearer could be left at the end
    plain = _UNPRINTABLE.sub(" ", _KEY_LIKE.sub("…", head[:_EXCERPT_CHARS_READ])).strip()
    return plain if len(plain) <= _EXCERPT_CHARS else plain[: _EXCERPT_CHARS - 1] + "…"


def excerpt(body: bytes, bearer: Secret | None) -> str:
    """Return the beginning of a body that may be anything."""
    return mask(body[: 8 * _EXCERPT_CHARS_READ].decode("utf-8", "replace"), bearer)
