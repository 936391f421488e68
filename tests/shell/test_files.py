"""Reading the configuration from a disk and an environment."""

import os
from pathlib import Path
from typing import Any

import pytest

from llmao_core.codec import Loaded
from llmao_core.errors import ConfigError, Problem
from llmao_core.secret import Secret
from llmao_web.shell.files import load_files

CONFIG = """
litellm: {master_key: {env: MASTER_KEY}}
fleet: {vllm_api_salt: {file: salt}, key: {file: ./fleet_key}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.yaml").write_text(CONFIG)
    (tmp_path / "models.yaml").write_text("models: []\n")
    (tmp_path / "salt").write_text("salt-1\n")
    (tmp_path / "fleet_key").write_text("fleet-key\r\n")
    return tmp_path


def _load(folder: Path, env: dict[str, str] | None = None, **more: Any) -> Loaded:
    given = {"MASTER_KEY": "sk-master"} if env is None else env
    return load_files(folder / "config.yaml", env=given, **more)


def _problem(folder: Path, env: dict[str, str] | None = None, **more: Any) -> Problem:
    with pytest.raises(ConfigError) as caught:
        _load(folder, env, **more)
    (problem,) = (each for each in caught.value.problems if not each.warning)
    return problem


def test_secrets_come_from_files_and_the_environment(folder: Path) -> None:
    """Files are found beside config.yaml, and lose the line break an editor leaves."""
    config = _load(folder).config
    assert (Secret("salt-1"),) == config.fleet.vllm_api_salt
    assert (Secret("fleet-key"),) == config.fleet.key
    assert Secret("sk-master") == config.litellm.master_key


def test_one_line_break_is_no_part_of_a_secret_and_two_are_a_mistake(folder: Path) -> None:
    """What could not travel in a header is said at once."""
    (folder / "salt").write_text("salt-1\n\n")
    assert "fleet.vllm_api_salt" == _problem(folder).path


def test_a_missing_configuration_says_how_to_make_one(tmp_path: Path) -> None:
    """The first thing a new user sees."""
    problem = _problem(tmp_path)
    assert "There is no such file." == problem.what
    assert "llmao init" in problem.remedy
    assert str(tmp_path / "config.yaml") == problem.file


def test_a_missing_models_file_says_who_named_it(folder: Path) -> None:
    """models_path is where to look."""
    (folder / "models.yaml").unlink()
    problem = _problem(folder)
    assert str(folder / "models.yaml") == problem.file
    assert "models_path" in problem.remedy


def test_a_missing_secret_file_is_named_with_its_place(folder: Path) -> None:
    """Line and path of the reference, and the file it names."""
    (folder / "fleet_key").unlink()
    problem = _problem(folder)
    assert ("fleet.key", 3) == (problem.path, problem.line)
    assert "./fleet_key" in problem.what


def test_a_secret_in_the_place_of_a_name_is_not_shown(folder: Path) -> None:
    """{env: sk-…} and {file: sk-…} are mistakes people make."""
    (folder / "config.yaml").write_text("fleet: {key: {env: sk-s3cret}}\n")
    assert "s3cret" not in str(_problem(folder))
    (folder / "config.yaml").write_text("fleet: {key: {file: sk-s3cret}}\n")
    assert "s3cret" not in str(_problem(folder))


def test_an_unset_variable_stops_a_start_and_warns_a_check(folder: Path) -> None:
    """A check is often made in another environment than llmao's own."""
    assert "MASTER_KEY" in _problem(folder, {}).what
    assert "MASTER_KEY" in _problem(folder, {"MASTER_KEY": ""}).what
    (warning,) = (
        each
        for each in _load(folder, {}, unset_env_warns=True).warnings
        if each.path == "litellm.master_key"
    )
    assert "MASTER_KEY" in warning.what


@pytest.mark.parametrize("name", ["config.yaml", "models.yaml", "salt"])
def test_what_is_no_file_is_a_problem(folder: Path, name: str) -> None:
    """A folder or a pipe in the place of a file is said, and never waited for."""
    (folder / name).unlink()
    (folder / name).mkdir()
    assert _problem(folder).what
    (folder / name).rmdir()
    os.mkfifo(folder / name)
    assert "This is not a file." in _problem(folder).what


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(folder: Path) -> None:
    """Whose it should be is said."""
    (folder / "config.yaml").chmod(0)
    assert "may not be read" in _problem(folder).what


def test_a_strange_models_path_is_a_problem(folder: Path) -> None:
    """Not even a path no system could have raises anything else."""
    (folder / "config.yaml").write_text('models_path: "a\\0b"\n')
    with pytest.raises(ConfigError):
        _load(folder)


def test_who_may_read_a_file_with_secrets_in_it_is_told(folder: Path) -> None:
    """World-readable matters when a secret stands in the file; world-writable always does."""
    path = folder / "config.yaml"

    def said(mode: int) -> bool:
        path.chmod(mode)
        return any("Everybody" in each.what for each in _load(folder).warnings)

    assert (False, True) == (said(0o644), said(0o666))
    path.write_text(CONFIG + "providers: {r: {commercial: true, api_base: 'http://r', api_key: k}}")
    assert (False, True) == (said(0o640), said(0o644))


def test_a_plugin_is_asked_about_its_section(folder: Path) -> None:
    """Its problems stand among the others, in their place."""
    (folder / "config.yaml").write_text(CONFIG + "providers:\n  vast: {label: 3}\n")
    problem = _problem(
        folder,
        installed=["vast"],
        plugin_check=lambda _: (Problem("Bad.", path="providers.vast.label"),),
    )
    assert (5, 10) == (problem.line, problem.column)
    assert "providers.vast" == _problem(folder).path
