"""What outlives a process: placements, approvals, labels, and what was done.

Rule of this file: an answer from the store means that it is kept. Whatever grows is bounded.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Protocol

from attrs import frozen

from llmao_core.actions import ActionKind, Outcome
from llmao_core.intended import Approval, Labels
from llmao_core.keys import Key

ENTRIES_KEPT = 10_000


@frozen
class Done:
    """One action that was carried out. actor: `llmao`, or the admin whose request it was."""

    at: float
    actor: str
    kind: ActionKind
    key: Key
    reason: str
    evidence: tuple[str, ...]
    outcome: Outcome


@frozen
class Transition:
    """One change of a lifecycle; `before` is "" for a new record, `after` for one that is gone."""

    at: float
    key: Key
    before: str
    after: str


class Store(Protocol):
    """What the shell keeps; every call may wait for a disk."""

    async def placed(self) -> Mapping[str, str]:
        """Return which provider once named a host, by host."""
        ...

    async def place(self, placed: Mapping[str, str], at: float) -> None:
        """Replace the placements."""
        ...

    async def approvals(self) -> tuple[Approval, ...]:
        """Return the hosts that admins approved."""
        ...

    async def labels(self) -> Labels:
        """Return what admins said of hosts and keys."""
        ...

    async def done(self, action: Done) -> None:
        """Append one action to the log."""
        ...

    async def moved(self, transitions: Iterable[Transition]) -> None:
        """Append changes of lifecycles."""
        ...


class MemoryStore:
    """A store that forgets with its process; keeps the newest entries of each log."""

    def __init__(self, approvals: Iterable[Approval] = (), labels: Labels | None = None) -> None:
        self.actions: deque[Done] = deque(maxlen=ENTRIES_KEPT)
        self.transitions: deque[Transition] = deque(maxlen=ENTRIES_KEPT)
        self._approvals = tuple(approvals)
        self._labels = labels or Labels()
        self._placed: Mapping[str, str] = {}

    async def placed(self) -> Mapping[str, str]:
        """Return which provider once named a host, by host."""
        return self._placed

    async def place(self, placed: Mapping[str, str], at: float) -> None:  # noqa: ARG002
        """Replace the placements."""
        self._placed = dict(placed)

    async def approvals(self) -> tuple[Approval, ...]:
        """Return the approvals it was made with."""
        return self._approvals

    async def labels(self) -> Labels:
        """Return the labels it was made with."""
        return self._labels

    async def done(self, action: Done) -> None:
        """Append one action to the log."""
        self.actions.append(action)

    async def moved(self, transitions: Iterable[Transition]) -> None:
        """Append changes of lifecycles."""
        self.transitions.extend(transitions)
