"""What holds of reconcile for every input, sensible or not.

Rule of this file: a property is checked against the snapshots themselves, never against what
reconcile says of them, wherever that is possible.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.plain import plain, words
from tests.core.small_world import World

from llmao_core.actions import ActionKind, OutcomeKind
from llmao_core.history import History
from llmao_core.keys import canonical_url, normalise_base
from llmao_core.plan import Action, Plan
from llmao_core.probes import ProbeReport, ReplyKind, Target
from llmao_core.reconcile import reconcile
from llmao_core.records import Kind, Record, View
from llmao_core.snapshots import Reading, Row, Snapshots, SourceState
from llmao_core.testing.fleets import FLEET, SECRETS
from llmao_core.testing.strategies import Case, cases, deployments_of

T = TypeVar("T")
# What takes several rare things at once takes more examples, in any profile.
_MORE = settings(max_examples=max(200, settings().max_examples))
_BY_PROBE = {"dead-row", "rebooting-box", "moved-dead", "open-row", "displaced", "orphan"}


def _rows(snapshots: Snapshots) -> dict[str, Row]:
    read = snapshots.deployments.snapshot
    return {row.id: row for row in read.body.rows} if read else {}


def _record(view: View, action: Action) -> Record:
    return next(one for one in view.records if one.key == action.key)


def _fresh_reports(case: Case, base: str) -> list[ProbeReport]:
    """Return the reports made at a base, whatever the bearer, that are not stale."""
    assert case.snapshots.intended is not None
    fleet = case.snapshots.intended.config.fleet
    limit_s = fleet.health_fail_threshold * (fleet.health_interval_s + fleet.health_timeout_s)
    return [
        report
        for target, report in case.snapshots.probes.reports.items()
        if target.base == base and case.now - report.probed_at <= limit_s + report.took_s
    ]


# ---- the same in, the same out


@given(cases())
def test_deterministic(case: Case) -> None:
    """The same input gives the same output, to the letter."""
    first, second = case.run(), case.run()

    assert first == second
    assert plain(first) == plain(second)


_ONE_CASE = """
import sys
from hypothesis import given, settings
from llmao_core.testing.strategies import cases
from tests.core.plain import plain
import hashlib
digest = hashlib.sha256()
@settings(max_examples=25, derandomize=True, database=None, deadline=None,
          suppress_health_check=list(__import__("hypothesis").HealthCheck))
@given(cases())
def look(case):
    digest.update(plain(case.run()).encode())
look()
print(digest.hexdigest())
"""


def test_deterministic_in_another_process() -> None:
    """Nor does the order of sets and hashes, which differs between processes, show."""
    said = {
        subprocess.run(
            [sys.executable, "-c", _ONE_CASE],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True, text=True, check=True, timeout=120,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip

    assert len(said) == 1


@given(cases())
def test_idempotent(case: Case) -> None:
    """A second pass on the same snapshots and time changes neither view, plan nor history."""
    view, plan, history = case.run()
    again = case.run(history=history)

    assert view == again[0]
    assert plan == again[1]
    assert history == again[2]


@given(cases())
def test_what_is_kept_decides_nothing(case: Case) -> None:
    """A pass that looks only at what is new comes to what a look at everything comes to."""
    kept = reconcile(case.snapshots, case.history, case.policy, case.now)

    assert kept == case.run()


@given(cases(), st.randoms(use_true_random=False))
def test_order_irrelevant(case: Case, chance: Any) -> None:
    """The order of rows, instances and mappings in any snapshot does not matter."""
    expected = case.run()
    got = case.run(snapshots=_shuffled(case.snapshots, chance))

    assert expected[0] == got[0]
    assert expected[1] == got[1]
    assert expected[2] == got[2]


def _shuffled(snapshots: Snapshots, chance: Any) -> Snapshots:
    def mixed(read: Reading[Any], name: str) -> Reading[Any]:
        if read.snapshot is None:
            return read
        things = list(getattr(read.snapshot.body, name))
        chance.shuffle(things)
        body = evolve(read.snapshot.body, **{name: tuple(things)})
        return evolve(read, snapshot=evolve(read.snapshot, body=body))

    def turned(given: Mapping[Any, T]) -> dict[Any, T]:
        things = list(given.items())
        chance.shuffle(things)
        return dict(things)

    probes = snapshots.probes
    return evolve(
        snapshots,
        deployments=mixed(snapshots.deployments, "rows"),
        inventories=turned(
            {name: mixed(one, "instances") for name, one in snapshots.inventories.items()}
        ),
        probes=evolve(probes, reports=turned(probes.reports), canaries=turned(probes.canaries)),
        writes=turned(snapshots.writes),
        placed=turned(snapshots.placed),
    )


# ---- what is never removed


@_MORE
@given(cases(), st.sampled_from(["deployments unread", "deployments stale", "probes stale", ""]))
def test_nothing_removed_on_stale_or_unread(case: Case, how: str) -> None:
    """Without a fresh read of LiteLLM nothing runs, and only a reboot that was asked for waits;
    without a fresh probe none decides.
    """
    case = _blinded(case, how)
    view, plan, _ = case.run()

    if case.snapshots.intended is None:
        assert plan == Plan()
        return
    threshold = case.snapshots.intended.config.fleet.health_fail_threshold
    state = case.snapshots.deployments.state(case.now, threshold)
    if state is not SourceState.FRESH:
        assert {ActionKind.REBOOT_BOX} >= {action.kind for action in plan.actions}
        assert not any(action.runs for action in plan.actions)
    for action in plan.actions:
        if action.kind.removes and action.rule in _BY_PROBE:
            row = _rows(case.snapshots)[action.litellm_id]
            assert _fresh_reports(case, row.base), action.rule
        body = action.order.body
        if body is not None and _record(view, action).kind in (Kind.INTENDED, Kind.DISCOVERED):
            assert _fresh_reports(case, normalise_base(body.api_base)), action.rule


def _blinded(case: Case, how: str) -> Case:
    read = case.snapshots.deployments
    if how == "deployments unread":
        return evolve(case, snapshots=evolve(case.snapshots, deployments=Reading(60.0)))
    if how == "deployments stale" and read.snapshot is not None:
        old = evolve(read, snapshot=evolve(read.snapshot, taken_at=case.now - 181))
        return evolve(case, snapshots=evolve(case.snapshots, deployments=old))
    if how == "probes stale" and read.snapshot is not None:
        now = case.now + 40
        new = evolve(read, snapshot=evolve(read.snapshot, taken_at=now))
        return evolve(case, now=now, snapshots=evolve(case.snapshots, deployments=new))
    return case


@_MORE
@given(cases())
def test_nothing_planned_while_a_write_is_pending(case: Case) -> None:
    """A row is left alone until a read that began a poll interval after its last write."""
    _, plan, _ = case.run()
    intended, read = case.snapshots.intended, case.snapshots.deployments.snapshot

    for action in plan.actions:
        write = case.snapshots.writes.get(action.litellm_id)
        assert intended is not None
        assert read is not None
        if write is None or (write.outcome is not None and write.outcome.kind in _NOTHING_DONE):
            continue
        assert write.answered is not None
        assert read.taken_at >= write.answered + intended.config.litellm.poll_interval_s


_NOTHING_DONE = (OutcomeKind.REFUSED, OutcomeKind.FAILED)


@given(cases())
def test_serving_never_removed(case: Case) -> None:
    """An intended, undrained deployment that answers at its dialable URL keeps its route."""
    view, plan, _ = case.run()

    for action in plan.actions:
        if not action.kind.removes or action.kind is ActionKind.DELETE_DUPLICATE:
            continue
        record = _record(view, action)
        if record.kind is not Kind.INTENDED or record.drained or record.restarting:
            continue
        assert not _serves(case, record), action


def _serves(case: Case, record: Record) -> bool:
    """Tell whether the newest report at the dialable URL is fresh and plainly good."""
    assert record.deployment is not None
    fleet = case.snapshots.intended.config.fleet  # type: ignore[union-attr]
    limit_s = fleet.health_fail_threshold * (fleet.health_interval_s + fleet.health_timeout_s)
    reports = case.snapshots.probes.reports
    report = reports.get(Target(record.dialable, record.deployment.bearer_id))
    if (
        report is None
        or case.now - report.probed_at > limit_s
        or record.lifecycle.value != "Healthy"
    ):
        return False
    identity = report.identity
    named = identity is None or any(
        model.id == record.deployment.served for model in identity.served
    )
    busy = report.health.kind is ReplyKind.TIMED_OUT and record.signal.kind.value == "busy"
    return named and (report.health.ok or busy)


@given(cases())
def test_foreign_rows_are_never_targets(case: Case) -> None:
    """Rows of a file, of another fleet, and strangers at other addresses are never touched."""
    view, plan, _ = case.run()
    rows = _rows(case.snapshots)
    ids = {one.litellm_id for one in deployments_of(case.snapshots.intended)}

    for action in plan.actions:
        row = rows.get(action.litellm_id)
        if row is None:
            assert action.kind in (ActionKind.ADD_LITELLM, ActionKind.REBOOT_BOX)
            continue
        assert action.kind is not ActionKind.ADD_LITELLM
        assert row.in_db
        assert row.id in ids or row.fleet in ("", FLEET)
        if row.id not in ids and not row.llmao_key:
            known = case.history.keys.get(action.key)
            bases = _known_bases(_record(view, action)) | {known.dialable if known else ""}
            assert {row.base, row.stamped_base} & bases, row


def _known_bases(record: Record) -> set[str]:
    deployment = record.deployment
    assert deployment is not None
    ports = (deployment.listen_port, deployment.public_port)
    own = {canonical_url(deployment.host, port) for port in ports if deployment.host and port}
    return {record.dialable, record.key.base, *own} - {""}


@given(cases())
def test_one_action_per_key(case: Case) -> None:
    """One key has at most one action in a pass, and so has one row."""
    _, plan, _ = case.run()
    keys = [action.key for action in plan.actions]
    targets = [action.litellm_id for action in plan.actions]

    assert len(keys) == len(set(keys))
    assert len(targets) == len(set(targets))


@given(cases(), st.sampled_from([0.5, 6.0, 61.0, 3700.0]))
def test_counters_need_new_snapshots(case: Case, later_s: float) -> None:
    """However often and however late a pass runs on the same snapshots, no counter moves."""
    _, _, history = case.run()
    expected = _counters(history)

    for _ in range(3):
        case = evolve(case, now=case.now + later_s)
        _, _, history = case.run(history=history)
        found = _counters(history)
        assert {} == {
            one: (was, found.get(one)) for one, was in expected.items() if was != found.get(one)
        }


def _counters(history: History) -> dict[Any, Any]:
    seen = {
        (key, target): (one.fails, one.oks, one.run, one.checked, one.last_ok, one.kind)
        for key, known in history.keys.items()
        for target, one in known.seen.items()
    }
    hosts = {name: (one.missed, one.unlisted) for name, one in history.hosts.items()}
    rows = {one: (known.passes, known.kept_wrong) for one, known in history.rows.items()}
    return {**seen, **hosts, **rows}


@given(cases())
def test_nothing_is_an_orphan_for_want_of_a_listing(case: Case) -> None:
    """While a listing is unread what it named stays what it was, and nothing else becomes less."""
    view, _, history = case.run()
    unread = {name: evolve(one, snapshot=None) for name, one in case.snapshots.inventories.items()}
    blind = evolve(case, snapshots=evolve(case.snapshots, inventories=unread))
    after, plan, _ = blind.run(history=history)

    before = {one.key: one.kind for one in view.records}
    kinds = {one.key: one.kind for one in after.records}
    for key, kind in before.items():
        if kind is Kind.DISCOVERED:
            assert kind is kinds.get(key), key
        if kind is not Kind.ORPHAN:
            assert kinds.get(key) is not Kind.ORPHAN, key
    orphans = {key for key, kind in kinds.items() if kind is Kind.ORPHAN}
    pruned = {one.key for one in plan.actions if one.kind is ActionKind.PRUNE_ORPHAN}
    assert pruned <= orphans


# ---- the end of it


@given(cases())
def test_converges(case: Case) -> None:
    """If the world stands still and writes succeed, the plan runs empty and stays so."""
    if case.snapshots.intended is None:
        return
    world = World.standing_still(case)
    world.run(until_s=600)
    rows, before = dict(world.litellm.rows), len(world.done)
    world.run(until_s=150)

    assert world.done[before:] == []
    assert rows == world.litellm.rows


# ---- secrets


@given(cases())
def test_no_secret_leaks(case: Case) -> None:
    """No secret shows in a view, a plan or a history, however they are rendered."""
    view, plan, history = case.run()
    secrets = set(SECRETS.values())
    for one in deployments_of(case.snapshots.intended):
        for each in (one, one.previous):
            if each is not None and each.bearer:
                secrets.add(each.bearer.reveal())

    for thing in (view, plan, history, case.snapshots):
        texts = [repr(thing), str(thing), *words(thing)]
        for secret in secrets:
            assert not any(secret in text for text in texts)
