"""Every planted bug still fits the code of today; whether it is found is `make test-planted`."""

from pathlib import Path

import pytest
from attrs import evolve

from .bugs import ROOT, Bug, UnfitError, read

BUGS = read()


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_bug_fits_the_code(bug: Bug) -> None:
    """What it replaces stands once in its file, what comes of it compiles and is another code."""
    assert bug.planted_in(ROOT) != (ROOT / bug.file).read_text()
    assert bug.is_shaped
    assert (ROOT / "tests" / bug.test.partition("::")[0]).exists()


def test_a_name_is_one_bug() -> None:
    """No two bugs share a name or do the same."""
    assert len(BUGS) == len({bug.name for bug in BUGS}) == len({(b.file, b.new) for b in BUGS})


def test_what_was_found_is_published() -> None:
    """The page of figures has a row for each bug, and for none that is not there."""
    page = (ROOT / "docs" / "reliability.md").read_text()
    rows = [line.split("`")[1] for line in page.splitlines() if line.startswith("| `")]
    assert {bug.name for bug in BUGS} <= set(rows)


def test_a_bug_that_does_not_fit_is_an_error(tmp_path: Path) -> None:
    """Old text that is gone, or is there twice, or a result that is no code, is told at once."""
    bug = evolve(BUGS[0], file="code.py", old="one = 1\n", new="one = 2\n")
    for code in ("two = 2\n", "one = 1\none = 1\n"):
        (tmp_path / "code.py").write_text(code)
        with pytest.raises(UnfitError):
            bug.planted_in(tmp_path)
    (tmp_path / "code.py").write_text("one = 1\n")
    with pytest.raises(UnfitError):
        evolve(bug, new="one =\n").planted_in(tmp_path)
    assert "one = 2\n" == bug.planted_in(tmp_path)
