"""A plugin wrong in one way fails the check that claims to catch it; a right one fails none."""

import pytest
from tests.kit import bugs_boxes, bugs_reading
from tests.kit.planting import BUGS
from tests.kit.running import verdict
from tests.kit.toy import Toy, ToyBench

from llmao_core.testing.kit_listing import ListingProviderTests as Suite


def _bench(toy: type[Toy]) -> type[ToyBench]:
    return type(f"{toy.__name__}Bench", (ToyBench,), {"toy": toy})


@pytest.mark.parametrize(("toy", "check"), BUGS, ids=lambda one: getattr(one, "__name__", one))
def test_a_planted_bug_is_caught(toy: type[Toy], check: str) -> None:
    """The check that is there for it fails."""
    assert "" != verdict(Suite, check, _bench(toy))


@pytest.mark.parametrize("check", Suite.standard)
def test_a_right_plugin_passes(check: str) -> None:
    """A check that fails for everybody catches nothing."""
    assert "" == verdict(Suite, check, ToyBench)


def test_every_check_was_seen_to_fail() -> None:
    """A check that cannot fail is a defect: each has a bug of its own."""
    assert set(Suite.standard) == {check for _, check in BUGS}


def test_both_files_of_bugs_are_read() -> None:
    """A file of bugs that nobody imports plants none."""
    files = {toy.__module__ for toy, _ in BUGS}
    assert {bugs_boxes.__name__, bugs_reading.__name__} == files
