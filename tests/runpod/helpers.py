"""A fake account at RunPod, a client that reaches it, and pods as they were recorded."""

import copy
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
from tests.litellm.helpers import NOW, Hands

from llmao_core.actions import ActionKind, Order
from llmao_core.hooks import FetchRequest
from llmao_core.keys import box_key
from llmao_core.secret import Secret
from llmao_core.snapshots import Instance, Listing
from llmao_runpod import plugin, translate
from llmao_runpod.fake import KEY, FakeRunPod

LOCAL = "http://127.0.0.1:4999"
SECRETS = ("hf_planted_secret", "args_planted_secret", "registry_planted", "ssh_planted_secret")

POD: Mapping[str, Any] = {
    "id": "k3v9x2m7q1",
    "name": "box-c",
    "status": "RUNNING",
    "actions": ["stop", "restart", "terminate"],
    "image": "vllm/vllm-openai:v0.25.1",
    "args": f"--hf-token {SECRETS[1]}",
    "disk": 80,
    "ports": ["22/tcp", "8001/tcp", "8002/tcp", "8888/http"],
    "env": {"HF_TOKEN": SECRETS[0]},
    "registry": {"password": SECRETS[2]},
    "gpu": {"id": "NVIDIA GeForce RTX 4090", "count": 2},
    "dataCenterId": "EU-RO-1",
    "cost": 1.38,
    "ssh": {
        "proxy": {"host": "ssh.runpod.io", "port": 22, "command": SECRETS[3]},
        "direct": {"host": "198.51.100.77", "port": 13007, "command": SECRETS[3]},
    },
    "runtime": {
        "uptime": 7312,
        "ports": [
            {"private": 22, "public": 13007, "type": "tcp", "ip": "198.51.100.77"},
            {"private": 8001, "public": 13041, "type": "tcp", "ip": "198.51.100.77"},
            {"private": 8002, "public": 13042, "type": "tcp", "ip": "198.51.100.78"},
            {"private": 8888, "public": None, "type": "http", "ip": None},
        ],
    },
    "createdAt": "2026-11-30T08:00:00Z",
    "startedAt": "2026-11-30T08:04:10Z",
}


def pod(**more: Any) -> dict[str, Any]:
    """Return a recorded pod with some fields changed."""
    return copy.deepcopy(dict(POD)) | more


def runtime(*ports: Any) -> dict[str, Any]:
    return {"uptime": 1, "ports": list(ports)}


def answer(*pods: Any, **more: Any) -> bytes:
    """Return a whole list of one page."""
    return json.dumps({"pods": list(pods), **more}).encode()


def listed(*pods: Any, http_proxy: bool = False) -> tuple[Instance, ...]:
    how = translate.Reading(http_proxy=http_proxy)
    return translate.listing([translate.page(answer(*pods))], how).instances


def one(*, http_proxy: bool = False, **more: Any) -> Instance:
    """Return the instance that a recorded pod, changed, comes to."""
    [instance] = listed(pod(**more), http_proxy=http_proxy)
    return instance


def request(key: str = KEY, **more: Any) -> FetchRequest:
    return FetchRequest("runpod", LOCAL, Secret(key), **more)


def order(target: str) -> Order:
    return Order(ActionKind.REBOOT_BOX, "runpod", box_key("k3v9x2m7q1", 8001, "qwen3"), target)


@asynccontextmanager
async def reached(fake: FakeRunPod) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(transport=fake.transport()) as http:
        yield http


async def fetch(fake: FakeRunPod, **section: Any) -> Listing:
    """Read the account once through the plugin."""
    async with reached(fake) as http:
        return await plugin.llmao_fetch(request(section=section), http, fake.now())


__all__ = ["NOW", "Hands"]
