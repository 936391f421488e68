"""The counter between the web and the shell: all that a handler may ask for or hand in.

Rule of this file: shapes only. The shell's board implements `Desk`; a test implements it in a
few lines, and every call answers from memory. The shell's office implements `Office`; what is
async there waits for the store.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from llmao_core.box_config import BoxAnswer
from llmao_core.config import HostRow
from llmao_core.intended import Approval, Intended
from llmao_core.keys import Key
from llmao_core.plan import Plan
from llmao_core.probes import Target
from llmao_core.protocol import BoxEvent
from llmao_core.records import View
from llmao_core.snapshots import Listing, Reading, UnknownHost

from .shell.archive import Checked
from .shell.leader import Leadership
from .shell.ledger import Note, Numbered
from .shell.probe_log import Probed
from .shell.store import Fetches, Sample, Transition, Wanted


class Clock(Protocol):
    """The part of the shell's clock that handlers need."""

    def now(self) -> float:
        """Return the time, epoch seconds."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds."""
        ...


class Desk(Protocol):
    """What handlers and pages see of the running llmao."""

    def intended(self) -> Intended | None:
        """Return what should exist; None until configuration and approvals are read."""
        ...

    def answer(self, host: str) -> BoxAnswer | None:
        """Return the answer for a normalised host name, a former one included.

        None: unknown host. From `box_config.answers(intended)`, made once per Intended.
        """
        ...

    def note(self, event: BoxEvent) -> None:
        """Take what a box did, for `protocol.fold` with the time of the call.

        Called once per request, also in a flood of wrong keys: it must be cheap and never raise.
        """
        ...

    def view(self) -> View | None:
        """Return what the newest pass concluded; None before the first pass."""
        ...

    def plan(self) -> Plan | None:
        """Return the plan of the same pass; None before the first pass."""
        ...

    def ready(self) -> tuple[bool, tuple[str, ...]]:
        """Tell whether every source was tried once and who leads was known, and what is missing.

        A source that was tried and failed counts as tried.
        """
        ...

    def probed(self, target: Target) -> Sequence[Probed]:
        """Return the newest probes of a target, newest first; () when there were none lately."""
        ...


class Office(Protocol):
    """What only admins see and do.

    Deeds return a sentence once what they decided is kept; they raise Refusal when nothing was
    done, with a sentence that says why. by: the name of the admin. litellm_id: of a row, or the
    one a deployment would have.
    """

    def notes(self) -> Mapping[str, Note]:
        """Return labels and notes by host."""
        ...

    def approvals(self) -> Sequence[Approval]:
        """Return what was approved, the hosts that fleet.hosts names meanwhile included."""
        ...

    def listings(self) -> Mapping[str, Reading[Listing]]:
        """Return what every configured provider listed last, by its name."""
        ...

    def unknown(self) -> Sequence[UnknownHost]:
        """Return the hosts that asked with the fleet key and that nothing names, newest first."""
        ...

    def named_since(self) -> Sequence[UnknownHost]:
        """Return the hosts that asked before anything named them, and not again since."""
        ...

    def dropped(self) -> Sequence[str]:
        """Return the hosts that the reload which waits for a confirmation drops, () for none."""
        ...

    def checked(self) -> Checked | None:
        """Return the last look at the configuration files, None when nobody looked."""
        ...

    def leadership(self) -> Leadership:
        """Return which replica writes to LiteLLM, and whether it is this one."""
        ...

    def reboots(self) -> Mapping[str, str]:
        """Return what the reboots under way wait for, a sentence by host."""
        ...

    async def entries(self, wanted: Wanted, actor: str = "") -> Sequence[Numbered]:
        """Return entries of the ledger, newest first; actor: of one person, "" for all."""
        ...

    async def transitions(self, limit: int, host: str = "") -> Sequence[Transition]:
        """Return changes of lifecycles, newest first; host: of one host or provider, "" for all."""
        ...

    async def fetches(self) -> Mapping[str, Fetches]:
        """Return what hosts fetched, over restarts, by name."""
        ...

    async def approve(self, host: str, rows: Sequence[HostRow], by: str) -> str:
        """Make a host part of what is intended, at once."""
        ...

    async def withdraw(self, host: str, by: str) -> str:
        """Take an approval back."""
        ...

    async def label(self, host: str, label: str, note: str, by: str) -> str:
        """Say what a host is called and what others should know of it; empty texts forget."""
        ...

    async def drain(self, host: str, by: str) -> str:
        """Take a host's routes out and keep them out."""
        ...

    async def undrain(self, host: str, by: str) -> str:
        """Let a host's routes come back."""
        ...

    async def drain_key(self, litellm_id: str, by: str) -> str:
        """Take one deployment's route out and keep it out."""
        ...

    async def undrain_key(self, litellm_id: str, by: str) -> str:
        """Let one deployment's route come back."""
        ...

    async def retire(self, host: str, by: str) -> str:
        """Drain a host that is leaving, hide it, and keep what is known of it."""
        ...

    async def unretire(self, host: str, by: str) -> str:
        """Show a host again and let it serve, if something still intends it."""
        ...

    async def reboot(self, host: str, by: str) -> str:
        """Have a box's provider reboot it, its routes drained first."""
        ...

    async def cancel_reboot(self, host: str, by: str) -> str:
        """Call off a reboot that its provider was not told of yet."""
        ...

    async def press(self, digest: str, by: str) -> str:
        """Let one action run that waits. digest: of the evidence it was shown with."""
        ...

    async def release_brake(self, by: str) -> str:
        """Let run what the brake holds, for ten minutes."""
        ...

    async def check_config(self, by: str) -> str:
        """Read the configuration files and say what is wrong; nothing is put in force."""
        ...

    async def reload(self, by: str) -> str:
        """Read the configuration files and put them in force, as far as they can be."""
        ...

    async def confirm_reload(self, shown: str, by: str) -> str:
        """Put in force what waits for a confirmation. shown: digest of the hosts it drops."""
        ...

    async def check_now(self, litellm_id: str, by: str) -> str:
        """Have LiteLLM check one deployment, which costs tokens; again after five minutes."""
        ...

    async def refused(self, by: str, what: str) -> None:
        """Note that somebody asked for what is not theirs."""
        ...

    async def signed_in(self, by: str, mode: str) -> None:
        """Note that an admin signed in, in this mode of auth."""
        ...


class Records(Protocol):
    """What outlives a pass, as pages read it; the shell's store implements it.

    Every call may wait for a disk or a network; it fails with LlmaoError.
    """

    async def transitions(self, key: Key | None = None, limit: int = 100) -> Sequence[Transition]:
        """Return changes of lifecycles, newest first."""
        ...

    async def keys(self) -> Sequence[Key]:
        """Return every key of which a change or an entry is kept, each once."""
        ...

    async def entries(self, wanted: Wanted) -> Sequence[Numbered]:
        """Return what was decided and done, newest first."""
        ...

    async def capacity(self, key: Key, since: float) -> Sequence[Sample]:
        """Return how busy one server was, oldest first."""
        ...
