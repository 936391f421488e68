"""What to say of a model or a server that fails its callers: what is wrong, for whom, what to do.

Rule of this file: somebody reads it at night who did not build it, so a remedy names the command
and the place. It words verdicts and reaches none.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .actions import ActionKind
from .keys import Key
from .plan import Action
from .records import (
    AttentionItem,
    Availability,
    Badge,
    ItemKind,
    Kind,
    Lifecycle,
    ModelView,
    Record,
    SignalKind,
)
from .recovery import INSTALL, program_of, to_serve
from .waiting import counted, item

Models = Mapping[str, ModelView]


def about(kind: ItemKind, record: Record, sentence: str, remedy: str, **more: Any) -> AttentionItem:
    """Return an item about one key."""
    return item(
        kind, sentence, str(record.key), key=record.key, host=record.host, remedy=remedy, **more
    )


# ---- models


def unavailable(
    models: Iterable[ModelView],
    records: Iterable[Record],
    actions: Mapping[Key, Action],
    retired: frozenset[str],
) -> Iterator[AttentionItem]:
    """Yield an item for each model that is placed and that nobody can call.

    actions: planned, by key. retired: hosts.
    """
    lost = {
        one.name: one for one in models if one.availability is Availability.UNAVAILABLE and one.keys
    }
    servers: dict[str, list[Record]] = {name: [] for name in lost}
    for record in records if lost else ():
        if record.key.model in lost and record.kind not in (Kind.FOREIGN, Kind.ORPHAN):
            servers[record.key.model].append(record)
    for name, model in lost.items():
        yield item(
            ItemKind.MODEL_UNAVAILABLE,
            f"Callers of {name} get errors: nothing serves it ({model.summary}).",
            name,
            remedy=to_serve(servers[name], actions, retired),
            evidence=tuple(standing(one) for one in servers[name]),
        )


def standing(record: Record) -> str:
    """Return how a server stands, one line of evidence."""
    routed = "in LiteLLM" if record.row is not None else "not in LiteLLM"
    reached = ", reached by LiteLLM only" * record.reached
    drained = ", drained" * record.drained
    return f"{record.key}: {record.lifecycle.value}{reached}{drained}, {routed}"


# ---- servers


def down(record: Record, models: Models, rebooters: frozenset[str]) -> AttentionItem:
    """Return the item of a server that should serve and does not.

    rebooters: the providers that can be told to reboot a box.
    """
    detail = f" The newest probe: {record.signal.detail}." if record.signal.detail else ""
    return about(
        ItemKind.DOWN,
        record,
        f"{record.key} is down. {record.because}{detail} {hurt(record, models)}",
        _to_mend(record, rebooters),
        evidence=record_evidence(record),
    )


def hurt(record: Record, models: Models) -> str:
    """Return what it means for the callers of a model that one server does not serve them."""
    name, model = record.key.model, models.get(record.key.model)
    if model is None:
        return "No model of models.yaml needs it."
    if model.availability is Availability.UNKNOWN:
        return f"Whether something else serves {name} is not known at the moment."
    others = model.healthy + model.reached + len(model.orphans)
    if not others:
        return f"Nothing else serves {name}: its callers get errors."
    served = f"{counted(others, 'other server')} of {name} {'serves' if others == 1 else 'serve'}"
    if record.routed:
        return f"{served} callers; LiteLLM sends some here, too, until its route is gone."
    return f"{served} its callers."


def _to_mend(record: Record, rebooters: frozenset[str]) -> str:
    """Return what to do about a server that is down, the likeliest cause first."""
    host, program = record.host, program_of(record)
    tail = f"`supervisorctl tail {program}`"
    if record.lifecycle is Lifecycle.FOREIGN:
        return (
            f"Look {_console(record)} whether the box still exists. If not, press Retire on the "
            f"page of {host}; if it does, compare its address and ports with the listing."
        )
    if record.lifecycle is Lifecycle.WRONG_MODEL:
        return (
            f"On the box {INSTALL} installs what it should serve; or correct the row of {host} "
            "in `fleet.hosts`."
        )
    if record.lifecycle is Lifecycle.REJECTED:
        return (
            f"On the box {INSTALL} gives its servers the present key. If it refuses still, "
            "another program has the port: look at `supervisorctl status`."
        )
    if record.lifecycle is Lifecycle.STALLED:
        return (
            f"On the box: `supervisorctl status`. If it does not list {program}, read "
            f"`supervisorctl tail llmao-install`, else {tail}. Mend that, then {INSTALL}."
        )
    if Badge.HUNG in record.badges:
        return f"On the box read {tail}, then `supervisorctl restart {program}`."
    return (
        f"See {_console(record)} that the box runs. On the box: `supervisorctl status` and {tail}."
        f"{_reboot(record, rebooters)}"
    )


def _console(record: Record) -> str:
    return f"in {record.provider}'s console" if record.provider else "at the machine"


def _reboot(record: Record, rebooters: frozenset[str]) -> str:
    if not record.provider:
        return ""
    if record.provider not in rebooters:
        return " If it does not let you in, reboot it there."
    return f" If it does not let you in, press Reboot on the page of {record.host}."


def record_evidence(record: Record) -> tuple[str, ...]:
    """Return what led to a record's lifecycle, in lines."""
    lines = [
        f"lifecycle: {record.lifecycle.value}, by rule {record.rule}",
        f"signal: {record.signal.kind.value} {record.signal.detail}".strip(),
        f"failures in a row: {record.fails}",
    ]
    if record.litellm_said:
        lines.append(f"LiteLLM says: {record.litellm_said}")
    return tuple(lines)


def not_proven(record: Record, models: Models) -> AttentionItem:
    """Return the item of a server that answers and has no route: it did not prove itself."""
    port = record.deployment.listen_port if record.deployment else 0
    remedy = (
        f"Ask it for a completion on its box (`curl localhost:{port}/v1/…` with its key), and read "
        f"`supervisorctl tail {program_of(record)}`."
    )
    if "paths" in record.proof:
        remedy = f"On the box {INSTALL} starts it behind llmao's guard."
    return about(
        ItemKind.NOT_PROVEN,
        record,
        f"{record.key} answers and has not proven {record.proof}, so it is not in LiteLLM yet. "
        f"{hurt(record, models)}",
        remedy,
    )


def previous_bearer(record: Record) -> AttentionItem:
    """Return the item of a box that did not fetch since the salt changed."""
    return about(
        ItemKind.BEARER_PENDING,
        record,
        f"{record.key} still runs with the key of the previous salt. Callers are served until "
        "that salt goes from config.yaml.",
        f"On its box: {INSTALL}.",
    )


def discovered(record: Record) -> AttentionItem:
    """Return the item of a server that works for us on a box nobody named."""
    model, port = record.key.model, record.deployment.listen_port if record.deployment else 0
    return about(
        ItemKind.DISCOVERED,
        record,
        f"{record.key} serves {model} on a box that fleet.hosts does not name. {_gets(record)}",
        f"To keep it, press Approve, or add {record.host} with `[{model}, {port}]` to "
        "`fleet.hosts` and reload; else end its rental.",
        button="approve",
    )


def _gets(record: Record) -> str:
    """Return whether callers get a server that works."""
    if record.drained:
        return "It is drained, so callers do not get it."
    if record.routed:
        return "Callers get it."
    return "Callers get it once it has proven itself."


# ---- servers that are too few

AWAITED_S = 3600.0


def to_relieve(full: Key, records: Iterable[Record], now: float) -> str:
    """Return what to do about a server at which requests wait: nothing while help is on its way."""
    helpers = [
        one
        for one in records
        if one.key.model == full.model and one.kind is Kind.INTENDED and not one.drained
    ]
    if any(one.key == full and one.restarting for one in helpers):
        return "Wait: its box is to be rebooted, and gets no new requests before it is back."
    for one in helpers:
        if one.key != full and (coming := _coming(one, now)):
            return f"Wait: {one.key} {coming}, and takes its share once it serves."
    return f"Rent one more box, and approve it with {full.model}."


def _coming(record: Record, now: float) -> str:
    """Return in words how a server is on its way, "" for one that is not."""
    if record.restarting:
        return "is being rebooted"
    if record.lifecycle is Lifecycle.LOADING:
        return "loads"
    awaited = record.lifecycle is Lifecycle.AWAITING and now - record.since < AWAITED_S
    # One that no listing places may never come.
    return "is to ask for its configuration" if awaited and record.dialable else ""


# ---- orphans

_ASKED = ("orphan-serving", "orphan-boxless")


def orphan(record: Record, models: Models) -> Iterator[AttentionItem]:
    """Yield an item for an orphan that may serve, with a button once it has been one for long."""
    serves = record.signal.kind in (SignalKind.OK, SignalKind.BUSY)
    asked = record.action_rule in _ASKED
    if not (serves or asked or not record.host):
        return
    press = "press the button" if asked else "wait for its button here"
    if record.host:
        remedy = (
            f"To keep it, add {record.host} to `fleet.hosts` and reload; to remove it, {press}."
        )
        sentence = f"{record.key} is in LiteLLM and serves, and nothing intends it. "
        sentence += _left(record, models)
    else:
        remedy = f"To keep it, add its model to `models.yaml` and reload; to remove it, {press}."
        sentence = (
            f"{record.key} is in LiteLLM, and nothing intends it; no probe can tell whether it "
            "serves callers."
        )
    yield about(
        ItemKind.ORPHAN_SERVING,
        record,
        sentence,
        remedy,
        button="run" if asked else "",
        action=ActionKind.PRUNE_ORPHAN if asked else None,
    )


def _left(record: Record, models: Models) -> str:
    """Return what callers would have without an orphan."""
    name = record.row.model_name if record.row else record.key.model
    model = models.get(name)
    others = model.healthy + model.reached + len(model.orphans) - 1 if model else 0
    if others > 0:
        return f"Without it callers of {name} have {counted(others, 'server')}."
    return f"Nothing else serves {name}: without it its callers get errors."
