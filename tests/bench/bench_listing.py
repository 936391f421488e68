"""What reading and translating 1 000 Vast instances costs, over HTTP in the process.

Rule of this file: pauses between pages are left out, because they are Vast's; the CPU time of the
fake's own answers is measured apart and taken off.

    python tests/bench/bench_listing.py [--quick]
"""

import argparse
import asyncio
import gc
import json
import statistics
import sys
import time
from unittest import mock

import httpx

from llmao_core.hooks import FetchRequest
from llmao_core.secret import Secret
from llmao_core.snapshots import Listing
from llmao_core.testing.served import Call, Reply
from llmao_vast import plugin, translate
from llmao_vast.fake import KEY, FakeVast

INSTANCES = 1_000
MOST_S = 1.0
NOW = 1_800_000_000.0


class Canned(FakeVast):
    """A fake that answers from memory what it has answered once: its work is not measured."""

    def __init__(self) -> None:
        super().__init__(lambda: NOW, interval_s=0)
        self.memory: dict[str, Reply] = {}

    async def handle(self, call: Call) -> Reply:
        """Answer one request, from memory if it came before."""
        key = call.query.get("after_token", "")
        if key not in self.memory:
            self.memory[key] = await super().handle(call)
        return self.memory[key]


def account(instances: int = INSTANCES) -> Canned:
    """Return an account with so many boxes, four to an address, three ports each."""
    fake = Canned()
    for number in range(instances):
        at = f"203.0.{113 + number // 1000}.{number // 4 % 250 + 1}"
        fake.plant(f"box-{number}", address=at, ports=[8001, 8002, 8003], machine=number // 4)
    return fake


async def read(fake: FakeVast) -> Listing:
    """Read the whole account once."""
    async with httpx.AsyncClient(transport=fake.transport()) as http:
        return await plugin.llmao_fetch(FetchRequest("vast", "", Secret(KEY)), http, NOW)


async def no_pause(_: float) -> None:
    """Wait for nothing."""


def cpu_of_a_read(fake: FakeVast) -> float:
    """Return the CPU seconds of one read."""
    gc.collect()
    began = time.process_time()
    listing = asyncio.run(read(fake))
    taken = time.process_time() - began
    assert INSTANCES == len(listing.instances)
    return taken


def cpu_of_translation(fake: Canned) -> float:
    """Return the CPU seconds of translating the same answers, without HTTP."""
    bodies = [reply.body for reply in fake.memory.values()]
    gc.collect()
    began = time.process_time()
    listing = translate.listing([translate.page(body) for body in bodies])
    taken = time.process_time() - began
    assert INSTANCES == len(listing.instances)
    return taken


def main() -> int:
    """Measure, print, and fail when a read takes more than a second of CPU."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="three reads instead of ten")
    times = 3 if parser.parse_args().quick else 10
    fake = account()
    with mock.patch.object(plugin, "sleep", no_pause):
        cpu_of_a_read(fake)
        reads = [cpu_of_a_read(fake) for _ in range(times)]
    translations = [cpu_of_translation(fake) for _ in range(times)]
    size = sum(len(reply.body) for reply in fake.memory.values())
    print(f"{INSTANCES} instances on {len(fake.memory)} pages, {size / 1e6:.1f} MB")
    print(f"read       {min(reads):.3f} s best, {statistics.median(reads):.3f} s median ({MOST_S})")
    print(
        f"translate  {min(translations):.3f} s best, {statistics.median(translations):.3f} s median"
    )
    figures = {
        "bench": "listing",
        "instances": INSTANCES,
        "read_s": reads,
        "translate_s": translations,
    }
    print(json.dumps(figures))
    return 0 if min(reads) < MOST_S else 1


if __name__ == "__main__":
    sys.exit(main())
