"""Sign-in with an OpenID provider: discovery, the code flow with PKCE, and what an ID token says.

Rule of this file: state, nonce and verifier follow from the visitor's session and our key, so
that only the browser that left can come back, to any replica; nothing the provider says is taken
before it is checked. No message repeats a token or a code.
"""

import asyncio
import secrets
from collections.abc import Mapping
from typing import Any

import httpx
from attrs import define, field, frozen
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri  # type: ignore[import-untyped]
from authlib.oauth2.rfc7636 import create_s256_code_challenge  # type: ignore[import-untyped]
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet

from llmao_core.config import OidcConfig
from llmao_core.errors import LlmaoError
from llmao_core.urls import is_loopback, url_trouble
from llmao_web.desk import Clock

from .identity import is_name
from .session import Session, Sessions

CALLBACK = "/signin/callback"
MOST_AWAY_S = 600
LEEWAY_S = 60
_DISCOVERED_FOR_S = 3600.0
_TIMEOUT_S = 10.0
_MOST_BYTES = 1_000_000
_STATE = "oidc state"
_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512"]
_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")
_NOT_NOW = "The sign-in provider cannot be used now"
_AGAIN = "This sign-in was not begun in this browser, or took too long. Begin again."


class OidcError(LlmaoError):
    """A sign-in that did not come about; the message is for the person."""


@frozen
class Arrived:
    """Who came back from the provider. place: where they were going."""

    name: str
    admin: bool
    place: str


@define
class Oidc:
    """One provider. redirect_url: where it sends people back to."""

    config: OidcConfig
    redirect_url: str
    sessions: Sessions
    clock: Clock
    _provider: Mapping[str, Any] = field(factory=dict, init=False)
    _keys: KeySet | None = field(default=None, init=False)
    _until: float = field(default=0.0, init=False)

    async def address(self, session: Session, place: str) -> str:
        """Return where to send a visitor who wants to sign in and then see `place`."""
        claims = {
            "sid": session.id,
            "one": secrets.token_hex(16),
            "iat": self.clock.now(),
            "place": place,
        }
        state = self.sessions.signed(_STATE, claims)
        async with _http() as http:
            provider = await self._discovered(http)
        address: str = prepare_grant_uri(
            provider["authorization_endpoint"],
            self.config.client_id,
            "code",
            redirect_uri=self.redirect_url,
            scope=" ".join(self.config.scopes),
            state=state,
            nonce=self._nonce(state),
            code_challenge=create_s256_code_challenge(self._verifier(state)),
            code_challenge_method="S256",
        )
        return address

    async def arrived(self, session: Session, query: Mapping[str, str]) -> Arrived:
        """Return who came back, from the query of the callback; raises OidcError."""
        state = query.get("state", "")
        place = self._place(session, state)
        if "error" in query or not query.get("code"):
            raise OidcError("The sign-in provider did not let you in.")
        async with _http() as http:
            provider = await self._discovered(http)
            if query.get("iss", provider["issuer"]) != provider["issuer"]:
                raise OidcError(_AGAIN)
            tokens = await self._tokens(http, provider, query["code"], state)
            claims = await self._id_claims(http, provider, str(tokens.get("id_token")), state)
            claims = await self._completed(http, provider, claims, str(tokens.get("access_token")))
        return self._known(claims, place)

    def _nonce(self, state: str) -> str:
        return self.sessions.derived("oidc nonce", state)

    def _verifier(self, state: str) -> str:
        return self.sessions.derived("oidc verifier", state)

    def _place(self, session: Session, state: str) -> str:
        claims = self.sessions.claims(_STATE, state)
        if claims is None or claims["sid"] != session.id:
            raise OidcError(_AGAIN)
        if not 0 <= self.clock.now() - claims["iat"] <= MOST_AWAY_S:
            raise OidcError(_AGAIN)
        return str(claims["place"])

    async def _discovered(self, http: httpx.AsyncClient) -> Mapping[str, Any]:
        now = self.clock.monotonic()
        if not self._provider or now > self._until:
            issuer = self.config.issuer
            url = issuer.rstrip("/") + "/.well-known/openid-configuration"
            said = await _json(http.get(url))
            # the provider's own spelling must be ours: that is how one cannot pose as another
            complete = all(_is_endpoint(said, each) for each in _ENDPOINTS)
            if said.get("issuer") != issuer or not complete:
                raise OidcError(f"{_NOT_NOW}: its description is not that of auth.oidc.issuer.")
            self._provider, self._keys = said, None
            self._until = now + _DISCOVERED_FOR_S
        return self._provider

    async def _tokens(
        self, http: httpx.AsyncClient, provider: Mapping[str, Any], code: str, state: str
    ) -> Mapping[str, Any]:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect_url,
            "code_verifier": self._verifier(state),
        }
        client = (self.config.client_id, self.config.client_secret.reveal())
        ways = provider.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        if "client_secret_basic" in ways:
            asked = http.post(provider["token_endpoint"], data=form, auth=client)
        else:
            form |= dict(zip(("client_id", "client_secret"), client, strict=True))
            asked = http.post(provider["token_endpoint"], data=form)
        return await _json(asked)

    async def _id_claims(
        self, http: httpx.AsyncClient, provider: Mapping[str, Any], token: str, state: str
    ) -> dict[str, Any]:
        must = jwt.JWTClaimsRegistry(
            now=lambda: int(self.clock.now()),
            leeway=LEEWAY_S,
            iss={"essential": True, "value": provider["issuer"]},
            aud={"essential": True, "value": self.config.client_id},
            exp={"essential": True},
            iat={"essential": True},
            sub={"essential": True},
            nonce={"essential": True, "value": self._nonce(state)},
        )
        try:
            claims = (await self._decoded(http, provider, token)).claims
            must.validate(claims)
        except (JoseError, ValueError):
            raise OidcError("What the sign-in provider says of you cannot be believed.") from None
        if claims.get("azp", self.config.client_id) != self.config.client_id:
            raise OidcError("What the sign-in provider says is for somebody else.")
        return claims

    async def _decoded(
        self, http: httpx.AsyncClient, provider: Mapping[str, Any], token: str
    ) -> jwt.Token:
        if self._keys is not None:
            try:
                return jwt.decode(token, self._keys, algorithms=_ALGORITHMS)
            except InvalidKeyIdError:
                pass  # the provider has new keys
        said = await _json(http.get(provider["jwks_uri"]))
        self._keys = KeySet.import_key_set({"keys": said.get("keys", [])})
        return jwt.decode(token, self._keys, algorithms=_ALGORITHMS)

    async def _completed(
        self,
        http: httpx.AsyncClient,
        provider: Mapping[str, Any],
        claims: dict[str, Any],
        access_token: str,
    ) -> dict[str, Any]:
        """Add what only the userinfo says, when name or groups are not in the ID token."""
        wanted = {self.config.name_claim, self.config.groups_claim}
        if wanted <= claims.keys() or not _is_endpoint(provider, "userinfo_endpoint"):
            return claims
        bearer = {"authorization": f"Bearer {access_token}"}
        said = await _json(http.get(provider["userinfo_endpoint"], headers=bearer))
        if said.get("sub") != claims["sub"]:
            raise OidcError("What the sign-in provider says is of somebody else.")
        return {**said, **claims}

    def _known(self, claims: Mapping[str, Any], place: str) -> Arrived:
        name = claims.get(self.config.name_claim)
        if not isinstance(name, str) or not is_name(name):
            raise OidcError("The sign-in provider does not say who you are (auth.oidc.name_claim).")
        said = claims.get(self.config.groups_claim)
        groups = said if isinstance(said, list) else [said]
        admin = any(group in self.config.admin_groups for group in groups)
        return Arrived(name, admin, place)


def _http() -> httpx.AsyncClient:
    return httpx.AsyncClient(timeout=_TIMEOUT_S, follow_redirects=False)


def _is_endpoint(provider: Mapping[str, Any], name: str) -> bool:
    """Tell whether the provider names an address that a secret may be sent to."""
    url = provider.get(name)
    if not isinstance(url, str):
        return False
    plain = url.partition("?")[0]
    return not url_trouble(plain) and (url.startswith("https:") or is_loopback(httpx.URL(url).host))


async def _json(asked: Any) -> Mapping[str, Any]:
    """Return what the provider answers as JSON; OidcError says that it did not."""
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            answer: httpx.Response = await asked
        if answer.status_code != 200 or len(answer.content) > _MOST_BYTES:
            raise OidcError(f"{_NOT_NOW}: it answered {answer.status_code}.")
        said = answer.json()
    except (httpx.HTTPError, TimeoutError, ValueError, RecursionError) as error:
        raise OidcError(f"{_NOT_NOW}: {type(error).__name__}.") from None
    if not isinstance(said, dict):
        raise OidcError(f"{_NOT_NOW}: its answer makes no sense.")
    return said
