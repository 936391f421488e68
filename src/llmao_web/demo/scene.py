"""What a scene of the demo is, and where a visitor can be sent to look.

Rule of this file: shapes; the scenes themselves are in `scenes_machines` and `scenes_proxy`.
"""

from collections.abc import Awaitable, Callable, Sequence

from attrs import frozen

from llmao_web.pages.names import element
from llmao_web.pages.tour import Line, Step

from .fleet import HOSTS, STRANGER
from .visitor import Deeds

# Long enough to read two lines, go where they lead, and see it happen.
SHOWN_S = 11.0
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


async def nothing() -> None:
    """Do nothing."""


@frozen
class Scene:
    """One thing that happens. act: begins it. mend: ends it, after lasts_s.

    place: in the story; scenes of one place are played together, each with servers that the
    others leave alone. brief: said instead beside another scene, so that both can be read while
    they are shown.
    """

    place: int
    said: str
    places: tuple[tuple[str, str], ...]
    act: Deed
    mend: Deed | None = None
    lasts_s: float = 5.0
    brief: str = ""


def told(scenes: Sequence[Scene], deeds: Deeds) -> Step:
    """Return what is said of scenes that are played, true after what a visitor did by hand."""
    alone = len(scenes) == 1
    full_first = sorted(scenes, key=lambda each: bool(each.brief))
    return Step(tuple(_line(scene, deeds, brief=not alone) for scene in full_first))


def _line(scene: Scene, deeds: Deeds, *, brief: bool) -> Line:
    said = scene.brief if brief and scene.brief else scene.said
    done = dict.fromkeys(deeds.drained, "drained") | dict.fromkeys(deeds.retired, "retired")
    by_hand = (
        f" {host} is {what}, so nothing of it is routed."
        for host, what in sorted(done.items())
        if host in HOSTS and host in said
    )
    alone = (
        f" {host} port {port} is drained, so it is not routed."
        for host, port in sorted(deeds.ports)
        if host in HOSTS and host in said
    )
    return Line("".join((said, *by_hand, *alone)), scene.places)


def waiting(deeds: Deeds) -> Line:
    """Return what is said of the box that waits for an approval, or no longer does."""
    if STRANGER in deeds.retired:
        return Line(
            f"{STRANGER} was retired by hand: it is given nothing to serve, and is rented still.",
            (box(STRANGER), WORK),
        )
    if STRANGER in deeds.drained:
        return Line(
            f"{STRANGER} was approved and drained by hand: nothing of it is routed.",
            (box(STRANGER), MODELS),
        )
    if STRANGER in deeds.serving:
        return Line(f"{STRANGER}, which was approved by hand, serves.", (box(STRANGER), MODELS))
    if STRANGER in deeds.approved:
        return Line(
            f"{STRANGER} was approved: it boots, and gets its routes.", (box(STRANGER), MODELS)
        )
    return Line(
        f"{STRANGER} asks for a configuration: approve it, and watch it boot and get its routes.",
        ((f"/admin?host={STRANGER}#approve", "Approve"), MODELS),
    )


def at_once(do: Callable[[], object]) -> Deed:
    """Return a deed that takes no time."""

    async def deed() -> None:
        do()

    return deed
