"""Keeps one program, and ends it and all its descendants when the starter lets go.

Run as `python keeper.py LOG SIGNAL GRACE_S PROGRAM ARGUMENT...` with pipes as standard input and
output. It answers with the program's pid, later with its exit code, one line each. Letting go is
the end of standard input, which the kernel brings about however the starter ends, SIGKILL
included; so a stop in good order and an interrupted test run take the same path.

Rule of this file: it is a script of its own and imports nothing of the project.
"""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_ROUND_S = 0.1
_KILL_ROUNDS = 200

_libc = ctypes.CDLL(None)


def _start(program: list[str], log: str) -> int:
    """Start the program at the head of a process group of its own and return its pid."""
    with Path(log).open("ab") as out:
        child = subprocess.Popen(
            program,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            # Safe here: one thread, and nothing but a system call. It is the second net, for
            # the case that somebody ends the keeper itself.
            preexec_fn=lambda: _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL),  # noqa: PLW1509
        )
    child.returncode = 0  # reaped below with all the others, not by subprocess
    return child.pid


def _reap() -> dict[int, int]:
    """Collect every child that has ended: pid to exit code, a signal as a negative number."""
    ended: dict[int, int] = {}
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            ended[pid] = os.waitstatus_to_exitcode(status)
    return ended


def _children() -> list[int]:
    """List this process's children, orphans it has inherited included."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name in brackets may itself hold brackets and blanks.
            _state, parent, *_ = stat.read_text().rpartition(")")[2].split()
            if int(parent) == os.getpid():
                found.append(int(stat.parent.name))
    return found


def _tell(text: object) -> None:
    with contextlib.suppress(OSError):  # nobody listens any more
        os.write(1, f"{text}\n".encode())


def _watch(pid: int) -> bool:
    """Wait until the starter lets go; tell whether the program was still running then."""
    running = True
    while True:
        code = _reap().get(pid)
        if code is not None:
            running = False
            _tell(code)
        heard, _, _ = select.select([0], [], [], _ROUND_S)
        if heard and not os.read(0, 64):
            return running


def _ask_to_end(pid: int, sig: int, grace_s: float) -> None:
    """Signal the program and give it time to end by itself."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, sig)
        os.killpg(pid, signal.SIGCONT)  # a frozen group would never see the signal
    for _ in range(int(grace_s / _ROUND_S)):
        code = _reap().get(pid)
        if code is not None:
            _tell(code)
            return
        time.sleep(_ROUND_S)


def _end_all() -> None:
    """Kill children until there are none; those of the killed become ours in the next round."""
    for _ in range(_KILL_ROUNDS):
        left = _children()
        if not left:
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
        _reap()


def main() -> None:
    """Start the program, watch it, end it."""
    log, sig, grace_s, *program = sys.argv[1:]
    # Orphans of the program become children of this process instead of the machine's init.
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    try:
        pid = _start(program, log)
    except OSError as error:
        sys.exit(str(error))
    _tell(pid)
    if _watch(pid):
        _ask_to_end(pid, int(sig), float(grace_s))
    _end_all()


if __name__ == "__main__":
    main()
