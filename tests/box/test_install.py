"""An installation from first boot to last change, under a real supervisord."""

import re
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from box.install_set import MARK, NOTICE_WAIT_S
from tests.web.worlds import FLEET_KEY, FakeDesk, desk_of, fleet

from box import install_set
from llmao_core.config import Config, Host, HostRow, Model, Recipe
from llmao_core.protocol import Fetch, Restarting

from .lab import HOST, INSTALLER, Machine, Served, answer, free_ports, llmao, scripted, until

A = Model("a", recipe=Recipe("org/a", vram_gb=8))
B = Model("b", recipe=Recipe("org/b", vram_gb=8))


def two(ports: Sequence[int], *models: Model) -> Config:
    """Return a configuration in which the box serves these models."""
    rows = tuple(HostRow(each.model_name, port, each.model_name)
                 for each, port in zip(models, ports, strict=True))  # fmt: skip
    config = fleet(hosts=(Host(HOST, rows),), listen_ports=tuple(ports))
    return evolve(config, models=(A, B, *models))


def change(desk: FakeDesk, config: Config) -> None:
    other = desk_of(config)
    desk.what, desk.told = other.what, other.told


def longer(model: Model, length: int) -> Model:
    assert model.recipe
    return evolve(model, recipe=evolve(model.recipe, max_model_len=length))


def bearers(desk: FakeDesk) -> list[str]:
    return [server.api_key.reveal() for server in desk.told[HOST].servers]


@pytest.fixture
def ports() -> list[int]:
    """Two ports that nobody has."""
    return free_ports(2)


@pytest.fixture
def desk(machine: Machine, ports: list[int]) -> Any:
    """What llmao knows; the box is to serve two."""
    config = two(ports, A, B)
    with llmao(desk_of(config), config) as running:
        machine.set("LLMAO_URL", running.url)
        yield running.desk


def test_a_first_boot_without_supervisord(
    machine: Machine, desk: FakeDesk, ports: list[int]
) -> None:
    """Files are written and checked, the revision is recorded and reported, exit code 0."""
    revision = desk.told[HOST].revision
    code, said = machine.install()
    assert (0, ["a", "b"]) == (code, list(machine.programs()))
    assert "supervisord does not run yet" in said
    assert revision == (machine.data / "llmao-revision").read_text().strip()
    assert [Fetch(HOST, revision), Fetch(HOST, "", revision)] == desk.events
    assert [] == machine.sleeps.waits
    assert f"a                        port {ports[0]}  card 0  0.46   needs 8.0 GB" in said


def test_no_secret_is_seen_and_no_file_is_open(machine: Machine, desk: FakeDesk) -> None:
    """Not in the output, not in a dry run's programs, and in files for their owner alone."""
    machine.units.mkdir(mode=0o755)
    machine.set("HF_TOKEN", "hf_secret")
    secrets = [FLEET_KEY, "hf_secret", *bearers(desk)]
    _, dry = machine.install("--dry-run")
    _, said = machine.install()
    assert 'VLLM_API_KEY="***",HF_HOME=' in dry
    assert [] == [secret for secret in secrets if secret in dry + said]
    written = {path for path in machine.folder.rglob("*") if path.is_file()}
    holding = [p for p in written if any(s in p.read_text() for s in secrets)]
    assert 2 == len(holding)
    assert {0o600} == {stat.S_IMODE(path.stat().st_mode) for path in holding}
    assert {0o700} == {stat.S_IMODE(path.parent.stat().st_mode) for path in holding}
    for text in machine.programs().values():
        command = re.search("^command=.*$", text, re.MULTILINE)
        assert command
        assert [] == [secret for secret in secrets if secret in command.group()]


def test_a_file_is_its_owners_from_the_first_byte(tmp_path: Path) -> None:
    """Not made so afterwards; what an interrupted run left aside is no obstacle."""
    (tmp_path / ".a.conf.new").write_text("half")
    install_set.put(tmp_path / "a.conf", "whole")
    assert ["a.conf"] == [path.name for path in tmp_path.iterdir()]
    assert "whole" == (tmp_path / "a.conf").read_text()
    assert 0o600 == stat.S_IMODE((tmp_path / "a.conf").stat().st_mode)


def test_a_dry_run_changes_nothing(machine: Machine, desk: FakeDesk) -> None:
    """It prints division and programs."""
    before = sorted(machine.folder.rglob("*"))
    code, said = machine.install("--dry-run")
    assert (0, before) == (code, sorted(machine.folder.rglob("*")))
    assert "[program:vllm-a]" in said
    assert "would restart: nothing" in said


def test_check_says_whether_it_is_behind(
    machine: Machine, desk: FakeDesk, ports: list[int]
) -> None:
    """3 before the first run and after a change, 0 in between; nothing is handed out by it."""
    assert 3 == machine.install("--check")[0]
    machine.install()
    handed = sum(isinstance(each, Fetch) and bool(each.handed_out) for each in desk.events)
    assert 0 == machine.install("--check")[0]
    change(desk, two(ports, longer(A, 4096), B))
    code, said = machine.install("--check")
    assert 3 == code
    assert desk.told[HOST].revision in said
    assert handed == sum(isinstance(each, Fetch) and bool(each.handed_out) for each in desk.events)


@pytest.mark.parametrize("option", ["--check", "--dry-run"])
def test_who_only_looks_does_not_wait(machine: Machine, desk: FakeDesk, option: str) -> None:
    """A person or a timer asks: an unknown box is an error, not a reason to wait."""
    change(desk, fleet(hosts=()))
    assert (1, []) == (machine.install(option)[0], machine.sleeps.waits)


def test_a_revision_that_is_none_is_not_compared(machine: Machine) -> None:
    """The page of a proxy would have the box be behind for ever."""
    with scripted((200, {}, b"<html>")) as (url, _):
        machine.set("LLMAO_URL", url)
        code, said = machine.install("--check")
    assert (1, True) == (code, "what answers is not llmao" in said)


def test_a_disk_without_programs_has_nothing_applied(machine: Machine, desk: FakeDesk) -> None:
    """RunPod keeps the volume and forgets the rest: the recorded revision runs nowhere."""
    machine.install()
    for path in machine.units.glob("*.conf"):
        path.unlink()
    desk.events.clear()
    machine.install()
    assert Fetch(HOST, desk.told[HOST].revision, "") == desk.events[0]
    assert ["a", "b"] == list(machine.programs())


def test_only_what_changed_restarts(machine: Machine, desk: FakeDesk, ports: list[int]) -> None:
    """Announced first; the other keeps its process, and its file is not touched."""
    with machine.supervisord():
        code, said = machine.install()
        assert 0 == code, said
        assert [] == [each for each in desk.events if isinstance(each, Restarting)]
        until(lambda: bool(machine.pid("vllm-a") and machine.pid("vllm-b")))
        a, b = machine.pid("vllm-a"), machine.pid("vllm-b")
        touched = (machine.units / "vllm-b.conf").stat().st_mtime_ns

        code, said = machine.install()
        assert (0, [], (a, b)) == (
            code, machine.sleeps.waits, (machine.pid("vllm-a"), machine.pid("vllm-b"))
        )  # fmt: skip

        change(desk, two(ports, longer(A, 4096), B))
        code, said = machine.install()
        assert (0, [NOTICE_WAIT_S]) == (code, machine.sleeps.waits)
        assert [Restarting(HOST, ("a",))] == [
            each for each in desk.events if isinstance(each, Restarting)
        ]
        assert "--max-model-len 4096" in machine.programs()["a"]
        assert b == machine.pid("vllm-b")
        assert a != machine.pid("vllm-a")
        assert touched == (machine.units / "vllm-b.conf").stat().st_mtime_ns
        assert desk.events[-1] == Fetch(HOST, "", desk.told[HOST].revision)


def test_what_is_no_longer_assigned_is_stopped_and_removed(
    machine: Machine, desk: FakeDesk, ports: list[int]
) -> None:
    """Its program and its process; whatever is not ours stays."""
    with machine.supervisord():
        machine.install()
        (machine.units / "vllm-mine.conf").write_text("[program:vllm-mine]\ncommand=sleep 60\n")
        change(desk, two(ports[1:], B))
        code, said = machine.install()
        assert 0 == code, said
        assert ["b", "mine"] == list(machine.programs())
        assert ["vllm-b"] == list(machine.status())


def test_a_program_of_somebody_else_is_not_overwritten(machine: Machine, desk: FakeDesk) -> None:
    """A person put it there."""
    machine.units.mkdir()
    (machine.units / "vllm-a.conf").write_text("[program:vllm-a]\ncommand=sleep 60\n")
    code, said = machine.install()
    assert (1, True) == (code, "vllm-a.conf is not llmao's: move it away" in said)
    assert "sleep 60" in machine.programs()["a"]


def test_a_bad_program_is_undone(machine: Machine, desk: FakeDesk, ports: list[int]) -> None:
    """One bad file would keep every program from starting after the next boot."""
    with machine.supervisord():
        machine.install()
        before, pid = machine.programs(), machine.pid("vllm-b")
        change(desk, two(ports, longer(A, 4096), B))
        # a folder for logs that supervisor cannot use: it refuses the file as a whole
        real = (machine.bin / "supervisorctl").read_text()
        machine.program("supervisorctl", real.replace("exec", f"""
if [ "$1" = reread ] && grep -q 4096 {machine.units}/vllm-a.conf; then
  echo "ERROR: CANT_REREAD: Format string VLLM_API_KEY='{bearers(desk)[0]}'"; exit 1
fi
exec"""))  # fmt: skip
        code, said = machine.install()
        assert (1, True) == (code, "they are undone: ERROR: CANT_REREAD" in said)
        assert "VLLM_API_KEY='***'" in said
        assert (before, pid) == (machine.programs(), machine.pid("vllm-b"))
        assert Fetch(HOST, "", desk.told[HOST].revision) not in desk.events
        machine.program("supervisorctl", real)
        assert (0, True) == (machine.install()[0], "4096" in machine.programs()["a"])


def test_a_run_that_ended_half_way_is_finished_by_the_next(
    machine: Machine, desk: FakeDesk, ports: list[int]
) -> None:
    """Its files are written and equal by then; what supervisor has not taken over counts."""
    with machine.supervisord():
        machine.install()
        before = machine.pid("vllm-a")
        change(desk, two(ports, longer(A, 4096), B))
        real = (machine.bin / "supervisorctl").read_text()
        stop = '[ "$1" = update ] && exit 1\nexec'
        machine.program("supervisorctl", real.replace("exec", stop))
        code, said = machine.install()
        assert (1, True) == (code, "supervisor could not take the programs over" in said)
        assert before == machine.pid("vllm-a")
        assert 3 == machine.install("--check")[0]

        machine.program("supervisorctl", real)
        desk.events.clear()
        assert 0 == machine.install()[0]
        assert Restarting(HOST, ("a",)) in desk.events
        assert before != machine.pid("vllm-a")
        assert 0 == machine.install("--check")[0]


def test_a_bad_file_of_others_is_told_apart(machine: Machine, desk: FakeDesk) -> None:
    """Nothing is written beside it: supervisor would take nothing over."""
    with machine.supervisord():
        machine.units.mkdir(exist_ok=True)
        (machine.units / "other.conf").write_text("[program:other]\n")
        code, said = machine.install()
        assert (1, {}) == (code, machine.programs())
        assert "supervisor cannot read its own configuration, ours apart" in said


def test_a_supervisord_that_reads_another_folder_is_noticed(
    machine: Machine, desk: FakeDesk
) -> None:
    """Written where nobody looks, a server never starts, and nobody is told."""
    machine.main.write_text(machine.main.read_text().replace(f"{machine.units}/", "/nowhere/"))
    with machine.supervisord():
        code, said = machine.install()
    assert (1, True) == (code, "see --units" in said)


def test_a_server_that_supervisor_gave_up_is_started_again(
    machine: Machine, desk: FakeDesk
) -> None:
    """Crash loops end in FATAL; who mends the cause runs the installer again."""
    write, stub = install_set.program, (machine.bin / "vllm").read_text()

    def impatient(*given: Any) -> str:
        return write(*given).replace("startretries=3", "startretries=0")

    machine.monkeypatch.setattr(install_set, "program", impatient)
    machine.program("vllm", "#!/bin/sh\nexit 1\n")
    with machine.supervisord():
        machine.install()
        until(lambda: "FATAL" == machine.status()["vllm-a"][0])
        machine.program("vllm", stub)
        code, said = machine.install()
        assert (0, True) == (code, "a: supervisor had given it up; it is started again" in said)
        assert machine.pid("vllm-a")


def test_an_applied_revision_that_cannot_be_reported_is_still_applied(machine: Machine) -> None:
    """llmao learns of it with the next question."""
    with scripted((200, {}, answer({"port": free_ports(1)[0]})), (500, {}, b"")) as (url, script):
        machine.set("LLMAO_URL", url)
        code, said = machine.install()
    assert (0, True) == (code, "warning: applied, but not reported: 500" in said)
    assert "r1-abc" == script.seen[-1][2]["X-LLMAO-Revision"]


def test_the_copy_beside_the_programs_is_the_installer(machine: Machine, served: Served) -> None:
    """It starts and guards the servers, as the very file that wrote their programs."""
    machine.install()
    copy = machine.units / "llmao" / "llmao_box.py"
    assert INSTALLER.read_bytes() == copy.read_bytes()
    assert machine.programs()["qwen3-8b"].startswith(MARK)
