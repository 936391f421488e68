"""What commands share: the configuration they are about, and how they print.

Rule of this file: tables and colour on a terminal, plain text otherwise; a secret is printed by
the command that was asked for it and by no other.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from llmao_core.errors import Problem

from .printing import colours

if TYPE_CHECKING:
    from llmao_core import places
    from llmao_core.codec import Loaded
    from llmao_core.config import Config
    from llmao_web.shell.host import PluginHost

Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT_CONFIG = "config.yaml"
CONFIG_VARIABLE = "LLMAO_CONFIG"


def config_option(command: Command) -> Command:
    """Give a command `--config PATH`, `-c`; its argument is `config_path`.

    Given to the command, else to `llmao` itself, else LLMAO_CONFIG, else ./config.yaml.
    """
    option = click.option(
        "--config",
        "-c",
        "config_path",
        metavar="PATH",
        type=click.Path(path_type=Path),
        callback=_chosen,
        help=f"The configuration. Default: ${CONFIG_VARIABLE}, else ./{DEFAULT_CONFIG}.",
    )
    return option(command)


def _chosen(ctx: click.Context, _: click.Parameter, given: Path | None) -> Path:
    if given is not None:
        return given
    if ctx.parent is not None and isinstance(outer := ctx.parent.params.get("config_path"), Path):
        return outer
    return Path(os.environ.get(CONFIG_VARIABLE) or DEFAULT_CONFIG)


def json_option(command: Command) -> Command:
    """Give a command `--json`; its argument is `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def plugins() -> "PluginHost":
    """Return the installed plugins."""
    from llmao_web.shell.clock import SystemClock
    from llmao_web.shell.host import PluginHost

    return PluginHost.installed(SystemClock())


def loaded(config_path: Path, host: "PluginHost", *, unset_env_warns: bool = False) -> "Loaded":
    """Return the checked configuration, plugins' own sections included."""
    from llmao_web.shell.files import load_files

    return load_files(config_path, host.listings(), host.check, unset_env_warns=unset_env_warns)


def loaded_parts(config_path: Path, *parts: "places.Path") -> "Config":
    """Return the configuration as far as these parts go; mistakes elsewhere do not matter."""
    from llmao_web.shell.files import load_parts

    return load_parts(config_path, parts)


def print_problems(problems: Sequence[Problem], *, err: bool = False) -> None:
    """Print each problem with its place and remedy."""
    for each in problems:
        place = ":".join(str(part) for part in (each.file, each.line, each.column) if part)
        colour = "yellow" if each.warning else "red"
        word = click.style("warning" if each.warning else "error", fg=colour, bold=True)
        head = f"{click.style(place, bold=True)}: " if place else ""
        path = click.style(f" ({each.path})", dim=True) if each.path else ""
        click.echo(f"{head}{word}: {each.what}{path}", err=err, color=colours())
        if each.remedy:
            click.echo(f"    {each.remedy}", err=err)
