"""What the shell's tests share: a fake of the plugin host, and a clock that moves by hand."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from attrs import define, field

from llmao_core.actions import Order, Outcome, OutcomeKind
from llmao_core.errors import Trouble
from llmao_core.hooks import FetchRequest
from llmao_core.snapshots import Snapshot
from llmao_core.testing.clock import VirtualClock
from llmao_web.shell.board import Board
from llmao_web.shell.host import Ended, Failure

DONE = Outcome(OutcomeKind.DONE)


@define(slots=False)
class Script:
    """Stands where the plugin host stands, and answers as told.

    answers: per card, what a fetch gives: a body, a Failure, or a function of the request that
    may be async. outcome: the same for an order.
    """

    clock: VirtualClock
    answers: dict[str, Any] = field(factory=dict)
    outcome: Any = DONE
    fetches: list[tuple[float, FetchRequest]] = field(factory=list)
    orders: list[tuple[float, Order]] = field(factory=list)

    async def fetch(
        self, card: str, request: FetchRequest, now: float, deadline_s: float = 0.0
    ) -> Snapshot[Any] | Failure:
        self.fetches.append((self.clock.monotonic(), request))
        answer = await _answer(self.answers[card], request)
        return answer if isinstance(answer, Failure) else Snapshot(now, answer)

    async def execute(self, order: Order, request: FetchRequest, now: float) -> Ended:
        self.orders.append((self.clock.monotonic(), order))
        answer = await _answer(self.outcome, order)
        return answer if isinstance(answer, Ended) else Ended(answer)

    def times(self, asked: Callable[[FetchRequest], object] = lambda request: True) -> list[float]:
        """Return when fetches began, in seconds since the start."""
        return [at for at, request in self.fetches if asked(request)]


async def _answer(answer: Any, asked: Any) -> Any:
    if callable(answer):
        answer = answer(asked)
    if asyncio.iscoroutine(answer):
        answer = await answer
    return answer


def failure(kind: str = "Unreachable", retry_after_s: float | None = None) -> Failure:
    return Failure(Trouble(kind, "no answer", 0.0), retry_after_s)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def board(clock: VirtualClock) -> Board:
    return Board(clock)


@pytest.fixture
def script(clock: VirtualClock) -> Script:
    return Script(clock)
