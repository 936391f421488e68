"""`llmao init`, `check` and `bearer`, and what every command shares."""

import json
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from llmao_core.errors import LlmaoError
from llmao_web import cli
from llmao_web.cli import main

ENV = {"LITELLM_MASTER_KEY": "sk-master"}


def _run(*args: object, env: dict[str, str | None] | None = None) -> Result:
    return CliRunner().invoke(main, [str(each) for each in args], env=ENV if env is None else env)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    assert 0 == _run("init", tmp_path / "new").exit_code
    return tmp_path / "new"


def test_the_starter_pair_passes_the_check(folder: Path) -> None:
    """A new user's first two commands succeed."""
    result = _run("check", "-c", folder / "config.yaml")
    assert (0, "") == (result.exit_code, result.stderr)
    assert result.stdout.endswith("config.yaml is fine.\n")


def test_the_starter_pair_is_private_and_its_secrets_fresh(folder: Path, tmp_path: Path) -> None:
    """0600, two long secrets, other ones each time."""
    for name in ("config.yaml", "models.yaml"):
        assert 0o600 == stat.S_IMODE((folder / name).stat().st_mode)
    text = (folder / "config.yaml").read_text()
    _run("init", tmp_path / "other")
    other = (tmp_path / "other" / "config.yaml").read_text()
    assert "@" not in text
    quoted = [line.split('"')[1] for line in text.splitlines() if line.count('"') == 2]
    assert 2 == len({each for each in quoted if len(each) >= 43})
    assert not [each for each in quoted if each in other]


@pytest.mark.parametrize("there", ["config.yaml", "models.yaml"])
def test_init_never_writes_over_a_file(tmp_path: Path, there: str) -> None:
    """With one of the two there, neither is written; a dangling link is no invitation either."""
    (tmp_path / there).symlink_to(tmp_path / "elsewhere")
    result = _run("init", tmp_path)
    assert 1 == result.exit_code
    assert "left as it is" in result.stderr
    assert [there] == [each.name for each in tmp_path.iterdir()]


def test_init_into_what_is_no_folder_is_a_sentence(tmp_path: Path) -> None:
    """No traceback, exit 1."""
    (tmp_path / "file").write_text("")
    result = _run("init", tmp_path / "file" / "below")
    assert 1 == result.exit_code
    assert "cannot be written" in result.stderr


def test_init_writes_where_the_configuration_is_looked_for(tmp_path: Path) -> None:
    """-c and LLMAO_CONFIG name the file, models.yaml and .gitignore stand beside it."""
    path = tmp_path / "a" / "llmao.yaml"
    told = json.loads(_run("init", "-c", path, "--json").stdout)
    beside = [str(path.with_name(each)) for each in ("models.yaml", ".gitignore")]
    assert {"config": str(path), "wrote": [str(path), *beside]} == told
    assert "\n/llmao.yaml\n" in (tmp_path / "a" / ".gitignore").read_text()
    assert 0 == _run("check", "-c", path).exit_code
    other = tmp_path / "b" / "config.yaml"
    assert 0 == _run("init", env={**ENV, "LLMAO_CONFIG": str(other)}).exit_code
    assert other.exists()
    both = _run("init", tmp_path / "c", "-c", tmp_path / "d")
    assert (1, True) == (both.exit_code, "exclude each other" in both.stderr)
    assert not (tmp_path / "c").exists()


def test_every_command_that_ends_prints_json_when_asked() -> None:
    """`serve` and `demo` run until they are stopped; each other command has --json."""
    group = cli.Commands("llmao")
    without = []
    for name in cli.COMMANDS:
        command = group.get_command(click.Context(group), name)
        assert command is not None
        if not any("--json" in each.opts for each in command.params):
            without.append(name)
    assert ["serve", "demo"] == without


def test_init_keeps_the_secrets_out_of_git(tmp_path: Path) -> None:
    """Of what it wrote only models.yaml may be taken; a .gitignore that is there stays as it is."""
    git = ("git", "-C", str(tmp_path))
    subprocess.run((*git, "init", "-q"), check=True)
    said = _run("init", tmp_path).stdout
    assert f"Wrote {tmp_path / '.gitignore'}: git takes neither config.yaml nor the store." in said
    (tmp_path / "llmao.db-wal").touch()
    shown = subprocess.run((*git, "status", "--short"), check=True, capture_output=True, text=True)
    assert "?? .gitignore\n?? models.yaml\n" == shown.stdout
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / ".gitignore").write_text("*.pyc\n")
    assert "keep it out of git" in _run("init", tmp_path / "b").stdout
    assert "*.pyc\n" == (tmp_path / "b" / ".gitignore").read_text()


def test_a_store_without_its_folder_is_a_warning(folder: Path) -> None:
    """As with a variable: it may be there where llmao runs."""
    path = folder / "config.yaml"
    path.write_text(path.read_text().replace("sqlite:///", "sqlite:///no/such/"))
    result = _run("check", "-c", path)
    assert 0 == result.exit_code
    assert "warning: The folder of this file does not exist here. (store)" in result.stdout


def test_an_empty_file_is_named(tmp_path: Path) -> None:
    """A problem of a plugin's has the name of the file, too."""
    (tmp_path / "config.yaml").write_text("")
    (tmp_path / "models.yaml").write_text("")
    result = _run("check", "-c", tmp_path / "config.yaml")
    assert f"{tmp_path / 'config.yaml'}: error: master_key is not set" in result.stdout


def test_an_unset_variable_is_a_warning_to_check(folder: Path) -> None:
    """The shell of a check is seldom the environment of the service."""
    result = _run("check", "-c", folder / "config.yaml", env={"LITELLM_MASTER_KEY": None})
    assert 0 == result.exit_code
    assert "warning: The environment variable LITELLM_MASTER_KEY is not set" in result.stdout
    assert result.stdout.endswith("is fine, with 1 warning.\n")


def test_check_names_every_problem_with_place_and_remedy(folder: Path) -> None:
    """Plain text when it is not a terminal, exit 1."""
    path = folder / "config.yaml"
    path.write_text(path.read_text().replace("hosts: {}", "host: {}").replace("8080\n", "on\n"))
    result = _run("check", "-c", path)
    assert 1 == result.exit_code
    assert f"{path}:18:3: error: Unknown key `host`. (fleet.host)\n    Did you mean `hosts`?" in (
        result.stdout
    )
    assert f"{path}:6:3: error: Expected a whole number, found text. (server.port)" in result.stdout
    assert result.stdout.endswith("cannot be used: 2 errors.\n")
    assert "\x1b" not in result.stdout


def test_check_as_json(folder: Path) -> None:
    """The same for a program."""
    good = json.loads(_run("check", "--json", "-c", folder / "config.yaml").stdout)
    assert {"ok": True, "problems": []} == good
    (folder / "models.yaml").unlink()
    result = _run("check", "--json", "-c", folder / "config.yaml")
    said = json.loads(result.stdout)
    assert (1, False, str(folder / "models.yaml")) == (
        result.exit_code,
        said["ok"],
        said["problems"][0]["file"],
    )


@pytest.mark.parametrize("how", ["command", "group", "variable"])
def test_where_the_configuration_is_can_be_said_in_three_ways(folder: Path, how: str) -> None:
    """`-c` before or after the command, or LLMAO_CONFIG."""
    path = str(folder / "config.yaml")
    result = {
        "command": lambda: _run("check", "--config", path),
        "group": lambda: _run("--config", path, "check"),
        "variable": lambda: _run("check", env={**ENV, "LLMAO_CONFIG": path}),
    }[how]()
    assert f"{path} is fine.\n" == result.stdout


def test_without_a_configuration_a_command_says_how_to_make_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """./config.yaml is the default, and is not there."""
    monkeypatch.chdir(tmp_path)
    result = _run("bearer", "a", "8001", env={**ENV, "LLMAO_CONFIG": None})
    assert 1 == result.exit_code
    assert "config.yaml: error: There is no such file." in result.stderr
    assert "llmao init" in result.stderr


# ---- bearer


def _salted(folder: Path, salt: str) -> Path:
    path = folder / "config.yaml"
    lines = path.read_text().splitlines()
    kept = [f"  vllm_api_salt: {salt}" if "vllm_api_salt" in line else line for line in lines]
    path.write_text("\n".join(kept))
    return path


KNOWN = "sk-vllm-XA1_iW82x5T9OMyR7c_fwVbcxf1CUufY7um96DJfzc0"


def test_bearer_prints_the_known_answer(folder: Path) -> None:
    """One line, for a host in any spelling; the environment need not be that of the service."""
    path = _salted(folder, "salt-1")
    result = _run("bearer", "-c", path, " C.4711", "8001", env={"LITELLM_MASTER_KEY": None})
    assert (result.exit_code, result.stdout) == (0, KNOWN + "\n")
    said = json.loads(_run("bearer", "-c", path, "c.4711", "8001", "--json").stdout)
    assert said == {"host": "c.4711", "port": 8001, "bearer": KNOWN}


def test_bearer_of_the_previous_salt(folder: Path) -> None:
    """While rotating both can be had; otherwise there is no previous one."""
    path = _salted(folder, "[salt-2, salt-1]")
    assert _run("bearer", "-c", path, "c.4711", "8001").stdout.strip() != KNOWN
    assert _run("bearer", "-c", path, "c.4711", "8001", "--previous").stdout.strip() == KNOWN
    result = _run("bearer", "-c", _salted(folder, "salt-1"), "c.4711", "8001", "--previous")
    assert (1, "") == (result.exit_code, result.stdout)


@pytest.mark.parametrize(
    ("server", "said"),
    [
        (("c.4711", "8001"), ""),
        (("C.OLD", "8001"), ""),
        (("c.4711", "8002"), "c.4711 has no row with port 8002 in fleet.hosts; it has 8001."),
        (("c.4712", "8001"), "fleet.hosts names no c.4712."),
    ],
)
def test_a_bearer_of_no_known_server_is_printed_with_a_warning(
    folder: Path, server: tuple[str, str], said: str
) -> None:
    """It may be approved on the page; a slip of the pen is not silent."""
    path = folder / "config.yaml"
    hosts = "hosts: {c.4711: {rows: [[qwen3-0.6b, 8001]], was: [c.old]}}"
    path.write_text(path.read_text().replace("hosts: {}", hosts))
    result = _run("bearer", "-c", path, *server)
    assert 0 == result.exit_code
    assert result.stdout.startswith("sk-vllm-")
    assert bool(said) == bool(result.stderr)
    assert said in result.stderr


def test_bearer_without_a_salt_is_none(folder: Path) -> None:
    """Nothing is derived from an empty salt."""
    result = _run("bearer", "-c", _salted(folder, "CHANGE_ME"), "c.4711", "8001")
    assert (1, "") == (result.exit_code, result.stdout)
    assert "vllm_api_salt is not set" in result.stderr


@pytest.mark.parametrize(
    "args", [("a b", "8001"), ("a", "0"), ("a", "70000"), ("a", "x"), ("a",), ("a", "1", "2")]
)
def test_bad_usage_is_exit_1(folder: Path, args: tuple[str, ...]) -> None:
    """2 is what `plan` says when there is something to do."""
    result = _run("bearer", "-c", folder / "config.yaml", *args)
    assert (1, "") == (result.exit_code, result.stdout)
    assert result.stderr


# ---- what every command shares


def _command(monkeypatch: pytest.MonkeyPatch, body: Any) -> None:
    monkeypatch.setattr(
        cli.Commands, "get_command", lambda *_: click.Command("boom", callback=body)
    )


def test_an_unexpected_error_is_one_line_without_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a strange error says may hold anything; where it was and how to report it is enough."""

    def boom() -> None:
        raise RuntimeError("s3cret")

    _command(monkeypatch, boom)
    result = _run("boom")
    assert 1 == result.exit_code
    assert "unexpected RuntimeError in test_cli_config.py:" in result.stderr
    assert "--debug" in result.stderr
    assert 1 == result.stderr.count("\n")
    assert "s3cret" not in result.stderr
    assert "Traceback" in _run("--debug", "boom").stderr


def test_an_error_on_purpose_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """LlmaoError: its message, exit 1."""

    def boom() -> None:
        raise LlmaoError("The proxy is down.")

    _command(monkeypatch, boom)
    result = _run("boom")
    assert (1, "llmao: The proxy is down.\n") == (result.exit_code, result.stderr)


def test_a_command_chooses_its_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """`plan` says 2."""
    _command(monkeypatch, lambda: click.get_current_context().exit(2))
    assert 2 == _run("plan").exit_code


def test_an_unknown_command_is_exit_1() -> None:
    """With a hint to the help."""
    result = _run("frobnicate")
    assert 1 == result.exit_code
    assert "No such command" in result.stderr


def test_help_imports_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """The list of commands needs none of them to be importable."""
    monkeypatch.setattr("llmao_web.cli.importlib.import_module", pytest.fail)
    result = _run("--help")
    assert 0 == result.exit_code
    for name in cli.COMMANDS:
        assert f"  {name} " in result.stdout


def test_what_needs_a_little_of_the_configuration_runs_while_the_rest_is_edited(
    folder: Path,
) -> None:
    """A half-edited models.yaml, or host, keeps nobody from a backup or a bearer at night."""
    (folder / "models.yaml").write_text("models: [{")
    path = folder / "config.yaml"
    path.write_text(path.read_text().replace("hosts: {}", "hosts: {c.1: [[qwen3-0.6b, 8001, x, y"))
    assert "config.yaml" in _run("bearer", "c.1", "8001", "-c", path).stderr  # no YAML at all
    path.write_text(path.read_text().replace("[[qwen3-0.6b, 8001, x, y", "[x], c.2: 3}"))
    path.write_text(path.read_text().replace("port: 8080", "port: 1"))
    assert 1 == _run("check", "-c", path).exit_code
    assert 0 == _run("bearer", "c.1", "8001", "-c", path).exit_code
    for command, said in (
        (("backup", folder / "to"), "There is no store yet"),
        (("restore", folder / "from"), "from"),
        (("replay",), "journal"),
        (("status",), "Is it running?"),
    ):
        result = _run(*command, "-c", path)
        assert 1 == result.exit_code
        assert said in result.stderr
        assert "models.yaml" not in result.stderr


def test_what_a_command_needs_must_be_right(folder: Path) -> None:
    """A store that is none is said with its place, and nothing else is."""
    path = folder / "config.yaml"
    text = path.read_text().replace("hosts: {}", "hosts: {c.1: 3}")
    path.write_text(text.replace("store: sqlite:///llmao.db", "store: mysql://x"))
    result = _run("backup", folder / "to", "-c", path)
    assert 1 == result.exit_code
    assert f"{path}:42:1: error: This is no store llmao knows. (store)" in result.stderr
    assert "fleet" not in result.stderr


def test_as_a_program(tmp_path: Path) -> None:
    """The installed command, once, as a person runs it."""
    llmao = Path(sys.executable).with_name("llmao")
    for args, code in ((["init"], 0), (["check"], 0), (["init"], 1)):
        ran = subprocess.run(
            [llmao, *args],
            cwd=tmp_path,
            env=ENV,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert code == ran.returncode, ran
        assert "Traceback" not in ran.stderr
