"""What commands print on a terminal and in a pipe: tables, and colours where they are wanted."""

import contextlib
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .test_cli_status import OPEN, Running

LLMAO = str(Path(sys.executable).with_name("llmao"))
ENV = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", "COLUMNS": "120"}
DRAWN = re.compile("[\u2500-\u257f]")
COLOUR = re.compile(r"\x1b\[[0-9;]*\b(3[0-8]|4[0-8]|9[0-7])[0-9;]*m")
PATIENCE_S = 60


def on_terminal(folder: Path, *arguments: str, **env: str) -> str:
    """Return what a command prints on a terminal, its errors included."""
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as screen:
        process = subprocess.Popen(
            [LLMAO, *arguments], stdin=theirs, stdout=theirs, stderr=theirs,
            env={**ENV, **env}, cwd=folder,
        )  # fmt: skip
        os.close(theirs)
        said = b""
        with contextlib.suppress(OSError):  # how Linux says that nobody writes any more
            while part := screen.read(4096):
                said += part
        process.wait(PATIENCE_S)
    return said.decode()


def in_a_pipe(folder: Path, *arguments: str) -> str:
    ran = subprocess.run(
        [LLMAO, *arguments], capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        env=ENV, cwd=folder,
    )  # fmt: skip
    return ran.stdout


@pytest.mark.parametrize("command", ["providers", "status"])
def test_a_table_is_drawn_on_a_terminal_and_plain_in_a_pipe(tmp_path: Path, command: str) -> None:
    """Lines and bold heads for people; for programs one line for each row, tabs between columns."""
    with Running(OPEN) as llmao:
        asked = [command, "--url", llmao.url] if command == "status" else [command]
        screen, pipe = on_terminal(tmp_path, *asked), in_a_pipe(tmp_path, *asked)
    columns = {"providers": ["plugin", "source", "reads", "every", "configured", "carries out"],
               "status": ["MODEL", "STATUS", "REPLICAS", "CONTEXT"]}[command]  # fmt: skip
    name = {"providers": "runpod", "status": "gemma4-26b"}[command]
    assert DRAWN.search(screen)
    assert "\x1b[1m" in screen
    assert "\t" not in screen
    assert name in screen
    head, *rows = (line.split("\t") for line in pipe.splitlines() if not line.startswith("# "))
    assert columns == head
    assert name in [row[0] for row in rows]
    assert not DRAWN.search(pipe)
    assert "\x1b" not in pipe


def test_no_colour_where_none_is_wanted(tmp_path: Path) -> None:
    """NO_COLOR takes the colours of a mistake away, and leaves the table drawn."""
    (tmp_path / "config.yaml").write_text("fleet: 3\n")
    for command in ("providers", "check", "bearer"):
        arguments = [command, "c.1", "8001"] if command == "bearer" else [command]
        coloured = on_terminal(tmp_path, *arguments)
        plain = on_terminal(tmp_path, *arguments, NO_COLOR="1")
        assert COLOUR.search(coloured), command
        assert not COLOUR.search(plain), command
        assert "config.yaml:1" in plain
    assert DRAWN.search(on_terminal(tmp_path, "providers", NO_COLOR="1"))
