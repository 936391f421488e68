"""What reconcile carries from one pass to the next: counters, proofs and last verdicts.

Rule of this file: shapes only. Every field is folded from snapshots, each snapshot once; an
empty History is a restart, and decides nothing until it has seen for itself.
"""

import enum
from collections.abc import Mapping

from attrs import field, frozen

from .keys import Key
from .probes import Counters, Target
from .records import Lifecycle, SignalKind


class Cause(enum.Enum):
    """What kind of failure a run of failures began with; it decides which witness is needed."""

    NONE = "none"
    SILENT = "no answer"
    REFUSED = "connection refused"
    ANSWERED = "answered that it is down"
    HUNG = "hung"


class Canary(enum.Enum):
    """What the newest canary proved."""

    NONE = "not asked"
    PROVEN = "answered"
    DECLINED = "declined"
    FAILED = "failed"


@frozen
class Seen:
    """What the probes of one key at one target have shown so far.

    kind, detail: the signal of the newest report. fails, oks: in a row, by the counting rules.
    run: `refused` or `other_model` in a row. open: refused because it works without a key.
    first_fail: when the first failure since the last ok or busy began. counted: the last failure
    that counted. silent_since: since when requests run and nothing has moved.
    queued_since: since when requests wait at every reading.
    moved: when the counters last changed. hung: confirmed by canaries.
    identity_at: when identity was last proven, None while it is not; checked: probes since then.
    canary_at, open_at: when the newest folded report of that kind was asked.
    """

    probed_at: float
    kind: SignalKind
    detail: str = ""
    took_s: float = 0.0
    fails: int = 0
    oks: int = 0
    run: int = 0
    open: bool = False
    cause: Cause = Cause.NONE
    first_fail: float | None = None
    counted: float | None = None
    last_ok: float | None = None
    identity: bool = False
    checked: int = 0
    max_model_len: int | None = None
    counters: Counters | None = None
    metrics_at: float | None = None
    moved: float | None = None
    silent_since: float | None = None
    queued_since: float | None = None
    hung: bool = False
    canary: Canary = Canary.NONE
    canary_at: float | None = None
    canary_said: str = ""
    proven_at: float | None = None
    open_at: float | None = None
    open_paths: tuple[str, ...] = ()


@frozen
class KeyHistory:
    """One key. seen: per target. handout: the first since the last ok; last_handout: the newest
    that counts for this instance. last_ok: at any target of the same instance.
    row_seen: a row of it has been in LiteLLM. reset: when the instance changed since start; probes
    begun before it were of the earlier one. broken: when a server announced as restarting was first
    seen down or fetched. outside: while its row's address fails, when something else first answered
    llmao since. removals: within the hour, but for those people or the box asked for; excused: the
    newest of those. discovered: the provider whose listing named it when it proved to be ours
    though nobody intends it, "" if it never did.
    """

    lifecycle: Lifecycle | None = None
    since: float = 0.0
    seen: Mapping[Target, Seen] = field(factory=dict)
    instance_id: str = ""
    reset: float | None = None
    dialable: str = ""
    handout: float | None = None
    last_handout: float | None = None
    last_ok: float | None = None
    removals: tuple[float, ...] = ()
    row_seen: bool = False
    broken: float | None = None
    outside: float | None = None
    excused: float | None = None
    discovered: str = ""


@frozen
class HostHistory:
    """One host. missed: listings in a row that omitted it; counted: taken_at of the last counted.

    provider, instance_id: of the instance it was last found to be. floor: hand-outs up to this
    time belong to an earlier instance.
    """

    provider: str = ""
    instance_id: str = ""
    missed: int = 0
    counted: float | None = None
    unlisted: bool = False
    floor: float | None = None


@frozen
class Idle:
    """A listed instance that serves nobody. since: when a pass first saw that.

    listed: when the newest listing that named it was read.
    """

    since: float
    listed: float


@frozen
class RowHistory:
    """One LiteLLM id. passes: reads in a row that found it an orphan; counted: the last counted.

    kept_wrong: confirmed writes in a row that read back different; write, hash: the last judged.
    """

    passes: int = 0
    counted: float | None = None
    kept_wrong: int = 0
    write: float | None = None
    hash: str = ""


@frozen
class Reboot:
    """A reboot that an admin asked for, of one instance. asked, until: when, and when it lapses.

    sent: when the provider was told, None before. refused: it will not. back: it went down and
    all of it served again.
    """

    provider: str
    instance_id: str
    by: str
    asked: float
    until: float
    sent: float | None = None
    refused: bool = False
    back: bool = False


@frozen
class Behind:
    """A box that runs another revision than it would get now. words: what moved, () if unknown."""

    applied: str
    current: str
    words: tuple[str, ...] = ()


@frozen
class Vanished:
    """A row that was not ours and is gone. at: of the first read without it. write: of ours,
    right before.
    """

    model: str
    at: float
    write: str


@frozen
class Foreign:
    """LiteLLM's rows that are not ours, by id. read_at: of the newest read; rows: their models."""

    read_at: float | None = None
    rows: Mapping[str, str] = field(factory=dict)
    gone: Mapping[str, Vanished] = field(factory=dict)


@frozen
class Emptied:
    """All rows of ours vanished from LiteLLM at once. at: of the first read without them.

    rows: how many there were. back: the most of ours that were seen at once since.
    """

    at: float
    rows: int
    back: int = 0


@frozen
class History:
    """Everything. items: when each attention item was first seen. removed: LiteLLM ids whose
    removal the brake counts, and when it was planned. listings_read: providers read since start.
    intended_hosts: every host that has been intended since start. our_rows: ids of our rows in
    the last deployments read that had any. idle: by provider and instance id. reboots, behind: by
    host.
    """

    keys: Mapping[Key, KeyHistory] = field(factory=dict)
    hosts: Mapping[str, HostHistory] = field(factory=dict)
    rows: Mapping[str, RowHistory] = field(factory=dict)
    items: Mapping[str, float] = field(factory=dict)
    removed: Mapping[str, float] = field(factory=dict)
    listings_read: frozenset[str] = frozenset()
    intended_hosts: frozenset[str] = frozenset()
    our_rows: frozenset[str] = frozenset()
    idle: Mapping[tuple[str, str], Idle] = field(factory=dict)
    foreign: Foreign = Foreign()
    reboots: Mapping[str, Reboot] = field(factory=dict)
    behind: Mapping[str, Behind] = field(factory=dict)
    emptied: Emptied | None = None
