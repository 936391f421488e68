"""What providers run on a box: the scripts as a whole, and what linters say of them."""

import hashlib
import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from attrs import define, field
from dockerfile_parse import DockerfileParser

from llmao_core.config import FleetConfig

from .lab import BIN, INSTALLER, ROOT

BOX = ROOT / "box"
PROVISION = BOX / "vast/provision.sh"
ENTRYPOINT = BOX / "runpod/entrypoint.sh"
SHA256 = hashlib.sha256(INSTALLER.read_bytes()).hexdigest()


def lint(*command: str | Path, given: str | None = None) -> str:
    ran = subprocess.run(
        [BIN / command[0], *command[1:]], input=given, capture_output=True, text=True, check=False
    )
    return ran.stdout + ran.stderr if ran.returncode else ""


@pytest.mark.parametrize("script", [PROVISION, ENTRYPOINT], ids=lambda path: path.name)
def test_shellcheck_finds_nothing(script: Path) -> None:
    """All its optional checks but those of taste."""
    optional = "--enable=check-set-e-suppressed,deprecate-which,quote-safe-variables"
    assert "" == lint("shellcheck", optional, "--severity=style", script)
    assert os.access(script, os.X_OK)


def test_the_script_inside_the_script_is_clean_too() -> None:
    """provision.sh writes one."""
    inner = PROVISION.read_text().partition("<<'EOF'\n")[2].partition("\nEOF\n")[0]
    assert inner.startswith("#!/usr/bin/env bash")
    assert "" == lint("shellcheck", "-", given=inner)


def test_the_installer_runs_on_python_3_10() -> None:
    """As old as the images of providers have it."""
    said = subprocess.run(
        [BIN / "vermin", "--target=3.10-", "--no-tips", "--eval-annotations", INSTALLER],
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == said.returncode, said.stdout


def test_the_installer_needs_the_standard_library_alone() -> None:
    """It runs where nothing is installed for it: isolated, without site-packages."""
    ran = subprocess.run(
        ["/usr/bin/env", "-i", BIN / "python", "-I", "-S", INSTALLER, "--help"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (0, True) == (ran.returncode, "--dry-run" in ran.stdout)


# ---- Vast


@define
class Stubs:
    """A machine on which commands are recorded. calls: what was run, one line each."""

    folder: Path
    env: dict[str, str] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        (self.folder / "bin").mkdir()
        self.env |= {
            "PATH": f"{self.folder}/bin:/usr/bin:/bin",
            "HOME": str(self.folder),
            "LLMAO_HOME": str(self.folder / "opt"),
            "LLMAO_UNITS": str(self.folder / "conf.d"),
            "DATA_DIRECTORY": str(self.folder / "data"),
        }
        for name in ("supervisorctl", "supervisord", "python3", "curl"):
            self.stub(name)

    @property
    def calls(self) -> list[str]:
        log = self.folder / "calls"
        return log.read_text().splitlines() if log.exists() else []

    def stub(self, name: str, does: str = "") -> None:
        path = self.folder / "bin" / name
        path.write_text(f'#!/bin/bash\necho {name} "$@" >>{self.folder}/calls\n{does}\n')
        path.chmod(0o755)

    def run(self, *command: str | Path, **more: str) -> tuple[int, str]:
        ran = subprocess.run(
            list(command), env=self.env | more, capture_output=True, text=True, check=False
        )
        return ran.returncode, ran.stdout + ran.stderr


@pytest.fixture
def vast(tmp_path: Path) -> Stubs:
    """A new Vast instance; curl brings the installer."""
    stubs = Stubs(tmp_path)
    stubs.stub("curl", f'while [[ "$1" != --output ]]; do shift; done; cp {INSTALLER} "$2"')
    stubs.env |= {
        "LLMAO_URL": "https://llm.example.org/",
        "FLEET_KEY": "fleet key'with $pecial",
        "LLMAO_INSTALLER_SHA256": SHA256,
        "PUBLIC_IPADDR": "203.0.113.24\n",
        "VAST_CONTAINERLABEL": "C.41230011",
    }
    return stubs


def test_a_vast_box_is_provisioned(vast: Stubs) -> None:
    """The installer is fetched from llmao, and is a program that runs at every start."""
    code, said = vast.run(PROVISION)
    assert 0 == code, said
    assert vast.calls[0].endswith("https://llm.example.org/box/install_set.py")
    assert ["supervisorctl reread", "supervisorctl update llmao-install"] == vast.calls[1:]
    unit = (vast.folder / "conf.d/llmao-install.conf").read_text()
    assert f"command={vast.folder}/opt/llmao-install\n" in unit
    assert "autostart=true\nautorestart=false\nstartsecs=0\n" in unit
    assert INSTALLER.read_bytes() == (vast.folder / "opt/install_set.py").read_bytes()


def test_what_later_starts_need_is_kept_for_root_alone(vast: Stubs) -> None:
    """Whatever characters are in it; and no secret is printed or given as an argument."""
    _, said = vast.run(PROVISION, HF_TOKEN="hf_secret")
    for path in (vast.folder / "opt").iterdir():
        assert 0 == path.stat().st_mode & 0o077, path
    shown = f"cat {vast.folder}/opt/env >&2; env"
    vast.stub("python3", 'printf \'%s\\n\' "$FLEET_KEY" "$LLMAO_HOST" "$HF_TOKEN" "$@"')
    code, told = vast.run(vast.folder / "opt/llmao-install", "--check")
    assert (0, shown) == (code, shown)
    assert [
        "fleet key'with $pecial",
        "203.0.113.24",
        "hf_secret",
        f"{vast.folder}/opt/install_set.py",
        "--units",
        f"{vast.folder}/conf.d",
        "--check",
    ] == told.splitlines()
    assert [] == [call for call in vast.calls if "pecial" in call or "hf_secret" in call]
    assert "pecial" not in said


@pytest.mark.parametrize(
    ("more", "host"),
    [
        ({}, "203.0.113.24"),
        ({"LLMAO_HOST_BY": "address"}, "203.0.113.24"),
        ({"LLMAO_HOST_BY": "label"}, "C.41230011"),
        ({"LLMAO_HOST": "my-name", "LLMAO_HOST_BY": "label"}, "my-name"),
    ],
)
def test_the_name_of_a_box(vast: Stubs, more: dict[str, str], host: str) -> None:
    """Its address, or its label where boxes share one."""
    assert 0 == vast.run(PROVISION, **more)[0]
    assert f"export LLMAO_HOST={host}" in (vast.folder / "opt/env").read_text()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"LLMAO_INSTALLER_SHA256": "0" * 64}, "nothing is run"),
        ({"LLMAO_INSTALLER_SHA256": ""}, "LLMAO_INSTALLER_SHA256 is not set"),
        ({"LLMAO_INSTALLER_SHA256": "latest"}, "LLMAO_INSTALLER_SHA256 is not set"),
        ({"FLEET_KEY": ""}, "FLEET_KEY is not set"),
        ({"LLMAO_URL": ""}, "LLMAO_URL is not set"),
        ({"PUBLIC_IPADDR": ""}, "Vast tells no name by address"),
        ({"LLMAO_HOST_BY": "magic"}, "write address or label"),
    ],
)
def test_a_template_that_is_wrong_stops_it(vast: Stubs, more: dict[str, str], said: str) -> None:
    """Before anything of llmao's runs, with the name of what is wrong."""
    code, told = vast.run(PROVISION, **more)
    assert (1, True) == (code, said in told)
    assert not (vast.folder / "opt/install_set.py").exists()
    assert [] == [call for call in vast.calls if call.startswith("supervisorctl")]


def test_an_installer_of_other_content_is_not_kept(vast: Stubs) -> None:
    """Not even aside: nobody shall run it by hand."""
    vast.stub("curl", 'while [[ "$1" != --output ]]; do shift; done; echo evil >"$2"')
    code, told = vast.run(PROVISION)
    assert (1, True) == (code, f"the template pins {SHA256}" in told)
    assert [] == list((vast.folder / "opt").iterdir())


def test_llmao_that_cannot_be_reached_stops_it(vast: Stubs) -> None:
    """curl has tried for a while by then."""
    vast.stub("curl", "exit 7")
    code, told = vast.run(PROVISION)
    assert (1, True) == (code, "install_set.py cannot be fetched" in told)


def test_a_pinned_commit_serves_as_well(vast: Stubs) -> None:
    """The hash is the same check."""
    url = "https://raw.example.org/abc/box/install_set.py"
    assert 0 == vast.run(PROVISION, LLMAO_INSTALLER_URL=url)[0]
    assert vast.calls[0].endswith(url)


def test_provisioning_twice_is_once(vast: Stubs) -> None:
    """Vast tries a script again that failed half-way."""
    vast.run(PROVISION)
    assert 0 == vast.run(PROVISION)[0]
    assert ["llmao-install.conf"] == [each.name for each in (vast.folder / "conf.d").iterdir()]


# ---- RunPod


@pytest.fixture
def pod(tmp_path: Path) -> Stubs:
    """A new pod, in which the installer and supervisord are recorded."""
    stubs = Stubs(tmp_path)
    stubs.stub("python3", 'echo "host $LLMAO_HOST"')
    stubs.env["RUNPOD_POD_ID"] = "k3v9x2m7q1"
    return stubs


def test_a_pod_installs_and_hands_over(pod: Stubs) -> None:
    """Under the name of its pod id; supervisord takes the place of the script."""
    pod.stub("supervisord", "ps -o args= -p $PPID | grep -c entrypoint")
    code, said = pod.run(ENTRYPOINT)
    assert (1, ["host k3v9x2m7q1", "0"]) == (code, said.splitlines())
    assert [
        f"python3 {pod.folder}/opt/install_set.py",
        "supervisord --nodaemon --configuration /etc/supervisord.conf",
    ] == pod.calls


def test_a_pod_that_is_refused_stays_up_with_the_reason(pod: Stubs) -> None:
    """One that ended would be started again at once, for ever, and paid for."""
    pod.stub("python3", "echo refused: because; exit 1")
    code, said = pod.run(ENTRYPOINT)
    assert (0, True) == (code, "nothing is served; mend the cause" in said)
    assert "refused: because" in said
    assert pod.calls[-1].startswith("supervisord ")


def test_a_person_runs_the_installer_alone(pod: Stubs) -> None:
    """What `supervisorctl start llmao-install` does; its exit code is the installer's."""
    pod.stub("python3", "exit 3")
    code, _ = pod.run(ENTRYPOINT, "install", "--check")
    assert (3, [f"python3 {pod.folder}/opt/install_set.py --check"]) == (code, pod.calls)


def test_a_name_given_by_hand_wins(pod: Stubs) -> None:
    """For a pod that has another name in fleet.hosts."""
    _, said = pod.run(ENTRYPOINT, "install", LLMAO_HOST="other")
    assert "host other" in said


def test_the_image_runs_its_supervisord_conf(tmp_path: Path) -> None:
    """The real supervisord reads it, whatever our own programs are."""
    from box.install_set import read_program

    text = (BOX / "runpod/supervisord.conf").read_text()
    assert "files=/etc/supervisor/conf.d/*.conf" in text
    program = text[text.index("[program:llmao-install]") :] + 'environment=A="b"\n'
    known = read_program(program)
    assert known
    assert ["/opt/llmao/entrypoint.sh", "install"] == known[0]
    assert "chmod=0700" in text


def steps(name: str) -> Iterator[str]:
    for step in DockerfileParser(path=str(BOX / "runpod")).structure:
        if step["instruction"] == name:
            yield step["value"]


def test_the_image_is_pinned_by_digest() -> None:
    """The base is an argument without a default, and a build without a digest fails."""
    assert ["VLLM_IMAGE", "VLLM_IMAGE"] == list(steps("ARG"))
    assert ["${VLLM_IMAGE}"] == list(steps("FROM"))
    check = next(step for step in steps("RUN") if "sha256" in step)
    for image, code in (
        ("vllm/vllm-openai:latest", 1),
        ("", 1),
        ("vllm/vllm-openai@sha256:abc", 1),
        ("vllm/vllm-openai@sha256:" + "0" * 64, 0),
    ):
        ran = subprocess.run(
            ["/bin/sh", "-ec", check],
            env={"VLLM_IMAGE": image},
            check=False,
            capture_output=True,
        )
        assert code == ran.returncode, image


def test_the_dockerfile_keeps_the_rules_of_hadolint() -> None:
    """Those that apply: hadolint itself cannot be had here."""
    for run in steps("RUN"):
        assert "" == lint("shellcheck", "--shell=sh", "-", given=run)
        assert not re.search(r"\b(sudo|apt-get upgrade|cd )", run)
        assert "|" not in run.replace("||", ""), "DL4006: a pipe hides what failed"
        if "pip install" in run:
            assert "--no-cache-dir" in run, "DL3042"
            assert "--require-hashes" in run, "DL3013"
    assert [] == list(steps("ADD")), "DL3020"
    assert [] == list(steps("MAINTAINER")), "DL4000"
    for name in ("ENTRYPOINT", "CMD"):
        [value] = steps(name)
        assert isinstance(json.loads(value), list), "DL3025"
    for copy in steps("COPY"):
        *sources, target = shlex.split(copy)
        assert target.startswith("/"), "DL3045"
        assert [] == [each for each in sources if not (BOX / each).is_file()]
        assert len(sources) == 1 or target.endswith("/"), "DL3021"
    assert "/opt/llmao/entrypoint.sh" == json.loads(next(steps("ENTRYPOINT")))[0]
    assert not [each for each in steps("ENV") if re.search("KEY|TOKEN|SECRET", each)]
    exposed = next(steps("EXPOSE")).split()
    assert [str(port) for port in FleetConfig().listen_ports] == exposed


def test_every_requirement_of_the_image_is_pinned_with_its_hash() -> None:
    """Version and content."""
    for line in (BOX / "runpod/requirements.txt").read_text().splitlines():
        assert re.fullmatch(r"[a-z-]+==[0-9.]+ --hash=sha256:[0-9a-f]{64}", line)


# ---- templates


def test_the_vast_template_has_what_the_script_reads() -> None:
    """Every listen port is mapped, every setting is one that something reads."""
    text = (BOX / "vast/template.env").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    words = shlex.split(" ".join(lines))
    flags = dict(zip(words[1::2], words[::2], strict=True))
    ports = [each for each, flag in flags.items() if flag == "-p"]
    assert [f"{port}:{port}" for port in FleetConfig().listen_ports] == ports
    given = dict(each.split("=", 1) for each, flag in flags.items() if flag == "-e")
    read = PROVISION.read_text()
    assert [] == [each for each in given if each != "PROVISIONING_SCRIPT" and each not in read]
    assert given["PROVISIONING_SCRIPT"] == given["LLMAO_URL"] + "/box/provision.sh"
    assert "CHANGE_ME" == given["FLEET_KEY"]


def test_the_runpod_template_has_what_the_installer_reads() -> None:
    """Every listen port as TCP; the HTTP proxy cuts answers at 100 s."""
    template = yaml.safe_load((BOX / "runpod/template.json").read_text())
    assert [f"{port}/tcp" for port in FleetConfig().listen_ports] == template["ports"]
    read = INSTALLER.read_text()
    assert [] == [name for name in template["env"] if name not in read]
    assert template["env"]["FLEET_KEY"].startswith("{{ RUNPOD_SECRET_")
    assert "@sha256:" in template["image"]


def test_the_runbook_names_every_setting() -> None:
    """What a template sets, the runbook explains."""
    runbook = (BOX / "README.md").read_text()
    names = set(re.findall(r"-e ([A-Z_0-9]+)=", (BOX / "vast/template.env").read_text()))
    names |= set(json.loads((BOX / "runpod/template.json").read_text())["env"])
    assert [] == sorted(name for name in names if f"`{name}`" not in runbook)
