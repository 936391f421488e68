"""A walk through passes: a described world, the real `reconcile`, and what must hold every time.

Rule of this file: the world moves only by the steps it is given; nothing is decided here.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import define, evolve

from llmao_core.actions import ActionKind, Outcome, OutcomeKind, Write
from llmao_core.plan import Action
from llmao_core.probes import Probes
from llmao_core.reconcile import reconcile
from llmao_core.records import ProbeSpec
from llmao_core.snapshots import Asked, Deployments, Health, Listing, Reading, Snapshot
from llmao_core.testing import answers
from llmao_core.testing.anew import reconcile_anew
from llmao_core.testing.invariants import check
from llmao_core.testing.situation import (
    Server,
    as_read,
)
from llmao_core.testing.world import SKEW_S, START_S, World

STEP_S = 6.0
WRITES_KEPT_S = 600.0
SETTLING_PASSES = 4


@define
class Walk(World):
    """A world, and reconcile going through it."""

    def go(self, steps: Iterable[Mapping[str, Any]]) -> "Walk":
        """Take every step in turn."""
        for step in steps:
            self.step(**step)
        return self

    def step(self, at: float, **changes: Any) -> None:
        """Let time pass to `at`, probing on the way; change the world; look."""
        target = START_S + at
        assert target >= self.now, "time does not go back"
        if self.snapshots.intended is not None:
            while self.now + STEP_S < target:
                self.now += STEP_S
                self.look()
        self.now = target
        self.change(changes)
        self._read()
        self._pass()
        self.look()

    # ---- reading and passing

    def look(self) -> None:
        """Read every source that answers, and pass, until nothing more is due at this moment."""
        self._answer()
        self._read()
        self._probe()
        self._pass()
        for _ in range(SETTLING_PASSES):
            if not (self._probe() or self._beside()):
                break
            self._pass()
        if self._execute():
            self._read()
            self._pass()
        self.asked = self.plan.asks
        if self.asked:
            self._health(asked={one: Asked(self.now) for one in self.asked})
            self._pass()

    def _read(self) -> None:
        found, now = self.snapshots, self.now
        recent = {
            one: write for one, write in found.writes.items() if now - write.began <= WRITES_KEPT_S
        }
        health = found.health.snapshot.body if found.health.snapshot else Health()
        deployments = found.deployments
        if self.litellm_reads:
            rows = Deployments(tuple(self.rows.values()))
            deployments = Reading[Deployments](SKEW_S, Snapshot(now, rows))
        inventories = dict(found.inventories)
        for name, interval_s in self.words.get("listings", {}).items():
            listing = self.listings.get(name)
            old = inventories.setdefault(name, Reading[Listing](interval_s))
            if listing is not None and self._due(name, old):
                inventories[name] = evolve(old, snapshot=Snapshot(now, listing), trouble=None)
        self.snapshots = evolve(
            found,
            deployments=deployments,
            health=Reading[Health](SKEW_S, Snapshot(now, health)),
            inventories=inventories,
            writes=recent,
        )

    def _due(self, name: str, old: Reading[Listing]) -> bool:
        """Tell whether a listing is read now: at its interval, when wanted, when it changed."""
        if old.snapshot is None or old.interval_s is None:
            return True
        taken_at = old.snapshot.taken_at
        wanted = self.plan.reads.get(name, taken_at) > taken_at
        changed = old.snapshot.body is not self.listings[name]
        return wanted or changed or self.now >= taken_at + old.interval_s

    def _probe(self) -> bool:
        """Probe every target that was not probed at this moment; tell whether there was any."""
        if not self.probing:
            return False
        old, reports, more = self.snapshots.probes.reports, {}, False
        for spec in self.view.targets:
            report = old.get(spec.target)
            if report is None or report.probed_at < self.now:
                report, more = answers.probe(self._server(spec), spec, self.now), True
            reports[spec.target] = report
        self._probed(evolve(self.snapshots.probes, reports=reports))
        return more

    def _server(self, spec: ProbeSpec) -> Server:
        return self.servers.get(spec.target.base, Server("closed"))

    def _probed(self, probes: Probes) -> None:
        self.snapshots = evolve(self.snapshots, probes=probes)

    def _beside(self) -> bool:
        """Ask the canaries and open paths that are due; tell whether there were any."""
        probes, more = self.snapshots.probes, False
        canaries, paths = dict(probes.canaries), dict(probes.open_paths)
        for spec in self.view.targets if self.probing else ():
            server = self._server(spec)
            asked = canaries.get(spec.target)
            if spec.canary_due is not None and (asked is None or asked.asked_at < spec.canary_due):
                canaries[spec.target] = answers.canary(server, spec, self.now)
                more = True
            looked = paths.get(spec.target)
            if spec.open_due is not None and (looked is None or looked.asked_at < spec.open_due):
                paths[spec.target] = answers.open_paths(server, self.now)
                more = True
        self._probed(evolve(probes, canaries=canaries, open_paths=paths))
        return more

    def _answer(self) -> None:
        """Let LiteLLM answer what it was asked, if it does."""
        health = self.snapshots.health.snapshot
        for litellm_id, asked in (health.body.asked if health else {}).items():
            says = next(
                (says for one, says in self.answers.items() if self._row_id(one) == litellm_id), ""
            )
            if asked.answered_at is None and says and self.now > asked.asked_at:
                self._health(asked={litellm_id: evolve(asked, answered_at=self.now)})
                self._opine({litellm_id: says})

    def _pass(self) -> None:
        """Run reconcile once, and check what must hold after every pass."""
        before = self.history
        self.view, self.plan, self.history = reconcile(
            self.snapshots, before, self.policy, self.now
        )
        again = reconcile_anew(self.snapshots, self.history, self.policy, self.now)
        assert (self.view, self.plan, self.history) == again, "a second pass changes something"
        check(self.view, self.plan, self.history, self.rows, self._fleet_name)
        self.snapshots = evolve(self.snapshots, placed=self.view.placed)
        for action in self.plan.actions:
            done = f"{action.kind.value}, by {action.rule}"
            if action.runs and done not in self.ran:
                self.ran.append(done)

    @property
    def _fleet_name(self) -> str:
        return str(self.words.get("fleet_name", "main"))

    # ---- the executor

    def _execute(self) -> bool:
        """Carry out what runs; tell whether anything was."""
        if self.writes == "none":
            return False
        due = [action for action in self.plan.actions if action.runs]
        for action in due:
            self._carry_out(action)
        return bool(due)

    def _carry_out(self, action: Action) -> None:
        order, failed = action.order, self.writes == "fail"
        lost = self.writes == "lost"
        old = self.snapshots.writes.get(order.target)
        failures = (old.failures if old and old.kind is order.kind else 0) + 1 if failed else 0
        kind = OutcomeKind.FAILED if failed else OutcomeKind.UNKNOWN if lost else OutcomeKind.DONE
        write = Write(
            order.kind,
            order.key,
            self.now,
            self.now,
            Outcome(kind, "LiteLLM answers 500" if failed else ""),
            str(order.body.model_info["llmao_hash"]) if order.body else "",
            failures,
            self.now + 5 * 2**failures if failed else None,
        )
        self.snapshots = evolve(
            self.snapshots, writes={**self.snapshots.writes, order.target: write}
        )
        if failed:
            return
        if order.body is None:
            self.rows.pop(order.target, None)
            return
        row = as_read(order.body)
        kept = self.rows.get(row.id)
        if self.writes == "not kept" and order.kind is ActionKind.UPDATE_LITELLM and kept:
            row = evolve(row, params=kept.params)
        self.rows[row.id] = evolve(row, live=self.writes != "not live")
