"""What must hold of two replicas: one writes, with leave; one takes over in time; both answer.

Rule of this file: it judges by what the database knows, and not by what a replica thinks.
"""

from attrs import define, field

from llmao_core.actions import Order
from llmao_web.shell.leader import FRESH_S

from .arbiter import Arbiter
from .process import Llmao
from .replicas import TOLD_S
from .world import World

LOOK_S = 1.0
TAKEOVER_S = 15.0


@define(eq=False)
class Leading:
    """Watches two replicas. led_at: when one last led, or none could have.

    ready: since when each replica has been able to lead.
    """

    world: World
    arbiter: Arbiter
    led_at: float = 0.0
    ready: dict[Llmao, float] = field(factory=dict)

    def begins(self, order: Order, who: Llmao) -> None:
        """Judge a write as it begins: it was permitted just now, and nobody else since."""
        permit = self.arbiter.permits.pop(who, None)
        if permit is None:
            self._fail(f"{who.name} begins a write that the database did not permit", order)
            return
        age_s = who.clock.monotonic() - permit.by_its_clock
        if age_s > FRESH_S:
            self._fail(f"{who.name} begins a write that was permitted {age_s:.1f} s ago", order)
        # A machine whose clock stood still since then cannot know that it did.
        knew = who.clock.stood_still_at < permit.at
        if self.arbiter.permitted > permit.term and knew:
            self._fail(f"{who.name} begins a write while another leads", order)

    def _fail(self, what: str, order: Order) -> None:
        self.world.fail("one-leader", what, str(order.key))

    async def watch(self) -> None:
        """Look every second."""
        while self.world.violation is None:
            await self.world.run(LOOK_S)
            self.look()

    def look(self) -> None:
        """Judge who leads, and whether all answer."""
        now = self.world.seconds
        for llmao in self.world.replicas.each:
            if llmao.able:
                self.ready.setdefault(llmao, now)
                self._judge_answers(llmao)
            else:
                self.ready.pop(llmao, None)
        if not self.ready or self._led(now):
            self.led_at = now
        since = max(self.led_at, min(self.ready.values(), default=now))
        if now - since > TAKEOVER_S:
            what = f"nobody leads for {now - since:.0f} s, though somebody could"
            self.world.fail("somebody-leads", what)

    def _led(self, now: float) -> bool:
        holder = self.arbiter.holder
        return (
            holder is not None
            and holder.who in self.ready
            and now - self.arbiter.renewed_at < FRESH_S
        )

    def _judge_answers(self, llmao: Llmao) -> None:
        """Every box that is intended is answered by each replica, whoever leads."""
        assert llmao.service is not None
        now = self.world.seconds
        if now - self.ready[llmao] <= TOLD_S:
            return
        for host in self.world.intended().hosts:
            approved = self.world.approved.get(host, 0.0)
            if now - approved > TOLD_S and llmao.service.board.answer(host) is None:
                self.world.fail("both-answer", f"{llmao.name} has no answer for {host}", host)
