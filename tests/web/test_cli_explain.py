"""`llmao explain` asks the llmao that runs, and says whose knowledge it prints."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.journal.recording import keep, lived

from llmao_core.config import AuthConfig
from llmao_web.cli import main
from llmao_web.commands.serve import listen, url_of

from .signing import ADMIN_TOKEN, config_of
from .test_cli_status import Running
from .worlds import BOX as SERVED

BOX = SERVED.name

OPEN = config_of(AuthConfig("open"), public_url="")
TEXT = """
server: {{port: {port}}}
litellm: {{master_key: k}}
"""


def explained(folder: Path, running: Running, *args: str, token: str = "") -> Result:
    port = running.listening.getsockname()[1]
    (folder / "config.yaml").write_text(TEXT.format(port=port))
    (folder / "models.yaml").write_text("models: [half an edi")
    given = ["explain", *args, "-c", str(folder / "config.yaml")]
    return CliRunner().invoke(main, given, env={"LLMAO_TOKEN": token})


@pytest.fixture(scope="module")
def open_one() -> Iterator[Running]:
    """Return an llmao that anybody on this machine may ask."""
    with Running(OPEN) as running:
        yield running


def test_the_running_llmao_is_asked(open_one: Running, tmp_path: Path) -> None:
    """What it concluded with its history is no second opinion; models.yaml is not needed."""
    result = explained(tmp_path, open_one, BOX)
    assert 0 == result.exit_code, result.stderr
    assert result.stderr.startswith(f"As llmao at {open_one.url} knows it, ")
    assert f"{BOX}:8001 gemma4-26b" in result.stdout
    assert "not now: " in result.stdout
    one = explained(tmp_path, open_one, f"{BOX}:8002", "--json")
    (value,) = json.loads(one.stdout)
    assert f"{BOX}:8002" == value["key"]["shown"]
    assert "delete_litellm" == value["action"]["kind"]


def test_a_name_it_does_not_know_is_said_with_those_it_knows(
    open_one: Running, tmp_path: Path
) -> None:
    """Exit 1, and no fresh look that could say otherwise."""
    result = explained(tmp_path, open_one, "127.0.0.99")
    assert (1, "") == (result.exit_code, result.stdout)
    assert f"Known: {BOX}:8001" in result.stderr
    assert "fresh look" not in result.stderr


def test_an_llmao_that_does_not_tell_is_read_by_its_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs, so it knows; a token is not at hand."""
    with lived(monkeypatch) as (world, made):
        world.run(30)
    keep(tmp_path / "journal", made)
    with Running(config_of()) as guarded:
        result = explained(tmp_path, guarded, "c.100")
        told = explained(tmp_path, guarded, BOX, token=ADMIN_TOKEN)
    assert 0 == result.exit_code, result.stderr
    assert "LLMAO_TOKEN" in result.stderr
    assert "So this is from its journal." in result.stderr
    assert "c.100:8001 m0" in result.stdout
    assert told.stderr.startswith("As llmao at ")
    assert ADMIN_TOKEN not in told.output


def test_an_llmao_elsewhere_is_asked_without_a_configuration(
    open_one: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A running demo has no files."""
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["explain", "--url", open_one.url, f"{BOX}:8002"])
    assert 0 == result.exit_code, result.stderr
    assert result.stderr.startswith(f"As llmao at {open_one.url} knows it, ")
    assert result.stdout.startswith(f"{BOX}:8002 ")


def test_an_llmao_elsewhere_that_does_not_answer_is_said(tmp_path: Path) -> None:
    """Exit 1: nobody else is asked instead, since another llmao was meant."""
    listening = listen("127.0.0.1", 0)
    url = url_of(listening)
    listening.close()
    (tmp_path / "config.yaml").write_text(TEXT.format(port=1))
    given = ["explain", "--url", url, "-c", str(tmp_path / "config.yaml"), BOX]
    result = CliRunner().invoke(main, given)
    assert (1, "") == (result.exit_code, result.stdout)
    assert "Is it running?" in result.stderr


@pytest.mark.parametrize(
    "args",
    [
        ("--journal", ".", "--fresh", "a"),
        ("--url", "http://127.0.0.1:1", "--fresh", "a"),
        ("--at", "5", "a"),
        ("a b",),
        (),
    ],
)
def test_what_makes_no_sense_asks_nobody(args: tuple[str, ...]) -> None:
    """Exit 1 and a sentence."""
    result = CliRunner().invoke(main, ["explain", *args])
    assert (1, "") == (result.exit_code, result.stdout)
    assert result.stderr
