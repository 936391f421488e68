"""A box in a temporary folder, and a llmao on loopback for it to ask.

Rule of this file: the installer, supervisord and llmao are the real ones; what a box has beside
them (nvidia-smi, vLLM, curl) are small scripts on a PATH of its own.
"""

import contextlib
import http.server
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import warnings
import xmlrpc.client
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from attrs import define, evolve, field
from tests.web.worlds import FLEET_KEY, FakeDesk, fleet

from box import install_set
from llmao_core.config import Config, Host, HostRow, Model, Recipe
from llmao_web.app import create_app

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from supervisor.xmlrpc import SupervisorTransport  # type: ignore[import-untyped]

ROOT = Path(__file__).parents[2]
INSTALLER = ROOT / "box" / "install_set.py"
BIN = Path(sys.executable).parent
HOST = "c.4711"
PATIENCE = 40
# serves its health like vLLM would, so that whoever waits for it goes on
STUB_VLLM = """#!{python}
import http.server, os, sys
port = int(sys.argv[sys.argv.index("--port") + 1])
class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header("content-length", "0"); self.end_headers()
    def log_message(self, *_): pass
print("stub", os.environ.get("CUDA_VISIBLE_DEVICES"), sys.argv[1:], flush=True)
http.server.HTTPServer(("127.0.0.1", port), Health).serve_forever()
"""


class TooLongError(Exception):
    """The installer waits for longer than a test lets it."""


@define
class Sleeps:
    """Time that passes at once; `then` is called before each wait with its number."""

    waits: list[float] = field(factory=list)
    then: Callable[[int], None] | None = None
    most: int = PATIENCE

    def __call__(self, seconds: float) -> None:
        self.waits.append(seconds)
        if len(self.waits) > self.most:
            raise TooLongError
        if self.then:
            self.then(len(self.waits))


@define
class Machine:
    """One box: folders, programs on its PATH, and the installer."""

    folder: Path
    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]
    sleeps: Sleeps = field(factory=Sleeps)

    def __attrs_post_init__(self) -> None:
        self.bin.mkdir(parents=True)
        self.program("vllm", STUB_VLLM.format(python=sys.executable))
        self.cards(24564)
        self.program("supervisorctl", f'#!/bin/sh\nexec {BIN}/supervisorctl -c {self.main} "$@"\n')
        (self.folder / "supervisord.conf").write_text(self.main_file(self.folder))
        given = {
            "PATH": f"{self.bin}:/usr/bin:/bin",
            "FLEET_KEY": FLEET_KEY,
            "LLMAO_HOST": HOST,
            "DATA_DIRECTORY": str(self.data),
        }
        for name in ("HF_HOME", "HF_HUB_CACHE", "HF_TOKEN", "LLMAO_URL", "ASFQUART_URL"):
            self.monkeypatch.delenv(name, raising=False)
        for name, value in given.items():
            self.set(name, value)

    @property
    def bin(self) -> Path:
        return self.folder / "bin"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def units(self) -> Path:
        return self.folder / "conf.d"

    @property
    def main(self) -> Path:
        return self.folder / "supervisord.conf"

    @staticmethod
    def main_file(folder: Path) -> str:
        """Return a supervisord.conf that keeps to a folder."""
        return f"""[supervisord]
logfile={folder}/supervisord.log
pidfile={folder}/supervisord.pid
[unix_http_server]
file={folder}/s.sock
[supervisorctl]
serverurl=unix://{folder}/s.sock
[rpcinterface:supervisor]
supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface
[include]
files={folder}/conf.d/*.conf
"""

    def set(self, name: str, value: str) -> None:
        self.monkeypatch.setenv(name, value)

    def program(self, name: str, text: str) -> None:
        """Put a program on the box's PATH."""
        path = self.bin / name
        path.write_text(text)
        path.chmod(0o755)

    def cards(self, *mib: int) -> None:
        """Have an nvidia-smi that tells of these cards."""
        rows = "".join(f"{index}, {each}\\n" for index, each in enumerate(mib))
        self.program("nvidia-smi", f"#!/bin/sh\nprintf '{rows}'\n")

    def install(self, *options: str) -> tuple[int, str]:
        """Run the installer; returns exit code and output."""
        code = install_set.main(
            [*options, "--units", str(self.units)], os.environ, self.sleeps
        )  # fmt: skip
        said = self.capsys.readouterr().out
        print(said)
        return code, said

    def programs(self) -> dict[str, str]:
        """Return the text of every program of ours, by server."""
        found = sorted(self.units.glob("vllm-*.conf"))
        return {path.stem.removeprefix("vllm-"): path.read_text() for path in found}

    def status(self) -> dict[str, tuple[str, int]]:
        """Return state and process id of every program; raises OSError without supervisord."""
        return self.status_in(self.folder)

    @staticmethod
    def status_in(folder: Path) -> dict[str, tuple[str, int]]:
        """Return the same of the supervisord that keeps to a folder."""
        # not supervisorctl, which takes a second to start on a busy machine
        transport = SupervisorTransport(None, None, f"unix://{folder}/s.sock")
        with contextlib.closing(transport):
            server = xmlrpc.client.ServerProxy("http://127.0.0.1", transport=transport)
            told: Any = server.supervisor.getAllProcessInfo()
        return {each["name"]: (each["statename"], each["pid"]) for each in told}

    def pid(self, program: str) -> int:
        """Return the process id of a program that runs, 0 else."""
        return self.status().get(program, ("", 0))[1]

    def _answers(self) -> bool:
        with contextlib.suppress(OSError):
            self.status()
            return True
        return False

    @contextlib.contextmanager
    def supervisord(self) -> Iterator[None]:
        """Run a real supervisord until the block ends."""
        command: list[Path | str] = [BIN / "supervisord", "-n", "-c", self.main]
        with subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as running:
            try:
                until(self._answers)
                yield
            finally:
                running.terminate()
                running.wait(30)


def free_ports(count: int) -> list[int]:
    """Return ports that nobody has."""
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(socket.create_server(("0.0.0.0", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in held]


def until(met: Callable[[], bool], tries: int = 100) -> None:
    """Wait until something is so; fails after 10 s and the time that looking takes."""
    pause = threading.Event()
    for _ in range(tries):
        if met():
            return
        pause.wait(0.1)
    raise AssertionError("it did not come about")


@define
class Served:
    """A llmao on loopback. desk: may be changed while it runs."""

    url: str
    desk: FakeDesk


@contextlib.contextmanager
def llmao(desk: FakeDesk, config: Any) -> Iterator[Served]:
    """Serve the real application from a thread."""
    app: Any = create_app(desk, config, desk.clock)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, lifespan="off", ws="none"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until(lambda: server.started)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield Served(f"http://127.0.0.1:{port}", desk)
    finally:
        server.should_exit = True
        thread.join(10)


@define
class Script:
    """What a scripted llmao answers, in order; the last for ever. seen: what it was asked."""

    answers: Sequence[tuple[int, Mapping[str, str], bytes]]
    seen: list[tuple[str, str, dict[str, str], bytes]] = field(factory=list)


@contextlib.contextmanager
def scripted(
    *answers: tuple[int, Mapping[str, str], bytes], tls: ssl.SSLContext | None = None
) -> Iterator[tuple[str, Script]]:
    """Serve what no llmao would say."""
    script = Script(answers)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            asked = (self.command, self.path, dict(self.headers.items()), self.rfile.read(length))
            script.seen.append(asked)
            at = min(len(script.seen), len(script.answers)) - 1
            status, headers, body = script.answers[at]
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(b"" if self.command == "HEAD" else body)

        do_GET = do_HEAD = do_POST = do  # noqa: N815 - names of the library

        def log_message(self, *_: object) -> None:
            pass

    class Server(http.server.ThreadingHTTPServer):
        def get_request(self) -> Any:
            line, peer = super().get_request()
            return (tls.wrap_socket(line, server_side=True) if tls else line), peer

        def handle_error(self, *_: object) -> None:
            pass

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}", script
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def box_fleet(**recipe: Any) -> Config:
    """Return a configuration in which the box serves one model, on a port that nobody has."""
    [port] = free_ports(1)
    rows = (HostRow("qwen3-8b", port, "qwen3-8b"),)
    model = Model("qwen3-8b", recipe=Recipe("Qwen/Qwen3-8B", **recipe))
    config = fleet(hosts=(Host(HOST, rows),), listen_ports=(port,))
    return evolve(config, models=(model,))


def answer(*servers: Mapping[str, Any], revision: str = "r1-abc") -> bytes:
    """Return an answer of llmao with these servers, each completed."""
    full = [
        {
            "name": f"s{index}",
            "model": "some/model",
            "served_model_name": "m",
            "host": HOST,
            "port": port,
            "api_key": f"sk-vllm-secret{index}",
            "args": [],
            **given,
        }
        for index, (given, port) in enumerate(zip(servers, free_ports(len(servers)), strict=True))
    ]
    return json.dumps({"host": HOST, "revision": revision, "servers": full}).encode()
