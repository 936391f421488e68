"""The pages about plugins say what the code says."""

from pathlib import Path

import pytest

from llmao_core.testing.kit_docs import EXAMPLE, PAGES, filled

COMMAND = "python -m llmao_core.testing.kit_docs"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_is_what_the_code_prints(page: Path) -> None:
    """Hook signatures, checks, mishaps and the example's code are those of the code."""
    assert filled(page.read_text()) == page.read_text(), f"stale: run {COMMAND}"


def test_the_example_is_in_the_page_whole() -> None:
    """The code that is walked through is the file itself, to the letter."""
    page = PAGES[0].read_text()
    for file in ("llmao_static.py", "llmao_static_bench.py", "pyproject.toml"):
        assert (EXAMPLE / file).read_text() in page


def test_a_stale_page_is_noticed() -> None:
    """A word that was changed by hand between two marks is printed over."""
    page = PAGES[1].read_text()
    changed = page.replace("def llmao_check(config: Config)", "def llmao_check(settings: Config)")

    assert page != changed
    assert page == filled(changed)
