"""One pass: join, fold, classify, decide, restrain. Everything that decides is called from here.

Rule of this file: a screenful of flow. It reads no clock, does no I/O and cannot fail; the same
input gives the same output.
"""

from collections.abc import Iterator, Mapping, Sequence

from attrs import define, evolve

from .ages import dated, sinces
from .aim import probe_specs
from .attention import attention, source_items
from .behind import fold_behind
from .classify import aim_of, life_facts, plan_facts, said
from .draft import Draft, draft_action
from .drift import EQUAL, compare, tried
from .emptied import fold_emptied, our_rows, rows_left
from .fold import fold_key, fold_row
from .foreign import fold_foreign, foreign_items
from .history import History, HostHistory, KeyHistory, RowHistory
from .join import Joined, Joint, join
from .keys import Key
from .money import boxes, fold_idle
from .placement import NO_PLACES, Places, find, fold_host
from .plan import Plan, Policy
from .reboot import by_name, fold_reboots, reboot_actions, seen_back
from .records import Kind, Lifecycle, View
from .restrain import asks, failing_since, first_outside, outside, reads, removed_now, restrain
from .rollup import roll_up
from .scene import Scene, look
from .settled import ground, keep, settled
from .snapshots import Snapshots, SourceState
from .table import action_rule, life_rule
from .views import host_views, make_records, source_views

_NO_ENTRIES, _NO_HISTORY = Joint(()), History()


@define
class Judged:
    """What a pass decided, before anybody is told.

    scene: None while configuration and approvals are unread, and then nothing is decided.
    told: the places by the last good listings, stale or not, which decide nothing. folded: what
    is remembered, keys and rows still of the pass before. history: all of it, the times of
    attention items aside.
    """

    plan: Plan
    history: History
    scene: Scene | None = None
    told: Places = NO_PLACES
    joint: Joint = _NO_ENTRIES
    drafts: Sequence[Draft] = ()
    folded: History = _NO_HISTORY


def reconcile(
    snapshots: Snapshots, history: History, policy: Policy, now: float
) -> tuple[View, Plan, History]:
    """Return what is the case, what to do about it, and what to remember.

    The whole contract: pure, deterministic, idempotent on the same snapshots and `now`.
    """
    judged = judge(snapshots, history, policy, now)
    if judged.scene is None:
        items = dated(source_items(snapshots), history.items, now)
        return View(now, items=items, sources=source_views(snapshots, now)), judged.plan, history
    view = _view(snapshots, judged.scene, judged)
    since = sinces(view.items, history.items, judged.scene)
    return view, judged.plan, evolve(judged.history, items=since)


def judge(snapshots: Snapshots, history: History, policy: Policy, now: float) -> Judged:
    """Return what reconcile decides, without the view: half the work, enough to compare plans."""
    scene = look(snapshots, now)
    if scene is None:
        return Judged(Plan(), history)
    places = find(scene.intended, scene.listings, history.hosts)
    told = find(scene.intended, scene.last, history.hosts) if scene.unread else places
    hosts = _fold_hosts(scene, places, history)
    reboots = fold_reboots(history.reboots, hosts, policy, scene)
    if reboots:
        scene = evolve(scene, reboots=by_name(reboots, scene.intended))
    joint = join(scene, places, hosts, history)
    drafts = _decide(scene, places, joint, hosts, history)
    found = outside(scene, (seen for one in drafts for seen in one.known.seen.values()))
    failing = [place for place, draft in enumerate(drafts) if _fails(draft, scene)]
    for place in failing:
        drafts[place] = _with_outside(drafts[place], first_outside(drafts[place], found, scene))
    held = restrain(drafts, found, history, policy, scene)
    if held:
        by_key = {draft.entry.key: draft for draft in held}
        drafts = [by_key.get(draft.entry.key, draft) for draft in drafts]
    reboots = seen_back(reboots, drafts, scene)
    folded = evolve(
        history,
        hosts=hosts,
        idle=fold_idle(history.idle, boxes(told), drafts, scene),
        foreign=fold_foreign(history.foreign, scene, drafts),
        reboots=reboots,
        behind=fold_behind(history.behind, snapshots.revisions, scene),
        emptied=fold_emptied(history, scene),
    )
    plan = Plan(
        actions=(
            *(draft.action for draft in held if draft.action is not None),
            *reboot_actions(reboots, places, drafts, policy, scene),
        ),
        asks=asks([drafts[place] for place in failing], found, scene),
        reads=reads([drafts[place] for place in failing], scene),
    )
    remembered = _remember(scene, drafts, folded, policy)
    return Judged(plan, remembered, scene, told, joint, drafts, folded)


def _fold_hosts(scene: Scene, places: Places, history: History) -> Mapping[str, HostHistory]:
    folded = {}
    # Without listings there is nothing to fold; a former name is a name like any other.
    for name in _names(scene) if scene.intervals else ():
        fetches = scene.protocol.hosts.get(name)
        folded[name] = fold_host(
            history.hosts.get(name),
            places.of(name),
            scene.placed.get(name)
            or (known.provider if (known := history.hosts.get(name)) else ""),
            scene.listings,
            scene.intervals,
            fetches.last_handout if fetches else None,
        )
    return folded


def _names(scene: Scene) -> Iterator[str]:
    """Yield the names of all intended hosts, former ones included."""
    for host in scene.intended.hosts.values():
        yield host.name
        yield from host.was


def _decide(
    scene: Scene, places: Places, joint: Joint, hosts: Mapping[str, HostHistory], history: History
) -> list[Draft]:
    drafts, on = [], ground(scene, places)
    for entry in joint.entries:
        host = hosts.get(entry.deployment.host) if entry.deployment else None
        draft = settled(entry, host, history, scene, on)
        if draft is None:
            draft = _draft(entry, scene, places, host, history)
            keep(draft, scene, on)
        drafts.append(draft)
    return drafts


def _draft(
    entry: Joined, scene: Scene, places: Places, host: HostHistory | None, history: History
) -> Draft:
    """Return one key, decided: folded, classified and looked up in the table."""
    known, targets = fold_key(history.keys.get(entry.key), entry, host, scene)
    aim = aim_of(entry, known, targets, scene)
    opinion = scene.opinion(entry.rows[0].id) if entry.rows else None
    rule = life_rule(life_facts(entry, known, aim, said(opinion), scene, places.addresses))
    life = rule.lifecycle or known.lifecycle or _first_life(known)
    known = _lived(known, life, scene.now)
    row_known = history.rows.get(entry.rows[0].id) if entry.rows else None
    difference = EQUAL
    if entry.rows and entry.deployment is not None and entry.kind in _COMPARED:
        deployment = aim.deployment if aim else entry.deployment
        difference = compare(entry.rows[0], deployment, deployment.body)
    row_known = _row_after(entry, row_known, difference is not EQUAL, scene)
    if row_known is not None:
        difference = tried(difference, entry.rows[0], row_known.kept_wrong)
    row_seen = known.seen.get(targets.rows[0]) if targets.rows else None
    facts = plan_facts(entry, known, aim, row_seen, life, difference, row_known, scene, history)
    draft = Draft(
        entry,
        known,
        targets,
        aim,
        life,
        facts,
        action_rule(facts),
        difference,
        rule,
        row_known,
        host,
        row_seen,
        opinion,
    )
    return evolve(draft, action=draft_action(draft)) if draft.rule.action else draft


_COMPARED = (Kind.INTENDED, Kind.COMMERCIAL, Kind.DISCOVERED)


def _first_life(known: KeyHistory) -> Lifecycle:
    """Return the lifecycle of a key nothing is known of yet."""
    return Lifecycle.LOADING if known.last_handout is not None else Lifecycle.AWAITING


def _lived(known: KeyHistory, life: Lifecycle, now: float) -> KeyHistory:
    return known if known.lifecycle is life else evolve(known, lifecycle=life, since=now)


def _row_after(
    entry: Joined, known: RowHistory | None, differs: bool, scene: Scene
) -> RowHistory | None:
    if not entry.rows or entry.kind is Kind.FOREIGN:
        return None
    # Whether it is an orphan cannot be told now, so that its reads count neither way.
    if entry.kind is Kind.UNKNOWN:
        return known
    row, orphan = entry.rows[0], entry.kind is Kind.ORPHAN
    if known is None and not differs and not orphan and row.id not in scene.writes:
        return None
    return fold_row(known, row, orphan=orphan, differs=differs, scene=scene)


def _fails(draft: Draft, scene: Scene) -> bool:
    """Tell whether a row's address fails, or did in the pass before."""
    return draft.known.outside is not None or failing_since(draft.row_seen, scene) is not None


def _with_outside(draft: Draft, at: float | None) -> Draft:
    if draft.known.outside == at:
        return draft
    return evolve(draft, known=evolve(draft.known, outside=at))


def _view(snapshots: Snapshots, scene: Scene, judged: Judged) -> View:
    """Return what people are told."""
    told, drafts, known = judged.told, judged.drafts, judged.folded
    records = make_records(drafts, scene, snapshots.revisions, known.behind)
    sources = source_views(snapshots, scene.now)
    unread = any(one.state is not SourceState.FRESH for one in sources)
    models = roll_up(scene.intended, records, unread=unread, blind=scene.deployments is None)
    found = attention(snapshots, scene, told, records, drafts, models, known)
    items = dated((*found, *foreign_items(drafts)), known.items, scene.now)
    return View(
        at=scene.now,
        records=records,
        hosts=host_views(scene, told, known, records, judged.plan),
        models=models,
        items=items,
        sources=sources,
        targets=probe_specs(drafts, judged.joint.explore, scene),
        placed=_placed(scene, known.hosts),
    )


def _placed(scene: Scene, hosts: Mapping[str, HostHistory]) -> Mapping[str, str]:
    """Return which listing placed each intended host; forgotten when it is no longer intended."""
    placed = {host: name for host, name in scene.placed.items() if host in scene.intended.hosts}
    for host, known in hosts.items():
        if known.provider and host in scene.intended.hosts:
            placed[host] = known.provider
    return placed


def _remember(scene: Scene, drafts: list[Draft], history: History, policy: Policy) -> History:
    keys: dict[Key, KeyHistory] = {draft.entry.key: draft.known for draft in drafts}
    ours = history.our_rows
    rows = history.rows
    if scene.deployments is not None:
        read = our_rows(scene.fleet.name, scene.deployments.body.rows)
        ours = read or rows_left(history, scene)
        rows = {
            draft.row.id: draft.row_known
            for draft in drafts
            if draft.row is not None and draft.row_known is not None
        }
    return evolve(
        history,
        keys=keys,
        rows=rows,
        removed=removed_now(drafts, history, scene, policy.brake.window_s),
        listings_read=history.listings_read | frozenset(scene.listings),
        intended_hosts=history.intended_hosts.union(_names(scene)),
        our_rows=ours,
    )
