"""What every test stands on: nothing is dialled but loopback, and how many examples are tried.

Rule of this file: it guards and counts; no test's own material lives here.
"""

import ipaddress
import os
import socket
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings

_SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)

settings.register_profile(
    "fast",
    max_examples=50,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=_SLOW,
)
settings.register_profile(
    "thorough",
    max_examples=10_000,
    stateful_step_count=50,
    deadline=None,
    print_blob=True,
    suppress_health_check=_SLOW,
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))

_dialled: list[str] = []


def _is_local(host: Any) -> bool:
    if host in (None, "", "localhost", b"localhost"):
        return True
    text = host.decode() if isinstance(host, bytes) else str(host)
    try:
        return ipaddress.ip_address(text.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _is_address(host: Any) -> bool:
    try:
        ipaddress.ip_address(host.decode() if isinstance(host, bytes) else str(host))
    except ValueError:
        return False
    return True


def _guard(event: str, args: tuple[Any, ...]) -> None:
    """Stop what would leave this machine; asyncio's sockets pass here, uvloop's own do not."""
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        _check_address(event, args[0], args[1])
    elif event == "socket.getaddrinfo" and not (_is_local(args[0]) or _is_address(args[0])):
        # A name would be asked of a server elsewhere; without a network it is not found.
        raise socket.gaierror(socket.EAI_NONAME, "a test looks up no names")


def _check_address(event: str, sock: Any, address: Any) -> None:
    if not isinstance(address, tuple) or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    # 0.0.0.0 as a destination is this machine, too.
    if not _is_local(address[0]) and address[0] not in ("0.0.0.0", "::"):
        _dialled.append(f"{event} {address[0]}")
        raise ConnectionRefusedError(f"a test dials only loopback, not {address[0]}")


sys.addaudithook(_guard)


@pytest.fixture(autouse=True)
def _dials_only_loopback() -> Iterator[None]:
    """Fail the test during which a socket was connected to anything else."""
    before = len(_dialled)
    yield
    assert _dialled[before:] == [], "a test dials only loopback (127.0.0.0/8, ::1)"


@pytest.fixture(autouse=True)
def logs_as_they_were() -> Iterator[None]:
    """A command that sets up the logs of its process does so for one test."""
    yield
    structlog.reset_defaults()
