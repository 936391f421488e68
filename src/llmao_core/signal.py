"""From probe reports to a signal: what one target has shown, folded report by report.

Rule of this file: each report is folded once, and only here do counters of a target move.
Dead, hung and busy are three things, and each has its own function.
"""

from attrs import evolve, frozen

from .config import FleetConfig
from .history import Canary, Cause, Seen
from .probes import (
    CanaryReport,
    Counters,
    OpenPathsReport,
    ProbeReport,
    Reply,
    ReplyKind,
    ServedModel,
)
from .records import SignalKind

METRICS_INTERVAL_S = 15.0
PREFILL_LIMIT_S = 600.0
SATURATED_S = 120.0
_EARLY_S = 0.001
_BEARER_REFUSED = (401, 403)


@frozen
class Verdict:
    """What one report comes to by itself."""

    kind: SignalKind
    detail: str = ""
    cause: Cause = Cause.NONE
    open: bool = False
    served: ServedModel | None = None


def fold_report(
    seen: Seen | None, report: ProbeReport, served: str, fleet: FleetConfig, assumed: bool
) -> Seen:
    """Return what a target has shown after one more report.

    served: the name it must answer to. assumed: its base stood in a row of ours at start, so
    that its identity counts as proven until something else than a time-out contradicts it.
    """
    if seen is not None and report.probed_at <= seen.probed_at:
        return seen
    before = seen or Seen(report.probed_at, SignalKind.NONE, identity=assumed)
    moved = _moved(before, report)
    verdict = _verdict(before, report, served, moved, fleet)
    if _plainly_ok(before, verdict, report):
        return _one_more_ok(before, report, moved)
    after = evolve(
        before,
        probed_at=report.probed_at,
        took_s=report.took_s,
        kind=verdict.kind,
        detail=verdict.detail,
        open=verdict.open,
        metrics_at=report.probed_at if report.counters else before.metrics_at,
        counters=report.counters or before.counters,
        moved=moved,
        silent_since=_silent_since(before, report, moved),
        queued_since=_queued_since(before, report),
        max_model_len=verdict.served.max_model_len if verdict.served else before.max_model_len,
        run=before.run + 1 if verdict.kind is before.kind and verdict.kind in _RUNS else 1,
        hung=before.hung and moved == before.moved,
    )
    return _count(_identity(after, report, verdict), before, verdict, fleet)


_RUNS = (SignalKind.REFUSED, SignalKind.OTHER_MODEL)


def _plainly_ok(before: Seen, verdict: Verdict, report: ProbeReport) -> bool:
    """Tell whether nothing but `one more ok` has happened: most reports, most of the time."""
    return (
        verdict.kind is SignalKind.OK
        and before.kind is SignalKind.OK
        and report.identity is None
        and not before.hung
    )


def _one_more_ok(before: Seen, report: ProbeReport, moved: float | None) -> Seen:
    """Return the same again, spelt out: `evolve` takes several times as long, for most reports."""
    return Seen(
        probed_at=report.probed_at,
        kind=before.kind,
        detail=before.detail,
        took_s=report.took_s,
        oks=before.oks + 1,
        run=before.run,
        last_ok=report.probed_at,
        identity=before.identity,
        checked=before.checked + 1,
        max_model_len=before.max_model_len,
        counters=report.counters or before.counters,
        metrics_at=report.probed_at if report.counters else before.metrics_at,
        moved=moved,
        silent_since=_silent_since(before, report, moved),
        queued_since=_queued_since(before, report),
        canary=before.canary,
        canary_at=before.canary_at,
        canary_said=before.canary_said,
        proven_at=before.proven_at,
        open_at=before.open_at,
        open_paths=before.open_paths,
    )


def _moved(before: Seen, report: ProbeReport) -> float | None:
    """Return when the counters last changed; the first sample counts as a change."""
    if report.counters is None:
        return before.moved
    if before.counters is None or _progress(before.counters) != _progress(report.counters):
        return report.probed_at
    return before.moved


def _progress(counters: Counters) -> tuple[float, ...]:
    return (counters.generated, counters.prompt, counters.finished, counters.kv_usage)


def _silent_since(before: Seen, report: ProbeReport, moved: float | None) -> float | None:
    """Return since when requests run and nothing moves; None while that is not so.

    An idle engine moves nothing either: silence begins no earlier than requests were seen to run.
    """
    if report.counters is None:
        return before.silent_since
    if report.counters.running <= 0 or moved == report.probed_at:
        return None
    if before.silent_since is not None:
        return before.silent_since
    ran_before = before.counters is not None and before.counters.running > 0
    return moved if ran_before else report.probed_at


def _queued_since(before: Seen, report: ProbeReport) -> float | None:
    """Return since when requests wait; one reading without any ends it, no reading does nothing."""
    if report.counters is None:
        return before.queued_since
    if report.counters.waiting <= 0:
        return None
    return before.queued_since if before.queued_since is not None else report.probed_at


def saturated_s(seen: Seen) -> float:
    """Return for how long requests have waited at every reading, 0 while it is too short to say."""
    if seen.queued_since is None or seen.metrics_at is None:
        return 0.0
    queued_s = seen.metrics_at - seen.queued_since
    return queued_s if queued_s >= SATURATED_S else 0.0


def _verdict(
    before: Seen, report: ProbeReport, served: str, moved: float | None, fleet: FleetConfig
) -> Verdict:
    told = _told_by_identity(report, served)
    if told is not None and told.kind is not SignalKind.OK:
        return told
    if before.open_paths and fleet.require_closed is True:
        paths = ", ".join(before.open_paths)
        return Verdict(SignalKind.REFUSED, f"does work without a bearer: {paths}", open=True)
    if report.health.ok:
        if before.hung and moved == before.moved:
            return Verdict(SignalKind.FAILED, "requests run and nothing moves", Cause.HUNG)
        return told or Verdict(SignalKind.OK)
    if _busy(report, moved):
        proof = told.served if told else None
        return Verdict(SignalKind.BUSY, "slow to answer, and its counters move", served=proof)
    return Verdict(SignalKind.FAILED, _failure(report.health), _cause(report.health))


def _told_by_identity(report: ProbeReport, served: str) -> Verdict | None:
    """Return what `/v1/models` decides, or None where /health must."""
    identity = report.identity
    if identity is None or identity.keyless.kind is not ReplyKind.ANSWERED:
        if identity and identity.keyless.kind is ReplyKind.BROKEN and report.health.ok:
            return Verdict(SignalKind.GARBLED, "/v1/models: broken answer")
        return None
    if identity.keyless.status == 200:
        return Verdict(SignalKind.REFUSED, "answers without a key", open=True)
    if identity.keyless.status != 401:
        return Verdict(
            SignalKind.GARBLED, f"/v1/models without a key: HTTP {identity.keyless.status}"
        )
    keyed = identity.keyed
    if keyed is not None and keyed.kind is ReplyKind.ANSWERED:
        return _told_with_bearer(keyed, identity.served, served, report.health)
    if report.health.ok:
        said = keyed.kind.value if keyed else "not asked"
        return Verdict(SignalKind.GARBLED, f"/v1/models: {said}")
    return None


def _told_with_bearer(
    keyed: Reply, models: tuple[ServedModel, ...], served: str, health: Reply
) -> Verdict | None:
    if keyed.status in _BEARER_REFUSED:
        return Verdict(SignalKind.REFUSED, f"refuses our bearer (HTTP {keyed.status})")
    if keyed.status == 200:
        ours = next((model for model in models if model.id == served), None)
        if ours is None:
            names = ", ".join(model.id for model in models[:5]) or "nothing"
            return Verdict(SignalKind.OTHER_MODEL, f"serves {names}, not {served}")
        return Verdict(SignalKind.OK, served=ours)
    if health.ok:
        return Verdict(SignalKind.GARBLED, f"/v1/models: HTTP {keyed.status}")
    return None


def _busy(report: ProbeReport, moved: float | None) -> bool:
    """Tell a busy engine from a dead one: /health is late, /metrics answers, counters move."""
    return (
        report.health.kind is ReplyKind.TIMED_OUT
        and report.counters is not None
        and moved is not None
        and report.probed_at - moved < METRICS_INTERVAL_S
    )


def _failure(health: Reply) -> str:
    if health.kind is ReplyKind.ANSWERED:
        return f"/health: HTTP {health.status}"
    return f"/health: {health.kind.value}"


def _cause(health: Reply) -> Cause:
    if health.kind is ReplyKind.REFUSED:
        return Cause.REFUSED
    return Cause.ANSWERED if health.kind is ReplyKind.ANSWERED else Cause.SILENT


def _identity(after: Seen, report: ProbeReport, verdict: Verdict) -> Seen:
    """Fold what this report says about who answers."""
    if verdict.served is not None:
        return evolve(after, identity=True, checked=0)
    if verdict.kind in (SignalKind.REFUSED, SignalKind.OTHER_MODEL, SignalKind.GARBLED):
        return evolve(after, identity=False)
    if verdict.kind is SignalKind.FAILED and report.health.kind in _CONTRADICTS:
        return evolve(after, identity=False)
    return evolve(after, checked=after.checked + 1)


_CONTRADICTS = (ReplyKind.REFUSED, ReplyKind.NO_ROUTE, ReplyKind.DNS, ReplyKind.BROKEN)


def _count(after: Seen, before: Seen, verdict: Verdict, fleet: FleetConfig) -> Seen:
    """Move fails and oks by the counting rules."""
    at = after.probed_at
    if verdict.kind is SignalKind.OK:
        return evolve(
            after,
            fails=0,
            oks=before.oks + 1,
            last_ok=at,
            first_fail=None,
            counted=None,
            cause=Cause.NONE,
            hung=False,
        )
    if verdict.kind is SignalKind.BUSY:
        last_ok = at if after.identity else after.last_ok
        return evolve(
            after, fails=0, first_fail=None, counted=None, cause=Cause.NONE, last_ok=last_ok
        )
    if verdict.kind is not SignalKind.FAILED:
        return evolve(after, oks=0, first_fail=before.first_fail or at)
    first = before.first_fail if before.first_fail is not None else at
    if verdict.cause is Cause.HUNG:
        return evolve(after, oks=0, cause=Cause.HUNG, first_fail=first)
    if not _counts(before, verdict, at, fleet):
        return evolve(after, oks=0, first_fail=first, cause=before.cause)
    return evolve(
        after, oks=0, fails=before.fails + 1, counted=at, first_fail=first, cause=verdict.cause
    )


def _counts(before: Seen, verdict: Verdict, at: float, fleet: FleetConfig) -> bool:
    """An early failure counts only when the peer itself refused; others once per interval."""
    if verdict.cause is Cause.REFUSED or before.counted is None:
        return True
    return at - before.counted >= fleet.health_interval_s - _EARLY_S


def fold_canary(seen: Seen, report: CanaryReport, fleet: FleetConfig) -> Seen:
    """Return what a target has shown after one more canary report."""
    if seen.canary_at is not None and report.asked_at <= seen.canary_at:
        return _confirm_hung(seen, report, fleet)
    proof, said = _proof(report)
    refused = any(reply.status in _BEARER_REFUSED for reply in report.replies)
    after = evolve(
        seen,
        canary=proof,
        canary_at=report.asked_at,
        canary_said=said,
        proven_at=report.asked_at if proof in _PROVES else seen.proven_at,
        identity=seen.identity and not refused,
    )
    if report.any_byte or proof is Canary.PROVEN:
        return evolve(
            after,
            hung=False,
            silent_since=None,
            moved=report.answered_at,
            first_fail=None if seen.kind is SignalKind.OK else after.first_fail,
        )
    return _confirm_hung(after, report, fleet)


_PROVES = (Canary.PROVEN, Canary.DECLINED)


def _proof(report: CanaryReport) -> tuple[Canary, str]:
    for reply in report.replies:
        if reply.ok:
            return Canary.PROVEN, ""
    for reply in report.replies:
        if reply.kind is ReplyKind.ANSWERED and 400 <= reply.status < 500:
            kind = Canary.FAILED if reply.status in _BEARER_REFUSED else Canary.DECLINED
            return kind, f"HTTP {reply.status} {reply.said}".strip()
    first = report.replies[0] if report.replies else None
    if first is None:
        return Canary.FAILED, "not asked"
    if first.kind is ReplyKind.ANSWERED:
        return Canary.FAILED, f"HTTP {first.status} {first.said}".strip()
    return Canary.FAILED, first.kind.value


def suspect_hung(seen: Seen, fleet: FleetConfig) -> bool:
    """Tell whether requests run, and nothing has moved for so long that canaries are due.

    A batch that is all in prefill moves nothing for a while; it is given PREFILL_LIMIT_S.
    """
    if not fleet.canary.enabled or seen.silent_since is None or seen.metrics_at is None:
        return False
    silent_s = seen.metrics_at - seen.silent_since
    counters = seen.counters
    if (
        counters
        and counters.first_tokens is not None
        and (counters.first_tokens <= counters.finished)
    ):
        return silent_s >= max(PREFILL_LIMIT_S, fleet.canary.silent_s)
    return silent_s >= fleet.canary.silent_s


def _confirm_hung(seen: Seen, report: CanaryReport, fleet: FleetConfig) -> Seen:
    """Call a target hung: threshold canaries without a byte, and no movement meanwhile."""
    if seen.hung or seen.silent_since is None or report.any_byte:
        return seen
    enough = len(report.replies) >= fleet.health_fail_threshold
    looked = seen.metrics_at is not None and seen.metrics_at >= report.asked_at
    still = seen.silent_since < report.asked_at
    if not (enough and looked and still and suspect_hung(seen, fleet)):
        return seen
    return evolve(
        seen,
        hung=True,
        kind=SignalKind.FAILED,
        detail="requests run and nothing moves",
        cause=Cause.HUNG,
        fails=max(seen.fails, fleet.health_fail_threshold),
        oks=0,
        first_fail=seen.first_fail if seen.first_fail is not None else seen.silent_since,
    )


def fold_open_paths(seen: Seen, report: OpenPathsReport) -> Seen:
    """Return what a target has shown after one more check of its open paths."""
    if seen.open_at is not None and report.asked_at <= seen.open_at:
        return seen
    return evolve(seen, open_at=report.asked_at, open_paths=report.open_paths)
