"""In a running llmao the sampler, the notifier, the counters and the slow source are at work."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from structlog.testing import capture_logs
from tests.ops.test_notify import PATH, Receiver
from tests.shell.test_service import made, running
from tests.shell.world import until, world

from llmao_core.keys import box_key
from llmao_core.snapshots import Access
from llmao_core.testing.fake_vllm import Mode
from llmao_web.shell import capacity, notices, notify
from llmao_web.shell.service import Service
from llmao_web.shell.store import MemoryStore


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Do in a second what otherwise takes minutes."""
    monkeypatch.setattr(notify, "LOOK_S", 0.1)
    monkeypatch.setattr(notices, "SETTLE_S", 0.0)
    monkeypatch.setattr(capacity, "INTERVAL_S", 1.0)
    with capture_logs():
        yield


async def test_a_running_llmao_tells_counts_and_samples(tmp_path: Path) -> None:
    """A server dies: somebody is told, the removal is counted, its load before is kept."""
    receiver, store = Receiver(), MemoryStore()
    async with world(tmp_path) as where, receiver.serve() as url:
        where.litellm.access.add_team("research")
        where.config.write_text(f'{where.config.read_text()}notify: [{{url: "{url}{PATH}"}}]\n')
        service = made(where, store)
        key = box_key("127.0.0.2", where.vllm.port, "tiny")
        async with running(service):
            await until(where.routed)
            await until(lambda: store._samples.get(key))
            read = service.board.reading("litellm_access").snapshot
            assert read is not None
            assert isinstance(read.body, Access)
            view = service.board.view()
            assert view is not None
            assert "litellm_access" == view.sources[-1].name
            where.vllm.mode = Mode.REFUSES
            await until(lambda: not where.routed())
            await until(lambda: "model_unavailable" in told(receiver))
            removed = 'llmao_actions_total{kind="delete_litellm",outcome="done"}'
            await until(lambda: removed in exposed(service))
            text = exposed(service)
    assert 'llmao_actions_total{kind="add_litellm",outcome="done"}' in text
    assert "llmao_leader 1.0" in text
    assert "llmao_pass_seconds_count 0.0" not in text
    assert PATH not in text


def exposed(service: Service) -> str:
    """Return what the service has counted so far."""
    return generate_latest(service.board.counts.registry).decode()


def told(receiver: Receiver) -> set[str]:
    """Return the kinds of items that the receiver was told of."""
    posted = (json.loads(call.body) for call in receiver.got)
    return {notice["kind"] for message in posted for notice in message["notices"]}
