"""The import contracts bite: each is broken once, on purpose, in a copy of the tree."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
NAMES = {contract["id"]: contract["name"] for contract in CONFIG["contracts"]}

OFFENCES = {
    "floor": ("llmao_litellm/plugin.py", "import llmao_web.desk"),
    "pure": ("llmao_core/reconcile.py", "import time"),
    "downwards": ("llmao_core/keys.py", "import llmao_core.reconcile"),
    "corners": ("llmao_core/intended.py", "import yaml"),
    "opinions": ("llmao_litellm/client.py", "import llmao_core.rules"),
    "kit": ("llmao_web/app.py", "import llmao_core.testing"),
    "hands": ("llmao_web/pages/models.py", "import llmao_web.shell.executor"),
    "shell": ("llmao_web/shell/board.py", "import litestar"),
    "pages": ("llmao_web/box_api.py", "import httpx"),
    "translation": ("llmao_litellm/translate.py", "import asyncio"),
}


def _lint(folder: Path) -> str:
    """Return what the linter says of the packages below a folder."""
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    ran = subprocess.run(
        command,
        cwd=folder,
        env={"PYTHONPATH": str(folder / "src"), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return ran.stdout + ran.stderr


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the linter's verdicts on a tree in which every contract is broken."""
    folder = tmp_path_factory.mktemp("broken")
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    for file, line in OFFENCES.values():
        path = folder / "src" / file
        path.write_text(path.read_text() + f"\n{line}\n")
    return _lint(folder)


def test_every_contract_has_an_offence() -> None:
    """A contract that nobody has seen bite is not a contract."""
    assert set(NAMES) == set(OFFENCES)


@pytest.mark.parametrize("contract", OFFENCES)
def test_a_broken_contract_is_caught(contract: str, verdicts: str) -> None:
    """The offending import is reported under the name of its contract."""
    assert re.search(re.escape(NAMES[contract]) + r"\s+BROKEN", verdicts), verdicts


def test_a_module_without_a_place_is_caught(tmp_path: Path) -> None:
    """A new file in core fails the check until it is given its layer."""
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "src/llmao_core/homeless.py").write_text('"""Nowhere."""\n')

    said = _lint(tmp_path)

    assert "homeless" in said
