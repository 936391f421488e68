"""What a deed came to: carried to the next page in a cookie, shown there once, and dropped.

Rule of this file: it is text and shown as text. Whatever else such a cookie holds is nothing.
"""

import base64
import json
from typing import Any

from litestar.connection import ASGIConnection
from litestar.datastructures import Cookie

COOKIE = "llmao_flash"
LONGEST = 900
_KEPT_S = 60
_TONES = ("good", "bad")


def telling(tone: str, words: str, *, secure: bool = False) -> Cookie:
    """Return the cookie that has the next page say these words. tone: `good` or `bad`."""
    cut = words if len(words) <= LONGEST else words[: LONGEST - 1] + "…"
    text = json.dumps([tone, cut], ensure_ascii=False).encode("utf-8", "replace")
    return Cookie(
        key=COOKIE,
        value=base64.urlsafe_b64encode(text).decode().rstrip("="),
        max_age=_KEPT_S,
        httponly=True,
        samesite="lax",
        secure=secure,
    )


def told(request: ASGIConnection[Any, Any, Any, Any]) -> tuple[tuple[str, str], ...]:
    """Return what this page is to say, pairs of tone and sentence."""
    given = request.cookies.get(COOKIE, "")
    if not given or len(given) > 8 * LONGEST:
        return ()
    try:
        said = json.loads(base64.urlsafe_b64decode(given + "=" * (-len(given) % 4)))
    except (ValueError, RecursionError):
        return ()
    if not isinstance(said, list) or len(said) != 2:
        return ()
    tone, words = said
    if tone not in _TONES or not isinstance(words, str):
        return ()
    return ((tone, words[:LONGEST]),)


def spent() -> Cookie:
    """Return the cookie that has the browser drop what was shown."""
    return Cookie(key=COOKIE, value="", max_age=0, httponly=True, samesite="lax")
