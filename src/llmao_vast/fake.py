"""Vast's API to test against: its lists and reboots, and what goes wrong with them.

Rule of this file: shapes and oddities are those recorded of the real one. Nothing in production
imports it but the demo.

    fake = FakeVast(now=clock.now)
    fake.plant("box-a", address="127.0.0.2", ports=[8001, 8002])
    async with httpx.AsyncClient(transport=fake.transport()) as http: ...    # in the process
    async with fake.serve() as url: ...                                      # on a loopback port

In the process, too, `base_url` must be on loopback for boxes on loopback to be believed.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from llmao_core.testing.fake_provider import FakeProvider, Life, Rented
from llmao_core.testing.served import Call, Reply, ok

KEY = "vast-fake-key"
LIST = "/api/v1/instances/"
MOST_ROWS = 25
_REBOOT = re.compile(r"/api/v0/instances/reboot/(\d+)/")
# actual_status, intended_status, cur_state, next_state
_STATES: Mapping[Life, tuple[str | None, str, str, str]] = {
    Life.WAITING: (None, "running", "running", "running"),
    Life.LOADING: ("loading", "running", "running", "running"),
    Life.RUNNING: ("running", "running", "running", "running"),
    Life.REBOOTING: ("rebooting", "running", "running", "running"),
    Life.STOPPED: ("exited", "stopped", "stopped", "stopped"),
    Life.OUTBID: ("running", "stopped", "stopped", "stopped"),
    Life.EXITED: ("exited", "running", "running", "running"),
    Life.LOST: ("offline", "running", "running", "running"),
    Life.DESTROYED: ("running", "stopped", "unloaded", "unloaded"),
}


def _error(status: int, code: str, said: str) -> Callable[[], Reply]:
    return lambda: Reply(
        status, json.dumps({"success": False, "error": code, "msg": said}).encode()
    )


def _said(status: int, body: bytes, kind: str = "application/json") -> Callable[[], Reply]:
    return lambda: Reply(status, body, {"content-type": kind})


def _cut() -> Reply:
    return Reply(200, b'{"success": true, "instances": []}', cut=True)


REPLIES: Mapping[str, Callable[[], Reply]] = {
    "withdrawn": _error(410, "deprecated_endpoint", "use the v1 path"),
    "bad_key": _error(401, "auth_error", "Invalid user key"),
    "bad_key_404": _error(404, "auth_error", "Invalid user key"),
    "no_scope": _error(403, "forbidden", "missing permission instance_read"),
    "not_found": _said(404, b"Not Found", "text/plain"),
    "busy_text": _said(429, b"API requests too frequent", "text/plain"),
    "busy_detail": _said(429, b'{"detail":"API requests too frequent endpoint threshold=1.0"}'),
    "busy_code": _error(429, "rate_limit_exceeded", "slow down"),
    "bad_request": _error(400, "invalid_request", "x is not a valid search key"),
    "gateway": _said(502, b"<html><h1>502 Bad Gateway</h1></html>", "text/html"),
    "web_page": _said(200, b"<!doctype html><title>Vast.ai</title>", "text/html"),
    "plain_text": _said(200, b"ok", "text/plain"),
    "not_successful": _said(200, b'{"success": false, "instances": []}'),
    "deprecated_200": _said(200, b'{"success": false, "error": "deprecated_endpoint"}'),
    "null_list": _said(200, b'{"success": true, "instances": null}'),
    "no_list": _said(200, b'{"success": true}'),
    "dict_list": _said(200, b'{"success": true, "instances": {"id": 1}}'),
    "text_list": _said(200, b'{"success": true, "instances": "none"}'),
    "half_json": _said(200, b'{"success": true, "instances": [{"id": 4123'),
    "empty_body": _said(200, b""),
    "redirect": lambda: Reply(302, b"", {"location": "https://cloud.example.org/"}),
    "lost": _cut,
}


class FakeVast(FakeProvider):
    """An account at Vast.

    interval_s: the least time between two calls of one endpoint, 0 for none.
    """

    replies = REPLIES
    twists = frozenset(
        {"empty", "half_page", "same_token", "endless", "null_row", "row_without_id", "twice"}
    )

    def __init__(
        self,
        now: Callable[[], float],
        *,
        key: str = KEY,
        interval_s: float = 1.0,
        reboot_takes_s: float = 30.0,
    ) -> None:
        """Say what time it is, as whom to ask, and how often."""
        super().__init__(now, key)
        self.interval_s = interval_s
        self.reboot_takes_s = reboot_takes_s
        self._last: dict[str, float] = {}
        self._next_id = 41_230_000
        self._page = 0

    def _new_id(self) -> str:
        self._next_id += 11
        return str(self._next_id)

    # ---- answering

    def page_of(self, call: Call) -> int:
        """Return the page by counting, because a token does not tell."""
        if call.path != LIST:
            return 0
        self._page = self._page + 1 if "after_token" in call.query else 1
        return self._page

    def refuse(self, call: Call) -> Reply | None:
        """Refuse a wrong key, and a second call of one endpoint that comes too soon."""
        if call.authorization != f"Bearer {self.key}":
            return self.replies["bad_key_404"]()
        endpoint = f"{call.method} {_REBOOT.sub('reboot', call.path)}"
        last, now = self._last.get(endpoint), self.now()
        if last is not None and now - last < self.interval_s:
            return self.replies["busy_text"]()
        self._last[endpoint] = now
        return None

    async def answer(self, call: Call, twist: str) -> Reply:
        """Answer the list of version 1 and the reboot; the old list is gone."""
        if call.method == "GET" and call.path == LIST:
            return self._list(call, twist)
        if call.method == "GET" and call.path == "/api/v0/instances/":
            return self.replies["withdrawn"]()
        if call.method == "PUT" and (found := _REBOOT.fullmatch(call.path)):
            return self._reboot(found[1])
        return self.replies["not_found"]()

    def _reboot(self, box_id: str) -> Reply:
        if box_id not in self.truth():
            return _error(404, "no_such_instance", "Instance not found")()
        self.reboot(box_id, self.reboot_takes_s)
        return ok({"success": True})

    def _list(self, call: Call, twist: str) -> Reply:
        if self._page == 1:
            self.reads += 1
        after = _after(call.query.get("after_token", ""))
        if after is None:
            return _error(400, "invalid_token", "invalid after_token")()
        boxes = [] if twist == "empty" else self._asked_for(call)
        rest = boxes[next((at for at, one in enumerate(boxes, 1) if one.id == after), 0) :]
        limit = int(call.query.get("limit", MOST_ROWS))
        limit = min(limit if limit > 0 else 5, MOST_ROWS)
        shown = rest[:limit]
        answer = {
            "success": True,
            "instances_found": len(boxes),
            "total_instances": len(boxes),
            "label_counts": {box.label or "": 1 for box in boxes},
            "next_token": f"after-{shown[-1].id}" if len(rest) > limit else None,
            "instances": [self._row(box) for box in shown],
        }
        return ok(_twisted(answer, twist, self._page))

    def _asked_for(self, call: Call) -> list[Rented]:
        """Return the boxes of a list, in the order asked for: newest first unless told."""
        wanted = json.loads(call.query.get("select_filters", "{}")).get("id", {}).get("eq")
        orders = json.loads(call.query.get("order_by", "[]"))
        descending = not orders or orders[0] != {"col": "id", "dir": "asc"}
        boxes = [one for one in self.listed() if wanted in (None, int(one.id))]
        return sorted(boxes, key=lambda one: int(one.id), reverse=descending)

    # ---- one row

    def _row(self, box: Rented) -> dict[str, Any]:
        actual, intended, current, following = _STATES[self.life(box)]
        ports = self.ports_of(box)
        return {
            "id": int(box.id),
            "label": box.label,
            "machine_id": box.machine,
            "host_id": 90_210,
            "actual_status": actual,
            "intended_status": intended,
            "cur_state": current,
            "next_state": following,
            "status_msg": f"success, {actual} vastai/vllm:v0.25.1\n",
            "public_ipaddr": f"{box.address}\n",
            "static_ip": False,
            "local_ipaddrs": "10.20.0.5 172.17.0.1 \n",
            "ports": {"22/tcp": None, **_docker(ports)} if ports else None,
            "direct_port_start": 41_200 if ports else -1,
            "direct_port_end": 41_263 if ports else -1,
            "ssh_host": "ssh7.vast.ai",
            "ssh_port": 10_011,
            "gpu_name": box.gpu_name,
            "num_gpus": box.gpu_count,
            "gpu_ram": 24_564,
            "disk_space": 120.0,
            "disk_usage": -1,
            "dph_base": box.price_per_hour,
            "dph_total": box.price_per_hour,
            "start_date": box.started_at,
            "image_uuid": "vastai/vllm:v0.25.1",
            "onstart": f"export HF_TOKEN={box.secret}; entrypoint.sh",
            "extra_env": [
                ["HF_TOKEN", box.secret],
                *([f"-p {port}:{port}", "1"] for port in box.ports),
            ],
            "jupyter_token": f"jupyter-{box.secret}",
            "geolocation": "Oregon, US",
            "reliability2": 0.9931,
            **box.shown,
        }


def _docker(ports: Mapping[int, int]) -> dict[str, Any]:
    return {
        f"{listen}/tcp": [
            {"HostIp": "0.0.0.0", "HostPort": str(public)},  # noqa: S104  shown, not bound
            {"HostIp": "::", "HostPort": str(public)},
        ]
        for listen, public in ports.items()
    }


def _after(token: str) -> str | None:
    """Return the id a page begins after, "" for the first; None for a token that is none."""
    if not token:
        return ""
    found = re.fullmatch(r"after-(\d{1,15})", token)
    return found[1] if found else None


def _twisted(answer: dict[str, Any], twist: str, page: int) -> dict[str, Any]:
    """Return an answer in which one thing is wrong."""
    rows = answer["instances"]
    changes: dict[str, dict[str, Any]] = {
        "half_page": {"instances": rows[: len(rows) // 2]},
        "same_token": {"next_token": "after-1"},
        "endless": {"next_token": f"after-{page}", "total_instances": None},
        "null_row": {"instances": [*rows, None]},
        "row_without_id": {
            "instances": [{k: v for k, v in row.items() if k != "id"} for row in rows]
        },
        "twice": {"instances": rows + rows, "total_instances": 2 * len(rows)},
    }
    return answer | changes.get(twist, {})
