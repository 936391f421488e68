"""What every suite of the kit stands on: a fresh bench for each check, and no silent overriding.

Rule of this file: a check is a method whose docstring is its sentence; the documents are printed
from those. Checks run their own event loop, so that a suite needs pytest and nothing else.
"""

import asyncio
import contextlib
import io
import logging
import traceback
from collections.abc import Coroutine, Iterator
from typing import Any, ClassVar

import pytest

from .kit import BEARER, PLANTED, Bench

_PATIENCE_S = 3.0


def reading(check: Any) -> Any:
    """Mark a check that only reads, and may be made against the real API."""
    return pytest.mark.llmao_reading(check)


class Suite:
    """The checks a plugin must pass.

    A subclass that redefines a check is refused with TypeError, unless the new one is marked
    `pytest.mark.xfail` with a reason.
    """

    standard: ClassVar[dict[str, object]] = {}

    def __init_subclass__(cls, *, kit: bool = False, **more: Any) -> None:
        """Take down the checks of a class of the kit; hold every other class to them."""
        super().__init_subclass__(**more)
        inherited = {name: one for base in cls.__mro__[1:]
                     for name, one in getattr(base, "standard", {}).items()}  # fmt: skip
        if kit:
            own = {name: one for name, one in vars(cls).items() if name.startswith("test_")}
            cls.standard = {**inherited, **own}
            return
        for name, one in inherited.items():
            if getattr(cls, name, None) is not one and not _excused(getattr(cls, name, None)):
                raise TypeError(
                    f"{cls.__name__}.{name} overrides a check of the kit: mark it "
                    "pytest.mark.xfail(reason=…), or leave it alone"
                )

    def make_bench(self) -> Bench:
        """Return a bench with an empty far end."""
        raise NotImplementedError(f"{type(self).__name__}.make_bench must return a bench")

    @pytest.fixture
    def bench(self) -> Iterator[Bench]:
        """Give each check a bench of its own."""
        bench = self.make_bench()
        with bench.at_work():
            yield bench


def _excused(check: object) -> bool:
    return any(
        mark.name == "xfail" and str(mark.kwargs.get("reason", "")).strip()
        for mark in getattr(check, "pytestmark", ())
    )


# ---- for the checks


class Overheard(logging.Handler):
    """Everything that was printed, logged, raised or returned while it listened."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a log record, arguments and all."""
        self.said.append(f"{record.getMessage()} {vars(record)!r}")

    def note(self, what: object) -> None:
        """Keep a value as people would see it, and an exception with all that led to it."""
        if isinstance(what, BaseException):
            self.said.append("".join(traceback.format_exception(what)))
        self.said += [repr(what), str(what)]

    def secrets(self, *secrets: str) -> list[str]:
        """Return those secrets that got out."""
        return [secret for secret in secrets if any(secret in said for said in self.said)]


@contextlib.contextmanager
def overheard() -> Iterator[Overheard]:
    """Listen to logs of every level and to what is printed."""
    ear, root, printed = Overheard(), logging.getLogger(), io.StringIO()
    level = root.level
    root.addHandler(ear)
    root.setLevel(logging.DEBUG)
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            yield ear
    finally:
        root.removeHandler(ear)
        root.setLevel(level)
        ear.said.append(printed.getvalue())


def secrets_of(bench: Bench) -> tuple[str, ...]:
    """Return what must not get out."""
    return bench.key, PLANTED, BEARER


def skip_if_it_cannot(bench: Bench, kind: Any) -> None:
    """Skip a mishap that this API has no form of, with the reason the bench gives."""
    if kind in bench.cannot:
        assert bench.cannot[kind].strip(), f"the bench gives no reason against {kind.value}"
        pytest.skip(bench.cannot[kind])


def ends_when_cancelled(bench: Bench, work: Coroutine[Any, Any, object]) -> bool:
    """Cancel work while the far end lets it wait, and tell whether it ended by that."""

    async def cancelled() -> bool:
        task = asyncio.ensure_future(work)
        held = asyncio.ensure_future(bench.wire.held.wait())
        await asyncio.wait([task, held], timeout=_PATIENCE_S, return_when="FIRST_COMPLETED")
        held.cancel()
        task.cancel()
        await asyncio.wait([task], timeout=_PATIENCE_S)
        return task.cancelled()

    return asyncio.run(cancelled())
