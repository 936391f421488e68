"""Who may ask llmao for a box's configuration, and for which host.

Rule of this file: headers are claims by strangers until the key is checked, and claims after it.
Nothing here is sent: a refusal is raised as a value with its status, code and sentence.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, field, frozen

from llmao_core.box_config import BoxAnswer
from llmao_core.config import ServerConfig
from llmao_core.errors import LlmaoError
from llmao_core.intended import Intended
from llmao_core.keys import is_address, is_host
from llmao_core.protocol import Unknown, WrongKey
from llmao_core.secret import Secret

from .desk import Clock, Desk
from .limit import Limit
from .peers import Networks, is_within, networks, normal, peer_of

LONGEST_HOST = 253
_REVISION = re.compile(r"[A-Za-z0-9._-]{1,80}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_READ = frozenset(
    {
        b"authorization",
        b"if-none-match",
        b"x-forwarded-for",
        b"x-forwarded-proto",
        b"x-llmao-host",
        b"x-llmao-revision",
    }
)


class RefusalError(LlmaoError):
    """Why a box is not served: HTTP status, code and message as answered, and when to ask again."""

    def __init__(
        self, status: int, code: str, message: str, retry_after_s: int | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.retry_after_s = retry_after_s


def _starting() -> RefusalError:
    return RefusalError(503, "starting", "llmao has not read its configuration yet; ask again.", 5)


def _no_fleet_key() -> RefusalError:
    return RefusalError(503, "no_fleet_key", "fleet.key is not configured in llmao's config.yaml.")


def _no_salt() -> RefusalError:
    message = "fleet.vllm_api_salt is not configured, so no server can be given a bearer."
    return RefusalError(503, "no_salt", message)


def _wrong_key() -> RefusalError:
    return RefusalError(403, "forbidden", "The fleet key is missing or wrong: check FLEET_KEY.")


def _slow_down(wait_s: int) -> RefusalError:
    return RefusalError(429, "slow_down", "Too many requests with a wrong fleet key.", wait_s)


def _in_clear() -> RefusalError:
    message = "This request came over http and the answer holds secrets: call the https address."
    return RefusalError(403, "in_clear", message)


def _bad_host(what: str) -> RefusalError:
    return RefusalError(400, "bad_host", f"X-LLMAO-Host {what}: send the box's name, or no header.")


def _unknown(host: str) -> RefusalError:
    named = f"No host named {host!r}" if host else "No usable address to look up"
    message = (
        f"{named}. Approve it in llmao or add it to fleet.hosts in config.yaml; if the box has "
        "another name there, set LLMAO_HOST on the box to that name."
    )
    return RefusalError(404, "unknown_host", message)


def _no_host(said: str) -> RefusalError:
    message = (
        f"X-LLMAO-Host {said!r} can name no host: set LLMAO_HOST on the box to its address, "
        "contract label or pod id."
    )
    return RefusalError(400, "bad_host", message)


@frozen
class Asked:
    """One request, as far as it matters.

    values: of the headers in `_READ`, in order. applied: the revision the box reports, "" for
    none or nonsense.
    """

    method: str
    peer: str
    values: Mapping[bytes, Sequence[bytes]]
    applied: str = ""

    @classmethod
    def of(cls, scope: Any) -> "Asked":
        """Read an ASGI scope."""
        values: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            if name in _READ:
                values.setdefault(name, []).append(value)
        applied = _applied(values.get(b"x-llmao-revision"))
        return cls(scope["method"], peer_of(scope), values, applied)

    def text(self, name: bytes) -> str:
        """Return a header as text, repeated ones joined; "" when absent."""
        given = self.values.get(name)
        return b",".join(given).decode("latin-1") if given else ""

    def has(self, revision: str) -> bool:
        """Tell whether If-None-Match names this revision."""
        if b"if-none-match" not in self.values:
            return False
        tags = [tag.strip().removeprefix("W/") for tag in self.text(b"if-none-match").split(",")]
        return "*" in tags or f'"{revision}"' in tags


def _applied(given: Sequence[bytes] | None) -> str:
    said = given[0].decode("latin-1") if given else ""
    return said if _REVISION.fullmatch(said) else ""


def shown(text: str) -> str:
    """Return what a stranger sent, fit for one log field."""
    short = text[:LONGEST_HOST]
    return short if short.isprintable() else _CONTROL.sub("?", short)


@define
class Gate:
    """Who may ask, and for which host."""

    desk: Desk
    server: ServerConfig
    clock: Clock
    limit: Limit = field(factory=Limit)
    _proxies: Networks = field(init=False)

    @_proxies.default
    def _read_proxies(self) -> Networks:
        return networks(self.server.trusted_proxies)

    def admit(self, asked: Asked) -> BoxAnswer:
        """Return the answer for who asks; raises RefusalError, notes wrong keys and strangers."""
        self._check_key(asked)
        if self.server.public_url.startswith("https:") and _came_in_clear(asked):
            raise _in_clear()
        host = self._claimed(asked)
        answer = self.desk.answer(host) if host else None
        if answer is None:
            if host:
                self.desk.note(Unknown(host))
            raise _unknown(host) if is_host(host) or not host else _no_host(host)
        if answer.keyless:
            raise _no_salt()
        return answer

    def _check_key(self, asked: Asked) -> None:
        keys = _fleet_keys(self.desk.intended())
        claimed = _bearer(asked)
        # a list, not a generator: every key is compared, so that time tells nothing
        matched = [key.matches(claimed) for key in keys]
        if any(matched):
            return
        self.desk.note(WrongKey(asked.peer, shown(self._hint(asked))))
        wait_s = self.limit.wait_s(asked.peer, self.clock.monotonic())
        raise _slow_down(wait_s) if wait_s else _wrong_key()

    def _hint(self, asked: Asked) -> str:
        """Return who a caller with a wrong key says it is."""
        said = asked.text(b"x-llmao-host")[:LONGEST_HOST]
        return normal(said) if said else self._forwarded(asked)

    def _claimed(self, asked: Asked) -> str:
        given = asked.values.get(b"x-llmao-host")
        if given is not None:
            return _from_header(given)
        if asked.text(b"x-forwarded-for") and self._may_forward(asked.peer):
            return self._forwarded(asked)
        return asked.peer

    def _forwarded(self, asked: Asked) -> str:
        """Return the leftmost X-Forwarded-For address, "" when there is none to believe."""
        if not self._may_forward(asked.peer):
            return ""
        first = asked.text(b"x-forwarded-for").partition(",")[0].strip()[:LONGEST_HOST]
        if first.startswith("["):
            first = first.partition("]")[0] + "]"
        elif first.count(":") == 1:
            first = first.partition(":")[0]
        name = normal(first)
        return name if is_address(name) else ""

    def _may_forward(self, peer: str) -> bool:
        return not self._proxies or is_within(peer, self._proxies)


def _fleet_keys(intended: Intended | None) -> list[Secret]:
    if intended is None:
        raise _starting()
    keys = [key for key in intended.config.fleet.key if key]
    if not keys:
        raise _no_fleet_key()
    return keys


def _bearer(asked: Asked) -> bytes:
    given = asked.values.get(b"authorization", ())
    scheme, _, token = given[0].partition(b" ") if len(given) == 1 else (b"", b"", b"")
    return token.strip() if scheme.lower() == b"bearer" else b""


def _came_in_clear(asked: Asked) -> bool:
    return asked.text(b"x-forwarded-proto").split(",")[0].strip().lower() == "http"


def _from_header(given: Sequence[bytes]) -> str:
    """Return the looked-up spelling of X-LLMAO-Host, which may be one that no host can have."""
    text = given[0].decode("latin-1")
    if len(given) > 1:
        raise _bad_host("is given twice")
    if not text.strip(" "):
        raise _bad_host("is empty")
    if len(text) > LONGEST_HOST:
        raise _bad_host(f"is longer than {LONGEST_HOST} characters")
    if _CONTROL.search(text):
        raise _bad_host("has control characters")
    return normal(text)
