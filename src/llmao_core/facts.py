"""The closed vocabulary of decisions: what was observed of one key, as enums and nothing else.

Rule of this file: a member says what was seen, never what to do. "Could not see" is a member
like any other. There are no numbers and no optionals past this point.
"""

import enum
from typing import NamedTuple

from .records import Lifecycle


class Fact(enum.Enum):
    """Base of all facts; hashed by identity, since every pass looks thousands of them up."""

    __hash__ = object.__hash__


class Evidence(Fact):
    """What the probes at the dialable URL come to; for a commercial key, LiteLLM's check."""

    UNSEEN = "no recent probe"
    GARBLED = "garbled"
    REFUSED = "refused once"
    REFUSED_TWICE = "refused twice"
    REFUSED_LONG = "refused three times or more"
    OTHER_MODEL = "another model once"
    OTHER_TWICE = "another model twice"
    OK = "ok"
    BUSY = "busy"
    BUSY_UNPROVEN = "busy, identity not proven"
    FAILED = "failed, under the threshold"
    FAILED_ENOUGH = "failed, threshold reached"
    LITELLM_UP = "LiteLLM says healthy"
    LITELLM_DOWN = "LiteLLM says unhealthy"
    LITELLM_UNKNOWN = "LiteLLM says nothing"


class Served(Fact):
    """Whether it has been ok since its hand-out, at any URL of the same instance."""

    YES = "ok since the hand-out"
    NO = "not ok since the hand-out"


class Handout(Fact):
    """Whether its box was handed a configuration since start, and how long ago."""

    NONE = "none since start"
    YOUNG = "younger than the grace"
    OLD = "older than the grace"


class RowSeen(Fact):
    """Whether LiteLLM has had a row of it since start."""

    YES = "yes"
    NO = "no"


class Named(Fact):
    """Whether its address may be ours, as far as the listings tell."""

    NOWHERE = "every listing is fresh and none names the address"
    MAYBE = "named, or not known"


class LifeFacts(NamedTuple):
    """What decides a lifecycle."""

    evidence: Evidence
    served: Served
    handout: Handout
    row_seen: RowSeen
    named: Named


class Gate(Fact):
    """What stands before any decision about the row."""

    OPEN = "nothing"
    BLIND = "a needed source cannot be used"
    PENDING = "a write is not yet confirmed"
    LEAVING = "drained or retired"
    REBOOTING = "its box is to be rebooted"
    RESTARTING = "announced its restart"


class Want(Fact):
    """Why the key is there."""

    INTENDED = "intended"
    DISCOVERED = "discovered"
    COMMERCIAL = "commercial"
    ORPHAN = "orphan"
    DISPLACED = "orphan, its port intended for another model"
    BOXLESS = "orphan that is no box"
    UNKNOWN = "not intended, and a listing that may name its box is unread"
    FOREIGN = "foreign"


class Route(Fact):
    """How many rows of ours LiteLLM has for it. BESIDE: an unstamped copy is no row of ours."""

    NONE = "none"
    ONE = "one"
    BESIDE = "one, and a copy without our mark"
    SEVERAL = "several"


class AtRow(Fact):
    """What the probes at the row's own address and bearer come to, if fresh."""

    UNKNOWN = "unknown"
    ALIVE = "alive"
    FAILED = "failed, threshold reached"
    REFUSED = "refused twice"
    OPEN = "works without a key, twice"
    OTHER_MODEL = "does not list its name"


class Base(Fact):
    """Whether the row's address is the dialable URL."""

    CURRENT = "the dialable URL"
    ELSEWHERE = "another address"


class Drift(Fact):
    """How the row differs from what llmao writes, its address left aside."""

    NONE = "equal"
    DIFFERS = "differs"
    MUST_GO = "holds a field that must go"


class Ready(Fact):
    """Whether the last probe was ok, and ours, with exactly the base and bearer to be written."""

    NO = "neither ok nor busy"
    ALIVE = "busy, or ok and not yet known to be ours"
    OK = "ok"
    PROVEN = "ok, and proven to do work, for an add"


class Passes(Fact):
    """Whether an orphan has been one for long enough, all sources read."""

    EARLY = "early"
    ENOUGH = "enough"


class PlanFacts(NamedTuple):
    """What decides an action."""

    gate: Gate
    want: Want
    life: Lifecycle
    route: Route
    at_row: AtRow
    base: Base
    drift: Drift
    ready: Ready
    passes: Passes
