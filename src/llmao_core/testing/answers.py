"""What a prober would report of a described server: the replies of one probe.

Rule of this file: it answers as the protocol says a server of that kind answers, bearer by bearer.
"""

from collections.abc import Mapping

from llmao_core.bearer import derive
from llmao_core.probes import (
    CanaryReport,
    Counters,
    Identity,
    OpenPathsReport,
    ProbeReport,
    Reply,
    ReplyKind,
    ServedModel,
)
from llmao_core.records import ProbeSpec
from llmao_core.testing.situation import LEGACY_KEY, SALTS, Server, address

_HEALTH: Mapping[str, Reply] = {
    "busy": Reply(ReplyKind.TIMED_OUT),
    "late": Reply(ReplyKind.TIMED_OUT),
    "silent": Reply(ReplyKind.TIMED_OUT),
    "closed": Reply(ReplyKind.REFUSED),
    "unrouted": Reply(ReplyKind.NO_ROUTE),
    "failing": Reply(ReplyKind.ANSWERED, 503),
}
_OK = Reply(ReplyKind.ANSWERED, 200)
_DENIED = Reply(ReplyKind.ANSWERED, 401)
_DEAD = ("silent", "closed", "unrouted")


def probe(server: Server, spec: ProbeSpec, at: float) -> ProbeReport:
    """Return the report of one probe of a target with what stands at its address."""
    health = _HEALTH.get(server.does, _OK)
    silent = Reply(ReplyKind.TIMED_OUT) if server.does == "shy" else health
    answers = server.does not in (*_DEAD, "busy", "shy")
    return ProbeReport(
        probed_at=at,
        took_s=0.1,
        health=health,
        identity=_identity(server, spec, answers, silent) if spec.identity else None,
        metrics=_OK if spec.metrics and server.does not in _DEAD else None,
        counters=_counters(server, at) if spec.metrics and server.does not in _DEAD else None,
    )


def _identity(server: Server, spec: ProbeSpec, answers: bool, silent: Reply) -> Identity:
    if not answers:
        return Identity(silent)
    if server.does == "keyless":
        return Identity(_OK)
    if server.does == "garbled":
        return Identity(Reply(ReplyKind.ANSWERED, 404, "<html>"))
    if not _takes(server, spec):
        return Identity(_DENIED, _DENIED)
    names = server.models or (spec.served,)
    served = tuple(ServedModel(name, max_model_len=server.max_model_len) for name in names)
    return Identity(_DENIED, _OK, served)


def _takes(server: Server, spec: ProbeSpec) -> bool:
    if server.does == "locked":
        return False
    if not server.host:
        return True
    if server.salt == "legacy":
        return spec.bearer == LEGACY_KEY
    salt = {"today": SALTS[0], "yesterday": SALTS[1]}[server.salt]
    return spec.bearer == derive(salt, *address(server.host))


def _counters(server: Server, at: float) -> Counters:
    moving = at if server.does in ("busy", "late") else 0.0
    running = {"busy": 8.0, "late": 8.0, "stuck": 3.0, "quiet": 3.0}.get(server.does, 0.0)
    return Counters(
        generated=moving,
        prompt=100.0,
        finished=10.0,
        kv_usage=0.5,
        running=running,
        waiting=server.waiting,
        first_tokens=10.0 if server.prefill else 13.0,
        kv_tokens=server.kv_tokens,
    )


def canary(server: Server, spec: ProbeSpec, at: float) -> CanaryReport:
    """Return the report of the completions that are due."""
    if server.does in ("serves", "keyless", "quiet"):
        reply = Reply(ReplyKind.ANSWERED, server.canary)
    elif server.does == "locked":
        reply = _DENIED
    else:
        reply = Reply(ReplyKind.TIMED_OUT)
    answered = reply.kind is ReplyKind.ANSWERED
    return CanaryReport(at, at, (reply,) * spec.canaries, any_byte=answered)


def open_paths(server: Server, at: float) -> OpenPathsReport:
    """Return which paths do work without a bearer."""
    return OpenPathsReport(at, server.open_paths)
