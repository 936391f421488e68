"""`llmao replay`: what llmao saw and decided, told again from its journal.

Rule of this file: nothing is asked of anybody and nothing is written. Exit 0; with --against 2
when this llmao would decide otherwise; 1 when the journal cannot be read.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from llmao_core.errors import LlmaoError
from llmao_core.keys import Key

from .common import config_option, json_option, loaded_parts
from .explain import as_value, chooser, lines
from .moments import at_option, looked_at, say_which, shown
from .printing import clean
from .retelling import Event, Story, everybody, line, otherwise

if TYPE_CHECKING:
    from llmao_web.shell.journal_file import Damage


@click.command()
@config_option
@json_option
@at_option
@click.option("--key", metavar="HOST[:PORT]", help="Tell of this host, server or provider only.")
@click.option(
    "--against",
    is_flag=True,
    help="Print what this llmao decides otherwise than was recorded; exit 2 if anything.",
)
@click.argument(
    "folder",
    metavar="[DIR]",
    required=False,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
)
@click.pass_context
def replay(
    ctx: click.Context,
    config_path: Path,
    as_json: bool,
    at: float | None,
    key: str | None,
    against: bool,
    folder: Path | None,
) -> None:
    """Tell from the journal in DIR what was decided and why, one line per change.

    DIR: the configuration's journal.path unless given; a folder in it, of which standard error
    tells, is the journal of another llmao. --at tells everything about one moment.
    With --json there is one object on each line.
    """
    if at is not None and against:
        raise click.UsageError("--at and --against exclude each other.")
    folder = folder or _configured(config_path)
    chosen = chooser(key) if key else everybody
    if at is not None:
        _print_moment(folder, at, chosen, as_json=as_json)
        return
    say_which(folder)
    told = Compared(folder, chosen) if against else Told(folder, chosen)
    for event in told.events():
        click.echo(json.dumps(event) if as_json else line(event))
    click.echo(told.summary(), err=True)
    if not told.passes:
        raise LlmaoError("No pass could be read from the journal.")
    ctx.exit(2 if told.differing else 0)


def _configured(config_path: Path) -> Path:
    return config_path.parent / loaded_parts(config_path, ("journal", "path")).journal.path


class Told:
    """A journal told from its first pass to its last, and counted. differing: always 0 here."""

    def __init__(self, folder: Path, chosen: Callable[[Key], bool]) -> None:
        self.passes = self.differing = self.damages = 0
        self._folder = folder
        self._chosen = chosen

    def events(self) -> Iterator[Event]:
        """Yield what is to be printed; what is damaged goes to standard error."""
        from llmao_web.shell.journal_file import Damage
        from llmao_web.shell.journal_reader import passes
        from llmao_web.shell.replaying import replay as replayed

        story = Story(self._chosen)
        for one in replayed(passes(self._folder)):
            if isinstance(one, Damage):
                self.warn(one)
                continue
            self.passes += 1
            yield from story.tell(one)

    def warn(self, damage: "Damage") -> None:
        """Say that something cannot be read."""
        self.damages += 1
        skipped = f", {damage.skipped} bytes skipped" if damage.skipped else ""
        click.echo(f"warning: {clean(damage.file)}: {damage.why}{skipped}", err=True)

    def summary(self) -> str:
        """Return what is said at the end."""
        return f"{self.passes} passes, {self.damages} places damaged."


class Compared(Told):
    """A journal decided again by this llmao. differing: passes with other decisions."""

    worded = 0

    def events(self) -> Iterator[Event]:
        """Yield what is decided otherwise; every processor replays stretches of its own."""
        from llmao_web.shell.replaying import everywhere

        for one in everywhere(self._folder):
            self.passes += one.passes
            self.worded += one.worded
            for damage in one.damages:
                self.warn(damage)
            for found in one.differing:
                ours = [each for each in found if self._chosen(each.key)]
                self.differing += bool(ours)
                yield from map(otherwise, ours)

    def summary(self) -> str:
        """Return what is said at the end."""
        return (
            f"{self.passes} passes, {self.differing} with other decisions, "
            f"{self.worded} worded otherwise, {self.damages} places damaged."
        )


def _print_moment(folder: Path, at: float, chosen: Callable[[Key], bool], *, as_json: bool) -> None:
    looked = looked_at(folder, at)
    records = [record for record in looked.view.records if chosen(record.key)]
    if chosen is not everybody and not records:
        raise LlmaoError(f"Nothing is known of it at {shown(at)}.")
    if as_json:
        for record in records:
            click.echo(json.dumps(as_value(record, looked)))
        return
    for record in records:
        click.echo("\n".join(lines(as_value(record, looked))))
    for item in looked.view.items if chosen is everybody else ():
        click.echo(f"! {clean(item.sentence)}")
