"""What people pressed, over a restart: what still counts is taken up, and no reboot begins twice.

Rule of this file: a press is in the ledger before it is answered, and a reboot before its
provider is told of it, so that who starts, or leads after another, knows of both.
"""

from collections.abc import Awaitable, Callable, Sequence

import structlog
from attrs import evolve
from cattrs import BaseValidationError, Converter

from llmao_core.actions import ActionKind, Outcome, OutcomeKind, Write
from llmao_core.errors import LlmaoError
from llmao_core.keys import Key
from llmao_core.plan import Action
from llmao_core.reboot import REQUEST_S
from llmao_core.snapshots import Request, RequestKind

from .board import REQUESTS_KEPT, Board
from .clock import Clock
from .ledger import Entry, EntryKind
from .store import Store, Wanted, Writes

_REQUEST = "request"
_BEGUN = frozenset({EntryKind.BEGUN, EntryKind.ACTION})
# The newest order of one box, and how it ended, are among them.
_LOOKED_AT = 10
_CUT_SHORT = Outcome(OutcomeKind.UNKNOWN, "llmao ended in the middle of it.")

_converter = Converter()
log = structlog.get_logger(__name__)


def pressed(entry: Entry, request: Request) -> Entry:
    """Return the entry of a press with all that a process which starts needs of it."""
    return evolve(entry, detail={**entry.detail, _REQUEST: _converter.unstructure(request)})


def request_of(entry: Entry) -> Request | None:
    """Return what an entry asked for; None when it does not say, or not to this program."""
    try:
        return _converter.structure(entry.detail[_REQUEST], Request)
    except (BaseValidationError, KeyError, TypeError, ValueError):
        return None


class Presses:
    """What was asked for and is not over, as the ledger has it.

    keep: returns when entries are kept. later: takes what nobody waits for.
    """

    def __init__(
        self,
        store: Store,
        board: Board,
        clock: Clock,
        *,
        keep: Callable[..., Awaitable[None]],
        later: Writes,
    ) -> None:
        self._store = store
        self._board = board
        self._clock = clock
        self._keep = keep
        self._later = later
        self._known: dict[Key, float] = {}

    async def take_up(self) -> None:
        """Take up what was asked for before this process started; StoreError: it is not known.

        What lapsed meanwhile is dropped, and that is told in the log.
        """
        now = self._clock.now()
        wanted = Wanted(frozenset({EntryKind.PRESSED}), limit=REQUESTS_KEPT)
        found = [request_of(each.entry) for each in await self._store.entries(wanted)]
        asked = [request for request in reversed(found) if request is not None]
        for request in asked:
            if request.expires_at <= now:
                continue
            if request.kind is ActionKind.REBOOT_BOX and request.key is not None:
                await self._learn(request.key)
            self._board.hear(request, now)
            # Whoever ended within the second after a press had told nobody.
            self._board.tell(request, now)
        await self._drop([request for request in asked if request.expires_at <= now], asked)

    async def begins(self, action: Action, at: float) -> bool:
        """Keep that a reboot begins at this time.

        False when it must not: it was begun already, or that it begins cannot be kept.
        """
        by, box = action.released_by or "llmao", action.key.shown
        sentence = f"{action.order.executor} is told to reboot {box}, as {by} asked."
        detail = {"target": action.order.target, "sentence": sentence}
        try:
            if await self._learn(action.key):
                return False
            await self._keep(Entry(at, by, EntryKind.BEGUN, key=action.key, detail=detail))
        except LlmaoError as error:
            log.warning("reboot waits", key=str(action.key), said=str(error))
            return False
        self._known[action.key] = at
        return True

    async def _learn(self, key: Key) -> bool:
        """Put the newest order of a box on the board; false when this process knows of it."""
        wanted = Wanted(_BEGUN, key=key, limit=_LOOKED_AT)
        found = [each.entry for each in await self._store.entries(wanted)]
        begun = next((each for each in found if each.kind is EntryKind.BEGUN), None)
        # No press that still counts is older.
        since = max(self._clock.now() - REQUEST_S, self._known.get(key, 0.0))
        if begun is None or begun.at <= since:
            return False
        self._known[key] = begun.at
        outcome = next((_outcome(each) for each in found if _ended(each, begun)), _CUT_SHORT)
        write = Write(ActionKind.REBOOT_BOX, key, begun.at, answered=begun.at, outcome=outcome)
        self._board.wrote(str(begun.detail.get("target", "")), write)
        return True

    async def _drop(self, lapsed: Sequence[Request], asked: Sequence[Request]) -> None:
        if not lapsed:
            return
        seen = [each.entry.at for each in await self._store.entries(Wanted(limit=1))]
        seen += [each.at for each in await self._store.transitions(limit=1)]
        alive = max(seen, default=0.0)
        for request in lapsed:
            # What lapsed while a llmao ran was seen to, or not, by that one.
            if request.request is RequestKind.CANCEL or request.expires_at <= alive:
                continue
            if not _called_off(request, asked) and not await self._done(request):
                await self._later.append(_dropped(request, self._clock.now()))

    async def _done(self, request: Request) -> bool:
        found = await self._store.entries(Wanted(_BEGUN, key=request.key, limit=1))
        return any(each.entry.at >= request.at for each in found)


def _ended(entry: Entry, begun: Entry) -> bool:
    return entry.kind is EntryKind.ACTION and entry.at == begun.at


def _outcome(entry: Entry) -> Outcome:
    said = entry.detail.get("outcome")
    kind = next((each for each in OutcomeKind if each.value == said), OutcomeKind.UNKNOWN)
    return Outcome(kind, str(entry.detail.get("said", "")))


def _called_off(request: Request, asked: Sequence[Request]) -> bool:
    return any(
        one.request is RequestKind.CANCEL and one.key == request.key and one.at >= request.at
        for one in asked
    )


def _dropped(request: Request, at: float) -> Entry:
    what = request.kind.words if request.kind is not None else request.request.value
    sentence = (
        f"What {request.by} asked for, “{what}”, was dropped: it lapsed while llmao did not run. "
        "Ask again if it is still wanted."
    )
    return Entry(at, "llmao", EntryKind.LAPSED, key=request.key, detail={"sentence": sentence})
