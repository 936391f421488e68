"""Bearer tokens of the API.

Rule of this file: every token is compared, in constant time; who sends wrong ones is made to wait.
"""

import hashlib
import hmac
from typing import Any

from attrs import define, field

from llmao_core.config import ApiToken
from llmao_web.limit import Limit
from llmao_web.peers import Networks, caller_of, shared_by, values_of
from llmao_web.people import User

from .guards import TurnedAwayError

_CHALLENGE = {"www-authenticate": 'Bearer realm="llmao", error="invalid_token"'}


@define
class Bearers:
    """Knows who holds which token. proxies: whose X-Forwarded-For is believed."""

    tokens: tuple[ApiToken, ...]
    proxies: Networks = ()
    limit: Limit = field(factory=Limit)

    def user_of(self, scope: Any, now: float) -> User | None:
        """Return whose token came along, None when none did; raises TurnedAwayError.

        now: monotonic.
        """
        given = values_of(scope, b"authorization")
        scheme, _, text = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        if scheme.lower() != "bearer":
            return None
        claimed = text.strip().encode()
        # a list, not a generator: every token is compared, so that time tells nothing
        held = [token for token in self.tokens if _is_of(token, claimed)]
        if not held:
            raise self._wrong(shared_by(caller_of(scope, self.proxies)), now)
        return User(f"token {held[0].name}", held[0].role == "admin")

    def _wrong(self, caller: str, now: float) -> TurnedAwayError:
        wait_s = self.limit.wait_s(caller, now)
        if wait_s:
            headers = {"retry-after": str(wait_s)}
            said = "Too many requests with a wrong token."
            return TurnedAwayError(status_code=429, detail=said, headers=headers)
        said = "This token is not one of api_tokens."
        return TurnedAwayError(status_code=401, detail=said, headers=_CHALLENGE)


def _is_of(token: ApiToken, claimed: bytes) -> bool:
    if token.token:
        return token.token.matches(claimed)
    expected = token.hash.reveal() if token.hash else ""
    return hmac.compare_digest(expected, hashlib.sha256(claimed).hexdigest())
