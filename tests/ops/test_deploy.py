"""How llmao is deployed: the unit, the image and the compose file, and what linters say of them."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from dockerfile_parse import DockerfileParser

from llmao_web.cli import main
from llmao_web.commands.serve import serve
from llmao_web.shell.service import WRITES_MAY_TAKE_S

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "docs" / "deploy"
UNIT = DEPLOY / "llmao.service"
BIN = Path(sys.executable).parent
Settings = dict[str, list[str]]


# ---- systemd


def settings() -> Settings:
    """Return what the unit sets, each name with every value it has."""
    found: Settings = {}
    for line in UNIT.read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze")
    return subprocess.run(
        ["systemd-analyze", *arguments], capture_output=True, text=True, check=False
    )


def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    """Every setting and value; only the program is another, since llmao is not installed there."""
    unit = UNIT.read_text().replace("/opt/llmao/bin/llmao", shutil.which("true") or "/bin/true")
    (tmp_path / "llmao.service").write_text(unit)
    ran = analyze("verify", "--man=no", str(tmp_path / "llmao.service"))
    said = [line for line in ran.stderr.splitlines() if "llmao" in line]
    assert (0, []) == (ran.returncode, said)


def test_the_unit_is_closed() -> None:
    """systemd's own measure of what a service could do: below 2 of 10."""
    ran = analyze("security", "--offline=yes", "--no-pager", "--threshold=20", str(UNIT))
    assert 0 == ran.returncode, ran.stdout


def test_the_unit_calls_commands_that_exist() -> None:
    """With options they know; a reload is a SIGHUP."""
    found = settings()
    for line in (*found["ExecStartPre"], *found["ExecStart"]):
        command, option = line.split()[1:3]
        ran = CliRunner().invoke(main, [command, "--help"])
        assert (0, True) == (ran.exit_code, option in ran.output), line
    assert ["/bin/kill -HUP $MAINPID"] == found["ExecReload"]


def test_a_stop_waits_for_the_write_under_way() -> None:
    """systemd and compose give llmao the time it takes, and some more for the web."""
    grace = compose()["services"]["llmao"]["stop_grace_period"]
    for seconds in (settings()["TimeoutStopSec"][0], grace.removesuffix("s")):
        assert float(seconds) > WRITES_MAY_TAKE_S + 10


# ---- the image


def steps(name: str) -> Iterator[str]:
    for step in DockerfileParser(path=str(DEPLOY)).structure:
        if step["instruction"] == name:
            yield step["value"]


def test_the_dockerfile_keeps_the_rules_of_hadolint() -> None:
    """Those that apply: shellcheck is content, no pipe, no cache, no tag `latest`, no root."""
    for run in steps("RUN"):
        ran = subprocess.run(
            [BIN / "shellcheck", "--shell=sh", "-"],
            input=run,
            capture_output=True,
            text=True,
            check=False,
        )
        assert 0 == ran.returncode, ran.stdout
        assert not re.search(r"\b(sudo|apt-get upgrade|cd )", run)
        assert "|" not in run.replace("||", "")
        assert "pip install" not in run or "--no-cache-dir" in run
    assert ["python:3.12-slim"] == [each.partition("=")[2] for each in steps("ARG")]
    assert "root" not in "".join(steps("USER"))
    assert [] == list(steps("ADD"))


def test_the_image_holds_what_the_package_is_built_from() -> None:
    """Every file that pyproject.toml names is copied before the build."""
    copied = [source for each in steps("COPY") for source in each.split()[:-1]]
    sources = [source for source in copied if not source.startswith(("--from", "/"))]
    assert all((ROOT / source).exists() for source in sources), sources
    assert {"pyproject.toml", "README.md", "LICENSE", "src", "box"} <= set(sources)


def test_the_image_serves_where_its_check_looks() -> None:
    """One port everywhere, and options that `llmao serve` has."""
    (command,) = steps("CMD")
    given = yaml.safe_load(command)
    assert "serve" == given[0]
    known = {option for parameter in serve.params for option in parameter.opts}
    assert {"--host", "--port"} <= {each for each in given if each.startswith("--")} <= known
    port = given[given.index("--port") + 1]
    assert [port] == list(steps("EXPOSE"))
    assert f"127.0.0.1:{port}/healthz" in "".join(steps("HEALTHCHECK"))


# ---- compose


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return found


def test_compose_understands_the_file(tmp_path: Path) -> None:
    """Where there is a docker compose, it finds nothing wrong, and wants every secret."""
    if shutil.which("docker") is None:
        pytest.skip("there is no docker")
    file = ["docker", "compose", "--file", str(DEPLOY / "compose.yaml")]
    if subprocess.run(
        ["docker", "compose", "version"], capture_output=True, check=False
    ).returncode:
        pytest.skip("there is no docker compose")
    names = ("POSTGRES_PASSWORD", "LITELLM_MASTER_KEY", "LITELLM_SALT_KEY", "LITELLM_TAG")
    (tmp_path / "all").write_text("".join(f"{name}=x1\n" for name in names))
    (tmp_path / "none").write_text("")
    for given, good in (("all", True), ("none", False)):
        ran = subprocess.run(
            [*file, "--env-file", str(tmp_path / given), "config", "--quiet"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert good is (ran.returncode == 0), ran.stderr


def test_the_example_publishes_nothing_to_the_world() -> None:
    """TLS comes first: ports are published on loopback, PostgreSQL's not at all."""
    services = compose()["services"]
    published = [port for one in services.values() for port in one.get("ports", ())]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)
    assert "ports" not in services["postgres"]


def test_the_example_holds_no_secret() -> None:
    """Every one comes from the environment."""
    for name, service in compose()["services"].items():
        for key, value in service["environment"].items():
            if key.endswith(("PASSWORD", "KEY", "URL", "STORE")):
                assert "${" in value, f"{name}: {key}"


def test_the_example_is_whole() -> None:
    """What a service waits for, mounts or is built from is there; LiteLLM keeps its models."""
    found = compose()
    for service in found["services"].values():
        assert set(service.get("depends_on", ())) <= found["services"].keys()
        for mount in service.get("volumes", ()):
            source = mount.partition(":")[0]
            assert source.startswith("./") or source in found["volumes"]
    build = found["services"]["llmao"]["build"]
    assert (DEPLOY / build["context"]).resolve() == ROOT
    assert (ROOT / build["dockerfile"]).exists()
    assert "True" == found["services"]["litellm"]["environment"]["STORE_MODEL_IN_DB"]
