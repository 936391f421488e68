"""`llmao providers`: the installed plugins, what they read, and whether that is configured.

Rule of this file: no I/O but the configuration files; without them it still says what is
installed.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llmao_core.config import Config
from llmao_core.errors import ConfigError

from .common import config_option, json_option, loaded, plugins, print_problems
from .printing import print_table

if TYPE_CHECKING:
    from llmao_core.hooks import SourceCard
    from llmao_web.shell.host import PluginHost


@click.command()
@config_option
@json_option
def providers(config_path: Path, as_json: bool) -> None:
    """List the installed plugins with their sources, and which of them are configured."""
    host = plugins()
    config = _config(config_path, host)
    rows = [_row(card, host, config) for card in host.cards()]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    print_table(
        ["plugin", "source", "reads", "every", "configured", "carries out"],
        [
            (
                row["plugin"],
                row["source"],
                row["reads"],
                f"{row['interval_s']:g} s",
                {True: "yes", False: "no", None: "unknown"}[row["configured"]],
                ", ".join(row["executes"]),
            )
            for row in rows
        ],
    )


def _config(config_path: Path, host: "PluginHost") -> Config | None:
    try:
        return loaded(config_path, host, unset_env_warns=True).config
    except ConfigError as error:
        print_problems(error.problems, err=True)
        return None


def _row(card: "SourceCard", host: "PluginHost", config: Config | None) -> dict[str, Any]:
    from llmao_web.shell.sources import source

    made = source(config, card) if config else None
    return {
        "plugin": host.plugin_of(card.name),
        "source": card.name,
        "reads": card.kind.value,
        "interval_s": made.interval_s if made else card.interval_s,
        "configured": None if config is None else made is not None,
        "executes": sorted(kind.value for kind in card.executes),
    }
