"""How Vast is asked: one request at a time, and every way it can fail told apart.

Rule of this file: HTTP only. The key goes into the header and nowhere else (Vast also takes it
in the URL, where everybody writes it down), and nothing that the far end or the HTTP library says
gets into a message.
"""

import json
import re
from typing import Any

import httpx

from llmao_core.errors import (
    FetchError,
    Garbled,
    NotYet,
    OutcomeUnknown,
    Refused,
    Unauthorized,
    Unreachable,
)
from llmao_core.hooks import FetchRequest, Http
from llmao_core.providers import place_of, retry_after_s

from . import translate

BASE_URL = "https://console.vast.ai"
PAGE_SIZE = 25
_LIST = "/api/v1/instances/"
_API = re.compile(r"(/api(/v[01])?)?/*$")
# The request never left: whatever it was to do has not happened.
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.InvalidURL,
             httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.ProxyError)  # fmt: skip
_LOST = (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, ValueError)


class Vast:
    """Vast's API, as the account of the request's key."""

    def __init__(self, request: FetchRequest, http: Http, now: float) -> None:
        """Say where and as whom; an empty base_url is Vast's own."""
        self._request = request
        self._http = http
        self._now = now
        self._root = _API.sub("", request.base_url.strip()) or BASE_URL
        self._place = place_of(self._root)

    async def page(self, after: str = "") -> translate.Page:
        """Return one page of the list; raises a FetchError."""
        # Ascending ids: a box rented while pages are read comes last, and none is skipped.
        params = {"limit": PAGE_SIZE, "order_by": json.dumps([{"col": "id", "dir": "asc"}])}
        return await self._list(params | ({"after_token": after} if after else {}))

    async def only(self, instance_id: str) -> translate.Page:
        """Return a page that holds this instance and no other; raises a FetchError."""
        return await self._list({"select_filters": json.dumps({"id": {"eq": int(instance_id)}})})

    async def _list(self, params: dict[str, Any]) -> translate.Page:
        try:
            answer = await self._send("GET", _LIST, params)
        except _LOST as error:
            raise Unreachable(f"Vast at {self._place}: {_why(error)}") from None
        if answer.status_code != 200:
            raise self._trouble(answer)
        return translate.page(bytes(answer.content))

    async def reboot(self, instance_id: str) -> None:
        """Stop and start one container; raises Refused, NotYet or OutcomeUnknown."""
        try:
            answer = await self._send("PUT", f"/api/v0/instances/reboot/{instance_id}/", {})
        except Unauthorized as error:
            raise Refused(str(error)) from None
        except _NOT_SENT as error:
            raise NotYet(f"Vast at {self._place}: {_why(error)}") from None
        except _LOST as error:
            raise OutcomeUnknown(f"Vast at {self._place}: {_why(error)}") from None
        self._judge(answer, instance_id)

    async def _send(self, method: str, path: str, params: dict[str, Any]) -> Any:
        key = self._request.api_key
        if not key:
            raise Unauthorized("No key for Vast: set providers.vast.api_key")
        # As bytes: the library's own complaint about a letter it cannot encode repeats the key.
        headers = {
            b"Accept": b"application/json",
            b"Authorization": b"Bearer " + key.reveal().encode(),
        }
        body: dict[str, Any] = {"json": {}} if method == "PUT" else {}
        return await self._http.request(
            method,
            self._root + path,
            params=params,
            headers=headers,
            timeout=self._request.timeout_s,
            follow_redirects=False,
            **body,
        )

    # ---- what an answer other than 200 means

    def _known(self, answer: Any) -> FetchError | None:
        retry_after = retry_after_s(answer.headers.get("retry-after"), self._now)
        code = translate.error_code(bytes(answer.content))
        return translate.trouble(code, int(answer.status_code), retry_after)

    def _trouble(self, answer: Any) -> FetchError:
        if known := self._known(answer):
            return known
        status = int(answer.status_code)
        if status >= 500 or status in (408, 425):
            return Unreachable(f"Vast at {self._place} is down or overloaded ({status})")
        return Garbled(
            f"Vast at {self._place} answered {status}: check that providers.vast.base_url is the "
            "address of Vast's API, without a path"
        )

    def _judge(self, answer: Any, instance_id: str) -> None:
        """Raise unless the answer says that the reboot was begun."""
        status = int(answer.status_code)
        known = self._known(answer)
        if isinstance(known, Unauthorized):
            raise Refused("Vast refuses the key for this: a reboot needs one with instance_write")
        if known is not None:
            raise NotYet(str(known), getattr(known, "retry_after_s", None))
        if status == 404:
            raise Refused(f"Vast has no instance {instance_id}")
        if 300 <= status < 500 and status != 408:
            raise Refused(f"Vast refuses to reboot instance {instance_id} ({status})")
        if status != 200:
            raise OutcomeUnknown(f"Vast answered {status} to the reboot of {instance_id}")
        try:
            begun = translate.succeeded(bytes(answer.content))
        except Garbled as error:
            raise OutcomeUnknown(str(error)) from None
        if not begun:
            raise Refused(f"Vast did not reboot instance {instance_id} and says so")


def _why(error: Exception) -> str:
    if isinstance(error, httpx.TimeoutException):
        return "no answer in time"
    if isinstance(error, httpx.ConnectError):
        return "cannot connect: check the network and providers.vast.base_url"
    return f"the connection failed ({type(error).__name__})"
