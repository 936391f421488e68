"""Hypothesis strategies for reconcile: snapshots of any fleet, and histories that passes made.

Rule of this file: a history is never invented; it is what passes over drawn snapshots left
behind. Whatever a source could say is drawn, at the targets reconcile asked for and at others.
"""

from collections.abc import Mapping
from typing import Any

from attrs import evolve, frozen
from hypothesis import strategies as st

from llmao_core.actions import ActionKind, Outcome, OutcomeKind, Write
from llmao_core.config import BrakeConfig, PolicyName
from llmao_core.errors import Trouble
from llmao_core.history import History
from llmao_core.intended import Deployment, Intended
from llmao_core.plan import Plan, Policy
from llmao_core.probes import CanaryReport, OpenPathsReport, ProbeReport, Probes, Target
from llmao_core.reboot import ask
from llmao_core.reconcile import reconcile
from llmao_core.records import View
from llmao_core.snapshots import (
    Asked,
    BoxFetches,
    BoxProtocol,
    BoxStatus,
    Deployments,
    Endpoint,
    Health,
    Instance,
    Listing,
    Opinion,
    Reading,
    Request,
    RequestKind,
    Snapshot,
    Snapshots,
    UnknownHost,
    WrongKeys,
)

from .anew import reconcile_anew
from .fleets import HOSTS, OLD_NAMES, intendeds, pick
from .replies import CANARIES, REPORTS
from .rows import loose_rows, rows_of

START = 10_000.0
PROVIDERS = ("vast", "runpod")
_STEP = (1.0, 3.0, 6.0, 6.0, 20.0, 60.0, 60.0, 200.0, 2000.0)
_AGES = (0.0, 0.0, 0.0, 10.0, 90.0, 1000.0)
_TROUBLE = Trouble("Unreachable", "connection refused", 0.0, 3)


@frozen(repr=False)
class Case:
    """One pass to look at: its snapshots and time, and the history that earlier passes left."""

    snapshots: Snapshots
    history: History
    policy: Policy
    now: float

    def __repr__(self) -> str:
        intended, read = self.snapshots.intended, self.snapshots.deployments.snapshot
        return (
            f"Case(now={self.now}, hosts={list(intended.hosts.values()) if intended else None}, "
            f"labels={intended.labels if intended else None}, "
            f"rows={[(row.id, row.base) for row in read.body.rows] if read else None}, "
            f"reports={[(t.base, one.health.kind) for t, one in self._reports()]})"
        )

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))

    def _reports(self) -> list[tuple[Target, ProbeReport]]:
        return list(self.snapshots.probes.reports.items())

    def run(self, **changes: Any) -> tuple[View, Plan, History]:
        """Return what reconcile makes of it; `changes` replace fields of the case."""
        one = evolve(self, **changes) if changes else self
        return reconcile_anew(one.snapshots, one.history, one.policy, one.now)


# ---- sources


@st.composite
def instances(draw: st.DrawFn) -> Instance:
    """One box of a listing; several may share an address, ports may be null or nonsense."""
    one = pick(draw, ("100", "200", "300", "pod-1"))
    address = pick(draw, ("203.0.113.1", "203.0.113.2", "2001:db8::1"))
    endpoints = {}
    for port in pick(draw, ((8001,), (8001, 8002, 8003), (8002,), ())):
        reached = pick(draw, (address, address, address, "no host!"))
        public = pick(draw, (port, 40000 + port % 10, 41000))
        endpoints[port] = Endpoint("http", reached, public)
    label = pick(draw, (f"c.{one}", f"c.{one}", "c.100"))
    return Instance(
        one,
        status=pick(draw, (BoxStatus.UP, BoxStatus.UP, *BoxStatus)),
        names=(label,) if one.isdigit() else (),
        addresses=(address,),
        endpoints=endpoints,
        price_per_hour=1.5,
        gpu_name="H100",
        gpu_count=1,
    )


@st.composite
def readings(draw: st.DrawFn, body: Any, now: float) -> Reading[Any]:
    """A source: fresh, stale, unread, in trouble."""
    age = pick(draw, _AGES)
    state = pick(draw, ("read", "read", "read", "read", "troubled", "unread"))
    return Reading(
        60.0,
        None if state == "unread" else Snapshot(now - age, body),
        _TROUBLE if state != "read" else None,
        reboots=pick(draw, (True, True, False)),
    )


@st.composite
def inventories(draw: st.DrawFn, now: float) -> Mapping[str, Reading[Listing]]:
    """No provider, one or two, each with its listing."""
    names = pick(draw, ((), PROVIDERS[:1], PROVIDERS[:1], PROVIDERS))
    listed = st.lists(instances(), max_size=3)
    return {name: draw(readings(Listing(tuple(draw(listed))), now)) for name in names}


@st.composite
def protocols(draw: st.DrawFn, now: float) -> BoxProtocol | None:
    """What boxes did: fetched lately or long ago, announced restarts; strangers, too."""
    fetched = {}
    ago = st.sampled_from((None, None, 0.0, 30.0, 300.0))
    for name in draw(st.lists(st.sampled_from((*HOSTS, *OLD_NAMES)), max_size=3, unique=True)):
        last, restart = draw(ago), draw(ago)
        names = {f"{model}-8001": now - restart for model in ("m0", "m1") if restart is not None}
        last_at = None if last is None else now - last
        first_at = None if last_at is None else last_at - pick(draw, (0.0, 50.0))
        fetched[name] = BoxFetches(
            first_at, last_at, "r1", pick(draw, ("r1", "r0")), restarting=names
        )
    unknown = (UnknownHost("c.300", now - 9, now, 2),) if draw(st.booleans()) else ()
    wrong = (WrongKeys("203.0.113.99", "c.100", 1, now),) if draw(st.booleans()) else ()
    return pick(draw, (BoxProtocol(fetched, unknown, wrong),) * 5 + (None,))


_WHEN = (0.0, 0.5, 2.0)
_HOW = ("same", "same", "new", "none")
_REPORTS = REPORTS
_CANARIES = (None, None, *CANARIES)
_PATHS = (None, (), ("/tokenize",))
_SELDOM = (False, False, False, True)


@st.composite
def probes(draw: st.DrawFn, before: Probes, targets: list[Target], now: float) -> Probes:
    """New reports at some targets; most targets go on as they did before."""
    at, reports = now - pick(draw, _WHEN), dict(before.reports)
    canaries, open_paths = dict(before.canaries), dict(before.open_paths)
    for target in targets:
        how = pick(draw, _HOW)
        if how == "new" or (how == "same" and target not in reports):
            reports[target] = evolve(pick(draw, _REPORTS), probed_at=at)
        elif how == "same":
            reports[target] = evolve(reports[target], probed_at=at)
    for target in targets[:2] if pick(draw, _SELDOM) else ():
        if (asked := pick(draw, _CANARIES)) is not None:
            canaries[target] = CanaryReport(at - 1, at, *asked)
        if (paths := pick(draw, _PATHS)) is not None:
            open_paths[target] = OpenPathsReport(at, paths)
    return Probes(reports, canaries, open_paths)


def probed_again(before: Probes, at: float) -> Probes:
    """Return the same answers, each given once more."""
    reports = {target: evolve(one, probed_at=at) for target, one in before.reports.items()}
    return evolve(before, reports=reports)


_OPINION = (None, (True, 0.0), (False, 0.0), (False, 5.0), (False, 9000.0))


@st.composite
def healths(draw: st.DrawFn, ids: list[str], now: float) -> Health:
    """What LiteLLM says of some rows, lately or long ago, and what it was asked."""
    opinions, asked = {}, {}
    for one in ids:
        if (said := pick(draw, _OPINION)) is not None:
            healthy, ago = said
            opinions[one] = Opinion(healthy, now - ago)
            asked[one] = Asked(now - ago - 1, None if healthy else now - ago)
    return Health(opinions, asked)


_WROTE = (None, None, None, 1.0, 40.0, 300.0)
_OUTCOME = (None, *OutcomeKind)
_KINDS = [kind for kind in ActionKind if kind is not ActionKind.REBOOT_BOX]
_GOOD = (OutcomeKind.DONE, OutcomeKind.ALREADY, None)


@st.composite
def writes(draw: st.DrawFn, deployments: list[Deployment], now: float) -> Mapping[str, Write]:
    """Writes of every outcome, under way or answered, lately or not."""
    made = {}
    for one in deployments:
        if (ago := pick(draw, _WROTE)) is None:
            continue
        outcome = pick(draw, _OUTCOME)
        failures = 0 if outcome in _GOOD else pick(draw, (1, 3))
        made[one.litellm_id] = Write(
            pick(draw, _KINDS),
            one.key,
            now - ago,
            None if outcome is None else now - ago + 0.5,
            None if outcome is None else Outcome(outcome, "it said so"),
            one.body.hash,
            failures,
            now - 1 + 31 * (failures > 1) if failures else None,
        )
    return made


@st.composite
def requests(draw: st.DrawFn, plan: Plan, view: View | None, now: float) -> tuple[Request, ...]:
    """What an admin pressed, upon the last pass; usually nothing."""
    hosts = view.hosts[:6] if view else ()
    pressed = []
    for action in plan.actions[:2]:
        if pick(draw, (False, False, True)):
            digest = pick(draw, (action.digest, "other"))
            expires = pick(draw, (now + 600, now - 1))
            pressed.append(
                Request(RequestKind.RUN, "admin", now - 2, expires, action.key, action.kind, digest)
            )
    if pick(draw, (False, False, False, True)):
        pressed.append(Request(RequestKind.RELEASE_BRAKE, "admin", now - 2, now + 600))
    if pick(draw, _SELDOM) and hosts:
        pressed.append(ask(pick(draw, hosts), "admin", now - pick(draw, (2.0, 599.0))))
    return tuple(pressed)


# ---- a pass, and passes before it


def policies() -> st.SearchStrategy[Policy]:
    """Mostly everything `auto`; sometimes an action waits or is only shown."""
    names: tuple[PolicyName, ...] = ("auto", "needs_human", "observe")
    odd = st.dictionaries(st.sampled_from(list(ActionKind)), st.sampled_from(names), max_size=2)
    brake = BrakeConfig(fraction=0.5, at_least=2)
    return st.builds(Policy, odd, st.sampled_from((brake, BrakeConfig(at_least=99))))


@st.composite
def snapshots(
    draw: st.DrawFn, before: Snapshots, view: View | None, plan: Plan, now: float
) -> Snapshots:
    """Everything one pass looks at, some of it as it was the pass before."""
    intended = before.intended
    if intended is None or pick(draw, (False,) * 7 + (True,)):
        intended = draw(intendeds())
    every = [*intended.deployments, *(old for one in intended.deployments for old in one.former)]
    targets = [spec.target for spec in view.targets][:6] if view else []
    rows = (*draw(rows_of(intended, view)), *draw(loose_rows()))
    reading = draw(readings(Deployments(rows), now))
    ids = [row.id for row in rows]
    names = pick(draw, ({}, {HOSTS[0]: "vast"}, dict.fromkeys(HOSTS, "vast")))
    return Snapshots(
        intended=intended if pick(draw, (True,) * 12 + (False,)) else None,
        protocol=draw(protocols(now)),
        inventories=draw(inventories(now)),
        probes=draw(probes(before.probes, targets, now)),
        deployments=reading,
        health=draw(readings(draw(healths(ids, now)), now)),
        writes=draw(writes(every, now)) if draw(st.booleans()) else {},
        requests=draw(requests(plan, view, now)) if pick(draw, _SELDOM) else (),
        placed=names,
        revisions=dict.fromkeys(HOSTS, "r1"),
        troubles=pick(draw, ({}, {}, {"config": _TROUBLE})),
    )


@st.composite
def next_probes(draw: st.DrawFn, before: Snapshots, view: View | None, now: float) -> Snapshots:
    """The same world a while later: every source read anew, some probes answered otherwise."""
    targets = [spec.target for spec in view.targets][:6] if view else []
    ids = (
        [row.id for row in before.deployments.snapshot.body.rows][:3]
        if (before.deployments.snapshot)
        else []
    )
    return evolve(
        before,
        probes=draw(probes(before.probes, targets, now)),
        inventories={name: _again(one, now) for name, one in before.inventories.items()},
        deployments=_again(before.deployments, now),
        health=Reading(60.0, Snapshot(now, draw(healths(ids, now)))),
    )


def _again(read: Reading[Any], now: float) -> Reading[Any]:
    """Return the same answer, read anew."""
    if read.snapshot is None:
        return read
    return evolve(read, snapshot=evolve(read.snapshot, taken_at=now))


@st.composite
def cases(draw: st.DrawFn, most: int = 5) -> Case:
    """A pass to look at, after up to `most` others, several of them over one and the same world."""
    policy, now = draw(policies()), START
    history, before = History(), Snapshots(intended=draw(intendeds()))
    view: View | None = None
    plan = Plan()
    for turn in range(draw(st.integers(1, most))):
        now += pick(draw, _STEP)
        anew = turn == 0 or pick(draw, _SELDOM)
        before = draw(
            snapshots(before, view, plan, now) if anew else next_probes(before, view, now)
        )
        view, plan, history = reconcile(before, history, policy, now)
        for _ in range(draw(st.integers(0, 3))):
            now += 6
            before = evolve(before, probes=probed_again(before.probes, now))
            view, plan, history = reconcile(before, history, policy, now)
    now += pick(draw, _STEP)
    last = (
        snapshots(before, view, plan, now)
        if pick(draw, _SELDOM)
        else next_probes(before, view, now)
    )
    return Case(draw(last), history, policy, now)


def deployments_of(intended: Intended | None) -> tuple[Deployment, ...]:
    """Return all deployments of an intended set, former names included."""
    if intended is None:
        return ()
    return tuple(each for one in intended.deployments for each in (one, *one.former))
