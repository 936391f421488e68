"""`python -m tests.planted [NAME …]`: plants each bug in a copy and sees which test finds it.

Rule of this file: the checkout is only read. A bug is found by a test that fails with it and
passes without it; where no test does, the simulation is asked. Exit code 1: one was not found.
The table it prints is the one in docs/reliability.md.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from attrs import frozen

from llmao_web.shell.clock import SystemClock

from .bugs import ROOT, Bug, read

# What decides first, what is slow last.
SUITES = (
    "decision_table", "litellm", "vast", "runpod", "store", "journal", "shell", "core", "web",
    "ops", "kit", "box",
)  # fmt: skip
LIGHT = "not real and not sim and not thorough"
LIMIT_S = 900.0
NEEDED = ("src", "box", "tests", "docs", "examples", "pyproject.toml", "README.md", "Makefile")
PACKAGES = ("llmao_core", "llmao_litellm", "llmao_vast", "llmao_runpod", "llmao_web")
LIVES = (("sim", "--sweep", "--jobs", "1"), ("sim", "--seeds", "20", "--jobs", "1"))
_LLMAO = "from llmao_web.cli import main; main()"
_WHERE = "import importlib, sys; [print(importlib.import_module(n).__file__) for n in sys.argv[1:]]"


@frozen
class Tree:
    """A copy of the checkout in which anything may be broken."""

    root: Path

    @classmethod
    def copied(cls, to: Path) -> "Tree":
        """Copy what tests need; SystemExit when the copy's packages are not those imported."""
        to.mkdir()
        for name in NEEDED:
            source = ROOT / name
            if source.is_dir():
                left_out = shutil.ignore_patterns("__pycache__")
                shutil.copytree(source, to / name, ignore=left_out)
            else:
                shutil.copy2(source, to / name)
        tree = cls(to)
        found = tree.run("-c", _WHERE, *PACKAGES).stdout.split()
        if not all(Path(each).is_relative_to(to) for each in found) or not found:
            raise SystemExit(f"The packages of the copy are not the ones imported: {found}")
        return tree

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run python in the copy, for so long as is bearable."""
        # Before everything else: an installed llmao may lead to the checkout.
        env = os.environ | {"PYTHONPATH": str(self.root / "src"), "COLUMNS": "200"}
        return subprocess.run(
            [sys.executable, *words],
            cwd=self.root,
            env=env,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )

    def failing(self, *words: str) -> str:
        """Return the first test that fails, "" when none does; words: for pytest."""
        whole = ("-m", "pytest", "-x", "--cache-clear", "-p", "no:xdist", "-m", LIGHT, *words)
        try:
            done = self.run(*whole)
        except subprocess.TimeoutExpired:
            return ""
        if done.returncode in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            return ""
        noted = self.root / ".pytest_cache" / "v" / "cache" / "lastfailed"
        if done.returncode != pytest.ExitCode.TESTS_FAILED or not noted.exists():
            raise SystemExit(f"pytest itself failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return str(next(iter(json.loads(noted.read_text()))))

    def dying(self) -> str:
        """Return the simulation in which an invariant breaks, "" when none does."""
        for words in LIVES:
            try:
                if self.run("-c", _LLMAO, *words).returncode == 1:
                    return f"llmao {' '.join(words)}"
            except subprocess.TimeoutExpired:
                continue
        return ""


def found_by(bug: Bug, broken: Tree, whole: Tree, sound: tuple[str, ...]) -> str:
    """Return what finds a bug, "" for nothing. sound: tests that pass without one."""
    target = broken.root / bug.file
    target.write_text(bug.planted_in(whole.root))

    def telling(*tests: str) -> str:
        left_out: list[str] = []
        while test := broken.failing(*tests, *left_out):
            if test.startswith(sound) or not whole.failing(test):
                return test
            print(f"{test} fails without a bug, too: left out", file=sys.stderr)
            left_out += ["--deselect", test]
        return ""

    try:
        every = (f"tests/{each}" for each in SUITES)
        return telling(f"tests/{bug.test}") or telling(*every) or broken.dying()
    finally:
        shutil.copy2(whole.root / bug.file, target)


def _sound(bugs: Sequence[Bug], whole: Tree) -> tuple[str, ...]:
    """Return the tests that bugs name, none if one of them fails without any bug."""
    named = tuple(dict.fromkeys(f"tests/{bug.test}" for bug in bugs))
    return () if whole.failing(*named) else named


def main(names: Sequence[str]) -> int:
    """Plant the bugs of these names, or all; return the exit code."""
    bugs = [bug for bug in read() if not names or bug.name in names]
    if missing := set(names) - {bug.name for bug in bugs}:
        raise SystemExit(f"There is no bug {', '.join(sorted(missing))}")
    os.nice(10)
    clock, unfound = SystemClock(), 0
    print("| bug | what is wrong | shaped on | found by | s |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="llmao-planted-") as place:
        whole, broken = (Tree.copied(Path(place) / name) for name in ("whole", "broken"))
        sound = _sound(bugs, whole)
        for bug in bugs:
            began = clock.monotonic()
            found = found_by(bug, broken, whole, sound)
            print(_row(bug, found, clock.monotonic() - began), flush=True)
            unfound += not found
    print(f"\n{len(bugs) - unfound} of {len(bugs)} found.")
    return 1 if unfound else 0


def _row(bug: Bug, found: str, took_s: float) -> str:
    by = f"`{found.removeprefix('tests/')}`" if found else "**nothing**"
    return f"| `{bug.name}` | {bug.title} | {bug.shaped_on} | {by} | {took_s:.0f} |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
