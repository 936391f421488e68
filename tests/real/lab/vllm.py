"""A real vLLM on this machine's CPU, serving a tiny random model."""

import shutil
import signal
from collections.abc import Sequence
from typing import Self

from .install import install_model, install_vllm
from .process import Kept, LabError, environment, require_free, run_folder, status, tail, until

_SETTINGS = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    # No worker process beside the engine: the tree of a vLLM with one GPU, and a lighter one.
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    # Two of them must not be pinned to the same core.
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
}
_ARGUMENTS = (
    *("--max-model-len", "1024", "--max-num-seqs", "8", "--enforce-eager"),
    *("--kv-cache-memory-bytes", "64M"),
)
_GRACE_S = 6


class VLLM:
    """A vLLM process with its engine; start, kill and freeze it as often as a test likes.

    `extra` holds further arguments for `vllm serve` and wins over the ones chosen here:
    `("--kv-cache-memory-bytes", "640K", "--block-size", "32")` gives real queues.
    """

    def __init__(
        self,
        port: int,
        bearer: str,
        host: str = "127.0.0.1",
        served: str = "tiny",
        extra: Sequence[str] = (),
    ) -> None:
        """Say where it shall listen, what bearer it asks for and what model name it serves."""
        self.port = port
        self.bearer = bearer
        self.host = host
        self.served = served
        self.extra = tuple(extra)
        self.folder = run_folder(f"vllm-{port}")
        self.log = self.folder / "vllm.log"
        self._kept: Kept | None = None

    @property
    def url(self) -> str:
        """Return its address, without `/v1`."""
        return f"http://{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        """Return the process id of the API server, the head of the process group."""
        return self._running().pid

    def _running(self) -> Kept:
        if self._kept is None:
            msg = f"vLLM on {self.url} is not running: start it first"
            raise LabError(msg)
        return self._kept

    def exit_code(self) -> int | None:
        """Return how the process ended, None while it runs or when it was never started."""
        return None if self._kept is None else self._kept.poll()

    def start(self) -> None:
        """Start it and return at once; what an earlier run left is ended first."""
        if self._kept is not None and self._kept.poll() is None:
            msg = f"vLLM on {self.url} is running already: stop or kill it first"
            raise LabError(msg)
        self.stop()
        # Two vLLM on one port both start without a word, and the second is deaf for ever.
        require_free(self.host, self.port)
        home = install_vllm()
        self._kept = Kept(
            [
                *(home / "venv" / "bin" / "vllm", "serve", install_model(), *_ARGUMENTS),
                *("--host", self.host, "--port", str(self.port)),
                *("--served-model-name", self.served, *self.extra),
            ],
            log=self.log,
            # The bearer by environment: arguments are for every user of the machine to see.
            env=environment({**_SETTINGS, "VLLM_API_KEY": self.bearer, "TMPDIR": str(self.folder)}),
            cwd=self.folder,
            grace_s=_GRACE_S,
        )

    def ready(self) -> bool:
        """Tell whether it serves at this moment."""
        return status(self.host, self.port, "/health") == 200

    def wait_ready(self, timeout_s: float = 300) -> None:
        """Wait until it serves."""
        kept = self._running()
        until(lambda: kept.poll() is not None or self.ready(), timeout_s, 0.3)
        if kept.poll() is not None or not self.ready():
            how = "did not start in time" if kept.poll() is None else "ended"
            msg = f"vLLM on {self.url} {how}; the end of {self.log}:\n{tail(self.log)}"
            raise LabError(msg)

    def kill(self) -> None:
        """Kill the whole group at once, as a box that loses its power."""
        if self._kept is not None:
            self._kept.kill()
            self._kept = None

    def freeze(self) -> None:
        """Halt the whole group: connections are still accepted, nothing is answered."""
        self._running().signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen group go on."""
        self._running().signal(signal.SIGCONT)

    def stop(self) -> None:
        """End it, politely for some seconds; harmless when it has ended."""
        if self._kept is not None:
            self._kept.stop()
            self._kept = None

    def close(self) -> None:
        """End it and forget its log."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        """Start it and wait until it serves."""
        try:
            self.start()
            self.wait_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End it; the log stays where a test failed."""
        if kind is None:
            self.close()
        else:
            self.stop()
