"""What can go wrong, as a tree.

LlmaoError
├─ ConfigError          a person's file is wrong: every problem at once, each with its place
├─ FetchError           could not see; the last good snapshot stays
│   ├─ Unauthorized     our credentials were refused
│   ├─ Busy             asked too often; `retry_after_s` when the far end said so
│   ├─ Unreachable      no answer, or an answer that the far end is down
│   └─ Garbled          an answer that makes no sense
├─ ExecuteError         did not happen
│   ├─ Refused          and will not, until somebody changes something
│   └─ NotYet           and may, later
└─ OutcomeUnknown       may have happened: on its own branch: forgetting it makes a second row

Raised by plugins, clients and the codec only, and turned into values by the plugin host.
Messages never hold a secret: whoever raises masks first.
"""

from collections.abc import Sequence

from attrs import field, frozen


@frozen
class Problem:
    """One thing wrong in a person's file.

    file: name as the person gave it; line and column count from 1, 0 when there is no place.
    path: where in the document, `fleet.hosts.203.0.113.10[0]`.
    what: the trouble, one sentence. remedy: what would be right.
    """

    what: str
    remedy: str = ""
    path: str = ""
    file: str = ""
    line: int = 0
    column: int = 0
    warning: bool = False

    def __str__(self) -> str:
        place = ":".join(
            str(part) for part in (self.file, self.line or None, self.column or None) if part
        )
        head = "warning: " if self.warning else ""
        where = f" ({self.path})" if self.path else ""
        remedy = f" {self.remedy}" if self.remedy else ""
        return (
            f"{place}: {head}{self.what}{where}{remedy}" if place else f"{head}{self.what}{remedy}"
        )


class LlmaoError(Exception):
    """Anything llmao raises on purpose."""


class ConfigError(LlmaoError):
    """A configuration that cannot be used; `problems` holds all that is wrong with it."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


class FetchError(LlmaoError):
    """A source could not be read."""


class Unauthorized(FetchError):
    """The far end refused our credentials."""


class Busy(FetchError):
    """The far end asked us to come back later."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Unreachable(FetchError):
    """The far end did not answer, or answered that it is down."""


class Garbled(FetchError):
    """The far end answered something that makes no sense."""


class ExecuteError(LlmaoError):
    """An action did not happen."""


class Refused(ExecuteError):
    """An action did not happen, and will not until somebody changes something."""


class NotYet(ExecuteError):
    """An action did not happen, and may later."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class OutcomeUnknown(LlmaoError):
    """An action may have happened: no answer came, or one that proves nothing."""


@frozen
class Trouble:
    """Why a source cannot be read, as a value.

    kind: the name of a FetchError class. since: when it began, epoch seconds.
    count: failures in a row.
    """

    kind: str
    message: str
    since: float
    count: int = field(default=1)
