"""Supervisor programs: what is written is what the real supervisor reads, or nothing is written."""

import warnings
from pathlib import Path
from typing import Any

import pytest
from box.install_set import (
    MARK,
    Changes,
    Layout,
    Place,
    RefusedError,
    Server,
    compare,
    program,
    quote_argument,
    quote_value,
    read_program,
    serve_command,
)
from hypothesis import given
from hypothesis import strategies as st

from box import install_set

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from supervisor.options import (  # type: ignore[import-untyped]
        ServerOptions,
        UnhosedConfigParser,
    )

LAYOUT = Layout(Path("/u"), Path("/d"), "/usr/bin/python3", "/opt/vllm", "/d/huggingface")


def real(text: str, section: str) -> tuple[list[str], dict[str, str]]:
    """Return what the real supervisor makes of a program."""
    parser = UnhosedConfigParser()
    parser.expansions = {}
    # supervisor looks whether the folder of the log is there
    parser.read_string(text.replace("/d/logs/gemma.log", "/dev/null"))
    options = ServerOptions()
    options.configroot = type("Root", (), {"supervisord": type("Daemon", (), {})()})()
    options.configroot.supervisord.environment = {}
    [found] = options.processes_from_section(parser, section, "g", _Process)
    argv: list[str] = found.given["command"].split("\0")
    return argv, found.given["environment"]


class _Process:
    """Takes the settings of a program in the place of supervisor's own record."""

    def __init__(self, _options: Any, **given: Any) -> None:
        import shlex

        self.given = {**given, "command": "\0".join(shlex.split(given["command"]))}


def a_server(**more: Any) -> Server:
    given = {"api_key": "sk-abc_123", "args": ("--reasoning-parser", "gemma"), **more}
    return Server("gemma", "google/gemma", "gemma-public", 8001, **given)


SHARED = Place((0,), "0.46", ("other",))


def write(server: Server) -> str:
    return program(server, SHARED, LAYOUT, {"gemma": 8001, "other": 8002})


def test_a_program_as_a_whole() -> None:
    """Exactly the settings that a real vLLM under a real supervisord was seen to need."""
    expected = f"""{MARK}
[program:vllm-gemma]
command=/usr/bin/python3 -I /u/llmao/llmao_box.py run gemma 8001 other:8002 -- \
/opt/vllm serve google/gemma --host 0.0.0.0 --port 8001 --served-model-name gemma-public \
--shutdown-timeout 30 --middleware llmao_box.RequireBearer --max-model-len 4096 \
--gpu-memory-utilization 0.46 --reasoning-parser gemma
environment=VLLM_API_KEY="sk-abc_123",HF_HOME="/d/huggingface",CUDA_DEVICE_ORDER="PCI_BUS_ID",\
CUDA_VISIBLE_DEVICES="0"
autorestart=true
startsecs=900
startretries=3
stopsignal=TERM
stopwaitsecs=45
stopasgroup=false
killasgroup=true
redirect_stderr=true
stdout_logfile=/d/logs/gemma.log
"""
    assert expected == write(a_server(max_model_len=4096))


def test_a_fraction_in_the_arguments_is_not_given_twice() -> None:
    """The recipe's own spelling stands alone."""
    args = ("--gpu_memory_utilization=0.3",)
    command = serve_command(a_server(args=args, fraction=0.3), Place((0,), "0.3"), "vllm")
    assert ["--gpu_memory_utilization=0.3"] == [word for word in command if "utilization" in word]


ARGUMENTS = [
    "plain",
    "with blank",
    "100%",
    "a%(ENV_PATH)s",
    "%%",
    "a;b",
    "a ;b",
    "a #b",
    ";",
    "#",
    " ; ",
    "a'b",
    'a"b',
    """both ' and " ;x""",
    "back\\slash",
    "ends\\",
    '{"method": "ngram", "n": 3}',
    "$HOME `id` && *",
    "ünïcødé → 名前",
    "key=value",
    "a=b,c=d",
    "[program:x]",
    "' ;",
    " # '' ; \" ; ",
]


@pytest.mark.parametrize("argument", ARGUMENTS)
def test_an_argument_reaches_vllm_as_it_is(argument: str) -> None:
    """Through the real supervisor's own parser, whatever is in it."""
    text = write(a_server(args=("--x", argument, "--y")))
    argv, _ = real(text, "program:vllm-gemma")
    assert ["--x", argument, "--y"] == argv[-3:]
    assert (argv, real(text, "program:vllm-gemma")[1]) == read_program(text)


KEYS = ["sk-abc_123", "sk==", "a=b", "a,b", "a b", "a;b", "a#b", "a%20b", "%", "100%", "$X!", "{:}"]


@pytest.mark.parametrize("key", KEYS)
def test_a_bearer_reaches_vllm_as_it_is(key: str) -> None:
    """Through the real supervisor's own parser."""
    text = write(a_server(api_key=key))
    _, env = real(text, "program:vllm-gemma")
    assert key == env["VLLM_API_KEY"]


@pytest.mark.parametrize("value", ["a ;b", "a #b", 'a"b', "a'b", "a\\b", "'a'", "a\nb", "a\x00b"])
def test_a_value_that_would_be_cut_is_refused(value: str) -> None:
    """Several of these supervisor shortens in silence: to another, weaker key."""
    with pytest.raises(RefusedError):
        quote_value(value)


def test_what_would_be_read_otherwise_is_never_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """The net below the quoting: each program is read back before it is used."""
    monkeypatch.setattr(install_set, "quote_argument", str)
    assert write(a_server())
    for argument in ("a ;b", "a b", "it's", "100%"):
        with pytest.raises(RefusedError, match="otherwise than meant"):
            write(a_server(args=(argument,)))


# from supervisor 4.3.0: as written after `environment=`, and what a program got; None: refused
TABLE: list[tuple[str, dict[str, str] | None]] = [
    ('K="abc"', {"K": "abc"}),
    ("K='abc'", {"K": "abc"}),
    ("K=abc", {"K": "abc"}),
    ('K="100%%"', {"K": "100%"}),
    ('K="a%c"', None),
    ('K="100%"', None),
    ('K="a,b"', {"K": "a,b"}),
    ('K="a;b"', {"K": "a;b"}),
    ('K="a#b"', {"K": "a#b"}),
    ('K="sk==",', {"K": "sk=="}),
    ('K="back\\slash"', {"K": "back\\slash"}),
    ('K="ünï"', {"K": "ünï"}),
    ('K="$X"', {"K": "$X"}),
    ("K='a\"b'", {"K": 'a"b'}),
    ('K="a ;b"', None),
    ('K="a #b"', None),
    ('K="a""b"', {"K": "a"}),
    ('K="abc\'"', {"K": "abc"}),
    ("K=a b", {"K": "a"}),
    ("K=a#b", {"K": "a"}),
    ("K=a,b", None),
    ("K=a=b", None),
    ("K=", None),
    ('A="x",B="y"', {"A": "x", "B": "y"}),
    ('A="x" B="y"', None),
    ('K="%(ENV_NOT_THERE)s"', None),
]


@pytest.mark.parametrize(("written", "expected"), TABLE)
def test_our_reader_reads_as_supervisor_does(written: str, expected: dict[str, str] | None) -> None:
    """Ours is what stands between a silent cut and a running server, so it must not be kinder."""
    text = f"[program:x]\ncommand=true\nenvironment={written}\n"
    ours = read_program(text)
    assert expected == (ours[1] if ours else None)
    try:
        theirs = real(text, "program:x")[1]
    except (ValueError, KeyError):
        theirs = None
    assert expected == theirs


texts = st.text(st.characters(exclude_categories=["C", "Z"], include_characters=" "), min_size=1)


@given(st.lists(texts.filter(str.isprintable), max_size=4))
def test_any_printable_arguments_survive(args: list[str]) -> None:
    """Read back by supervisor: the very same list."""
    text = write(a_server(args=tuple(args)))
    argv, _ = real(text, "program:vllm-gemma")
    assert args == argv[len(argv) - len(args) :]


@given(st.text(max_size=20))
def test_any_value_survives_or_is_refused(value: str) -> None:
    """There is no third way."""
    try:
        written = quote_value(value)
    except RefusedError:
        return
    text = f"[program:x]\ncommand=true\nenvironment=K={written}\n"
    assert {"K": value} == real(text, "program:x")[1]


def test_a_plain_argument_stays_readable() -> None:
    """Who looks into a program on a box reads what they wrote."""
    assert "--max-model-len" == quote_argument("--max-model-len")


U = Path("/u")


def test_what_changed() -> None:
    """Equal files are left alone, so that an unchanged server is not restarted."""
    found = {U / "vllm-a.conf": "1", U / "vllm-b.conf": "1", U / "vllm-c.conf": "1"}
    wanted = {U / "vllm-a.conf": "1", U / "vllm-b.conf": "2", U / "vllm-d.conf": "1"}
    expected = Changes(
        write={U / "vllm-b.conf": "2", U / "vllm-d.conf": "1"},
        remove=(U / "vllm-c.conf",),
        restarted=("b",),
    )
    assert expected == compare(wanted, found)
    assert not compare(found, found)
