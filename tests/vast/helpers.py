"""A fake account at Vast, a client that reaches it, and rows as they were recorded."""

import copy
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
from tests.litellm.helpers import NOW, Hands

from llmao_core.actions import ActionKind, Order
from llmao_core.hooks import FetchRequest
from llmao_core.keys import box_key
from llmao_core.secret import Secret
from llmao_core.snapshots import Instance, Listing
from llmao_vast import plugin, translate
from llmao_vast.fake import KEY, FakeVast

LOCAL = "http://127.0.0.1:4999"
SECRETS = ("hf_planted_secret", "jupyter_planted", "registry_planted", "args_planted_secret")

ROW: Mapping[str, Any] = {
    "id": 41230011,
    "label": "box-a",
    "machine_id": 51877,
    "actual_status": "running",
    "intended_status": "running",
    "cur_state": "running",
    "next_state": "running",
    "status_msg": "success, running vastai/vllm:v0.25.1\n",
    "public_ipaddr": "203.0.113.24\n",
    "local_ipaddrs": "10.20.0.5 172.17.0.1 \n",
    "ports": {
        "22/tcp": [{"HostIp": "0.0.0.0", "HostPort": "41207"}],
        "8001/tcp": [
            {"HostIp": "0.0.0.0", "HostPort": "41233"},
            {"HostIp": "::", "HostPort": "41234"},
        ],
        "8002/tcp": [{"HostIp": "0.0.0.0", "HostPort": "41218"}],
    },
    "direct_port_start": 41200,
    "direct_port_end": 41263,
    "ssh_host": "ssh7.vast.ai",
    "ssh_port": 10011,
    "gpu_name": "RTX 4090",
    "num_gpus": 2,
    "gpu_ram": 24564,
    "gpu_totalram": 49128,
    "disk_space": 120.0,
    "dph_base": 0.71,
    "dph_total": 0.7342,
    "start_date": 1796040001.52,
    "extra_env": [["HF_TOKEN", SECRETS[0]], ["-p 8001:8001", "1"], ["-p 8002:8002", "1"]],
    "image_args": ["--hf-token", SECRETS[3]],
    "image_login": f"-u me -p {SECRETS[2]}",
    "onstart": f"export HF_TOKEN={SECRETS[0]}; entrypoint.sh",
    "jupyter_token": SECRETS[1],
    "instance_api_key": SECRETS[2],
    "geolocation": "Oregon, US",
}


def row(**more: Any) -> dict[str, Any]:
    """Return a recorded row with some fields changed."""
    return copy.deepcopy(dict(ROW)) | more


def answer(*rows: Any, **more: Any) -> bytes:
    """Return a whole list of one page."""
    whole = {"success": True, "total_instances": len(rows), "next_token": None}
    return json.dumps({**whole, "instances": list(rows), **more}).encode()


def listed(*rows: Any) -> tuple[Instance, ...]:
    return translate.listing([translate.page(answer(*rows))]).instances


def one(**more: Any) -> Instance:
    """Return the instance that a recorded row, changed, comes to."""
    [instance] = listed(row(**more))
    return instance


def request(key: str = KEY, **more: Any) -> FetchRequest:
    return FetchRequest("vast", LOCAL, Secret(key), **more)


def order(target: str) -> Order:
    return Order(ActionKind.REBOOT_BOX, "vast", box_key("c.1", 8001, "qwen3"), target)


@asynccontextmanager
async def reached(fake: FakeVast) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(transport=fake.transport()) as http:
        yield http


async def fetch(fake: FakeVast, now: Callable[[], float] = lambda: NOW) -> Listing:
    """Read the account once through the plugin."""
    async with reached(fake) as http:
        return await plugin.llmao_fetch(request(), http, now())


__all__ = ["NOW", "Hands"]
