"""What was seen: the immutable result of reading each source, with the time it was read.

Rule of this file: observations only, as they were made; what they mean is decided in signal.py
and facts.py. Times are epoch seconds. `taken_at` is when a read began.
"""

import enum
from collections.abc import Mapping
from typing import Generic, TypeVar

from attrs import field, frozen

from .actions import ActionKind, Write
from .config import Json
from .errors import Trouble
from .intended import Intended
from .keys import Key, endpoint_url
from .probes import Probes

T = TypeVar("T")


class SourceState(enum.Enum):
    """The four states of a source."""

    NOT_CONFIGURED = "not configured"
    UNREAD = "unread"
    STALE = "stale"
    FRESH = "fresh"


@frozen
class Snapshot(Generic[T]):
    """One good, complete read."""

    taken_at: float
    body: T


@frozen
class Reading(Generic[T]):
    """A source as the board has it: the last good snapshot, how it ages, why none is newer.

    interval_s: how often it is read; None never goes stale. A source that is not configured
    has no Reading at all. reboots: of a listing, whether its provider can be told to reboot a box.
    """

    interval_s: float | None = None
    snapshot: Snapshot[T] | None = None
    trouble: Trouble | None = None
    reboots: bool = True

    def state(self, now: float, threshold: int) -> SourceState:
        """Return unread, stale or fresh; stale is older than threshold × interval."""
        if self.snapshot is None:
            return SourceState.UNREAD
        if self.interval_s is not None and (
            now - self.snapshot.taken_at > threshold * self.interval_s
        ):
            return SourceState.STALE
        return SourceState.FRESH

    def fresh(self, now: float, threshold: int) -> Snapshot[T] | None:
        """Return the snapshot if decisions may rest on it."""
        return self.snapshot if self.state(now, threshold) is SourceState.FRESH else None


# ---- box protocol


@frozen
class BoxFetches:
    """What one host did since llmao started.

    first_handout, last_handout: a GET answered 200. handed_out: the revision of the last one.
    applied: the revision the box reported. restarting: process names → when it was announced.
    assignments: the newest that it was told or asked about, by revision, without bearers.
    """

    first_handout: float | None = None
    last_handout: float | None = None
    handed_out: str = ""
    applied: str = ""
    last_seen: float | None = None
    restarting: Mapping[str, float] = field(factory=dict)
    assignments: Mapping[str, Json] = field(factory=dict)


@frozen
class UnknownHost:
    """A name that presented the fleet key and is in no configuration."""

    host: str
    first_seen: float
    last_seen: float
    count: int


@frozen
class WrongKeys:
    """Fetches with a wrong fleet key from one peer."""

    peer: str
    claimed_host: str
    count: int
    last_seen: float


@frozen
class BoxProtocol:
    """hosts: by normalised name, `was` names included."""

    hosts: Mapping[str, BoxFetches] = field(factory=dict)
    unknown: tuple[UnknownHost, ...] = ()
    wrong_keys: tuple[WrongKeys, ...] = ()


# ---- inventory, one per GPU provider


class BoxStatus(enum.Enum):
    """A provider's status, normalised; a word we do not know is UNKNOWN, never an error."""

    STARTING = "starting"
    UP = "up"
    DOWN = "down"
    GONE = "gone"
    UNKNOWN = "unknown"


@frozen
class Endpoint:
    """Where one listen port can be reached now. via: `direct` or `proxy`.

    url: the root to dial, normalised, "" if these make none; parsed once for all passes.
    """

    scheme: str
    host: str
    port: int
    via: str = "direct"
    url: str = field(init=False, repr=False, eq=False)

    @url.default
    def _parsed(self) -> str:
        try:
            return endpoint_url(self.scheme, self.host, self.port)
        except ValueError:
            return ""


@frozen
class Instance:
    """One rented box.

    id: as text, unique within the provider. names: what it answers to besides its id and
    addresses (labels), normalised. endpoints: by listen port, mapped now. declared: listen ports
    that were asked for. group: machine id, for boxes that share an address.
    gpu_memory_gb: of one card.
    """

    id: str
    status: BoxStatus = BoxStatus.UNKNOWN
    raw_status: str = ""
    detail: str = ""
    names: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    endpoints: Mapping[int, Endpoint] = field(factory=dict)
    declared: frozenset[int] = frozenset()
    gpu_name: str = ""
    gpu_count: int = 0
    gpu_memory_gb: float | None = None
    disk_gb: float | None = None
    price_per_hour: float | None = None
    started_at: float | None = None
    location: str = ""
    group: str = ""

    @property
    def called(self) -> tuple[str, ...]:
        """Return every name it answers to, each once: labels, its id, its addresses."""
        return tuple(dict.fromkeys((*self.names, self.id.lower(), *self.addresses)))


@frozen
class Listing:
    """All boxes of one account. complete: always true in a snapshot; a part is an error."""

    instances: tuple[Instance, ...] = ()
    complete: bool = True


# ---- LiteLLM


@frozen
class Row:
    """One deployment in LiteLLM, as read back.

    base: api_base normalised; stamped_base: `asf_api_base` normalised, "" if none.
    params, info: litellm_params and model_info without the nulls LiteLLM pads with.
    in_db: false for a row of LiteLLM's own YAML. live: false when only the database knows it.
    """

    id: str
    model_name: str
    base: str
    params: Json = field(factory=dict)
    info: Json = field(factory=dict)
    stamped_base: str = ""
    llmao_key: str = ""
    fleet: str = ""
    hash: str = ""
    in_db: bool = True
    blocked: bool = False
    live: bool = True


@frozen
class Deployments:
    """Every row, ours and others'."""

    rows: tuple[Row, ...] = ()


@frozen
class Opinion:
    """What LiteLLM's own check of one row said. checked_at: when that check was made."""

    healthy: bool
    checked_at: float
    said: str = ""


@frozen
class Asked:
    """A second opinion that was asked for; its result, if any came, is in `Health.opinions`."""

    asked_at: float
    answered_at: float | None = None


@frozen
class Health:
    """LiteLLM's checks, by LiteLLM id."""

    opinions: Mapping[str, Opinion] = field(factory=dict)
    asked: Mapping[str, Asked] = field(factory=dict)


@frozen
class Grant:
    """One team or key of LiteLLM: who may call what. what: `team` or `key`.

    id: of a team LiteLLM's own, of a key a digest that opens nothing. name: "" for none.
    budget: None for no limit. models: sorted; none means all.
    """

    what: str
    id: str
    name: str = ""
    budget: float | None = None
    models: tuple[str, ...] = ()
    blocked: bool = False


@frozen
class Access:
    """Every team and every key."""

    grants: tuple[Grant, ...] = ()


# ---- what people pressed


class RequestKind(enum.Enum):
    """What an admin can ask for. CANCEL: takes back a RUN of the same key and kind."""

    RUN = "run"
    CANCEL = "cancel"
    RELEASE_BRAKE = "release brake"


@frozen
class Request:
    """One press of a button; lapses at `expires_at` or when the evidence changes.

    key and kind: the action to run. digest: of the evidence it was shown with.
    """

    request: RequestKind
    by: str
    at: float
    expires_at: float
    key: Key | None = None
    kind: ActionKind | None = None
    digest: str = ""


# ---- all of it


@frozen
class Snapshots:
    """Everything one pass looks at. `inventories` holds the configured GPU providers only.

    placed: host → provider whose listing once named it. writes: by LiteLLM id. revisions: of
    the answer each host would get now. troubles: of sources that are no Reading, by name.
    """

    intended: Intended | None = None
    protocol: BoxProtocol | None = None
    inventories: Mapping[str, Reading[Listing]] = field(factory=dict)
    probes: Probes = field(factory=Probes)
    deployments: Reading[Deployments] = field(factory=lambda: Reading[Deployments](60.0))
    health: Reading[Health] = field(factory=lambda: Reading[Health](60.0))
    writes: Mapping[str, Write] = field(factory=dict)
    requests: tuple[Request, ...] = ()
    placed: Mapping[str, str] = field(factory=dict)
    revisions: Mapping[str, str] = field(factory=dict)
    troubles: Mapping[str, Trouble] = field(factory=dict)
