"""A small GPU provider and its plugin: right in every way, to be broken one way at a time.

Rule of this file: every helper of the plugin is a method, so that a bug is a subclass of a few
lines.
"""

import asyncio
import itertools
import json
from collections.abc import Mapping
from typing import Any, ClassVar

import httpx

from llmao_core.actions import ActionKind, Order, Outcome, OutcomeKind
from llmao_core.config import Config
from llmao_core.errors import (
    Busy,
    FetchError,
    Garbled,
    NotYet,
    OutcomeUnknown,
    Problem,
    Refused,
    Unauthorized,
    Unreachable,
)
from llmao_core.hooks import FetchRequest, Http, SourceCard, SourceKind, hookimpl
from llmao_core.providers import (
    address,
    count,
    identifier,
    number,
    parse,
    port,
    retry_after_s,
    section_problems,
    text,
    unique_labels,
    unrepeated,
)
from llmao_core.snapshots import BoxStatus, Endpoint, Instance, Listing
from llmao_core.testing.kit import Box, ListingBench
from llmao_core.testing.kit_wire import Mishap

PAGE = 20
NAME = "toy"
Row = dict[str, Any]


class Toy:
    """The plugin. Its hooks do nothing but call the methods below them."""

    # ---- hooks

    @hookimpl
    def llmao_source(self) -> tuple[SourceCard, ...]:
        return (self.card(),)

    @hookimpl
    def llmao_check(self, config: Config) -> tuple[Problem, ...]:
        return self.problems(config)

    @hookimpl
    async def llmao_fetch(self, request: FetchRequest, http: Http, now: float) -> Listing:
        return await self.fetch(request, http, now)

    @hookimpl
    async def llmao_execute(
        self, order: Order, request: FetchRequest, http: Http, now: float
    ) -> Outcome:
        return await self.execute(order, request, http, now)

    # ---- at start

    def card(self) -> SourceCard:
        return SourceCard(NAME, SourceKind.LISTING, 60, frozenset({ActionKind.REBOOT_BOX}))

    def problems(self, config: Config) -> tuple[Problem, ...]:
        return section_problems(config, NAME, shortest_s=1)

    # ---- reads

    async def fetch(self, request: FetchRequest, http: Http, now: float) -> Listing:
        return self.listing([row async for row in self.rows(request, http, now)])

    async def rows(self, request: FetchRequest, http: Http, now: float) -> Any:
        for page in itertools.count():
            answer = await self.page(request, http, now, page)
            for row in answer["boxes"]:
                yield row
            if not answer.get("more"):
                return

    async def page(self, request: FetchRequest, http: Http, now: float, page: int) -> Any:
        return self.whole(await self.get(request, http, now, f"/boxes?page={page}"))

    def whole(self, answer: Any) -> Any:
        data = parse(answer.content, NAME)
        if not isinstance(data, dict) or not isinstance(data.get("boxes"), list):
            raise Garbled("no boxes")
        if data["rows"] != len(data["boxes"]):
            raise Garbled("half a page")
        return data

    async def get(self, request: FetchRequest, http: Http, now: float, path: str) -> Any:
        try:
            answer = await self.send(request, http, "GET", path)
        except httpx.HTTPError as error:
            raise Unreachable(f"no answer ({type(error).__name__})") from None
        if answer.status_code != 200:
            raise self.trouble(answer, now)
        return answer

    async def send(self, request: FetchRequest, http: Http, method: str, path: str) -> Any:
        return await http.request(
            method,
            request.base_url + path,
            headers=self.headers(request),
            timeout=request.timeout_s,
        )

    def headers(self, request: FetchRequest) -> dict[str, str]:
        key = request.api_key
        return {"Authorization": f"Bearer {key.reveal()}"} if key else {}

    def trouble(self, answer: Any, now: float) -> FetchError:
        status = answer.status_code
        if status == 401:
            return Unauthorized("the key is refused")
        if status == 429:
            return Busy("too often", retry_after_s(answer.headers.get("retry-after"), now))
        return Unreachable("down") if status >= 500 else Garbled(f"answered {status}")

    def listing(self, rows: list[Row]) -> Listing:
        labels = unique_labels({row["id"]: row.get("label") for row in rows}, ())
        return Listing(unrepeated((self.instance(row, labels) for row in rows), NAME))

    def instance(self, row: Row, labels: Mapping[str, str]) -> Instance:
        return Instance(
            id=identifier(row["id"]),
            status=self.status(row.get("status")),
            raw_status=text(row.get("status")),
            detail=self.detail(row),
            names=self.names(row, labels),
            addresses=self.addresses(row),
            endpoints=self.endpoints(row),
            gpu_count=count(row.get("gpus")),
            price_per_hour=number(row.get("price")),
        )

    def status(self, word: Any) -> BoxStatus:
        return BoxStatus.UP if word == "up" else BoxStatus.UNKNOWN

    def detail(self, row: Row) -> str:
        return text(row.get("note"))

    def names(self, row: Row, labels: Mapping[str, str]) -> tuple[str, ...]:
        return (labels[row["id"]],) if row["id"] in labels else ()

    def addresses(self, row: Row) -> tuple[str, ...]:
        at = address(row.get("address"))
        return (at,) if at else ()

    def endpoints(self, row: Row) -> dict[int, Endpoint]:
        ports, at = row.get("ports"), address(row.get("address"))
        pairs = ports.items() if isinstance(ports, dict) and at else ()
        found = ((port(listen), port(public)) for listen, public in pairs)
        return {listen: Endpoint("http", at, to) for listen, to in found if listen and to}

    # ---- the one write

    async def execute(self, order: Order, request: FetchRequest, http: Http, now: float) -> Outcome:
        if order.kind is not ActionKind.REBOOT_BOX:
            raise Refused("no such kind")
        if not identifier(order.target):
            raise Refused("no such id")
        if await self.reboots_already(order, request, http, now):
            return Outcome(OutcomeKind.ALREADY)
        return await self.reboot(order, request, http, now)

    async def reboots_already(
        self, order: Order, request: FetchRequest, http: Http, now: float
    ) -> bool:
        try:
            answer = await self.get(request, http, now, f"/boxes/{order.target}")
        except FetchError:
            return False
        return bool(json.loads(answer.content)["reboots"])

    async def reboot(self, order: Order, request: FetchRequest, http: Http, now: float) -> Outcome:
        try:
            answer = await self.send(request, http, "POST", f"/boxes/{order.target}/reboot")
        except httpx.ConnectError:
            raise NotYet("not sent") from None
        except httpx.HTTPError:
            raise OutcomeUnknown("no answer") from None
        return self.judged(answer)

    def judged(self, answer: Any) -> Outcome:
        if answer.status_code == 429:
            raise NotYet("too often")
        if answer.status_code >= 500:
            raise OutcomeUnknown("down")
        if answer.status_code != 200:
            raise Refused(f"answered {answer.status_code}")
        if answer.content.lstrip().startswith(b"<"):
            raise OutcomeUnknown("something else answered")
        return Outcome(OutcomeKind.DONE)


class ToyBench(ListingBench):
    """The provider, in a dictionary. toy: the plugin class under test."""

    toy: ClassVar[type[Toy]] = Toy
    card = NAME
    optional = ("label", "address", "ports", "status", "gpus", "price", "note")

    def __init__(self) -> None:
        self.plugin = self.toy()
        self.card = self.plugin.card().name
        self.boxes: dict[str, Row] = {}
        self.half = False
        super().__init__()

    def transport(self) -> httpx.AsyncBaseTransport:
        return httpx.MockTransport(self._answer)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        if self.key not in (request.headers.get("authorization") or str(request.url)):
            return httpx.Response(401)
        _, _, box_id, *_ = f"{request.url.path}//".split("/")
        if not box_id:
            return self._page(int(request.url.params.get("page", "0")))
        if box_id not in self.boxes:
            return httpx.Response(404)
        if request.method == "POST":
            self.boxes[box_id]["reboots"] += 1
        return httpx.Response(200, json=self.boxes[box_id])

    def _page(self, page: int) -> httpx.Response:
        rows = list(self.boxes.values())
        shown = rows[PAGE * page : PAGE * (page + 1)]
        data = {"rows": len(shown), "more": len(rows) > PAGE * (page + 1), "boxes": shown}
        if self.half:
            data["boxes"] = shown[: len(shown) // 2]
        return httpx.Response(200, content=json.dumps(data))

    def plant(self, box: Box) -> str:
        box_id = f"toy-{len(self.boxes)}"
        ports = {str(listen): public for listen, public in box.ports.items()}
        self.boxes[box_id] = {"id": box_id, "label": box.label, "address": f" {box.address}\n",
                              "ports": ports, "status": "up", "gpus": 1, "price": 0.5,
                              "note": "fine", "secret": box.secret, "reboots": 0}  # fmt: skip
        return box_id

    def show(self, box_id: str, **fields: object) -> None:
        self.boxes[box_id] |= fields

    def show_status(self, box_id: str, word: str) -> None:
        self.show(box_id, status=word)

    def truth(self) -> Mapping[str, object]:
        return {box_id: dict(row) for box_id, row in self.boxes.items()}

    def mishap(self, kind: Mishap, *, nth: int = 1, writes: bool = False) -> None:
        if kind is Mishap.HALF_A_PAGE:
            self.half = True
        else:
            super().mishap(kind, nth=nth, writes=writes)


async def swallowed(work: Any) -> Any:
    """Return what work comes to, and None when it is cancelled, as a careless plugin would."""
    try:
        return await work
    except asyncio.CancelledError:
        return None
