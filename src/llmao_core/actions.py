"""What can be done, and how it ended: the words core and plugins share.

Rule of this file: an order is complete in itself; whoever carries it out looks nothing up.
"""

import enum

from attrs import field, frozen

from .config import Json
from .keys import Key
from .secret import Secret


class ActionKind(enum.Enum):
    """Everything llmao may do to the world."""

    ADD_LITELLM = "add_litellm"
    UPDATE_LITELLM = "update_litellm"
    REPLACE_LITELLM = "replace_litellm"
    DELETE_LITELLM = "delete_litellm"
    DELETE_DUPLICATE = "delete_duplicate"
    PRUNE_ORPHAN = "prune_orphan"
    REBOOT_BOX = "reboot_box"

    @property
    def removes(self) -> bool:
        """Tell whether it takes a route away and puts none back."""
        return self in _REMOVALS

    @property
    def writes(self) -> bool:
        """Tell whether it writes a whole body."""
        return self in _WRITES

    @property
    def words(self) -> str:
        """Return what people call it: on pages, in the log, in commands and notifications."""
        return _WORDS[self]


def action_words(code: str) -> str:
    """Return what people call the action of a code, the code itself if no action has it."""
    return next((kind.words for kind in ActionKind if kind.value == code), code)


_WORDS = {
    ActionKind.ADD_LITELLM: "add to LiteLLM",
    ActionKind.UPDATE_LITELLM: "update in LiteLLM",
    ActionKind.REPLACE_LITELLM: "replace in LiteLLM",
    ActionKind.DELETE_LITELLM: "remove from LiteLLM",
    ActionKind.DELETE_DUPLICATE: "remove a duplicate from LiteLLM",
    ActionKind.PRUNE_ORPHAN: "remove an orphan from LiteLLM",
    ActionKind.REBOOT_BOX: "reboot the box",
}
_REMOVALS = frozenset(
    {ActionKind.DELETE_LITELLM, ActionKind.DELETE_DUPLICATE, ActionKind.PRUNE_ORPHAN}
)


_WRITES = frozenset({ActionKind.ADD_LITELLM, ActionKind.UPDATE_LITELLM, ActionKind.REPLACE_LITELLM})


@frozen
class RowBody:
    """A whole deployment to write. api_base: with `/v1` for a box, as configured otherwise.

    model_info holds the stamp, `asf_api_base` included.
    """

    model_name: str
    api_base: str
    litellm_params: Json
    model_info: Json
    api_key: Secret | None = None


@frozen
class Order:
    """One action to carry out, by the plugin named `executor`.

    target: LiteLLM id, or the instance id of a box. body: what to write, None for a removal.
    """

    kind: ActionKind
    executor: str
    key: Key
    target: str
    body: RowBody | None = None


class OutcomeKind(enum.Enum):
    """How an order ended. UNKNOWN: no answer, or one that proves nothing."""

    DONE = "done"
    ALREADY = "already so"
    REFUSED = "refused"
    FAILED = "failed"
    UNKNOWN = "unknown"


@frozen
class Outcome:
    """The end of one order, as a value. said: one masked sentence."""

    kind: OutcomeKind
    said: str = ""

    @property
    def good(self) -> bool:
        """Tell whether the world is now as ordered."""
        return self.kind in (OutcomeKind.DONE, OutcomeKind.ALREADY)


@frozen
class Write:
    """The last write to one LiteLLM row.

    answered: None while under way. hash: of the body written, "" for a removal.
    failures: in a row for this key and kind. next_try: not again before, epoch seconds.
    """

    kind: ActionKind
    key: Key
    began: float
    answered: float | None = None
    outcome: Outcome | None = None
    hash: str = ""
    failures: int = field(default=0)
    next_try: float | None = None
