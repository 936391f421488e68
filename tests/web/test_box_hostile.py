"""Whatever is sent to what boxes call: never an error of ours, and a secret only for the fleet key.

Rule of this file: headers go in as bytes, as a server hands them on, and not as a client would
have corrected them.
"""

import asyncio
import json
from typing import Any

from attrs import define, field
from hypothesis import given, settings
from hypothesis import strategies as st

from llmao_core.protocol import Fetch, Restarting
from llmao_web.app import create_app

from .worlds import FLEET_KEY, OLD_KEY, SALT, desk_of, fleet

PATHS = ("/vllm/config", "/vllm/notice", "/vllm/config/", "/vllm/nothing", "/nothing")
GOOD = tuple(f"Bearer {key}".encode() for key in (FLEET_KEY, OLD_KEY))
DESK = desk_of(fleet())
APP: Any = create_app(DESK, fleet(), DESK.clock)
BEARERS = [server.api_key.reveal() for told in DESK.told.values() for server in told.servers]
# What nobody may read, and what only a box may.
NEVER = (FLEET_KEY, OLD_KEY, SALT)
FOR_BOXES = (*BEARERS, "sk-vllm", "r1-", "gemma4-26b", "Qwen/")

# No server hands on a line break within a value.
_BYTES = st.binary(max_size=300).map(lambda said: said.replace(b"\r", b"").replace(b"\n", b""))
_WORDS = st.text(max_size=80).map(str.encode)
_TAGS = [f'"{told.revision}"'.encode() for told in DESK.told.values()]
_ANY = _BYTES | _WORDS
_HOSTS = st.sampled_from([name.encode() for name in DESK.told] + [b"C.4711", b"::ffff:1.2.3.4"])
_NEARLY = st.tuples(st.sampled_from(GOOD), _ANY).map(b"".join)
VALUES = {
    b"authorization": st.sampled_from(GOOD) | _NEARLY | _ANY.map(lambda said: b"Bearer " + said),
    b"x-llmao-host": _HOSTS | _ANY,
    b"x-llmao-revision": _ANY,
    b"x-forwarded-for": _HOSTS | _ANY,
    b"x-forwarded-proto": _ANY,
    b"if-none-match": st.sampled_from([*_TAGS, b"*", b"W/"]) | _ANY,
    b"content-length": st.sampled_from([b"", b"0", b"-1", b"1e9", b"99999999"]) | _ANY,
    b"content-type": _ANY,
    b"cookie": _ANY,
    b"accept": _ANY,
    b"host": _ANY,
}
HEADERS = st.lists(
    st.sampled_from(sorted(VALUES)).flatmap(
        lambda name: st.tuples(st.just(name), VALUES[name] | _ANY)
    ),
    max_size=8,
)
METHODS = st.sampled_from(
    ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND"]
) | st.text(st.characters(codec="ascii", categories=["Lu"]), min_size=1, max_size=9)
_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=9,
)
NOTICES = (_JSON | st.fixed_dictionaries({"restarting": _JSON | st.lists(st.text())})).map(
    lambda said: json.dumps(said).encode()
)
BODIES = NOTICES | _ANY | st.just(b"[" * 60_000) | st.just(b" " * 70_000)
PEERS = st.none() | st.sampled_from([("203.0.113.10", 1), ("::1", 1), ("", 0), ("a unix path", 0)])


@define
class Asking:
    """One request as ASGI hands it on, and what was answered."""

    scope: dict[str, Any]
    body: bytes
    status: int = 0
    headers: list[tuple[bytes, bytes]] = field(factory=list)
    answer: bytes = b""
    _read: bool = False

    async def receive(self) -> dict[str, Any]:
        """Hand on the body, and then that nobody waits any more."""
        if self._read:
            return {"type": "http.disconnect"}
        self._read = True
        return {"type": "http.request", "body": self.body, "more_body": False}

    async def send(self, message: dict[str, Any]) -> None:
        """Take a piece of the answer."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = list(message["headers"])
        else:
            self.answer += message.get("body", b"")

    @property
    def text(self) -> str:
        """Return all that was sent back, but for the status."""
        sent = b"\n".join([self.answer, *(part for header in self.headers for part in header)])
        return sent.decode("latin-1")


@settings(max_examples=300)
@given(st.sampled_from(PATHS), METHODS, HEADERS, _BYTES, BODIES, PEERS)
def test_no_request_makes_a_box_endpoint_fail_or_tell_a_secret(
    path: str,
    method: str,
    headers: list[tuple[bytes, bytes]],
    query: bytes,
    body: bytes,
    peer: tuple[str, int] | None,
) -> None:
    """An answer below 500; without the fleet key no bearer and no configuration is in it, nothing
    is handed out and nothing is announced; keys and salt are in none."""
    DESK.events.clear()
    asking = Asking(_scope(path, method, headers, query, peer), body)
    asyncio.run(APP(asking.scope, asking.receive, asking.send))
    assert 200 <= asking.status < 500, asking.answer
    assert [] == [secret for secret in NEVER if secret in asking.text]
    given_keys = [value for name, value in headers if name == b"authorization"]
    if not (len(given_keys) == 1 and _is_key(given_keys[0])):
        assert asking.status >= 400 or method == "OPTIONS"
        assert [] == [secret for secret in FOR_BOXES if secret in asking.answer.decode("latin-1")]
        assert not [event for event in DESK.events if isinstance(event, Fetch | Restarting)]


def _is_key(value: bytes) -> bool:
    scheme, _, token = value.partition(b" ")
    return scheme.lower() == b"bearer" and token.strip() in (FLEET_KEY.encode(), OLD_KEY.encode())


def _scope(
    path: str,
    method: str,
    headers: list[tuple[bytes, bytes]],
    query: bytes,
    peer: tuple[str, int] | None,
) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "scheme": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query,
        "headers": headers,
        "client": peer,
        "server": ("llmao.test", 80),
    }
