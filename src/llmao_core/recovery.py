"""What brings back a model that nobody can call: of all its servers, the one that takes least.

Rule of this file: what llmao does by itself is named with what it waits for; what a person must do
names the server and the command. It words verdicts and reaches none.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .keys import Key
from .plan import Action, Hold
from .records import Badge, Kind, Lifecycle, Record, SignalKind
from .verdicts import DOWN, UP
from .waiting import VERBS, counted

_TO_ROUTE, _TO_WAIT, _TO_UNDRAIN, _TO_MEND, _TO_FIND = range(5)
INSTALL = "`supervisorctl start llmao-install`"
_ANSWERS_WRONGLY = (SignalKind.REFUSED, SignalKind.OTHER_MODEL, SignalKind.GARBLED)


class Way(NamedTuple):
    """What would bring one server back. takes: the less, the sooner."""

    takes: int
    words: str


def program_of(record: Record) -> str:
    """Return the name of a server's program on its box."""
    name = record.deployment.name if record.deployment else ""
    return f"vllm-{name or 'NAME'}"


def to_serve(
    servers: Sequence[Record], actions: Mapping[Key, Action], retired: frozenset[str]
) -> str:
    """Return what brings a model back soonest.

    servers: those that are meant to serve it. actions: planned, by key. retired: hosts.
    """
    if all(one.kind is Kind.COMMERCIAL and one.lifecycle not in UP for one in servers):
        return _at_providers(servers)
    ways = sorted(_way(one, actions.get(one.key), retired) for one in servers)
    soonest = ways[0] if ways else Way(_TO_FIND, "Rent a box and approve it.")
    if soonest.takes == _TO_WAIT and any(way.takes == _TO_MEND for way in ways):
        return f"{soonest.words} What is down has its own item: mend it meanwhile."
    if soonest.takes == _TO_MEND and sum(way.takes == _TO_MEND for way in ways) > 1:
        return "Mend a server of it: each has its own item. Or rent one more box and approve it."
    return soonest.words


def _way(record: Record, action: Action | None, retired: frozenset[str]) -> Way:
    if record.unlisted and record.lifecycle not in UP:
        return Way(_TO_FIND, f"The box of {record.key} is gone: rent another and approve it.")
    if record.drained:
        return _undrain(record, retired)
    if record.lifecycle in UP:
        return Way(_TO_ROUTE, _to_route(record, action))
    if record.lifecycle in DOWN:
        return _mend(record)
    return _to_find(record)


def _to_find(record: Record) -> Way:
    """Return what to do about a server that was not seen to serve yet."""
    if Badge.AMBIGUOUS in record.badges:
        words = f"See in its own item how to name {record.host}: it could be several instances."
        return Way(_TO_FIND, words)
    if Badge.UNPLACED in record.badges and record.kind is not Kind.COMMERCIAL:
        return Way(_TO_FIND, _to_place(record))
    if record.lifecycle is Lifecycle.LOADING:
        tail = f"`supervisorctl tail {program_of(record)}`"
        return Way(_TO_WAIT, f"Wait: {record.key} loads. {tail} on its box shows how far.")
    return Way(_TO_FIND, _to_ask(record))


def _at_providers(servers: Sequence[Record]) -> str:
    names = " or ".join(sorted({one.provider for one in servers if one.provider}))
    return (
        f"Read what LiteLLM says of it on the models page, and the status page of "
        f"{names or 'its provider'}; check the provider's key."
    )


def _undrain(record: Record, retired: frozenset[str]) -> Way:
    """Return how a drained server comes back; one that does not work has to be mended first."""
    works = record.lifecycle in UP
    if record.host in retired:
        back = f"take {record.host} back from retirement on its page"
    else:
        back = f"undrain {record.key}"
    words = "" if works else f" It is {record.lifecycle.value}, so look at that, too."
    first = back[0].upper() + back[1:]
    return Way(
        _TO_UNDRAIN if works else _TO_FIND,
        f"{first}, or rent one more box and approve it.{words}",
    )


def _mend(record: Record) -> Way:
    if record.kind is Kind.COMMERCIAL:
        return Way(_TO_MEND, _at_providers((record,)))
    return Way(
        _TO_MEND,
        f"Mend {record.key}, which is {record.lifecycle.value}: its own item says how. Or rent "
        "one more box and approve it.",
    )


# ---- what works and has no route


def _to_route(record: Record, action: Action | None) -> str:
    """Return what a server that works waits for until callers get it."""
    not_live = record.row is not None and not record.row.live
    if action is not None and not (not_live and action.hold is Hold.NOT_KEPT):
        return _held(action)
    if not_live:
        return (
            f"Look in LiteLLM's log for why it cannot load {record.key}: it saved it, and does not "
            "serve it."
        )
    if record.proof:
        return f"See the item of {record.key}: it answers and has not proven {record.proof}."
    because = waits(record)
    if not because:
        return f"See under Plan what {record.key} waits for: it has no route."
    works = "works" if record.lifecycle is Lifecycle.HEALTHY else "is configured"
    return f"Wait: {record.key} {works}, and gets its route {because}."


# What no action is planned for yet, by the rule that says so.
_WAITS = {
    "blind": "once what cannot be read under Sources can",
    "pending": "once LiteLLM shows what became of the last write",
    "reboot-kept-out": "once its box has rebooted",
    "restarting": "once it is proven again after its restart",
}


def waits(record: Record) -> str:
    """Return after what a server that works gets its row, "" for what has one or is to get none."""
    if record.row is not None or record.lifecycle not in UP:
        return ""
    if record.action_rule == "not-proven":
        return _proves(record)
    return _WAITS.get(record.action_rule, "")


def _proves(record: Record) -> str:
    if record.proof:
        return f"once it has proven {record.proof}"
    if not record.oks_left:
        return "once requests of llmao's own have proven that it works"
    more = f"once it has answered {counted(record.oks_left, 'more probe')} in a row"
    if not record.removals:
        return more
    return f"{more}, as its route was removed {counted(record.removals, 'time')} in the last hour"


def _held(action: Action) -> str:
    """Return how an action that would bring a model back stands."""
    what = f"{VERBS[action.kind]} {action.key}"
    if action.runs:
        return f"Wait: {what[0].lower()}{what[1:]} is under way."
    if action.policy == "observe":
        return (
            f"{what} is only observed: set its policy to `auto` under `policy` in config.yaml, and "
            "reload."
        )
    if action.hold is not Hold.NOT_HELD:
        return f"{what} is held: {action.hold.value}.{_HELD.get(action.hold, '')}"
    return f"{what} waits for you, as the policy says: press its button here."


_HELD = {
    Hold.BACKOFF: " Its own item says what LiteLLM refused.",
    Hold.NOT_KEPT: " Its own item says what to correct.",
    Hold.BRAKE: " Release the brake if that is meant.",
}


# ---- what does not answer


def _to_place(record: Record) -> str:
    return (
        f"No address is known of {record.host}: see in the provider's console that its box runs. "
        "If it does, compare its name in `fleet.hosts` and its ports with the listing."
    )


def _to_ask(record: Record) -> str:
    if record.signal.kind in _ANSWERS_WRONGLY:
        said = f" ({record.signal.detail})" if record.signal.detail else ""
        return (
            f"What answers at the address of {record.key} is not it{said}: see on its box "
            f"`supervisorctl status`, then {INSTALL}."
        )
    return (
        "See in the provider's console that its box runs, and on the box why it does not ask: "
        "`supervisorctl tail llmao-install`."
    )
