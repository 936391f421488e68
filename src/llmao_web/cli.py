"""The command line, `llmao`.

Rule of this file: a command is a line in `COMMANDS` and imported when it is used, so that the
small ones start fast. Nothing ends in a traceback unless `--debug` asks for one.
"""

import importlib
import sys
import traceback
from pathlib import Path
from typing import Any

import click

from llmao_core.errors import ConfigError, LlmaoError

from .commands.common import print_problems
from .commands.printing import colours

# Name → where it is, and what it is for.
COMMANDS = {
    "init": ("llmao_web.commands.config:init", "Write a starter pair of configuration files."),
    "check": ("llmao_web.commands.config:check", "Check the configuration, every problem at once."),
    "serve": ("llmao_web.commands.serve:serve", "Run llmao."),
    "demo": ("llmao_web.commands.demo:demo", "Run llmao on a simulated fleet; needs nothing."),
    "sim": ("llmao_web.commands.sim:sim", "Run llmao on virtual time, and all goes wrong."),
    "plan": ("llmao_web.commands.plan:plan", "Read everything once and print what would be done."),
    "explain": ("llmao_web.commands.explain:explain", "Say why a model or server is as it is."),
    "replay": ("llmao_web.commands.replay:replay", "Tell from a journal what was decided."),
    "status": ("llmao_web.commands.status:status", "Ask a running llmao how it is doing."),
    "providers": ("llmao_web.commands.providers:providers", "List installed plugins."),
    "bearer": ("llmao_web.commands.config:bearer", "Print the bearer of one server."),
    "hash-password": (
        "llmao_web.commands.password:hash_password",
        "Print the hash of a password for auth.admins.",
    ),
    "backup": ("llmao_web.commands.backup:backup", "Write the store to one file, while serving."),
    "restore": ("llmao_web.commands.backup:restore", "Fill the store from such a file."),
}


class Commands(click.Group):
    """The commands of the table, and the last place where an error can be caught."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import and return a command, None for one that is not in the table."""
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name][0].split(":")
        command = getattr(importlib.import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, said) for name, (_, said) in COMMANDS.items()])

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run; whatever is raised ends as a sentence on standard error and exit code 1."""
        if not extra.pop("standalone_mode", True):
            return super().main(*args, **{**extra, "standalone_mode": False})
        try:
            code = super().main(*args, **{**extra, "standalone_mode": False})
        except click.ClickException as error:
            error.show()
        except click.Abort:
            click.echo("Aborted.", err=True)
        except ConfigError as error:
            print_problems(error.problems, err=True)
        except LlmaoError as error:
            click.echo(f"llmao: {error}", err=True)
        except Exception as error:
            _say_unexpected(error)
        else:
            sys.exit(code if isinstance(code, int) else 0)
        sys.exit(1)


_debug = {"on": False}


def _say_unexpected(error: Exception) -> None:
    """Say where it happened and not what: the message of a strange error may hold anything."""
    if _debug["on"]:
        traceback.print_exception(error)
        return
    frames = traceback.extract_tb(error.__traceback__)
    where = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "llmao"
    click.echo(
        f"llmao: unexpected {type(error).__name__} in {where}. Please report it, with what "
        "`llmao --debug …` prints; read that for secrets first.",
        err=True,
    )


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--config",
    "-c",
    "config_path",
    metavar="PATH",
    type=click.Path(path_type=Path),
    help="The configuration. Default: $LLMAO_CONFIG, else ./config.yaml.",
)
@click.option("--debug", is_flag=True, help="Show the traceback of an unexpected error.")
@click.version_option(package_name="llmao")
@click.pass_context
def main(ctx: click.Context, config_path: Path | None, debug: bool) -> None:  # noqa: ARG001
    """Keep a LiteLLM proxy in step with a fleet of rented GPU boxes that run vLLM."""
    _debug["on"] = debug
    ctx.color = colours()
