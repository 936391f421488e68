"""How LiteLLM is asked: one request at a time, and every way it can fail told apart.

Rule of this file: nothing that the far end or the HTTP library says gets into a message unmasked,
and a refusal of our key is not quoted at all (LiteLLM repeats parts of the key in it).

Trouble that concerns the proxy as a whole begins with a code word and a colon, the same in a
failed read and in a failed write, so that it can be shown once:
`litellm_unreachable`, `litellm_unauthorized`, `litellm_no_database`.
"""

import math
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
from attrs import frozen

from llmao_core.errors import Busy, FetchError, Garbled, NotYet, Refused, Unauthorized, Unreachable
from llmao_core.hooks import FetchRequest, Http
from llmao_core.secret import Secret
from llmao_core.snapshots import Row

from . import translate

UNREACHABLE = "litellm_unreachable"
UNAUTHORIZED = "litellm_unauthorized"
NO_DATABASE = "litellm_no_database"

WRITE_TIMEOUT_S = 120.0

# The request never left: whatever it was to do has not happened.
_NOT_SENT = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.InvalidURL,
    httpx.LocalProtocolError,
    httpx.PoolTimeout,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
)
_HTTP_ERRORS = (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, ValueError)
_NO_DATABASE_WORDS = (
    "No DB Connected",
    "No connected db",
    "STORE_MODEL_IN_DB",
    "Database not initialized",
)
_DEAD_DATABASE_WORDS = ("reach database server", "no_db_connection", "connect to the database")


@frozen
class Heard:
    """An answer that came. said: its error words, masked."""

    status: int
    content: bytes
    said: str = ""
    retry_after_s: float | None = None

    @property
    def database_is_down(self) -> bool:
        """Tell whether a client error is really LiteLLM's database not answering."""
        text = self.content.decode("utf-8", "replace")
        return any(words in text for words in _DEAD_DATABASE_WORDS)


class LostError(Exception):
    """A request went out and no answer came: it may have been carried out."""


class LiteLLM:
    """One LiteLLM proxy, as whoever holds the key of the request."""

    def __init__(self, request: FetchRequest, http: Http, secrets: tuple[Secret, ...] = ()) -> None:
        """Say where and as whom. secrets: more that must never be repeated."""
        self._request = request
        self._http = http
        self._secrets = (request.api_key, *secrets)
        self._root = request.base_url.strip().rstrip("/")
        self._place = place_of(request.base_url)

    # ---- reads

    async def read(
        self,
        path: str,
        params: dict[str, str] | None = None,
        *,
        timeout_s: float | None = None,
        also: tuple[int, ...] = (),
    ) -> Heard:
        """Return an answer with 200, or with a status of `also`; raise a FetchError otherwise."""
        try:
            heard = await self._send("GET", path, params, None, timeout_s)
        except NotYet as error:
            raise Unreachable(str(error)) from None
        except LostError as error:
            raise Unreachable(self._coded(UNREACHABLE, f"{error} on GET {path}")) from None
        if heard.status == 200 or heard.status in also:
            return heard
        raise self._read_trouble(heard, path)

    def _read_trouble(self, heard: Heard, path: str) -> FetchError:
        what = f"it answered {heard.status} to GET {path}"
        if heard.status in (401, 403):
            return Unauthorized(self._unauthorized(heard))
        if heard.status == 429:
            return Busy(f"LiteLLM at {self._place} asks to wait", heard.retry_after_s)
        if self._has_no_database(heard):
            return Unreachable(self._no_database())
        if heard.status >= 500 or heard.database_is_down:
            return Unreachable(self._coded(UNREACHABLE, what, heard.said))
        return Garbled(
            f"LiteLLM at {self._place}: {what}{_quoted(heard.said)}. "
            "Check that litellm.base_url is the proxy's own address, without a path of its API."
        )

    async def look_up(self, row_id: str) -> Row | None:
        """Return one row from the router or, if it is not there, from the database; else None.

        None is no proof while LiteLLM's database is down. A row that only the database knows is
        not live.
        """
        found = translate.entries((await self.read("/v2/model/info", {"modelId": row_id})).content)
        if not found:
            return None
        row = translate.read_row(found[0])
        if row.id != row_id:
            raise Garbled(f"LiteLLM at {self._place} was asked for one row and answered another")
        heard = await self.read("/model/info", {"litellm_model_id": row_id}, also=(400, 404))
        return translate.read_row(found[0], live=heard.status == 200)

    # ---- writes

    async def write(self, method: str, path: str, body: object) -> Heard:
        """Return an answer that says something about this very write: any status but these.

        Raises Refused for 3xx, 401, 403 and a proxy without a database; NotYet for 429 and for a
        request that was never sent; LostError when no answer came.
        """
        heard = await self._send(method, path, None, body, WRITE_TIMEOUT_S)
        if heard.status in (401, 403):
            raise Refused(self._unauthorized(heard))
        if heard.status == 429:
            raise NotYet(f"LiteLLM at {self._place} asks to wait", heard.retry_after_s)
        if self._has_no_database(heard):
            raise Refused(self._no_database())
        if 300 <= heard.status < 400:
            raise Refused(
                f"LiteLLM at {self._place} answered with a redirect: set litellm.base_url to "
                "the address it leads to"
            )
        return heard

    # ---- both

    async def ask(self, method: str, path: str, body: object, timeout_s: float) -> Heard:
        """Return any answer to a question that is put as a POST; raises NotYet or LostError."""
        return await self._send(method, path, None, body, timeout_s)

    async def _send(
        self,
        method: str,
        path: str,
        params: dict[str, str] | None,
        body: object,
        timeout_s: float | None,
    ) -> Heard:
        # A proxy that is not there is known at once, however long its answers may take.
        connect_s = self._request.timeout_s
        try:
            answer = await self._http.request(
                method,
                self._root + path,
                headers=self._headers(),
                params=params,
                timeout=httpx.Timeout(timeout_s or connect_s, connect=connect_s),
                **({} if body is None else {"json": body}),
            )
            return self._heard(answer)
        except _NOT_SENT as error:
            raise NotYet(self._coded(UNREACHABLE, self._why(error))) from None
        except _HTTP_ERRORS as error:
            raise LostError(self._why(error)) from None

    def _headers(self) -> dict[bytes, bytes]:
        key = self._request.api_key
        # As bytes: the library's own complaint about a letter it cannot encode repeats the key.
        bearer = {b"Authorization": b"Bearer " + key.reveal().encode()} if key else {}
        return {b"Accept": b"application/json", **bearer}

    def _heard(self, answer: Any) -> Heard:
        content, status = bytes(answer.content), int(answer.status_code)
        said = "" if status == 200 else translate.error_text(content)
        return Heard(
            status,
            content,
            translate.masked(said, self._secrets),
            _seconds(answer.headers.get("retry-after")),
        )

    # ---- words

    def mask(self, text: str) -> str:
        """Return a short excerpt without any secret this proxy was given."""
        return translate.masked(text, self._secrets)

    def _why(self, error: Exception) -> str:
        if isinstance(error, httpx.TimeoutException):
            return "no answer in time"
        if isinstance(error, httpx.ConnectError):
            return f"cannot connect ({self.mask(str(error))})"
        return f"the connection failed ({type(error).__name__})"

    def _coded(self, word: str, what: str, said: str = "") -> str:
        return (
            f"{word}: LiteLLM at {self._place}: {what}{_quoted(said)}. "
            "Check that the proxy and its database run, and litellm.base_url."
        )

    def _unauthorized(self, heard: Heard) -> str:
        return (
            f"{UNAUTHORIZED}: LiteLLM at {self._place} refused llmao's key ({heard.status}). "
            "Set litellm.master_key to the master key or to the key of a proxy_admin."
        )

    def _no_database(self) -> str:
        return (
            f"{NO_DATABASE}: LiteLLM at {self._place} keeps no models in a database. "
            "Start it with DATABASE_URL and STORE_MODEL_IN_DB=True."
        )

    @staticmethod
    def _has_no_database(heard: Heard) -> bool:
        if heard.status < 400:
            return False
        words = translate.error_text(heard.content)
        return any(known in words for known in _NO_DATABASE_WORDS)


def _quoted(said: str) -> str:
    return f" (“{said}”)" if said else ""


def _seconds(text: object) -> float | None:
    """Return a Retry-After in seconds; a date or nonsense is None."""
    try:
        seconds = float(str(text))
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and 0 <= seconds <= 3600 else None


def place_of(base_url: str) -> str:
    """Return `host:port` of a base URL, for people; never what stands before an `@`."""
    try:
        return translate.masked(urlsplit(base_url.strip()).netloc.rpartition("@")[2]) or "(no host)"
    except ValueError:
        return "(unreadable address)"


def update_path(row_id: str) -> str:
    """Return the path that updates a row."""
    return f"/model/{quote(row_id, safe='')}/update"
