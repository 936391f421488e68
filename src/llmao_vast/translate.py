"""What Vast's answers mean.

Rule of this file: bytes and records in, records out; nothing here waits, asks or keeps anything.
Every row holds secrets (`extra_env`, `onstart`, `jupyter_token`): a field is taken by name, and
none that is not named here gets out. No message repeats what an answer held.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import evolve, frozen

from llmao_core.errors import Busy, FetchError, Garbled, Unauthorized
from llmao_core.providers import (
    address,
    count,
    hidden_in,
    identifier,
    number,
    parse,
    port,
    text,
    unique_labels,
    unrepeated,
)
from llmao_core.snapshots import BoxStatus, Endpoint, Instance, Listing

WHO = "Vast"
_STATUSES = {
    "created": BoxStatus.STARTING,
    "loading": BoxStatus.STARTING,
    "rebooting": BoxStatus.STARTING,
    "recycling": BoxStatus.STARTING,
    "running": BoxStatus.UP,
    "stopped": BoxStatus.DOWN,
    "exited": BoxStatus.DOWN,
    "frozen": BoxStatus.DOWN,
}
# Docker names the side of the host it listens on; "" is how some versions write all of IPv4.
_EVERYWHERE = ("0.0.0.0", "", None)  # noqa: S104  read, not bound
_PUBLISHED = re.compile(r"-p\s*(?:[\d.]+:)?\d+:(\d+)(?:/(tcp|udp))?(?=\s|$)")
_NO_KEY = (
    "refuses the key: give providers.vast.api_key a key of the account that may read "
    "instances (instance_read)"
)
_WITHDRAWN = (
    "has withdrawn the list of instances llmao reads (410): update llmao, and check "
    "providers.vast.base_url"
)


@frozen
class Page:
    """One page of the list. rows: as they came. after: the token of the next page, "" for none.

    total: how many instances there are in all; None when the answer does not say.
    """

    rows: tuple[Any, ...]
    after: str = ""
    total: int | None = None


# ---- errors


def error_code(content: bytes) -> str:
    """Return the machine-readable word of an error answer, "" when there is none."""
    try:
        data = parse(content, WHO)
    except Garbled:
        return ""
    found = data.get("error") if isinstance(data, dict) else None
    return found if isinstance(found, str) else ""


def trouble(code: str, status: int, retry_after: float | None = None) -> FetchError | None:
    """Return what an error is that has a meaning of its own; None for any other.

    A wrong key is answered 401 in the documentation and 404 in the field.
    """
    if status == 410 or code == "deprecated_endpoint":
        return Unauthorized(f"{WHO} {_WITHDRAWN}")
    if status in (401, 403) or code == "auth_error":
        return Unauthorized(f"{WHO} {_NO_KEY}")
    if status == 429 or code == "rate_limit_exceeded":
        return Busy(
            f"{WHO} is asked too often: give llmao a key of its own, or a longer "
            "providers.vast.interval_s",
            retry_after,
        )
    return None


def succeeded(content: bytes) -> bool:
    """Tell whether an answer to an order says that it was taken; Garbled if it says nothing."""
    data = parse(content, WHO)
    return isinstance(data, dict) and data.get("success") is True


# ---- pages


def page(content: bytes) -> Page:
    """Return one page; an answer that is no list is an error, never an empty list."""
    data = parse(content, WHO)
    if not isinstance(data, dict):
        raise Garbled("Vast's list of instances is not an object")
    if data.get("success", True) is not True:
        code = data.get("error")
        known = trouble(code, 200) if isinstance(code, str) else None
        raise known or Garbled("Vast answered 200 and says that it did not succeed")
    rows = data.get("instances")
    if not isinstance(rows, list):
        raise Garbled("Vast's answer holds no list of instances")
    return Page(tuple(rows), _token(data.get("next_token")), _total(data))


def _token(value: object) -> str:
    if value is None or value == "":
        return ""
    if isinstance(value, str) and len(value) <= 4096:
        return value
    raise Garbled("Vast's list of instances goes on after a token that is none")


def _total(data: Mapping[str, Any]) -> int | None:
    value = data.get("total_instances")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise Garbled("Vast's list of instances has a total that is no number")
    return value


def listing(pages: Iterable[Page], *, local: bool = False) -> Listing:
    """Return the listing that all pages make; Garbled unless it is whole.

    local: boxes may be on loopback, because the pages come from a fake.
    """
    pages = tuple(pages)
    found = [_instance(row, local) for one in pages for row in one.rows]
    total = pages[-1].total if pages else None
    if total is not None and total != len(found):
        raise Garbled(f"Vast lists {len(found)} instances of {total}: a part is no listing")
    instances = unrepeated((instance for instance, _ in found), WHO)
    return Listing(_with_labels(instances, {one.id: label for one, label in found}))


def _with_labels(
    instances: tuple[Instance, ...], labels: Mapping[str, object]
) -> tuple[Instance, ...]:
    there = [one for one in instances if one.status is not BoxStatus.GONE]
    taken = {one.id for one in instances}
    unique = unique_labels({one.id: labels[one.id] for one in there}, taken)
    return tuple(
        evolve(one, names=(*one.names, unique[one.id])) if one.id in unique else one
        for one in instances
    )


# ---- one row


def _instance(row: object, local: bool) -> tuple[Instance, object]:
    """Return a row as an instance, and the label people gave it."""
    if not isinstance(row, dict):
        raise Garbled("Vast's list of instances holds something that is no instance")
    instance_id = identifier(row.get("id"))
    if not instance_id:
        raise Garbled("Vast's list of instances holds one without an id")
    status, raw = _status(row)
    at = address(row.get("public_ipaddr"), local=local)
    return Instance(
        id=instance_id,
        status=status,
        raw_status=raw,
        detail=_detail(row),
        names=(f"c.{instance_id}".lower(),),
        addresses=(at,) if at else (),
        endpoints={} if status in (BoxStatus.DOWN, BoxStatus.GONE) else _endpoints(row, at),
        declared=_declared(row.get("extra_env")),
        gpu_name=text(row.get("gpu_name")),
        gpu_count=count(row.get("num_gpus")),
        gpu_memory_gb=_gigabytes(row.get("gpu_ram")),
        disk_gb=number(row.get("disk_space")),
        price_per_hour=number(row.get("dph_total")),
        started_at=number(row.get("start_date")),
        location=text(row.get("geolocation")),
        group=identifier(row.get("machine_id")),
    ), row.get("label")


def _status(row: Mapping[str, Any]) -> tuple[BoxStatus, str]:
    """Return the status, and the word of Vast's it rests on.

    Outbid shows nowhere but in all three states being `stopped`.
    """
    states = [_word(row.get(name)) for name in ("cur_state", "intended_status", "next_state")]
    if states[0] == "unloaded":
        return BoxStatus.GONE, "unloaded"
    if states == ["stopped"] * 3:
        return BoxStatus.DOWN, _word(row.get("actual_status")) or "stopped"
    if "actual_status" in row and row["actual_status"] is None:
        return BoxStatus.STARTING, "null"
    actual = _word(row.get("actual_status"))
    return _STATUSES.get(actual, BoxStatus.UNKNOWN), actual


def _word(value: object) -> str:
    return text(value).lower()[:40]


def _detail(row: Mapping[str, Any]) -> str:
    # A free text of the host's Docker, which may quote the command it ran.
    secret = ("extra_env", "env", "onstart", "jupyter_token", "image_args", "image_login")
    named = [value for name, value in row.items() if name in secret or "key" in name.lower()]
    return text(row.get("status_msg"), hidden_in(*named))


def _gigabytes(megabytes: object) -> float | None:
    found = number(megabytes)
    return None if found is None else found / 1000


# ---- ports


def _endpoints(row: Mapping[str, Any], at: str) -> dict[int, Endpoint]:
    """Return where each TCP port of the container is reached, from Docker's own map."""
    ports = row.get("ports")
    if not isinstance(ports, dict) or not at or ":" in at:
        return {}
    found: dict[int, Endpoint] = {}
    for name, bindings in ports.items():
        inside, _, protocol = name.strip().lower().partition("/")
        listen, public = port(inside), _public(bindings, at)
        if listen and public and protocol == "tcp":
            found[listen] = Endpoint("http", at, public)
    return found


def _public(bindings: object, at: str) -> int | None:
    """Return the first IPv4 port of a Docker port binding; its IPv6 twin is nothing to us."""
    for one in bindings if isinstance(bindings, list) else ():
        side = one.get("HostIp") if isinstance(one, dict) else "::"
        side = side.strip() if isinstance(side, str) else side
        if side in (*_EVERYWHERE, at) and (found := port(one.get("HostPort"))):
            return found
    return None


def _declared(extra_env: object) -> frozenset[int]:
    """Return the container ports that were asked for, TCP only.

    They stand among the environment, as keys like `-p 8001:8001`. 70000 and above mean "any port,
    the same inside and out" and name none.
    """
    names: list[object] = []
    if isinstance(extra_env, dict):
        names = list(extra_env)
    elif isinstance(extra_env, list):
        names = [one[0] if isinstance(one, list) and one else one for one in extra_env]
    asked = (
        port(found[1])
        for name in names
        if isinstance(name, str)
        for found in _PUBLISHED.finditer(name)
        if found[2] != "udp"
    )
    return frozenset(one for one in asked if one)
