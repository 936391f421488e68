"""What boxes call: `GET` and `HEAD /vllm/config`, `POST /vllm/notice`.

Rule of this file: it decides nothing. The gate says who asks; what is sent is what the desk has
ready; what happened is noted and logged, without a secret.
"""

import json
from typing import Any

import structlog
from attrs import frozen
from litestar import Request, asgi, post
from litestar.exceptions import MethodNotAllowedException
from litestar.handlers import ASGIRouteHandler, HTTPRouteHandler
from litestar.response.base import ASGIResponse
from litestar.types import Receive, Scope, Send

from llmao_core.box_config import BoxAnswer
from llmao_core.config import ServerConfig
from llmao_core.protocol import Fetch, Restarting

from .box_gate import Asked, Gate, RefusalError, shown
from .desk import Clock, Desk

MOST_NAMES = 64
LONGEST_NAME = 128
_NO_STORE = (b"cache-control", b"no-store")
_JSON = (b"content-type", b"application/json")


def _bad_notice(what: str) -> RefusalError:
    return RefusalError(400, "bad_notice", f'{what}: send {{"restarting": ["NAME", …]}}.')


def _announced(body: bytes) -> tuple[str, ...]:
    try:
        notice = json.loads(body)
    except (ValueError, RecursionError):
        raise _bad_notice("The body is not JSON") from None
    names = notice.get("restarting") if isinstance(notice, dict) else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise _bad_notice("The body has no list of names under `restarting`")
    if len(names) > MOST_NAMES or any(len(name) > LONGEST_NAME for name in names):
        raise _bad_notice("Too many names, or one that is too long")
    return tuple(names)


@frozen
class Reply:
    """What is answered. headers: besides the ones every reply has."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[bytes, bytes], ...] = ()

    @property
    def all_headers(self) -> list[tuple[bytes, bytes]]:
        """Return every header but the length."""
        return [_NO_STORE, *([_JSON] if self.body else []), *self.headers]

    @classmethod
    def refusing(cls, refusal: RefusalError) -> "Reply":
        """Return a refusal as JSON."""
        error = {"error": {"code": refusal.code, "message": refusal.message}}
        wait = refusal.retry_after_s
        headers = () if wait is None else ((b"retry-after", str(wait).encode()),)
        return cls(refusal.status, json.dumps(error).encode(), headers)


def _fetch_of(answer: BoxAnswer, asked: Asked, *, handed: bool) -> Fetch:
    given = answer.revision if handed else ""
    return Fetch(answer.host, given, asked.applied, answer.assignment)


async def _send(reply: Reply, method: str, send: Send) -> None:
    headers = reply.all_headers
    if method != "HEAD" and reply.status not in (204, 304):
        headers.append((b"content-length", str(len(reply.body)).encode()))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    body = b"" if method == "HEAD" else reply.body
    await send({"type": "http.response.body", "body": body, "more_body": False})


def box_routes(
    desk: Desk, server: ServerConfig, clock: Clock
) -> list[ASGIRouteHandler | HTTPRouteHandler]:
    """Return the handlers boxes call."""
    gate = Gate(desk, server, clock)
    log = structlog.get_logger("llmao.box").bind()  # once, not for every line

    def said(event: str, asked: Asked, host: str, status: int, outcome: str) -> None:
        log.info(
            event,
            host=host,
            peer=asked.peer,
            forwarded_for=shown(asked.text(b"x-forwarded-for")),
            method=asked.method,
            status=status,
            outcome=outcome,
            applied=asked.applied,
        )

    def refuse(event: str, asked: Asked, refusal: RefusalError) -> Reply:
        said(event, asked, shown(asked.text(b"x-llmao-host")), refusal.status, refusal.code)
        return Reply.refusing(refusal)

    def fetch(asked: Asked) -> Reply:
        try:
            answer = gate.admit(asked)
        except RefusalError as refusal:
            return refuse("box fetch", asked, refusal)
        unchanged = asked.has(answer.revision)
        handed = asked.method == "GET" and not unchanged
        desk.note(_fetch_of(answer, asked, handed=handed))
        status = 304 if unchanged else 200
        said("box fetch", asked, answer.host, status, "handed out" if handed else "reported")
        etag = (b"etag", b'"%b"' % answer.revision.encode())
        return Reply(status, answer.body if handed else b"", (etag,))

    # plain ASGI, because a fleet that boots asks all at once
    @asgi("/vllm/config", copy_scope=False)
    async def config(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001
        asked = Asked.of(scope)
        if asked.method not in ("GET", "HEAD"):
            raise MethodNotAllowedException(headers={"allow": "GET, HEAD"})
        await _send(fetch(asked), asked.method, send)

    @post("/vllm/notice")
    async def notice(request: Request[Any, Any, Any]) -> ASGIResponse:
        asked = Asked.of(request.scope)
        try:
            answer = gate.admit(asked)
            names = _announced(await request.body())
        except RefusalError as refusal:
            reply = refuse("box notice", asked, refusal)
        else:
            ours = tuple(name for name in dict.fromkeys(names) if name in answer.names)
            desk.note(Restarting(answer.host, ours))
            said("box notice", asked, answer.host, 204, f"restarting {len(ours)} servers")
            reply = Reply(204)
        headers = [(name.decode(), value.decode()) for name, value in reply.all_headers]
        return ASGIResponse(status_code=reply.status, body=reply.body, headers=headers)

    return [config, notice]
