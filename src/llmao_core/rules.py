"""The decision table: two lists of rows, the first that applies wins.

Rule of this file: rows and nothing else. A row has a name, the cells that matter (others mean
any), the outcome and a sentence that begins with what was observed. Two situations are two rows.
Sentences of actions may use {host}, {port}, {model}, {key}, {detail} and {row}.
"""

from attrs import frozen

from .actions import ActionKind
from .facts import (
    AtRow,
    Base,
    Drift,
    Evidence,
    Fact,
    Gate,
    Handout,
    Named,
    Passes,
    Ready,
    Route,
    RowSeen,
    Served,
    Want,
)
from .records import Lifecycle
from .verdicts import DOWN

Cell = tuple[Fact, ...] | Fact | None
LifeCell = tuple[Lifecycle, ...] | Lifecycle | None


@frozen
class LifeRule:
    """One row of the lifecycle table. lifecycle None: the last one stands, marked not fresh."""

    name: str
    because: str
    lifecycle: Lifecycle | None = None
    held: bool = False
    evidence: Cell = None
    served: Cell = None
    handout: Cell = None
    row_seen: Cell = None
    named: Cell = None


@frozen
class ActionRule:
    """One row of the action table. action None: nothing is done. witness: it needs one.

    by_person: it needs a person, whatever the policy.
    """

    name: str
    because: str
    action: ActionKind | None = None
    witness: bool = False
    by_person: bool = False
    gate: Cell = None
    want: Cell = None
    life: LifeCell = None
    route: Cell = None
    at_row: Cell = None
    base: Cell = None
    drift: Cell = None
    ready: Cell = None
    passes: Cell = None


_FAILED = (Evidence.FAILED, Evidence.FAILED_ENOUGH)
_REFUSED = (Evidence.REFUSED_TWICE, Evidence.REFUSED_LONG)

# fmt: off
LIFECYCLES: tuple[LifeRule, ...] = (
    # ---- could not tell: the last verdict stands
    LifeRule("unseen", "No recent probe at its address: the last verdict stands.",
             evidence=Evidence.UNSEEN),
    LifeRule("garbled", "It answers what makes no sense: the last verdict stands.",
             evidence=Evidence.GARBLED),
    LifeRule("refused-once", "It refused llmao once: the last verdict stands until it does again.",
             evidence=Evidence.REFUSED),
    LifeRule("other-model-once", "It named another model once: the last verdict stands.",
             evidence=Evidence.OTHER_MODEL),
    # A busy stranger must not look like a busy server of ours.
    LifeRule("busy-unproven", "It is slow and has not proven to be ours: the last verdict stands.",
             evidence=Evidence.BUSY_UNPROVEN),
    # ---- answers, and is not what it should be
    LifeRule("foreign", "It refuses llmao, and no listing names its address: somebody else's.",
             Lifecycle.FOREIGN, evidence=Evidence.REFUSED_LONG, named=Named.NOWHERE),
    LifeRule("rejected", "It refused llmao twice in a row.", Lifecycle.REJECTED, evidence=_REFUSED),
    LifeRule("wrong-model", "It serves another model than it should, twice in a row.",
             Lifecycle.WRONG_MODEL, evidence=Evidence.OTHER_TWICE),
    # ---- serves
    LifeRule("healthy", "It answers.", Lifecycle.HEALTHY, evidence=Evidence.OK),
    # vLLM under full load answers /health late; calling it dead unrouted serving engines.
    LifeRule("busy", "It is slow to answer and its counters move: it is working.",
             Lifecycle.HEALTHY, evidence=Evidence.BUSY),
    LifeRule("held", "It failed, and not yet often enough to call it down.",
             Lifecycle.HEALTHY, held=True, evidence=Evidence.FAILED, served=Served.YES),
    # ---- does not serve
    LifeRule("unhealthy", "It served, and now probe after probe fails.",
             Lifecycle.UNHEALTHY, evidence=Evidence.FAILED_ENOUGH, served=Served.YES),
    LifeRule("died-before-restart",
             "It was in LiteLLM before llmao started, and probe after probe fails.",
             Lifecycle.UNHEALTHY, evidence=Evidence.FAILED_ENOUGH, handout=Handout.NONE,
             row_seen=RowSeen.YES),
    LifeRule("awaiting", "Its box was not given its configuration since llmao started.",
             Lifecycle.AWAITING, evidence=_FAILED, handout=Handout.NONE),
    LifeRule("loading", "Its box fetched its configuration and is loading.", Lifecycle.LOADING,
             evidence=_FAILED, handout=Handout.YOUNG),
    LifeRule("stalled", "Its box fetched its configuration and did not come up in time.",
             Lifecycle.STALLED, evidence=_FAILED, handout=Handout.OLD),
    # ---- commercial
    LifeRule("commercial-up", "LiteLLM's check succeeds.", Lifecycle.HEALTHY,
             evidence=Evidence.LITELLM_UP),
    LifeRule("commercial-down", "LiteLLM's check fails.", Lifecycle.UNHEALTHY,
             evidence=Evidence.LITELLM_DOWN),
    LifeRule("commercial-unchecked", "LiteLLM has not checked it lately.", Lifecycle.CONFIGURED,
             evidence=Evidence.LITELLM_UNKNOWN),
)

_SINGLE = (Route.ONE, Route.BESIDE)
_ROUTED = (*_SINGLE, Route.SEVERAL)
_LEFT = (Want.ORPHAN, Want.DISPLACED)
_ORPHANS = (*_LEFT, Want.BOXLESS)
_OURS = (Want.INTENDED, Want.DISCOVERED, Want.COMMERCIAL, Want.UNKNOWN, *_ORPHANS)
_WANTED = (Want.INTENDED, Want.DISCOVERED, Want.COMMERCIAL)
_BOX = (Want.INTENDED, Want.DISCOVERED)
_BAD = (AtRow.FAILED, AtRow.REFUSED, AtRow.OTHER_MODEL)
_FIT = (Ready.OK, Ready.PROVEN)

ACTIONS: tuple[ActionRule, ...] = (
    # ---- stop: cannot see, or just wrote
    ActionRule("blind", "A needed source cannot be used: nothing is decided.", gate=Gate.BLIND),
    ActionRule("pending", "A write to its row is not yet confirmed: nothing is decided.",
               gate=Gate.PENDING),
    ActionRule("foreign-row", "The row is not ours: it is left alone.", want=Want.FOREIGN),
    # ---- people said so
    ActionRule("drained", "{key} is drained or retired by an admin.", ActionKind.DELETE_LITELLM,
               gate=Gate.LEAVING, want=_OURS, route=_ROUTED),
    ActionRule("kept-out", "Drained or retired: not added.", gate=Gate.LEAVING),
    ActionRule("reboot-drain", "{host} is to be rebooted: {key} goes first.",
               ActionKind.DELETE_LITELLM, gate=Gate.REBOOTING, want=(*_BOX, *_LEFT),
               route=_ROUTED),
    ActionRule("reboot-kept-out", "Its box is to be rebooted: not added until that is over.",
               gate=Gate.REBOOTING),
    ActionRule("announced-restart", "The box announced that it restarts {key}.",
               ActionKind.DELETE_LITELLM, gate=Gate.RESTARTING, want=_BOX, route=_ROUTED),
    ActionRule("restarting", "The box is restarting it: not added until it is proven again.",
               gate=Gate.RESTARTING, want=_BOX),
    # What only a listing can tell is not known while it is unread: no verdict, and no button.
    ActionRule("listing-unread",
               "Nothing intends it, and a listing that may name its box cannot be read: kept.",
               want=Want.UNKNOWN),
    # ---- traffic off what does not serve
    ActionRule("open-row", "{key} does work for callers without a key: it is not ours.",
               ActionKind.DELETE_LITELLM, want=_BOX, life=DOWN, route=_ROUTED, at_row=AtRow.OPEN),
    ActionRule("dead-row", "{key} is {life} and its row's own address fails: {detail}.",
               ActionKind.DELETE_LITELLM, witness=True, want=_BOX, life=DOWN, route=_ROUTED,
               at_row=_BAD),
    # A box that reboots fetches first and loads after; its old row must not wait for Stalled.
    ActionRule("rebooting-box", "{key} is {life} and its row's own address fails: {detail}.",
               ActionKind.DELETE_LITELLM, witness=True, want=_BOX,
               life=(Lifecycle.LOADING, Lifecycle.AWAITING), route=_ROUTED, at_row=AtRow.FAILED),
    # An address left behind may get another tenant, who must not get our callers' requests.
    ActionRule("moved-open",
               "{key} has moved; its row's old address works without a key: not ours.",
               ActionKind.DELETE_LITELLM, want=_BOX, route=_ROUTED, at_row=AtRow.OPEN,
               base=Base.ELSEWHERE, ready=Ready.NO),
    ActionRule("moved-dead",
               "{key} has moved; its old address fails and the new one is not ok: {detail}.",
               ActionKind.DELETE_LITELLM, witness=True, want=_BOX, route=_ROUTED, at_row=_BAD,
               base=Base.ELSEWHERE, ready=Ready.NO),
    # ---- two of a kind
    ActionRule("duplicate-rows", "LiteLLM has more than one row of ours for {key}.",
               ActionKind.DELETE_DUPLICATE, want=_WANTED, route=Route.SEVERAL),
    # ---- put right
    ActionRule("field-must-go", "The row of {key} holds a field llmao no longer writes: {drift}.",
               ActionKind.REPLACE_LITELLM, want=_BOX, life=Lifecycle.HEALTHY, route=_SINGLE,
               drift=Drift.MUST_GO, ready=_FIT),
    ActionRule("moved", "{key} is reached at another address than its row says.",
               ActionKind.UPDATE_LITELLM, want=_BOX, life=Lifecycle.HEALTHY, route=_SINGLE,
               base=Base.ELSEWHERE, ready=_FIT),
    ActionRule("body-differs", "The row of {key} differs from what llmao writes: {drift}.",
               ActionKind.UPDATE_LITELLM, want=_BOX, life=Lifecycle.HEALTHY, route=_SINGLE,
               drift=Drift.DIFFERS, ready=_FIT),
    ActionRule("serving-absent", "{key} is Healthy, proven, and not in LiteLLM.",
               ActionKind.ADD_LITELLM, want=Want.INTENDED, life=Lifecycle.HEALTHY,
               route=Route.NONE, ready=Ready.PROVEN),
    ActionRule("discovered-serving",
               "{key} is Healthy, proven, not in LiteLLM, and not in fleet.hosts.",
               ActionKind.ADD_LITELLM, want=Want.DISCOVERED, life=Lifecycle.HEALTHY,
               route=Route.NONE, ready=Ready.PROVEN),
    # ---- commercial: present whatever LiteLLM's check says
    ActionRule("commercial-missing", "{key} is configured and not in LiteLLM.",
               ActionKind.ADD_LITELLM, want=Want.COMMERCIAL, route=Route.NONE),
    ActionRule("commercial-field-must-go",
               "The row of {key} holds a field llmao no longer writes: {drift}.",
               ActionKind.REPLACE_LITELLM, want=Want.COMMERCIAL, route=_SINGLE,
               drift=Drift.MUST_GO),
    ActionRule("commercial-moved", "The provider of {key} has another base URL.",
               ActionKind.UPDATE_LITELLM, want=Want.COMMERCIAL, route=_SINGLE,
               base=Base.ELSEWHERE),
    ActionRule("commercial-differs", "The row of {key} differs from what llmao writes: {drift}.",
               ActionKind.UPDATE_LITELLM, want=Want.COMMERCIAL, route=_SINGLE,
               drift=Drift.DIFFERS),
    # ---- orphans
    # A port given to another model: the server itself says that the old name is gone.
    ActionRule("displaced", "{host} port {port} is now another model's, and serves {detail}.",
               ActionKind.DELETE_LITELLM, want=Want.DISPLACED, route=_ROUTED,
               at_row=AtRow.OTHER_MODEL),
    ActionRule("orphan", "Nothing intends {key}, and its address does not serve it: {detail}.",
               ActionKind.PRUNE_ORPHAN, want=_LEFT, route=_ROUTED,
               at_row=(AtRow.FAILED, AtRow.OTHER_MODEL, AtRow.OPEN), passes=Passes.ENOUGH),
    # A second llmao with another salt is refused by every healthy server: the row holds the key
    # that counts, so LiteLLM must say that it fails, too.
    ActionRule("orphan-refuses", "Nothing intends {key}, and its server refuses: {detail}.",
               ActionKind.PRUNE_ORPHAN, witness=True, want=_LEFT, route=_ROUTED,
               at_row=AtRow.REFUSED, passes=Passes.ENOUGH),
    # Callers use it: only a person can know that nobody needs it.
    ActionRule("orphan-serving", "Nothing intends {key}, and it serves.",
               ActionKind.PRUNE_ORPHAN, by_person=True, want=_LEFT, route=_ROUTED,
               at_row=AtRow.ALIVE, passes=Passes.ENOUGH),
    ActionRule("orphan-boxless", "Nothing intends {key}, and no probe can tell whether it serves.",
               ActionKind.PRUNE_ORPHAN, by_person=True, want=Want.BOXLESS, route=_ROUTED,
               passes=Passes.ENOUGH),
    ActionRule("orphan-kept", "Nothing intends it, and it is not known to be dead: kept.",
               want=_ORPHANS),
    # ---- somebody else's copy: left alone until a person says otherwise
    ActionRule("copy-beside", "LiteLLM has a second row for {key}, without llmao's mark.",
               ActionKind.DELETE_DUPLICATE, by_person=True, want=_WANTED, route=Route.BESIDE),
    # ---- nothing to do
    ActionRule("routed", "It is in LiteLLM as it should be.", route=_ROUTED),
    ActionRule("not-proven", "It answers and has not yet proven to do work: not added yet.",
               life=Lifecycle.HEALTHY),
    ActionRule("not-serving", "It does not serve: not added."),
)
# fmt: on
