"""The board: the newest snapshot of every source, and what the last pass made of them.

Rule of this file: it remembers and decides nothing. It belongs to the event loop; what leaves
it is immutable or replaced as a whole, so that a pass can run in a thread meanwhile.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from llmao_core.actions import ActionKind, OutcomeKind, Write
from llmao_core.box_config import BoxAnswer, answers
from llmao_core.config import Json
from llmao_core.errors import Trouble
from llmao_core.history import History
from llmao_core.hooks import SourceKind
from llmao_core.intended import Intended
from llmao_core.keys import Key
from llmao_core.plan import Plan
from llmao_core.probes import Probes, Target
from llmao_core.protocol import BoxEvent, Fetch, WrongKey, fold_all, recall
from llmao_core.records import SourceView, View
from llmao_core.snapshots import (
    BoxProtocol,
    Deployments,
    Health,
    Listing,
    Reading,
    Request,
    Snapshot,
    Snapshots,
    UnknownHost,
)
from llmao_core.views import source_view

from .clock import Clock
from .counts import Counts
from .probe_log import Probed

WRITES_KEPT_S = 600.0
REQUESTS_KEPT = 1000
# What boxes did is folded once per pass: a fleet that boots asks all at once.
NOTED_AT_ONCE = 256


@frozen
class Concluded:
    """One pass: view and plan belong together; revision is the board's when it began."""

    view: View
    plan: Plan
    revision: int


class Board:
    """What every source said last; implements the web's Desk.

    wake: set by every change that reconcile should look at. revision: counts those changes.
    tell: given what other replicas should know, with its time. led: tells whether it is or was
    known who writes to LiteLLM; it stays so, because pages and boxes do without the store.
    """

    def __init__(self, clock: Clock) -> None:
        self.wake = asyncio.Event()
        self.revision = 0
        self.counts = Counts()
        self.history = History()
        self.concluded: Concluded | None = None
        self.probes: Callable[[], Probes] = Probes
        self.probed: Callable[[Target], Sequence[Probed]] = _no_probes
        self.tell: Callable[[BoxEvent | Request, float], None] = _nobody
        self.led: Callable[[], bool] = _nobody_else
        self._clock = clock
        self._intended: Intended | None = None
        self._answers: Mapping[str, BoxAnswer] = {}
        self._revisions: Mapping[str, str] = {}
        self._protocol = BoxProtocol()
        self._noted: list[tuple[BoxEvent, float]] = []
        self._told_before: dict[str, Mapping[str, Json]] = {}
        self._kinds: dict[str, SourceKind] = {}
        self._readings: dict[str, Reading[Any]] = {}
        self._writes: Mapping[str, Write] = {}
        self._tries: dict[tuple[Key, ActionKind], Write] = {}
        self._requests: tuple[Request, ...] = ()
        self.placed: Mapping[str, str] = {}
        self._troubles: Mapping[str, Trouble] = {}

    # ---- what the web asks for

    def intended(self) -> Intended | None:
        """Return what should exist; None until configuration and approvals are read."""
        return self._intended

    def answer(self, host: str) -> BoxAnswer | None:
        """Return what a normalised host name is told; None for an unknown host."""
        return self._answers.get(host)

    def note(self, event: BoxEvent) -> None:
        """Keep what a box did for the next pass; wrong keys wake nobody, a flood costs little."""
        at = self._clock.now()
        self._noted.append((event, at))
        self.counts.noted(event)
        self.tell(event, at)
        if len(self._noted) >= NOTED_AT_ONCE:
            self._fold()
        if not isinstance(event, WrongKey):
            self.changed()

    def view(self) -> View | None:
        """Return what the newest pass concluded; None before the first."""
        return self.concluded.view if self.concluded else None

    def plan(self) -> Plan | None:
        """Return the plan of the same pass; None before the first."""
        return self.concluded.plan if self.concluded else None

    def listings(self) -> Mapping[str, Reading[Listing]]:
        """Return what every configured provider listed last, by its name."""
        return {name: self._readings[name] for name in self._of(SourceKind.LISTING)}

    def unknown(self) -> tuple[UnknownHost, ...]:
        """Return the hosts that asked with a good key and that nothing names, newest first."""
        self._fold()
        return self._protocol.unknown

    def requests(self) -> tuple[Request, ...]:
        """Return what admins pressed and has not lapsed."""
        return tuple(each for each in self._requests if each.expires_at > self._clock.now())

    def trouble(self, name: str) -> Trouble | None:
        """Return a trouble that is no source's, None when it is over."""
        return self._troubles.get(name)

    def ready(self) -> tuple[bool, tuple[str, ...]]:
        """Tell whether every source was tried once and who leads is known, and what is missing."""
        untried = sorted(name for name, each in self._readings.items() if not _tried(each))
        intended = () if self._intended else ("configuration",)
        missing = (*intended, *untried, *(() if self.led() else ("leadership",)))
        return not missing, missing

    def unread(self) -> tuple[tuple[str, Trouble | None], ...]:
        """Return the configured sources without a snapshot, or whose last read failed."""
        return tuple(
            (name, reading.trouble)
            for name, reading in sorted(self._readings.items())
            if reading.snapshot is None or reading.trouble
        )

    # ---- what the shell hands in

    def intend(self, intended: Intended) -> None:
        """Replace what should exist."""
        self._intended = intended
        self._answers = answers(intended)
        self._revisions = {host: told.revision for host, told in self._answers.items()}
        self.changed()

    def configure(
        self, source: str, kind: SourceKind, interval_s: float, *, reboots: bool = True
    ) -> None:
        """Make a source known; one that is known keeps its snapshot.

        reboots: whether who lists boxes can be told to reboot one.
        """
        self._kinds[source] = kind
        known = self.reading(source)
        self._readings[source] = evolve(known, interval_s=interval_s, reboots=reboots)
        self.changed()

    def forget(self, source: str) -> None:
        """Drop a source that is no longer configured, with its snapshot."""
        self._kinds.pop(source, None)
        self._readings.pop(source, None)
        self.changed()

    def reading(self, source: str) -> Reading[Any]:
        """Return a source as the board has it."""
        return self._readings.get(source, Reading())

    def kind(self, source: str) -> SourceKind | None:
        """Return what a source tells about; None when it is not configured."""
        return self._kinds.get(source)

    def publish(self, source: str, snapshot: Snapshot[Any]) -> None:
        """Replace the snapshot of a source after a good read; its trouble is over."""
        self._readings[source] = evolve(self.reading(source), snapshot=snapshot, trouble=None)
        self.changed()

    def amend(self, source: str, snapshot: Snapshot[Any]) -> None:
        """Replace the snapshot of a source by one with more in it; its trouble stands."""
        self._readings[source] = evolve(self.reading(source), snapshot=snapshot)
        self.changed()

    def miss(self, source: str, trouble: Trouble) -> Trouble:
        """Note that a read failed; the last good snapshot stays.

        Return the trouble as counted: since when, and how many times in a row.
        """
        reading = self.reading(source)
        trouble = _counted(reading.trouble, trouble)
        self._readings[source] = evolve(reading, trouble=trouble)
        self.changed()
        return trouble

    def warn(self, name: str, trouble: Trouble | None) -> None:
        """Note a trouble that is no source's, or that it is over."""
        others = {each: held for each, held in self._troubles.items() if each != name}
        if trouble:
            others[name] = _counted(self._troubles.get(name), trouble)
        elif name not in self._troubles:
            return
        self._troubles = others
        self.changed()

    def wrote(self, target: str, write: Write) -> None:
        """Replace the last write to a row."""
        self._writes = {**self._writes, target: write}
        self._tries[write.key, write.kind] = write
        self.changed()

    def last_try(self, key: Key, kind: ActionKind) -> Write | None:
        """Return the last write of one kind for a key; None when it is forgotten or forgiven."""
        return self._tries.get((key, kind))

    def request(self, request: Request) -> None:
        """Take what an admin pressed; raises OverflowError when too many are waiting."""
        waiting = self.requests()
        if len(waiting) >= REQUESTS_KEPT:
            raise OverflowError("too many requests are waiting; try again in some minutes")
        self._requests = (*waiting, request)
        self.tell(request, self._clock.now())
        self.changed()

    def hear(self, what: BoxEvent | Request, at: float) -> None:
        """Take what another replica saw or was asked for; it is not told on."""
        if isinstance(what, Request):
            if what in self._requests:
                return
            self._requests = (*self._requests, what)[-REQUESTS_KEPT:]
        else:
            self._noted.append((what, at))
        self.changed()

    def place(self, placed: Mapping[str, str]) -> None:
        """Replace which provider once named a host."""
        self.placed = placed

    def remember(self, told: Mapping[str, Mapping[str, Json]]) -> None:
        """Take what hosts were told before this process started, for when they ask again."""
        self._told_before = dict(told)

    def forgive(self) -> None:
        """Let every row be written again at once: LiteLLM is back."""
        self._writes = {
            target: evolve(write, failures=0, next_try=None)
            for target, write in self._writes.items()
        }
        self._tries.clear()
        self.changed()

    def conclude(self, concluded: Concluded, history: History) -> None:
        """Publish what a pass came to."""
        self.concluded = concluded
        self.history = history

    # ---- what reconcile looks at

    def snapshots(self) -> Snapshots:
        """Return everything one pass looks at, as it is now."""
        self._tidy()
        self._fold()
        return Snapshots(
            intended=self._intended,
            protocol=self._protocol,
            inventories=self.listings(),
            probes=self.probes(),
            deployments=self.deployments(),
            health=self.health(),
            writes=self._writes,
            requests=self._requests,
            placed=self.placed,
            revisions=self._revisions,
            troubles=self._troubles,
        )

    def deployments(self) -> Reading[Deployments]:
        """Return the LiteLLM deployments as the board has them."""
        return self._first(SourceKind.DEPLOYMENTS)

    def reported(self, now: float) -> tuple[SourceView, ...]:
        """Return the sources that people are told of and that no pass looks at."""
        names = self._of(SourceKind.ACCESS)
        return tuple(source_view(one, self._readings[one], self._intended, now) for one in names)

    def health(self) -> Reading[Health]:
        """Return LiteLLM's checks as the board has them."""
        return self._first(SourceKind.HEALTH)

    def pending(self, poll_interval_s: float) -> tuple[str, ...]:
        """Return the LiteLLM ids that a list of deployments may not show rightly yet.

        Rows written that no read has settled: it must begin a poll interval after the answer.
        Rows that LiteLLM saved and does not serve.
        """
        snapshot = self.deployments().snapshot
        read_at = snapshot.taken_at if snapshot else None
        unsettled = [
            target
            for target, write in self._writes.items()
            if write.kind is not ActionKind.REBOOT_BOX
            and _may_have_happened(write)
            and (
                read_at is None
                or write.answered is None
                or read_at < write.answered + poll_interval_s
            )
        ]
        not_live = [row.id for row in snapshot.body.rows if not row.live] if snapshot else []
        return tuple(dict.fromkeys((*unsettled, *not_live)))

    def next_try(self) -> float | None:
        """Return when the next backoff ends, epoch seconds; None when nothing backs off."""
        now = self._clock.now()
        times = [write.next_try for write in self._tries.values() if write.next_try is not None]
        return min((at for at in times if at > now), default=None)

    def _of(self, kind: SourceKind) -> Iterable[str]:
        return [name for name, each in self._kinds.items() if each is kind]

    def _first(self, kind: SourceKind) -> Reading[Any]:
        names = self._of(kind)
        return next((self._readings[name] for name in names), Reading())

    def _fold(self) -> None:
        if self._noted:
            self._protocol = fold_all(self._protocol, self._noted)
            for host in {event.host for event, _ in self._noted if isinstance(event, Fetch)}:
                if before := self._told_before.pop(host, None):
                    self._protocol = recall(self._protocol, host, before)
            self._noted.clear()

    def _tidy(self) -> None:
        now = self._clock.now()
        if any(_forgotten(write, now) for write in self._writes.values()):
            self._writes = {
                target: write
                for target, write in self._writes.items()
                if not _forgotten(write, now)
            }
            self._tries = {
                each: write for each, write in self._tries.items() if not _forgotten(write, now)
            }
        if any(each.expires_at <= now for each in self._requests):
            self._requests = tuple(each for each in self._requests if each.expires_at > now)

    def changed(self) -> None:
        """Note that there is something new for reconcile to look at."""
        self.revision += 1
        self.wake.set()


def _nobody(what: BoxEvent | Request, at: float) -> None:
    """Tell nobody."""


def _nobody_else() -> bool:
    """Know that no other process could lead."""
    return True


def _no_probes(target: Target) -> Sequence[Probed]:  # noqa: ARG001
    return ()


def _tried(reading: Reading[Any]) -> bool:
    return reading.snapshot is not None or reading.trouble is not None


def _counted(before: Trouble | None, trouble: Trouble) -> Trouble:
    return evolve(trouble, since=before.since, count=before.count + 1) if before else trouble


def _may_have_happened(write: Write) -> bool:
    outcome = write.outcome
    return outcome is None or outcome.good or outcome.kind is OutcomeKind.UNKNOWN


def _forgotten(write: Write, now: float) -> bool:
    return write.answered is not None and now - write.answered > WRITES_KEPT_S
