"""Where things stand in a person's files, and findings that wait to be given their place.

Rule of this file: nothing here reads a file or judges one; a path never shows a key that could
be a secret somebody put in the wrong column.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from attrs import evolve, field, frozen

from .config import Host
from .errors import Problem

Path = tuple[str | int, ...]

_SHOWABLE = re.compile(r"[A-Za-z0-9_.:\[\]/-]{1,64}")
_WORD = re.compile(r"[a-z][a-z_]{0,30}")


def shown(path: Path) -> str:
    """Return a path as people read it: `fleet.hosts.203.0.113.10[0]`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            name = step if _SHOWABLE.fullmatch(step) else "?"
            text += f".{name}" if text else name
    return text


def quoted(text: str) -> str:
    """Return a name somebody chose, short and printable, in backticks."""
    safe = "".join(letter if letter.isprintable() else "?" for letter in text[:60])
    return f"`{safe}{'…' if len(text) > 60 else ''}`"


def is_word(key: str) -> bool:
    """Tell whether an unexpected key is plainly a word, so that showing it gives nothing away."""
    return bool(_WORD.fullmatch(key))


@frozen
class Finding:
    """Something wrong at a path. at: line and column, when the path alone does not tell.

    stands: the value was read all the same, so what rests on it can still be checked.
    """

    path: Path
    what: str
    remedy: str = ""
    warning: bool = False
    at: tuple[int, int] | None = None
    stands: bool = False


@frozen
class Places:
    """Path → line and column in one file, both from 1."""

    file: str = ""
    at: Mapping[Path, tuple[int, int]] = field(factory=dict, repr=False)

    def of(self, path: Path) -> tuple[int, int]:
        """Return the place of a path, else of the nearest thing around it; (0, 0) for none."""
        for length in range(len(path), 0, -1):
            if place := self.at.get(path[:length]):
                return place
        return (0, 0)

    def problem(self, finding: Finding) -> Problem:
        """Return a finding in its place."""
        line, column = finding.at or self.of(finding.path)
        return Problem(
            what=finding.what,
            remedy=finding.remedy,
            path=shown(finding.path),
            file=self.file,
            line=line,
            column=column,
            warning=finding.warning,
        )


@frozen
class Broken:
    """Paths whose value could not be read: what rests on them is not judged a second time."""

    paths: frozenset[Path] = frozenset()
    around: frozenset[Path] = frozenset()

    @classmethod
    def by(cls, findings: Iterable[Finding]) -> "Broken":
        """Return what these findings broke."""
        paths = frozenset(each.path for each in findings if not each.stands)
        around = frozenset(path[:end] for path in paths for end in range(len(path)))
        return cls(paths, around)

    def touches(self, *path: str | int) -> bool:
        """Tell whether something at, inside or around this path is broken."""
        return path in self.around or self.covers(path)

    def covers(self, path: Path) -> bool:
        """Tell whether something at or around this path is broken."""
        return any(path[:end] in self.paths for end in range(len(path) + 1))


def _around(path: str) -> Iterator[str]:
    """Yield a path in words, then what is around it, from the nearest outwards."""
    while path:
        yield path
        path = path[: max(path.rfind("."), path.rfind("["), 0)]


@frozen
class Written:
    """How a Config was written: both files' places, and the paths of hosts and rows as written.

    hosts, rows: in the order of `Config.fleet.hosts`; empty for a Config made in code.
    """

    config: Places = field(factory=Places)
    models: Places = field(factory=Places)
    hosts: tuple[Path, ...] = ()
    rows: tuple[tuple[Path, ...], ...] = ()
    broken: Broken = field(factory=Broken)

    def host(self, index: int, host: Host) -> Path:
        """Return the path of a host."""
        return self.hosts[index] if self.hosts else ("fleet", "hosts", host.name)

    def row(self, index: int, host: Host, number: int) -> Path:
        """Return the path of a row of a host."""
        return self.rows[index][number] if self.rows else (*self.host(index, host), number)

    def problem(self, finding: Finding) -> Problem:
        """Return a finding in its place, in whichever file that is."""
        return (self.models if finding.path[:1] == ("models",) else self.config).problem(finding)

    def put(self, problems: Iterable[Problem]) -> Iterator[Problem]:
        """Yield plugins' problems, whose paths are in words, in their places.

        Those that rest on a value that could not be read are left out.
        """
        problems = list(problems)
        broken = tuple(shown(path) for path in self.broken.paths)
        named = {name for problem in problems for name in _around(problem.path)}
        paths = {
            name: path
            for places in (self.models, self.config)
            for path in places.at
            if (name := shown(path)) in named
        }
        for each in problems:
            if any(
                each.path == path or each.path.startswith((f"{path}.", f"{path}["))
                for path in broken
            ):
                continue
            path = next((paths[name] for name in _around(each.path) if name in paths), ())
            found = self.problem(Finding(path, each.what, each.remedy, each.warning))
            yield evolve(found, path=each.path)
