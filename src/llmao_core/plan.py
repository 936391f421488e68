"""What to do: actions with their reasons, and the policy that says which run by themselves."""

import enum
from collections.abc import Mapping

from attrs import field, frozen

from .actions import ActionKind, Order
from .config import BrakeConfig, PolicyName
from .keys import Key

DEFAULT_POLICY: Mapping[ActionKind, PolicyName] = {
    kind: "needs_human" if kind is ActionKind.REBOOT_BOX else "auto" for kind in ActionKind
}


@frozen
class Policy:
    """Action kind → auto, needs_human or observe; and the brake."""

    kinds: Mapping[ActionKind, PolicyName] = field(factory=lambda: dict(DEFAULT_POLICY))
    brake: BrakeConfig = BrakeConfig()

    @classmethod
    def of(cls, overrides: Mapping[str, PolicyName], brake: BrakeConfig) -> "Policy":
        """Return the defaults with a configuration's overrides."""
        given = {ActionKind(name): value for name, value in overrides.items()}
        return cls({**DEFAULT_POLICY, **given}, brake)


class Hold(enum.Enum):
    """Why an action waits though a rule wants it."""

    NOT_HELD = ""
    WITNESS = "waits for a second opinion"
    LITELLM_REACHES = "LiteLLM still reaches the server"
    BRAKE = "held by the brake"
    PACED = "waits its turn: body changes go a few at a time"
    BACKOFF = "waits before the next try"
    NOT_KEPT = "LiteLLM does not keep what is written"
    DRAINING = "waits until its routes are gone"
    UNLISTED = "waits for a listing that shows the box"
    RUNNING = "waits for the requests that still run"


@frozen
class Action:
    """One thing to do, by which rule, and why.

    order: what the executor runs. reason: one sentence. evidence: facts and counters.
    policy: from the table. hold: why it waits. until: when a backoff ends. released_by: the
    admin whose request lets it run in spite of policy or hold. digest: what a request must
    repeat; it changes when the facts do, and not with every counter.
    """

    order: Order
    rule: str
    reason: str
    evidence: tuple[str, ...] = ()
    policy: PolicyName = "auto"
    hold: Hold = Hold.NOT_HELD
    until: float | None = None
    released_by: str = ""
    digest: str = ""

    @property
    def kind(self) -> ActionKind:
        return self.order.kind

    @property
    def key(self) -> Key:
        return self.order.key

    @property
    def litellm_id(self) -> str:
        return self.order.target

    @property
    def runs(self) -> bool:
        """Tell whether the executor carries it out now."""
        if self.policy == "observe":
            return False
        if self.released_by:
            return self.hold not in _NOT_RELEASED
        return self.policy == "auto" and self.hold is Hold.NOT_HELD


# A person lets it run when these are over, and not before.
_NOT_RELEASED = (Hold.BACKOFF, Hold.DRAINING, Hold.UNLISTED, Hold.RUNNING)


@frozen
class Plan:
    """The actions of one pass, and what should be read for the next.

    asks: LiteLLM ids whose health LiteLLM is asked now (`ask_health`).
    reads: source → a time; a read that began then or later is wanted, and none has been seen.
    """

    actions: tuple[Action, ...] = ()
    asks: tuple[str, ...] = ()
    reads: Mapping[str, float] = field(factory=dict)
