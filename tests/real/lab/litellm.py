"""A real LiteLLM proxy on a real PostgreSQL, both on loopback."""

import json
import secrets
import shutil
from collections.abc import Mapping
from typing import Self

from .install import LITELLM, install_litellm, write_programs
from .postgres import Postgres
from .process import (
    Kept,
    LabError,
    environment,
    free_port,
    require_free,
    run_folder,
    status,
    tail,
    until,
)

_SETTINGS = {
    "STORE_MODEL_IN_DB": "True",
    # The seed has the tables of this very version.
    "DISABLE_SCHEMA_UPDATE": "true",
    # With several workers uvicorn kills one that is silent for 5 s; importing takes longer.
    "TIMEOUT_WORKER_HEALTHCHECK": "120",
    # LiteLLM would ask the internet for newer copies of what it has on disk.
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_LOCAL_AUTOROUTER_PRESETS": "True",
    "LITELLM_LOCAL_BLOG_POSTS": "True",
    "LITELLM_LOCAL_POLICY_TEMPLATES": "True",
}
_CONFIG: Mapping[str, object] = {
    "general_settings": {"master_key": "os.environ/LITELLM_MASTER_KEY"}
}
_START_S = 300


class LiteLLM:
    """A LiteLLM proxy with an empty database of its own, running inside the `with` block.

    `config` is what would stand in LiteLLM's YAML file, `env` more environment for it.
    """

    def __init__(
        self,
        port: int = 0,
        workers: int = 1,
        config: Mapping[str, object] | None = None,
        env: Mapping[str, str] | None = None,
        version: str = LITELLM,
    ) -> None:
        """Say how it shall run; port 0 stands for a free one."""
        self.port = port or free_port()
        self.workers = workers
        self.home = install_litellm(version)
        self.folder = run_folder("litellm")
        self.log = self.folder / "litellm.log"
        self.postgres = Postgres(self.home, seed=self.home / "seed", database="litellm")
        extra = dict(env or {})
        self.master_key = extra.get("LITELLM_MASTER_KEY") or "sk-" + secrets.token_hex(16)
        self._config = _CONFIG if config is None else config
        self._environment = self._make_environment(extra)
        self._kept: Kept | None = None

    def _make_environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        ours = environment({})
        programs = self.folder / "bin"
        return {
            **ours,
            **_SETTINGS,
            "PATH": f"{programs}:{self.home / 'venv' / 'bin'}:{ours['PATH']}",
            "NODE_PATH": str(self.home / "node_modules"),
            "PRISMA_QUERY_ENGINE_BINARY": str(programs / "query-engine"),
            "DATABASE_URL": self.postgres.url,
            "LITELLM_SALT_KEY": "sk-" + secrets.token_hex(16),
            **extra,
            "LITELLM_MASTER_KEY": self.master_key,
        }

    @property
    def url(self) -> str:
        """Return the proxy's address."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the database and the proxy and wait until both answer."""
        self.postgres.start()
        self.start_proxy()

    def start_proxy(self, timeout_s: float = _START_S) -> None:
        """Start the proxy alone and wait until it is ready."""
        if self._kept is not None:
            msg = f"LiteLLM on {self.url} is running already: stop it first"
            raise LabError(msg)
        require_free("127.0.0.1", self.port)
        self.log.touch()
        earlier = self.log.stat().st_size
        write_programs(self.folder / "bin")
        config = self.folder / "config.yaml"
        config.write_text(json.dumps(self._config))  # every JSON document is YAML
        kept = self._kept = Kept(
            [
                *(self.home / "venv" / "bin" / "litellm", "--config", config),
                *("--host", "127.0.0.1", "--port", str(self.port)),
                *("--num_workers", str(self.workers), "--telemetry", "False"),
            ],
            log=self.log,
            env=self._environment,
            cwd=self.folder,
        )
        until(lambda: kept.poll() is not None or self._all_ready(earlier), timeout_s)
        if kept.poll() is not None or not self._all_ready(earlier):
            how = "was not ready in time" if kept.poll() is None else "ended"
            self.stop_proxy()
            msg = f"LiteLLM on {self.url} {how}; the end of {self.log}:\n{tail(self.log)}"
            raise LabError(msg)

    def ready(self) -> bool:
        """Tell whether the proxy and its database answer at this moment."""
        return status("127.0.0.1", self.port, "/health/readiness") == 200

    def _all_ready(self, earlier: int) -> bool:
        """Tell whether every worker is there; the first one alone would answer for all."""
        log = self.log.read_bytes()[earlier:]
        return log.count(b"Application startup complete") >= self.workers and self.ready()

    def restart(self) -> None:
        """Restart the proxy: same address, key, settings and database."""
        self.stop_proxy()
        self.start_proxy()

    def stop_proxy(self) -> None:
        """Stop the proxy alone; the database keeps running."""
        if self._kept is not None:
            self._kept.stop()
            self._kept = None

    def stop(self) -> None:
        """Stop the proxy and the database and forget the data; the log stays."""
        try:
            self.stop_proxy()
        finally:
            self.postgres.close()

    def __enter__(self) -> Self:
        """Start."""
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Stop; the log stays where a test failed."""
        self.stop()
        if kind is None:
            shutil.rmtree(self.folder, ignore_errors=True)
