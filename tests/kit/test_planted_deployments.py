"""LiteLLM's plugin, broken in one way, fails the check of deployments that claims to catch it.

What both suites share is shown on the toy provider beside this file.
"""

import contextlib
import itertools
from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve
from tests.kit.running import verdict

from llmao_core.actions import ActionKind, Order, Outcome, OutcomeKind
from llmao_core.errors import LlmaoError
from llmao_core.hooks import FetchRequest, Http, hookimpl
from llmao_core.snapshots import Deployments, Row
from llmao_core.testing.kit import BEARER, FLEET
from llmao_core.testing.kit_deployments import DeploymentsPluginTests as Suite
from llmao_litellm import plugin
from llmao_litellm.bench import LiteLLMBench

DONE = Outcome(OutcomeKind.DONE)
BUGS: list[tuple[type["Right"], str]] = []


class Right:
    """The real plugin, with two places to break."""

    llmao_source = staticmethod(plugin.llmao_source)
    llmao_check = staticmethod(plugin.llmao_check)

    @hookimpl
    async def llmao_fetch(self, request: FetchRequest, http: Http, now: float) -> Any:
        read = await plugin.llmao_fetch(request, http, now)
        return self.read(read) if isinstance(read, Deployments) else read

    @hookimpl
    async def llmao_execute(
        self, order: Order, request: FetchRequest, http: Http, now: float
    ) -> Outcome:
        return await self.execute(order, request, http, now)

    def read(self, deployments: Deployments) -> Any:
        return Deployments(tuple(self.row(row) for row in deployments.rows))

    def row(self, row: Row) -> Row:
        return row

    async def execute(self, order: Order, request: FetchRequest, http: Http, now: float) -> Outcome:
        return await plugin.llmao_execute(order, request, http, now)


def bug(*checks: str) -> Callable[[type[Right]], type[Right]]:
    def add(broken: type[Right]) -> type[Right]:
        BUGS.extend((broken, f"test_{check}") for check in checks)
        return broken

    return add


@bug("the_answer_is_deployments")
class ReturnsRows(Right):
    def read(self, deployments: Deployments) -> Any:
        return deployments.rows


@bug("what_is_added_reads_back", "what_is_updated_reads_back")
class LosesTheStamp(Right):
    def row(self, row: Row) -> Row:
        return evolve(row, stamped_base="")


@bug("what_is_updated_reads_back")
class UpdatesNothing(Right):
    async def execute(self, order: Order, request: FetchRequest, http: Http, now: float) -> Outcome:
        if order.kind is ActionKind.UPDATE_LITELLM:
            return DONE
        return await super().execute(order, request, http, now)


@bug("one_row_added_twice_is_one_row", "a_lost_answer_makes_no_second_row")
class AlwaysANewId(Right):
    ids = itertools.count()

    async def execute(self, order: Order, request: FetchRequest, http: Http, now: float) -> Outcome:
        if order.kind is ActionKind.ADD_LITELLM and order.body:
            info = {**order.body.model_info, "id": f"llmao-{next(self.ids)}"}
            order = evolve(order, body=evolve(order.body, model_info=info))
        return await super().execute(order, request, http, now)


@bug("a_row_removed_twice_was_gone_already")
class RemovedIsDone(Right):
    async def execute(self, order: Order, request: FetchRequest, http: Http, now: float) -> Outcome:
        await super().execute(order, request, http, now)
        return DONE


@bug("a_row_removed_twice_was_gone_already")
class RemovesNothing(Right):
    async def execute(self, order: Order, request: FetchRequest, http: Http, now: float) -> Outcome:
        if order.kind is ActionKind.PRUNE_ORPHAN:
            return Outcome(OutcomeKind.ALREADY)
        return await super().execute(order, request, http, now)


@bug("foreign_rows_are_read_and_never_touched")
class ClaimsWhatItReads(Right):
    def row(self, row: Row) -> Row:
        return evolve(row, fleet=FLEET)


@bug("foreign_rows_are_read_and_never_touched")
class TidiesUp(Right):
    async def execute(self, order: Order, request: FetchRequest, http: Http, now: float) -> Outcome:
        read = await plugin.llmao_fetch(request, http, now)
        for row in read.rows if isinstance(read, Deployments) else ():
            if not row.llmao_key:
                removal = Order(ActionKind.PRUNE_ORPHAN, order.executor, order.key, row.id)
                await super().execute(removal, request, http, now)
        return await super().execute(order, request, http, now)


@bug("an_update_of_a_row_that_is_gone_makes_none")
class AddsWhatIsGone(Right):
    async def execute(self, order: Order, request: FetchRequest, http: Http, now: float) -> Outcome:
        with contextlib.suppress(LlmaoError):
            return await super().execute(order, request, http, now)
        again = evolve(order, kind=ActionKind.ADD_LITELLM)
        return await super().execute(again, request, http, now)


@bug("the_bearer_of_a_box_is_not_read_back")
class ShowsTheBearer(Right):
    def row(self, row: Row) -> Row:
        return evolve(row, params={**row.params, "api_key": BEARER})


@bug("a_name_with_odd_letters_reads_back")
class AsciiOnly(Right):
    def row(self, row: Row) -> Row:
        return evolve(row, model_name=row.model_name.encode("ascii", "ignore").decode())


@pytest.mark.parametrize(("broken", "check"), BUGS, ids=lambda one: getattr(one, "__name__", one))
def test_a_planted_bug_is_caught(broken: type[Right], check: str) -> None:
    """The check that is there for it fails, and passes on the plugin as it is."""
    assert "" == verdict(Suite, check, _bench(Right))
    assert "" != verdict(Suite, check, _bench(broken))


def test_every_check_of_deployments_was_seen_to_fail() -> None:
    """A check that cannot fail is a defect: each has a bug of its own."""
    own = {name for name in vars(Suite) if name.startswith("test_")}
    assert own == {check for _, check in BUGS}


def _bench(broken: type[Right]) -> type[LiteLLMBench]:
    return type(f"{broken.__name__}Bench", (LiteLLMBench,), {"plugin": broken()})
