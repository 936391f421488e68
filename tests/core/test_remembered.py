"""What is remembered is worked out again as soon as anything else is asked.

Rule of this file: results are told apart by identity, as the arguments are.
"""

from llmao_core.remembered import Remembered


def _together(name: str, *of: list[int]) -> list[list[int]]:
    return list(of)


def test_same_objects_come_to_the_same_result() -> None:
    """The work is done once for the same objects under the same name."""
    together, one = Remembered(_together, most=10), [1]
    assert together("a", one) is together("a", one)


def test_equal_objects_are_worked_out_again() -> None:
    """An equal object is another object: nothing is compared but identity."""
    together = Remembered(_together, most=10)
    first = together("a", [1])
    assert first is not together("a", [1])
    assert first == together("a", [1])


def test_more_arguments_are_another_question() -> None:
    """A result for fewer arguments does not answer for more, nor the other way round."""
    together, one, two = Remembered(_together, most=10), [1], [2]
    assert [one] == together("a", one)
    assert [one, two] == together("a", one, two)
    assert [one] == together("a", one)


def test_only_so_many_names_are_kept() -> None:
    """Past the limit everything is forgotten, so that memory stays bounded."""
    together, one = Remembered(_together, most=2), [1]
    first = together("a", one)
    for name in ("b", "c"):
        together(name, one)
    assert first is not together("a", one)
