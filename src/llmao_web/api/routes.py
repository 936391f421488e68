"""The addresses of the API, and its OpenAPI description.

Rule of this file: it reads and changes nothing; everything but the models is for admins.
"""

import asyncio
from importlib.metadata import version
from typing import Annotated, Any

from attrs import frozen
from litestar import Request, Response, Router, get
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme
from litestar.params import FromQuery, PathParameter, QueryParameter

from llmao_core.records import View
from llmao_web.auth.guards import TurnedAwayError
from llmao_web.desk import Desk, Office, Records
from llmao_web.pages.names import page_id
from llmao_web.people import FOR_CALLERS, user_of
from llmao_web.shell.ledger import EntryKind
from llmao_web.shell.store import Wanted

from . import say, shapes
from .examples import answers

API = "/api/v1"
MOST = 1000
_AGAIN_S = "5"
_NO_STORE = {"cache-control": "no-store"}
_DESCRIPTION = (
    "What llmao knows, as its pages show it. Times are epoch seconds, null is unknown. "
    "Send a token of `api_tokens` as `Authorization: Bearer TOKEN`; a token with the role "
    "`caller` sees the models only."
)

AnyRequest = Request[Any, Any, Any]
Limit = Annotated[int, QueryParameter(ge=1, le=MOST, description="How many at most.")]
Before = Annotated[
    int,
    QueryParameter(ge=0, le=2**53, description="Only entries below this number; 0 for the newest."),
]


@frozen
class Counter:
    """Where the handlers have their answers from."""

    desk: Desk
    office: Office | None
    records: Records
    fleet: str

    def view(self) -> View:
        """Return the newest view; turns the request away before the first pass."""
        view = self.desk.view()
        if view is None:
            raise TurnedAwayError(
                status_code=503,
                detail="No pass has run yet; ask again.",
                headers={"retry-after": _AGAIN_S},
            )
        return view

    def known(self) -> say.Known:
        """Return what is configured, listed, and said by admins."""
        intended, office = self.desk.intended(), self.office
        if intended is None:
            return say.Known(self.fleet)
        return say.Known(
            self.fleet,
            {model.model_name: model for model in reversed(intended.config.models)},
            intended.labels,
            office.notes() if office else {},
            office.listings() if office else {},
        )


def api_routes(desk: Desk, office: Office | None, records: Records, fleet: str) -> Router:
    """Return everything under `/api/v1`."""
    counter = Counter(desk, office, records, fleet)
    return Router(
        API,
        route_handlers=[
            _models(counter),
            *_of_the_pass(counter),
            _plan(counter),
            _deployment(counter),
            *_of_the_past(counter),
        ],
        response_headers=_NO_STORE,
        include_in_schema=True,
        security=[{"token": []}],
        tags=["llmao"],
    )


def description() -> OpenAPIConfig:
    """Return how the API is described, at `/api/v1/openapi.json`."""
    scheme = SecurityScheme(type="http", scheme="bearer", description="A token of `api_tokens`.")
    return OpenAPIConfig(
        title="llmao",
        version=version("llmao"),
        description=_DESCRIPTION,
        components=Components(security_schemes={"token": scheme}),
        # a folder of its own, because Litestar answers what else is in it with a page
        path=f"{API}/openapi.json",
        render_plugins=[JsonRenderPlugin(path="/")],
        use_handler_docstrings=True,
    )


def _models(counter: Counter) -> HTTPRouteHandler:
    @get(
        "/models",
        opt=FOR_CALLERS,
        summary="The models callers can ask for",
        responses=answers(shapes.Models, "The models of the newest pass.", 503),
    )
    async def models(request: AnyRequest) -> shapes.Models:
        """Return every model; how it is served is told to admins only."""
        view, admin = counter.view(), user_of(request).admin
        made = await asyncio.to_thread(say.models, view, counter.known(), admin=admin)
        return shapes.Models(view.at, made)

    return models


def _of_the_pass(counter: Counter) -> list[HTTPRouteHandler]:
    @get(
        "/view",
        summary="All that the newest pass concluded",
        responses=answers(shapes.View, "The newest view.", 503),
    )
    async def view() -> shapes.View:
        """Return models, deployments, boxes, attention items and sources of one pass."""
        return await asyncio.to_thread(say.view, counter.view(), counter.known())

    @get(
        "/boxes",
        summary="Hosts and instances",
        responses=answers(shapes.Boxes, "The boxes of the newest pass.", 503),
    )
    async def boxes() -> shapes.Boxes:
        """Return every host of fleet.hosts, and every instance that no host names."""
        view = counter.view()
        made = await asyncio.to_thread(say.boxes, view, counter.known())
        return shapes.Boxes(view.at, made)

    @get(
        "/items",
        summary="Work needed",
        responses=answers(shapes.Items, "The attention items of the newest pass.", 503),
    )
    async def items() -> shapes.Items:
        """Return what a person should look at, what hurts callers first."""
        view = counter.view()
        return shapes.Items(view.at, [say.item(each) for each in view.items])

    @get(
        "/sources",
        summary="What llmao reads",
        responses=answers(shapes.Sources, "The sources of the newest pass.", 503),
    )
    async def sources() -> shapes.Sources:
        """Return every source: how old it is, and why it cannot be read."""
        view = counter.view()
        return shapes.Sources(view.at, [say.source(each) for each in view.sources])

    return [view, boxes, items, sources]


def _plan(counter: Counter) -> HTTPRouteHandler:
    @get(
        "/plan",
        sync_to_thread=True,
        summary="What llmao is about to do",
        responses=answers(shapes.Plan, "The plan of the newest pass.", 503),
    )
    def plan() -> shapes.Plan:
        """Return the actions of the newest pass, held ones included."""
        view, planned = counter.view(), counter.desk.plan()
        made = [say.action(each) for each in planned.actions] if planned else []
        return shapes.Plan(view.at, made)

    return plan


def _deployment(counter: Counter) -> HTTPRouteHandler:
    @get(
        "/deployments/{deployment_id:str}",
        summary="One deployment",
        responses=answers(shapes.Explained, "The deployment in the newest pass.", 400, 404, 503),
    )
    async def deployment(
        deployment_id: Annotated[str, PathParameter(description="The id it has in LiteLLM.")],
    ) -> shapes.Explained:
        """Return one deployment, the action planned for it, and its newest changes."""
        view, planned = counter.view(), counter.desk.plan()
        records = (
            each for each in view.records if page_id(counter.fleet, each.key) == deployment_id
        )
        record = next(records, None)
        if record is None:
            raise TurnedAwayError(status_code=404, detail="There is no deployment with this id.")
        actions = planned.actions if planned else ()
        action = next((each for each in actions if each.key == record.key), None)
        moves = await counter.records.transitions(record.key)
        return shapes.Explained(
            view.at,
            say.deployment(record, counter.known()),
            say.action(action) if action else None,
            say.transitions(moves),
        )

    return deployment


def _of_the_past(counter: Counter) -> list[HTTPRouteHandler]:
    @get(
        "/actions",
        summary="What was decided and done",
        responses=answers(shapes.Ledger, "Entries of the ledger, newest first.", 400),
    )
    async def actions(
        kind: FromQuery[EntryKind | None] = None, before: Before = 0, limit: Limit = 100
    ) -> Response[shapes.Ledger]:
        """Return entries of the ledger, newest first, a page at a time."""
        kinds = frozenset({kind} if kind else ())
        found = await counter.records.entries(Wanted(kinds, before=before, limit=limit))
        more = found[-1].number if len(found) == limit else None
        return Response(shapes.Ledger([say.entry(each) for each in found], more))

    @get(
        "/transitions",
        summary="How lifecycles changed",
        responses=answers(shapes.Transitions, "Changes of lifecycles, newest first.", 400),
    )
    async def transitions(limit: Limit = 100) -> shapes.Transitions:
        """Return the newest changes of lifecycles."""
        return shapes.Transitions(say.transitions(await counter.records.transitions(None, limit)))

    return [actions, transitions]
