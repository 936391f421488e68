"""Money in words."""

import pytest

from llmao_core.prices import dollars, per_hour, rent


@pytest.mark.parametrize(
    ("amount", "words"),
    [
        (0.0, "$0.00"),
        (0.09, "$0.09"),
        (0.045, "$0.045"),
        (0.1, "$0.10"),
        (0.7342, "$0.73"),
        (2.0, "$2.00"),
        (1234.5, "$1,234.50"),
    ],
)
def test_an_amount_has_its_cents(amount: float, words: str) -> None:
    """A third digit stands only where a cent is much."""
    assert words == dollars(amount)
    assert f"{words}/h" == per_hour(amount)


@pytest.mark.parametrize(
    ("price", "running", "words"),
    [
        (0.09, True, "$0.09/h"),
        (0.09, False, "$0.09/h"),
        (0.0, False, "$0.00/h now (not running)"),
        (0.0, True, "$0.00/h"),
        (None, False, "price not listed yet"),
        (None, True, "price not listed"),
    ],
)
def test_unknown_is_not_nothing(price: float | None, running: bool, words: str) -> None:
    """And nothing is what it is for now."""
    assert words == rent(price, running=running)
