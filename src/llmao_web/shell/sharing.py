"""What this process tells the store, and what it learns from it: people's decisions, box events.

Rule of this file: a store that fails stops no answer. What could not be told waits, bounded, and
is told again; until then this process goes on with what it knows. A failed write is over when
another succeeds: that it can be read says nothing.
"""

import asyncio
from collections.abc import Callable

import structlog

from llmao_core.errors import LlmaoError, Trouble
from llmao_core.protocol import HOSTS_KEPT, WRONG_KEYS_KEPT, BoxEvent, Unknown, WrongKey
from llmao_core.snapshots import Request

from .board import Board
from .clock import Clock, wait_for_any
from .later import Later, Waiting
from .ledger import Entry, Kept, fold
from .presses import Presses
from .store import NotKept, Store, StoreError, Unanswered
from .unexpected import log_unexpected

EVERY_S = 1.0
LONGEST_WAIT_S = 10.0
TIDY_S = 3600.0
IS_NOT_KEPT = "Nothing of it was kept."
MAY_BE_KEPT = "Whether it was kept is not known: look, and repeat it if it was not."

log = structlog.get_logger(__name__)


class Sharing:
    """Keeps the board and the store of one process in step.

    kept: what people decided, as this process knows it. later: takes what llmao itself did.
    presses: what was asked for before it started, and which reboots were begun.
    changed: called after approvals or labels changed.
    """

    def __init__(
        self, store: Store, board: Board, clock: Clock, changed: Callable[[], None]
    ) -> None:
        self.kept = Kept()
        self.later = Later(store)
        self.presses = Presses(store, board, clock, keep=self.keep, later=self.later)
        self._store = store
        self._board = board
        self._clock = clock
        self._changed = changed
        self._newest = 0
        self._heard = 0
        self._tidied = clock.monotonic()
        self._failures = 0
        self._stopping = asyncio.Event()
        self._noted = Waiting[tuple[BoxEvent | Request, float]](HOSTS_KEPT)
        # What strangers cause must not push out what our own boxes did.
        self._strangers = Waiting[tuple[BoxEvent | Request, float]](WRONG_KEYS_KEPT)
        self._one_at_a_time = asyncio.Lock()

    async def start(self) -> None:
        """Learn what was decided before; StoreError: without it nothing may be concluded."""
        self._newest = await self._store.newest()
        self.kept = await self._store.kept()
        # A life cycle rests on what was handed out since this process started.
        self._heard = max((each.number for each in await self._store.told(0)), default=0)
        self._board.place(self.kept.placed)
        self._board.remember(await self._store.assignments())
        self._board.tell = self.tell
        # After what was told: whatever is told later is heard, whatever was pressed before is kept.
        await self.presses.take_up()

    def tell(self, what: BoxEvent | Request, at: float) -> None:
        """Take what happened here, to be told with the rest of its second."""
        strange = isinstance(what, WrongKey | Unknown)
        (self._strangers if strange else self._noted).add([(what, at)])

    async def keep(self, *entries: Entry) -> None:
        """Keep entries and apply them at once; StoreError: they are not applied.

        The message says whether they are kept: they may be when the store did not answer, and
        then they apply when it does.
        """
        async with self._one_at_a_time:
            try:
                await self._store.append(*entries)
            except NotKept:
                raise
            except StoreError as error:
                self._failed(str(error))
                unsure = isinstance(error, Unanswered)
                raise type(error)(f"{error} {MAY_BE_KEPT if unsure else IS_NOT_KEPT}") from None
            self._take(fold(entries, self.kept))

    @property
    def keeps(self) -> bool:
        """Tell whether the store keeps what it is given, as far as is known."""
        return not self._failures

    async def run(self) -> None:
        """Tell and learn until stopped, every second, more rarely while the store fails."""
        while not self._stopping.is_set():
            await self.once()
            if self._failures:
                wait_s = min(EVERY_S * 2.0 ** min(self._failures, 16), LONGEST_WAIT_S)
                await wait_for_any(self._clock, wait_s, self._stopping)
            else:
                await wait_for_any(self._clock, EVERY_S, self.later.some, self._stopping)
        await self.once()

    def stop(self) -> None:
        """Have `run` tell what is left and return."""
        self._stopping.set()

    async def once(self) -> None:
        """Learn what others decided and saw, tell what waits, tidy when an hour has passed."""
        failures = self._failures
        try:
            await self._learn()
            await self._hear()
            if failures:
                await self._store.prove()
            await self.later.write()
            await self._tell()
            await self._tidy()
        except LlmaoError as error:
            self._failed(str(error))
        except Exception as error:
            log_unexpected("store", error)
            self._failed(f"unexpected {type(error).__name__}")
        else:
            # Somebody's deed may have been refused meanwhile.
            if self._failures == failures:
                self._failures = 0
                self._board.warn("store", None)

    def _failed(self, said: str) -> None:
        self._failures += 1
        self._board.counts.store_failures.inc()
        log.warning("store", said=said, failures=self._failures)
        self._board.warn("store", Trouble("StoreError", said, self._clock.now()))

    async def _tell(self) -> None:
        for waiting in (self._strangers, self._noted):
            if waiting:
                await waiting.hand_over(self._store.tell)

    async def _learn(self) -> None:
        newest = await self._store.newest()
        if newest == self._newest:
            return
        async with self._one_at_a_time:
            self._take(await self._store.kept())
        # Read before the rest, so that what came meanwhile is read again.
        self._newest = newest

    async def _hear(self) -> None:
        for told in await self._store.told(self._heard):
            self._heard = max(self._heard, told.number)
            self._board.hear(told.what, told.at)

    async def _tidy(self) -> None:
        if self._clock.monotonic() - self._tidied >= TIDY_S:
            self._tidied = self._clock.monotonic()
            await self._store.tidy(self._clock.now())

    def _take(self, kept: Kept) -> None:
        before, self.kept = self.kept, kept
        self._board.place(kept.placed)
        if (before.approvals, before.labels) != (kept.approvals, kept.labels):
            self._changed()
