"""The capacity sampler: how busy each server is, kept once a minute.

Rule of this file: it reads what the probes have counted and asks nobody. Counters become rates
only between two reads of one and the same server; what cannot be known is None, never 0.
"""

from collections.abc import Callable, Iterable, Mapping

from attrs import frozen

from llmao_core.history import History, Seen
from llmao_core.keys import Key
from llmao_core.probes import Counters
from llmao_core.records import Record

from .board import Board
from .clock import Clock
from .store import Sample, Writes
from .unexpected import log_unexpected

INTERVAL_S = 60.0


@frozen
class Counted:
    """What one server had counted when it was last read. server: where, and which instance."""

    server: tuple[str, str]
    at: float
    counters: Counters


class CapacitySampler:
    """Keeps one sample per server and minute; `leads` tells whether this replica is to."""

    def __init__(
        self, board: Board, store: Writes, clock: Clock, leads: Callable[[], bool] = lambda: True
    ) -> None:
        self._board = board
        self._store = store
        self._clock = clock
        self._leads = leads
        self._before: Mapping[Key, Counted] = {}

    async def run(self) -> None:
        """Sample for ever."""
        while True:
            await self._clock.sleep(INTERVAL_S)
            try:
                await self.sample()
            except Exception as error:
                self._board.counts.store_failures.inc()
                log_unexpected("capacity", error)

    async def sample(self) -> None:
        """Keep a sample of every server whose counters were read within the last minute."""
        now, view = self._clock.now(), self._board.view()
        counted = counted_now(view.records if view else (), self._board.history, now)
        before, self._before = self._before, counted
        samples = [sampled(now, key, counted[key], before.get(key)) for key in sorted(counted)]
        if samples and self._leads():
            await self._store.sample(samples)


def counted_now(records: Iterable[Record], history: History, now: float) -> Mapping[Key, Counted]:
    """Return what each server has counted, as read within the last minute."""
    found = {}
    for record in records:
        known = history.keys.get(record.key)
        seen = known.seen.items() if known and record.dialable else ()
        reads = [
            made
            for target, each in seen
            if target.base == record.dialable and (made := _counted(record, each))
        ]
        if reads and now - (newest := max(reads, key=lambda one: one.at)).at <= INTERVAL_S:
            found[record.key] = newest
    return found


def _counted(record: Record, seen: Seen) -> Counted | None:
    if seen.counters is None or seen.metrics_at is None:
        return None
    return Counted((record.dialable, record.instance_id), seen.metrics_at, seen.counters)


def sampled(now: float, key: Key, after: Counted, before: Counted | None) -> Sample:
    """Return the sample of one server; rates are None without an earlier read to compare with."""
    counters = after.counters
    if before is None or _is_other(before, after):
        rate, wait_s = None, None
    else:
        rate = (counters.generated - before.counters.generated) / (after.at - before.at)
        wait_s = _first_token_s(before.counters, counters)
    return Sample(now, key, counters.running, counters.waiting, counters.kv_usage, rate, wait_s)


def _is_other(before: Counted, after: Counted) -> bool:
    """Tell whether the two reads cannot be compared: no time between, or counted anew."""
    old, new = before.counters, after.counters
    return (
        after.at <= before.at
        or after.server != before.server
        or new.generated < old.generated
        or new.prompt < old.prompt
        or new.finished < old.finished
    )


def _first_token_s(old: Counters, new: Counters) -> float | None:
    """Return the mean wait of the requests that had their first token in between."""
    counts, sums = (old.first_tokens, new.first_tokens), (old.first_token_s, new.first_token_s)
    if None in counts or None in sums:
        return None
    requests = (new.first_tokens or 0.0) - (old.first_tokens or 0.0)
    waited_s = (new.first_token_s or 0.0) - (old.first_token_s or 0.0)
    return waited_s / requests if requests > 0 and waited_s >= 0 else None
