"""`llmao init`, `llmao check` and `llmao bearer`: the configuration by hand."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import click
from click.core import ParameterSource

from llmao_core.errors import ConfigError, LlmaoError, Problem

from .common import (
    DEFAULT_CONFIG,
    config_option,
    json_option,
    loaded,
    loaded_parts,
    plugins,
    print_problems,
)

if TYPE_CHECKING:
    from llmao_core.config import FleetConfig

_MAKES_A_BEARER = ("vllm_api_salt", "legacy_servers", "selfhost_api_key")


@click.command()
@config_option
@json_option
@click.argument("folder", required=False, type=click.Path(file_okay=False, path_type=Path))
@click.pass_context
def init(ctx: click.Context, config_path: Path, as_json: bool, folder: Path | None) -> None:
    """Write a starter config.yaml and models.yaml into FOLDER, with fresh secrets.

    Without FOLDER the configuration is written to its PATH, and models.yaml beside it.
    And a .gitignore that keeps the secrets out of git. Files that exist are left as they are.
    """
    from llmao_web import starter

    given = ctx.get_parameter_source("config_path") is ParameterSource.COMMANDLINE
    if folder is not None and given:
        raise click.UsageError("FOLDER and --config exclude each other.")
    config = folder / DEFAULT_CONFIG if folder is not None else config_path
    models = starter.write(config)
    ignores = config.with_name(".gitignore")
    ignored = starter.write_gitignore(config)
    if as_json:
        wrote = [str(each) for each in (config, models, *([ignores] if ignored else ()))]
        click.echo(json.dumps({"config": str(config), "wrote": wrote}, indent=2))
        return
    click.echo(f"Wrote {config} and {models}, readable by you only.")
    if ignored:
        click.echo(f"Wrote {ignores}: git takes neither {config.name} nor the store.")
    else:
        click.echo(f"{config} holds secrets: keep it out of git. {ignores} was not written.")
    click.echo(f"Next: export LITELLM_MASTER_KEY=… and run `llmao check -c {config}`.")


@click.command()
@config_option
@json_option
@click.pass_context
def check(ctx: click.Context, config_path: Path, as_json: bool) -> None:
    """Check both files and print every problem with its place and what would be right.

    Exit 0 when llmao can run with them, warnings included, and 1 otherwise. An environment
    variable that is not set here is a warning: it may be set where llmao runs.
    """
    try:
        problems = loaded(config_path, plugins(), unset_env_warns=True).warnings
    except ConfigError as error:
        problems = error.problems
    bad = any(not each.warning for each in problems)
    if as_json:
        click.echo(_as_json(problems, good=not bad))
    else:
        print_problems(problems)
        click.echo(_summary(config_path, problems))
    ctx.exit(1 if bad else 0)


def _as_json(problems: Sequence[Problem], *, good: bool) -> str:
    return json.dumps({"ok": good, "problems": [attrs.asdict(each) for each in problems]}, indent=2)


def _summary(config_path: Path, problems: Sequence[Problem]) -> str:
    warnings = sum(each.warning for each in problems)
    errors = len(problems) - warnings
    counts = [_count(errors, "error"), _count(warnings, "warning")]
    said = " and ".join(each for each in counts if each)
    if errors:
        return f"{config_path} cannot be used: {said}."
    return f"{config_path} is fine{f', with {said}' if said else ''}."


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}" if number else ""


@click.command()
@config_option
@json_option
@click.argument("host")
@click.argument("port", type=click.IntRange(1, 65535))
@click.option("--previous", is_flag=True, help="The bearer of the previous salt.")
def bearer(config_path: Path, as_json: bool, host: str, port: int, previous: bool) -> None:
    """Print the bearer of the server on HOST at its listen PORT.

    One that fleet.hosts does not name has a bearer, too; a warning says so.
    """
    from llmao_core.intended import bearers
    from llmao_core.keys import host_name

    try:
        name = host_name(host)
    except ValueError as error:
        raise click.BadParameter(f"{error}.", param_hint="HOST") from None
    fleet = loaded_parts(config_path, *(("fleet", each) for each in _MAKES_A_BEARER)).fleet
    made = [each for each, _ in bearers(fleet, name, port)]
    if not any(made):
        raise LlmaoError("fleet.vllm_api_salt is not set, so there is no bearer.")
    if previous and len(made) < 2:
        raise LlmaoError("No previous salt is configured for this server.")
    if strange := _strange(fleet, name, port):
        click.echo(f"warning: {strange}", err=True)
    text = made[1 if previous else 0].reveal()
    click.echo(json.dumps({"host": name, "port": port, "bearer": text}) if as_json else text)


def _strange(fleet: "FleetConfig", name: str, port: int) -> str:
    """Return why a bearer may be that of no server, "" when fleet.hosts has it."""
    host = next((each for each in fleet.hosts if name in (each.name, *each.was)), None)
    if host is None:
        return f"fleet.hosts names no {name}. Unless it was approved on the page: is it misspelt?"
    if port in (row.port for row in host.rows):
        return ""
    ports = ", ".join(str(row.port) for row in host.rows) or "none"
    return f"{name} has no row with port {port} in fleet.hosts; it has {ports}."
