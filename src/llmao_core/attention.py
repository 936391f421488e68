"""What a person should look at: one item per trouble, each a sentence with its remedy.

Rule of this file: the kinds are a closed list; an item that names a shared cause replaces the
many it would otherwise take. An item's id is the same for as long as the trouble is.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from . import ailing
from .ages import dated
from .draft import Draft
from .emptied import emptied
from .errors import Trouble
from .facts import Gate, Want
from .foreign import foreign_vanished
from .history import Canary, History
from .keys import Key, is_host
from .money import as_listed, money_items, no_instance
from .placement import Answering, Found, Places, answering
from .plan import Action
from .prices import cost, per_hour
from .records import (
    AttentionItem,
    Availability,
    Badge,
    ItemKind,
    Kind,
    Lifecycle,
    ModelView,
    Record,
)
from .scene import Scene
from .signal import saturated_s
from .snapshots import Snapshots, UnknownHost
from .verdicts import DOWN
from .waiting import counted, failing_writes, held, item, needing_people


def attention(
    snapshots: Snapshots,
    scene: Scene,
    places: Places,
    records: Sequence[Record],
    drafts: Sequence[Draft],
    models: Sequence[ModelView],
    history: History,
) -> tuple[AttentionItem, ...]:
    """Return every item of this pass, what hurts callers first; `since` from history.

    places: by the last good listings, stale or not.
    """
    found = [
        *source_items(snapshots),
        *held(drafts, scene),
        *ailing.unavailable(
            models, records, _planned(drafts, models), scene.intended.labels.retired_hosts
        ),
        *_records(records, {one.name: one for one in models}, scene.rebooters),
        *_saturated(records, drafts, scene),
        *failing_writes(scene),
        *needing_people(drafts),
        *emptied(history, drafts, scene),
        *foreign_vanished(history.foreign, scene),
        *_boxes(scene, places),
        *_hosts(places, history, records, scene),
        *no_instance(places, history.hosts, history.items, scene),
        *money_items(places, history.idle, drafts, scene),
    ]
    return dated(found, history.items, scene.now)


def _planned(drafts: Iterable[Draft], models: Iterable[ModelView]) -> Mapping[Key, Action]:
    """Return what is planned for the servers of models that nobody can call."""
    lost = {one.name for one in models if one.availability is Availability.UNAVAILABLE}
    return {
        draft.entry.key: draft.action
        for draft in (drafts if lost else ())
        if draft.action is not None and draft.entry.key.model in lost
    }


# ---- sources

_LITELLM = {
    "Unauthorized": (
        ItemKind.LITELLM_UNAUTHORIZED,
        "LiteLLM refuses llmao's key: new servers get no callers, and dead ones keep theirs.",
    ),
    "Unreachable": (
        ItemKind.LITELLM_UNREACHABLE,
        "llmao cannot reach LiteLLM. Routes stay; if it is down, callers of all models get errors.",
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
    if NO_DATABASE in trouble.message:
        sentence = (
            "LiteLLM keeps no models, so that llmao can add none: new servers get no callers."
        )
        return item(ItemKind.LITELLM_NO_DATABASE, sentence, evidence=evidence)
    if name == "litellm" and trouble.kind in _LITELLM:
        kind, sentence = _LITELLM[trouble.kind]
        return item(kind, sentence, evidence=evidence)
    sentence, remedy = _told(name, trouble)
    return item(ItemKind.SOURCE_TROUBLE, sentence, name, evidence=evidence, remedy=remedy)


def _told(name: str, trouble: Trouble) -> tuple[str, str]:
    """Return what it means that a source fails, and what to do."""
    if name == "journal":
        return (
            f"Passes are not kept for replay: {trouble.message}. Nothing else is affected.",
            "Make room on the disk of the journal, or correct `journal.dir` and restart.",
        )
    if name == "store":
        return (
            f"What happens is not kept, and what admins do is refused: {trouble.message}",
            "See that the database answers and that its disk is not full. Callers are served.",
        )
    if name.startswith("notify["):
        return (
            f"Notifications to {name} do not get through: {trouble.message}",
            f"Correct {name} in config.yaml and reload, or ask whoever runs the receiver.",
        )
    what, remedy = _OF_LITELLM.get(name, (name, _REMEDIES.get(trouble.kind, _WAIT)))
    return (
        f"{what} cannot be read ({trouble.message}). Nothing is concluded from it; routes stay.",
        remedy.format(name=name),
    )


_LOG = "Look in LiteLLM's log for what it answered; if it is a new version, in llmao's, too."
_OF_LITELLM = {
    "litellm": ("What LiteLLM serves", _LOG),
    "litellm_health": ("What LiteLLM's own checks say", _LOG),
}
_WAIT = "Wait a few minutes; if it stays, look at the status page of {name}, then at llmao's log."
_REMEDIES = {
    "Unauthorized": "Put a valid key for {name} into config.yaml and reload.",
    "Garbled": "Look in llmao's log for what {name} answered; it may have changed its interface.",
}


# ---- models, records


def _records(
    records: Iterable[Record], models: ailing.Models, rebooters: frozenset[str]
) -> Iterator[AttentionItem]:
    for record in records:
        wanted = record.kind in (Kind.INTENDED, Kind.DISCOVERED)
        excused = record.drained or record.reached
        if wanted and record.lifecycle in DOWN and not excused:
            yield ailing.down(record, models, rebooters)
        elif record.kind is Kind.DISCOVERED:
            yield ailing.discovered(record)
        elif record.kind is Kind.ORPHAN:
            yield from ailing.orphan(record, models)
        if record.proof:
            yield ailing.not_proven(record, models)
        if Badge.BEARER_PENDING in record.badges:
            yield ailing.previous_bearer(record)


def _saturated(
    records: Sequence[Record], drafts: Sequence[Draft], scene: Scene
) -> Iterator[AttentionItem]:
    full = {one.key for one in records if one.badges and Badge.SATURATED in one.badges}
    for draft in drafts if full else ():
        seen = draft.aim.seen if draft.aim else None
        if draft.entry.key not in full or seen is None or seen.counters is None:
            continue
        key, waiting = draft.entry.key, seen.counters.waiting
        yield item(
            ItemKind.SATURATED,
            f"Requests have waited at {key} for {saturated_s(seen) / 60:.0f} min, {waiting:.0f} "
            f"now: callers of {key.model} wait.",
            str(key),
            key=key,
            host=draft.entry.deployment.host if draft.entry.deployment else "",
            evidence=(f"running: {seen.counters.running:.0f}, waiting: {waiting:.0f}",),
            remedy=ailing.to_relieve(key, records, scene.now),
        )


# ---- hosts and boxes


def _boxes(scene: Scene, places: Places) -> Iterator[AttentionItem]:
    # Who was approved or added since is known, though it has not asked again.
    unknowns = [one for one in scene.protocol.unknown if one.host not in scene.intended.hosts]
    boxes = answering(places, frozenset(one.host for one in unknowns))
    for unknown in unknowns:
        yield _unknown(unknown, boxes.get(unknown.host, ()))
    for wrong in scene.protocol.wrong_keys:
        claimed = f", claiming to be {wrong.claimed_host}" if wrong.claimed_host else ""
        yield item(
            ItemKind.WRONG_KEY,
            f"{wrong.peer} asks with a wrong fleet key{claimed}. It gets nothing, and serves "
            "nobody.",
            wrong.peer,
            remedy="If it is a box of ours, put the present key into its template and settings; "
            "else ignore it, or block the address.",
            evidence=(f"asked {counted(wrong.count, 'time')}",),
        )


def _unknown(unknown: UnknownHost, boxes: Sequence[Answering]) -> AttentionItem:
    """Return the item of a name nobody knows; a box that has another name is told by both."""
    name, evidence = unknown.host, [f"asked {counted(unknown.count, 'time')}"]
    if not is_host(name):
        return item(
            ItemKind.UNKNOWN_HOST,
            f"A box asks with the fleet key and calls itself {name!r}, which can name no host: "
            "set LLMAO_HOST on it to its address, contract label or pod id.",
            name,
            host=name,
            evidence=tuple(evidence),
        )
    for one in boxes:
        price = one.found.instance.price_per_hour
        costs = f", {per_hour(price)}" if price is not None else ""
        evidence.append(f"{one.found.provider} instance {one.found.instance.id}{costs}")
    hosts = list(dict.fromkeys(one.host for one in boxes if one.host))
    asks = f"{name} asks for a configuration with the fleet key and is not in fleet.hosts"
    if hosts:
        known = " or ".join(hosts)
        sentence = f"{asks}, which has that box as {known}. It gets nothing to serve."
        remedy = (
            f"Set `LLMAO_HOST={hosts[0]}` on the box; or name the host {name} in `fleet.hosts`, "
        )
        remedy += f"with `was: [{hosts[0]}]`."
    else:
        others = _other_names(name, boxes)
        also = f" ({others})" if others else ""
        asks = asks.replace(name, f"{name}{also}", 1)
        sentence = f"{asks}. It serves nobody until it is told what{_costs(boxes)}."
        remedy = "Press Approve, and choose its models; or add it to `fleet.hosts` and reload."
    return item(
        ItemKind.UNKNOWN_HOST,
        sentence,
        name,
        host=name,
        button="" if hosts else "approve",
        evidence=tuple(evidence),
        remedy=remedy,
    )


def _costs(boxes: Sequence[Answering]) -> str:
    """Return what the only box of a name costs, "" if it is not the only one."""
    if len(boxes) != 1:
        return ""
    return f", and costs {cost(boxes[0].found.instance.price_per_hour)}"


def _other_names(name: str, boxes: Sequence[Answering]) -> str:
    """Return what else the only box of a name is called, "" if it is not the only one."""
    if len(boxes) != 1:
        return ""
    instance = boxes[0].found.instance
    names = dict.fromkeys((*instance.names, *instance.addresses))
    return ", ".join(one for one in names if one != name)


def _hosts(
    places: Places, history: History, records: Iterable[Record], scene: Scene
) -> Iterator[AttentionItem]:
    intended = scene.intended
    for name in intended.hosts:
        known = history.hosts.get(name)
        place = places.of(name)
        if known and known.unlisted and name not in intended.labels.retired_hosts:
            servers = [one for one in records if one.host == name]
            yield item(
                ItemKind.REMOVE_HOST,
                f"{known.provider or 'Its provider'} no longer lists {name}{_left_of(servers)}",
                name,
                host=name,
                evidence=tuple(map(ailing.standing, servers)),
                remedy=_to_remove(name, servers, approved=name in intended.approved),
            )
        if place.ambiguous:
            made = _ambiguous(name, place.colliding, place.taken_by)
            providers = sorted({one.provider for one in place.colliding})
            # It may go on, and does not begin, while a listing cannot be read.
            if made.id in history.items or not set(providers) & set(scene.unread):
                yield as_listed(made, providers, scene)


def _left_of(servers: Iterable[Record]) -> str:
    """Return what it means for the servers of a box that is listed no more, one of them named.

    Their rows say what was seen of them; here stands why that will not last.
    """
    by_life = {one.lifecycle: one.key for one in servers}
    if (answers := by_life.get(Lifecycle.HEALTHY)) is not None:
        return f", and yet {answers} answers: callers are served for as long as it does."
    if (loads := by_life.get(Lifecycle.LOADING)) is not None:
        return (
            f": the box is gone, and what it served with it. {loads} is called Loading until the "
            "time is up in which it should have come up."
        )
    return ": the box is gone, and what it served with it."


def _ambiguous(name: str, colliding: Sequence[Found], taken_by: str) -> AttentionItem:
    ids = tuple(f"{one.provider} {one.instance.id}" for one in colliding)
    if taken_by:
        sentence = f"{name} and {taken_by} name the same instance. {taken_by} has it; {name} has "
        sentence += "no box, and serves nobody."
        remedy = f"Remove {name} or {taken_by} from `fleet.hosts`, and reload."
    else:
        sentence = f"{name} could be any of {len(ids)} instances, so it is none: what it should "
        sentence += "serve has no address."
        remedy = "Name the host by its contract label in `fleet.hosts`, with `was: [" + name + "]`."
    return item(ItemKind.AMBIGUOUS, sentence, name, host=name, evidence=ids, remedy=remedy)


def _to_remove(name: str, servers: Iterable[Record], *, approved: bool) -> str:
    retire = f"Press Retire on the page of {name}"
    if any(one.lifecycle is Lifecycle.HEALTHY for one in servers):
        leave = retire.replace("P", "p", 1) if approved else "remove it there"
        return (
            f"See under which name or account it is rented now, and name it so in `fleet.hosts`. "
            f"If it is not, {leave}."
        )
    return (
        f"{retire}."
        if approved
        else f"Remove {name} from `fleet.hosts` and reload. {retire} to hide it."
    )


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
