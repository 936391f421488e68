"""What llmao answers, read by the installer: hostile until read."""

import json
from typing import Any

import pytest
from box.install_set import Assignment, NotYetError, RefusedError, Server, option, read_answer
from tests.web.worlds import fleet

from llmao_core.box_config import answers
from llmao_core.intended import build

from .lab import answer


def test_llmaos_own_answer_is_read() -> None:
    """Every server with all its figures, as llmao itself puts it."""
    box = answers(build(fleet()))["203.0.113.10"]
    read = read_answer(box.body)
    assert box.revision == read.revision
    gemma, qwen = read.servers
    assert (
        Server(
            "gemma4-26b",
            "google/gemma-4-26b-it",
            "gemma4-26b",
            8001,
            gemma.api_key,
            ("--reasoning-parser", "gemma"),
            max_model_len=32768,
            vram_gb=18,
            disk_gb=60,
        )
        == gemma
    )
    assert ("q", 8002, "hf") == (qwen.name, qwen.port, qwen.source)
    assert gemma.api_key.startswith("sk-vllm-")
    assert gemma.api_key not in repr(read)


def test_nothing_to_serve_is_an_answer() -> None:
    """All programs are taken away then."""
    assert Assignment("r1-abc", ()) == read_answer(answer())


def test_arguments_may_be_one_line() -> None:
    """Split as a shell would."""
    read = read_answer(answer({"args": "--a 'b c' --d"}))
    assert ("--a", "b c", "--d") == read.servers[0].args


def test_what_a_later_llmao_adds_is_ignored() -> None:
    """An installer in a template is older than llmao most of the time."""
    assert 1 == len(read_answer(answer({"color": {"x": 1}})).servers)


GARBLED = [
    b"",
    b"<html>",
    b"[]",
    b"null",
    b"1",
    b"{}",
    b'{"servers": []}',
    b'{"revision": "r1", "servers": {}}',
    b'{"revision": "a b", "servers": []}',
    b'{"revision": null, "servers": []}'.replace(b"null", b'"\\u0000"'),
    b"\xff\xfe",
    b"[" * 100_000,
]


@pytest.mark.parametrize("body", GARBLED, ids=range(len(GARBLED)))
def test_what_is_no_answer_is_asked_for_again(body: bytes) -> None:
    """A proxy's own page, as while llmao is being restarted."""
    with pytest.raises(NotYetError):
        read_answer(body)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": "a b"}, "process"),
        ({"name": "../x"}, "process"),
        ({"name": "a;b"}, "process"),
        ({"name": 'a"b'}, "process"),
        ({"name": "a%b"}, "process"),
        ({"name": "ünï"}, "process"),
        ({"name": ""}, "process"),
        ({"name": None}, "process"),
        ({"name": "a\nb"}, "process"),
        ({"port": 0}, "port"),
        ({"port": 70000}, "port"),
        ({"port": "8001"}, "port"),
        ({"port": True}, "port"),
        ({"name": "n" * 10_000_000}, "process"),
        ({"model": ""}, "argument"),
        ({"model": None}, "argument"),
        ({"model": "--port"}, "option"),
        ({"served_model_name": "-x"}, "option"),
        ({"api_key": ""}, "open"),
        ({"api_key": None}, "open"),
        ({"api_key": 'a"b'}, "selfhost_api_key"),
        ({"api_key": "a'b"}, "selfhost_api_key"),
        ({"api_key": "a ;b"}, "selfhost_api_key"),
        ({"api_key": "a #b"}, "selfhost_api_key"),
        ({"api_key": "schlüssel"}, "selfhost_api_key"),
        ({"api_key": "a\nb"}, "selfhost_api_key"),
        ({"api_key": " begins-with-a-blank"}, "selfhost_api_key"),
        ({"api_key": "a\\"}, "selfhost_api_key"),
        ({"args": 5}, "list"),
        ({"args": {"a": "b"}}, "list"),
        ({"args": ["a\nb"]}, "line break"),
        ({"args": [""]}, "empty"),
        ({"args": [5]}, "no text"),
        ({"args": "a 'b"}, "quotation"),
        ({"args": ["--tensor-parallel-size", "many"]}, "cards"),
        ({"args": ["-tp", "0"]}, "cards"),
        ({"args": ["-tp", "9" * 5000]}, "cards"),
        ({"args": ["--gpu-memory-utilization", "1.9"]}, "between 0 and 1"),
        ({"args": ["--gpu-memory-utilization"]}, "between 0 and 1"),
        ({"vram_gb": "18"}, "vram_gb"),
        ({"vram_gb": -1}, "vram_gb"),
        ({"disk_gb": True}, "disk_gb"),
        ({"max_model_len": 1e300}, "max_model_len"),
        ({"max_model_len": 0.5}, "whole number"),
        ({"vram_gb": 10**400}, "vram_gb"),
        ({"gpu_memory_utilization": 0}, "gpu_memory_utilization"),
        ({"source": {"kind": "url"}}, "url"),
        ({"source": {"kind": "registry"}}, "registry"),
        ({"source": {"kind": "a tape"}}, "a tape"),
    ],
)
def test_what_cannot_be_carried_out_is_refused(given: dict[str, Any], said: str) -> None:
    """With the server's name where it has one, and never with its bearer."""
    with pytest.raises(RefusedError) as refused:
        read_answer(answer(given))
    assert said in str(refused.value)
    assert len(str(refused.value)) < 250
    key = given.get("api_key")
    assert not key or key not in str(refused.value)


@pytest.mark.parametrize(
    ("first", "second"), [({"port": 9}, {"port": 9}), ({"name": "a"}, {"name": "A"})]
)
def test_two_of_a_kind_are_refused(first: dict[str, Any], second: dict[str, Any]) -> None:
    """Two vLLM on one port both start, and one is deaf."""
    with pytest.raises(RefusedError, match="two servers"):
        read_answer(answer(first, second))


@pytest.mark.parametrize(
    ("args", "cards"),
    [
        ([], 1),
        (["--tensor-parallel-size", "2"], 2),
        (["--tensor-parallel-size=2"], 2),
        (["--tensor_parallel_size", "2"], 2),
        (["--tensor-parallel", "4"], 4),
        (["-tp", "2"], 2),
        (["-tp", "2", "-tp", "4"], 4),
        (["-tp", "2", "--pipeline-parallel-size", "2"], 4),
        (["-tp", "2", "-pp=2", "-dp", "2"], 8),
        (["--tensor-parallel-size", "1"], 1),
        (["--tensor-parallel-size"], 1),
    ],
)
def test_how_many_cards_a_server_wants(args: list[str], cards: int) -> None:
    """In every spelling that vLLM's parser takes."""
    assert cards == read_answer(answer({"args": args})).servers[0].cards


def test_a_fraction_in_the_arguments_counts_as_explicit() -> None:
    """vLLM would take it over ours, so the division must know."""
    for args in (["--gpu_memory_utilization=0.3"], ["--device-memory-utilization", "0.3"]):
        read = read_answer(answer({"args": args, "gpu_memory_utilization": 0.9}))
        assert 0.3 == read.servers[0].fraction


def test_an_option_that_is_not_there() -> None:
    """None, and no other option is taken for it."""
    assert option(["--gpu", "1", "--max-model-len", "2"], "--gpu-memory-utilization") is None


def test_nothing_in_the_answer_is_needed_that_llmao_may_leave_out() -> None:
    """Only what every server has."""
    least = json.loads(answer({}))["servers"][0]
    assert {"name", "model", "served_model_name", "host", "port", "api_key", "args"} == set(least)
