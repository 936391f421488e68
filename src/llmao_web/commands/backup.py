"""`llmao backup` and `llmao restore`: the store as one file, and back.

Rule of this file: it names the store of the configuration and says what was done; the file is
the business of shell/backup.py.
"""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

import click

from .common import config_option, json_option, loaded_parts

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@config_option
@json_option
@click.argument("file", type=_FILE)
def backup(config_path: Path, as_json: bool, file: Path) -> None:
    """Write everything the store holds to FILE, readable by you only; llmao may go on serving.

    An older FILE is replaced when the new one is complete.
    """
    from llmao_web.shell import backup as store
    from llmao_web.shell.clock import SystemClock

    url = _store_of(config_path)
    counts = asyncio.run(store.backup(url, config_path.parent, SystemClock(), file))
    click.echo(_as_json(file, counts) if as_json else f"Wrote {file}: {_said(counts)}.")


@click.command()
@config_option
@json_option
@click.argument("file", type=_FILE)
@click.option("--replace", is_flag=True, help="Drop what the store holds now.")
def restore(config_path: Path, as_json: bool, file: Path, replace: bool) -> None:
    """Fill the store from FILE, which `llmao backup` wrote; stop llmao before.

    FILE is checked to its end before anything is changed, and may come from SQLite or PostgreSQL.
    """
    from llmao_web.shell import backup as store
    from llmao_web.shell.clock import SystemClock

    url, folder = _store_of(config_path), config_path.parent
    counts = asyncio.run(store.restore(url, folder, SystemClock(), file, replace=replace))
    click.echo(_as_json(file, counts) if as_json else f"Restored {file}: {_said(counts)}.")


def _store_of(config_path: Path) -> str:
    # A backup at night needs none of the secrets that llmao runs with.
    return loaded_parts(config_path, ("store",)).store


def _as_json(file: Path, counts: Mapping[str, int]) -> str:
    return json.dumps({"file": str(file), "rows": dict(counts)}, indent=2)


def _said(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} rows of {name}" for name, count in counts.items())
