"""Who asks: the one value that sign-in hands to pages, forms and the API.

Rule of this file: shapes only. The sign-in puts a User into the scope of every request before a
handler sees it; a handler asks `user_of` and never looks at cookies or headers itself.
"""

from typing import Any

from attrs import frozen
from litestar.connection import ASGIConnection

USER = "llmao_user"
CSRF = "llmao_csrf"


@frozen
class User:
    """Somebody signed in, or anybody. name: for the action log; "" for a caller without one."""

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
