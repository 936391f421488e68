"""Bugs planted in executor, runners, rules and plugin: the simulation finds each of them.

Rule of this file: a bug is a few lines such as somebody may really write. Which seed finds it,
and when, is printed and stands in docs/reliability.md.
"""

import contextlib
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
from attrs import evolve

from llmao_core import classify, fold, join, restrain, signal
from llmao_core.actions import Outcome, OutcomeKind
from llmao_core.errors import NotYet, OutcomeUnknown
from llmao_core.facts import Base, Drift, Gate
from llmao_core.plan import Hold
from llmao_core.records import Kind
from llmao_litellm import writes
from llmao_web.shell import executor, leader, runners, sharing
from llmao_web.shell.board import Board
from llmao_web.shell.host import Failure
from llmao_web.shell.ledger import FOLDED
from llmao_web.shell.ledger import fold as fold_entries
from llmao_web.shell.sql_store import SqlStore
from llmao_web.shell.store import Wanted
from llmao_web.sim.replicas import SQL_EVERY, TWO_EVERY
from llmao_web.sim.run import run_seed

SEEDS = 40
HOURS = 2.0
Plant = Callable[[pytest.MonkeyPatch], None]


def no_witness(patch: pytest.MonkeyPatch) -> None:
    """A removal needs no second opinion."""
    patch.setattr(restrain, "witness", lambda *_: Hold.NOT_HELD)


def a_gap_in_a_listing_is_the_end(patch: pytest.MonkeyPatch) -> None:
    """A box that its provider's listing omits is gone, and its route with it."""
    plan_facts = classify.plan_facts

    def listed(entry: Any, *rest: Any) -> Any:
        facts = plan_facts(entry, *rest)
        rented = entry.kind is Kind.INTENDED and not entry.deployment.own
        return facts._replace(gate=Gate.LEAVING) if rented and not entry.place.found else facts

    patch.setattr("llmao_core.reconcile.plan_facts", listed)


def no_threshold(patch: pytest.MonkeyPatch) -> None:
    """One failed probe is enough, and LiteLLM is not asked."""
    no_witness(patch)
    count = signal._count

    def at_once(after: Any, before: Any, verdict: Any, fleet: Any) -> Any:
        counted = count(after, before, verdict, fleet)
        return evolve(counted, fails=max(counted.fails, 9)) if counted.fails else counted

    patch.setattr(signal, "_count", at_once)


def a_lost_answer_is_tried_again(patch: pytest.MonkeyPatch) -> None:
    """A create that was not answered is made again under another id."""
    add = writes._add

    async def again(proxy: Any, body: Any) -> Outcome:
        try:
            return await add(proxy, body)
        except (OutcomeUnknown, NotYet):
            info = {**body.model_info, "id": body.model_info["id"] + "-2"}
            return await add(proxy, evolve(body, model_info=info))

    patch.setattr(writes, "_add", again)


def busy_is_dead(patch: pytest.MonkeyPatch) -> None:
    """A server that is slow is down, whatever its counters say; nobody else is asked."""
    no_witness(patch)
    patch.setattr(signal, "_busy", lambda *_: False)


def a_backoff_that_never_ends(patch: pytest.MonkeyPatch) -> None:
    """A write that failed once is tried again tomorrow."""
    patch.setattr(executor, "backoff_s", lambda *_: 86_400.0)
    patch.setattr(Board, "forgive", lambda _: None)


def a_delete_is_taken_for_done(patch: pytest.MonkeyPatch) -> None:
    """A delete that was sent is done, whatever was answered, and its row is not looked for."""

    async def delete(proxy: Any, row_id: str) -> Outcome:
        with contextlib.suppress(Exception):
            await proxy.write("POST", "/model/delete", {"id": row_id})
        return Outcome(OutcomeKind.DONE)

    patch.setattr(writes, "_delete", delete)
    due, sent = executor.Executor._due, set[tuple[int, str]]()

    def once(self: Any, action: Any) -> bool:
        asked = (id(self), action.order.target)
        if not due(self, action) or asked in sent:
            return False
        if action.kind.removes:
            sent.add(asked)
        return True

    patch.setattr(executor.Executor, "_due", once)


def an_executor_that_dies_of_an_error(patch: pytest.MonkeyPatch) -> None:
    """A write that ends badly ends the executor, too."""
    ended = executor.Executor._ended

    def fragile(self: Any, write: Any, how: Any) -> Any:
        if not how.outcome.good:
            self._stopping = True
        return ended(self, write, how)

    patch.setattr(executor.Executor, "_ended", fragile)


def a_runner_that_gives_up(patch: pytest.MonkeyPatch) -> None:
    """A source that could not be read is not read again."""
    missed = runners.Runner._missed

    def gives_up(self: Any, failure: Failure) -> None:
        missed(self, failure)
        self._next = self._not_before = math.inf

    patch.setattr(runners.Runner, "_missed", gives_up)


def an_approval_that_is_not_kept(patch: pytest.MonkeyPatch) -> None:
    """An approval is acknowledged before it is in the store."""

    async def keep(self: Any, *entries: Any) -> None:
        self._take(fold_entries(entries, self.kept))

    patch.setattr(sharing.Sharing, "keep", keep)


def a_new_instance_is_the_old_one(patch: pytest.MonkeyPatch) -> None:
    """Where a box is reached is remembered for ever, and never looked up again."""
    dialable = join.dialable

    def remembered(entry: Any, known_url: str, **more: Any) -> str:
        return known_url or dialable(entry, known_url, **more)

    patch.setattr(fold, "dialable", remembered)


def no_row_differs(patch: pytest.MonkeyPatch) -> None:
    """A row of ours is right, whatever stands in it."""
    plan_facts = classify.plan_facts

    def plain(*arguments: Any) -> Any:
        facts = plan_facts(*arguments)
        return facts._replace(drift=Drift.NONE, base=Base.CURRENT)

    patch.setattr("llmao_core.reconcile.plan_facts", plain)


def a_plan_of_the_past(patch: pytest.MonkeyPatch) -> None:
    """A removal that was once planned is carried out, though a newer plan does not want it."""
    take = executor.Executor.take

    def stubborn(self: Any, plan: Any, revision: int) -> None:
        old = {one.key: one for one in self._taken.plan.actions if one.kind.removes}
        new = {one.key: one for one in plan.actions}
        take(self, evolve(plan, actions=tuple({**old, **new}.values())), revision)

    patch.setattr(executor.Executor, "take", stubborn)


def a_leader_that_asks_nobody(patch: pytest.MonkeyPatch) -> None:
    """Who once took the lead writes on, whether or not it was renewed."""

    async def begins(self: Any, order: Any) -> bool:
        return bool(self.keeps() and self._term is not None)

    patch.setattr(leader.Election, "leads", lambda self: self._term is not None)
    patch.setattr(leader.Election, "begins", begins)


def a_leave_without_an_age(patch: pytest.MonkeyPatch) -> None:
    """What the database once permitted is begun, however long the machine was frozen since."""

    async def begins(self: Any, order: Any) -> bool:
        may = self.keeps() and self.leads()
        return bool(may and await self._renew(leader._BEGIN, leader._noted(order)))

    patch.setattr(leader.Election, "begins", begins)


def a_leader_that_is_never_given_up(patch: pytest.MonkeyPatch) -> None:
    """A leader that is not heard of keeps its lock for as long as its session stands."""
    patch.setattr(leader, "DEAD_S", 1e9)


def a_first_decision_that_stands(patch: pytest.MonkeyPatch) -> None:
    """A process that starts reads the oldest decision about a thing, and not the newest."""

    async def kept(self: Any) -> Any:
        newest_first = await self.entries(Wanted(kinds=FOLDED, limit=1000))
        return fold_entries(each.entry for each in newest_first)

    patch.setattr(SqlStore, "kept", kept)


PLANTS: tuple[Plant, ...] = (
    no_witness,
    a_gap_in_a_listing_is_the_end,
    no_threshold,
    a_lost_answer_is_tried_again,
    busy_is_dead,
    a_backoff_that_never_ends,
    a_delete_is_taken_for_done,
    an_executor_that_dies_of_an_error,
    a_runner_that_gives_up,
    an_approval_that_is_not_kept,
    a_new_instance_is_the_old_one,
    no_row_differs,
    a_plan_of_the_past,
    a_leader_that_asks_nobody,
    a_leave_without_an_age,
    a_leader_that_is_never_given_up,
    a_first_decision_that_stands,
)
TWO = range(TWO_EVERY, 40 * TWO_EVERY, TWO_EVERY)
# A bug in what only some worlds have is looked for in those.
SEEDS_OF: Mapping[Plant, Iterable[int]] = {
    a_leader_that_asks_nobody: TWO,
    a_leave_without_an_age: TWO,
    a_leader_that_is_never_given_up: TWO,
    a_first_decision_that_stands: range(SQL_EVERY, SEEDS, SQL_EVERY),
}


@pytest.mark.sim
@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of the first seeds ends in a violation."""
    plant(monkeypatch)
    for seed in SEEDS_OF.get(plant, range(1, SEEDS + 1)):
        result = run_seed(seed, HOURS)
        if result.violation is not None:
            print(f"{plant.__name__}: seed {seed}, {result.at_s:.0f} s: {result.violation.name}")
            # A plant that merely crashes would show nothing.
            assert "no-fault-of-its-own" != result.violation.name, result.violation
            return
    raise AssertionError(f"{plant.__doc__} Not found within {SEEDS} seeds.")
