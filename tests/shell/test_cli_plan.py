"""`llmao plan`, `explain`, `providers` and `serve` against a proxy and a box on loopback."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
from structlog.testing import capture_logs

from llmao_core.errors import LlmaoError
from llmao_core.history import History
from llmao_core.plan import Plan
from llmao_core.records import View
from llmao_core.testing.fake_vllm import Mode
from llmao_web.cli import main
from llmao_web.commands import explain, plan, serve
from llmao_web.shell.clock import SystemClock
from llmao_web.shell.host import PluginHost
from llmao_web.shell.once import Looked, look_once
from llmao_web.shell.service import Service, read_config
from llmao_web.shell.store import MemoryStore

from .world import BOX, World, until, world


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with capture_logs():
        yield


@pytest.fixture
async def where(tmp_path: Path) -> AsyncIterator[World]:
    async with world(tmp_path) as made:
        yield made


async def look(where: World) -> Looked:
    clock = SystemClock()
    host = PluginHost.installed(clock)
    config = read_config(where.config, host).config
    return await look_once(config, host, clock, MemoryStore())


async def routed(where: World) -> None:
    """Have the box routed by llmao itself."""
    clock = SystemClock()
    host = PluginHost.installed(clock)
    config = read_config(where.config, host).config
    service = Service(config, host, clock, MemoryStore(), read=lambda: config)
    task = asyncio.create_task(service.run())
    await until(where.routed)
    service.stop()
    await task


def written(where: World) -> list[str]:
    """Return every request that could have changed the proxy."""
    reads = ("/health/test_connection",)
    return [
        call.path for call in where.litellm.log if call.method != "GET" and call.path not in reads
    ]


# ---- plan


async def test_an_add_is_planned_and_not_made(where: World) -> None:
    """A serving box that LiteLLM lacks: exit 2, a line with +, its rule, and nothing written."""
    looked = await look(where)
    assert 2 == plan.code(plan.as_value(looked))
    first, second, *_ = plan.as_text(plan.as_value(looked)).splitlines()
    assert f"+ add to LiteLLM: {BOX}:{where.vllm.port} tiny" in first
    assert looked.plan.actions[0].rule in second
    assert [] == written(where)
    assert {} == where.litellm.truth()


async def test_a_dead_box_is_probed_until_it_counts(where: World) -> None:
    """Its row would go, on LiteLLM's own word too, and not after one failed probe."""
    await routed(where)
    where.vllm.mode = Mode.REFUSES
    before = len(written(where))
    looked = await look(where)
    assert 2 == plan.code(plan.as_value(looked))
    (action,) = json.loads(json.dumps(plan.as_value(looked)))["actions"]
    assert ("delete_litellm", True, "") == (action["kind"], action["runs"], action["held"])
    assert before == len(written(where))
    assert 1 == len(where.routed())


async def test_what_is_held_says_why(where: World) -> None:
    """An action that waits stands there with the reason, and still makes the exit code 2."""
    with where.config.open("a") as file:
        file.write("policy: {add_litellm: observe}\n")
    looked = await look(where)
    assert 2 == plan.code(plan.as_value(looked))
    assert "not now: observed only" in plan.as_text(plan.as_value(looked))


async def test_nothing_to_do(where: World) -> None:
    """In step: exit 0 and a sentence."""
    await routed(where)
    looked = await look(where)
    assert 0 == plan.code(plan.as_value(looked)), looked.plan
    assert "Nothing to do" in plan.as_text(plan.as_value(looked))


async def test_an_unread_source_is_an_error(where: World) -> None:
    """LiteLLM refuses our key: exit 1 and a warning, whatever else is seen; no key in it."""
    text = where.config.read_text()
    where.config.write_text(text.replace("sk-fake-master", "sk-wrong-key-of-ours"))
    looked = await look(where)
    value = plan.as_value(looked)
    assert 1 == plan.code(value)
    assert any("litellm is unread" in warning for warning in plan.warnings(value))
    assert "sk-wrong-key-of-ours" not in f"{value}{list(plan.warnings(value))}"


async def test_a_failing_pass_is_no_empty_plan(where: World) -> None:
    """When reconcile itself fails there is an error, not "nothing to do"."""

    def explode(*_: object) -> tuple[View, Plan, History]:
        raise AssertionError

    clock = SystemClock()
    host = PluginHost.installed(clock)
    config = read_config(where.config, host).config
    with pytest.raises(LlmaoError, match="cannot work out"):
        await look_once(config, host, clock, MemoryStore(), reconcile=explode)


# ---- explain


async def test_explain_says_why(where: World) -> None:
    """Lifecycle, its rule and sentence, signal and action of one server, as text and as JSON."""
    looked = await look(where)
    name = f"{BOX}:{where.vllm.port}"
    (value,) = explain.values_of(looked, name)
    box, of_box = explain.values_of(looked, BOX)
    assert (BOX, value) == (box["box"]["name"], of_box)
    text = "\n".join(explain.lines(value))
    assert "Healthy" in text
    assert "add to LiteLLM, " in text
    assert (name, "Healthy") == (value["key"]["shown"], value["lifecycle"])
    assert "sk-vllm-" not in f"{text}{json.dumps(value)}"
    with pytest.raises(LlmaoError, match=BOX):
        explain.values_of(looked, "127.0.0.77")
    with pytest.raises(LlmaoError, match=BOX):
        explain.values_of(looked, f"{BOX}:1")


# ---- the commands themselves


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main.main(list(arguments), "llmao")
    out, err = capsys.readouterr()
    assert isinstance(ended.value.code, int)
    assert "Traceback" not in err
    return ended.value.code, out, err


async def test_without_a_running_llmao_it_is_a_fresh_look_and_says_so(
    where: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """It knows no history and could contradict one; where that is written is said."""
    (where.folder / "journal").mkdir()
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        with where.config.open("a") as file:
            file.write(f"server: {{port: {held.getsockname()[1]}}}\n")
        given = ("explain", BOX, "-c", str(where.config))
        code, out, err = await asyncio.to_thread(ran, capsys, *given)
        assert 0 == code
        assert "Healthy" in out
        assert err.startswith(f"No llmao answers at http://127.0.0.1:{held.getsockname()[1]}: ")
        assert "this is a fresh look, which knows no history. " in err
        assert f"--journal {where.folder / 'journal'}" in err
        _, again, quiet = await asyncio.to_thread(ran, capsys, *given, "--fresh")
        assert ("Healthy" in again, "No llmao answers" in quiet) == (True, False)


def test_a_bad_configuration_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 1 and the place of the mistake, no traceback, for each command that needs it."""
    config = tmp_path / "config.yaml"
    config.write_text("fleet: {hosts: [")
    for command in (["plan"], ["explain", BOX], ["serve"]):
        code, _, err = ran(capsys, *command, "-c", str(config))
        assert 1 == code
        assert "config.yaml" in err


async def test_providers_are_listed(where: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Each source of each plugin, and whether the configuration has it, or that none tells."""
    code, out, _ = ran(capsys, "providers", "-c", str(where.config), "--json")
    assert 0 == code
    assert {"litellm": True, "litellm_health": True}.items() <= {
        row["source"]: row["configured"] for row in json.loads(out)
    }.items()
    where.config.unlink()
    code, out, err = ran(capsys, "providers", "-c", str(where.config))
    assert 0 == code
    assert "unknown" in out
    assert "config.yaml" in err


async def test_open_to_everybody_is_refused(
    where: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without sign-in it does not listen beyond loopback, whatever --host says."""
    code, _, err = ran(capsys, "serve", "-c", str(where.config), "--host", "0.0.0.0")
    assert 1 == code
    assert "loopback" in err


def test_a_taken_port_is_a_sentence() -> None:
    """The port is in use: what to do about it, in a sentence."""
    taken = serve.listen("127.0.0.1", 0)
    with contextlib.closing(taken), pytest.raises(LlmaoError, match="cannot listen"):
        serve.listen("127.0.0.1", taken.getsockname()[1])


async def test_served_in_a_process_of_its_own(where: World) -> None:
    """It says where it listens, answers a box with its bearer, routes it, and ends on SIGTERM."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "from llmao_web.cli import main; main()",
        *("serve", "-c", str(where.config), "--port", "0"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={name: value for name, value in os.environ.items() if name != "LLMAO_CONFIG"},
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(30):
            line = (await process.stdout.readline()).decode()
        assert "http://" in line, (await process.communicate())[1].decode()
        url = line.split()[-1]
        async with httpx.AsyncClient(base_url=url, trust_env=False) as http:
            headers = {"Authorization": "Bearer fleet-key-for-tests", "X-LLMAO-Host": BOX}
            answer = await http.get("/vllm/config", headers=headers)
            assert 200 == answer.status_code
            (server,) = answer.json()["servers"]
            assert where.vllm.bearer.reveal() == server["api_key"]
            await until(where.routed)
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(30):
            _, err = await process.communicate()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    assert 0 == process.returncode, err.decode()
    said = err.decode()
    assert "Traceback" not in said
    assert "sk-" not in said
    assert "fleet-key-for-tests" not in said
