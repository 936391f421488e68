"""How commands print what they found.

Rule of this file: a table with colours on a terminal, plain lines with tabs when piped, and no
character that a terminal would act upon, whoever sent it.
"""

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence

import click


def clean(text: object) -> str:
    """Return text that moves no cursor and hides nothing."""
    return "".join(each if each.isprintable() else "·" for each in str(text))


def colours() -> bool | None:
    """Return False where NO_COLOR asks for none, else None: as the terminal can."""
    return False if os.environ.get("NO_COLOR") else None


def remark(text: str) -> str:
    """Return what stands above a table and is no row of it: in a pipe as a comment."""
    return clean(text) if sys.stdout.isatty() else f"# {clean(text)}"


def item_lines(sentence: str, remedy: str) -> list[str]:
    """Return what a person should look at, and under it what to do.

    As wide as the terminal; in a pipe each is one line, for programs that read lines.
    """
    told = f"! {clean(sentence)}", f"    What to do: {clean(remedy)}"
    if not sys.stdout.isatty():
        return list(told)
    columns = shutil.get_terminal_size().columns
    return [part for one in told for part in _wrapped(one, columns)]


def _wrapped(text: str, columns: int) -> list[str]:
    """Return a line in as many as it takes; words and commands stay whole."""
    indent = " " * (len(text) - len(text.lstrip()) or 2)
    return textwrap.wrap(
        text, columns, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows under their columns."""
    shown = [[clean(each) for each in row] for row in rows]
    if not sys.stdout.isatty():
        for row in (list(columns), *shown):
            click.echo("\t".join(row))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns)
    for row in shown:
        table.add_row(*(Text(each) for each in row))
    Console().print(table)
