"""Signing in and out: the page, the form, and the way to an OpenID provider and back.

Rule of this file: a session's id is new after each sign-in; nobody is sent to another site but
to the configured provider; what failed is said in one sentence that tells no name from another.
"""

import asyncio
from typing import Annotated, Any

import structlog
from attrs import define, field
from litestar import Request, Response, get, post
from litestar.enums import RequestEncodingType
from litestar.handlers import HTTPRouteHandler
from litestar.params import Body
from litestar.response import Redirect

from llmao_core.config import Config
from llmao_core.errors import LlmaoError
from llmao_web.desk import Clock, Office
from llmao_web.limit import Limit
from llmao_web.pages.render import Renderer, page
from llmao_web.peers import Networks, caller_of, networks, shared_by
from llmao_web.people import FOR_STRANGERS, SESSION, csrf_holds, user_of

from .guards import TurnedAwayError, is_local
from .identity import basis_of
from .oidc import CALLBACK, Oidc
from .passwords import Passwords
from .session import Session, Sessions

HOME = "/models"
# Who guesses one name needs at least three addresses to keep its owner waiting.
NAME_BURST, NAME_REFILL_S = 30, 2.0
# The log of admins takes so many sign-ins of one name at once, then one a minute.
NOTED_BURST, NOTED_REFILL_S = 10, 60.0
NOTED_WITHIN_S = 2.0
_WRONG = "The name or the password is wrong."
_EXPIRED = "The form was too old or came from elsewhere. Try again."
_LONGEST_NEXT = 2000

AnyRequest = Request[Any, Any, Any]
Form = Annotated[dict[str, str], Body(media_type=RequestEncodingType.URL_ENCODED)]


def local_place(text: str) -> str:
    """Return a place on this site, the front page for anything else."""
    return text if is_local(text, _LONGEST_NEXT) and not text.startswith("/signin") else HOME


@define
class SignIn:
    """What the handlers of sign-in share. office: keeps who signed in, None for nobody."""

    config: Config
    clock: Clock
    sessions: Sessions
    renderer: Renderer
    office: Office | None = None
    passwords: Passwords = field(init=False)
    oidc: Oidc | None = field(init=False)
    _proxies: Networks = field(init=False)
    _by_address: Limit = field(factory=Limit)
    _by_name: Limit = field(factory=lambda: Limit(NAME_BURST, NAME_REFILL_S))
    _noted: Limit = field(factory=lambda: Limit(NOTED_BURST, NOTED_REFILL_S))
    log: Any = field(factory=lambda: structlog.get_logger("llmao.auth"))

    def __attrs_post_init__(self) -> None:
        auth = self.config.auth
        self.passwords = Passwords(auth.admins)
        self.oidc = None
        if auth.mode == "oidc" and auth.oidc:
            url = self.config.server.public_url.rstrip("/") + CALLBACK
            self.oidc = Oidc(auth.oidc, url, self.sessions, self.clock)
        self._proxies = networks(self.config.server.trusted_proxies)

    def page(
        self, request: AnyRequest, place: str, trouble: str = "", status: int = 200, wait_s: int = 0
    ) -> Response[str]:
        """Return the page. place: where to go afterwards. wait_s: for a refused attempt."""
        context = {"mode": self.config.auth.mode, "next": place, "trouble": trouble}
        headers = {"retry-after": str(wait_s)} if wait_s else {}
        return self.renderer.page("signin.html.j2", context, status, headers, request)

    async def with_password(self, request: AnyRequest, form: dict[str, str]) -> Response[Any]:
        """Sign somebody in, or say why not."""
        place = local_place(form.get("next", ""))
        if not csrf_holds(request, form.get("csrf", "")):
            return self.page(request, place, _EXPIRED, 403)
        name, password = form.get("name", ""), form.get("password", "")
        address = caller_of(request.scope, self._proxies)
        if wait_s := self._wait_s(address, name):
            self.log.warning("sign-in refused", peer=address, why="too many attempts")
            said = f"Too many attempts. Wait {wait_s} s and try again."
            return self.page(request, place, said, 429, wait_s)
        if not await self.passwords.fits(name, password):
            self.log.warning("sign-in refused", peer=address, why="wrong name or password")
            return self.page(request, place, _WRONG, 403)
        return await self.welcome(request, name, admin=True, place=place)

    def _wait_s(self, address: str, name: str) -> int:
        now = self.clock.monotonic()
        return self._by_address.wait_s(shared_by(address), now) or self._by_name.wait_s(
            name[:200], now
        )

    async def welcome(
        self, request: AnyRequest, name: str, *, admin: bool, place: str
    ) -> Response[Any]:
        """Begin a new session in the place of the visitor's own."""
        state, now = request.scope["state"], self.clock.now()
        self.sessions.end(state[SESSION], now)
        basis = basis_of(self.config.auth, name)
        state[SESSION] = self.sessions.begin(now, name, admin=admin, basis=basis)
        self.log.info(
            "signed in", user=name, admin=admin, peer=caller_of(request.scope, self._proxies)
        )
        if admin:
            await self._note(name)
        return Redirect(place, status_code=303)

    async def _note(self, name: str) -> None:
        """Have an admin's sign-in kept; a store that does not answer keeps nobody out."""
        if self.office is None or self._noted.wait_s(name, self.clock.monotonic()):
            return
        try:
            async with asyncio.timeout(NOTED_WITHIN_S):
                await self.office.signed_in(name, self.config.auth.mode)
        except (LlmaoError, TimeoutError) as error:
            said = str(error) or "the store does not answer"
            self.log.warning("not in the ledger", what="signed in", by=name, said=said)

    def farewell(self, request: AnyRequest) -> None:
        """End the visitor's session."""
        state, now = request.scope["state"], self.clock.now()
        session: Session = state[SESSION]
        self.sessions.end(session, now)
        state[SESSION] = self.sessions.begin(now)
        self.log.info("signed out", user=session.name)


def sign_in_routes(signing: SignIn) -> list[HTTPRouteHandler]:
    """Return the handlers of `/signin`, `/do-sign-in`, `/do-sign-out`, and the provider's."""
    return [_page(signing), *_password_routes(signing), *_oidc_routes(signing)]


def _page(signing: SignIn) -> HTTPRouteHandler:
    @page("/signin", opt=FOR_STRANGERS)
    async def sign_in_page(request: AnyRequest) -> Response[Any]:
        place = local_place(request.query_params.get("next", ""))
        # the mode may be one that shows no form, and then there is nothing to do here
        if user_of(request).name:
            return Redirect(place, status_code=303)
        return signing.page(request, place)

    return sign_in_page


def _password_routes(signing: SignIn) -> list[HTTPRouteHandler]:
    @post("/do-sign-in", opt=FOR_STRANGERS)
    async def sign_in(request: AnyRequest, data: Form) -> Response[Any]:
        if signing.config.auth.mode != "password":
            raise TurnedAwayError(status_code=404, detail="Nobody signs in with a password here.")
        return await signing.with_password(request, data)

    @post("/do-sign-out", opt=FOR_STRANGERS)
    async def sign_out(request: AnyRequest, data: Form) -> Response[Any]:
        if not csrf_holds(request, data.get("csrf", "")):
            raise TurnedAwayError(status_code=403, detail=_EXPIRED)
        signing.farewell(request)
        return Redirect("/signin", status_code=303)

    return [sign_in, sign_out]


def _oidc_routes(signing: SignIn) -> list[HTTPRouteHandler]:
    oidc = signing.oidc
    if oidc is None:
        return []

    @get("/signin/provider", opt=FOR_STRANGERS)
    async def to_provider(request: AnyRequest) -> Response[Any]:
        place = local_place(request.query_params.get("next", ""))
        try:
            address = await oidc.address(request.scope["state"][SESSION], place)
        except LlmaoError as error:
            return signing.page(request, place, str(error), 502)
        return Redirect(address, status_code=303)

    @get(CALLBACK, opt=FOR_STRANGERS)
    async def from_provider(request: AnyRequest) -> Response[Any]:
        try:
            who = await oidc.arrived(request.scope["state"][SESSION], request.query_params)
        except LlmaoError as error:
            signing.log.warning("sign-in refused", why=str(error))
            return signing.page(request, HOME, str(error), 403)
        place = local_place(who.place)
        return await signing.welcome(request, who.name, admin=who.admin, place=place)

    return [to_provider, from_provider]
