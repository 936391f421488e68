"""What must hold in the world, whatever happens in it.

Rule of this file: it judges by truth, and by what llmao could have known. A limit is the sum of
what the rules need; time in which llmao could not see or could not write does not count.
"""

import math
from collections import Counter, deque
from collections.abc import Iterable

from attrs import define, field

from llmao_core.actions import ActionKind, Order
from llmao_core.config import Config
from llmao_core.intended import Deployment, Intended
from llmao_core.plan import Plan
from llmao_core.records import View
from llmao_litellm.fake_state import Stored
from llmao_web.shell.loop import FAILED

from .boxes import ALIVE, UNDECIDED, Box, Condition, Server
from .faults import Far
from .fleet import FLEET
from .leading import Leading
from .limits import Limits, backoff_s
from .process import Llmao
from .prompt import Prompt
from .world import World

HOUR_S = 3600.0
STORM_S = 600.0
STORM_WRITES = 30
# People and boxes asked for these; a server may be serving then.
_WISHED = frozenset({"announced-restart", "reboot-drain", "duplicate-rows"})


@define(eq=False)
class _Timer:
    """Since when something is as it should not be. what: it, so that a change begins anew."""

    since: float
    what: object


@define(eq=False)
class Judge:
    """Watches one world. `look` is called often, the rest as things happen.

    standing: the world stands still, so that every count of writes is over.
    """

    world: World
    limits: Limits = field(init=False)
    leading: Leading | None = field(init=False)
    _absent: dict[str, _Timer] = field(factory=dict)
    _present: dict[str, _Timer] = field(factory=dict)
    _removals: dict[str, deque[float]] = field(factory=dict)
    _orders: deque[tuple[float, str]] = field(factory=deque)
    _plans: dict[Llmao, Plan] = field(factory=dict)
    _prompt: Prompt = field(factory=Prompt)

    def __attrs_post_init__(self) -> None:
        config: Config = self.world.config
        replicas = self.world.replicas
        self.limits = Limits(config.fleet, config.litellm.poll_interval_s, replicas.told_s)
        self.leading = Leading(self.world, replicas.arbiter) if replicas.arbiter else None
        self.world.on_pass = self.passed
        self.world.on_order = self.ordered
        self._plant_foreign()

    def _plant_foreign(self) -> None:
        """Put rows of other people into LiteLLM, which nobody may touch.

        Rows without a stamp only into every third world: they make every pass slower.
        """
        litellm = self.world.litellm
        params = {"model": "hosted_vllm/small", "api_base": "http://127.0.0.98:1/v1"}
        stamp = {"llmao_fleet": "other", "llmao_key": "http://127.0.0.10:8001"}
        planted = [litellm.plant("small", params, {"id": "llmao-of-another-fleet", **stamp})]
        if self.world.seed % 3 == 0:
            litellm.plant_yaml("small", params, "row-of-the-file")
            planted.append(litellm.plant("small", params, {"id": "row-of-a-person"}))
        self.world.foreign = {one: litellm.db[one] for one in planted}

    # ---- as it happens

    def passed(self, who: Llmao, view: View, plan: Plan) -> None:
        """Judge one pass."""
        self._plans[who] = plan
        keys = Counter(action.key for action in plan.actions)
        for key, count in keys.items():
            if count > 1:
                self.world.fail("one-action", f"{count} actions for {key}", str(key))
        for action in plan.actions:
            if action.litellm_id in self.world.foreign:
                self.world.fail("foreign", f"{action.kind.value} of a foreign row", str(action.key))
        for item in view.items:
            if item.id == FAILED:
                self.world.fail("pass", item.sentence)
        self._judge_prompt(who, view, plan)

    def _judge_prompt(self, who: Llmao, view: View, plan: Plan) -> None:
        """What a pass sees serve is planned, and what is planned is begun."""
        found = self._prompt.unplanned(view, plan)
        if found is None and who is self.world.llmao:
            limit_s = self.limits.begun_s * self._pace
            found = self._prompt.idle(who, plan, self.world.seconds, self._able_to_add, limit_s)
        if found is not None:
            self.world.fail(found.name, found.what, found.key)

    def _able_to_add(self, target: str) -> float:
        deployment = self.world.deployment_by(target)
        if deployment is None:
            return math.inf
        return self._seen_since(deployment, ActionKind.ADD_LITELLM)

    def ordered(self, order: Order, who: Llmao) -> None:
        """Judge one order as the executor begins it."""
        now, key = self.world.seconds, str(order.key)
        planned = self._plan(who).actions
        action = next((a for a in planned if a.order.target == order.target), None)
        rule = action.rule if action else "no plan"
        why = f"{action.reason} {'; '.join(action.evidence)}" if action else ""
        self._prompt.begun(who, order)
        self.world.tell(key, f"{who.name} begins {order.kind.value} by {rule}: {why}")
        if self.leading is not None:
            self.leading.begins(order, who)
        self._count_storm(now, order)
        self._judge_add(order)
        row = self.world.litellm.db.get(order.target)
        if row is None or not order.kind.removes:
            return
        self._removals.setdefault(order.target, deque(maxlen=100)).append(now)
        if rule not in _WISHED:
            self._judge_removal(order, row, rule)
        elif order.kind is ActionKind.DELETE_DUPLICATE:
            self._judge_duplicate(order, row)

    def _judge_add(self, order: Order) -> None:
        """What is drained is not added."""
        deployment = self.world.deployment_by(order.target)
        since = self.world.drains.since(deployment) if deployment else None
        if since is None or order.kind is not ActionKind.ADD_LITELLM:
            return
        if (for_s := self.world.seconds - since) > self.limits.heeded_s * self._pace:
            what = f"{order.key} is added, and drained for {for_s:.0f} s"
            self.world.fail("drained-is-not-added", what, str(order.key))

    def _judge_removal(self, order: Order, row: Stored, rule: str) -> None:
        """A route is not taken from a server that llmao could have known to serve."""
        deployment, lately = self.world.deployment_of(row), self.limits.heeded_s * self._pace
        if deployment and self.world.drains.may_be_out(deployment, self.world.seconds - lately):
            return
        condition, spot = self.world.finds(row)
        if condition not in ALIVE or spot.server is None:
            return
        reached, _ = self.world.finds(row, "llmao")
        # A busy server that only LiteLLM reaches looks dead to both.
        if reached is Condition.SILENT and condition is Condition.BUSY:
            return
        # While LiteLLM did not reach it, it served nobody, and LiteLLM said so.
        since = max(spot.server.alive_since, self._row_since(row))
        address = spot.box.address if spot.box else ""
        served_s = self.world.seconds - max(since, self.world.wire.reached_since(address))
        limit_s = self.limits.knowable_s(reached=reached is not Condition.SILENT)
        if served_s > limit_s:
            what = f"{rule} removes the route of {order.key}, which serves for {served_s:.0f} s"
            self.world.fail("no-serving-route-removed", what, str(order.key))

    def _row_since(self, row: Stored) -> float:
        """Return since when a row leads where it does, as far as people changed it."""
        return self.world.touched.get(row.id, 0.0)

    def _by_hand(self, row_id: str) -> bool:
        """Tell whether people changed a row after the read that a pass may still go by."""
        at = self.world.touched.get(row_id)
        return at is not None and self.world.seconds - at <= self.limits.read_s

    def _judge_duplicate(self, order: Order, row: Stored) -> None:
        deployment = self.world.deployment_of(row)
        others = [one for one in self.world.rows_of(deployment) if one.id != row.id] if (
            deployment
        ) else []  # fmt: skip
        # A hand that deleted the other one a moment ago was seen by nobody.
        if not others and not (deployment and self._by_hand(deployment.litellm_id)):
            what = "the last row of a key is deleted as a duplicate"
            self.world.fail("no-serving-route-removed", what, str(order.key))

    def _count_storm(self, now: float, order: Order) -> None:
        self._orders.append((now, order.target))
        while self._orders and self._orders[0][0] < now - STORM_S:
            self._orders.popleft()
        count = sum(target == order.target for _, target in self._orders)
        if count > STORM_WRITES:
            what = f"{count} writes to one row within {STORM_S:.0f} s"
            self.world.fail("no-storm", what, str(order.key))

    # ---- all the time

    def look(self) -> None:
        """Judge the world as it is."""
        self._judge_foreign()
        self._judge_approvals()
        for deployment in self.world.intended().deployments:
            rows = self.world.rows_of(deployment)
            self._judge_count(deployment, rows)
            if deployment.provider:
                continue
            found = self.world.ground.server_of(deployment)
            if found is not None:
                self._judge_absent(deployment, *found, rows)
            self._judge_drained(deployment, rows)
            for row in rows:
                self._judge_present(deployment, row)

    def _judge_foreign(self) -> None:
        for one, row in self.world.foreign.items():
            if self.world.litellm.db.get(one) is not row:
                self.world.fail("foreign", f"the foreign row {one} was changed or removed")

    def _judge_approvals(self) -> None:
        for llmao in self.world.replicas.each:
            known = llmao.service.board.intended() if llmao.service else None
            if known is not None and self._was_told(llmao):
                self._judge_known(llmao, known)

    def _was_told(self, llmao: Llmao) -> bool:
        """Tell whether a replica can have been told what was decided told_s ago."""
        since = self.leading.ready.get(llmao, math.inf) if self.leading else 0.0
        disturbed = self.world.replicas.disturbed_at if self.leading else -math.inf
        return self.world.seconds - max(since, disturbed) >= self.limits.told_s

    def _judge_known(self, llmao: Llmao, known: Intended) -> None:
        """What was acknowledged is known, by whichever llmao it was."""
        until = self.world.seconds - self.limits.told_s
        for host, at in self.world.approved.items():
            if at <= until and host not in known.hosts:
                what = f"{llmao.name} does not know of the approval of {host}"
                self.world.fail("approvals-stay", what, host)
        if lost := self.world.drains.lost(known.labels, until):
            self.world.fail("drains-stay", f"{'; '.join(lost)} is lost at {llmao.name}")

    def _judge_drained(self, deployment: Deployment, rows: Iterable[Stored]) -> None:
        """What is drained has no row, however well it serves."""
        since = self.world.drains.since(deployment)
        if since is None:
            return
        seen = max(since, self._seen_since(deployment, ActionKind.DELETE_LITELLM))
        for row in rows:
            began = max(seen, self._written_at(row), self._began(row))
            out_s, limit_s = self.world.seconds - began, self.limits.drained_s * self._pace
            if row.id not in self.world.planted and out_s > limit_s:
                what = f"{deployment.key} is drained and has a row for {out_s:.0f} s, more than"
                what = f"{what} {limit_s:.0f}"
                self.world.fail("drained-is-not-routed", what, str(deployment.key))

    def _judge_count(self, deployment: Deployment, rows: Iterable[Stored]) -> None:
        ours = [row.id for row in rows if row.id not in self.world.planted]
        if len(ours) > 1:
            what = f"LiteLLM has {len(ours)} rows of ours for one key: {ours}"
            self.world.fail("one-row-per-key", what, str(deployment.key))

    # ---- a serving deployment is there

    def _judge_absent(
        self, deployment: Deployment, box: Box, server: Server, rows: Iterable[Stored]
    ) -> None:
        key = str(deployment.key)
        out = self.world.drains.may_be_out(deployment) or not self._visible(box, server)
        if out or any(self._leads(row, server) for row in rows):
            self._absent.pop(key, None)
            return
        timer = self._absent.setdefault(key, _Timer(self.world.seconds, None))
        since = max(timer.since, self._seen_since(deployment, ActionKind.ADD_LITELLM))
        limit_s = self.limits.absent_s(self._flaps(deployment)) * self._pace
        if (absent_s := self.world.seconds - since) > limit_s:
            what = f"{key} serves and is not routed for {absent_s:.0f} s, more than {limit_s:.0f}"
            self.world.fail("serving-is-routed", what, key)

    @property
    def _pace(self) -> float:
        """Return by how much everything takes longer, because llmao's clock runs slowly."""
        return 2.0 if any(one.clock.slow for one in self.world.replicas.each) else 1.0

    def _plan(self, who: Llmao) -> Plan:
        return self._plans.get(who, Plan())

    def _visible(self, box: Box, server: Server) -> bool:
        """Tell whether llmao can see that a server serves, and nobody asked that it be not."""
        cut, llmao = self.world.wire.cut, self.world.llmao
        return (
            server.condition is Condition.SERVING
            and (box.provider is None or (llmao.name, llmao.runs) in box.mapped_in)
            and self.world.seconds >= server.kept_out_until
            and not cut.intersection({("llmao", ""), ("llmao", box.address)})
        )

    def _leads(self, row: Stored, server: Server) -> bool:
        condition, spot = self.world.finds(row, "nobody")
        return condition in ALIVE and spot.server is server and not row.blocked

    def _flaps(self, deployment: Deployment) -> int:
        recent = self._removals.get(deployment.litellm_id, ())
        return sum(self.world.seconds - at < HOUR_S for at in recent)

    def _seen_since(self, deployment: Deployment, kind: ActionKind) -> float:
        """Return since when llmao has been able to see and to write, infinity while it is not."""
        world, now = self.world, self.world.seconds
        # A source that failed is read again after its interval at the latest.
        again_s = self.limits.again_s
        listings = min(world.weather.clean(far, now) for far in (Far.VAST, Far.RUNPOD))
        times = [
            world.replicas.working_since(),
            world.weather.clean(Far.BOXES, now),
            world.weather.clean(Far.LITELLM, now) + again_s,
            listings + again_s,
        ]
        noted = world.written.get(deployment.litellm_id)
        if noted is not None and noted.failures:
            times.append(noted.failed_at + backoff_s(noted.failures, removes=kind.removes))
        return max(times)

    # ---- a dead one is not

    def _judge_present(self, deployment: Deployment, row: Stored) -> None:
        condition, spot = self.world.finds(row)
        if condition in ALIVE or condition in UNDECIDED or row.id in self.world.planted:
            self._present.pop(row.id, None)
            return
        timer = self._present.get(row.id)
        where = (condition, row.params.get("api_base"))
        if timer is None or timer.what != where:
            began = spot.server.since if spot.server else self.world.seconds
            timer = self._present[row.id] = _Timer(max(began, self._began(row)), where)
        since = max(timer.since, self._seen_since(deployment, ActionKind.DELETE_LITELLM))
        since = max(since, self._written_at(row))
        # What refuses connections is silent for an llmao that cannot reach it.
        seen, _ = self.world.finds(row, "llmao")
        limit_s = max(map(self.limits.present_s, (condition, seen))) * self._pace
        if (dead_s := self.world.seconds - since) > limit_s and not self._may_be_braked(condition):
            key = str(deployment.key)
            what = f"the row of {key} leads where it {condition.value} for {dead_s:.0f} s, "
            self.world.fail("dead-is-not-routed", what + f"more than {limit_s:.0f}", key)

    def _began(self, row: Stored) -> float:
        """Return when llmao can first have read the row as it is."""
        touched = self.world.touched.get(row.id)
        return 0.0 if touched is None else touched + self.limits.read_s

    def _written_at(self, row: Stored) -> float:
        noted = self.world.written.get(row.id)
        return noted.ended_at + self.limits.pending_s if noted else 0.0

    def _may_be_braked(self, condition: Condition) -> bool:
        """Tell whether enough rows refuse us that the brake may hold their removal."""
        if condition not in (Condition.UNAUTHORIZED, Condition.OTHER_MODEL):
            return False
        return self.world.config.brake.at_least <= len(self._present) + sum(
            bool(times) and self.world.seconds - times[-1] < STORM_S
            for times in self._removals.values()
        )

    # ---- the end of it

    def unsettled(self) -> list[str]:
        """Return what is not as it must be once the world stands still."""
        wrong = []
        for deployment in self.world.intended().deployments:
            rows = [row for row in self.world.rows_of(deployment) if not row.blocked]
            wrong += [f"{deployment.key}: {each}" for each in self._wrong(deployment, rows)]
        for row in self.world.litellm.db.values():
            if row.info.get("llmao_fleet") == FLEET and not self.world.deployment_of(row):
                condition, _ = self.world.finds(row)
                if condition not in (*ALIVE, *UNDECIDED):
                    wrong.append(f"{row.info.get('llmao_key')}: an orphan that {condition.value}")
        wrong += [f"planned: {action.kind.value} {action.key} ({action.rule}, {action.hold.value})"
                  for action in self._plan(self.world.llmao).actions]  # fmt: skip
        return wrong

    def _wrong(self, deployment: Deployment, rows: list[Stored]) -> list[str]:
        if self.world.drains.since(deployment) is not None:
            return ["it is drained, and has a row"] if rows else []
        if self.world.drains.may_be_out(deployment):
            return []
        if len(rows) > 1:
            return [f"{len(rows)} rows"]
        if deployment.provider:
            return [] if rows else ["commercial, and not there"]
        found = self.world.ground.server_of(deployment)
        condition = found[1].condition if found and found[0].runs else Condition.CLOSED
        if condition in UNDECIDED:
            return []
        if condition not in ALIVE:
            return [f"it {condition.value}, and has a row"] if rows else []
        assert found is not None
        if not rows and condition is Condition.SERVING:
            return ["it serves, and has no row"]
        return [] if not rows or self._leads(rows[0], found[1]) else ["its row leads elsewhere"]
