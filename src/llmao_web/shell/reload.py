"""What a changed configuration file may do to a running llmao.

Rule of this file: a file that cannot be used changes nothing, and whoever changed it is told
why. What needs a restart keeps its old value. What drops most hosts, or the last, waits for a
person.
"""

from collections.abc import Callable, Sequence

import structlog
from attrs import evolve, frozen

from llmao_core.check import NOT_RELOADED, dropped_hosts, reload_refusals
from llmao_core.config import Config
from llmao_core.errors import ConfigError, Trouble

from .board import Board
from .clock import Clock
from .loop import Offload
from .unexpected import log_unexpected

TROUBLE = "config"
_NAMES_SHOWN = 20

log = structlog.get_logger(__name__)


@frozen
class PendingReload:
    """A configuration that waits for a confirmation, and the hosts it drops."""

    config: Config
    dropped: tuple[str, ...]
    at: float


class Reloader:
    """Holds the configuration in force. read: reads the files; take: puts one in force.

    offload: runs what reads elsewhere, so that boxes are answered meanwhile.
    """

    def __init__(
        self,
        config: Config,
        board: Board,
        clock: Clock,
        *,
        read: Callable[[], Config],
        take: Callable[[Config], None],
        offload: Offload,
    ) -> None:
        self.config = config
        self.pending: PendingReload | None = None
        self._board = board
        self._clock = clock
        self._read = read
        self._take = take
        self._offload = offload

    async def reload(self) -> bool:
        """Read the files and put them in force; tell whether they are, at least in part."""
        self.pending = None
        try:
            new = await self._offload(self._read)
        except ConfigError as error:
            self._tell([str(problem) for problem in error.problems if not problem.warning])
            return False
        except Exception as error:
            log_unexpected(TROUBLE, error)
            self._tell([f"llmao failed with {type(error).__name__}; its log has the place."])
            return False
        refused = [str(problem) for problem in reload_refusals(self.config, new)]
        new = evolve(new, **{name: getattr(self.config, name) for name in NOT_RELOADED})
        if dropped := dropped_hosts(self.config, new, self.config.brake):
            self.pending = PendingReload(new, dropped, self._clock.now())
            self._tell([_dropping(dropped), *refused])
            return False
        self._put(new, refused)
        return True

    def confirm(self) -> bool:
        """Put in force what waits for a confirmation; tell whether something did."""
        if self.pending is None:
            return False
        pending, self.pending = self.pending, None
        self._put(pending.config, [])
        return True

    def _put(self, new: Config, refused: Sequence[str]) -> None:
        self.config = new
        self._take(new)
        self._tell(refused)
        log.info("configuration in force", hosts=len(new.fleet.hosts), models=len(new.models))

    def _tell(self, said: Sequence[str]) -> None:
        if not said:
            self._board.warn(TROUBLE, None)
            return
        log.error("configuration not taken", said=list(said))
        message = "\n".join(said)
        self._board.warn(TROUBLE, Trouble("ConfigError", message, self._clock.now()))


def _dropping(dropped: Sequence[str]) -> str:
    hosts = "1 host" if len(dropped) == 1 else f"{len(dropped)} hosts"
    names = ", ".join(dropped[:_NAMES_SHOWN])
    rest = len(dropped) - _NAMES_SHOWN
    more = f" and {rest} more" if rest > 0 else ""
    return f"It drops {hosts} and waits for a confirmation on the page Admin: {names}{more}."
