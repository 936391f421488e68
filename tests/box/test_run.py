"""What starts a server: leftovers of a killed parent, turns on a card, and what vLLM may know."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from box.install_set import leftovers

from .lab import INSTALLER, STUB_VLLM, until

# a parent with an engine that outlives it, as vLLM's does
PARENT = """
import os, sys, time
if os.fork() == 0:
    open(sys.argv[1], "w").write(str(os.getpid()))
    time.sleep(60)
time.sleep(60)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the copy that starts servers."""
    shutil.copy(INSTALLER, tmp_path / "llmao_box.py")
    return tmp_path


@contextlib.contextmanager
def started(
    folder: Path,
    *words: str,
    port: int = 0,
    name: str = "a",
    env: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[str]]:
    """Start a server through the wrapper, at the head of a process group as supervisord does."""
    before, command = list(words[: words.index("--")]), words[words.index("--") + 1 :]
    running = subprocess.Popen(
        [sys.executable, "-I", folder / "llmao_box.py", "run", name, str(port), *before, "--",
         *command],
        env={"PATH": "/usr/bin:/bin", "VLLM_API_KEY": "k", **(env or {})},
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
    )  # fmt: skip
    try:
        yield running
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        running.communicate()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def engine(file: Path) -> int:
    until(lambda: file.is_file() and file.read_text().isdecimal())
    return int(file.read_text())


def test_leftovers_of_a_killed_parent_are_ended(folder: Path) -> None:
    """An engine whose parent was killed would hold the card beside the new one."""
    parent = ("--", sys.executable, "-c", PARENT)
    with started(folder, *parent, str(folder / "one")) as first:
        left = engine(folder / "one")
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        assert alive(left)
        with started(folder, *parent, str(folder / "two")):
            assert alive(engine(folder / "two"))
            assert not alive(left)


def test_a_server_that_outlived_its_supervisord_is_ended(folder: Path) -> None:
    """A supervisord that was killed leaves its programs; the next one starts them once more."""
    with started(folder, "--", sys.executable, "-c", PARENT, str(folder / "one")) as first:
        left = engine(folder / "one")
        with started(folder, "--", "/bin/true") as second:
            second.wait()
        first.wait()
        assert not alive(left)


def test_a_number_that_was_given_out_again_is_nobody_of_ours(folder: Path) -> None:
    """After a reboot the same number is another process, which must live."""
    with started(folder, "--", "/bin/sleep", "60") as stranger:
        until((folder / "a.run").is_file)
        pid, start, boot = (folder / "a.run").read_text().split()
        assert [stranger.pid] == leftovers(folder / "a.run")
        for line in (f"{pid} {int(start) - 1} {boot}", f"{pid} {start} other", "", "x y z", "1 2"):
            (folder / "a.run").write_text(line)
            assert [] == leftovers(folder / "a.run")
    assert [] == leftovers(folder / "none.run")


def test_an_empty_key_starts_nothing(folder: Path) -> None:
    """vLLM would start, open to everybody."""
    with started(folder, "--", "/bin/echo", "served", env={"VLLM_API_KEY": ""}) as run:
        said, _ = run.communicate(timeout=20)
    assert (1, "") == (run.returncode, said)


def test_vllm_does_not_know_the_fleet_key(folder: Path) -> None:
    """Model code runs in it; its own key and the guard it must have."""
    keys = {"FLEET_KEY": "fleet", "CONTAINER_API_KEY": "c", "RUNPOD_API_KEY": "r"}
    with started(folder, "--", "/usr/bin/env", env={"PYTHONPATH": "/x", **keys}) as run:
        said, _ = run.communicate(timeout=20)
    got = dict(line.split("=", 1) for line in said.splitlines())
    assert not keys.keys() & got.keys()
    assert ("k", f"{folder}:/x") == (got["VLLM_API_KEY"], got["PYTHONPATH"])
    assert got["PATH"].startswith("/usr/bin:")


def test_the_second_of_a_card_waits_for_the_first(folder: Path) -> None:
    """Two that load at once count each other's memory as their own."""
    vllm = folder / "vllm"
    vllm.write_text(STUB_VLLM.format(python=sys.executable))
    vllm.chmod(0o755)
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    # the record of a first one that runs, and does not serve yet
    with started(folder, "--", "/bin/sleep", "60"):
        until((folder / "a.run").is_file)
        with started(folder, f"a:{port}", "--", "/bin/echo", "served", name="b") as second:
            with pytest.raises(subprocess.TimeoutExpired):
                second.wait(1)
            with subprocess.Popen([vllm, "--port", str(port)], stdout=subprocess.DEVNULL) as first:
                said, _ = second.communicate(timeout=20)
                first.kill()
    assert "served\n" == said


def test_a_taken_port_is_waited_for(folder: Path) -> None:
    """When two servers swap their ports the old one drains first."""
    with socket.create_server(("0.0.0.0", 0)) as taken:
        port = taken.getsockname()[1]
        with started(folder, "--", "/bin/echo", "served", port=port) as run:
            assert run.stdout is not None
            assert f"llmao-run: port {port} is taken; waiting\n" == run.stdout.readline()
            taken.close()
            said, _ = run.communicate(timeout=20)
    assert said.endswith("served\n")
