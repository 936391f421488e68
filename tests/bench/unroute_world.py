"""A fleet of fake boxes, a fake LiteLLM and llmao itself, each in a process of its own.

Rule of this file: all three agree on one configuration, and every port is on loopback. What is
broken, and when, is decided in bench_unroute.py.
"""

import asyncio
import resource
import sys
from collections.abc import Iterable
from typing import Any

import uvloop
from attrs import frozen

from llmao_core.config import (
    CanaryConfig,
    Config,
    FleetConfig,
    Host,
    HostRow,
    LitellmConfig,
    Model,
    Recipe,
)
from llmao_core.draft import row_body
from llmao_core.intended import Deployment, build
from llmao_core.secret import Secret
from llmao_core.testing.fake_vllm import FakeVLLM, Mode
from llmao_core.testing.fake_vllm_metrics import Load
from llmao_litellm import translate
from llmao_litellm.fake import MASTER_KEY, FakeLiteLLM, Speeds
from llmao_litellm.fake_state import Stored, Worker
from llmao_litellm.fake_traffic import Dialler
from llmao_web import logs
from llmao_web.commands.common import plugins
from llmao_web.commands.serve import listen, run_service
from llmao_web.shell.clock import SystemClock
from llmao_web.shell.store import MemoryStore

CLOCK = SystemClock()
PORT = 8001
MODELS = 20
LOAD = Load(running=4, kv_usage=0.3, generated_per_s=200.0, prompt_per_s=80.0, finished_per_s=1.0)
SLOW_S = 40.0


@frozen
class Scale:
    """How much is done. trials: of each kind. gap_s: between one fault and the next.

    settle_s: until open paths, looked at once after a start, have been seen.
    """

    boxes: int
    trials: int
    busy: int
    gap_s: float
    settle_s: float
    rest_s: float
    busy_s: float
    canary: CanaryConfig


WHOLE = Scale(500, 40, 10, 1.13, 30.0, 60.0, 130.0, CanaryConfig())
QUICK = Scale(50, 5, 2, 0.83, 4.0, 8.0, 40.0, CanaryConfig(silent_s=15, timeout_s=8))


# ---- the fleet all three processes agree on


def configuration(scale: Scale, litellm_url: str) -> Config:
    """Return a fleet with the default settings, one server to a box."""
    hosts = tuple(
        Host(f"127.2.{box // 250}.{box % 250 + 1}", (HostRow(f"model-{box % MODELS}", PORT, "a"),))
        for box in range(scale.boxes)
    )
    return Config(
        litellm=LitellmConfig(litellm_url, Secret(MASTER_KEY)),
        fleet=FleetConfig(
            key=(Secret("bench-fleet-key"),),
            vllm_api_salt=(Secret("bench-salt"),),
            canary=scale.canary,
            hosts=hosts,
        ),
        models=tuple(
            Model(f"model-{each}", recipe=Recipe("org/model", max_model_len=32_768))
            for each in range(MODELS)
        ),
    )


def deployments(scale: Scale, litellm_url: str = "") -> list[Deployment]:
    """Return what is intended, by the number of the box."""
    found = {each.host: each for each in build(configuration(scale, litellm_url)).deployments}
    return [found[host.name] for host in configuration(scale, litellm_url).fleet.hosts]


# ---- the process of the boxes


async def run_boxes(scale: Scale) -> None:
    """Serve, and do to each box what standard input says: its number and a mode."""
    raise_descriptor_limit()
    boxes = [_box(number, each) for number, each in enumerate(deployments(scale))]
    for box in boxes:
        await box.start()
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        number, mode = line.split()
        boxes[int(number)].mode = Mode[mode]


def _box(number: int, told: Deployment) -> FakeVLLM:
    assert told.bearer is not None
    box = FakeVLLM(
        CLOCK.now,
        told.bearer,
        address=told.host,
        port=PORT,
        served=(told.served,),
        max_model_len=32_768,
        kv_tokens=200_000,
        guarded=True,
        slow_s=SLOW_S,
    )
    # Every third box idles: its counters are read less often.
    box.load = LOAD if number % 3 else Load()
    return box


# ---- the process of llmao


def run_llmao(scale: Scale, litellm_url: str) -> None:
    """Serve as `llmao serve` does; the log goes to standard output."""
    raise_descriptor_limit()
    config = configuration(scale, litellm_url)
    mask = logs.Mask()
    mask.learn(config)
    logs.configure(mask, sys.stdout, level=10)
    uvloop.run(
        run_service(config, plugins(), lambda: config, listen("127.0.0.1", 0), MemoryStore())
    )


def raise_descriptor_limit() -> None:
    """Raise the soft limit to the hard one."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


# ---- the proxy, which tells when rows come and go


class Proxy(FakeLiteLLM):
    """The fake, with a clock on every row. moved: when each row last came or went."""

    def __init__(self, check: Dialler) -> None:
        speeds = Speeds(write_s=lambda rows: 0.18 + 0.0007 * rows, delete_s=0.04)
        super().__init__(CLOCK.now, check=check.check, speeds=speeds)
        self.gone: set[str] = set()
        self._moved = asyncio.Condition()

    def create(self, worker: Worker, *body: Any) -> Stored | None:
        row = super().create(worker, *body)
        self._tell()
        return row

    def delete(self, worker: Worker, row_id: str) -> bool:
        self.gone.add(row_id)
        found = super().delete(worker, row_id)
        self._tell()
        return found

    async def until(self, row_id: str, *, there: bool) -> None:
        """Wait until a row is there, or is not."""
        async with self._moved:
            await self._moved.wait_for(lambda: (row_id in self.db) is there)

    def _tell(self) -> None:
        async def tell() -> None:
            async with self._moved:
                self._moved.notify_all()

        self._told = asyncio.ensure_future(tell())


def plant(proxy: Proxy, told: Iterable[Deployment]) -> None:
    """Put rows in as llmao writes them, so that its first pass has nothing to do."""
    for each in told:
        body = row_body(each, each.body, f"http://{each.host}:{each.listen_port}", each.litellm_id)
        row = translate.create_body(body)
        proxy.plant(row["model_name"], row["litellm_params"], row["model_info"])
