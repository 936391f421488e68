"""What the API answers, as records; the OpenAPI description is made from them.

Rule of this file: shapes only, and nothing that is secret has a field. Times are epoch seconds,
`_s` is seconds; null is unknown. A box is shown by host and port, never by a URL.
"""

from typing import Any

from attrs import frozen

from llmao_core.actions import ActionKind
from llmao_core.item_kinds import ItemKind
from llmao_core.plan import Hold
from llmao_core.snapshots import SourceState
from llmao_core.verdicts import (
    Availability,
    Badge,
    Kind,
    Lifecycle,
    LitellmSignal,
    SignalKind,
)


@frozen
class WhatFailed:
    """Why there is no answer. code: for programs; message: what to do, for people."""

    code: str
    message: str


@frozen
class Failure:
    error: WhatFailed


@frozen
class Key:
    """Which deployment: host and listen port, or the provider's name; and the model."""

    shown: str
    model: str


@frozen
class Replicas:
    """How a model is served; for admins. deployments: their ids."""

    healthy: int
    counted: int
    summary: str
    deployments: list[str]


@frozen
class Model:
    """A public model name. checked: false when it is Available on configuration alone.

    private: only our own machines serve it; null: nobody does. context: tokens, the least of
    what is Healthy. full_requests: requests of full context that fit at once. details: what else
    its page says of it, by label. replicas: null for callers.
    """

    name: str
    display_name: str
    availability: Availability
    checked: bool
    private: bool | None
    context: int | None
    full_requests: int | None
    capabilities: list[str]
    licence: str
    details: dict[str, str]
    replicas: Replicas | None


@frozen
class Models:
    """at: when the pass ended that says so."""

    at: float
    models: list[Model]


@frozen
class Signal:
    """What the newest probe of the vLLM came to. at: when it began."""

    kind: SignalKind
    at: float | None
    detail: str


@frozen
class LitellmSays:
    """What LiteLLM's own check says. id: of the row there, "" without one."""

    says: LitellmSignal
    at: float | None
    said: str
    id: str


@frozen
class BadgeSaid:
    badge: Badge
    meaning: str
    remedy: str


@frozen
class Revision:
    """Of a box's assignment: what it should run, what it says it runs; "" is unknown."""

    current: str
    applied: str


@frozen
class Deployment:
    """One deployment, with its verdicts and what they rest on.

    rule, because: which row of the decision table gave the lifecycle, and why. fresh: false
    when that rests on old evidence. address: host and port that can be dialled, "" for none.
    action_rule: the row that speaks of an action, "" for none. drained: an admin keeps it out of
    LiteLLM; retired: because its host is retired. reached: llmao does not reach it, and LiteLLM
    has since: callers are served.
    """

    id: str
    key: Key
    kind: Kind
    lifecycle: Lifecycle
    since: float
    rule: str
    because: str
    fresh: bool
    provider: str
    host: str
    address: str
    signal: Signal
    litellm: LitellmSays
    badges: list[BadgeSaid]
    context: int | None
    kv_tokens: float | None
    running: float | None
    waiting: float | None
    last_ok: float | None
    fails: int
    revision: Revision
    drained: bool
    retired: bool
    restarting: bool
    unlisted: bool
    reached: bool
    action_rule: str
    write_trouble: str


@frozen
class Box:
    """A host of fleet.hosts, or an instance no host names (intended: false). gpu: how many, which.

    last_fetch: when it was last handed its configuration. price_per_hour: US dollars.
    rebooting: how a reboot under way stands, "" for none. reboot_since: when its provider was
    told. reboot_until: until when that waits at most for running requests. stale: its listing
    cannot be read now; status, price and GPU are as listed last. label, note: what an admin wrote,
    "" for none; noted_by, noted_at: who, when. drained: as a whole. retired: pages hide it.
    """

    name: str
    provider: str
    instance_id: str
    status: str
    intended: bool
    approved: bool
    unlisted: bool
    placed_by: str
    last_fetch: float | None
    price_per_hour: float | None
    gpu: str
    deployments: list[str]
    rebooting: str
    reboot_since: float | None
    reboot_until: float | None
    stale: bool
    label: str
    note: str
    noted_by: str
    noted_at: float | None
    drained: bool
    retired: bool


@frozen
class Boxes:
    at: float
    boxes: list[Box]


@frozen
class Item:
    """Something a person should look at. id: the same while it is the same trouble.

    sentence: what is wrong, and for whom. remedy: what to do.
    """

    id: str
    kind: ItemKind
    sentence: str
    remedy: str
    evidence: list[str]
    since: float
    key: Key | None
    host: str


@frozen
class Items:
    at: float
    items: list[Item]


@frozen
class Trouble:
    """Why a source cannot be read. count: failures in a row."""

    kind: str
    message: str
    since: float
    count: int


@frozen
class Source:
    """interval_s: null for one that is read when it changes."""

    name: str
    state: SourceState
    taken_at: float | None
    interval_s: float | None
    trouble: Trouble | None


@frozen
class Sources:
    at: float
    sources: list[Source]


@frozen
class View:
    """All that one pass concluded. fleet: the name of the fleet it is about."""

    at: float
    fleet: str
    models: list[Model]
    deployments: list[Deployment]
    boxes: list[Box]
    items: list[Item]
    sources: list[Source]


@frozen
class Action:
    """One thing to do. runs: llmao does it now; hold: why it waits, "" when it does not.

    until: when a backoff ends. released_by: who let it run in spite of policy or hold.
    """

    kind: ActionKind
    key: Key
    litellm_id: str
    rule: str
    reason: str
    evidence: list[str]
    policy: str
    runs: bool
    hold: Hold
    until: float | None
    released_by: str


@frozen
class Plan:
    """The actions of the newest pass."""

    at: float
    actions: list[Action]


@frozen
class Entry:
    """One thing that was decided or done. actor: `llmao`, or who pressed. detail: by kind."""

    number: int
    at: float
    actor: str
    kind: str
    host: str
    key: Key | None
    detail: dict[str, Any]


@frozen
class Ledger:
    """Entries, newest first. before: ask with this for the next older ones, null at the end."""

    entries: list[Entry]
    before: int | None


@frozen
class Transition:
    """One change of a lifecycle; before is "" for a new deployment, after for one that is gone."""

    at: float
    key: Key
    before: str
    after: str


@frozen
class Transitions:
    transitions: list[Transition]


@frozen
class Explained:
    """One deployment, the action planned for it, and its newest changes."""

    at: float
    deployment: Deployment
    action: Action | None
    transitions: list[Transition]
