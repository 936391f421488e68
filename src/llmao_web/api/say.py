"""From a view, a plan and the ledger to what the API answers.

Rule of this file: it picks and renames, and concludes nothing. A canonical URL, a bearer and the
address of a provider have no way through here.
"""

from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from attrs import field, frozen

from llmao_core import config as core_config
from llmao_core import keys as core_keys
from llmao_core import plan as core_plan
from llmao_core import records as core
from llmao_core.intended import Labels
from llmao_core.snapshots import Instance, Listing, Reading
from llmao_web.pages.boxes import instances_of, is_retired
from llmao_web.pages.callers import UNKNOWN, about
from llmao_web.pages.lines import port_of
from llmao_web.pages.names import page_id
from llmao_web.shell.ledger import Note, Numbered
from llmao_web.shell.store import Transition

from . import shapes


@frozen
class Known:
    """What is known beside a view. models, notes: by name; listings: the last ones, by provider."""

    fleet: str
    models: Mapping[str, core_config.Model] = field(factory=dict)
    labels: Labels = field(factory=Labels)
    notes: Mapping[str, Note] = field(factory=dict)
    listings: Mapping[str, Reading[Listing]] = field(factory=dict)


def key(given: core_keys.Key) -> shapes.Key:
    """Return a key as people see it."""
    return shapes.Key(given.shown, given.model)


def model(view: core.ModelView, known: Known, *, admin: bool) -> shapes.Model:
    """Return a model; how it is served only for admins."""
    told = about(view, known.models.get(view.name))
    served = shapes.Replicas(
        healthy=view.healthy,
        counted=view.counted,
        summary=view.summary,
        deployments=[page_id(known.fleet, each) for each in view.keys],
    )
    return shapes.Model(
        name=view.name,
        display_name=view.display_name,
        availability=view.availability,
        checked=view.checked,
        private=None if told.privacy == UNKNOWN else view.private,
        context=view.context,
        full_requests=view.full_requests,
        capabilities=[word for _, word in told.chips],
        licence=told.licence,
        details=dict(told.details),
        replicas=served if admin else None,
    )


def models(view: core.View, known: Known, *, admin: bool) -> list[shapes.Model]:
    """Return the models, for callers those that somebody could serve."""
    return [model(each, known, admin=admin) for each in view.models]


def deployment(record: core.Record, known: Known) -> shapes.Deployment:
    """Return a record."""
    counters = record.counters
    return shapes.Deployment(
        id=page_id(known.fleet, record.key),
        key=key(record.key),
        kind=record.kind,
        lifecycle=record.lifecycle,
        since=record.since,
        rule=record.rule,
        because=record.because,
        fresh=record.fresh,
        provider=record.provider,
        host=record.host,
        address=_address(record),
        signal=shapes.Signal(record.signal.kind, record.signal.at, record.signal.detail),
        litellm=shapes.LitellmSays(
            record.litellm,
            record.litellm_at,
            record.litellm_said,
            record.row.id if record.row else "",
        ),
        badges=[shapes.BadgeSaid(each, each.meaning, each.remedy) for each in record.badges],
        context=record.max_model_len,
        kv_tokens=counters.kv_tokens if counters else None,
        running=counters.running if counters else None,
        waiting=counters.waiting if counters else None,
        last_ok=record.last_ok,
        fails=record.fails,
        revision=shapes.Revision(record.revision_current, record.revision_applied),
        drained=record.drained,
        retired=record.drained and record.retired,
        restarting=record.restarting,
        unlisted=record.unlisted,
        reached=record.reached,
        action_rule=record.action_rule,
        write_trouble=record.write_trouble,
    )


def _address(record: core.Record) -> str:
    """Return host and port of a box; a provider's address is nobody's business."""
    if record.kind is core.Kind.COMMERCIAL or not record.dialable:
        return ""
    port = port_of(record.dialable)
    if port is None:
        return ""
    host = urlsplit(record.dialable).hostname or ""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def box(host: core.HostView, instance: Instance | None, known: Known) -> shapes.Box:
    """Return a host or an instance. instance: as its provider listed it last."""
    note = known.notes.get(host.name)
    return shapes.Box(
        name=host.name,
        provider=host.provider,
        instance_id=host.instance_id,
        status=host.status,
        intended=host.intended,
        approved=host.approved,
        unlisted=host.unlisted,
        placed_by=host.placed_by,
        last_fetch=host.last_fetch,
        price_per_hour=host.price_per_hour,
        gpu=host.gpu,
        deployments=[page_id(known.fleet, each) for each in host.keys],
        rebooting=host.rebooting,
        reboot_since=host.reboot_since,
        reboot_until=host.reboot_until,
        stale=host.stale,
        label=note.label if note else "",
        note=note.note if note else "",
        noted_by=note.by if note else "",
        noted_at=note.at if note else None,
        drained=host.name in known.labels.drained_hosts,
        retired=is_retired(host.name, host, instance, known.labels),
    )


def boxes(view: core.View, known: Known) -> list[shapes.Box]:
    """Return every host and instance, those that pages hide included."""
    listed = {(provider, one.id): one for provider, one in instances_of(known.listings)}
    return [box(each, listed.get((each.provider, each.instance_id)), known) for each in view.hosts]


def item(given: core.AttentionItem) -> shapes.Item:
    """Return an attention item."""
    return shapes.Item(
        id=given.id,
        kind=given.kind,
        sentence=given.sentence,
        remedy=given.remedy,
        evidence=list(given.evidence),
        since=given.since,
        key=key(given.key) if given.key else None,
        host=given.host,
    )


def source(given: core.SourceView) -> shapes.Source:
    """Return a source."""
    trouble = given.trouble
    return shapes.Source(
        name=given.name,
        state=given.state,
        taken_at=given.taken_at,
        interval_s=given.interval_s,
        trouble=shapes.Trouble(trouble.kind, trouble.message, trouble.since, trouble.count)
        if trouble
        else None,
    )


def view(given: core.View, known: Known) -> shapes.View:
    """Return a view, as admins see it."""
    return shapes.View(
        at=given.at,
        fleet=known.fleet,
        models=models(given, known, admin=True),
        deployments=[deployment(each, known) for each in given.records],
        boxes=boxes(given, known),
        items=[item(each) for each in given.items],
        sources=[source(each) for each in given.sources],
    )


def action(given: core_plan.Action) -> shapes.Action:
    """Return an action; no body, which holds a bearer."""
    return shapes.Action(
        kind=given.kind,
        key=key(given.key),
        litellm_id=given.litellm_id,
        rule=given.rule,
        reason=given.reason,
        evidence=list(given.evidence),
        policy=given.policy,
        runs=given.runs,
        hold=given.hold,
        until=given.until,
        released_by=given.released_by,
    )


def entry(numbered: Numbered) -> shapes.Entry:
    """Return an entry of the ledger."""
    given = numbered.entry
    return shapes.Entry(
        number=numbered.number,
        at=given.at,
        actor=given.actor,
        kind=given.kind.value,
        host=given.host,
        key=key(given.key) if given.key else None,
        detail=dict(given.detail),
    )


def transitions(given: Iterable[Transition]) -> list[shapes.Transition]:
    """Return changes of lifecycles."""
    return [shapes.Transition(each.at, key(each.key), each.before, each.after) for each in given]
