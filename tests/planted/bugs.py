"""Bugs as data: each replaces one piece of the code by what somebody may really have written.

Rule of this file: it reads and applies; what is run against a bug is in `__main__`. The text a bug
replaces stands exactly once in its file, so that a bug that no longer fits the code is an error.
"""

import re
import tomllib
from pathlib import Path

from attrs import frozen

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FAMILIES = ("stale view", "missed transition", "crash between two writes")
_REPORT = re.compile(r"[a-z0-9-]+( PR)?#\d+|CWE-\d+")


class UnfitError(Exception):
    """A bug that does not fit the code any more, or is not in the form of one."""


@frozen
class Bug:
    """One bug.

    title: what is wrong, in a sentence. shaped_on: a public report, a family of the Sieve study,
    or a CWE. file: from the root of the checkout. old, new: exact text. test: what below `tests`
    should find it, a file or one test of it, run first.
    """

    name: str
    title: str
    shaped_on: str
    file: str
    old: str
    new: str
    test: str

    def planted_in(self, root: Path) -> str:
        """Return the text of its file with the bug in it; raises UnfitError."""
        code = (root / self.file).read_text()
        found = code.count(self.old)
        if found != 1:
            raise UnfitError(f"{self.name}: what it replaces is {found} times in {self.file}")
        text = code.replace(self.old, self.new)
        try:
            compile(text, self.file, "exec")
        except SyntaxError as error:
            raise UnfitError(f"{self.name}: line {error.lineno} would not compile") from None
        return text

    @property
    def is_shaped(self) -> bool:
        """Tell whether it says what it is shaped on."""
        return self.shaped_on in FAMILIES or bool(_REPORT.fullmatch(self.shaped_on))


def read() -> tuple[Bug, ...]:
    """Return all bugs, in the order of the files and of their names."""
    return tuple(
        Bug(**said)
        for path in sorted(HERE.glob("*.toml"))
        for said in tomllib.loads(path.read_text())["bug"]
    )
