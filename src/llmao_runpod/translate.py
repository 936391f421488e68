"""What RunPod's answers mean (REST, version 2).

Rule of this file: bytes and records in, records out; nothing here waits, asks or keeps anything.
Every pod holds secrets (`env`, `args`, `registry`): a field is taken by name, and none that is not
named here gets out. No message repeats what an answer held.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import evolve, frozen

from llmao_core.errors import Garbled, Unauthorized
from llmao_core.providers import (
    address,
    count,
    epoch,
    identifier,
    number,
    parse,
    port,
    text,
    unique_labels,
    unrepeated,
)
from llmao_core.snapshots import BoxStatus, Endpoint, Instance, Listing

WHO = "RunPod"
PROXY_DOMAIN = "proxy.runpod.net"
NO_KEY = (
    "RunPod refuses the key: give providers.runpod.api_key one of the account, read-only will do"
)
_STATUSES = {
    "PROVISIONING": BoxStatus.STARTING,
    "STARTING": BoxStatus.STARTING,
    "RUNNING": BoxStatus.UP,
    "EXITED": BoxStatus.DOWN,
    "ERROR": BoxStatus.DOWN,
    "TERMINATED": BoxStatus.GONE,
}
_DECLARED = re.compile(r"(\d{1,5})/(tcp|http)")
_LIMIT = re.compile(r"(?:^|[,;\s])(?P<name>r|remaining|t|reset)=(?P<value>\d{1,9})")


@frozen
class Page:
    """One page of the list. pods: as they came. after: the cursor of the next, "" for none."""

    pods: tuple[Any, ...]
    after: str = ""


@frozen
class Reading:
    """How pods are read. http_proxy: RunPod's own proxy is a second choice. local: from a fake."""

    http_proxy: bool = False
    local: bool = False


# ---- errors


def is_no_answer_of_runpod(content: bytes) -> bool:
    """Tell whether a refusal came from what stands before RunPod, which has no say on keys.

    RunPod's own are JSON objects; Cloudflare answers `error code: 1010` or a web page.
    """
    try:
        return not isinstance(parse(content, WHO), dict)
    except Garbled:
        return True


def window_s(rate_limit: object) -> float | None:
    """Return how long the exhausted windows of a `RateLimit` header last, None for none.

    `"minute";r=0;t=17, "hour";r=2900;t=1800`, or the older `limit=60, remaining=0, reset=17`.
    """
    if not isinstance(rate_limit, str):
        return None
    one_window = "remaining=" in rate_limit
    waits = []
    for window in [rate_limit] if one_window else rate_limit.split(","):
        found = {each["name"]: int(each["value"]) for each in _LIMIT.finditer(window)}
        left = found.get("r", found.get("remaining"))
        until = found.get("t", found.get("reset"))
        if left == 0 and until is not None:
            waits.append(float(until))
    return max(waits, default=None)


# ---- pages


def page(content: bytes) -> Page:
    """Return one page; an answer that is no list is an error, never an empty list."""
    data = parse(content, WHO)
    if isinstance(data, list):
        raise Garbled("RunPod answered as its version 1 did: check providers.runpod.base_url")
    if not isinstance(data, dict):
        raise Garbled("RunPod's list of pods is not an object")
    pods = data.get("pods")
    if isinstance(pods, list):
        return Page(tuple(pods), _cursor(data.get("pagination")))
    inner = data.get("data")
    if isinstance(inner, dict) and "myself" in inner:
        if inner["myself"] is None:
            raise Unauthorized(NO_KEY)
        raise Garbled("RunPod answered in GraphQL: check providers.runpod.base_url")
    raise Garbled("RunPod's answer holds no list of pods")


def _cursor(pagination: object) -> str:
    """Return the cursor of the next page; there is no paging at all in the first version."""
    if pagination is None:
        return ""
    if not isinstance(pagination, dict):
        raise Garbled("RunPod's list of pods is paged in a way llmao does not know")
    cursor = pagination.get("nextCursor")
    more = pagination.get("hasNextPage", cursor is not None)
    if more is False:
        return ""
    if more is not True or not isinstance(cursor, str) or not cursor:
        raise Garbled("RunPod's list of pods goes on and does not say where")
    return cursor


def listing(pages: Iterable[Page], how: Reading) -> Listing:
    """Return the listing that all pages make."""
    found = [_instance(pod, how) for one in pages for pod in one.pods]
    instances = unrepeated((instance for instance, _ in found), WHO)
    labels = {one.id: name for one, name in found if one.status is not BoxStatus.GONE}
    unique = unique_labels(labels, {one.id.lower() for one in instances})
    return Listing(
        tuple(
            evolve(one, names=(unique[one.id],)) if one.id in unique else one for one in instances
        )
    )


def status_of(content: bytes) -> BoxStatus:
    """Return the status of the one pod of an answer."""
    data = parse(content, WHO)
    inner = data.get("pod", data) if isinstance(data, dict) else None
    return _status(inner.get("status"))[0] if isinstance(inner, dict) else BoxStatus.UNKNOWN


# ---- one pod


def _instance(pod: object, how: Reading) -> tuple[Instance, object]:
    """Return a pod as an instance, and the name people gave it."""
    if not isinstance(pod, dict):
        raise Garbled("RunPod's list of pods holds something that is no pod")
    pod_id = identifier(pod.get("id"))
    if not pod_id:
        raise Garbled("RunPod's list of pods holds one without an id")
    status, raw = _status(pod.get("status"))
    gpus, gpu_name = _gpu(pod.get("gpu"))
    # Ports of a pod that is not running are those it had: somebody else may have them now.
    direct = _direct(pod.get("runtime"), how) if status is BoxStatus.UP else {}
    declared = _declared(pod.get("ports"))
    proxied = _proxied(pod_id, declared) if how.http_proxy and status is BoxStatus.UP else {}
    return Instance(
        id=pod_id,
        status=status,
        raw_status=raw,
        detail="running without a GPU" if status is BoxStatus.UP and gpus == 0 else "",
        addresses=tuple(dict.fromkeys(one.host for one in direct.values())),
        endpoints={**proxied, **direct},
        declared=frozenset(listen for listen, kind in declared if kind == "tcp" or how.http_proxy),
        gpu_name=gpu_name,
        gpu_count=gpus or 0,
        disk_gb=number(pod.get("disk")),
        price_per_hour=_price(pod.get("cost"), status),
        started_at=epoch(pod.get("startedAt")),
        location=text(pod.get("dataCenterId")),
    ), pod.get("name")


def _status(value: object) -> tuple[BoxStatus, str]:
    raw = text(value).upper()[:40]
    return _STATUSES.get(raw, BoxStatus.UNKNOWN), raw


def _gpu(value: object) -> tuple[int | None, str]:
    """Return how many GPUs, None when the pod does not say, and which."""
    if not isinstance(value, dict):
        return None, ""
    known = number(value.get("count")) is not None
    return count(value.get("count")) if known else None, text(value.get("id"))


def _price(value: object, status: BoxStatus) -> float | None:
    """Return what a pod costs now; 0 is true of one that ended, and not told yet of one to come."""
    price = number(value)
    return None if not price and status is BoxStatus.STARTING else price


# ---- ports


def _direct(runtime: object, how: Reading) -> dict[int, Endpoint]:
    """Return where each TCP port is reached; every entry has its own address.

    Entries of kind http lead into RunPod's own network, whatever address they show.
    """
    entries = runtime.get("ports") if isinstance(runtime, dict) else None
    found: dict[int, Endpoint] = {}
    for one in entries if isinstance(entries, list) else ():
        if not isinstance(one, dict) or text(one.get("type")).lower() != "tcp":
            continue
        listen, public = port(one.get("private")), port(one.get("public"))
        at = address(one.get("ip"), local=how.local)
        if listen and public and at:
            found.setdefault(listen, Endpoint("http", at, public))
    return found


def _declared(ports: object) -> tuple[tuple[int, str], ...]:
    found = (
        _DECLARED.fullmatch(one.strip().lower())
        for one in (ports if isinstance(ports, list) else ())
        if isinstance(one, str)
    )
    return tuple((int(one[1]), one[2]) for one in found if one and port(one[1]))


def _proxied(pod_id: str, declared: Iterable[tuple[int, str]]) -> Mapping[int, Endpoint]:
    """Return RunPod's proxy of each declared HTTP port: its name is built, never listed."""
    return {
        listen: Endpoint("https", f"{pod_id.lower()}-{listen}.{PROXY_DOMAIN}", 443, via="proxy")
        for listen, kind in declared
        if kind == "http"
    }
