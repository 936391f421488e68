"""`llmao replay` and `llmao explain --journal`, as a person meets them."""

import json
from pathlib import Path
from typing import Any

import pytest

from llmao_core.keys import Key
from llmao_core.testing.fleets import SECRETS
from llmao_web.cli import main
from llmao_web.shell.journal_reader import journal_files
from llmao_web.shell.journal_record import Pass

from .recording import keep, keeper, lived, troubled


@pytest.fixture(name="life", scope="module")
def _life() -> list[Pass]:
    with pytest.MonkeyPatch.context() as patched, lived(patched) as (world, made):
        troubled(world)
    return made


@pytest.fixture(name="folder")
def _folder(life: list[Pass], tmp_path: Path) -> Path:
    keep(tmp_path / "journal", life)
    return tmp_path / "journal"


_CONFIG = """
litellm: {master_key: sk-for-tests}
fleet: {vllm_api_salt: a-salt-for-tests}
journal: {path: flight/}
"""


def ran(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main.main([str(each) for each in arguments], "llmao")
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    assert isinstance(ended.value.code, int)
    return ended.value.code, out, err


def events(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def test_it_tells_what_was_decided_and_why(
    folder: Path, life: list[Pass], capsys: pytest.CaptureFixture[str]
) -> None:
    """One line per change, with the rule and its sentence; counted at the end."""
    code, out, err = ran(capsys, "replay", folder)
    assert 0 == code
    assert "1970-01-12 13:46:43.000Z" in out.splitlines()[0]
    assert "Loading → Healthy  healthy: It answers." in out
    assert "+ add to LiteLLM  serving-absent: " in out
    assert "- remove from LiteLLM  dead-row: " in out
    assert "add to LiteLLM: done" in out
    assert f"{len(life)} passes, 0 places damaged." in err


def test_as_json_every_change_is_an_object(
    folder: Path, life: list[Pass], capsys: pytest.CaptureFixture[str]
) -> None:
    """What each pass planned can be told from the events alone."""
    _, out, _ = ran(capsys, "replay", folder, "--json")
    planned: set[tuple[Any, Any]] = set()
    told = events(out)
    for one in life:
        while told and told[0]["at"] <= one.at:
            event = told.pop(0)
            key = (event.get("key") or {}).get("shown"), event.get("kind")
            if event["event"] == "planned":
                planned.add(key)
            elif event["event"] == "no longer planned":
                planned.discard(key)
        expected = {(each.key.shown, each.kind.value) for each in one.plan.actions}
        assert expected == planned


def test_of_one_host_only(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--key leaves out everybody else."""
    _, out, _ = ran(capsys, "replay", folder, "--json", "--key", "c.200:8002")
    assert {"c.200:8002"} == {event["key"]["shown"] for event in events(out) if "key" in event}


def test_nothing_secret_and_no_canonical_url_is_printed(
    folder: Path, life: list[Pass], capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither as text nor as JSON, in none of the ways to ask."""
    at = str(life[-1].at)
    hidden = {*SECRETS.values(), "sk-vllm-", "masked-"}
    hidden |= {one.base for each in life for one in _keys(each) if one.base.startswith("http://c.")}
    for more in ([], ["--json"], ["--against"], ["--at", at], ["--at", at, "--json"]):
        _, out, err = ran(capsys, "replay", folder, *more)
        assert [] == [each for each in hidden if each in out + err]


def _keys(one: Pass) -> list[Key]:
    return [record.key for record in one.view.records]


def test_against_the_same_code_nothing_differs(
    folder: Path, life: list[Pass], capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 0, and it says how many passes were decided again."""
    code, out, err = ran(capsys, "replay", folder, "--against")
    assert (0, "") == (code, out)
    assert f"{len(life)} passes, 0 with other decisions, 0 worded otherwise" in err


def test_against_other_code_the_differences_are_told(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 2 and a line for each: here the table no longer removes dead rows."""
    from llmao_core import reconcile, table

    real = table.action_rule

    def changed(facts: Any) -> Any:
        rule = real(facts)
        return rule if rule.name != "dead-row" else _Nothing(rule)

    monkeypatch.setattr(reconcile, "action_rule", changed)
    code, out, err = ran(capsys, "replay", folder, "--against")
    assert 2 == code
    assert "was remove from LiteLLM, by dead-row" in out
    assert "now nothing" in out
    assert " 0 with other decisions" not in err


class _Nothing:
    """A row of the table that wants nothing."""

    def __init__(self, rule: Any) -> None:
        self.name, self.because = rule.name, rule.because
        self.action = None
        self.witness = False


def test_a_moment_is_explained(
    folder: Path, life: list[Pass], capsys: pytest.CaptureFixture[str]
) -> None:
    """`replay --at` and `explain --journal --at` say the same of a server; the time is told."""
    at = str(life[len(life) // 2].at)
    code, out, err = ran(capsys, "replay", folder, "--at", at, "--key", "c.100")
    assert 0 == code
    assert "c.100:8001 m0" in out
    assert "As of 1970-01-12" in err
    assert out == ran(capsys, "explain", "--journal", folder, "--at", at, "c.100:8001")[1]
    _, whole, _ = ran(capsys, "replay", folder, "--at", "1970-01-12T13:50:00Z", "--json")
    assert 5 <= len(events(whole))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["replay", "FOLDER", "--at", "yesterday"], "2026-12-02T14:30:00Z"),
        (["replay", "FOLDER", "--at", "5"], "before that time"),
        (["replay", "FOLDER", "--at", "1000300", "--key", "nobody"], "Nothing is known"),
        (["replay", "FOLDER", "--at", "5", "--against"], "exclude"),
        (["replay", "/nowhere"], "does not exist"),
        (["explain", "--at", "5", "c.100"], "--journal"),
        (["explain", "--journal", "FOLDER", "nobody"], "Nothing is known"),
    ],
)
def test_what_makes_no_sense_is_a_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    """Exit 1 and what to do, without a traceback."""
    code, _, err = ran(capsys, *[folder if each == "FOLDER" else each for each in arguments])
    assert 1 == code
    assert said in err


def test_an_empty_folder_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No journal is not a life in which nothing happened."""
    for more in ([], ["--against"], ["--at", "5"]):
        code, _, err = ran(capsys, "replay", tmp_path, *more)
        assert 1 == code
        assert "no journal" in err


def test_damage_is_told_and_the_rest_is_replayed(
    folder: Path, life: list[Pass], capsys: pytest.CaptureFixture[str]
) -> None:
    """A torn end costs the last pass; the journal of before is told, with a warning."""
    (path,) = journal_files(folder)
    path.write_bytes(path.read_bytes()[:-5])
    code, _, err = ran(capsys, "replay", folder, "--against")
    assert 0 == code
    assert "it ends within a record" in err
    assert f"{len(life) - 1} passes" in err


@pytest.fixture(name="shared")
def _shared(life: list[Pass], tmp_path: Path) -> Path:
    """Return the folder of two llmaos that ran at once; the second began when half was over."""
    folder = tmp_path / "shared"
    first, second = keeper(folder), keeper(folder)
    for place, one in enumerate(life):
        first.keep(one, after_gap=False)
        if place >= len(life) // 2:
            second.keep(one, after_gap=False)
    first.close()
    second.close()
    return folder


@pytest.mark.parametrize(
    "asked",
    [
        ["replay", "FOLDER"],
        ["replay", "FOLDER", "--against"],
        ["replay", "FOLDER", "--at", "LAST"],
        ["replay", "FOLDER", "--key", "c.100"],
        ["explain", "--journal", "FOLDER", "c.100"],
    ],
)
def test_of_two_journals_one_is_told_and_it_is_said_which(
    shared: Path, life: list[Pass], capsys: pytest.CaptureFixture[str], asked: list[str]
) -> None:
    """The one in the folder named, whole; whoever keeps another there is named, and can be read."""
    last = str(life[-1].at)
    for folder, passes in ((shared, len(life)), (shared / "2", len(life) - len(life) // 2)):
        given = {"FOLDER": str(folder), "LAST": last}
        code, out, err = ran(capsys, *[given.get(each, each) for each in asked])
        assert 0 == code
        assert f"Read: the journal in {folder}." in err
        assert (folder == shared) == (f"Not read: {shared}/2, kept by" in err)
        assert f"{passes} passes, 0 " in err or "As of 1970-01-12" in err
        assert ("c.100" in out) == ("--against" not in asked)


def test_the_configuration_says_where_the_journal_is(
    life: list[Pass], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without DIR it is journal.path, beside the configuration."""
    keep(tmp_path / "flight", life[:5])
    config = tmp_path / "config.yaml"
    config.write_text(_CONFIG)
    config.chmod(0o600)
    (tmp_path / "models.yaml").write_text("models: []\n")
    code, _, err = ran(capsys, "replay", "-c", config)
    assert 0 == code, err
    assert "5 passes" in err
