"""Who asks: the one value that sign-in hands to pages, forms and the API.

Rule of this file: shapes only. The sign-in puts a User into the scope of every request before a
handler sees it; a handler asks `user_of` and never looks at cookies or headers itself.

A handler is for admins unless it says otherwise: `@get("/models", opt=FOR_CALLERS)`.
"""

import hmac
from collections.abc import Mapping
from typing import Any

from attrs import frozen
from litestar.connection import ASGIConnection

USER = "llmao_user"
CSRF = "llmao_csrf"
SESSION = "llmao_session"

_FOR = "llmao_for"
FOR_CALLERS: Mapping[str, str] = {_FOR: "callers"}
FOR_STRANGERS: Mapping[str, str] = {_FOR: "strangers"}


@frozen
class User:
    """Somebody signed in, or anybody. name: for the action log; "" for who is not signed in."""

    name: str = ""
    admin: bool = False


ANYBODY = User()


def user_of(connection: ASGIConnection[Any, Any, Any, Any]) -> User:
    """Return who asks; anybody when no sign-in has said."""
    user = connection.scope["state"].get(USER)
    return user if isinstance(user, User) else ANYBODY


def csrf_of(connection: ASGIConnection[Any, Any, Any, Any]) -> str:
    """Return what a form of this visitor must hold in its field `csrf`, "" without a session."""
    return str(connection.scope["state"].get(CSRF, ""))


def may_sign_out(connection: ASGIConnection[Any, Any, Any, Any]) -> bool:
    """Tell whether this visitor signed in here, and not at a proxy or by being on this machine."""
    session = connection.scope["state"].get(SESSION)
    return bool(getattr(session, "name", ""))


def csrf_holds(connection: ASGIConnection[Any, Any, Any, Any], given: str) -> bool:
    """Tell whether a form's field `csrf` is this visitor's; False without a session."""
    held = csrf_of(connection)
    return bool(held) and hmac.compare_digest(held.encode(), given.encode())


def is_for_callers(opt: Mapping[str, Any]) -> bool:
    """Tell whether a handler with these options may answer a caller."""
    return opt.get(_FOR) is not None


def is_for_strangers(opt: Mapping[str, Any]) -> bool:
    """Tell whether a handler with these options may answer who is not signed in."""
    return opt.get(_FOR) == "strangers"
