"""What a scene of the demo is, and where a visitor can be sent to look.

Rule of this file: shapes; the scenes themselves are in `scenes_machines` and `scenes_proxy`.
"""

from collections.abc import Awaitable, Callable

from attrs import frozen

from llmao_web.pages.names import element

BEAT_S = 5.0
Deed = Callable[[], Awaitable[None]]

MODELS, BOXES, ADMIN = ("/models", "Models"), ("/boxes", "Boxes"), ("/admin", "Admin")
WORK = ("/models#work-needed", "Work needed")
SOURCES = ("/models#sources-all", "Sources")
LOG = ("/admin/log", "the log")


def model(name: str) -> tuple[str, str]:
    """Return where to look at a model."""
    return f"/models#{element('m', name)}", name


def box(host: str) -> tuple[str, str]:
    """Return where to look at a box."""
    return f"/boxes/{host}", host


@frozen
class Scene:
    """One thing that happens. number: its place. act: begins it. mend: ends it, after lasts_s."""

    number: int
    said: str
    places: tuple[tuple[str, str], ...]
    act: Deed
    mend: Deed | None = None
    lasts_s: float = BEAT_S


def at_once(do: Callable[[], object]) -> Deed:
    """Return a deed that takes no time."""

    async def deed() -> None:
        do()

    return deed
