"""One file of a person's on its way to records.

Rule of this file: what is common to both files. It reads no file itself.
"""

from collections.abc import Collection

from attrs import field, frozen

from . import yaml_nodes
from .errors import Problem
from .places import Finding
from .shapes import Resolve, Shaper


@frozen
class File:
    """A file somebody else read. name: as the person gave it."""

    name: str
    content: bytes = field(repr=False)


class SourceFile:
    """One file on its way to records. root: its mapping, empty when it has none."""

    def __init__(self, file: File, resolve: Resolve) -> None:
        self.shaper = Shaper(resolve)
        self.document = yaml_nodes.read(file.name, file.content)
        self.root = self.shaper.mapping(self.document.data, ())
        self.usable = self.document.readable and not self.shaper.findings

    def findings(self) -> list[Finding]:
        """Return everything wrong so far, each value once."""
        holes = {each.path for each in self.document.findings if not each.stands}
        shaped = [each for each in self.shaper.findings if each.path not in holes]
        return [*self.document.findings, *shaped]

    def problems(self) -> list[Problem]:
        """Return everything wrong so far, in its place."""
        return [self.document.places.problem(each) for each in self.findings()]

    def refuse_unknown(self, known: Collection[str]) -> None:
        for key in self.root:
            if key not in known:
                self.shaper.unknown((key,), known)
