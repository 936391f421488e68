"""What a vLLM, or whoever stands at its address, may answer to a probe: one report of each kind.

Rule of this file: constants only; a report's time is set by whoever uses it.
"""

from llmao_core.probes import Counters, Identity, ProbeReport, Reply, ReplyKind, ServedModel

OK = Reply(ReplyKind.ANSWERED, 200)
UNAUTHORIZED = Reply(ReplyKind.ANSWERED, 401)
NOT_FOUND = Reply(ReplyKind.ANSWERED, 404)
UNAVAILABLE = Reply(ReplyKind.ANSWERED, 503)
TIMED_OUT = Reply(ReplyKind.TIMED_OUT)
REFUSED = Reply(ReplyKind.REFUSED)
NO_ROUTE = Reply(ReplyKind.NO_ROUTE)
BROKEN = Reply(ReplyKind.BROKEN)

SERVED = tuple(ServedModel(name, max_model_len=1000) for name in ("m0", "m2", "m2-small"))
OURS = Identity(UNAUTHORIZED, OK, SERVED)


def report(
    health: Reply, identity: Identity | None = None, counters: Counters | None = None
) -> ProbeReport:
    """Return a report made at time 0."""
    return ProbeReport(0.0, 0.1, health, identity, OK if counters else None, counters)


def counters(generated: float, running: float = 1) -> Counters:
    """Return the counters of an engine that has generated so much."""
    return Counters(generated, generated, 0, 0.5, running, 0, 1, 500)


REPORTS: tuple[ProbeReport, ...] = (
    report(OK, OURS),
    report(OK, OURS, counters(5)),
    report(OK),
    report(OK, None, counters(5)),
    report(OK, None, counters(6, running=0)),
    report(REFUSED),
    report(REFUSED, Identity(REFUSED)),
    report(TIMED_OUT),
    report(TIMED_OUT, Identity(TIMED_OUT)),
    report(TIMED_OUT, OURS, counters(7)),
    report(TIMED_OUT, None, counters(8)),
    report(NO_ROUTE),
    report(Reply(ReplyKind.DNS)),
    report(UNAVAILABLE, OURS),
    report(OK, Identity(UNAUTHORIZED, UNAUTHORIZED)),
    report(OK, Identity(UNAUTHORIZED, OK, (ServedModel("stranger"),))),
    report(OK, Identity(UNAUTHORIZED, OK, ())),
    report(OK, Identity(OK)),
    report(OK, Identity(NOT_FOUND)),
    report(OK, Identity(BROKEN)),
    report(OK, Identity(UNAUTHORIZED, BROKEN)),
    report(OK, Identity(UNAUTHORIZED, UNAVAILABLE)),
    report(BROKEN, Identity(TIMED_OUT)),
)

CANARIES: tuple[tuple[tuple[Reply, ...], bool], ...] = (
    ((OK,), True),
    ((TIMED_OUT,), False),
    ((TIMED_OUT, TIMED_OUT, TIMED_OUT), False),
    ((NOT_FOUND,), True),
    ((UNAUTHORIZED,), True),
    ((UNAVAILABLE,), True),
    ((), False),
)
