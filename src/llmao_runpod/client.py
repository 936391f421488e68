"""How RunPod is asked: one request at a time, and every way it can fail told apart.

Rule of this file: HTTP only. The key goes into the header and nowhere else, and nothing that the
far end or the HTTP library says gets into a message. Cloudflare, in front of RunPod, turns away a
client that does not say what it is: the host's client says it, so it is not said here.
"""

import re
from typing import Any

import httpx

from llmao_core.errors import (
    Busy,
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
from llmao_core.snapshots import BoxStatus

from . import translate

BASE_URL = "https://api.runpod.io"
PAGE_SIZE = 1000
_PODS = "/v2/pods"
_VERSION = re.compile(r"(/v[12])?/*$")
_BUSY = (
    "RunPod is asked too often: other tools of this account count, too; a longer "
    "providers.runpod.interval_s helps"
)
_UNSENT = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.InvalidURL,
    httpx.LocalProtocolError,
    httpx.PoolTimeout,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
)


class RunPod:
    """RunPod's API, as the account of the request's key."""

    def __init__(self, request: FetchRequest, http: Http, now: float) -> None:
        """Say where and as whom; an empty base_url is RunPod's own."""
        self._root = _VERSION.sub("", request.base_url.strip()) or BASE_URL
        self._key = request.api_key
        self._timeout_s = request.timeout_s
        self._http = http
        self._now = now
        self._who = f"RunPod at {place_of(self._root)}"

    # ---- reads

    async def page(self, cursor: str = "") -> translate.Page:
        """Return one page of the list, members of clusters included; raises a FetchError."""
        params = {"includeClusterPods": "true", "limit": str(PAGE_SIZE)}
        answer = await self._get(_PODS, params | ({"cursor": cursor} if cursor else {}))
        return translate.page(bytes(answer.content))

    async def status_of(self, pod_id: str) -> BoxStatus:
        """Return the status of one pod; raises a FetchError."""
        return translate.status_of(bytes((await self._get(f"{_PODS}/{pod_id}", {})).content))

    async def _get(self, path: str, params: dict[str, str]) -> Any:
        try:
            answer = await self._send("GET", path, params=params)
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, ValueError) as error:
            raise Unreachable(self._why(error)) from None
        if answer.status_code != 200:
            raise self._trouble(answer)
        return answer

    def _trouble(self, answer: Any) -> FetchError:
        status = int(answer.status_code)
        if status == 429:
            return Busy(_BUSY, self._wait_s(answer))
        if status in (401, 403):
            if status == 403 and translate.is_no_answer_of_runpod(bytes(answer.content)):
                return Unreachable(
                    f"{self._who}: something in front of it turns llmao away (403); this is not "
                    "about the key: check the network it calls from"
                )
            return Unauthorized(f"{translate.NO_KEY} ({status})")
        if status == 410:
            return Unauthorized(
                f"{self._who} has withdrawn the list llmao reads (410): update llmao, and check "
                "providers.runpod.base_url"
            )
        if status >= 500 or status in (408, 425):
            return Unreachable(f"{self._who} is down or overloaded ({status})")
        return Garbled(f"{self._who} answered {status}: check providers.runpod.base_url")

    def _wait_s(self, answer: Any) -> float | None:
        headers = answer.headers
        told = retry_after_s(headers.get("retry-after"), self._now)
        return told if told is not None else translate.window_s(headers.get("ratelimit"))

    # ---- the one write

    async def restart(self, pod_id: str) -> int:
        """Ask for a restart; return 200 when it began, 409 when the pod cannot be restarted now.

        Raises Refused, NotYet or OutcomeUnknown.
        """
        path = f"{_PODS}/{pod_id}/action"
        try:
            answer = await self._send("POST", path, json={"action": "restart"})
        except Unauthorized as error:
            raise Refused(str(error)) from None
        except _UNSENT as error:
            raise NotYet(self._why(error)) from None
        except (httpx.HTTPError, httpx.StreamError, OSError, ValueError) as error:
            raise OutcomeUnknown(self._why(error)) from None
        return self._judge(answer, pod_id)

    def _judge(self, answer: Any, pod_id: str) -> int:
        status = int(answer.status_code)
        if 200 <= status < 300:
            if translate.is_no_answer_of_runpod(bytes(answer.content)):
                raise OutcomeUnknown(f"{self._who}: something else answered the restart")
            return 200
        if status == 409:
            return status
        if status == 429:
            raise NotYet(_BUSY, self._wait_s(answer))
        if status == 403 and translate.is_no_answer_of_runpod(bytes(answer.content)):
            raise NotYet(f"{self._who}: something in front of it turns llmao away (403)")
        if status in (401, 403):
            raise Refused("RunPod refuses the key for this: a restart needs one that may write")
        if status == 404:
            raise Refused(f"RunPod has no pod {pod_id}")
        if 300 <= status < 500 and status != 408:
            raise Refused(f"RunPod refuses to restart pod {pod_id} ({status})")
        raise OutcomeUnknown(f"RunPod answered {status} to the restart of {pod_id}")

    # ---- both

    async def _send(self, method: str, path: str, **more: Any) -> Any:
        if not self._key:
            raise Unauthorized("No key for RunPod: set providers.runpod.api_key")
        # As bytes: the library's own complaint about a letter it cannot encode repeats the key.
        headers = {
            b"Authorization": b"Bearer " + self._key.reveal().encode(),
            b"Accept": b"application/json",
        }
        return await self._http.request(
            method,
            self._root + path,
            headers=headers,
            timeout=self._timeout_s,
            follow_redirects=False,
            **more,
        )

    def _why(self, error: Exception) -> str:
        if isinstance(error, httpx.TimeoutException):
            return f"{self._who}: no answer in time"
        if isinstance(error, httpx.ConnectError):
            return f"{self._who}: cannot connect; check the network and the base_url"
        return f"{self._who}: the connection failed ({type(error).__name__})"
