"""What a plugin that carries out orders must do, whatever the orders.

Rule of this file: as of kit_suite.py. A plugin whose card names no kind of order passes them all.
"""

from collections.abc import Iterator

import pytest
from attrs import evolve

from llmao_core.actions import ActionKind, Order, Outcome
from llmao_core.errors import LlmaoError, NotYet, OutcomeUnknown, Refused

from .kit import Bench
from .kit_suite import Overheard, Suite, ends_when_cancelled, overheard, secrets_of
from .kit_wire import Mishap

# What a write that meets it may raise. It did not happen, or nobody knows: never "refused" for
# what may have happened, never "unknown" for what surely did not.
WRITES: dict[Mishap, tuple[type[LlmaoError], ...]] = {
    Mishap.UNAUTHORIZED: (Refused, NotYet),
    Mishap.BUSY: (NotYet,),
    Mishap.BUSY_FOR_A_TIME: (NotYet,),
    Mishap.UNREACHABLE: (NotYet,),
    Mishap.SLOW: (OutcomeUnknown,),
    Mishap.CUT: (OutcomeUnknown,),
    Mishap.DOWN: (OutcomeUnknown, NotYet),
    Mishap.WEB_PAGE: (OutcomeUnknown,),
}
_MISHAPS = pytest.mark.parametrize("kind", list(WRITES), ids=lambda kind: kind.value)


class OrderTests(Suite, kit=True):
    """Checks of `llmao_execute`, for every kind on the card."""

    def test_every_kind_on_the_card_is_carried_out(self, bench: Bench) -> None:
        """Each kind the card names ends well, says so, and changes the far end."""
        for order in _orders(bench):
            before = dict(bench.truth())
            outcome = bench.execute(order)
            assert isinstance(outcome, Outcome), f"{order.kind.value} returned {outcome!r}"
            assert outcome.good, f"{order.kind.value}: {outcome}"
            assert dict(bench.truth()) != before, f"{order.kind.value} changed nothing"

    def test_an_order_that_is_repeated_is_done_once(self, bench: Bench) -> None:
        """The same order again ends well, too, and leaves the far end as the first did."""
        for order in _orders(bench):
            bench.execute(order)
            once = dict(bench.truth())
            again = bench.execute(order)
            assert again.good, f"{order.kind.value} again: {again}"
            assert dict(bench.truth()) == once, f"{order.kind.value} was done twice"

    def test_an_order_that_is_not_answered_is_unknown(self, bench: Bench) -> None:
        """What was sent and not answered raises OutcomeUnknown: it may have happened."""
        for order in _orders(bench):
            bench.mishap(Mishap.UNANSWERED, writes=True)
            error = _error(bench, order)
            bench.wire.go_well()
            assert isinstance(error, OutcomeUnknown), f"{order.kind.value}: {error!r}"

    def test_an_order_is_safe_to_repeat_after_a_lost_answer(self, bench: Bench) -> None:
        """After a lost answer the same order again leaves what one answered order leaves."""
        calm = type(bench)()
        for order, same in zip(_orders(bench), _orders(calm), strict=True):
            bench.mishap(Mishap.UNANSWERED, writes=True)
            _error(bench, order)
            bench.wire.go_well()
            bench.execute(order)
            calm.execute(same)
            assert dict(bench.truth()) == dict(calm.truth()), f"{order.kind.value} was done twice"

    @_MISHAPS
    def test_a_mishap_of_a_write_raises_its_own_error(self, bench: Bench, kind: Mishap) -> None:
        """What surely did not happen is Refused or NotYet, what may have is OutcomeUnknown."""
        for order in _orders(bench):
            before = dict(bench.truth())
            bench.mishap(kind, writes=True)
            error = _error(bench, order)
            bench.wire.go_well()
            assert isinstance(error, WRITES[kind]), f"{order.kind.value}: {error!r}"
            assert dict(bench.truth()) == before, f"{order.kind.value} changed something"

    def test_a_kind_that_is_not_on_the_card_is_not_carried_out(self, bench: Bench) -> None:
        """An order of another kind raises or is refused, sends no write and changes nothing."""
        card = bench.source_card()
        if not card.executes:
            return
        [*_, known] = _orders(bench)
        for kind in [one for one in ActionKind if one not in card.executes]:
            _is_left_alone(bench, evolve(known, kind=kind))

    def test_no_secret_gets_out_of_an_order(self, bench: Bench) -> None:
        """No key and no bearer is in an outcome, an error, a log or the order itself."""
        for kind in (None, *WRITES, Mishap.UNANSWERED):
            # Anew each time: a plugin that finds its order carried out sends nothing.
            for order in _orders(bench):
                if kind is not None:
                    bench.mishap(kind, writes=True)
                with overheard() as ear:
                    _carry_out(bench, order, ear)
                bench.wire.go_well()
                assert ear.secrets(*secrets_of(bench)) == [], order.kind.value

    def test_an_order_that_is_cancelled_ends(self, bench: Bench) -> None:
        """Being cancelled ends an order at once and is not turned into an outcome."""
        for order in _orders(bench):
            bench.wire.hang()
            assert ends_when_cancelled(bench, bench.aexecute(order)), order.kind.value
            bench.wire.go_well()


def _orders(bench: Bench) -> Iterator[Order]:
    """Yield an order of each kind on the card, each made when the one before is through."""
    for kind in sorted(bench.source_card().executes, key=lambda kind: kind.value):
        order = bench.order(kind)
        assert order.kind is kind, f"the bench has no order of kind {kind.value}"
        bench.wire.log.clear()
        yield order


def _carry_out(bench: Bench, order: Order, ear: Overheard) -> None:
    ear.note(order)
    try:
        ear.note(bench.execute(order))
    except Exception as error:
        ear.note(error)


def _is_left_alone(bench: Bench, order: Order) -> None:
    before = dict(bench.truth())
    bench.wire.log.clear()
    try:
        outcome = bench.execute(order)
    except (Refused, AssertionError):
        outcome = None
    assert outcome is None, f"{order.kind.value}: {outcome}"
    assert [sent for sent in bench.wire.log if not bench.is_read(sent)] == []
    assert dict(bench.truth()) == before, f"{order.kind.value} changed something"


def _error(bench: Bench, order: Order) -> Exception:
    try:
        outcome = bench.execute(order)
    except Exception as error:
        return error
    pytest.fail(f"{order.kind.value} did not fail and returned {outcome!r}")
