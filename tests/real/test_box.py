"""A box from bare to serving: the installer, a real supervisord, two real vLLM and a real llmao.

Rule of this file: one box and one llmao for all its steps, since a start of vLLM takes a minute;
LiteLLM is the simulated one. What a step needs it waits for, within a bound.
"""

import contextlib
import json
import os
import re
import secrets
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from attrs import define, field, frozen
from tests.box.lab import BIN, INSTALLER, Machine
from tests.real.lab.install import install_model, install_vllm
from tests.real.lab.process import Kept, environment, free_port, run_folder

from llmao_core.bearer import derive
from llmao_core.secret import Secret
from llmao_core.verdicts import Badge
from llmao_litellm.fake import MASTER_KEY, FakeLiteLLM
from llmao_web.shell.clock import SystemClock

from .conftest import Figures
from .timing import seconds_until

pytestmark = pytest.mark.real

HOST = "127.0.0.6"
# two of them one after the other, on two cores that others use, too
SERVING_S = 500
SETTLED_S = 60
APPROVED_S = 120
_SETTINGS = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
}
_ARGS = ["--max-num-seqs", "8", "--enforce-eager", "--kv-cache-memory-bytes", "64M"]


@frozen
class Names:
    """What must be seen nowhere, and the ports of the two servers by name."""

    ports: Mapping[str, int]
    fleet_key: str = field(factory=lambda: "fleet-" + secrets.token_urlsafe(24))
    salt: str = field(factory=lambda: "salt-" + secrets.token_urlsafe(24))

    def bearer(self, name: str) -> str:
        return derive(Secret(self.salt), HOST, self.ports[name]).reveal()

    @property
    def hidden(self) -> list[str]:
        return [self.fleet_key, self.salt, *(self.bearer(name) for name in self.ports)]


@contextlib.contextmanager
def litellm() -> Iterator[tuple[FakeLiteLLM, str]]:
    """Serve a simulated LiteLLM from a thread."""
    fake = FakeLiteLLM(SystemClock().now)
    config = uvicorn.Config(fake, port=0, log_config=None, lifespan="off", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        seconds_until(lambda: server.started, 20, "a simulated LiteLLM")
        yield fake, f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)


@define
class Scene:
    """The box and llmao, in one folder."""

    folder: Path
    names: Names
    fake: FakeLiteLLM
    litellm_url: str
    url: str = ""
    recipes: dict[str, dict[str, Any]] = field(factory=dict)
    kept: list[Kept] = field(factory=list)

    # ---- llmao

    def configure(self, hosts: bool) -> None:
        """Write llmao's files."""
        fleet = {
            "name": "real",
            "key": self.names.fleet_key,
            "vllm_api_salt": self.names.salt,
            "listen_ports": sorted(self.names.ports.values()),
            "skew_interval_s": 5,
            "litellm_health_interval_s": 0,
            "hosts": {HOST: [[name, port] for name, port in self.names.ports.items()]}
            if hosts
            else {},
        }
        config = {
            "litellm": {"base_url": self.litellm_url, "master_key": MASTER_KEY,
                        "poll_interval_s": 5},
            "fleet": fleet,
            "store": f"sqlite:///{self.folder / 'llmao.db'}",
            "journal": {"path": str(self.folder / "journal")},
        }  # fmt: skip
        models = [
            {"model_name": name, "model_info": {"vllm": {
                "model": str(install_model()), "source": {"kind": "local"}, "args": _ARGS,
                "max_model_len": 1024, **self.recipes.get(name, {}),
            }}}
            for name in self.names.ports
        ]  # fmt: skip
        for name, what in (("config.yaml", config), ("models.yaml", {"models": models})):
            path = self.folder / name
            path.touch(mode=0o600)
            path.write_text(json.dumps(what))

    @property
    def log(self) -> str:
        path = self.folder / "llmao.log"
        return path.read_text(errors="replace") if path.is_file() else ""

    def serve(self) -> None:
        command: list[str | Path] = [BIN / "llmao", "serve", "--config"]
        command += [self.folder / "config.yaml", "--port", "0"]
        self._keep(command, "llmao.log", environment({}))
        seconds_until(lambda: "llmao listens on http" in self.log, 60, f"listening: {self.log}")
        self.url = self.log.split("llmao listens on ")[1].split()[0]

    def reload(self) -> None:
        before = self.log.count("configuration in force")
        self.kept[0].signal(signal.SIGHUP)
        seconds_until(lambda: self.log.count("configuration in force") > before, 30, "reloaded")

    def page(self) -> str:
        with httpx.Client(trust_env=False, timeout=30) as client:
            return client.get(f"{self.url}/models").text

    def healthy(self) -> int:
        return len(re.findall(r'class="pill [^"]*">Healthy<', self.page()))

    def behind(self) -> bool:
        return f"<summary>{Badge.REVISION_BEHIND.label}</summary>" in self.page()

    def routed(self) -> list[str]:
        return sorted(row.model_name for row in self.fake.db.values())

    # ---- the box

    @property
    def units(self) -> Path:
        return self.folder / "conf.d"

    def boxed(self) -> dict[str, str]:
        """Return the environment of everything on the box."""
        vllm = install_vllm() / "venv" / "bin"
        return environment({
            **_SETTINGS,
            "PATH": f"{self.folder / 'bin'}:{vllm}:/usr/bin:/bin",
            "FLEET_KEY": self.names.fleet_key,
            "LLMAO_HOST": HOST,
            "LLMAO_URL": self.url,
            "DATA_DIRECTORY": str(self.folder / "data"),
        })  # fmt: skip

    def supervisord(self) -> None:
        main = self.folder / "supervisord.conf"
        main.write_text(Machine.main_file(self.folder))
        shim = self.folder / "bin" / "supervisorctl"
        shim.parent.mkdir()
        shim.write_text(f'#!/bin/sh\nexec {BIN}/supervisorctl -c {main} "$@"\n')
        shim.chmod(0o755)
        self._keep([BIN / "supervisord", "-n", "-c", main], "supervisord.out", self.boxed())

    @contextlib.contextmanager
    def installing(self, *options: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run the installer beside the block; its output is `install.log`."""
        command: list[str | Path] = [sys.executable, INSTALLER, "--units", self.units, *options]
        with (
            (self.folder / "install.log").open("ab") as log,
            subprocess.Popen(command, env=self.boxed(), stdout=log, stderr=log) as running,
        ):
            try:
                yield running
            finally:
                running.kill()

    def install(self, *options: str) -> int:
        with self.installing(*options) as running:
            return running.wait(200)

    @property
    def install_log(self) -> str:
        return (self.folder / "install.log").read_text()

    def pids(self) -> dict[str, int]:
        return {name.removeprefix("vllm-"): pid
                for name, (_, pid) in Machine.status_in(self.folder).items()}  # fmt: skip

    def _keep(self, command: list[str | Path], log: str, env: Mapping[str, str]) -> None:
        path = self.folder / log
        self.kept.append(Kept(command, log=path, env=env, cwd=self.folder, grace_s=60))


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    """A llmao that does not know the box, a box without programs, and a supervisord on it."""
    install_vllm()
    ports = dict(zip(("alpha", "beta"), (free_port("0.0.0.0"), free_port("0.0.0.0")), strict=True))
    with litellm() as (fake, url):
        scene = Scene(run_folder("box"), Names(ports), fake, url)
        try:
            scene.configure(hosts=False)
            scene.serve()
            scene.supervisord()
            yield scene
        finally:
            for each in reversed(scene.kept):
                each.stop()


def ask(scene: Scene, name: str, method: str, path: str, bearer: str = "") -> int:
    """Return the status of a request to a server."""
    headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
    body: dict[str, Any] = {"json": {}} if method == "POST" else {}
    with httpx.Client(trust_env=False, timeout=30) as client:
        url = f"http://{HOST}:{scene.names.ports[name]}{path}"
        return client.request(method, url, headers=headers, **body).status_code


def test_an_approved_box_goes_from_bare_to_serving(scene: Scene, figures: Figures) -> None:
    """It waits on 404 and the page shows it; approval lets it through without touching it; both
    servers come up, llmao sees them Healthy and LiteLLM has their rows."""
    with scene.installing() as installer:
        seconds_until(lambda: "404: No host named" in scene.install_log, 30, "waiting")
        seconds_until(lambda: HOST in scene.page(), 30, "on the page")
        assert [] == scene.routed()

        scene.configure(hosts=True)
        scene.reload()
        took = seconds_until(lambda: installer.poll() is not None, APPROVED_S, "approved")
        figures("approved → installed", took)
        assert 0 == installer.returncode, scene.install_log
    took = seconds_until(lambda: scene.healthy() == 2, SERVING_S, f"serving: {scene.page()}")
    figures("installed → both Healthy", took)
    seconds_until(lambda: scene.routed() == ["alpha", "beta"], SETTLED_S, "both routed")


def test_the_bearer_is_required_on_every_path(scene: Scene) -> None:
    """Also on those that vLLM leaves open; only `/health` is for everybody."""
    for name in scene.names.ports:
        assert 200 == ask(scene, name, "GET", "/health")
        for method, path in (
            ("GET", "/v1/models"),
            ("GET", "/metrics"),
            ("GET", "/openapi.json"),
            ("POST", "/invocations"),
            ("POST", "/tokenize"),
            ("POST", "/v1/chat/completions"),
        ):
            assert 401 == ask(scene, name, method, path), path
            assert 401 == ask(scene, name, method, path, "wrong"), path
            assert 401 != ask(scene, name, method, path, scene.names.bearer(name)), path
    alpha, beta = scene.names.ports
    assert 401 == ask(scene, alpha, "GET", "/v1/models", scene.names.bearer(beta))
    assert f"<summary>{Badge.OPEN_PATHS.label}</summary>" not in scene.page()


def test_no_secret_is_in_arguments_logs_or_readable_files(scene: Scene) -> None:
    """Of any process of this machine; files that hold one are their owner's alone."""
    seen = b"".join(_read(path) for path in Path("/proc").glob("[0-9]*/cmdline"))
    assert [] == [secret for secret in scene.names.hidden if secret.encode() in seen]

    for path in filter(Path.is_file, scene.folder.rglob("*")):
        text = _read(path)
        if any(secret.encode() in text for secret in scene.names.hidden):
            assert path.suffix in (".conf", ".yaml"), path
            assert 0o600 == stat.S_IMODE(path.stat().st_mode), path
    assert 0o700 == stat.S_IMODE(scene.units.stat().st_mode)
    environ = [_read(Path(f"/proc/{pid}/environ")) for pid in scene.pids().values()]
    assert all(b"VLLM_API_KEY=sk-vllm-" in each for each in environ)
    assert not any(b"FLEET_KEY" in each for each in environ)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_a_changed_recipe_restarts_its_server_alone(scene: Scene, figures: Figures) -> None:
    """The badge appears, the installer is run again, only that server restarts, its route goes
    first, the badge is gone, and it serves and is routed again."""
    before = scene.pids()
    assert not scene.behind()
    assert 0 == scene.install("--check")
    scene.recipes["beta"] = {"max_model_len": 512}
    scene.configure(hosts=True)
    scene.reload()
    seconds_until(scene.behind, SETTLED_S, "behind")
    assert 3 == scene.install("--check")
    assert before == scene.pids()

    with scene.installing() as installer:
        took = seconds_until(lambda: scene.routed() == ["alpha"], SETTLED_S, "unrouted")
        figures("announced → unrouted, with the fetch", took)
        assert before["beta"] == scene.pids()["beta"], "its route goes before it does"
        assert 0 == installer.wait(200), scene.install_log
    seconds_until(lambda: not scene.behind(), SETTLED_S, "no longer behind")
    seconds_until(lambda: scene.routed() == ["alpha", "beta"], SERVING_S, "routed again")
    after = scene.pids()
    assert before["alpha"] == after["alpha"]
    assert before["beta"] != after["beta"]
    assert 2 == scene.healthy()


def test_an_engine_that_dies_comes_back(scene: Scene, figures: Figures) -> None:
    """A killed parent leaves its engine; it is ended before the next one starts."""
    parent = scene.pids()["alpha"]
    group = _group(parent)
    assert len(group) > 1, "there is an engine beside the server"
    os.kill(parent, signal.SIGKILL)
    seconds_until(lambda: scene.pids()["alpha"] not in (0, parent), 60, "started again")
    seconds_until(lambda: not _group(parent), 60, "without leftovers")
    took = seconds_until(lambda: _serves(scene, "alpha"), SERVING_S, "serving again")
    figures("killed → serving again", took)
    assert 401 == ask(scene, "alpha", "POST", "/invocations")
    seconds_until(lambda: scene.healthy() == 2, SETTLED_S, "Healthy again")
    seconds_until(lambda: scene.routed() == ["alpha", "beta"], SETTLED_S, "both routed")


def _serves(scene: Scene, name: str) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return ask(scene, name, "GET", "/health") == 200
    return False


def _group(leader: int) -> list[int]:
    """Return what lives of a process group."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        fields = _read(path).rpartition(b")")[2].split()
        if len(fields) > 2 and int(fields[2]) == leader and fields[0] != b"Z":
            found.append(int(path.parent.name))
    return found
