"""What one pass may rest on: the snapshots that are usable now, and nothing else.

Rule of this file: stale counts as unread, decided here once for every source.
"""

from collections.abc import Mapping

from attrs import field, frozen

from .actions import OutcomeKind, Write
from .config import FleetConfig
from .history import Reboot, Seen
from .intended import Intended
from .probes import Probes
from .snapshots import (
    BoxProtocol,
    Deployments,
    Health,
    Listing,
    Opinion,
    Request,
    Row,
    Snapshot,
    Snapshots,
    SourceState,
)

OPINION_MAX_AGE_S = 7200.0


@frozen
class Scene:
    """The usable part of the snapshots. deployments, health: None when unread or stale.

    stale_s: age at which what a probe showed no longer counts.
    rows: of the last good read of LiteLLM, stale or not: their addresses are probed until one
    shows them gone. listings: fresh ones; last: the last good ones, stale or not, to be told and
    to decide nothing. all_listed: every configured listing is fresh, and there is one.
    reboots: asked for or under way, by every name of their hosts. rebooters: the configured
    providers that can be told to reboot a box.
    """

    now: float
    intended: Intended
    fleet: FleetConfig
    poll_s: float
    stale_s: float
    protocol: BoxProtocol
    probes: Probes
    deployments: Snapshot[Deployments] | None
    rows: tuple[Row, ...]
    health: Snapshot[Health] | None
    listings: Mapping[str, Snapshot[Listing]]
    intervals: Mapping[str, float | None]
    all_listed: bool
    writes: Mapping[str, Write]
    requests: tuple[Request, ...]
    placed: Mapping[str, str]
    reboots: Mapping[str, Reboot] = field(factory=dict)
    rebooters: frozenset[str] = frozenset()
    last: Mapping[str, Snapshot[Listing]] = field(factory=dict)

    @property
    def no_listing(self) -> bool:
        """Tell whether no GPU inventory source is configured."""
        return not self.intervals

    @property
    def unread(self) -> tuple[str, ...]:
        """Return the providers whose listing is unread or stale, in order."""
        return tuple(sorted(self.intervals.keys() - self.listings.keys()))

    def stale(self, seen: Seen) -> bool:
        """Tell whether what probes have shown of a target is too old to rest on."""
        return self.now - seen.probed_at > self.stale_s + seen.took_s

    def opinion(self, litellm_id: str) -> Opinion | None:
        """Return LiteLLM's own check of a row, if it is recent, and younger than our last write."""
        if self.health is None:
            return None
        opinion = self.health.body.opinions.get(litellm_id)
        if opinion is None or self.now - opinion.checked_at > OPINION_MAX_AGE_S:
            return None
        write = self.writes.get(litellm_id)
        older = write is not None and write.hash and opinion.checked_at <= write.began
        return None if older else opinion

    def pending_until(self, litellm_id: str) -> float | None:
        """Return when a read may begin that proves what became of the last write, None if known.

        A write that is under way is pending for ever: its end publishes a new snapshot.
        """
        write = self.writes.get(litellm_id)
        if write is None or not _may_have_happened(write):
            return None
        if write.answered is None:
            return float("inf")
        until = write.answered + self.poll_s
        taken = self.deployments.taken_at if self.deployments else None
        return None if taken is not None and taken >= until else until


def _may_have_happened(write: Write) -> bool:
    return write.outcome is None or write.outcome.good or write.outcome.kind is OutcomeKind.UNKNOWN


def look(snapshots: Snapshots, now: float) -> Scene | None:
    """Return the scene of a pass, None while configuration and approvals are unread."""
    intended = snapshots.intended
    if intended is None:
        return None
    fleet = intended.config.fleet
    threshold = fleet.health_fail_threshold
    states = {
        name: reading.state(now, threshold) for name, reading in snapshots.inventories.items()
    }
    listings = {
        name: reading.snapshot
        for name, reading in snapshots.inventories.items()
        if states[name] is SourceState.FRESH and reading.snapshot is not None
    }
    return Scene(
        now=now,
        intended=intended,
        fleet=fleet,
        poll_s=intended.config.litellm.poll_interval_s,
        stale_s=threshold * (fleet.health_interval_s + fleet.health_timeout_s),
        protocol=snapshots.protocol or BoxProtocol(),
        probes=snapshots.probes,
        deployments=snapshots.deployments.fresh(now, threshold),
        rows=read.body.rows if (read := snapshots.deployments.snapshot) else (),
        health=snapshots.health.fresh(now, threshold),
        listings=listings,
        intervals={name: one.interval_s for name, one in snapshots.inventories.items()},
        all_listed=bool(states) and len(listings) == len(states),
        writes=snapshots.writes,
        requests=snapshots.requests,
        placed=snapshots.placed,
        rebooters=frozenset(name for name, one in snapshots.inventories.items() if one.reboots),
        last={
            name: reading.snapshot
            for name, reading in snapshots.inventories.items()
            if reading.snapshot is not None
        },
    )
