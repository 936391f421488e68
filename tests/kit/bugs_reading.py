"""Plugins that read wrongly, each in one way."""

import itertools
import logging
from collections.abc import Mapping
from typing import Any

from attrs import evolve
from tests.kit.planting import bug
from tests.kit.toy import NAME, Row, Toy, swallowed

from llmao_core.actions import Order, Outcome, OutcomeKind
from llmao_core.config import Config
from llmao_core.errors import (
    Busy,
    FetchError,
    Garbled,
    Problem,
    Unreachable,
)
from llmao_core.hooks import FetchRequest, Http, SourceCard, hookimpl
from llmao_core.snapshots import Instance, Listing

DONE = Outcome(OutcomeKind.DONE)


# ---- at start


@bug("the_card_is_one_that_llmao_can_file")
class Shouts(Toy):
    def card(self) -> SourceCard:
        return evolve(super().card(), name="TOY")


@bug("the_card_is_one_that_llmao_can_file")
class NeverDue(Toy):
    def card(self) -> SourceCard:
        return evolve(super().card(), interval_s=0)


@bug("a_bad_section_is_reported_with_its_place")
class ChecksNothing(Toy):
    def problems(self, config: Config) -> tuple[Problem, ...]:
        return ()


@bug("a_bad_section_is_reported_with_its_place")
class SaysNoPlace(Toy):
    def problems(self, config: Config) -> tuple[Problem, ...]:
        return tuple(evolve(one, path="") for one in super().problems(config))


@bug("a_bad_section_is_reported_with_its_place")
class QuotesTheKey(Toy):
    def problems(self, config: Config) -> tuple[Problem, ...]:
        key = config.gpu_providers[0].api_key
        return tuple(evolve(one, remedy=key.reveal() if key else "")
                     for one in super().problems(config))  # fmt: skip


@bug("a_good_section_has_no_problems", "without_a_section_there_is_no_problem")
class AlwaysComplains(Toy):
    def problems(self, config: Config) -> tuple[Problem, ...]:
        return (Problem("No good.", path=f"providers.{NAME}.api_key"),)


@bug("the_host_takes_the_plugin")
class Misspelt(Toy):
    @hookimpl
    async def llmao_fecth(self, request: FetchRequest) -> None:
        """Nobody calls it."""


# ---- whole worlds


@bug("an_empty_world_is_an_empty_answer")
class TakesNothingForAnError(Toy):
    def listing(self, rows: list[Row]) -> Listing:
        if not rows:
            raise Garbled("no boxes")
        return super().listing(rows)


@bug("everything_is_read_however_many_pages")
class FirstPageOnly(Toy):
    async def page(self, request: FetchRequest, http: Http, now: float, page: int) -> Any:
        return {**await super().page(request, http, now, page), "more": False}


@bug("a_later_page_that_fails_fails_the_read")
class KeepsWhatItHas(Toy):
    async def page(self, request: FetchRequest, http: Http, now: float, page: int) -> Any:
        try:
            return await super().page(request, http, now, page)
        except FetchError:
            if page:
                return {"boxes": []}
            raise


@bug("each_read_shows_the_world_as_it_is_now")
class RemembersTheFirst(Toy):
    first: Listing | None = None

    async def fetch(self, request: FetchRequest, http: Http, now: float) -> Listing:
        self.first = self.first or await super().fetch(request, http, now)
        return self.first


@bug("ids_are_text_and_each_is_there_once")
class IdsAreNumbers(Toy):
    def instance(self, row: Row, labels: Mapping[str, str]) -> Instance:
        return evolve(super().instance(row, labels), id=int(row["id"][4:]))  # type: ignore[arg-type]


@bug("ids_are_text_and_each_is_there_once")
class EverythingTwice(Toy):
    def listing(self, rows: list[Row]) -> Listing:
        once = super().listing(rows).instances
        return Listing(once + once)


@bug("two_reads_of_one_world_are_equal")
class CountsItsReads(Toy):
    reads = itertools.count()

    def detail(self, row: Row) -> str:
        return str(next(self.reads))


@bug("reading_changes_nothing")
class WritesWhileReading(Toy):
    async def fetch(self, request: FetchRequest, http: Http, now: float) -> Listing:
        await self.send(request, http, "POST", "/boxes/toy-0")
        return await super().fetch(request, http, now)


@bug("the_answer_is_a_whole_listing")
class IsAPart(Toy):
    def listing(self, rows: list[Row]) -> Listing:
        return evolve(super().listing(rows), complete=False)


@bug("the_answer_is_a_whole_listing")
class ReturnsAList(Toy):
    def listing(self, rows: list[Row]) -> Listing:
        return list(super().listing(rows).instances)  # type: ignore[return-value]


# ---- failures


@bug("a_failure_is_never_an_answer", "a_mishap_raises_its_own_error")
class FailureIsEmpty(Toy):
    async def fetch(self, request: FetchRequest, http: Http, now: float) -> Listing:
        try:
            return await super().fetch(request, http, now)
        except FetchError:
            return Listing()


@bug("a_failure_is_never_an_answer")
class FailureIsTheLast(Toy):
    last: Listing | None = None

    async def fetch(self, request: FetchRequest, http: Http, now: float) -> Listing:
        try:
            self.last = await super().fetch(request, http, now)
        except FetchError:
            if self.last is None:
                raise
        return self.last


@bug("a_failure_is_never_an_answer")
class HalfAPageWillDo(Toy):
    async def page(self, request: FetchRequest, http: Http, now: float, page: int) -> Any:
        answer = await self.get(request, http, now, f"/boxes?page={page}")
        try:
            return answer.json() if "boxes" in answer.json() else {"boxes": []}
        except (ValueError, TypeError):
            return {"boxes": []}


@bug("a_failure_is_never_an_answer")
class NullIsEmpty(Toy):
    async def page(self, request: FetchRequest, http: Http, now: float, page: int) -> Any:
        answer = await self.get(request, http, now, f"/boxes?page={page}")
        found = super().whole(answer) if b"null" not in answer.content else {}
        return found or {"boxes": []}


@bug("a_mishap_raises_its_own_error")
class BusyIsDown(Toy):
    def trouble(self, answer: Any, now: float) -> FetchError:
        found = super().trouble(answer, now)
        return Unreachable("busy") if isinstance(found, Busy) else found


@bug("a_mishap_raises_its_own_error", "the_host_files_a_failure_under_its_name")
class RaisesWhatIsNoFetchError(Toy):
    def trouble(self, answer: Any, now: float) -> FetchError:
        return RuntimeError("no")  # type: ignore[return-value]


@bug("a_wrong_key_is_refused")
class WrongKeyIsNonsense(Toy):
    def trouble(self, answer: Any, now: float) -> FetchError:
        return Garbled("what?") if answer.status_code == 401 else super().trouble(answer, now)


@bug("a_wrong_key_is_refused")
class AsksWithoutKey(Toy):
    async def fetch(self, request: FetchRequest, http: Http, now: float) -> Listing:
        return await super().fetch(request, http, now) if request.api_key else Listing()


@bug("busy_says_for_how_long")
class ForgetsHowLong(Toy):
    def trouble(self, answer: Any, now: float) -> FetchError:
        found = super().trouble(answer, now)
        return Busy("busy") if isinstance(found, Busy) else found


# ---- secrets


@bug("no_secret_gets_out_of_a_failure")
class QuotesTheAnswer(Toy):
    def trouble(self, answer: Any, now: float) -> FetchError:
        return type(super().trouble(answer, now))(answer.text)


@bug("no_secret_gets_out_of_a_failure")
class ChainsTheError(Toy):
    async def get(self, request: FetchRequest, http: Http, now: float, path: str) -> Any:
        try:
            return await self.send(request, http, "GET", path)
        except Exception as error:
            raise Unreachable("no answer") from error


@bug("no_secret_gets_out_of_an_answer")
class ShowsTheSecret(Toy):
    def detail(self, row: Row) -> str:
        return str(row["secret"])


@bug("no_secret_gets_out_of_an_answer")
class LogsTheKey(Toy):
    def headers(self, request: FetchRequest) -> dict[str, str]:
        made = super().headers(request)
        logging.getLogger("toy").debug("asking with %s", made)
        return made


@bug("no_secret_gets_out_of_an_answer")
class PrintsRows(Toy):
    def detail(self, row: Row) -> str:
        print(row)
        return ""


@bug("what_is_shown_of_a_box_hides_its_secrets")
class ShowsTheSecretOfNonsense(Toy):
    def detail(self, row: Row) -> str:
        return str(row) if row.get("gpus") is None else ""


@bug("the_key_goes_to_the_far_end_and_into_no_url")
class KeyInTheUrl(Toy):
    async def send(self, request: FetchRequest, http: Http, method: str, path: str) -> Any:
        key = request.api_key.reveal() if request.api_key else ""
        return await super().send(request, http, method, f"{path}&key={key}")


@bug("a_redirect_is_not_followed")
class FollowsRedirects(Toy):
    async def send(self, request: FetchRequest, http: Http, method: str, path: str) -> Any:
        answer = await super().send(request, http, method, path)
        if elsewhere := answer.headers.get("location"):
            await http.request(method, elsewhere, headers=self.headers(request))
        return answer


# ---- time


@bug("each_request_ends_in_time")
class WaitsForEver(Toy):
    async def send(self, request: FetchRequest, http: Http, method: str, path: str) -> Any:
        return await super().send(evolve(request, timeout_s=9e9), http, method, path)


@bug("a_read_that_is_cancelled_ends")
class ReadSwallowsCancellation(Toy):
    async def fetch(self, request: FetchRequest, http: Http, now: float) -> Listing:
        return await swallowed(super().fetch(request, http, now)) or Listing()


@bug("an_order_that_is_cancelled_ends")
class OrderSwallowsCancellation(Toy):
    async def execute(self, order: Order, request: FetchRequest, http: Http, now: float) -> Outcome:
        return await swallowed(super().execute(order, request, http, now)) or DONE
