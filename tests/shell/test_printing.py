"""What commands print of an attention item: on a terminal in lines that fit, else one line each."""

import sys

import pytest

from llmao_web.commands.printing import item_lines

SENTENCE = "Nobody can call qwen3-8b, because the only server of it is down for 12 min."
REMEDY = (
    "On its box `supervisorctl tail vllm-qwen3-8b`, then `supervisorctl restart vllm-qwen3-8b`."
)


def terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))


def test_in_a_pipe_each_is_one_line() -> None:
    """For programs that read lines."""
    assert [f"! {SENTENCE}", f"    What to do: {REMEDY}"] == item_lines(SENTENCE, REMEDY)


@pytest.mark.parametrize("columns", [20, 60, 200])
def test_on_a_terminal_it_is_wrapped(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """No line is longer than the terminal, but for one word that is; nothing is lost."""
    terminal(monkeypatch, columns)
    lines = item_lines(SENTENCE, REMEDY)
    assert all(len(one) <= columns or 1 == len(one.split()) for one in lines)
    assert f"! {SENTENCE} What to do: {REMEDY}".split() == " ".join(lines).split()
    assert lines[0].startswith("! Nobody")
    assert all(one.startswith("  ") for one in lines[1:])


def test_what_a_terminal_would_act_upon_is_shown_as_a_dot() -> None:
    """Whoever sent it."""
    first, second = item_lines("a\x1b[2Jb", "c\nd")
    assert ("! a·[2Jb", "    What to do: c·d") == (first, second)
