"""Sessions: who signed in, kept in a signed cookie, and which of them were ended early.

Rule of this file: a session is believed only when its signature, its lifetimes and the list of
ended ones allow it; the time is an argument.
"""

import base64
import hmac
import math
import secrets
from collections import OrderedDict
from typing import Any

from attrs import define, evolve, field, frozen
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import OctKey

from llmao_core.secret import Secret

MOST_ENDED = 10_000
SEEN_STEP_S = 60.0
_ALGORITHMS = ["HS256"]
_SESSION = "session 1"  # another number with every change of what a cookie holds


@frozen
class Session:
    """One visit of one browser. name: "" until somebody signs in.

    basis: fingerprint of the configuration the sign-in rests on: another one ends the session.
    born: of this sign-in. seen: of the newest request, at most SEEN_STEP_S old while in use.
    """

    id: str
    born: float
    seen: float
    name: str = ""
    admin: bool = False
    basis: str = ""


@define
class Sessions:
    """Makes, reads and ends sessions. idle_s, max_s: since last seen, since sign-in.

    key: of every replica, or None for one that this process forgets with its end.
    """

    idle_s: float
    max_s: float
    key: Secret | None = field(default=None, repr=False)
    _ended: OrderedDict[str, float] = field(factory=OrderedDict, init=False)
    _bytes: bytes = field(init=False, repr=False)
    _jwk: OctKey = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        given = self.key.reveal().encode() if self.key else secrets.token_bytes(32)
        # the key is used for nothing but this, and each use has its own
        self._bytes = hmac.digest(given, b"llmao sessions", "sha256")
        self._jwk = OctKey.import_key(hmac.digest(self._bytes, b"signature", "sha256"))

    def begin(self, now: float, name: str = "", *, admin: bool = False, basis: str = "") -> Session:
        """Return a session with a new id."""
        return Session(secrets.token_hex(16), now, now, name, admin, basis)

    def sealed(self, session: Session) -> str:
        """Return a session as a cookie holds it."""
        claims = {
            "sid": session.id,
            "sub": session.name,
            "adm": session.admin,
            "bas": session.basis,
            "iat": session.born,
            "see": session.seen,
        }
        return self.signed(_SESSION, claims)

    def opened(self, text: str, now: float) -> Session | None:
        """Return the session a cookie holds; None for one that is forged, over or ended."""
        claims = self.claims(_SESSION, text)
        if claims is None:
            return None
        session = Session(
            id=claims["sid"],
            born=claims["iat"],
            seen=claims["see"],
            name=claims["sub"],
            admin=claims["adm"],
            basis=claims["bas"],
        )
        over = now - session.seen > self.idle_s or now - session.born > self.max_s
        return None if over or session.id in self._ended else session

    def touched(self, session: Session, now: float) -> Session:
        """Return a session as seen now; the same one while that is not worth a new cookie."""
        return evolve(session, seen=now) if now - session.seen >= SEEN_STEP_S else session

    def left_s(self, session: Session, now: float) -> int:
        """Return for how long a browser may keep its cookie."""
        return max(math.floor(session.born + self.max_s - now), 0)

    def end(self, session: Session, now: float) -> None:
        """End a session for good; the list of ended ones is bounded, the oldest go first."""
        if session.name:  # one without is worth nothing, and anybody can have it
            self._ended[session.id] = session.born + self.max_s
        while self._ended and (
            len(self._ended) > MOST_ENDED or next(iter(self._ended.values())) < now
        ):
            self._ended.popitem(last=False)

    def csrf(self, session: Session, name: str) -> str:
        """Return what a form of this session and this user must hold."""
        return self.derived("csrf", session.id, name)

    def derived(self, purpose: str, *parts: str) -> str:
        """Return a secret that follows from these parts, 43 characters fit for a URL."""
        text = "\x00".join((purpose, *parts)).encode()
        made = hmac.digest(self._bytes, text, "sha256")
        return base64.urlsafe_b64encode(made).rstrip(b"=").decode()

    def signed(self, purpose: str, claims: dict[str, Any]) -> str:
        """Return claims under our signature."""
        return jwt.encode({"alg": "HS256"}, {**claims, "aud": purpose}, self._jwk)

    def claims(self, purpose: str, text: str) -> dict[str, Any] | None:
        """Return what was signed for this purpose; None for anything else."""
        try:
            token = jwt.decode(text, self._jwk, algorithms=_ALGORITHMS)
        except (JoseError, ValueError):
            return None
        return token.claims if token.claims.get("aud") == purpose else None
