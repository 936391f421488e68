"""Reading the configuration from disk, secrets in files and the environment included.

Rule of this file: it opens and never writes; what cannot be read is a Problem with a remedy, and
nothing that was read appears in one.
"""

import os
import stat
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path

from llmao_core import codec, places
from llmao_core.codec import Loaded, no_plugins
from llmao_core.config import Config
from llmao_core.errors import ConfigError, Problem
from llmao_core.shapes import SecretRef, UnresolvedError
from llmao_core.source_file import File
from llmao_core.yaml_nodes import MAX_BYTES

_MAX_SECRET_BYTES = 65_536
_SQLITE = "sqlite:///"
_MISSING = "Run `llmao init` for a starter pair, or name the file with --config."


def load_files(
    config_path: Path,
    installed: Collection[str] = (),
    plugin_check: Callable[[Config], tuple[Problem, ...]] = no_plugins,
    *,
    env: Mapping[str, str] = os.environ,
    unset_env_warns: bool = False,
) -> Loaded:
    """Return the Config of `config.yaml` and the `models.yaml` it names, or raise a ConfigError.

    Relative paths in the file are taken from its folder. unset_env_warns: a secret in an
    environment variable that is not set is a warning, for a check made in another environment
    than llmao runs in; its value is empty then.
    """
    folder = config_path.parent
    config_file = _file(config_path, _MISSING)
    resolve = partial(_resolve, folder, env, unset_env_warns)
    open_models = partial(_models, folder, config_path)
    loaded = codec.load(config_file, open_models, resolve, installed, plugin_check)
    exposed = _exposed(config_path, inline_secrets=loaded.inline_secrets)
    homeless = _homeless(config_path, loaded.config.store) if unset_env_warns else ()
    return Loaded(loaded.config, (*exposed, *homeless, *loaded.warnings), loaded.inline_secrets)


def load_parts(
    config_path: Path, parts: Collection[places.Path], *, env: Mapping[str, str] = os.environ
) -> Config:
    """Return what `config.yaml` alone says, or raise a ConfigError with what is wrong in `parts`.

    For a command that needs a little of it: `models.yaml` is not opened, and a mistake elsewhere
    does not matter. A secret in an environment variable that is not set is empty.
    """
    resolve = partial(_resolve, config_path.parent, env, True)
    return codec.load_parts(_file(config_path, _MISSING), resolve, parts)


def _models(folder: Path, config_path: Path, given: str) -> File:
    return _file(folder / given, f"models_path in {config_path} says where it is.")


def _file(path: Path, remedy: str) -> File:
    try:
        return File(str(path), _content(path, MAX_BYTES))
    except (OSError, ValueError) as error:
        problem = Problem(_trouble(error), _remedy(error, remedy), file=str(path))
    raise ConfigError([problem])


def _content(path: Path, most: int) -> bytes:
    """Return a regular file's bytes, at most one more than `most`.

    Opened without waiting: a named pipe without a writer would keep llmao from starting.
    """
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as opened:
        if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            raise ValueError("not a regular file")
        return opened.read(most + 1)


def _trouble(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "There is no such file."
    if isinstance(error, PermissionError):
        return "The file may not be read by the user llmao runs as."
    if isinstance(error, OSError) and error.strerror and not isinstance(error, IsADirectoryError):
        return f"The file cannot be read: {error.strerror}."
    return "This is not a file."


def _remedy(error: Exception, missing: str) -> str:
    if isinstance(error, PermissionError):
        return "Change its owner or mode, 0600 for that user."
    return missing


def _resolve(folder: Path, env: Mapping[str, str], unset_env_warns: bool, ref: SecretRef) -> str:
    if ref.kind == "file":
        return _secret_in_file(folder / ref.name, ref.name)
    if value := env.get(ref.name):
        return value
    named = f" {ref.name}" if ref.name.isascii() and _is_variable(ref.name) else ""
    raise UnresolvedError(
        f"The environment variable{named} is not set here.",
        "Set it where llmao runs." if unset_env_warns else "Set it before llmao starts.",
        warning=unset_env_warns,
    )


def _is_variable(name: str) -> bool:
    """Tell a variable's usual name from a secret somebody wrote in its place."""
    return name == name.upper() and name.isidentifier() and len(name) <= 64


def _secret_in_file(path: Path, given: str) -> str:
    named = f" {given}" if given.startswith(("/", "./")) and given.isprintable() else ""
    try:
        text = _content(path, _MAX_SECRET_BYTES).decode()
    except (OSError, ValueError) as error:
        what, remedy = _trouble(error), _remedy(error, "Write the secret into that file.")
    else:
        if len(text) <= _MAX_SECRET_BYTES:
            return text.removesuffix("\n").removesuffix("\r")
        what, remedy = "It is too large for a secret.", "Check that it is the right file."
    raise UnresolvedError(f"The file{named} with the secret: {what}", remedy)


def _homeless(config_path: Path, store: str) -> tuple[Problem, ...]:
    """Return a warning when the folder of an SQLite store is not here; llmao makes none."""
    if not store.startswith(_SQLITE):
        return ()
    if (config_path.parent / store.removeprefix(_SQLITE)).parent.is_dir():
        return ()
    what, remedy = "The folder of this file does not exist here.", "Make it where llmao runs."
    return (Problem(what, remedy, "store", str(config_path), warning=True),)


def _exposed(path: Path, *, inline_secrets: bool) -> tuple[Problem, ...]:
    """Return a warning when others may change the file, or read secrets in it."""
    mode = path.stat().st_mode
    if mode & stat.S_IWOTH:
        what = "Everybody on this machine may change this file."
    elif inline_secrets and mode & stat.S_IROTH:
        what = "Everybody on this machine may read the secrets in this file."
    else:
        return ()
    return (Problem(what, f"Run chmod 600 {path}.", file=str(path), warning=True),)
