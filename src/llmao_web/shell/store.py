"""What outlives a process: the ledger, and beside it transitions, capacity and what boxes did.

Rule of this file: an answer from the store means that it is kept. Whatever grows is bounded.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from attrs import evolve, frozen

from llmao_core.config import Json
from llmao_core.errors import LlmaoError
from llmao_core.keys import Key
from llmao_core.protocol import ASSIGNMENTS_KEPT, BoxEvent, Fetch
from llmao_core.snapshots import Request

from .ledger import FOLDED, Entry, EntryKind, Kept, Numbered, fold

ENTRIES_KEPT = 10_000
SHARED_KEPT = 2_000


class StoreError(LlmaoError):
    """The store cannot be read or written; the message says what to do and holds no secret.

    After a write that failed, what was to be kept is not kept, but for Unanswered.
    """


class Unanswered(StoreError):
    """The store did not say how it ended: what was to be kept may be kept."""


class NotKept(StoreError):
    """What was handed in can never be kept: it is too long, or makes no sense."""


@frozen
class Transition:
    """One change of a lifecycle; `before` is "" for a new record, `after` for one that is gone."""

    at: float
    key: Key
    before: str
    after: str


@frozen
class Sample:
    """How busy one server was. kv_used: 0 to 1. None: vLLM did not say.

    running, waiting: requests. tokens_per_s: generated. first_token_s: mean time to the first
    token. over_s: how long it stands for, 60 or 3600.
    """

    at: float
    key: Key
    running: float | None = None
    waiting: float | None = None
    kv_used: float | None = None
    tokens_per_s: float | None = None
    first_token_s: float | None = None
    over_s: float = 60.0


@frozen
class Fetches:
    """What people may know of one host's fetches, over restarts; lifecycles do not use it."""

    first: float
    last: float
    handed_out: str = ""
    applied: str = ""


@frozen
class Told:
    """One thing a replica saw, for the others: what a box did, or what somebody pressed."""

    number: int
    at: float
    what: BoxEvent | Request


@frozen
class Wanted:
    """Which entries are asked for; empty asks for all. before: a number, 0 for the newest."""

    kinds: frozenset[EntryKind] = frozenset()
    host: str = ""
    key: Key | None = None
    before: int = 0
    limit: int = 100

    def takes(self, numbered: Numbered) -> bool:
        """Tell whether an entry is one of these."""
        entry = numbered.entry
        return (
            (not self.kinds or entry.kind in self.kinds)
            and (not self.host or entry.host == self.host)
            and (self.key is None or entry.key == self.key)
            and (not self.before or numbered.number < self.before)
        )


class Writes(Protocol):
    """Where goes what llmao itself did."""

    async def append(self, *entries: Entry) -> None:
        """Keep entries, all or none, in this order."""
        ...

    async def moved(self, transitions: Iterable[Transition]) -> None:
        """Keep changes of lifecycles."""
        ...

    async def sample(self, samples: Iterable[Sample]) -> None:
        """Keep one minute's samples."""
        ...


class Store(Writes, Protocol):
    """What the shell keeps; every call may wait for a disk or a network, and may fail."""

    async def prove(self) -> None:
        """Return when something of an entry's size could be kept; nothing of it stays."""
        ...

    async def kept(self) -> Kept:
        """Return what all entries add up to."""
        ...

    async def entries(self, wanted: Wanted) -> Sequence[Numbered]:
        """Return entries, newest first."""
        ...

    async def newest(self) -> int:
        """Return the number of the newest entry that changes what is kept, 0 for none."""
        ...

    async def transitions(self, key: Key | None = None, limit: int = 100) -> Sequence[Transition]:
        """Return changes of lifecycles, newest first."""
        ...

    async def keys(self) -> Sequence[Key]:
        """Return every key of which a change of lifecycle or an entry is kept, each once."""
        ...

    async def capacity(self, key: Key, since: float) -> Sequence[Sample]:
        """Return the samples of one server, oldest first."""
        ...

    async def tell(self, noted: Iterable[tuple[BoxEvent | Request, float]]) -> None:
        """Tell the other replicas what was seen here, each with its time."""
        ...

    async def told(self, after: int) -> Sequence[Told]:
        """Return what other replicas told, numbers above `after`, oldest first."""
        ...

    async def fetches(self) -> Mapping[str, Fetches]:
        """Return what hosts fetched, by normalised name, over restarts."""
        ...

    async def assignments(self) -> Mapping[str, Mapping[str, Json]]:
        """Return the newest that each host was told, by revision, the newest last; no bearers."""
        ...

    async def tidy(self, now: float) -> None:
        """Drop what is older than it is kept; what the fold rests on stays. Call it hourly."""
        ...

    async def aclose(self) -> None:
        """Let go of files and connections."""
        ...


class MemoryStore:
    """A store that forgets with its process; keeps the newest of each log.

    kept: what earlier entries, which it does not have, added up to.
    """

    def __init__(self, *entries: Entry, kept: Kept | None = None) -> None:
        self.log: deque[Numbered] = deque(maxlen=ENTRIES_KEPT)
        self.moves: deque[Transition] = deque(maxlen=ENTRIES_KEPT)
        self._samples: dict[Key, deque[Sample]] = {}
        self._fetches: dict[str, Fetches] = {}
        self._assignments: dict[str, dict[str, Json]] = {}
        self._kept = kept or Kept()
        self._number = 0
        self._newest = 0
        self._append(entries)

    async def kept(self) -> Kept:
        """Return what all entries add up to."""
        return self._kept

    async def append(self, *entries: Entry) -> None:
        """Keep entries."""
        self._append(entries)

    def _append(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            self._number += 1
            self.log.append(Numbered(self._number, entry))
            if entry.kind in FOLDED:
                self._newest = self._number
        self._kept = fold(entries, self._kept)

    async def entries(self, wanted: Wanted) -> Sequence[Numbered]:
        """Return entries, newest first."""
        return [each for each in reversed(self.log) if wanted.takes(each)][: wanted.limit]

    async def newest(self) -> int:
        """Return the number of the newest entry that changed what is kept."""
        return self._newest

    async def prove(self) -> None:
        """Return: there is always room."""

    async def moved(self, transitions: Iterable[Transition]) -> None:
        """Keep changes of lifecycles."""
        self.moves.extend(transitions)

    async def transitions(self, key: Key | None = None, limit: int = 100) -> Sequence[Transition]:
        """Return changes of lifecycles, newest first."""
        return [each for each in reversed(self.moves) if key is None or each.key == key][:limit]

    async def keys(self) -> Sequence[Key]:
        """Return every key of which something is kept."""
        done = (each.entry.key for each in self.log)
        return list(dict.fromkeys(key for key in (*(one.key for one in self.moves), *done) if key))

    async def sample(self, samples: Iterable[Sample]) -> None:
        """Keep one minute's samples."""
        for each in samples:
            self._samples.setdefault(each.key, deque(maxlen=ENTRIES_KEPT)).append(each)

    async def capacity(self, key: Key, since: float) -> Sequence[Sample]:
        """Return the samples of one server, oldest first."""
        return [each for each in self._samples.get(key, ()) if each.at >= since]

    async def tell(self, noted: Iterable[tuple[BoxEvent | Request, float]]) -> None:
        """Remember fetches; there is no other replica to tell."""
        for event, at in noted:
            if isinstance(event, Fetch):
                self._fetches[event.host] = fetched(self._fetches.get(event.host), event, at)
                self._assign(event)

    def _assign(self, event: Fetch) -> None:
        if (told := event.assignment) is not None:
            known = self._assignments.get(event.host, {})
            revision = str(told.get("revision", ""))
            known = {each: what for each, what in known.items() if each != revision}
            known[revision] = without_bearers(told)
            self._assignments[event.host] = dict([*known.items()][-ASSIGNMENTS_KEPT:])

    async def told(self, after: int) -> Sequence[Told]:  # noqa: ARG002
        """Return nothing: nobody else shares a memory."""
        return ()

    async def fetches(self) -> Mapping[str, Fetches]:
        """Return what hosts fetched."""
        return dict(self._fetches)

    async def assignments(self) -> Mapping[str, Mapping[str, Json]]:
        """Return what hosts were told."""
        return dict(self._assignments)

    async def tidy(self, now: float) -> None:
        """Do nothing: each log is as long as it may be."""

    async def aclose(self) -> None:
        """Do nothing."""


def fetched(before: Fetches | None, event: Fetch, at: float) -> Fetches:
    """Return what is known of a host after one more fetch."""
    known = before or Fetches(at, at)
    return evolve(
        known,
        last=at,
        handed_out=event.handed_out or known.handed_out,
        applied=event.applied or known.applied,
    )


def without_bearers(assignment: Json) -> Json:
    """Return what a host is told without its servers' bearers, and without what is made of them."""
    servers = [
        {name: value for name, value in server.items() if name != "api_key"}
        for server in assignment.get("servers", ())
    ]
    return {**assignment, "servers": servers}
