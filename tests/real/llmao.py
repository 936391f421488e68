"""The real `llmao serve`, a process of its own on a configuration of its own.

Rule of this file: nothing of llmao is imported but the bearer and the secret; what a test knows
of the running process is its log, its pages and its exit code.
"""

import json
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import httpx
from attrs import field, frozen
from tests.real.lab.process import Kept, environment

from llmao_core.bearer import derive
from llmao_core.secret import Secret

from .proxy import MODEL
from .timing import seconds_until

_PROGRAM = Path(sys.executable).with_name("llmao")
_LISTENS = "llmao listens on "
_START_S = 60
_GRACE_S = 30


class LiteLLMAt(Protocol):
    """A LiteLLM, real or not, as a configuration names it."""

    @property
    def url(self) -> str:
        """Return its address."""
        ...

    @property
    def master_key(self) -> str:
        """Return its key."""
        ...


class ServerAt(Protocol):
    """A server, real or not, as a configuration names it."""

    host: str
    port: int
    bearer: str


@frozen
class Secrets:
    """What must be seen nowhere."""

    fleet_key: str = field(factory=lambda: "fleet-" + secrets.token_urlsafe(24))
    salt: str = field(factory=lambda: "salt-" + secrets.token_urlsafe(24))

    def bearer(self, host: str, port: int) -> str:
        """Return what the server at that listen port requires."""
        return derive(Secret(self.salt), host, port).reveal()


class Llmao:
    """llmao in front of a LiteLLM, with a fleet of these servers and no GPU provider."""

    def __init__(
        self, folder: Path, litellm: LiteLLMAt, servers: Iterable[ServerAt], hidden: Secrets,
        poll_interval_s: float, more: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """Write the configuration, with more in its sections if told; nothing is started."""
        self.folder = folder
        self.log = folder / "llmao.log"
        self.url = ""
        self._servers = tuple(servers)
        bearers = {f"bearer of {each.host}": each.bearer for each in self._servers}
        self._hidden = bearers | {
            "fleet key": hidden.fleet_key,
            "salt": hidden.salt,
            "master key": litellm.master_key,
        }
        self._kept: Kept | None = None
        self._env = environment({"LITELLM_MASTER_KEY": litellm.master_key})
        folder.mkdir()
        config = _with_more(self._config(litellm, hidden, poll_interval_s), more or {})
        _write(folder / "salt", hidden.salt + "\n")
        _write(folder / "config.yaml", json.dumps(config, indent=1))  # every JSON is YAML
        self.write_model()

    def _config(self, litellm: LiteLLMAt, hidden: Secrets, poll_s: float) -> Mapping[str, Any]:
        return {
            "litellm": {
                "base_url": litellm.url,
                "master_key": {"env": "LITELLM_MASTER_KEY"},
                "poll_interval_s": poll_s,
            },
            "fleet": {
                "name": "real",
                "key": hidden.fleet_key,
                "vllm_api_salt": {"file": "salt"},
                "listen_ports": sorted({server.port for server in self._servers}),
                # Default 60: how soon an edit made by hand is seen.
                "skew_interval_s": 5,
                "litellm_health_interval_s": 0,
                "hosts": {each.host: [[MODEL, each.port]] for each in self._servers},
            },
            "store": f"sqlite:///{self.folder / 'llmao.db'}",
            "journal": {"path": str(self.folder / "journal")},
        }

    def write_model(self, recipe: Mapping[str, Any] | None = None, **params: Any) -> None:
        """Write `models.yaml` with more in the recipe and in the parameters of its one model."""
        vllm = {"model": "llmao/tiny", "max_model_len": 1024, **(recipe or {})}
        row = {"model_name": MODEL, "litellm_params": params, "model_info": {"vllm": vllm}}
        _write(self.folder / "models.yaml", json.dumps({"models": [row]}, indent=1))

    # ---- the process

    def start(self) -> None:
        """Start it and wait until it listens."""
        earlier = len(self._text())
        self._kept = kept = Kept(
            [_PROGRAM, "serve", "--config", self.folder / "config.yaml", "--port", "0"],
            log=self.log,
            env=self._env,
            cwd=self.folder,
            grace_s=_GRACE_S,
        )

        def listens() -> bool:
            assert kept.poll() is None, f"llmao ended: {self._text()[earlier:]}"
            return f"{_LISTENS}http" in self._text()[earlier:]

        seconds_until(listens, _START_S, "listening")
        self.url = self._text()[earlier:].split(_LISTENS)[1].split()[0]

    def reload(self) -> None:
        """Have it read its configuration again, and wait until it has."""
        assert self._kept is not None
        before = self._text().count("configuration in force")
        self._kept.signal(signal.SIGHUP)
        seconds_until(lambda: self._text().count("configuration in force") > before, 30, "reloaded")

    def freeze(self) -> None:
        """Stop it where it stands, until `thaw`; it can be killed meanwhile."""
        assert self._kept is not None
        self._kept.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        assert self._kept is not None
        self._kept.signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kill it at once."""
        if self._kept is not None:
            self._kept.kill()
            self._kept = None

    def stop(self) -> int | None:
        """End it in good order and return its exit code, None when it was not running."""
        if self._kept is None:
            return None
        kept, self._kept = self._kept, None
        kept.stop()
        return kept.poll()

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run another command on the same configuration."""
        command, *others = arguments
        return subprocess.run(
            [_PROGRAM, command, "--config", self.folder / "config.yaml", *others],
            env=self._env,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def page(self, path: str) -> httpx.Response:
        """Return one of its pages."""
        with httpx.Client(base_url=self.url, timeout=30, trust_env=False) as client:
            return client.get(path)

    def announce(self, host: str, *names: str) -> None:
        """Say as a box that servers of it are about to restart."""
        key, body = self._hidden["fleet key"], {"restarting": list(names)}
        headers = {"Authorization": f"Bearer {key}", "X-LLMAO-Host": host}
        with httpx.Client(base_url=self.url, timeout=30, trust_env=False) as client:
            answer = client.post("/vllm/notice", headers=headers, json=body)
        assert answer.is_success, answer.text

    def leaks(self, text: str) -> list[str]:
        """Return the names of the secrets that stand in a text."""
        return [name for name, value in self._hidden.items() if value in text]

    # ---- the log

    def _text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.is_file() else ""

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield what it logged; the line it is writing right now is left out."""
        for line in self._text().splitlines():
            if line.startswith("{") and line.endswith("}"):
                yield json.loads(line)

    def passes(self) -> list[dict[str, Any]]:
        """Return the lines about passes whose outcome was new."""
        return [event for event in self.events() if event["event"] == "pass"]

    def actions(self, kind: str = "") -> list[dict[str, Any]]:
        """Return the writes it logged, of one kind if told."""
        acted = [event for event in self.events() if event["event"] == "action"]
        return [event for event in acted if kind in ("", event["kind"])]

    def wait_for_action(self, number: int, within_s: float, kind: str = "") -> dict[str, Any]:
        """Return the action of that number, from 0, when it is logged."""
        found: Callable[[], bool] = lambda: len(self.actions(kind)) > number  # noqa: E731
        seconds_until(found, within_s, f"an action {kind} of number {number}: {self._tail()}")
        return self.actions(kind)[number]

    def _tail(self) -> str:
        return "\n".join(self._text().splitlines()[-5:])


def _with_more(config: Mapping[str, Any], more: Mapping[str, Any]) -> Mapping[str, Any]:
    def joined(name: str) -> Any:
        given = more[name]
        return {**config.get(name, {}), **given} if isinstance(given, Mapping) else given

    return {**config, **{name: joined(name) for name in more}}


def _write(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o600)
