"""What the prober reports of a vLLM comes out of reconcile as the verdict it should be."""

from collections.abc import AsyncIterator

import pytest
from tests.shell.probing import BEARER, CLOCK, Bench

from llmao_core.config import Config, FleetConfig, Host, HostRow, Model, Recipe
from llmao_core.history import History
from llmao_core.intended import build
from llmao_core.plan import Policy
from llmao_core.probes import Probes
from llmao_core.reconcile import reconcile
from llmao_core.records import Badge, Lifecycle, Record
from llmao_core.secret import Secret
from llmao_core.snapshots import Deployments, Reading, Snapshot, Snapshots
from llmao_core.testing.fake_vllm import FakeVLLM
from llmao_core.testing.fake_vllm_metrics import Load

HOST = "127.0.0.2"
NOTICED = (Badge.MAX_LEN_DIFFERS, Badge.OVERSIZED, Badge.WRONG_MODEL, Badge.SATURATED)


@pytest.fixture
async def fake() -> AsyncIterator[FakeVLLM]:
    server = FakeVLLM(CLOCK.now, BEARER, address=HOST, max_model_len=256, kv_tokens=1280)
    await server.start()
    yield server
    await server.stop()


async def looked(fake: FakeVLLM, *, length: int = 256) -> Record:
    """Return the record of the fake's key after two probes; length: its recipe's."""
    port = int(fake.base.rpartition(":")[2])
    host = Host(HOST, (HostRow("tiny", port, "tiny"),), own=True)
    salt = Secret("salt-of-the-day-4711")
    model = Model("tiny", recipe=Recipe("org/tiny", max_model_len=length))
    config = Config(fleet=FleetConfig(vllm_api_salt=(salt,), hosts=(host,)), models=(model,))
    intended = build(config)
    bearer = intended.deployments[0].bearer
    assert bearer is not None
    fake.bearer = bearer
    probes, history, prober = Probes(), History(), Bench().prober
    for _ in range(3):
        now = CLOCK.now()
        read = Reading[Deployments](None, Snapshot(now, Deployments()))
        snapshots = Snapshots(intended, probes=probes, deployments=read)
        view, _, history = reconcile(snapshots, history, Policy(), now)
        probes = await prober.probe_once(view.targets)
    return view.records[0]


def noticed(record: Record) -> tuple[Badge, ...]:
    return tuple(badge for badge in record.badges if badge in NOTICED)


async def test_a_server_as_intended_has_none_of_the_badges(fake: FakeVLLM) -> None:
    """Its length is the recipe's, it fits its cache, and it serves its name."""
    record = await looked(fake)

    assert Lifecycle.HEALTHY is record.lifecycle
    assert () == noticed(record)


async def test_another_length_is_seen(fake: FakeVLLM) -> None:
    """The length in `/v1/models` is compared with the recipe's."""
    assert (Badge.MAX_LEN_DIFFERS,) == noticed(await looked(fake, length=512))


async def test_a_length_beyond_the_cache_is_seen(fake: FakeVLLM) -> None:
    """The length in `/v1/models` is compared with the cache in `/metrics`."""
    fake.kv_tokens = 128

    assert (Badge.OVERSIZED,) == noticed(await looked(fake))


async def test_another_model_is_seen(fake: FakeVLLM) -> None:
    """A server that lists another name, twice, is no server of this model."""
    fake.served = ("other",)
    record = await looked(fake)

    assert Lifecycle.WRONG_MODEL is record.lifecycle
    assert (Badge.WRONG_MODEL,) == noticed(record)


async def test_a_queue_is_read(fake: FakeVLLM) -> None:
    """How many requests wait comes out of `/metrics` as it is."""
    fake.load = Load(running=2, waiting=7)
    record = await looked(fake)

    assert record.counters is not None
    assert 7 == record.counters.waiting
