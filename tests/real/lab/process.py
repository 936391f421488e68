"""What every real part needs: a kept process, a folder, a free port, an answer awaited.

Rule of this file: it knows nothing of LiteLLM, vLLM or PostgreSQL.
"""

import contextlib
import fcntl
import http.client
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

_KEEPER = Path(__file__).with_name("keeper.py")
_KEEP_RUN_S = 3600
# A person's settings (proxies, DATABASE_URL, API keys, PYTHON...) must not reach a real part.
_INHERITED = ("PATH", "LANG", "LC_ALL", "TZ", "SSL_CERT_FILE")
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class LabError(Exception):
    """A real part could not be installed or run; the message says what to do."""


def cache() -> Path:
    """Return the folder that holds installations and runs: `$LLMAO_LAB` or below the home."""
    chosen = os.environ.get("LLMAO_LAB")
    folder = Path(chosen) if chosen else Path.home() / ".cache" / "llmao-real"
    folder.mkdir(parents=True, exist_ok=True)
    return folder.resolve()


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold the lock of that name; whoever comes second waits."""
    with (cache() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run_folder(name: str) -> Path:
    """Make a new folder for one run; those of interrupted runs are cleared away an hour later."""
    runs = cache() / "runs"
    runs.mkdir(exist_ok=True)
    now = time.time()  # noqa: TID251 - compared with times of files, which are the system's
    for old in runs.iterdir():
        owner = old.name.split("-")[0]
        with contextlib.suppress(FileNotFoundError):
            if not Path("/proc", owner).exists() and now - old.stat().st_mtime > _KEEP_RUN_S:
                shutil.rmtree(old, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-{name}-", dir=runs))


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a real part: little of ours, a home in the cache, and `extra`."""
    home = cache() / "home"
    home.mkdir(exist_ok=True)
    kept = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    # A user without a name, as containers have, must not fail where torch asks for it.
    ours = {"HOME": str(home), "USER": "llmao", "PYTHONUNBUFFERED": "1"}
    return kept | ours | dict(extra)


def free_port(host: str = "127.0.0.1") -> int:
    """Return a TCP port nobody uses at this moment."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
    return port


def require_free(host: str, port: int) -> None:
    """Raise LabError if somebody holds the port."""
    with socket.socket() as probe:
        # As servers do, so that connections of an earlier run in TIME_WAIT are no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            msg = f"{host}:{port} cannot be used ({error.strerror}): choose another port or host"
            raise LabError(msg) from error


def status(
    host: str, port: int, path: str, headers: Mapping[str, str] = _NO_HEADERS, timeout_s: float = 5
) -> int | None:
    """Return the HTTP status of a GET, None if there is no answer.

    `http.client` rather than `urllib`: it never asks a proxy of the environment.
    """
    connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
    try:
        connection.request("GET", path, headers=dict(headers))
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def until(met: Callable[[], bool], timeout_s: float, pause_s: float = 0.2) -> bool:
    """Ask again and again until the condition is met; False if time runs out first."""
    clock = time.monotonic  # noqa: TID251 - real processes live in real time
    end = clock() + timeout_s
    while not met():
        if clock() >= end:
            return False
        time.sleep(pause_s)
    return True


def tail(log: Path, lines: int = 25) -> str:
    """Return the last lines of a log, empty if there is none."""
    if not log.is_file():
        return ""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


class Kept:
    """A running program that cannot outlive us, and its process group.

    `pid` is the program's own; it leads a process group that its descendants share.
    """

    def __init__(
        self,
        program: Sequence[str | Path],
        *,
        log: Path,
        env: Mapping[str, str],
        cwd: Path,
        end: signal.Signals = signal.SIGTERM,
        grace_s: float = 10,
    ) -> None:
        """Start it; `end` and `grace_s` say how it is asked to end and how long it may take."""
        self._log = log
        self._name = Path(program[0]).name
        self._patience_s = grace_s + 20
        self._code: int | None = None
        self._keeper = subprocess.Popen(
            # -I and -S: the keeper reads neither the environment's PYTHON... nor site-packages.
            [sys.executable, "-I", "-S", _KEEPER, log, str(int(end)), str(grace_s), *program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,  # a line held back in a buffer would hide from select() in poll()
            start_new_session=True,  # a Ctrl-C in the terminal is for us, not for the keeper
            env=dict(env),
            cwd=cwd,
        )
        pid = self._hear()
        if pid is None:
            trouble = self._keeper.communicate()[1].decode(errors="replace").strip()
            msg = f"{program[0]} cannot be started: {trouble}"
            raise LabError(msg)
        self.pid = pid

    def _hear(self) -> int | None:
        assert self._keeper.stdout is not None
        line = self._keeper.stdout.readline().strip()
        return int(line) if line else None

    def poll(self) -> int | None:
        """Return the exit code (a signal as a negative number), None while it runs."""
        out = self._keeper.stdout
        if self._code is None and out is not None:
            if out.closed:
                self._code = -signal.SIGKILL
            elif select.select([out], [], [], 0)[0]:
                code = self._hear()
                self._code = -signal.SIGKILL if code is None else code
        return self._code

    def signal(self, sig: signal.Signals) -> None:
        """Send a signal to the program's whole process group."""
        try:
            os.killpg(self.pid, sig)
        except ProcessLookupError as error:
            msg = f"{self._name} is no longer running; the end of its log:\n{tail(self._log)}"
            raise LabError(msg) from error

    def kill(self) -> None:
        """Kill the program's whole process group at once; harmless when it has ended."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.stop()

    def stop(self) -> None:
        """End the program and every descendant; harmless when it has ended."""
        keeper = self._keeper
        if keeper.stdin is None or keeper.stdin.closed:
            return
        keeper.stdin.close()
        try:
            keeper.wait(self._patience_s)
        except subprocess.TimeoutExpired as error:
            msg = f"{self._name} (pid {self.pid}) cannot be ended: look at it with ps, kill it"
            raise LabError(msg) from error
        self.poll()
        for pipe in (keeper.stdout, keeper.stderr):
            if pipe is not None:
                pipe.close()


def run(
    program: Sequence[str | Path],
    *,
    log: Path,
    env: Mapping[str, str],
    cwd: Path,
    hint: str,
    timeout_s: float = 3600,
) -> None:
    """Run a program to its end; a failure is a LabError with the end of its log and the hint."""
    kept = Kept(program, log=log, env=env, cwd=cwd)
    try:
        in_time = until(lambda: kept.poll() is not None, timeout_s)
    finally:
        kept.stop()
    if not in_time or kept.poll() != 0:
        how = f"exit code {kept.poll()}" if in_time else f"no end after {timeout_s:.0f} s"
        command = " ".join(str(word) for word in program[:5])
        msg = f"`{command} ...` failed ({how}). {hint}\nThe end of {log}:\n{tail(log)}"
        raise LabError(msg)
