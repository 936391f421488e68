"""RunPod's API to test against, version 2: its list and restarts, and what goes wrong with them.

Rule of this file: shapes and oddities are those recorded of the real one. Nothing in production
imports it but the demo.

    fake = FakeRunPod(now=clock.now)
    fake.plant("box-c", address="127.0.0.3", ports=[8001], http_ports=[8002])
    async with httpx.AsyncClient(transport=fake.transport()) as http: ...    # in the process
    async with fake.serve() as url: ...                                      # on a loopback port

In the process, too, `base_url` must be on loopback for boxes on loopback to be believed.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from llmao_core.testing.fake_provider import FakeProvider, Life, Rented
from llmao_core.testing.served import Call, Reply, ok

KEY = "rpa_fake_key"
PODS = "/v2/pods"
_POD = re.compile(r"/v2/pods/([^/]+)")
_ACTION = re.compile(r"/v2/pods/([^/]+)/action")
_STATUSES = {
    Life.WAITING: "PROVISIONING",
    Life.LOADING: "STARTING",
    Life.RUNNING: "RUNNING",
    Life.REBOOTING: "STARTING",
    Life.STOPPED: "EXITED",
    Life.OUTBID: "EXITED",
    Life.EXITED: "EXITED",
    Life.LOST: "ERROR",
    Life.DESTROYED: "TERMINATED",
}
_BILLED = ("PROVISIONING", "STARTING", "RUNNING")
_MINUTE_S = 60.0


def _problem(status: int, title: str, said: str, **headers: str) -> Callable[[], Reply]:
    body = json.dumps({"title": title, "status": status, "detail": said}).encode()
    kind = {"content-type": "application/problem+json"}
    return lambda: Reply(status, body, kind | {k.replace("_", "-"): v for k, v in headers.items()})


def _said(status: int, body: bytes, kind: str = "application/json") -> Callable[[], Reply]:
    return lambda: Reply(status, body, {"content-type": kind})


REPLIES: Mapping[str, Callable[[], Reply]] = {
    "no_key": _problem(401, "Unauthorized", "missing bearer token"),
    "no_access": _problem(403, "Forbidden", "key without access"),
    "cloudflare": _said(403, b"error code: 1010", "text/plain"),
    "not_found": _problem(404, "Not Found", "no such route"),
    "withdrawn": _problem(410, "Gone", "this version is retired"),
    "busy": _problem(429, "Too Many Requests", "minute window", retry_after="17"),
    "busy_date": _problem(
        429, "Too Many Requests", "minute window", retry_after="Fri, 15 Jan 2027 08:00:30 GMT"
    ),
    "busy_windows": _problem(
        429, "Too Many Requests", "slow down", ratelimit='"minute";r=0;t=23, "hour";r=2900;t=1800'
    ),
    "busy_mute": _said(429, b"slow down", "text/plain"),
    "down": _problem(500, "Internal Server Error", "database"),
    "gateway": _said(502, b"<html>502</html>", "text/html"),
    "web_page": _said(200, b"<!doctype html><title>RunPod</title>", "text/html"),
    "version_1": _said(200, b'[{"id": "k3v9x2m7q1", "desiredStatus": "RUNNING"}]'),
    "graphql": _said(200, b'{"data": {"myself": {"pods": []}}}'),
    "graphql_no_auth": _said(200, b'{"data": {"myself": null}}'),
    "graphql_errors": _said(200, b'{"errors": [{"message": "no"}], "data": null}'),
    "null_list": _said(200, b'{"pods": null}'),
    "no_list": _said(200, b"{}"),
    "dict_list": _said(200, b'{"pods": {"id": "x"}}'),
    "half_json": _said(200, b'{"pods": [{"id": "k3v9'),
    "empty_body": _said(200, b""),
    "redirect": lambda: Reply(302, b"", {"location": "https://example.org/"}),
    "lost": lambda: Reply(200, b'{"pods": [], "pagination": null}', cut=True),
}


class FakeRunPod(FakeProvider):
    """An account at RunPod.

    page_size: pods on a page; None is the first version, which had no paging. a_minute: how many
    requests a minute it answers. Pods marked `cluster` show only when clusters are asked for.
    """

    replies = REPLIES
    twists = frozenset(
        {"empty", "same_cursor", "endless", "no_cursor", "null_pod", "pod_without_id"}
    )

    def __init__(
        self,
        now: Callable[[], float],
        *,
        key: str = KEY,
        page_size: int | None = 1000,
        a_minute: int = 60,
        restart_takes_s: float = 30.0,
    ) -> None:
        """Say what time it is, as whom to ask, how often, and how a list is cut."""
        super().__init__(now, key)
        self.page_size = page_size
        self.a_minute = a_minute
        self.restart_takes_s = restart_takes_s
        self.http_ports: dict[str, tuple[int, ...]] = {}
        self.clustered: set[str] = set()
        self._next_id = 0
        self._page = 0
        self._window = (0.0, 0)

    def plant(
        self,
        label: str | None = "box",
        *,
        http_ports: Iterable[int] = (),
        cluster: bool = False,
        **more: Any,
    ) -> str:
        """Rent a pod and return its id. http_ports: declared for RunPod's proxy."""
        pod_id = super().plant(label, **more)
        self.http_ports[pod_id] = tuple(http_ports)
        if cluster:
            self.clustered.add(pod_id)
        return pod_id

    def reboot(self, box_id: str, takes_s: float) -> None:
        """Stop and start a pod: its public ports are others from then on."""
        super().reboot(box_id, takes_s)
        self.remap(box_id)

    def _new_id(self) -> str:
        self._next_id += 1
        return f"k3v9x2m{self._next_id:03d}"

    # ---- answering

    def page_of(self, call: Call) -> int:
        """Return the page by counting, because a cursor does not tell."""
        if call.path != PODS:
            return 0
        self._page = self._page + 1 if "cursor" in call.query else 1
        return self._page

    def refuse(self, call: Call) -> Reply | None:
        """Refuse whoever does not say what it is, a wrong key, and too many requests a minute."""
        agent = call.headers.get("user-agent", "")
        if not agent or agent.lower().startswith("python-urllib"):
            return self.replies["cloudflare"]()
        if call.authorization != f"Bearer {self.key}":
            return self.replies["no_key"]()
        began, used = self._window
        if self.now() - began >= _MINUTE_S:
            began, used = self.now(), 0
        self._window = (began, used + 1)
        if used < self.a_minute:
            return None
        left = str(int(began + _MINUTE_S - self.now()) + 1)
        return _problem(429, "Too Many Requests", "minute window", retry_after=left)()

    async def answer(self, call: Call, twist: str) -> Reply:
        """Answer the list, one pod, and the actions of one."""
        if call.method == "GET" and call.path == PODS:
            return self._list(call, twist)
        if call.method == "GET" and (found := _POD.fullmatch(call.path)):
            box = self.boxes.get(found[1])
            return ok(self._pod(box)) if box and box.exists else self.replies["not_found"]()
        if call.method == "POST" and (found := _ACTION.fullmatch(call.path)):
            return self._act(found[1], call.json().get("action"))
        return self.replies["not_found"]()

    def _act(self, pod_id: str, action: object) -> Reply:
        box = self.truth().get(pod_id)
        if box is None:
            return self.replies["not_found"]()
        if action != "restart" or self.life(box) is not Life.RUNNING:
            return _problem(409, "Conflict", "action not available")()
        self.reboot(pod_id, self.restart_takes_s)
        return ok(self._pod(box))

    def _list(self, call: Call, twist: str) -> Reply:
        if self._page == 1:
            self.reads += 1
        clusters = call.query.get("includeClusterPods") == "true"
        pods = [one for one in self.listed() if clusters or one.id not in self.clustered]
        pods = [] if twist == "empty" else pods
        begin = int(call.query.get("cursor") or "0")
        size = self.page_size or len(pods) or 1
        shown = [self._pod(box) for box in pods[begin : begin + size]]
        answer: dict[str, Any] = {"pods": shown}
        if self.page_size:
            more = begin + size < len(pods)
            cursor = str(begin + size) if more else None
            answer["pagination"] = {"nextCursor": cursor, "hasNextPage": more}
        began, used = self._window
        left = f'"minute";r={self.a_minute - used};t={int(began + _MINUTE_S - self.now())}'
        return ok(_twisted(answer, twist, self._page), {"ratelimit": left})

    # ---- one pod

    def _pod(self, box: Rented) -> dict[str, Any]:
        running = self.life(box) is Life.RUNNING
        ports, proxied = self.ports_of(box), self.http_ports.get(box.id, ())
        return {
            "id": box.id,
            "name": box.label,
            "status": _STATUSES[box.life],
            "actions": ["stop", "restart", "terminate"] if running else ["start", "terminate"],
            "image": "vllm/vllm-openai:v0.25.1",
            "args": f"--token {box.secret}",
            "disk": 80,
            "ports": [*(f"{port}/tcp" for port in box.ports), *(f"{p}/http" for p in proxied)],
            "env": {"HF_TOKEN": box.secret},
            "registry": None,
            "template": None,
            "gpu": {"id": f"NVIDIA GeForce {box.gpu_name}", "count": box.gpu_count},
            "cloud": "SECURE",
            "dataCenterId": "EU-RO-1",
            "cost": box.price_per_hour if _STATUSES[box.life] in _BILLED else 0.0,
            "ssh": {"proxy": None, "direct": None},
            "runtime": {"uptime": 7312, "ports": _runtime(box, ports, proxied)}
            if running
            else None,
            "createdAt": _iso(box.started_at),
            "startedAt": _iso(box.started_at) if running else None,
            **box.shown,
        }


def _runtime(box: Rented, ports: Mapping[int, int], proxied: Iterable[int]) -> Any:
    if not ports:
        return None
    direct = [
        {"private": listen, "public": public, "type": "tcp", "ip": box.address}
        for listen, public in ports.items()
    ]
    return direct + [
        {"private": listen, "public": 60_141, "type": "http", "ip": "100.65.0.10"}
        for listen in proxied
    ]


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")


def _twisted(answer: dict[str, Any], twist: str, page: int) -> dict[str, Any]:
    """Return an answer in which one thing is wrong."""
    pods = answer["pods"]
    changes: dict[str, dict[str, Any]] = {
        "same_cursor": {"pagination": {"nextCursor": "0", "hasNextPage": True}},
        "endless": {"pods": [], "pagination": {"nextCursor": str(page), "hasNextPage": True}},
        "no_cursor": {"pagination": {"nextCursor": None, "hasNextPage": True}},
        "null_pod": {"pods": [*pods, None]},
        "pod_without_id": {"pods": [{k: v for k, v in pod.items() if k != "id"} for pod in pods]},
    }
    return answer | changes.get(twist, {})
