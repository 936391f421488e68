"""Templates, and the few words they need for times, numbers and money.

Rule of this file: everything is escaped, a missing name is an error, and nothing is computed that
a pass has not concluded. Ages are filled in last, so that what was rendered may be kept.
"""

import functools
import hashlib
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from litestar import Response, route
from litestar.connection import ASGIConnection
from litestar.enums import HttpMethod, MediaType
from markupsafe import Markup, escape

from llmao_core.prices import dollars, per_hour, rent
from llmao_core.recovery import waits
from llmao_web.desk import Clock
from llmao_web.people import ANYBODY, User, csrf_of, may_sign_out, user_of

from . import flash
from .names import badge_tone, capital, kind_word, life_tone, signal_tone, tone

# What a page answers; of an answer to HEAD the application sends no body.
page = functools.partial(route, http_method=[HttpMethod.GET, HttpMethod.HEAD])

STATIC = Path(__file__).parent.parent / "static"
PAGES = (("/models", "Models"),)
ADMIN_PAGES = (*PAGES, ("/boxes", "Boxes"), ("/admin", "Admin"))
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86400
_AGE = re.compile(r'<time class="age" data-at="(-?\d+)"></time>')
# A visitor's token; whatever is escaped holds no such mark.
_CSRF = "<csrf>"


class Renderer:
    """Turns a template and its context into a response. fleet: shown in the head of each page."""

    def __init__(self, fleet: str, clock: Clock) -> None:
        self._clock = clock
        # What the demo adds to each page.
        self.guide: Callable[[], Mapping[str, Any]] = dict
        self._templates = Environment(
            loader=PackageLoader("llmao_web"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters |= {
            "span": span, "clock_time": clock_time, "number": number, "coded": coded,
            "capital": capital,
        }  # fmt: skip
        self._templates.globals |= {
            "fleet": fleet,
            "style": _versioned("llmao.css"),
            "script": _versioned("llmao.js"),
            "age": age,
            "dollars": dollars,
            "per_hour": per_hour,
            "rent": rent,
            "tone": tone,
            "signal_tone": signal_tone,
            "waits": waits,
            "badge_tone": badge_tone,
            "kind_word": kind_word,
            "life_tone": life_tone,
        }

    def page(
        self,
        template: str,
        context: Mapping[str, Any],
        status_code: int = 200,
        headers: Mapping[str, str] | None = None,
        request: ASGIConnection[Any, Any, Any, Any] | None = None,
    ) -> Response[str]:
        """Return a page that no cache keeps.

        request: who asks, for the head of the page and its forms. The context may hold `flash`,
        pairs of tone and sentence; `reload_s`, for browsers without scripts; and `live`, where
        the script hears of changes.
        """
        user = user_of(request) if request else ANYBODY
        html = self.part(template, {**_frame(user, request), **self.guide(), **context})
        return Response(
            fill(html, self._clock.now(), csrf_of(request) if request else ""),
            media_type=MediaType.HTML,
            status_code=status_code,
            headers={"cache-control": "no-store", **(headers or {})},
            cookies=[flash.spent()] if request and flash.told(request) else None,
        )

    def part(self, template: str, context: Mapping[str, Any]) -> Markup:
        """Return a piece of a page, its ages not yet filled in."""
        made = self._templates.get_template(template).render({"now": self._clock.now(), **context})
        return Markup(made)  # noqa: S704 the template escapes

    def macros(self, template: str) -> Any:
        """Return the macros of a template, to be called one by one for a piece of a page."""
        return self._templates.get_template(template).module


def _frame(user: User, request: ASGIConnection[Any, Any, Any, Any] | None) -> dict[str, Any]:
    return {
        "user": user,
        "csrf": Markup(_CSRF),  # noqa: S704 our own mark
        "signed_in": request is not None and may_sign_out(request),
        "path": request.scope["path"] if request else "",
        "places": ADMIN_PAGES if user.admin else PAGES,
        "flash": flash.told(request) if request else (),
        "reload_s": 0,
        "live": "",
        "tour": "",
    }


def _versioned(name: str) -> str:
    digest = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()
    return f"/static/{name}?v={digest[:12]}"


# ---- ages


def age(at: float | None) -> Markup:
    """Return the place of an age, to be filled in; `never` for None and what is no time."""
    if at is None or not clock_time(at):
        return Markup('<span class="dim">never</span>')
    return Markup(f'<time class="age" data-at="{int(at)}"></time>')  # noqa: S704 a number


def fill(html: str, now: float, csrf: str) -> str:
    """Return a page with every age and the visitor's token filled in.

    Their places hold a bare `<`, which no escaped text can.
    """

    def filled(found: re.Match[str]) -> str:
        at = int(found[1])
        shown = clock_time(at)
        return (
            f'<time class="age" data-at="{at}" datetime="{shown}" title="{shown}">'
            f"{span(abs(now - at))}</time>"
        )

    return with_csrf(_AGE.sub(filled, html), csrf)


def with_csrf(html: str, csrf: str) -> str:
    """Return HTML with the visitor's token in its forms."""
    return html.replace(_CSRF, escape(csrf))


def ageless(html: str) -> str:
    """Return HTML without its ages, to be compared."""
    return _AGE.sub("", html)


def ages_of(html: str) -> tuple[int, ...]:
    """Return the ages in HTML, epoch seconds, in the order of their places."""
    return tuple(int(at) for at in _AGE.findall(html))


def span(seconds: float) -> str:
    """Return a duration in at most two units: `12 s`, `5 min`, `2 h 10 min`, `3 d 4 h`."""
    whole = max(int(seconds), 0)
    if whole < _MINUTE_S:
        return f"{whole} s"
    if whole < _HOUR_S:
        return f"{whole // _MINUTE_S} min"
    big, small, names = (
        (whole // _HOUR_S, whole % _HOUR_S // _MINUTE_S, ("h", "min"))
        if whole < _DAY_S
        else (whole // _DAY_S, whole % _DAY_S // _HOUR_S, ("d", "h"))
    )
    return f"{big} {names[0]} {small} {names[1]}" if small else f"{big} {names[0]}"


@functools.lru_cache(maxsize=20_000)
def clock_time(at: float) -> str:
    """Return epoch seconds as a UTC time for `<time datetime>`; "" for what is no time."""
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return ""


# ---- figures and words


def coded(text: str) -> Markup:
    """Return a sentence whose words between backticks are shown as what is to be typed."""
    parts = [str(escape(part)) for part in text.split("`")]
    shown = "".join(f"<code>{part}</code>" if at % 2 else part for at, part in enumerate(parts))
    return Markup(shown)  # noqa: S704 escaped above


def number(value: float) -> str:
    """Return a number with its thousands apart."""
    return f"{value:,}"
