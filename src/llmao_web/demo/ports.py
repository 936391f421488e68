"""Ports on loopback that nobody has, so that the demo can run beside another one, or anything.

Rule of this file: it binds, looks and lets go. A port still held, or not yet forgotten by the
system, is not free.
"""

import secrets
import socket
from collections.abc import Iterable
from itertools import count

_LOWEST, _STEP, _STEPS = 21_000, 200, 50


def is_free(address: str, port: int) -> bool:
    """Tell whether a port of an address can be had now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tried:
        try:
            tried.bind((address, port))
        except OSError:
            return False
    return True


def free_above(address: str, least: int, listen: Iterable[int]) -> dict[int, int]:
    """Return a free public port for each listen port, none below `least`."""
    candidates = (port for port in count(least) if is_free(address, port))
    return {port: next(candidates) for port in listen}


def somewhere(addresses: Iterable[str]) -> int:
    """Return a port that is free at every address, far from those of most other demos."""
    wanted = tuple(addresses)
    begin = _LOWEST + _STEP * secrets.randbelow(_STEPS)
    return next(port for port in count(begin) if all(is_free(each, port) for each in wanted))
