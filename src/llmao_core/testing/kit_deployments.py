"""The suite for a plugin that keeps deployments.

Rule of this file: as of kit_suite.py.
"""

import contextlib

from attrs import evolve

from llmao_core.actions import ActionKind, Order, OutcomeKind, RowBody
from llmao_core.errors import LlmaoError
from llmao_core.hooks import SourceKind
from llmao_core.keys import normalise_base
from llmao_core.snapshots import Deployments, Row

from .kit import FLEET, DeploymentsBench, things
from .kit_host import HostTests
from .kit_orders import OrderTests
from .kit_reading import ReadingTests
from .kit_suite import overheard, reading, secrets_of
from .kit_wire import Mishap

_REMOVALS = [kind for kind in ActionKind if kind.removes]


class DeploymentsPluginTests(ReadingTests, OrderTests, HostTests, kit=True):
    """What a plugin that keeps deployments must do: subclass it, and say how a bench is made."""

    wants = SourceKind.DEPLOYMENTS

    @reading
    def test_the_answer_is_deployments(self, bench: DeploymentsBench) -> None:
        """A fetch returns Deployments made of Rows."""
        body = bench.fetch()
        assert isinstance(body, Deployments)
        assert all(isinstance(row, Row) for row in body.rows)

    def test_what_is_added_reads_back(self, bench: DeploymentsBench) -> None:
        """A row that was added has its id, name, address, parameters and whole stamp."""
        order = bench.adding("kit-add")
        assert bench.execute(order).kind is OutcomeKind.DONE
        _reads_back(bench, order)

    def test_what_is_updated_reads_back(self, bench: DeploymentsBench) -> None:
        """An update and a replacement change the row in its place, its stamp included."""
        for kind in (ActionKind.UPDATE_LITELLM, ActionKind.REPLACE_LITELLM):
            order = bench.order(kind)
            assert bench.execute(order).good, kind.value
            _reads_back(bench, order)

    def test_one_row_added_twice_is_one_row(self, bench: DeploymentsBench) -> None:
        """Adding the same deployment again leaves one row."""
        order = bench.adding("kit-add")
        for _ in range(2):
            assert bench.execute(order).good
        assert len(_rows(bench)) == 1
        assert len(bench.truth()) == 1

    def test_a_row_removed_twice_was_gone_already(self, bench: DeploymentsBench) -> None:
        """Every kind of removal is done, and the second time already so."""
        for kind in _REMOVALS:
            order = bench.order(kind)
            ends = [bench.execute(order).kind for _ in range(2)]
            assert ends == [OutcomeKind.DONE, OutcomeKind.ALREADY], kind.value
            assert order.target not in bench.truth()

    def test_a_lost_answer_makes_no_second_row(self, bench: DeploymentsBench) -> None:
        """An add that is repeated after its answer was lost, three times over, is one row."""
        order = bench.adding("kit-lost")
        for _ in range(3):
            bench.mishap(Mishap.UNANSWERED, writes=True)
            with contextlib.suppress(LlmaoError):
                bench.execute(order)
            bench.wire.go_well()
        assert bench.execute(order).good
        assert [row.id for row in _rows(bench)] == [order.target]
        assert list(bench.truth()) == [order.target]

    def test_foreign_rows_are_read_and_never_touched(self, bench: DeploymentsBench) -> None:
        """Rows of others are listed as not ours, and no order about ours changes them."""
        foreign = [bench.plant_foreign(f"foreign-{n}") for n in range(3)]
        before = {row_id: bench.truth()[row_id] for row_id in foreign}
        for row in _rows(bench):
            assert (row.llmao_key, row.fleet, row.hash) == ("", "", ""), row.id
        for kind in sorted(bench.source_card().executes, key=lambda kind: kind.value):
            bench.execute(bench.order(kind))
            assert {row_id: bench.truth().get(row_id) for row_id in foreign} == before, kind.value

    def test_an_update_of_a_row_that_is_gone_makes_none(self, bench: DeploymentsBench) -> None:
        """An update whose row was removed meanwhile does not end well and makes no row."""
        order = bench.order(ActionKind.UPDATE_LITELLM)
        bench.execute(Order(ActionKind.DELETE_LITELLM, order.executor, order.key, order.target))
        with contextlib.suppress(LlmaoError):
            assert not bench.execute(order).good
        assert order.target not in bench.truth()

    def test_the_bearer_of_a_box_is_not_read_back(self, bench: DeploymentsBench) -> None:
        """The key written into a row is in nothing that is read, printed or logged."""
        bench.execute(bench.adding("kit-add"))
        with overheard() as ear:
            ear.note(bench.fetch())
        assert ear.secrets(*secrets_of(bench)) == []

    def test_a_name_with_odd_letters_reads_back(self, bench: DeploymentsBench) -> None:
        """Names with blanks, slashes, colons and letters of any script survive."""
        for name in ("org/model:7b", "mit Leerzeichen", "模型", "a%2Fb?c=d&e"):
            order = bench.adding(name)
            assert bench.execute(order).good, name
            _reads_back(bench, order)


def _rows(bench: DeploymentsBench) -> list[Row]:
    return [row for row in things(bench.fetch()) if isinstance(row, Row)]


def _reads_back(bench: DeploymentsBench, order: Order) -> None:
    """Fail unless the row is as it was ordered."""
    body = order.body
    assert isinstance(body, RowBody)
    [row] = [one for one in _rows(bench) if one.id == order.target]
    wanted = Row(
        id=order.target,
        model_name=body.model_name,
        base=normalise_base(body.api_base),
        stamped_base=normalise_base(body.model_info["asf_api_base"]),
        llmao_key=body.model_info["llmao_key"],
        fleet=FLEET,
        hash=body.model_info["llmao_hash"],
    )
    assert evolve(row, params={}, info={}) == wanted
    given = body.litellm_params
    assert {name: row.params.get(name) for name in given} == dict(given)
    assert {name: row.info.get(name) for name in body.model_info} == dict(body.model_info)
