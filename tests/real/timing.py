"""Waiting for what must happen, and how long it took.

Rule of this file: a bound is what must hold on a busy machine; what was measured is a figure.
"""

import threading
from collections.abc import Callable

from llmao_web.shell.clock import SystemClock

_PAUSE_S = 0.05
_clock = SystemClock()


def seconds_until(met: Callable[[], object], within_s: float, what: str) -> float:
    """Return how long it took until the condition was met; AssertionError says what was not."""
    began = _clock.monotonic()
    while not met():
        waited = _clock.monotonic() - began
        assert waited < within_s, f"after {waited:.0f} s: not {what}"
        pause(_PAUSE_S)
    return _clock.monotonic() - began


def holds_for(seconds: float, met: Callable[[], bool], what: str) -> None:
    """Look again and again for so long; AssertionError when the condition once does not hold."""
    began = _clock.monotonic()
    while (passed := _clock.monotonic() - began) < seconds:
        assert met(), f"after {passed:.1f} s: no longer {what}"
        pause(_PAUSE_S)


def pause(seconds: float) -> None:
    """Let time go by, where how much of it is what a test is about."""
    threading.Event().wait(seconds)


def now() -> float:
    """Return monotonic seconds."""
    return _clock.monotonic()
