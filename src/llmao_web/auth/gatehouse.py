"""The gatehouse: every request for people or for the API passes here before a handler sees it.

Rule of this file: who may not pass is turned away here, in one place; a handler without a word
about it is for admins. Cookies are read and set here and nowhere else.
"""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from attrs import define, field
from litestar.connection import ASGIConnection
from litestar.datastructures import Cookie
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from llmao_core.config import Config
from llmao_web.desk import Clock
from llmao_web.peers import header_of
from llmao_web.people import (
    ANYBODY,
    CSRF,
    SESSION,
    USER,
    is_for_callers,
    is_for_strangers,
    user_of,
)

from .bearers import Bearers
from .guards import TurnedAwayError, admins_only
from .identity import Identify, identifying
from .session import Session, Sessions

API = "/api/"
SIGN_IN = "/signin"
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


def sessions_of(config: Config) -> Sessions:
    """Return the sessions a configuration asks for."""
    auth = config.auth
    return Sessions(auth.session_idle_s, auth.session_max_s, auth.session_key)


@define
class Gatehouse:
    """Tells who asks, and lets them pass or not."""

    config: Config
    clock: Clock
    sessions: Sessions
    bearers: Bearers
    _identify: Identify = field(init=False)
    _secure: bool = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._identify = identifying(self.config.auth)
        self._secure = self.config.server.public_url.startswith("https:")

    def before(self, app: ASGIApp) -> ASGIApp:
        """Return an application that is asked only what may be asked."""

        async def passing(scope: Scope, receive: Receive, send: Send) -> None:
            visitor: ASGIConnection[Any, Any, Any, Any] = ASGIConnection(scope, receive, send)
            if visitor.url.path.startswith(API):
                self._know_machine(visitor)
                _admit(visitor, self.config.auth.callers)
                await app(scope, receive, send)
                return
            cookie = self._know_person(visitor)
            if _must_sign_in(visitor, self.config.auth.callers):
                await _to_sign_in(visitor, send)
                return
            _admit(visitor, self.config.auth.callers)
            await app(scope, receive, self._with_cookie(visitor, cookie, send))

        return passing

    def _know_machine(self, visitor: ASGIConnection[Any, Any, Any, Any]) -> None:
        """Take a bearer token, else whoever is signed in, and nobody else."""
        scope = visitor.scope
        user = self.bearers.user_of(scope, self.clock.monotonic())
        if user is None:
            if visitor.scope.get("method") not in _SAFE:
                raise TurnedAwayError(status_code=403, detail="This needs an API token.")
            user = self._identify(scope, self._session(visitor))
        scope["state"][USER] = user or ANYBODY

    def _know_person(self, visitor: ASGIConnection[Any, Any, Any, Any]) -> Session | None:
        """Put user, session and CSRF token into the scope; return the cookie's own session."""
        scope, now = visitor.scope, self.clock.now()
        _refuse_other_sites(visitor)
        held = self._session(visitor)
        user = self._identify(scope, held) or ANYBODY
        if held is not None and held.name and held.name != user.name:
            held = None
        session = self.sessions.touched(held, now) if held else self.sessions.begin(now)
        scope["state"] |= {
            USER: user,
            SESSION: session,
            CSRF: self.sessions.csrf(session, user.name),
        }
        return held

    @property
    def _cookie(self) -> str:
        return "__Host-llmao" if self._secure else "llmao"

    def _session(self, visitor: ASGIConnection[Any, Any, Any, Any]) -> Session | None:
        text = visitor.cookies.get(self._cookie)
        return self.sessions.opened(text, self.clock.now()) if text else None

    def _with_cookie(
        self, visitor: ASGIConnection[Any, Any, Any, Any], before: Session | None, send: Send
    ) -> Send:
        async def sending(message: Message) -> None:
            session: Session = visitor.scope["state"][SESSION]
            if message["type"] == "http.response.start" and session != before:
                header = (b"set-cookie", self._set_cookie(session).encode())
                message["headers"] = [*message["headers"], header]
            await send(message)

        return sending

    def _set_cookie(self, session: Session) -> str:
        cookie = Cookie(
            key=self._cookie,
            value=self.sessions.sealed(session),
            max_age=self.sessions.left_s(session, self.clock.now()),
            httponly=True,
            samesite="lax",
            secure=self._secure,
        )
        return cookie.to_header(header="")


def middleware(gatehouse: Gatehouse) -> Callable[[ASGIApp], ASGIApp]:
    """Return the middleware; a function, because Litestar copies what is not one."""

    def before(app: ASGIApp) -> ASGIApp:
        return gatehouse.before(app)

    return before


def _refuse_other_sites(visitor: ASGIConnection[Any, Any, Any, Any]) -> None:
    """Refuse what another site's page posts here; every form has its token besides."""
    if visitor.scope.get("method") in _SAFE:
        return
    if header_of(visitor.scope, b"sec-fetch-site") in ("cross-site", "same-site"):
        raise TurnedAwayError(status_code=403, detail="Another site may not send forms here.")


def _must_sign_in(visitor: ASGIConnection[Any, Any, Any, Any], callers: str) -> bool:
    """Tell whether this is a person's first step to a page they cannot see yet."""
    reading = visitor.scope.get("method") in ("GET", "HEAD")
    wants_page = "text/html" in header_of(visitor.scope, b"accept")
    return reading and wants_page and _unknown(visitor, callers)


def _unknown(visitor: ASGIConnection[Any, Any, Any, Any], callers: str) -> bool:
    opt = visitor.scope["route_handler"].opt
    if user_of(visitor).name or is_for_strangers(opt):
        return False
    reading = visitor.scope.get("method") in _SAFE
    return not (callers == "everybody" and reading and is_for_callers(opt))


def _admit(visitor: ASGIConnection[Any, Any, Any, Any], callers: str) -> None:
    """Raise TurnedAwayError for who may not see what they ask for."""
    if _unknown(visitor, callers):
        machine = visitor.url.path.startswith(API)
        said = "Send an API token or sign in." if machine else "Sign in first."
        headers = {"www-authenticate": 'Bearer realm="llmao"'} if machine else {}
        raise TurnedAwayError(status_code=401, detail=said, headers=headers)
    if not is_for_callers(visitor.scope["route_handler"].opt):
        admins_only(visitor)


async def _to_sign_in(visitor: ASGIConnection[Any, Any, Any, Any], send: Send) -> None:
    asked = visitor.url.path + (f"?{visitor.url.query}" if visitor.url.query else "")
    place = f"{SIGN_IN}?next={quote(asked, safe='/')}"
    headers = [(b"location", place.encode()), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": 303, "headers": headers})
    await send({"type": "http.response.body", "body": b"", "more_body": False})
