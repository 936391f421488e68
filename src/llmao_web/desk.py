"""The counter between the web and the shell: all that a handler may ask for or hand in.

Rule of this file: shapes only. The shell's board implements `Desk`; a test implements it in a
few lines. Nothing here waits: every call answers from memory.
"""

from typing import Protocol

from llmao_core.box_config import BoxAnswer
from llmao_core.intended import Intended
from llmao_core.plan import Plan
from llmao_core.protocol import BoxEvent
from llmao_core.records import View


class Clock(Protocol):
    """The part of the shell's clock that handlers need."""

    def now(self) -> float:
        """Return the time, epoch seconds."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        ...


class Desk(Protocol):
    """What handlers and pages see of the running llmao."""

    def intended(self) -> Intended | None:
        """Return what should exist; None until configuration and approvals are read."""
        ...

    def answer(self, host: str) -> BoxAnswer | None:
        """Return the answer for a normalised host name, a former one included.

        None: unknown host. From `box_config.answers(intended)`, made once per Intended.
        """
        ...

    def note(self, event: BoxEvent) -> None:
        """Take what a box did, for `protocol.fold` with the time of the call.

        Called once per request, also in a flood of wrong keys: it must be cheap and never raise.
        """
        ...

    def view(self) -> View | None:
        """Return what the newest pass concluded; None before the first pass."""
        ...

    def plan(self) -> Plan | None:
        """Return the plan of the same pass; None before the first pass."""
        ...

    def ready(self) -> tuple[bool, tuple[str, ...]]:
        """Tell whether every configured source was tried once, and if not what is missing.

        A source that was tried and failed counts as tried.
        """
        ...
