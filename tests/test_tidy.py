"""What linters lack: lengths, left-over markers, paths of one machine, clocks outside the clock."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MOST_LINES = 400
MOST_FUNCTION_LINES = 60
NORMAL_FUNCTION_LINES = 40
# It must be one file, since a box fetches and runs it alone, with nothing beside it.
ALONE = ROOT / "box" / "install_set.py"
SOURCES = sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "box").rglob("*.py")])


def _tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = [ROOT / name for name in listed.stdout.splitlines()]
    return [path for path in paths if path.is_file()]


def _functions(path: Path) -> Iterator[tuple[str, int]]:
    """Yield the functions of a file and their lines, docstrings left out."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first, last = node.lineno, node.end_lineno or node.lineno
            doc = node.body[0] if ast.get_docstring(node) else None
            skipped = (doc.end_lineno or 0) - doc.lineno + 1 if doc else 0
            yield node.name, last - first + 1 - skipped


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_fits_in_the_head(path: Path) -> None:
    """No file is longer than 400 lines, and no function than 60."""
    lines = path.read_text().count("\n")
    long = {name: size for name, size in _functions(path) if size > MOST_FUNCTION_LINES}

    assert lines <= MOST_LINES or path == ALONE
    assert not long


def test_nine_functions_in_ten_are_short() -> None:
    """Most functions stay under 40 lines."""
    sizes = [size for path in SOURCES for _, size in _functions(path)]
    short = sum(size <= NORMAL_FUNCTION_LINES for size in sizes)

    assert short >= 0.95 * len(sizes)


def test_every_module_says_what_it_is_for() -> None:
    """A file of code opens with a docstring."""
    silent = [path for path in SOURCES if not ast.get_docstring(ast.parse(path.read_text()))]

    assert [] == silent


def test_nothing_of_one_machine_or_unfinished_is_left() -> None:
    """No tracked file holds a path of somebody's machine or a marker for later."""
    # spelled so that this file does not find itself
    marker = re.compile(r"\b(TO[D]O|FIX[M]E|XX[X])\b|/wor[k]/|/home/\w+/|/Users/\w+/")
    found = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path in _tracked()
        if path.suffix not in {".png", ".svg", ".lock"} and path.name != "LICENSE"
        for match in marker.finditer(path.read_text(errors="ignore"))
    ]

    assert [] == found
