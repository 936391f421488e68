"""Templates, and the few words they need for times and numbers.

Rule of this file: everything is escaped, a missing name is an error, and nothing is computed that
a pass has not concluded.
"""

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from litestar import Response
from litestar.enums import MediaType

STATIC = Path(__file__).parent.parent / "static"
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86400


class Renderer:
    """Turns a template and its context into a response. fleet: shown in the head of each page."""

    def __init__(self, fleet: str) -> None:
        self._templates = Environment(
            loader=PackageLoader("llmao_web"),
            autoescape=True,
            undefined=StrictUndefined,
        )
        self._templates.filters |= {"span": span, "clock_time": clock_time, "number": number}
        style = (STATIC / "llmao.css").read_bytes()
        self._templates.globals |= {
            "fleet": fleet,
            "style": f"/static/llmao.css?v={hashlib.sha256(style).hexdigest()[:12]}",
        }

    def page(
        self,
        template: str,
        context: Mapping[str, Any],
        status_code: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> Response[str]:
        """Return a page that no cache keeps."""
        return Response(
            self._templates.get_template(template).render(context),
            media_type=MediaType.HTML,
            status_code=status_code,
            headers={"cache-control": "no-store", **(headers or {})},
        )


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


def clock_time(at: float) -> str:
    """Return epoch seconds as a UTC time for `<time datetime>`; "" for what is no time."""
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return ""


def number(value: float) -> str:
    """Return a number with its thousands apart."""
    return f"{value:,}"
