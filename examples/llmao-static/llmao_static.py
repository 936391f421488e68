"""Your own machines as a listing for llmao: a YAML or JSON file behind a URL.

    total: 2                      # optional: how many boxes, so that half a YAML file is noticed
    boxes:
      - id: rack-1                # letters, digits, - and _
        label: gpu-a              # what fleet.hosts may call it
        address: 192.0.2.7        # an address or a DNS name that llmao and LiteLLM can reach
        ports: {8001: 8001, 8002: 18002}      # listen port: public port
        status: up                # up, starting, down or gone
        gpu: {name: RTX 4090, count: 2, memory_gb: 24}
        price_per_hour: 0.31      # all but the id may be left out

In config.yaml: `providers: {static: {base_url: https://…/boxes.yaml, api_key: …}}`. The key is
sent as a bearer; where none is needed any word will do, but llmao reads no listing without one.
"""

import json
from typing import Any

import httpx
import yaml

from llmao_core.config import Config
from llmao_core.errors import Busy, FetchError, Garbled, Problem, Unauthorized, Unreachable
from llmao_core.hooks import FetchRequest, Http, SourceCard, SourceKind, hookimpl
from llmao_core.keys import host_name, is_address, is_dialable
from llmao_core.providers import (
    count,
    identifier,
    number,
    place_of,
    port,
    retry_after_s,
    section_problems,
    text,
    unique_labels,
    unrepeated,
)
from llmao_core.snapshots import BoxStatus, Endpoint, Instance, Listing

NAME = "static"
INTERVAL_S = 60.0
SHORTEST_INTERVAL_S = 1.0
MOST_BYTES = 4 * 1024 * 1024
STATUSES = {status.value: status for status in BoxStatus}


# ---- hooks


@hookimpl
def llmao_source() -> tuple[SourceCard, ...]:
    """Return the one card: it lists, and it carries out nothing."""
    return (SourceCard(NAME, SourceKind.LISTING, INTERVAL_S),)


@hookimpl
def llmao_check(config: Config) -> tuple[Problem, ...]:
    """Return what is wrong in `providers.static`."""
    section = next((one for one in config.gpu_providers if one.name == NAME), None)
    if section is None or section.base_url:
        return section_problems(config, NAME, shortest_s=SHORTEST_INTERVAL_S)
    remedy = "Write where the file of boxes is."
    return (Problem("No URL is given.", remedy, path=f"providers.{NAME}.base_url"),)


@hookimpl
async def llmao_fetch(request: FetchRequest, http: Http, now: float) -> Listing:
    """Return every box of the file; a file that is not whole is an error."""
    where = f"The list of boxes at {place_of(request.base_url)}"
    headers = {"Authorization": f"Bearer {request.api_key.reveal()}"} if request.api_key else {}
    try:
        answer = await http.request(
            "GET", request.base_url, headers=headers, timeout=request.timeout_s
        )
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        # The error's own words may hold the key: its type is all that is said.
        raise Unreachable(f"{where} cannot be read ({type(error).__name__})") from None
    if answer.status_code != 200:
        raise trouble(where, answer.status_code, answer.headers.get("retry-after"), now)
    return listing(where, bytes(answer.content))


# ---- what an answer means


def trouble(where: str, status: int, retry_after: str | None, now: float) -> FetchError:
    """Return the error that a status other than 200 means."""
    if status in (401, 403):
        return Unauthorized(f"{where} refuses providers.{NAME}.api_key ({status})")
    if status == 429:
        return Busy(f"{where} is asked too often", retry_after_s(retry_after, now))
    if status >= 500:
        return Unreachable(f"{where} is down ({status})")
    return Garbled(f"{where} is not there ({status}): check providers.{NAME}.base_url")


def listing(where: str, content: bytes) -> Listing:
    """Return the listing a file holds, whole or not at all."""
    data = parsed(content) if len(content) <= MOST_BYTES else None
    rows = data.get("boxes") if isinstance(data, dict) else None
    if not isinstance(data, dict) or not isinstance(rows, list):
        raise Garbled(f"{where} is no YAML or JSON with a list named boxes, or only half of it")
    if data.get("total", len(rows)) != len(rows):
        raise Garbled(f"{where} holds {len(rows)} boxes and says it has another number of them")
    if not all(isinstance(row, dict) and identifier(row.get("id")) for row in rows):
        raise Garbled(f"{where} holds a box without an id")
    labels = {identifier(row["id"]): row.get("label") for row in rows}
    unique = unique_labels(labels, set(labels))
    return Listing(unrepeated((instance(row, unique) for row in rows), where))


def parsed(content: bytes) -> Any:
    """Return what JSON or YAML says; None for what is neither."""
    try:
        return json.loads(content) if content.lstrip()[:1] == b"{" else yaml.safe_load(content)
    except (ValueError, RecursionError, yaml.YAMLError):
        return None


def instance(row: dict[str, Any], labels: dict[str, str]) -> Instance:
    """Return one box; what makes no sense in it is left empty."""
    box_id, host = identifier(row["id"]), dialable(row.get("address"))
    ports, gpu = (row[key] if isinstance(row.get(key), dict) else {} for key in ("ports", "gpu"))
    pairs = [(port(listen), port(public)) for listen, public in ports.items()]
    raw = text(row.get("status", "up")).lower()
    return Instance(
        id=box_id,
        status=STATUSES.get(raw, BoxStatus.UNKNOWN),
        raw_status=raw,
        names=(labels[box_id],) if box_id in labels else (),
        addresses=(host,) if host and is_address(host) else (),
        endpoints={at: Endpoint("http", host, to) for at, to in pairs if host and at and to},
        declared=frozenset(at for at, _ in pairs if at),
        gpu_name=text(gpu.get("name")),
        gpu_count=count(gpu.get("count")),
        gpu_memory_gb=number(gpu.get("memory_gb")),
        price_per_hour=number(row.get("price_per_hour")),
    )


def dialable(value: object) -> str:
    """Return an address or DNS name in its one spelling, "" for what cannot be dialled."""
    try:
        host = host_name(value) if isinstance(value, str) else ""
    except ValueError:
        return ""
    return host if is_dialable(host) else ""
