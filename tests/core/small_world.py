"""A little world for reconcile alone: servers, a listing, LiteLLM with two workers, and a clock.

Rule of this file: it carries out plans as the executor and the plugin would, without a wire. What
is true of a server stands in one place, and probes, LiteLLM's checks and callers all see that.
"""

from collections.abc import Callable, Mapping

from attrs import define, evolve, field

from llmao_core.actions import ActionKind, Outcome, OutcomeKind, Write
from llmao_core.history import History
from llmao_core.keys import normalise_base
from llmao_core.plan import Action, Plan, Policy
from llmao_core.probes import CanaryReport, OpenPathsReport, ProbeReport, Probes, Target
from llmao_core.reconcile import reconcile
from llmao_core.records import ProbeSpec, View
from llmao_core.snapshots import (
    Asked,
    Deployments,
    Health,
    Listing,
    Opinion,
    Reading,
    Request,
    RequestKind,
    Row,
    Snapshot,
    Snapshots,
)
from llmao_core.testing.anew import reconcile_anew
from llmao_core.testing.replies import OK
from llmao_core.testing.replies import TIMED_OUT as _SILENT
from llmao_core.testing.strategies import Case

KEPT_S = 600.0


@define
class Litellm:
    """LiteLLM's rows; the second worker sees them `lag_s` later. keys: api_key by row id."""

    rows: dict[str, Row] = field(factory=dict)
    keys: dict[str, str] = field(factory=dict)
    lag_s: float = 30.0
    past: list[tuple[float, tuple[Row, ...]]] = field(factory=list)

    def changed(self, now: float) -> None:
        self.past = [*self.past[-20:], (now, tuple(self.rows.values()))]

    def read(self, now: float, *, lagging: bool) -> tuple[Row, ...]:
        """Return what one worker lists."""
        if not lagging:
            return tuple(self.rows.values())
        seen: tuple[Row, ...] = self.past[0][1] if self.past else tuple(self.rows.values())
        for at, rows in self.past:
            if at <= now - self.lag_s:
                seen = rows
        return seen

    def apply(self, action: Action, now: float) -> OutcomeKind:
        """Carry out one order; repeating it is safe."""
        order = action.order
        if order.body is None:
            gone = self.rows.pop(order.target, None)
            self.changed(now)
            return OutcomeKind.DONE if gone else OutcomeKind.ALREADY
        body, info = order.body, dict(order.body.model_info)
        before = self.rows.get(order.target)
        if order.kind is ActionKind.UPDATE_LITELLM and before is not None:
            info = {**before.info, **info}
        row = Row(
            id=order.target,
            model_name=body.model_name,
            base=normalise_base(body.api_base),
            params={**body.litellm_params, "api_base": body.api_base},
            info=info,
            stamped_base=normalise_base(str(info["asf_api_base"])),
            llmao_key=str(info["llmao_key"]),
            fleet=str(info["llmao_fleet"]),
            hash=str(info["llmao_hash"]),
        )
        self.rows[row.id] = row
        self.keys[row.id] = body.api_key.reveal() if body.api_key else ""
        self.changed(now)
        return OutcomeKind.DONE


@define
class World:
    """The world and llmao in it.

    probe, check, canary: how servers answer. done: what was carried out, newest last.
    outcome: how the next write ends, asked before each. lagging: which worker a read meets.
    """

    snapshots: Snapshots
    policy: Policy
    now: float
    probe: Callable[[ProbeSpec, float], ProbeReport]
    check: Callable[[Row], bool]
    canary: Callable[[ProbeSpec], bool]
    litellm: Litellm = field(factory=Litellm)
    history: History = field(factory=History)
    view: View = field(factory=lambda: View(0.0))
    plan: Plan = field(factory=Plan)
    done: list[tuple[float, Action, Row | None]] = field(factory=list)
    outcome: Callable[[Action], OutcomeKind] = lambda _action: OutcomeKind.DONE
    lagging: Callable[[], bool] = lambda: False
    listing: Callable[["World"], None] = lambda _world: None
    litellm_at: float = 0.0
    tick_s: float = 6.0
    on_removal: Callable[["World", Action, Row], None] = lambda _world, _action, _row: None

    @classmethod
    def standing_still(cls, case: Case) -> "World":
        """Return a world that stays as a case left it: all answer for ever as they last did."""
        read = case.snapshots.deployments.snapshot
        rows = {row.id: row for row in read.body.rows} if read else {}
        reports = dict(case.snapshots.probes.reports)
        canaries = case.snapshots.probes.canaries
        by_base = {target.base: one for target, one in reports.items()}

        def answer(target: Target) -> ProbeReport:
            found = reports.get(target) or by_base.get(target.base)
            return found or ProbeReport(0.0, 0.1, _SILENT)

        def probe(spec: ProbeSpec, now: float) -> ProbeReport:
            found = answer(spec.target)
            counters = found.counters
            if counters is not None and not found.health.ok:
                counters = evolve(counters, generated=now)
            return evolve(found, probed_at=now, counters=counters)

        def check(row: Row) -> bool:
            found = by_base.get(row.base)
            return found is not None and found.health.ok

        def canary(spec: ProbeSpec) -> bool:
            asked = canaries.get(spec.target)
            return answer(spec.target).health.ok and (asked is None or asked.any_byte)

        snapshots = evolve(
            case.snapshots,
            health=Reading(60.0, Snapshot(case.now, Health())),
            requests=(Request(RequestKind.RELEASE_BRAKE, "admin", case.now, case.now + 1e6),),
            writes={one: write for one, write in case.snapshots.writes.items() if write.answered},
        )
        policy = evolve(case.policy, kinds={})
        return cls(snapshots, policy, case.now, probe, check, canary, Litellm(rows), case.history)

    # ---- time

    def run(self, until_s: float) -> None:
        """Let so many seconds pass."""
        end = self.now + until_s
        while self.now < end:
            self.now = min(end, self.now + self.tick_s)
            self.step()

    def step(self) -> None:
        """Read what is due, reconcile, and carry out what runs."""
        self._probe()
        self._read()
        self._pass()
        for one in self.plan.asks:
            self._ask(one)
        for action in sorted(self.plan.actions, key=lambda one: not one.kind.removes):
            if action.runs:
                self._write(action)

    def _pass(self) -> None:
        given = (self.snapshots, self.history, self.policy, self.now)
        told = reconcile(*given)
        assert told == reconcile_anew(*given), "what was kept of an earlier pass decides"
        self.view, self.plan, self.history = told
        self.snapshots = evolve(self.snapshots, placed=dict(self.view.placed))

    # ---- what is read

    def _probe(self) -> None:
        probes = self.snapshots.probes
        reports, canaries = dict(probes.reports), dict(probes.canaries)
        open_paths = dict(probes.open_paths)
        for spec in self.view.targets:
            if spec.due_at <= self.now:
                reports[spec.target] = self.probe(spec, self.now)
            asked = canaries.get(spec.target)
            if spec.canary_due is not None and (not asked or asked.asked_at < spec.canary_due):
                canaries[spec.target] = self._canary(spec)
            looked = open_paths.get(spec.target)
            if spec.open_due is not None and (not looked or looked.asked_at < spec.open_due):
                paths = looked.open_paths if looked else ()
                open_paths[spec.target] = OpenPathsReport(self.now, paths)
        self.snapshots = evolve(self.snapshots, probes=Probes(reports, canaries, open_paths))

    def _canary(self, spec: ProbeSpec) -> CanaryReport:
        good = self.canary(spec)
        reply = OK if good else _SILENT
        return CanaryReport(self.now, self.now, (reply,) * max(1, spec.canaries), good)

    def _read(self) -> None:
        wanted = self.plan.reads
        due = self.now - self.litellm_at >= 60 or wanted.get("litellm", 1e18) <= self.now
        if due:
            self.litellm_at = self.now
            rows = self.litellm.read(self.now, lagging=self.lagging())
            self.snapshots = evolve(
                self.snapshots, deployments=Reading(60.0, Snapshot(self.now, Deployments(rows)))
            )
            health = self.snapshots.health.snapshot
            body = health.body if health else Health()
            self.snapshots = evolve(self.snapshots, health=Reading(60.0, Snapshot(self.now, body)))
        self.listing(self)
        for name, one in self.snapshots.inventories.items():
            self._list(name, one, wanted)

    def _list(self, name: str, one: Reading[Listing], wanted: Mapping[str, float]) -> None:
        """Read a listing again as it is, when due or asked for."""
        read = one.snapshot
        if read is None or not (
            self.now - read.taken_at >= 60 or 0 < wanted.get(name, 0) > read.taken_at
        ):
            return
        again = evolve(one, snapshot=evolve(read, taken_at=self.now))
        inventories = {**self.snapshots.inventories, name: again}
        self.snapshots = evolve(self.snapshots, inventories=inventories)

    # ---- what is done

    def _ask(self, litellm_id: str) -> None:
        read = self.snapshots.health.snapshot
        body = read.body if read else Health()
        row = self.litellm.rows.get(litellm_id)
        opinions = dict(body.opinions)
        asked = {**body.asked, litellm_id: Asked(self.now, self.now)}
        if row is not None:
            opinions[litellm_id] = Opinion(self.check(row), self.now + 0.1)
        self.snapshots = evolve(
            self.snapshots,
            health=Reading(60.0, Snapshot(self.now, Health(opinions, asked))),
        )

    def _write(self, action: Action) -> None:
        how, row = self.outcome(action), self.litellm.rows.get(action.litellm_id)
        if how is not OutcomeKind.FAILED:
            if action.kind.removes and row is not None:
                self.on_removal(self, action, row)
            said = self.litellm.apply(action, self.now)
            how = said if how is OutcomeKind.DONE else how
            self.done.append((self.now, action, row))
        before = self.snapshots.writes.get(action.litellm_id)
        failures = 0
        if how not in (OutcomeKind.DONE, OutcomeKind.ALREADY):
            failures = (before.failures if before else 0) + 1
        body = action.order.body
        write = Write(
            action.kind, action.key, self.now, self.now, Outcome(how),
            str(body.model_info["llmao_hash"]) if body else "", failures,
            self.now + min(20.0, 5.0 * 2**failures) if failures else None,
        )  # fmt: skip
        kept = {
            one: each
            for one, each in self.snapshots.writes.items()
            if self.now - each.began <= KEPT_S
        }
        self.snapshots = evolve(self.snapshots, writes={**kept, action.litellm_id: write})
        self.litellm_at = 0.0
