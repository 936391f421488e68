"""How commands print what they found.

Rule of this file: a table with colours on a terminal, plain lines with tabs when piped, and no
character that a terminal would act upon, whoever sent it.
"""

import sys
from collections.abc import Iterable, Sequence

import click


def clean(text: object) -> str:
    """Return text that moves no cursor and hides nothing."""
    return "".join(each if each.isprintable() else "·" for each in str(text))


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
