"""Plugins that get boxes and orders wrong, each in one way."""

from collections.abc import Mapping
from typing import Any

from attrs import evolve
from tests.kit.planting import bug
from tests.kit.toy import Row, Toy, ToyBench

from llmao_core.actions import ActionKind, Order, Outcome, OutcomeKind
from llmao_core.errors import (
    Garbled,
    LlmaoError,
    NotYet,
    OutcomeUnknown,
    Refused,
)
from llmao_core.hooks import FetchRequest, Http, SourceCard
from llmao_core.snapshots import BoxStatus, Endpoint, Listing

DONE = Outcome(OutcomeKind.DONE)


# ---- boxes


@bug("every_field_is_what_it_says")
class PaddedAddress(Toy):
    def addresses(self, row: Row) -> tuple[str, ...]:
        return (row["address"],)


@bug("every_field_is_what_it_says", "each_listen_port_has_its_endpoint")
class ImpossiblePort(Toy):
    def endpoints(self, row: Row) -> dict[int, Endpoint]:
        return {listen: evolve(one, port=0) for listen, one in super().endpoints(row).items()}


@bug("each_listen_port_has_its_endpoint")
class ListenPortIsPublic(Toy):
    def endpoints(self, row: Row) -> dict[int, Endpoint]:
        return {at: evolve(one, port=at) for at, one in super().endpoints(row).items()}


@bug("two_boxes_at_one_address_stay_two")
class OneBoxPerAddress(Toy):
    def listing(self, rows: list[Row]) -> Listing:
        return super().listing(list({row["address"]: row for row in rows}.values()))


@bug("a_label_is_a_name_of_its_box")
class ForgetsLabels(Toy):
    def names(self, row: Row, labels: Mapping[str, str]) -> tuple[str, ...]:
        return ()


@bug("a_label_of_two_boxes_names_neither")
class TwinsShareAName(Toy):
    def names(self, row: Row, labels: Mapping[str, str]) -> tuple[str, ...]:
        return (str(row["label"]),)


@bug("an_unknown_status_is_unknown")
class UnknownIsUp(Toy):
    def status(self, word: Any) -> BoxStatus:
        return BoxStatus.UP


@bug("an_unknown_status_is_unknown")
class UnknownBreaks(Toy):
    def status(self, word: Any) -> BoxStatus:
        return {"up": BoxStatus.UP}[word]


@bug("nonsense_in_a_row_loses_no_box")
class NullBreaks(Toy):
    def endpoints(self, row: Row) -> dict[int, Endpoint]:
        return super().endpoints(row) if row["ports"].items() else {}


@bug("nonsense_in_a_row_loses_no_box")
class DropsOddRows(Toy):
    def listing(self, rows: list[Row]) -> Listing:
        return super().listing([row for row in rows if row["price"] is not None])


@bug("a_field_nobody_knows_is_ignored")
class RefusesNewFields(Toy):
    def detail(self, row: Row) -> str:
        if "brand_new" in row:
            raise Garbled("unknown field")
        return ""


# ---- orders


@bug("every_kind_on_the_card_is_carried_out", "the_host_carries_out_orders")
class PromisesTooMuch(Toy):
    async def execute(self, order: Order, request: FetchRequest, http: Http, now: float) -> Outcome:
        raise Refused("not yet written")


@bug("every_kind_on_the_card_is_carried_out")
class OnlySaysDone(Toy):
    async def reboot(self, order: Order, request: FetchRequest, http: Http, now: float) -> Outcome:
        return DONE


@bug("an_order_that_is_repeated_is_done_once", "an_order_is_safe_to_repeat_after_a_lost_answer")
class NeverLooks(Toy):
    async def reboots_already(self, *_: object) -> bool:
        return False


@bug("an_order_that_is_not_answered_is_unknown")
class LostIsNotYet(Toy):
    async def reboot(self, order: Order, request: FetchRequest, http: Http, now: float) -> Outcome:
        try:
            return await super().reboot(order, request, http, now)
        except OutcomeUnknown as error:
            raise NotYet(str(error)) from None


@bug("an_order_that_is_not_answered_is_unknown")
class LostIsDone(Toy):
    async def reboot(self, order: Order, request: FetchRequest, http: Http, now: float) -> Outcome:
        try:
            return await super().reboot(order, request, http, now)
        except OutcomeUnknown:
            return DONE


@bug("a_mishap_of_a_write_raises_its_own_error")
class DownIsRefused(Toy):
    def judged(self, answer: Any) -> Outcome:
        if answer.status_code >= 500:
            raise Refused("down")
        return super().judged(answer)


@bug("a_mishap_of_a_write_raises_its_own_error")
class SendsUntilAnswered(Toy):
    async def reboot(self, order: Order, request: FetchRequest, http: Http, now: float) -> Outcome:
        for _ in range(3):
            try:
                return await super().reboot(order, request, http, now)
            except (OutcomeUnknown, NotYet):
                continue
        raise OutcomeUnknown("no answer")


@bug("a_kind_that_is_not_on_the_card_is_not_carried_out")
class RebootsWhateverIsOrdered(Toy):
    async def execute(self, order: Order, request: FetchRequest, http: Http, now: float) -> Outcome:
        return await super().execute(evolve(order, kind=ActionKind.REBOOT_BOX), request, http, now)


@bug("a_kind_that_is_not_on_the_card_is_not_carried_out")
class UnknownKindIsAlready(Toy):
    async def execute(self, order: Order, request: FetchRequest, http: Http, now: float) -> Outcome:
        if order.kind is not ActionKind.REBOOT_BOX:
            return Outcome(OutcomeKind.ALREADY)
        return await super().execute(order, request, http, now)


@bug("an_order_for_a_box_that_is_not_there_is_refused")
class GoneIsDone(Toy):
    def judged(self, answer: Any) -> Outcome:
        return DONE if answer.status_code == 404 else super().judged(answer)


@bug("no_secret_gets_out_of_an_order")
class OrderQuotesTheAnswer(Toy):
    def judged(self, answer: Any) -> Outcome:
        try:
            return super().judged(answer)
        except LlmaoError as error:
            raise type(error)(answer.text) from None


@bug("a_listing_writes_no_deployments")
class WantsToWriteRows(Toy):
    def card(self) -> SourceCard:
        return evolve(super().card(), executes=frozenset({ActionKind.ADD_LITELLM}))


@bug("the_host_reads_over_a_real_connection")
class AsksAFixedAddress(Toy):
    async def send(self, request: FetchRequest, http: Http, method: str, path: str) -> Any:
        fixed = evolve(request, base_url=ToyBench.base_url)
        return await super().send(fixed, http, method, path)
