"""A demo as its own process, and what a visitor's API client sees of it."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
from attrs import frozen

_ENDS_S = 30


@frozen
class Demo:
    """A running demo. url: of its pages. said: the file with what it printed."""

    url: str
    process: subprocess.Popen[bytes]
    said: Path

    def view(self, http: httpx.Client) -> Any:
        """Return the newest view, None while there is none."""
        try:
            answer = http.get(f"{self.url}/api/v1/view")
        except httpx.HTTPError:
            return None
        return answer.json() if answer.status_code == 200 else None

    def stop(self) -> str:
        """Press Ctrl-C, wait for the end, and return what was printed."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(_ENDS_S)
        return self.said.read_text()


@contextlib.contextmanager
def running(tmp_path: Path, *options: str, env: Mapping[str, str] | None = None) -> Iterator[Demo]:
    """Run a demo on a free port for as long as the block runs."""
    port = _free_port()
    said = tmp_path / "said"
    run = "from llmao_web.cli import main; main()"
    given = ["-c", run, "demo", "--port", str(port), "--minutes", "5", *options]
    with said.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, *given], stdout=out, stderr=out, env={**os.environ, **(env or {})}
        )
    try:
        yield Demo(f"http://127.0.0.1:{port}", process, said)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(_ENDS_S)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as held:
        return int(held.getsockname()[1])
