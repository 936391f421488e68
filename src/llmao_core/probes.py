"""What probes report of a vLLM: how each request ended, and what was read in its answer.

Rule of this file: observations as they were made; what they come to is decided in signal.py.
"""

import enum
from collections.abc import Mapping
from typing import NamedTuple

from attrs import field, frozen


class ReplyKind(enum.Enum):
    """How a request ended."""

    ANSWERED = "answered"
    TIMED_OUT = "timed out"
    REFUSED = "connection refused"
    NO_ROUTE = "no route"
    DNS = "name not found"
    BROKEN = "broken answer"


@frozen
class Reply:
    """The end of one request. status: HTTP status of an answer. said: a short excerpt, masked."""

    kind: ReplyKind
    status: int = 0
    said: str = ""

    @property
    def ok(self) -> bool:
        """Tell whether it was answered with 2xx."""
        return self.kind is ReplyKind.ANSWERED and 200 <= self.status < 300


class Target(NamedTuple):
    """One thing to probe: a base and a bearer, by fingerprint. base: a root without /v1.

    A tuple, since a pass looks up several for each key.
    """

    base: str
    bearer_id: str


@frozen
class ServedModel:
    """One entry of `/v1/models`."""

    id: str
    root: str = ""
    max_model_len: int | None = None


@frozen
class Counters:
    """What `/metrics` said; sums over engines. kv_usage: 0 to 1.

    first_tokens: requests that have had their first token (TTFT count); first_token_s: how long
    they waited for it, all together. kv_tokens: capacity of the KV cache in tokens.
    """

    generated: float
    prompt: float
    finished: float
    kv_usage: float
    running: float
    waiting: float
    first_tokens: float | None = None
    kv_tokens: int | None = None
    first_token_s: float | None = None


@frozen
class Identity:
    """`/v1/models` asked without and then with the bearer.

    keyed is None when the bearer was not sent, because the first was not a 401.
    """

    keyless: Reply
    keyed: Reply | None = None
    served: tuple[ServedModel, ...] = ()


@frozen
class ProbeReport:
    """One probe of one target. None: that step was not due.

    probed_at: when it began; took_s: until its last answer.
    """

    probed_at: float
    took_s: float
    health: Reply
    identity: Identity | None = None
    metrics: Reply | None = None
    counters: Counters | None = None


@frozen
class CanaryReport:
    """Completions of one token, asked at once; any_byte: one sent a byte of an answer."""

    asked_at: float
    answered_at: float
    replies: tuple[Reply, ...]
    any_byte: bool = False


@frozen
class OpenPathsReport:
    """Paths that did work without a bearer."""

    asked_at: float
    open_paths: tuple[str, ...]


@frozen
class Probes:
    """The newest report of each kind per target."""

    reports: Mapping[Target, ProbeReport] = field(factory=dict)
    canaries: Mapping[Target, CanaryReport] = field(factory=dict)
    open_paths: Mapping[Target, OpenPathsReport] = field(factory=dict)
