"""Runs checks of the kit as plain functions, so that tests can see them fail."""

from collections.abc import Iterator
from typing import Any

import pytest

from llmao_core.testing.kit import Bench


def verdict(suite: type[Any], check: str, bench: type[Bench]) -> str:
    """Return why a check fails on a bench, "" if it passes with all its parameters."""
    method = suite.standard[check]
    for parameters in _parameters(method):
        made = bench()
        try:
            with made.at_work():
                method(suite(), made, **parameters)
        except pytest.skip.Exception:
            continue
        except (Exception, pytest.fail.Exception) as error:
            return f"{type(error).__name__}: {error}"
    return ""


def _parameters(method: Any) -> Iterator[dict[str, Any]]:
    for mark in getattr(method, "pytestmark", ()):
        if mark.name == "parametrize":
            name, values = mark.args
            yield from ({name: value} for value in values)
            return
    yield {}
