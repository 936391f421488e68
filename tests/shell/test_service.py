"""The whole shell on loopback: a proxy and a box that are simulated, and everything else real."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from llmao_core.actions import OutcomeKind
from llmao_core.config import Config
from llmao_core.protocol import Fetch
from llmao_core.records import ItemKind, Lifecycle
from llmao_core.testing.fake_vllm import Mode
from llmao_litellm.fake import Speeds
from llmao_web.shell.archive import digest_of
from llmao_web.shell.clock import SystemClock
from llmao_web.shell.host import PluginHost
from llmao_web.shell.service import Service, read_config
from llmao_web.shell.store import MemoryStore

from .world import BOX, World, until, world


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with capture_logs():
        yield


def made(where: World, store: MemoryStore | None = None) -> Service:
    clock = SystemClock()
    host = PluginHost.installed(clock)

    def read() -> Config:
        return read_config(where.config, host).config

    return Service(read(), host, clock, store or MemoryStore(), read=read)


@asynccontextmanager
async def running(service: Service) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(service.run())
    try:
        yield task
    finally:
        service.stop()
        service.stop()
        await task


def lifecycles(service: Service) -> list[Lifecycle]:
    view = service.board.view()
    return [record.lifecycle for record in view.records] if view else []


def items(service: Service) -> set[ItemKind]:
    view = service.board.view()
    return {item.kind for item in view.items} if view else set()


async def test_a_box_comes_and_goes(tmp_path: Path) -> None:
    """It fetches its configuration, serves, is routed; dies, is unrouted; and comes back."""
    async with world(tmp_path) as where:
        where.vllm.mode = Mode.LOADING
        store = MemoryStore()
        service = made(where, store)
        async with running(service):
            await until(lambda: lifecycles(service) == [Lifecycle.AWAITING])
            answer = service.board.answer(BOX)
            assert answer is not None
            service.board.note(Fetch(BOX, handed_out=answer.revision))
            await until(lambda: lifecycles(service) == [Lifecycle.LOADING])
            assert [] == where.routed()
            where.vllm.mode = Mode.SERVES
            await until(where.routed)
            assert [f"{where.vllm.base}/v1"] == where.routed()
            await until(lambda: (True, ()) == service.board.ready())
            where.vllm.mode = Mode.REFUSES
            await until(lambda: not where.routed())
            where.vllm.mode = Mode.SERVES
            await until(where.routed)
        kinds = [each.entry.detail["action"] for each in store.log]
        assert ["add_litellm", "delete_litellm", "add_litellm"] == kinds


async def test_a_changed_file_is_picked_up(tmp_path: Path) -> None:
    """SIGHUP: a new host is answered, and what was routed stays routed."""
    async with world(tmp_path) as where:
        service = made(where)
        service.on_signals()
        async with running(service):
            await until(where.routed)
            where.write(BOX, "127.0.0.3")
            os.kill(os.getpid(), signal.SIGHUP)
            await until(lambda: service.board.answer("127.0.0.3"))
            assert ItemKind.CONFIG_RELOAD not in items(service)
            assert 1 == len(where.routed())


async def test_an_invalid_file_changes_nothing_and_is_seen(tmp_path: Path) -> None:
    """The old configuration stays in force, an item says so, and ends with a good file."""
    async with world(tmp_path) as where:
        service = made(where)
        async with running(service):
            await until(where.routed)
            where.config.write_text("fleet: [nonsense")
            service.reload()
            await until(lambda: ItemKind.CONFIG_RELOAD in items(service))
            assert service.board.answer(BOX)
            assert 1 == len(where.routed())
            where.write(BOX)
            service.reload()
            await until(lambda: ItemKind.CONFIG_RELOAD not in items(service))


async def test_what_needs_a_restart_keeps_its_value(tmp_path: Path) -> None:
    """The rest of the file is taken, and the item names the section that was not."""
    async with world(tmp_path) as where:
        service = made(where)
        async with running(service):
            await until(service.board.view)
            where.write(BOX, "127.0.0.3")
            with where.config.open("a") as file:
                file.write("server: {port: 9999}\n")
            service.reload()
            await until(lambda: service.board.answer("127.0.0.3"))
            assert 8080 == service.config.server.port
            trouble = service.board.snapshots().troubles["config"]
            assert "`server`" in trouble.message


async def test_a_reload_that_drops_most_hosts_waits(tmp_path: Path) -> None:
    """Nothing is dropped until somebody confirms, and the question names the hosts."""
    async with world(tmp_path) as where:
        others = [f"127.0.0.{number}" for number in range(11, 15)]
        where.write(BOX, *others)
        service = made(where)
        async with running(service):
            await until(where.routed)
            where.write(BOX)
            service.reload()
            await until(service.office.dropped)
            assert set(others) == set(service.office.dropped())
            assert service.board.answer("127.0.0.11")
            assert "127.0.0.11" in service.board.snapshots().troubles["config"].message
            await service.office.confirm_reload(digest_of(service.office.dropped()), "alice")
            assert service.board.answer("127.0.0.11") is None
            assert {} == service.board.snapshots().troubles
            assert () == service.office.dropped()


async def test_stopping_is_clean(tmp_path: Path) -> None:
    """SIGTERM: run returns by itself, and nothing is left running."""
    async with world(tmp_path) as where:
        before = asyncio.all_tasks()
        service = made(where)
        service.on_signals()
        task = asyncio.create_task(service.run())
        await until(where.routed)
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(10):
            await task
        await asyncio.sleep(0)
        left = {each for each in asyncio.all_tasks() - before if "probe" in repr(each)}
        assert set() == left


async def test_the_write_under_way_is_finished(tmp_path: Path) -> None:
    """Stopped in the middle of a write: it gets its answer, which is in the action log."""
    async with world(tmp_path, Speeds(write_s=lambda _: 0.5)) as where:
        store = MemoryStore()
        service = made(where, store)
        task = asyncio.create_task(service.run())
        await until(lambda: service.board.snapshots().writes)
        service.stop()
        await task
        assert ["done"] == [each.entry.detail["outcome"] for each in store.log]
        assert 1 == len(where.routed())


async def test_a_second_signal_does_not_wait(tmp_path: Path) -> None:
    """Stopped twice in the middle of a long write: it ends at once, and the write is unknown."""
    async with world(tmp_path, Speeds(write_s=lambda _: 4.0)) as where:
        service = made(where)
        task = asyncio.create_task(service.run())
        await until(lambda: service.board.snapshots().writes)
        service.stop()
        service.stop()
        async with asyncio.timeout(3):
            await task
        (write,) = service.board.snapshots().writes.values()
        assert write.outcome is not None
        assert OutcomeKind.UNKNOWN is write.outcome.kind
