"""What a person should look at: one item per trouble, each a sentence with its remedy.

Rule of this file: the kinds are a closed list; an item that names a shared cause replaces the
many it would otherwise take. An item's id is the same for as long as the trouble is.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import evolve

from .actions import ActionKind
from .draft import Draft
from .errors import Trouble
from .facts import Gate, Want
from .foreign import foreign_vanished
from .history import Canary, History
from .intended import Intended
from .money import money_items, no_instance
from .placement import Answering, Found, Places, answering
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
from .scene import Scene
from .signal import saturated_s
from .snapshots import Snapshots, UnknownHost
from .verdicts import DOWN
from .waiting import failing_writes, held, item, needing_people


def attention(
    snapshots: Snapshots,
    scene: Scene,
    places: Places,
    records: Sequence[Record],
    drafts: Sequence[Draft],
    models: Sequence[ModelView],
    history: History,
) -> tuple[AttentionItem, ...]:
    """Return every item of this pass, what hurts callers first; `since` from history."""
    found = [
        *source_items(snapshots),
        *held(drafts, scene),
        *_models(models),
        *_records(records),
        *_saturated(records, drafts),
        *failing_writes(scene),
        *needing_people(drafts),
        *_vanished(scene, history),
        *foreign_vanished(history.foreign, scene),
        *_boxes(scene, places),
        *_hosts(scene.intended, places, history),
        *no_instance(places, history.hosts, scene),
        *money_items(places, history.idle, drafts, scene),
    ]
    return dated(found, history.items, scene.now)


def dated(
    found: Iterable[AttentionItem], since: Mapping[str, float], now: float
) -> tuple[AttentionItem, ...]:
    """Return items sorted by what hurts most, each with the time it was first seen."""
    order = {kind: place for place, kind in enumerate(ItemKind)}
    unique = {one.id: one for one in found}
    ranked = sorted(unique.values(), key=lambda one: (order[one.kind], one.id))
    return tuple(evolve(one, since=since.get(one.id, now)) for one in ranked)


# ---- sources

_LITELLM = {
    "Unauthorized": (
        ItemKind.LITELLM_UNAUTHORIZED,
        "LiteLLM refuses llmao's key: set litellm.master_key to its master key or a proxy_admin's.",
    ),
    "Unreachable": (
        ItemKind.LITELLM_UNREACHABLE,
        "LiteLLM cannot be reached: check that it runs, and litellm.base_url. Routes stay.",
    ),
}
NO_DATABASE = "litellm_no_database"


def source_items(snapshots: Snapshots) -> Iterator[AttentionItem]:
    """Yield one item per source that cannot be read."""
    troubled: dict[str, Trouble | None] = {
        "litellm": snapshots.deployments.trouble,
        "litellm_health": snapshots.health.trouble,
        **{name: one.trouble for name, one in sorted(snapshots.inventories.items())},
        **dict(sorted(snapshots.troubles.items())),
    }
    if troubled["litellm"] is not None:
        del troubled["litellm_health"]
    for name, trouble in troubled.items():
        if trouble is not None:
            yield _source(name, trouble)


def _source(name: str, trouble: Trouble) -> AttentionItem:
    evidence = (f"{trouble.kind}: {trouble.message}", f"{trouble.count} failures in a row")
    if name == "config":
        sentence = "The changed configuration was not taken: the old one stays in force."
        return item(ItemKind.CONFIG_RELOAD, sentence, evidence=(trouble.message,))
    if name == "journal":
        sentence = f"Passes are not kept for replay: {trouble.message}. Nothing else is affected."
        return item(ItemKind.SOURCE_TROUBLE, sentence, name, evidence=(trouble.message,))
    if name == "store":
        sentence = f"What happens is not kept, and no deed of an admin is: {trouble.message}"
        return item(ItemKind.SOURCE_TROUBLE, sentence, name, evidence=evidence)
    if name.startswith("notify["):
        sentence = f"Notifications to {name} do not get through: {trouble.message}"
        return item(ItemKind.SOURCE_TROUBLE, sentence, name, evidence=evidence)
    if NO_DATABASE in trouble.message:
        sentence = "LiteLLM keeps no models: start it with STORE_MODEL_IN_DB=True and a database."
        return item(ItemKind.LITELLM_NO_DATABASE, sentence, evidence=evidence)
    if name == "litellm" and trouble.kind in _LITELLM:
        kind, sentence = _LITELLM[trouble.kind]
        return item(kind, sentence, evidence=evidence)
    sentence = f"{name} cannot be read ({trouble.message}): nothing is concluded from it."
    return item(ItemKind.SOURCE_TROUBLE, sentence, name, evidence=evidence)


# ---- models, records


def _models(models: Iterable[ModelView]) -> Iterator[AttentionItem]:
    for model in models:
        if model.availability is Availability.UNAVAILABLE and model.keys:
            yield item(
                ItemKind.MODEL_UNAVAILABLE,
                f"Nobody can call {model.name}: {model.summary}.",
                model.name,
            )


def _records(records: Iterable[Record]) -> Iterator[AttentionItem]:
    for record in records:
        key = record.key
        wanted = record.kind in (Kind.INTENDED, Kind.DISCOVERED)
        if wanted and record.lifecycle in DOWN and not record.drained:
            yield item(
                ItemKind.DOWN,
                f"{key} is {record.lifecycle.value}: {_why(record)}",
                str(key),
                key=key,
                host=record.host,
                evidence=record_evidence(record),
            )
        elif record.kind is Kind.DISCOVERED:
            yield item(
                ItemKind.DISCOVERED,
                f"{key} serves on a box that is not in fleet.hosts: add it there to keep it.",
                str(key),
                key=key,
                host=record.host,
            )
        elif record.kind is Kind.ORPHAN:
            yield from _orphan(record)
        if record.proof:
            yield item(
                ItemKind.NOT_PROVEN,
                f"{key} answers and has not proven {record.proof}: it is not in LiteLLM yet.",
                str(key),
                key=key,
                host=record.host,
            )
        if Badge.BEARER_PENDING in record.badges:
            yield item(
                ItemKind.BEARER_PENDING,
                f"{key} still runs the previous bearer: let its box fetch its configuration again.",
                str(key),
                key=key,
                host=record.host,
            )


def _orphan(record: Record) -> Iterator[AttentionItem]:
    """Yield an item for an orphan that may serve, with a button once it has been one for long."""
    key = record.key
    serves = record.signal.kind in (SignalKind.OK, SignalKind.BUSY)
    asked = record.action_rule in _ASKED
    if not (serves or asked or not record.host):
        return
    sentence = f"{key} is in LiteLLM and serves, and nothing intends it: add it to fleet.hosts "
    sentence += "or remove it."
    if not record.host:
        sentence = f"{key} is in LiteLLM and nothing intends it; no probe can tell whether it "
        sentence += "serves. Add it to models.yaml, or remove it."
    yield item(
        ItemKind.ORPHAN_SERVING,
        sentence,
        str(key),
        key=key,
        button="run" if asked else "",
        action=ActionKind.PRUNE_ORPHAN if asked else None,
    )


_ASKED = ("orphan-serving", "orphan-boxless")


def _saturated(records: Sequence[Record], drafts: Sequence[Draft]) -> Iterator[AttentionItem]:
    full = {one.key for one in records if one.badges and Badge.SATURATED in one.badges}
    for draft in drafts if full else ():
        seen = draft.aim.seen if draft.aim else None
        if draft.entry.key not in full or seen is None or seen.counters is None:
            continue
        key, waiting = draft.entry.key, seen.counters.waiting
        yield item(
            ItemKind.SATURATED,
            f"Requests have waited at {key} for {saturated_s(seen) / 60:.0f} min, {waiting:.0f} "
            "now: callers wait. Serve the model on one more box.",
            str(key),
            key=key,
            host=draft.entry.deployment.host if draft.entry.deployment else "",
            evidence=(f"running: {seen.counters.running:.0f}, waiting: {waiting:.0f}",),
        )


def _why(record: Record) -> str:
    return f"{record.because} {record.signal.detail}".strip()


def record_evidence(record: Record) -> tuple[str, ...]:
    """Return what led to a record's lifecycle, in lines."""
    lines = [
        f"signal: {record.signal.kind.value} {record.signal.detail}".strip(),
        f"rule: {record.rule}",
        f"failures in a row: {record.fails}",
    ]
    if record.litellm_said:
        lines.append(f"LiteLLM says: {record.litellm_said}")
    return tuple(lines)


def rows_left(history: History, scene: Scene) -> frozenset[str]:
    """Return the ids of our rows as last seen, without those we removed ourselves."""
    removed = {one for one, write in scene.writes.items() if write.kind.removes}
    return history.our_rows - removed if removed else history.our_rows


def _vanished(scene: Scene, history: History) -> Iterator[AttentionItem]:
    """Yield an item when all rows of ours are gone at once: an upgrade, an emptied table."""
    if scene.deployments is None or len(history.our_rows) < 2:
        return
    rows, fleet = scene.deployments.body.rows, scene.fleet.name
    if any(row.in_db and row.fleet == fleet for row in rows):
        return
    if len(ours := rows_left(history, scene)) >= 2:
        yield item(
            ItemKind.ROWS_VANISHED,
            f"All {len(ours)} deployments of ours vanished from LiteLLM at once: they "
            "are put back. Was its database emptied or upgraded?",
        )


# ---- hosts and boxes


def _boxes(scene: Scene, places: Places) -> Iterator[AttentionItem]:
    unknowns = scene.protocol.unknown
    boxes = answering(places, frozenset(one.host for one in unknowns))
    for unknown in unknowns:
        yield _unknown(unknown, boxes.get(unknown.host, ()))
    for wrong in scene.protocol.wrong_keys:
        claimed = f", claiming to be {wrong.claimed_host}" if wrong.claimed_host else ""
        yield item(
            ItemKind.WRONG_KEY,
            f"{wrong.peer} asks with a wrong fleet key{claimed}: if it is a box of ours, its "
            "template holds an old key.",
            wrong.peer,
            evidence=(f"asked {wrong.count} times",),
        )


def _unknown(unknown: UnknownHost, boxes: Sequence[Answering]) -> AttentionItem:
    """Return the item of a name nobody knows; a box that has another name is told by both."""
    name, evidence = unknown.host, [f"asked {unknown.count} times"]
    for one in boxes:
        price = one.found.instance.price_per_hour
        costs = f", {price:.2f} $/h" if price is not None else ""
        evidence.append(f"{one.found.provider} instance {one.found.instance.id}{costs}")
    hosts = list(dict.fromkeys(one.host for one in boxes if one.host))
    asks = f"{name} asks for a configuration with the fleet key and is not in fleet.hosts"
    if hosts:
        known = " or ".join(hosts)
        sentence = f"{asks}, which has that box as {known}: let it ask by that name, or name the "
        sentence += f"host {name} with `was: [{hosts[0]}]`."
    else:
        others = _other_names(name, boxes)
        also = f" ({others})" if others else ""
        asks = asks.replace(name, f"{name}{also}", 1)
        sentence = f"{asks}: approve it with its models, or add it there."
    return item(
        ItemKind.UNKNOWN_HOST,
        sentence,
        name,
        host=name,
        button="" if hosts else "approve",
        evidence=tuple(evidence),
    )


def _other_names(name: str, boxes: Sequence[Answering]) -> str:
    """Return what else the only box of a name is called, "" if it is not the only one."""
    if len(boxes) != 1:
        return ""
    instance = boxes[0].found.instance
    names = dict.fromkeys((*instance.names, *instance.addresses))
    return ", ".join(one for one in names if one != name)


def _hosts(intended: Intended, places: Places, history: History) -> Iterator[AttentionItem]:
    for name in intended.hosts:
        known = history.hosts.get(name)
        place = places.of(name)
        if known and known.unlisted and name not in intended.labels.retired_hosts:
            yield item(
                ItemKind.REMOVE_HOST,
                f"Remove {name} from fleet.hosts: {known.provider or 'its provider'} no longer "
                "lists it.",
                name,
                host=name,
            )
        if place.ambiguous:
            yield _ambiguous(name, place.colliding, place.taken_by)


def _ambiguous(name: str, colliding: Sequence[Found], taken_by: str) -> AttentionItem:
    ids = tuple(f"{one.provider} {one.instance.id}" for one in colliding)
    if taken_by:
        sentence = f"{name} and {taken_by} name the same instance: {taken_by} has it. Remove one."
    else:
        sentence = (
            f"{name} could be any of {len(ids)} instances: name the host by its contract label "
            "in fleet.hosts, with `was: [" + name + "]`."
        )
    return item(ItemKind.AMBIGUOUS, sentence, name, host=name, evidence=ids)


def not_proven(draft: Draft, lacking: str) -> str:
    """Return what a Healthy, unrouted key has failed to prove, "" while it is being asked."""
    if draft.facts.want not in (Want.INTENDED, Want.DISCOVERED) or draft.entry.rows or not lacking:
        return ""
    if draft.facts.gate is not Gate.OPEN or draft.life is not Lifecycle.HEALTHY:
        return ""
    seen = draft.aim.seen if draft.aim else None
    if seen is None or seen.canary is not Canary.FAILED:
        return lacking if seen and seen.open_paths else ""
    return f"{lacking} ({seen.canary_said})" if seen.canary_said else lacking
