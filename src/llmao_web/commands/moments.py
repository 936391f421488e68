"""What `replay` and `explain` share: a moment, and what a journal tells of it.

Rule of this file: a moment is told in UTC, and read in UTC unless it says otherwise.
"""

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .printing import clean

if TYPE_CHECKING:
    from llmao_web.shell.once import Looked

Command = TypeVar("Command", bound=Callable[..., Any])


class Moment(click.ParamType[float]):
    """Epoch seconds, or a time as ISO 8601 writes it."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return epoch seconds."""
        if isinstance(value, float):
            return value
        try:
            return float(value)
        except ValueError:
            pass
        try:
            told = datetime.fromisoformat(value)
            return (told if told.tzinfo else told.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            self.fail("a time is written 2026-12-02T14:30:00Z, or as epoch seconds", param, ctx)


def at_option(command: Command) -> Command:
    """Give a command `--at T`; its argument is `at`, epoch seconds or None."""
    said = "The moment to tell of, UTC unless it says otherwise. Default: the newest."
    return click.option("--at", metavar="T", type=Moment(), help=said)(command)


def shown(at: float) -> str:
    """Return a time as it is printed; as a number when no calendar has it."""
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + "Z"
    except (ValueError, OverflowError, OSError):
        return repr(at)


def say_which(folder: Path) -> None:
    """Say which journal is read, and which others stand beside it."""
    from llmao_web.shell.journal_folder import others

    told = f"Read: the journal in {folder}."
    # A folder that cannot be read is said by whoever reads it.
    with contextlib.suppress(OSError):
        if found := others(folder):
            told += f" Not read: {', '.join(map(str, found))}, kept by other llmaos on that folder."
    click.echo(clean(told), err=True)


def looked_at(folder: Path, at: float | None) -> "Looked":
    """Return what a journal tells of a moment, in the shape of a look."""
    from llmao_web.shell.once import Looked
    from llmao_web.shell.replaying import view_at

    say_which(folder)
    found = view_at(folder, at)
    click.echo(f"As of {shown(found.recorded.at)}.", err=True)
    return Looked(found.view, found.plan, settled=True, unread=())
