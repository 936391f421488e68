"""The archive: what only admins are shown, and what a deed is looked up in.

Rule of this file: it reads and changes nothing. What nobody knows is a Refusal with a sentence.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence

from attrs import evolve, frozen

from llmao_core.config import Json
from llmao_core.intended import Approval, deployment_id
from llmao_core.keys import Key
from llmao_core.plan import Action, Plan
from llmao_core.records import HostView, Record, View
from llmao_core.snapshots import Instance, Listing, Reading, SourceState, UnknownHost

from .asking import Refusal, checked_host
from .board import Board
from .ledger import Kept, Note, Numbered
from .reload import Reloader
from .store import Fetches, Store, Transition, Wanted

_SCANNED_AT_ONCE = 500
_SCANS = 20
_HOUR_S = 3600.0


@frozen
class Checked:
    """A look at the changed configuration files that put nothing in force. said: what is wrong."""

    at: float
    by: str
    said: tuple[str, ...]


def digest_of(hosts: Sequence[str]) -> str:
    """Return what a confirmation must repeat, so that it confirms what was shown."""
    return hashlib.sha256("\n".join(hosts).encode()).hexdigest()[:16]


def listed(view: View | None, host: str) -> HostView | None:
    """Return a host as a listing shows it, None when none does."""
    found = (each for each in (view.hosts if view else ()) if each.name == host)
    return next((each for each in found if each.instance_id and each.provider), None)


class Archive:
    """What is known of hosts, deployments and deeds. kept: what people decided, as of now."""

    def __init__(
        self, board: Board, store: Store, reloader: Reloader, kept: Callable[[], Kept]
    ) -> None:
        self._board = board
        self._store = store
        self._reloader = reloader
        self._kept = kept
        self._checked: Checked | None = None

    # ---- what is known

    def notes(self) -> Mapping[str, Note]:
        """Return labels and notes by host."""
        return self._kept().notes

    def approvals(self) -> Sequence[Approval]:
        """Return what was approved, the hosts that fleet.hosts names meanwhile included."""
        return self._kept().approvals

    def listings(self) -> Mapping[str, Reading[Listing]]:
        """Return what every configured provider listed last, by its name."""
        return self._board.listings()

    def unknown(self) -> Sequence[UnknownHost]:
        """Return the hosts that asked with the fleet key and that nothing names, newest first."""
        intended = self._board.intended()
        named = intended.hosts if intended else ()
        return [each for each in self._board.unknown() if each.host not in named]

    def named_since(self) -> Sequence[UnknownHost]:
        """Return the hosts that asked before anything named them, and not again since."""
        intended = self._board.intended()
        named = intended.hosts if intended else ()
        return [each for each in self._board.unknown() if each.host in named]

    def dropped(self) -> Sequence[str]:
        """Return the hosts that the reload which waits for a confirmation drops, () for none."""
        pending = self._reloader.pending
        return pending.dropped if pending else ()

    def checked(self) -> Checked | None:
        """Return the last look at the configuration files, None when nobody looked."""
        return self._checked

    async def entries(self, wanted: Wanted, actor: str = "") -> Sequence[Numbered]:
        """Return entries of the ledger, newest first; actor: of one person, "" for all.

        For one person the newest 10 000 that are otherwise wanted are looked through.
        """
        if not actor:
            return await self._store.entries(wanted)
        found: list[Numbered] = []
        part = evolve(wanted, limit=_SCANNED_AT_ONCE)
        for _ in range(_SCANS):
            some = await self._store.entries(part)
            found += [each for each in some if each.entry.actor == actor]
            if len(some) < _SCANNED_AT_ONCE or len(found) >= wanted.limit:
                break
            part = evolve(part, before=some[-1].number)
        return found[: wanted.limit]

    async def transitions(self, limit: int, host: str = "") -> Sequence[Transition]:
        """Return changes of lifecycles, newest first; host: of one host or provider, "" for all."""
        if not host:
            return await self._store.transitions(limit=limit)
        keys = [key for key in await self._store.keys() if key.place == host]
        found = [await self._store.transitions(key, limit) for key in keys]
        return sorted((one for some in found for one in some), key=_newest_first)[:limit]

    async def fetches(self) -> Mapping[str, Fetches]:
        """Return what hosts fetched, over restarts, by name."""
        return await self._store.fetches()

    # ---- looking up

    def _view(self) -> View:
        view = self._board.view()
        if view is None:
            raise Refusal("No pass has run yet; try again in some seconds.")
        return view

    def _plan(self) -> Plan:
        return self._board.plan() or Plan()

    def _action(self, digest: str) -> Action:
        for action in self._plan().actions:
            if digest and action.digest == digest:
                return action
        raise Refusal("The plan has moved on: look again at what waits now.")

    def _record(self, litellm_id: str) -> Record:
        """Return a record by the id of its row, or by the one it has or would have."""
        fleet = self._reloader.config.fleet.name
        for record in self._view().records:
            if record.row is not None and record.row.id == litellm_id:
                return record
            if deployment_id(fleet, record.key) == litellm_id:
                return record
        raise Refusal("There is no such deployment any more.")

    def _drained_key(self, litellm_id: str) -> Key | None:
        fleet, labels = self._reloader.config.fleet.name, self._kept().labels
        for key in labels.drained_keys:
            if deployment_id(fleet, key) == litellm_id:
                return key
        return self._record(litellm_id).key

    def _known(self, given: str) -> str:
        """Return the name of a host that something knows."""
        host = checked_host(given)
        intended, kept = self._board.intended(), self._kept()
        names = {each.host for each in self._board.unknown()}
        names |= {each.name for each in self._view().hosts} | kept.notes.keys()
        names |= kept.labels.drained_hosts | kept.labels.retired_hosts
        if host in names or (intended is not None and host in intended.hosts):
            return host
        if unread := " and ".join(self._unread()):
            raise Refusal(
                f"{unread} cannot be read now, so llmao cannot tell whether a box is named {host}: "
                "try again when it is read."
            )
        raise Refusal(f"No host is named {host}: it may have been removed meanwhile.")

    def _unread(self) -> list[str]:
        """Return the providers whose listing the newest pass could not rest on."""
        sources = self._view().sources
        return [one.name for one in sources if one.listing and one.state is not SourceState.FRESH]

    def _is_configured(self, host: str) -> bool:
        hosts = self._reloader.config.fleet.hosts
        return any(host in (each.name, *each.was) for each in hosts)

    def _is_approved(self, host: str) -> bool:
        return any(each.host == host for each in self._kept().approvals)

    def _remembered(self, host: str, now: float) -> Json:
        """Return what is kept of a host that is retired. cost: at today's price, all its time."""
        view = next((each for each in self._view().hosts if each.name == host), None)
        if view is None:
            return {}
        reading = self._board.listings().get(view.provider)
        instances = reading.snapshot.body.instances if reading and reading.snapshot else ()
        instance = next((each for each in instances if each.id == view.instance_id), None)
        return {
            "provider": view.provider,
            "instance": view.instance_id,
            "gpu": view.gpu,
            "price_per_hour": view.price_per_hour,
            "started_at": instance.started_at if instance else None,
            "last_fetch": view.last_fetch,
            "cost": _cost(instance, now) if instance else None,
            "served": [str(key) for key in view.keys],
        }


def _cost(instance: Instance, now: float) -> float | None:
    if instance.price_per_hour is None or instance.started_at is None:
        return None
    return round(instance.price_per_hour * max(0.0, now - instance.started_at) / _HOUR_S, 2)


def _newest_first(moved: Transition) -> float:
    return -moved.at
