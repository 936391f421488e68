"""How a request is turned away, and who may not pass.

Rule of this file: what is said to who is turned away tells what to do, and is safe to show.
"""

from typing import Any

import structlog
from litestar.connection import ASGIConnection
from litestar.exceptions import HTTPException
from litestar.handlers import BaseRouteHandler

from llmao_web.people import user_of

_log = structlog.get_logger("llmao.auth")


class TurnedAwayError(HTTPException):
    """A request that is not answered; `detail` is for whoever sent it."""


def is_local(place: str, longest: int) -> bool:
    """Tell whether a place somebody names is on this site, so that nobody is sent elsewhere.

    A browser reads `//` and `/\\` as another site's name, and skips tabs and line breaks.
    """
    plain = place.startswith("/") and not place.startswith("//") and "\\" not in place
    return plain and place.isprintable() and len(place) <= longest


def admins_only(
    connection: ASGIConnection[Any, Any, Any, Any], _: BaseRouteHandler | None = None
) -> None:
    """Let admins pass and log who else tried; a guard, and the sign-in's own rule."""
    user = user_of(connection)
    if not user.admin:
        path = connection.scope["path"]
        _log.warning(
            "not an admin", user=user.name, method=connection.scope.get("method"), path=path
        )
        raise TurnedAwayError(status_code=403, detail="Only an admin may do or see this.")
