"""Plain values → records, by their annotations; what does not fit becomes findings.

Rule of this file: the only one that knows cattrs. Nothing is converted on the quiet (text is not
a number, a number is not true), one wrong value does not hide the next, and no message repeats
a value.
"""

import copy
import difflib
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Literal, TypeVar, get_args, get_origin

import attrs
from attrs import frozen
from cattrs import (
    AttributeValidationNote,
    BaseValidationError,
    Converter,
    ForbiddenExtraKeysError,
    IterableValidationError,
    IterableValidationNote,
)
from cattrs.gen import make_dict_structure_fn

from .config import Json
from .errors import LlmaoError
from .places import Finding, Path, is_word
from .secret import Secret

T = TypeVar("T")
_PLACEHOLDERS: Mapping[Any, Any] = {str: "", int: 0}
_MOST_QUESTIONS = 200  # likeness is slow to compute, and nobody reads on
_ON_OFF = frozenset({"on", "off", "yes", "no", "y", "n"})
_SECRET_NAME = re.compile(r".*(key|secret|password|passwd|credentials?|hash|(?<!per_)token)")


@frozen
class SecretRef:
    """A secret that stands elsewhere: in an environment variable or a file."""

    kind: Literal["env", "file"]
    name: str


class UnresolvedError(LlmaoError):
    """A secret that stands elsewhere could not be read; `what` and `remedy` name no value."""

    def __init__(self, what: str, remedy: str = "", *, warning: bool = False) -> None:
        super().__init__(what)
        self.what, self.remedy, self.warning = what, remedy, warning


Resolve = Callable[[SecretRef], str]


class WrongError(ValueError):
    """A value that does not fit."""

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what)
        self.what, self.remedy = what, remedy


def meant(key: str, known: Collection[str]) -> str:
    """Return a question for a name that is not known, "" when none is close."""
    if not key or len(known) > _MOST_QUESTIONS:
        return ""
    close = difflib.get_close_matches(key[:60].lower(), sorted(known), 1)
    return f"Did you mean `{close[0]}`?" if close else ""


def found(value: object) -> str:
    """Return what a value is, in words that do not repeat it."""
    names = {str: "text", bool: "true or false", int: "a whole number", float: "a number"}
    names |= {list: "a list", dict: "a mapping", type(None): "nothing"}
    return names.get(type(value), "something else")


def expected(kind: str, value: object, remedy: str = "") -> WrongError:
    """Return the error for a value of the wrong type."""
    return WrongError(f"Expected {kind}, found {found(value)}.", remedy)


class Shaper:
    """Makes records of plain values, and keeps what was wrong with them."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._converter = self._make_converter()
        self.findings: list[Finding] = []
        self.inline_secrets = False

    def note(self, path: Path, error: Exception) -> None:
        """Keep one error of one value."""
        if isinstance(error, UnresolvedError):
            finding = Finding(path, error.what, error.remedy, error.warning)
        elif isinstance(error, WrongError):
            finding = Finding(path, error.what, error.remedy)
        elif isinstance(error, KeyError):
            finding = Finding(path, f"`{path[-1]}` is missing.", "Add it.")
        else:
            finding = Finding(path, "This does not fit here.", "See the documentation of this key.")
        self.findings.append(finding)

    def unknown(self, path: Path, known: Collection[str]) -> None:
        """Keep a key that means nothing here."""
        key = str(path[-1])
        question = meant(key, known) if len(self.findings) < _MOST_QUESTIONS else ""
        name = f" `{key}`" if question or is_word(key) else ""
        remedy = question or f"Known here: {', '.join(sorted(known))}."
        self.findings.append(Finding(path, f"Unknown key{name}.", remedy, stands=True))

    def mapping(self, data: object, path: Path) -> dict[str, Any]:
        """Return a mapping; nothing counts as an empty one."""
        if isinstance(data, dict):
            return data
        if data is not None:
            self.note(path, expected("a mapping", data))
        return {}

    def items(self, data: object, path: Path) -> list[Any]:
        """Return a list; nothing counts as an empty one."""
        if isinstance(data, list):
            return data
        if data is not None:
            self.note(path, expected("a list", data))
        return []

    def value(self, data: object, kind: Any, path: Path, otherwise: T) -> T:
        """Return one value of a type, `otherwise` when it does not fit."""
        try:
            made: T = self._converter.structure(data, kind)
        except Exception as error:
            for where, cause in _causes(error, path):
                self.note(where, cause)
            return otherwise
        return made

    def record(
        self, data: object, kind: type[T], path: Path, steps: Mapping[str, int] | None = None
    ) -> T:
        """Return a record; fields that do not fit have their default, or a placeholder.

        steps: what a field is called in the file, where that is not its name.
        """
        fields: dict[str, Any] = copy.deepcopy(self.mapping(data, path))
        before = len(self.findings)
        while True:
            try:
                made = self._converter.structure(fields, kind)
                if data is not None and not isinstance(data, dict):
                    del self.findings[before:]
                return made
            except BaseValidationError as error:
                for where, cause in _causes(error, ()):
                    if isinstance(cause, ForbiddenExtraKeysError):
                        self._drop_unknown(_inside(fields, where), cause, (*path, *where))
                    else:
                        step = (steps or {}).get(str(where[0]), where[0])
                        self.note((*path, step, *where[1:]), cause)
                        _take_out(fields, kind, where)

    def _drop_unknown(
        self, fields: dict[str, Any], cause: ForbiddenExtraKeysError, path: Path
    ) -> None:
        for key in sorted(cause.extra_fields):
            self.unknown((*path, key), attrs.fields_dict(cause.cl))
            fields.pop(key, None)

    def secret(self, data: object) -> Secret:
        """Return a secret given as text or as a reference; an empty one counts as not set."""
        if data is None:
            return Secret("")
        if isinstance(data, str):
            text, self.inline_secrets = data, True
        elif ref := as_reference(data):
            text = self._looked_up(ref)
        else:
            raise WrongError(
                "A secret is expected here.", "Give text in quotes, {env: NAME} or {file: PATH}."
            )
        if text.startswith("CHANGE_ME"):
            return Secret("")
        if text != text.strip() or not text.isprintable():
            raise WrongError(
                "The secret has a space at an end, or a character that cannot be seen.",
                "Write it on one line, without it.",
            )
        return Secret(text)

    def loose(self, data: Any, path: Path, name: str = "") -> Any:
        """Return plain values as they are, but for what is a secret by its form or its name."""
        if as_reference(data) or (isinstance(data, str) and is_secret_name(name)):
            try:
                return self.secret(data)
            except (WrongError, UnresolvedError) as error:
                self.note(path, error)
                return Secret("")
        if isinstance(data, dict):
            # whatever stands inside something with a secret's name may be the secret
            inner = name if is_secret_name(name) else ""
            return {key: self.loose(each, (*path, key), inner or key) for key, each in data.items()}
        if isinstance(data, list):
            return [self.loose(each, (*path, at), name) for at, each in enumerate(data)]
        return data

    def _looked_up(self, ref: SecretRef) -> str:
        try:
            text = self._resolve(ref)
        except UnresolvedError:
            raise
        except Exception as error:
            failed = type(error).__name__
        else:
            if text:
                return text
            raise UnresolvedError(f"The {_origin(ref)} is empty.", "Put the secret there.")
        raise UnresolvedError(f"The {_origin(ref)} could not be read ({failed}).")

    def _secrets(self, data: object) -> tuple[Secret, ...]:
        """Return one secret, or the current one and the previous one."""
        if not isinstance(data, list):
            return (made,) if (made := self.secret(data)) else ()
        if len(data) > 2:
            raise WrongError("More than two secrets.", "Give [current, previous] at most.")
        made_list = [self.secret(each) for each in data]
        if made_list and not made_list[0]:
            raise WrongError("The current secret is not set.", "Put it first.")
        return tuple(each for each in made_list if each)

    def _listed(self, data: object, kind: Any) -> tuple[Any, ...]:
        if not isinstance(data, list):
            raise expected("a list", data, "Write it as [a, b].")
        element = get_args(kind)[0]
        made, errors = [], []
        for index, item in enumerate(data):
            try:
                made.append(self._converter.structure(item, element))
            except Exception as error:
                error.add_note(IterableValidationNote("", index, element))
                errors.append(error)
        if errors:
            raise IterableValidationError("", errors, kind)
        return tuple(made)

    def _make_converter(self) -> Converter:
        made = Converter(forbid_extra_keys=True)
        plain: list[tuple[Any, Callable[[Any, Any], Any]]] = [
            (str, _text),
            (int, _whole),
            (float, _number),
            (bool, _yes_no),
        ]
        for kind, hook in plain:
            made.register_structure_hook(kind, hook)
        made.register_structure_hook(Secret, lambda data, _: self.secret(data))
        tests: list[tuple[Callable[[Any], bool], Callable[[Any, Any], Any]]] = [
            (lambda kind: get_origin(kind) is tuple, self._listed),
            (lambda kind: kind == tuple[Secret, ...], lambda data, _: self._secrets(data)),
            (lambda kind: kind == Secret | None, lambda data, _: self.secret(data) or None),
            (lambda kind: get_origin(kind) is Literal, _one_of),
            (lambda kind: kind == Literal["warn"] | bool, _warn_or_bool),
            (lambda kind: kind == Json, _json),
        ]
        for test, hook in tests:
            made.register_structure_hook_func(test, hook)
        made.register_structure_hook_factory(attrs.has, _guarded)
        return made


def is_secret_name(name: str) -> bool:
    """Tell whether a key's name says that its value is a secret."""
    return bool(_SECRET_NAME.fullmatch(name.lower().replace("-", "_")))


def _guarded(kind: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    make = make_dict_structure_fn(kind, converter, _cattrs_forbid_extra_keys=True)

    def structure(data: Any, kind: Any) -> Any:
        if not isinstance(data, dict):
            raise expected("a mapping", data)
        return make(data, kind)

    return structure


def as_reference(data: object) -> SecretRef | None:
    """Return what `{env: NAME}` or `{file: PATH}` refers to, None for anything else."""
    if isinstance(data, dict) and len(data) == 1:
        ((kind, name),) = data.items()
        if kind in ("env", "file") and isinstance(name, str) and name:
            return SecretRef(kind, name)
    return None


def _origin(ref: SecretRef) -> str:
    return "environment variable" if ref.kind == "env" else "file with the secret"


def _text(data: object, _: Any) -> str:
    if isinstance(data, str):
        return data
    raise expected("text", data, "Put it in quotes." if data is not None else "Give a value.")


def _whole(data: object, _: Any) -> int:
    if isinstance(data, int) and not isinstance(data, bool):
        return data
    raise expected("a whole number", data, _number_remedy(data))


def _number(data: object, _: Any) -> float:
    if isinstance(data, int | float) and not isinstance(data, bool) and math.isfinite(data):
        return data
    raise expected("a number", data, _number_remedy(data))


def _number_remedy(data: object) -> str:
    digits = data.replace(":", "").replace("_", "") if isinstance(data, str) else ""
    if digits.isdigit():
        return "Write plain digits: no quotes, no 0 in front, no `_`, no `:`."
    return "Write a number." if data is not None else "Give a value."


def _yes_no(data: object, _: Any) -> bool:
    if isinstance(data, bool):
        return data
    known = isinstance(data, str) and data.lower() in _ON_OFF
    raise expected("true or false", data, "Write true or false." if known else "")


def _one_of(data: object, kind: Any) -> Any:
    choices = get_args(kind)
    if isinstance(data, str) and data in choices:
        return data
    raise WrongError(
        f"Expected one of {', '.join(choices)}.",
        meant(data, choices) if isinstance(data, str) else "",
    )


def _warn_or_bool(data: object, _: Any) -> Any:
    if data == "warn" or isinstance(data, bool):
        return data
    raise WrongError("Expected warn, true or false.")


def _json(data: object, _: Any) -> Any:
    if isinstance(data, dict):
        return data
    if data is None:
        return {}
    raise expected("a mapping", data)


def _causes(error: Exception, path: Path) -> Iterator[tuple[Path, Exception]]:
    """Yield the single errors of a cattrs error, each with its path."""
    if not isinstance(error, BaseValidationError):
        yield path, error
        return
    for each in error.exceptions:
        steps = [
            note.name if isinstance(note, AttributeValidationNote) else note.index
            for note in getattr(each, "__notes__", ())
            if isinstance(note, AttributeValidationNote | IterableValidationNote)
        ]
        yield from _causes(each, (*path, *steps))


def _inside(fields: dict[str, Any], where: Path) -> dict[str, Any]:
    """Return the mapping at a path; an empty one when something around it was taken out."""
    inner: Any = fields
    for step in where:
        try:
            inner = inner[step]
        except KeyError:
            return {}
    assert isinstance(inner, dict)
    return inner


def _take_out(fields: dict[str, Any], kind: Any, where: Path) -> None:
    """Remove the value at a path: the whole field for something in a list or a plain mapping."""
    name, *rest = where
    known = attrs.fields_dict(kind)[str(name)]
    if rest and known.type and attrs.has(known.type) and isinstance(fields.get(str(name)), dict):
        _take_out(fields[str(name)], known.type, tuple(rest))
    elif known.default is attrs.NOTHING:
        fields[str(name)] = _PLACEHOLDERS[known.type]
    else:
        fields.pop(str(name), None)
