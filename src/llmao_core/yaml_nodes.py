"""YAML text → plain values, with the place of each.

Rule of this file: YAML means what it looks like. Only `null`, `true`, `false` and plain decimal
numbers are more than text; a mapping's keys are always text; a key stands once. Built from
parse events, never by PyYAML's constructors, so that depth and size have an end. No message
repeats what the file says.
"""

import math
import re
from collections.abc import Iterator
from typing import Any, NoReturn

import yaml
from attrs import field, frozen

from .places import Finding, Path, Places, is_word, quoted

MAX_BYTES = 5_000_000
MAX_DEPTH = 32
MAX_VALUES = 500_000

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TEXT_TAGS = (None, "!", "tag:yaml.org,2002:str")
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"")


@frozen
class Document:
    """One file as plain values: dict, list, str, int, float, bool, None.

    readable: false when the text could not be followed to its end; data is None then.
    """

    places: Places
    data: Any = field(default=None, repr=False)
    findings: tuple[Finding, ...] = ()
    readable: bool = True


class _StopError(Exception):
    """The rest of the file cannot be followed."""

    def __init__(self, finding: Finding) -> None:
        super().__init__()
        self.finding = finding


def read(file: str, content: bytes) -> Document:
    """Return a file's values with their places; what is wrong with it is in `findings`."""
    try:
        text = _decoded(content)
        tree = _Tree(yaml.parse(text, Loader=_LOADER))
        data = tree.document()
    except _StopError as stop:
        return Document(Places(file), findings=(stop.finding,), readable=False)
    except yaml.YAMLError as error:
        return Document(Places(file), findings=(_syntax(error, content),), readable=False)
    return Document(Places(file, tree.at), data, tuple(tree.findings))


def _stop(what: str, remedy: str, at: tuple[int, int] | None = None) -> NoReturn:
    raise _StopError(Finding((), what, remedy, at=at))


def _decoded(content: bytes) -> str:
    if len(content) > MAX_BYTES:
        _stop(
            f"The file is larger than {MAX_BYTES // 1_000_000} MB.",
            "Check that it is the right file.",
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        at = _spot(content, error.start)
    _stop("The file is not UTF-8 text.", "Save it as UTF-8.", at)


def _spot(content: bytes, offset: int) -> tuple[int, int]:
    before = content[:offset]
    return before.count(b"\n") + 1, offset - before.rfind(b"\n")


def _syntax(error: yaml.YAMLError, content: bytes) -> Finding:
    remedy = "Look at this line and the one before it: colons, quotes, brackets, indentation."
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is not None:
        said = _QUOTED.sub(_unsaid, str(getattr(error, "problem", "") or "it cannot be followed"))
        return Finding(
            (), f"This is not YAML: {said}.", remedy, at=(mark.line + 1, mark.column + 1)
        )
    if isinstance(position := getattr(error, "position", None), int):
        what = "A character here cannot stand in YAML."
        return Finding((), what, "Remove it.", at=_spot(content, position))
    return Finding((), "This is not YAML.", remedy)


def _unsaid(quoted: re.Match[str]) -> str:
    """Return what a message quotes if it is a sign or a token, like ',' or '<scalar>'."""
    inside = quoted[1] or quoted[2] or ""
    return quoted[0] if len(inside) < 2 or inside.startswith("<") else "…"


class _Tree:
    """One document's values, built event by event."""

    def __init__(self, events: Iterator[Any]) -> None:
        self._events = events
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._count = 0
        self.at: dict[Path, tuple[int, int]] = {}
        self.findings: list[Finding] = []

    def document(self) -> Any:
        """Return the only document, None for an empty file."""
        data, documents = None, 0
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    _stop(
                        "A second document begins here.",
                        "Keep one document in the file: remove the `---`.",
                        _at(event),
                    )
                data = self._value(next(self._events), ())
        return data

    def _value(self, event: Any, path: Path) -> Any:
        self.at.setdefault(path, _at(event))
        before = self._count
        self._grow(1, event)
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        if isinstance(event, yaml.ScalarEvent):
            value: Any = self._scalar(event, path)
        elif len(path) >= MAX_DEPTH:
            _stop(
                f"Things are nested more than {MAX_DEPTH} deep here.",
                "Check for brackets too many.",
                _at(event),
            )
        else:
            self._refuse_tag(event, path)
            nested = self._list if isinstance(event, yaml.SequenceStartEvent) else self._mapping
            value = nested(path)
        if event.anchor:
            self._anchors[event.anchor] = (value, self._count - before)
        return value

    def _grow(self, values: int, event: Any) -> None:
        self._count += values
        if self._count > MAX_VALUES:
            _stop(
                f"The file holds more than {MAX_VALUES} values, aliases written out.",
                "Check that it is the right file, and what its aliases (*) stand for.",
                _at(event),
            )

    def _alias(self, event: Any) -> Any:
        if event.anchor not in self._anchors:
            _stop(
                "An alias (*) stands here for something that is not written above it.",
                "Put text that begins with * into quotes.",
                _at(event),
            )
        value, size = self._anchors[event.anchor]
        self._grow(size, event)
        return value

    def _list(self, path: Path) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._value(event, (*path, len(items))))
        return items

    def _mapping(self, path: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._key(event, path)
            if key is None or key in found:
                if key is not None:
                    self._repeated(event, (*path, key))
                self._skip(next(self._events))
                continue
            self.at[(*path, key)] = _at(event)
            found[key] = self._value(next(self._events), (*path, key))
        return found

    def _key(self, event: Any, path: Path) -> str | None:
        plain = isinstance(event, yaml.ScalarEvent)
        if plain and event.value != "<<" and _encodable(event.value):
            return str(event.value)
        merge = plain and event.value == "<<"
        self.findings.append(
            Finding(
                path,
                "Merge keys (<<) are not read." if merge else "A key must be plain text.",
                "Write the keys out." if merge else "Put text with brackets into quotes.",
                at=_at(event),
                stands=True,
            )
        )
        if not plain:
            self._skip(event)
        return None

    def _repeated(self, event: Any, path: Path) -> None:
        name = f"The key {quoted(str(path[-1]))}" if is_word(str(path[-1])) else "This key"
        line = self.at[path][0]
        self.findings.append(
            Finding(
                path,
                f"{name} stands twice; the first is on line {line}.",
                "Remove one of them.",
                at=_at(event),
                stands=True,
            )
        )

    def _skip(self, event: Any) -> None:
        """Pass over a value that belongs nowhere, its anchors included."""
        deep = 0
        while True:
            self._grow(1, event)
            deep += isinstance(event, yaml.CollectionStartEvent)
            deep -= isinstance(event, yaml.CollectionEndEvent)
            if deep == 0:
                return
            event = next(self._events)

    def _refuse_tag(self, event: Any, path: Path) -> None:
        if event.tag not in (None, "!"):
            self._hole(
                path, "Tags (!…) are not read.", "Write the value plainly; quote text.", event
            )

    def _hole(self, path: Path, what: str, remedy: str, event: Any) -> None:
        self.findings.append(Finding(path, what, remedy, at=_at(event)))

    def _scalar(self, event: Any, path: Path) -> Any:
        text: str = event.value
        if event.tag not in _TEXT_TAGS:
            self._refuse_tag(event, path)
            return None
        if not _encodable(text):
            self._hole(path, "This text holds half a character.", "Write it anew.", event)
            return None
        if event.tag is not None or event.style not in (None, ""):
            return text
        value = _resolved(text)
        if isinstance(value, float) and not math.isfinite(value):
            self._hole(path, "This is not a finite number.", "Write a number.", event)
            return None
        return value


def _at(event: Any) -> tuple[int, int]:
    return event.start_mark.line + 1, event.start_mark.column + 1


def _encodable(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)


def _resolved(text: str) -> Any:
    """Return what a plain scalar stands for."""
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text) and len(text) < 40 and not text.lstrip("+-").isdigit():
        return float(text)
    return math.nan if _NOT_FINITE.fullmatch(text) else text
