"""A small world on loopback: a proxy, a box, and a configuration that names both."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
from attrs import define

from llmao_core.bearer import derive
from llmao_core.secret import Secret
from llmao_core.testing.fake_vllm import FakeVLLM
from llmao_litellm.fake import MASTER_KEY, FakeLiteLLM, Speeds
from llmao_litellm.fake_traffic import Dialler
from llmao_web.shell.clock import SystemClock

SALT = Secret("salt-for-tests")
BOX = "127.0.0.2"

_CONFIG = """
litellm: {{base_url: "{litellm}", master_key: {key}, request_timeout_s: 5, poll_interval_s: 1}}
fleet:
  key: fleet-key-for-tests
  vllm_api_salt: {salt}
  listen_ports: [{port}]
  health_interval_s: 0.2
  health_timeout_s: 1
  skew_interval_s: 1
  litellm_health_interval_s: 0
  hosts:
{hosts}
store: "sqlite:///llmao.db"
"""
_MODELS = """
models:
  - model_name: tiny
    model_info: {vllm: {model: org/tiny}}
"""


@define
class World:
    """One proxy, one box at 127.0.0.2, and the folder with the two files."""

    litellm: FakeLiteLLM
    vllm: FakeVLLM
    url: str
    folder: Path

    @property
    def config(self) -> Path:
        return self.folder / "config.yaml"

    def write(self, *hosts: str) -> None:
        """Write the configuration with these hosts, each serving `tiny` at the box's port."""
        rows = "\n".join(f"    {host}: [[tiny, {self.vllm.port}]]" for host in hosts)
        text = _CONFIG.format(
            litellm=self.url,
            key=MASTER_KEY,
            salt=SALT.reveal(),
            port=self.vllm.port,
            hosts=rows or "    {}",
        )
        self.config.write_text(text)
        self.config.chmod(0o600)
        (self.folder / "models.yaml").write_text(_MODELS)

    def routed(self) -> list[str]:
        """Return the base of every row in the proxy."""
        return [str(row.params["api_base"]) for row in self.litellm.truth().values()]


@asynccontextmanager
async def world(folder: Path, speeds: Speeds | None = None) -> AsyncIterator[World]:
    """Run the world; its configuration names the one box."""
    clock = SystemClock()
    async with httpx.AsyncClient(trust_env=False) as http:
        litellm = FakeLiteLLM(now=clock.now, check=Dialler(http).check, speeds=speeds)
        vllm = FakeVLLM(clock.now, Secret(""), address=BOX, guarded=True)
        await vllm.start()
        vllm.bearer = derive(SALT, BOX, vllm.port)
        async with litellm.serve() as url:
            made = World(litellm, vllm, url, folder)
            made.write(BOX)
            yield made
        await vllm.stop()


async def until(condition: Callable[[], object], limit_s: float = 15.0) -> None:
    """Return when the condition holds; AssertionError when it does not in time."""
    try:
        async with asyncio.timeout(limit_s):
            while not condition():
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError("the condition does not hold in time") from None
