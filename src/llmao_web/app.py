"""The web application: routes, headers, and the one place where an error becomes an answer.

Rule of this file: it wires and decides nothing. What is shown comes from the desk, and an answer
to an error tells what to do and never what was inside.
"""

import http
from collections.abc import Callable, Mapping
from typing import Any

import structlog
from litestar import Litestar, Request, Response, Router, get
from litestar.enums import MediaType
from litestar.exceptions import HTTPException
from litestar.handlers import HTTPRouteHandler
from litestar.response import Redirect
from litestar.serialization import encode_json
from litestar.types import Message, Scope
from prometheus_client import CollectorRegistry

from llmao_core.config import Config
from llmao_core.errors import LlmaoError

from .api.routes import api_routes, description
from .auth.bearers import Bearers
from .auth.gatehouse import Gatehouse, middleware, sessions_of
from .auth.guards import TurnedAwayError
from .auth.routes import SignIn, sign_in_routes
from .box_api import box_routes
from .box_files import box_files
from .desk import Clock, Desk, Office, Records
from .metrics import metrics
from .pages.admin import AdminPages, admin_page
from .pages.box import BoxPages, box_page
from .pages.boxes_page import BoxesPages, boxes_page
from .pages.deeds import deed_routes
from .pages.deployment import DeploymentPages, deployment_page
from .pages.live import Live, live_page
from .pages.log import log_page
from .pages.models import ModelsPages, models_page
from .pages.render import Renderer, page
from .pages.tour import Guide, Tour
from .peers import networks
from .people import FOR_CALLERS
from .shell.store import MemoryStore
from .static_files import static_files

LARGEST_BODY_BYTES = 64 * 1024
SECURITY_HEADERS: Mapping[str, str] = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; "
        "img-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    # not `no-referrer`: with it a browser sends our own forms with the origin `null`
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
_ENCODED_HEADERS = [(name.encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]
_SAID = {
    400: "The request makes no sense.",
    401: "Sign in first.",
    403: "This is not yours to see.",
    404: "There is nothing at this address.",
    405: "This address does not take that method.",
    413: f"The request is larger than {LARGEST_BODY_BYTES} bytes.",
    500: "llmao made a mistake; its log says which.",
}
# What people are told besides: whom it concerns, and what to do.
_HINTS = {
    404: "A box or a deployment that is gone for good has no page any more.",
    429: "Wait a minute and try again.",
    500: "Try again. Callers are not concerned: LiteLLM goes on serving them.",
    503: "Try again in a minute.",
}
_MACHINES = ("/vllm/", "/box/", "/api/", "/healthz", "/metrics", "/readyz", "/static/")


def create_app(
    desk: Desk,
    config: Config,
    clock: Clock,
    records: Records | None = None,
    office: Office | None = None,
    counted: CollectorRegistry | None = None,
    tour: Tour | None = None,
) -> Litestar:
    """Return the application; raises ValueError for a trusted proxy that is no CIDR.

    records: what pages show of the past, nothing without them. office: what admins see and do,
    no page of theirs without it. counted: what the shell counts, shown at `/metrics`. tour: of
    the demo.
    """
    renderer = Renderer(config.fleet.name, clock)
    sessions = sessions_of(config)
    proxies = networks(config.server.trusted_proxies)
    live = Live(desk, clock)
    if tour:
        Guide(tour, renderer, live)
    gatehouse = Gatehouse(config, clock, sessions, Bearers(config.api_tokens, proxies))
    # what people and the API ask for; the rest answers boxes and load balancers
    guarded = Router(
        "/",
        route_handlers=[
            index,
            *sign_in_routes(SignIn(config, clock, sessions, renderer, office)),
            api_routes(desk, office, records or MemoryStore(), config.fleet.name),
            *_pages(desk, records or MemoryStore(), config, clock, renderer, live),
            *(_offices(desk, office, config, clock, renderer, live) if office else ()),
        ],
        middleware=[middleware(gatehouse)],
    )
    return Litestar(
        route_handlers=[
            guarded,
            healthz,
            metrics(desk, clock, counted),
            _readyz(desk),
            *box_routes(desk, config.server, clock),
            box_files(),
            static_files(),
        ],
        exception_handlers={Exception: _on_error(renderer)},
        before_send=[_secure, _without_body],
        request_max_body_size=LARGEST_BODY_BYTES,
        openapi_config=description(),
        include_in_schema=False,
        logging_config=None,
        debug=False,
    )


def _pages(
    desk: Desk, records: Records, config: Config, clock: Clock, renderer: Renderer, live: Live
) -> list[HTTPRouteHandler]:
    """Return the handlers of what people look at, and of what keeps it current."""
    fleet = config.fleet.name
    models = ModelsPages(desk, clock, renderer, fleet)
    deployments = DeploymentPages(desk, records, clock, renderer, fleet)
    live.sources |= {**models.sources(), **deployments.sources()}
    return [
        models_page(models, live, renderer),
        deployment_page(deployments, live, renderer),
        live_page(live),
    ]


def _offices(
    desk: Desk, office: Office, config: Config, clock: Clock, renderer: Renderer, live: Live
) -> list[HTTPRouteHandler]:
    """Return the handlers of what only admins see and do."""
    fleet = config.fleet.name
    boxes = BoxesPages(desk, office, clock, renderer, fleet)
    box = BoxPages(desk, office, clock, renderer, fleet)
    admin = AdminPages(desk, office, renderer, fleet)
    live.sources |= {**boxes.sources(), **box.sources(), **admin.sources()}
    return [
        boxes_page(boxes, live, renderer),
        box_page(box, live, renderer),
        admin_page(admin, live, renderer),
        log_page(office, renderer, fleet),
        *deed_routes(office, config.server.public_url),
    ]


@page("/", opt=FOR_CALLERS)
async def index() -> Redirect:
    """Send people to the page that says most."""
    return Redirect("/models")


@get("/healthz")
async def healthz() -> Response[dict[str, str]]:
    """Say that the process runs, and nothing else."""
    return Response({"status": "ok"}, headers={"cache-control": "no-store"})


def _readyz(desk: Desk) -> HTTPRouteHandler:
    @get("/readyz")
    async def readyz() -> Response[dict[str, Any]]:
        """Say whether every configured source was tried once, and who leads was known."""
        ready, reasons = desk.ready()
        return Response(
            {"ready": ready, "reasons": list(reasons)},
            status_code=200 if ready else 503,
            headers={"cache-control": "no-store"},
        )

    return readyz


async def _secure(message: Message, _scope: Scope) -> None:
    if message["type"] == "http.response.start":
        message["headers"] = [*message["headers"], *_ENCODED_HEADERS]


async def _without_body(message: Message, scope: Scope) -> None:
    if message["type"] == "http.response.body" and scope.get("method") == "HEAD":
        message["body"] = b""


def _on_error(
    renderer: Renderer,
) -> Callable[[Request[Any, Any, Any], Exception], Response[str]]:
    log = structlog.get_logger("llmao.web")

    def answer_error(request: Request[Any, Any, Any], error: Exception) -> Response[str]:
        """Turn any exception into JSON for machines or a page for people."""
        status, message = _explained(error)
        if status >= 500:
            log.error("request failed", path=_path_of(request), status=status, exc_info=error)
        headers = {"cache-control": "no-store", **_given_headers(error)}
        title = http.HTTPStatus(status).phrase.capitalize()
        if request.method == "HEAD":
            return Response("", status_code=status, headers=headers)
        if _wants_page(request):
            context = {
                "title": title,
                "message": message,
                "hint": _HINTS.get(status, ""),
                "status": status,
            }
            return renderer.page("error.html.j2", context, status, headers, request)
        code = title.lower().replace(" ", "_").replace("-", "_")
        body = encode_json({"error": {"code": code, "message": message}}).decode()
        return Response(body, media_type=MediaType.JSON, status_code=status, headers=headers)

    return answer_error


def _explained(error: Exception) -> tuple[int, str]:
    """Return status and sentence; what an unexpected exception says stays in the log."""
    if isinstance(error, LlmaoError):
        return 500, str(error)
    if isinstance(error, TurnedAwayError):
        return error.status_code, error.detail
    status = error.status_code if isinstance(error, HTTPException) else 500
    phrase = http.HTTPStatus(status).phrase
    return status, _SAID.get(status, f"{phrase}.")


def _given_headers(error: Exception) -> dict[str, str]:
    return dict(error.headers or {}) if isinstance(error, HTTPException) else {}


def _wants_page(request: Request[Any, Any, Any]) -> bool:
    if _path_of(request).startswith(_MACHINES):
        return False
    return "text/html" in request.headers.get("accept", "")


def _path_of(request: Request[Any, Any, Any]) -> str:
    """Return the path; `url` reads Host and query, too, and fails where they make no sense."""
    return str(request.scope["path"])
