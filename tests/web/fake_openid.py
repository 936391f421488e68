"""A small OpenID provider on loopback: it gives a code to whoever asks."""

import asyncio
import base64
import contextlib
import hmac
import json
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import uvicorn
from attrs import define, field
from authlib.oauth2.rfc7636 import create_s256_code_challenge  # type: ignore[import-untyped]
from joserfc import jwt
from joserfc.jwk import RSAKey

from llmao_web.commands.serve import listen

CLIENT_ID, CLIENT_SECRET = "llmao-client", "client:secret-é-0123"
_KEYS = [RSAKey.generate_key(2048, {"kid": name, "use": "sig"}) for name in ("k1", "k2")]


@define
class FakeOpenID:
    """One provider. claims: what the ID token says beside what it must; tests bend the rest.

    signs: the key ID tokens are signed with; shows: the keys it publishes. forged: makes the
    token of its claims in another way.
    """

    now: Any
    url: str = ""
    claims: dict[str, Any] = field(factory=dict)
    userinfo: dict[str, Any] = field(factory=dict)
    described: dict[str, Any] = field(factory=dict)
    signs: RSAKey = _KEYS[0]
    shows: list[RSAKey] = field(factory=lambda: _KEYS[:1])
    header: dict[str, Any] = field(factory=dict)
    forged: Callable[[dict[str, Any]], str] | None = None
    status: dict[str, int] = field(factory=dict)
    asked: list[str] = field(factory=list)
    _codes: dict[str, dict[str, str]] = field(factory=dict)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        path = scope["path"]
        self.asked.append(path)
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        status, answer = self._answer(path, dict(_plain(body.decode())), headers)
        status = self.status.get(path, status)
        start = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": start})
        await send({"type": "http.response.body", "body": json.dumps(answer).encode()})

    def _answer(
        self, path: str, form: dict[str, str], headers: dict[str, str]
    ) -> tuple[int, dict[str, Any]]:
        if path == "/.well-known/openid-configuration":
            return 200, {
                "issuer": self.url,
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
                "jwks_uri": f"{self.url}/keys",
                "userinfo_endpoint": f"{self.url}/userinfo",
                **self.described,
            }
        if path == "/keys":
            return 200, {"keys": [key.as_dict(private=False) for key in self.shows]}
        if path == "/userinfo":
            return (
                (200, self.userinfo) if headers.get("authorization") == "Bearer at" else (401, {})
            )
        if path == "/token":
            return self._token(form, headers)
        return 404, {}

    def visit(self, address: str) -> str:
        """Sign somebody in at the address llmao sent them to; return the way back."""
        asked = dict(_plain(urlsplit(address).query))
        code = f"code-{len(self._codes)}"
        self._codes[code] = asked
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"

    def _token(self, form: dict[str, str], headers: dict[str, str]) -> tuple[int, dict[str, Any]]:
        asked = self._codes.pop(form.get("code", ""), None)
        client = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        by_form = (form.get("client_id"), form.get("client_secret")) == (CLIENT_ID, CLIENT_SECRET)
        if headers.get("authorization") != f"Basic {client}" and not by_form:
            return 401, {"error": "invalid_client"}
        challenge = create_s256_code_challenge(form.get("code_verifier", ""))
        if (
            asked is None
            or challenge != asked["code_challenge"]
            or form.get("redirect_uri") != asked["redirect_uri"]
        ):
            return 400, {"error": "invalid_grant"}
        return 200, {"access_token": "at", "token_type": "Bearer", "id_token": self._id(asked)}

    def _id(self, asked: dict[str, str]) -> str:
        now = int(self.now())
        claims = {
            "iss": self.url,
            "aud": asked["client_id"],
            "sub": "42",
            "nonce": asked["nonce"],
            "iat": now,
            "exp": now + 300,
            "preferred_username": "carol",
            "groups": ["ops"],
        }
        claims = {name: value for name, value in {**claims, **self.claims}.items() if value != ""}
        if self.forged:
            return self.forged(claims)
        header = {"alg": "RS256", "kid": self.signs.kid, **self.header}
        return jwt.encode(header, claims, self.signs)


def _plain(text: str) -> list[tuple[str, str]]:
    return [(name, values[0]) for name, values in parse_qs(text).items()]


@contextlib.asynccontextmanager
async def serving(now: Any) -> AsyncIterator[FakeOpenID]:
    """Run a provider on a free loopback port."""
    listening = listen("127.0.0.1", 0)
    fake = FakeOpenID(now, f"http://127.0.0.1:{listening.getsockname()[1]}")
    server = uvicorn.Server(uvicorn.Config(fake, log_config=None, lifespan="off"))
    task = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield fake
    finally:
        server.should_exit = True
        await task
        listening.close()


OTHER_KEY = _KEYS[1]


def unsigned(claims: dict[str, Any]) -> str:
    """Return a token that says it needs no signature."""
    return f"{_packed({'alg': 'none'})}.{_packed(claims)}."


def signed_with_the_public_key(claims: dict[str, Any]) -> str:
    """Return a token whose signature anybody can make, if the key is taken for a shared one."""
    text = f"{_packed({'alg': 'HS256', 'kid': 'k1'})}.{_packed(claims)}"
    digest = hmac.digest(_KEYS[0].as_pem(private=False), text.encode(), "sha256")
    return f"{text}.{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


def _packed(value: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()
