"""One entry per key that is intended, discovered or found in LiteLLM.

Rule of this file: it brings together and judges nothing. A row belongs to a key by its derived
id, else by its stamp, else by its address; a row of another fleet or of a file never does.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from attrs import define, evolve, frozen

from .bearer import derive
from .config import HostRow
from .history import History, HostHistory
from .intended import Body, Deployment, Intended, box_deployment
from .keys import Key, canonical_url, is_dialable, normalise_base
from .placement import Found, Place, Places
from .probes import Probes, Target
from .records import Kind
from .remembered import Remembered
from .scene import Scene
from .snapshots import BoxProtocol, BoxStatus, Row
from .unread import host_and_port, may_be_listed, once_discovered

_By = dict[tuple[str, str], list[Row]]

_NO_BODY = Body("", {}, {}, None, "", frozenset())
_NO_PLACE = Place()
_NO_ROWS: list[Row] = []


@define
class Joined:
    """One key and what belongs to it.

    deployment: intended, discovered, or for an orphan what its stamp tells (an empty body).
    rows: stamped rows of this fleet, the one to manage first; or one unstamped row to adopt.
    copies: foreign rows at the same address. displaced: the orphan's host and port are intended
    for another model.
    """

    key: Key
    kind: Kind
    deployment: Deployment | None = None
    rows: tuple[Row, ...] = ()
    copies: tuple[Row, ...] = ()
    place: Place = _NO_PLACE
    displaced: bool = False


@frozen
class Exploration:
    """A listed port that no host names, and a bearer to try there."""

    found: Found
    host: str
    listen_port: int
    base: str
    deployment: Deployment


@frozen
class Joint:
    """All entries, and what to explore for more."""

    entries: tuple[Joined, ...]
    explore: tuple[Exploration, ...] = ()


def _index(fleet: str, rows: tuple[Row, ...]) -> tuple[dict[str, Row], _By]:
    """Return rows by id, and the stamped ones of a fleet by their stamps."""
    by_id = {row.id: row for row in rows}
    by_stamp: _By = defaultdict(list)
    for row in by_id.values():
        if row.in_db and row.fleet == fleet and row.llmao_key:
            by_stamp[row.llmao_key, row.model_name].append(row)
    return by_id, by_stamp


# Between two reads, of LiteLLM and the listings, every pass joins the same.
_INDEXED = Remembered(_index, most=10)


class _Rows:
    """The rows of one read, each given away once."""

    def __init__(self, rows: tuple[Row, ...], fleet: str) -> None:
        self.all, self.by_stamp = _INDEXED(fleet, rows)
        self.loose: _By = defaultdict(list)
        self.given: set[str] = set()

    def stamped(self, deployment: Deployment) -> list[Row]:
        """Take the rows of a key by derived id and by stamp, the derived id first."""
        key = deployment.key
        rows = self.by_stamp.get((key.base, key.model), _NO_ROWS)
        own = self.all.get(deployment.litellm_id)
        if own is not None and own.in_db and own not in rows:
            rows = [own, *rows]
        if len(rows) > 1:
            rows = sorted(rows, key=lambda row: (row.id != deployment.litellm_id, row.id))
        for row in rows:
            self.given.add(row.id)
        return rows

    def index_loose(self, fleet: str) -> None:
        """Make the rows nobody has taken findable by address."""
        for row in self.rest():
            if not row.fleet or row.fleet == fleet:
                for base in {row.base, row.stamped_base} - {""}:
                    self.loose[base, row.model_name].append(row)

    def rest(self) -> list[Row]:
        """Return the rows nobody has taken, by id."""
        if len(self.given) == len(self.all):
            return []
        left = [row for one, row in self.all.items() if one not in self.given]
        return sorted(left, key=lambda row: row.id)

    def at(self, bases: Iterable[str], model: str) -> list[Row]:
        """Return the loose rows of a model at any of these addresses."""
        found = {
            row.id: row
            for base in bases
            for row in self.loose.get((base, model), ())
            if row.id not in self.given
        }
        return [found[one] for one in sorted(found)]


def join(scene: Scene, places: Places, hosts: Mapping[str, HostHistory], history: History) -> Joint:
    """Return one entry per key, in a fixed order; hosts: as folded in this pass."""
    intended, protocol = scene.intended, scene.protocol
    fleet = intended.config.fleet.name
    table = _Rows(scene.rows, fleet)
    chosen = intended.deployments
    if any(one.former for one in chosen):
        chosen = tuple(_current_name(one, protocol, table) for one in chosen)
    explore = tuple(_explore(intended, places, protocol, history))
    discovered = _discovered(intended, explore, scene.probes, history)
    known, given = _ENTERED(fleet, chosen, places, scene.rows)
    table.given |= given
    entries = [*known]
    entries += [_entry(one, Kind.DISCOVERED, places, table, found) for one, found in discovered]
    if kept := tuple(once_discovered(scene, history)):
        there = {entry.key for entry in entries}
        kept = tuple(one for one in kept if one.key not in there)
        entries += [_entry(one, Kind.DISCOVERED, places, table) for one in kept]
    table.index_loose(fleet)
    if table.loose:
        entries = [_adopt(entry, table, _Last(entry, hosts, history), scene) for entry in entries]
    if rest := table.rest():
        seen = {entry.key for entry in entries}
        entries += [_leftover(row, scene, places, seen, history) for row in rest]
    return Joint(tuple(entries), explore)


def _enter(
    fleet: str, chosen: tuple[Deployment, ...], places: Places, rows: tuple[Row, ...]
) -> tuple[tuple[Joined, ...], frozenset[str]]:
    """Return the entries of what is intended, and the rows that they take."""
    table = _Rows(rows, fleet)
    entries = tuple(
        _entry(one, Kind.COMMERCIAL if one.provider else Kind.INTENDED, places, table)
        for one in chosen
    )
    return entries, frozenset(table.given)


_ENTERED = Remembered(_enter, most=10)


def _current_name(deployment: Deployment, protocol: BoxProtocol, table: _Rows) -> Deployment:
    """Return the deployment under the name its box last went by: renamed only once it fetched."""
    if not deployment.former:
        return deployment
    fetches = protocol.hosts.get(deployment.host)
    if (fetches and fetches.last_handout is not None) or deployment.litellm_id in table.all:
        return deployment
    return deployment.former[0]


def _entry(
    deployment: Deployment, kind: Kind, places: Places, table: _Rows, found: Found | None = None
) -> Joined:
    place = Place(found=found, named=True) if found else places.of(deployment.host)
    return Joined(deployment.key, kind, deployment, tuple(table.stamped(deployment)), (), place)


class _Last:
    """Where a key was last reached: its dialable URL in history, unless its instance changed."""

    def __init__(self, entry: Joined, hosts: Mapping[str, HostHistory], history: History) -> None:
        known = history.keys.get(entry.key)
        host = hosts.get(entry.deployment.host) if entry.deployment else None
        changed = bool(
            known and known.instance_id and host and host.instance_id not in ("", known.instance_id)
        )
        self.reset = changed or (known is not None and known.reset is not None)
        self.url = known.dialable if known and not changed else ""


def _adopt(entry: Joined, table: _Rows, last: _Last, scene: Scene) -> Joined:
    """Add what stands at the entry's addresses: a row to adopt, or foreign copies beside ours."""
    url = dialable(entry, last.url, reset=last.reset, no_listing=scene.no_listing)
    adopted = _take(entry, table, url)
    told = dialable(adopted, last.url, reset=last.reset, no_listing=scene.no_listing)
    # The stamp of an adopted row may tell an address at which more stands.
    return adopted if told == url else _take(adopted, table, told)


def _take(entry: Joined, table: _Rows, url: str) -> Joined:
    loose = table.at(_addresses(entry, url), entry.key.model)
    if not loose:
        return entry
    if entry.rows:
        copies = [row for row in loose if not row.fleet]
        table.given.update(row.id for row in copies)
        return evolve(entry, copies=(*entry.copies, *copies))
    ours = [row for row in loose if row.in_db]
    table.given.update(row.id for row in loose)
    copies = [*entry.copies, *(row for row in loose if row not in ours[:1])]
    return evolve(entry, rows=tuple(ours[:1]), copies=tuple(copies))


def _addresses(entry: Joined, url: str) -> set[str]:
    deployment = entry.deployment
    assert deployment is not None
    if deployment.provider:
        return {entry.key.base}
    host, port = deployment.host, deployment.public_port
    pinned = normalise_base(canonical_url(host, port)) if port and is_dialable(host) else ""
    listed = entry.place.url(deployment.listen_port)
    return {normalise_base(entry.key.base), listed, pinned, url}


def _leftover(row: Row, scene: Scene, places: Places, seen: set[Key], history: History) -> Joined:
    """Return the entry of a row that matches nothing: foreign, an orphan of ours, or not known."""
    intended = scene.intended
    if not (row.in_db and row.fleet == intended.config.fleet.name and row.llmao_key):
        key = Key(f"row:{row.id}", row.model_name, f"LiteLLM row {row.id}")
        return Joined(key, Kind.FOREIGN, rows=(row,))
    deployment = _orphan(row, intended)
    key = deployment.key
    if key in seen:
        key = Key(key.base, key.model + f" ({row.id})", key.shown)
    seen.add(key)
    wanted = intended.ports.get((deployment.host, deployment.listen_port))
    return Joined(
        key,
        Kind.UNKNOWN if may_be_listed(deployment, scene, history) else Kind.ORPHAN,
        evolve(deployment, key=key),
        (row,),
        place=places.of(deployment.host),
        displaced=wanted is not None and wanted.model != row.model_name,
    )


def _orphan(row: Row, intended: Intended) -> Deployment:
    """Return what a row's stamp tells of the server behind it."""
    host, listen_port = host_and_port(row.llmao_key)
    box = bool(host and listen_port and row.info.get("self_hosted"))
    shown = row.llmao_key.removeprefix("http://") if box else f"LiteLLM row {row.id}"
    model = str(row.params.get("model", ""))
    salts = intended.config.fleet.vllm_api_salt
    bearer = derive(salts[0], host, listen_port) if box and salts else None
    return Deployment(
        key=Key(row.llmao_key, row.model_name, shown),
        litellm_id=row.id,
        model=row.model_name,
        body=_NO_BODY,
        served=model.removeprefix("hosted_vllm/"),
        host=host if box else "",
        listen_port=listen_port if box else 0,
        bearer=bearer,
        bearer_id=bearer.fingerprint(salts[0]) if bearer else "",
    )


# ---- discovery


def _explore(
    intended: Intended, places: Places, protocol: BoxProtocol, history: History
) -> Iterator[Exploration]:
    """Yield every port and name under which a spare instance may be serving for us."""
    fleet = intended.config.fleet
    models = [model for model in intended.config.models if model.recipe]
    if not models or not fleet.vllm_api_salt:
        return
    fetched = set(protocol.hosts) | {one.host for one in protocol.unknown}
    for found in places.spare:
        if found.instance.status is not BoxStatus.UP:
            continue
        place = Place(found=found)
        for host in _own_names(found, fetched):
            if host in history.intended_hosts or host in intended.labels.retired_hosts:
                continue
            for port in sorted(found.instance.endpoints):
                base = place.url(port)
                if base and port in fleet.listen_ports:
                    row = HostRow(models[0].model_name, port, models[0].model_name)
                    yield Exploration(
                        found,
                        host,
                        port,
                        base,
                        box_deployment(intended.config, models[0], host, row),
                    )


def _own_names(found: Found, fetched: set[str]) -> list[str]:
    instance = found.instance
    addresses = [address for address in instance.addresses if address in fetched]
    return list(dict.fromkeys((*instance.names, instance.id.lower(), *addresses)))


def _discovered(
    intended: Intended, explore: Iterable[Exploration], probes: Probes, history: History
) -> list[tuple[Deployment, Found]]:
    """Return a deployment for each explored port that answers for a model of `models.yaml`."""
    made: dict[Key, tuple[Deployment, Found]] = {}
    for one in explore:
        report = probes.reports.get(Target(one.base, one.deployment.bearer_id))
        identity = report.identity if report else None
        served = {model.id for model in identity.served} if identity else set()
        for name, models in sorted(intended.by_served.items()):
            for model in models:
                row = HostRow(model.model_name, one.listen_port, model.model_name)
                deployment = box_deployment(intended.config, model, one.host, row)
                known = history.keys.get(deployment.key)
                if name in served or (known is not None and known.discovered):
                    made.setdefault(deployment.key, (deployment, one.found))
    return list(made.values())


# ---- the dialable URL


def dialable(entry: Joined, known_url: str, *, reset: bool, no_listing: bool) -> str:
    """Return the root that can be reached now, "" when unplaced.

    known_url: the last one, from history. reset: the instance changed, so that an old row's
    address is another box's. no_listing: no GPU inventory source is configured.
    """
    deployment = entry.deployment
    if deployment is None:
        return entry.rows[0].base if entry.rows else ""
    if deployment.provider:
        return entry.key.base
    if url := entry.place.url(deployment.listen_port):
        return url
    if known_url:
        return known_url
    if not reset and entry.rows and entry.rows[0].stamped_base:
        return entry.rows[0].stamped_base
    host, port = deployment.host, deployment.public_port
    if port is not None and is_dialable(host):
        return normalise_base(canonical_url(host, port))
    if deployment.own or (no_listing and host and is_dialable(host)):
        return normalise_base(entry.key.base)
    return ""
