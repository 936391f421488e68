"""The log of probes of one deployment, in words.

Rule of this file: it words what the prober noted. A request that was not made is not there, and
without any note the page says why there is none.
"""

from collections.abc import Iterable, Sequence

from attrs import evolve, frozen

from llmao_core.intended import Deployment
from llmao_core.probes import Reply, ReplyKind, Target
from llmao_core.records import Lifecycle, Record
from llmao_web.desk import Desk
from llmao_web.shell.probe_log import KEPT, Probed, Step

from .names import element

KEYLESS = "models without a key"
_UNAUTHORIZED = 401


@frozen
class Ended:
    """One request: what was asked for, how it ended, how that looks, and what was answered."""

    what: str
    how: str
    tone: str
    said: str = ""


@frozen
class Line:
    """Probes in a row that ended alike. lasted_s: from the first to the newest of them.

    took: the newest, in words, "" where nobody measured. previous: with the older bearer.
    """

    id: str
    at: float
    took: str
    ended: tuple[Ended, ...]
    previous: bool
    times: int
    lasted_s: float


def probe_lines(desk: Desk, record: Record) -> tuple[Line, ...]:
    """Return the newest probes of a deployment where it is dialled now, newest first."""
    found = [
        (probed, previous)
        for target, previous in _targets(record)
        for probed in desk.probed(target)
    ]
    found.sort(key=lambda one: one[0].at, reverse=True)
    loading = record.since if record.lifecycle is Lifecycle.LOADING else None
    lines = [_line(probed, previous, loading) for probed, previous in found[:KEPT]]
    return tuple({each.id: each for each in lines}.values())


def none_because(record: Record) -> str:
    """Return why a deployment may have no probes."""
    if record.deployment is None:
        return "Nothing intends it, so llmao does not probe it."
    if not record.dialable:
        return "No address is known for it, so it cannot be probed."
    return "llmao has not probed it at this address since it started."


def _targets(record: Record) -> Iterable[tuple[Target, bool]]:
    deployment: Deployment | None = record.deployment
    if deployment is None or not record.dialable:
        return
    yield Target(record.dialable, deployment.bearer_id), False
    if deployment.previous:
        yield Target(record.dialable, deployment.previous.bearer_id), True


def _line(probed: Probed, previous: bool, loading: float | None) -> Line:
    """Word one note. loading: since when its server loads, None while it does not."""
    expected = loading is not None and probed.at >= loading
    ended = tuple(_calm(_ended(each), each) if expected else _ended(each) for each in probed.steps)
    ended = (*ended, *_open(probed.open_paths))
    took = "" if probed.took_s is None else _took(probed.took_s)
    name = f"{probed.first!r} {previous} {[(each.what, each.how) for each in ended]}"
    lasted_s = probed.at - probed.first
    return Line(element("p", name), probed.at, took, ended, previous, probed.times, lasted_s)


def _calm(ended: Ended, step: Step) -> Ended:
    """Return how a request ended that nothing can answer yet: a server that loads is not dead."""
    answered = step.reply.kind is ReplyKind.ANSWERED
    return ended if answered else evolve(ended, tone="plain")


def _ended(step: Step) -> Ended:
    reply = step.reply
    if reply.kind is not ReplyKind.ANSWERED:
        tone = "fair" if reply.kind is ReplyKind.TIMED_OUT else "bad"
        return Ended(step.what, reply.kind.value, tone, reply.said)
    return Ended(step.what, str(reply.status), _tone(step.what, reply), reply.said)


def _tone(what: str, reply: Reply) -> str:
    """Return how an answer looks; who comes without a key is to be turned away."""
    if what == KEYLESS:
        return "good" if reply.status == _UNAUTHORIZED else "fair"
    return "good" if reply.ok else "bad"


def _open(paths: Sequence[str] | None) -> tuple[Ended, ...]:
    if paths is None:
        return ()
    if not paths:
        return (Ended("paths without a key", "closed", "good"),)
    return (Ended("paths without a key", "open", "fair", ", ".join(paths)),)


def _took(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
