"""`llmao explain` asks the llmao that runs, and says whose knowledge it prints."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import evolve
from click.testing import CliRunner, Result
from tests.journal.recording import keep, lived

from llmao_core.config import AuthConfig
from llmao_core.errors import Trouble
from llmao_core.intended import Body, Deployment
from llmao_core.keys import box_key
from llmao_core.plan import Plan
from llmao_core.records import (
    AttentionItem,
    HostView,
    ItemKind,
    Kind,
    Lifecycle,
    Record,
    SourceView,
    View,
)
from llmao_core.snapshots import SourceState
from llmao_web.cli import main
from llmao_web.commands.around import around, as_told, blind, lines
from llmao_web.commands.explain import lines as explain_lines
from llmao_web.commands.explain import values_of
from llmao_web.commands.moments import shown
from llmao_web.commands.serve import listen, url_of
from llmao_web.shell.once import Looked

from .signing import ADMIN_TOKEN, config_of
from .test_cli_status import Running
from .worlds import BOX as SERVED
from .worlds import NOW

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
    assert result.stderr.startswith(f"As llmao at {open_one.url}, fleet main, knows it, ")
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
    assert result.stderr.startswith(f"As llmao at {open_one.url}, fleet main, knows it, ")
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


# ---- what has no deployment


def told_of(view: View, name: str) -> str:
    """Return what is printed of a box or a source."""
    return "\n".join(line for each in around(as_told(view), name) for line in lines(each))


NO_BODY = Body("small", {}, {}, None, "", frozenset())
LISTED = HostView("c.42", "vast", "42", "up", intended=False, gpu="1 × RTX 3090")
VIEW = View(
    NOW,
    hosts=(LISTED._replace(price_per_hour=0.21), HostView("c.43", "vast", "43", "down")),
    items=(
        AttentionItem("a", ItemKind.UNNAMED_BOX, "Nobody names c.42.", host="c.42"),
        AttentionItem("b", ItemKind.UNKNOWN_HOST, "c.44 asks.", host="c.44"),
    ),
    sources=(
        SourceView("intended", SourceState.FRESH, None, None),
        SourceView("vast", SourceState.FRESH, NOW - 5, 60.0),
    ),
)


@pytest.mark.parametrize("name", ["c.42", "42"])
def test_a_listed_box_that_nothing_names_is_explained(name: str) -> None:
    """What lists it, what it costs, that it is meant for nothing, and what is said of it."""
    told = told_of(VIEW, name)
    assert "box: vast instance 42, up, 1 × RTX 3090, $0.21/h" in told
    assert "in no fleet.hosts and nobody approved it" in told
    assert "not handed out, as far as known" in told
    if name == LISTED.name:
        assert "attention: Nobody names c.42." in told


def test_a_provider_is_explained_by_its_listing_and_its_boxes() -> None:
    """Its age, its failed reads, and how many boxes."""
    told = told_of(VIEW, "vast")
    assert f"fresh: last read {shown(NOW - 5)}, every 60 s" in told
    assert "failed reads: none" in told
    assert "boxes: 2 listed, 1 of them up, 1 meant to serve, $0.21/h together" in told


def test_of_a_listing_that_cannot_be_read_no_boxes_are_counted() -> None:
    """A failed read is no empty one; who asks for a box that is missing learns why."""
    trouble = Trouble("Busy", "HTTP 502", NOW - 60, 3)
    source = SourceView("vast", SourceState.STALE, NOW - 300, 60.0, trouble)
    view = evolve(VIEW, hosts=VIEW.hosts[1:], sources=(source,))
    told = told_of(view, "vast")
    assert f"failed reads: 3 in a row since {shown(NOW - 60)}: HTTP 502" in told
    assert "boxes:" not in told
    assert "what only they name is missing: vast." in blind(as_told(view))
    assert "" == blind(as_told(VIEW))


def test_who_only_asked_is_explained_by_what_is_said_of_it() -> None:
    """No listing has it, and it has no deployment; what nobody ever heard of is nothing."""
    assert "attention: c.44 asks." in told_of(VIEW, "c.44")
    assert "" == told_of(VIEW, "c.45")
    assert "" == told_of(VIEW, "intended")


def test_a_server_whose_box_is_to_be_rebooted_says_so() -> None:
    """Nobody is told to wait for the next pass while a reboot keeps it out."""
    key = box_key("c.43", 8001, "small")
    deployment = Deployment(key, "llmao-1", "small", NO_BODY, host="c.43", listen_port=8001)
    record = Record(key, Kind.INTENDED, Lifecycle.HEALTHY, deployment=deployment)
    host = HostView("c.43", rebooting="alice asked for a reboot.", keys=(key,))
    looked = Looked(View(NOW, (record,), (host,)), Plan(), settled=True, unread=())
    (value,) = values_of(looked, "c.43:8001")
    assert "  reboot: alice asked for a reboot." in list(explain_lines(value))


def test_a_running_llmao_is_asked_for_its_sources_and_boxes(
    open_one: Running, tmp_path: Path
) -> None:
    """The same as from a view; a port asks for one server alone."""
    result = explained(tmp_path, open_one, "vast")
    assert 0 == result.exit_code, result.stderr
    assert result.stdout.startswith("vast\n")
    assert f"{BOX}\n  box: " in explained(tmp_path, open_one, BOX).stdout
    assert "  box: " not in explained(tmp_path, open_one, f"{BOX}:8002").stdout
