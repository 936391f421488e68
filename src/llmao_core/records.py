"""What one pass concluded: records, hosts, models and attention items, as the view.

Rule of this file: verdicts are written here once per pass by reconcile; whoever shows them
computes nothing. No record holds a secret that can be printed. What a pass makes for each key or
host is a NamedTuple: a frozen attrs class of thirty fields takes five times as long to make.
"""

from collections.abc import Mapping
from typing import NamedTuple

from attrs import Factory, field, frozen

from .actions import ActionKind
from .config import Mode
from .errors import Trouble
from .intended import Deployment
from .item_kinds import ItemKind
from .keys import Key
from .probes import Counters, Target
from .secret import Secret
from .snapshots import Row, SourceState
from .verdicts import (
    Availability,
    Badge,
    Kind,
    Lifecycle,
    LitellmSignal,
    SignalKind,
)

__all__ = [
    "AttentionItem",
    "Availability",
    "Badge",
    "HostView",
    "ItemKind",
    "Kind",
    "Lifecycle",
    "LitellmSignal",
    "ModelView",
    "ProbeSpec",
    "Record",
    "Signal",
    "SignalKind",
    "SourceView",
    "View",
]


class Signal(NamedTuple):
    """The signal of a key. at: when that probe began. detail: one sentence, masked."""

    kind: SignalKind
    at: float | None = None
    detail: str = ""


class ProbeSpec(NamedTuple):
    """What the prober does next at one target, decided by reconcile.

    served: the name to ask the canary with. due_at: when to probe. identity, metrics: whether
    those steps are due then. canaries: how many to ask at once, beside the sweep; the prober
    asks when `canary_due` is newer than the canary report it has. open_due: the same.
    """

    target: Target
    bearer: Secret
    served: str
    mode: Mode
    due_at: float
    identity: bool = True
    metrics: bool = True
    canaries: int = 0
    canary_due: float | None = None
    open_due: float | None = None


class Record(NamedTuple):
    """Everything known about one key in one pass, and the verdicts on it.

    deployment: what is intended or discovered. rows: all of LiteLLM's rows of this key, ours
    first; `row` is the one we manage. dialable: a root without /v1, "" when unplaced.
    rule: name of the lifecycle's row in the table, because: its sentence, filled in.
    fresh: the lifecycle rests on a fresh signal. held: Healthy in spite of failures.
    since: when the lifecycle began. driving: what moves the roll-up is fresh. behind: what moved
    between the revision its box runs and the current one, in words. reached: llmao does not reach
    it, and LiteLLM has since: callers are served. oks_left: answers in a row that it still lacks
    for a row. removals: of its row by llmao, in the last hour. retired: its host is.
    """

    key: Key
    kind: Kind
    lifecycle: Lifecycle
    rule: str = ""
    because: str = ""
    since: float = 0.0
    fresh: bool = True
    held: bool = False
    deployment: Deployment | None = None
    provider: str = ""
    instance_id: str = ""
    dialable: str = ""
    row: Row | None = None
    rows: tuple[Row, ...] = ()
    signal: Signal = Signal(SignalKind.NONE)
    litellm: LitellmSignal = LitellmSignal.UNKNOWN
    litellm_at: float | None = None
    litellm_said: str = ""
    badges: tuple[Badge, ...] = ()
    unlisted: bool = False
    drained: bool = False
    restarting: bool = False
    fails: int = 0
    proof: str = ""
    oks_left: int = 0
    removals: int = 0
    last_ok: float | None = None
    max_model_len: int | None = None
    counters: Counters | None = None
    revision_current: str = ""
    revision_applied: str = ""
    behind: tuple[str, ...] = ()
    action_rule: str = ""
    write_trouble: str = ""
    reached: bool = False
    retired: bool = False

    @property
    def host(self) -> str:
        """Return the host's name, "" for a commercial deployment."""
        return self.deployment.host if self.deployment else ""

    @property
    def routed(self) -> bool:
        """Tell whether LiteLLM sends callers to its row."""
        return self.row is not None and self.row.live and not self.row.blocked

    @property
    def put_away(self) -> bool:
        """Tell whether nobody is to wait for it: its host is retired, and its row is gone."""
        return self.retired and self.row is None


@frozen
class AttentionItem:
    """Something a person should look at.

    id: the same in every pass while it is the same trouble. sentence: what is wrong, and for whom.
    remedy: what to do, what is said of the kind if nothing better is known. evidence: on demand.
    button: the action kind a press would run, "approve", "release", or "".
    """

    id: str
    kind: ItemKind
    sentence: str
    evidence: tuple[str, ...] = ()
    since: float = 0.0
    key: Key | None = None
    host: str = ""
    button: str = ""
    action: ActionKind | None = None
    remedy: str = field(default=Factory(lambda item: item.kind.remedy, takes_self=True))


class HostView(NamedTuple):
    """One host of fleet.hosts, or one instance that no host names.

    stale: its listing cannot be read now; status, price and GPU are what it said last.
    idle_since: when llmao first saw that it serves nobody, None while it does. rebooting: how a
    reboot under way stands, "" for none and once it is over; reboot_since: when its provider was
    told, None before; reboot_until: until when it waits at most for requests, None when it waits
    for something else. reboots: its provider can be told to reboot it.
    """

    name: str
    provider: str = ""
    instance_id: str = ""
    status: str = ""
    intended: bool = True
    approved: bool = False
    unlisted: bool = False
    unlisted_passes: int = 0
    placed_by: str = ""
    last_fetch: float | None = None
    price_per_hour: float | None = None
    gpu: str = ""
    keys: tuple[Key, ...] = ()
    idle_since: float | None = None
    rebooting: str = ""
    reboot_since: float | None = None
    reboot_until: float | None = None
    stale: bool = False
    reboots: bool = True


@frozen
class ModelView:
    """One public model name, rolled up.

    checked: false when it is Available on configuration alone. private: every counted
    deployment is self-hosted. context: minimum over Healthy. full_requests: None is unknown.
    orphans: what nothing intends and serves it all the same. reached: how many LiteLLM reaches
    and llmao does not.
    """

    name: str
    display_name: str
    availability: Availability
    checked: bool
    private: bool
    context: int | None
    full_requests: int | None
    healthy: int
    counted: int
    keys: tuple[Key, ...]
    summary: str
    info: Mapping[str, object] = field(factory=dict)
    orphans: tuple[Key, ...] = ()
    reached: int = 0


@frozen
class SourceView:
    """One source and how it is doing. listing: it is a provider's list of boxes."""

    name: str
    state: SourceState
    taken_at: float | None
    interval_s: float | None
    trouble: Trouble | None = None
    listing: bool = False


@frozen
class View:
    """All of one pass."""

    at: float
    records: tuple[Record, ...] = ()
    hosts: tuple[HostView, ...] = ()
    models: tuple[ModelView, ...] = ()
    items: tuple[AttentionItem, ...] = ()
    sources: tuple[SourceView, ...] = ()
    targets: tuple[ProbeSpec, ...] = ()
    placed: Mapping[str, str] = field(factory=dict)
