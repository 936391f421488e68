"""`/metrics` is read down to what was counted, and hostile text to nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmao_core.probes import Counters
from llmao_core.testing.fake_vllm_metrics import Load, Tally, metrics_text
from llmao_web.shell.metrics_text import _NAMES, read_counters

TALLY = Tally(created=1.7e9, generated=3680.0, prompt=134.0, finished=16.0)
LOAD = Load(running=8, waiting=10, kv_usage=0.92)


def needed(**values: object) -> str:
    texts = {"generation_tokens_total": 1, "num_requests_running": 2, "num_requests_waiting": 3}
    return "".join(
        f'vllm:{name}{{engine="0"}} {value}\n' for name, value in {**texts, **values}.items()
    )


def test_what_vllm_says_is_what_is_read() -> None:
    """Every number of a real-looking answer, and none of its `_created` gauges."""
    expected = Counters(
        generated=3680.0,
        prompt=134.0,
        finished=16.0,
        kv_usage=0.92,
        running=8.0,
        waiting=10.0,
        first_tokens=24.0,
        kv_tokens=2_097_152,
        first_token_s=12.0,
    )
    assert expected == read_counters(metrics_text("tiny", LOAD, TALLY, 2_097_152))


def test_engines_are_summed() -> None:
    """Two engines count together; their KV usage is the mean, for it stays a share."""
    one = metrics_text("tiny", LOAD, TALLY, 1280)
    two = one.replace('engine="0"', 'engine="1"').replace("} 0.92", "} 0.5")
    both = read_counters(one + two)
    assert both is not None
    assert (7360.0, 16.0, 32.0, 2560) == (
        both.generated,
        both.running,
        both.finished,
        both.kv_tokens,
    )
    assert pytest.approx(0.71) == both.kv_usage


@pytest.mark.parametrize(
    ("labels", "tokens"),
    [
        ('kv_cache_size_tokens="100",num_gpu_blocks="2",block_size="16"', 100),
        ('num_gpu_blocks="2",block_size="16"', 32),
        ('kv_cache_size_tokens="None",num_gpu_blocks="2",block_size="16"', 32),
        ('kv_cache_size_tokens="0"', None),
        ('num_gpu_blocks="None",block_size="16"', None),
        ('kv_cache_size_tokens="-5"', None),
        ('kv_cache_size_tokens="1e3"', None),
        ('kv_cache_size_tokens="' + "9" * 5000 + '"', None),
        ('x="y"', None),
    ],
)
def test_capacity(labels: str, tokens: int | None) -> None:
    """Said outright, else blocks times their size, else unknown."""
    seen = read_counters(needed() + f"vllm:cache_config_info{{{labels}}} 1.0\n")
    assert seen is not None
    assert tokens == seen.kv_tokens


def test_one_silent_engine_makes_capacity_unknown() -> None:
    """A part is not the whole."""
    known = 'vllm:cache_config_info{engine="0",kv_cache_size_tokens="5"} 1.0\n'
    silent = 'vllm:cache_config_info{engine="1"} 1.0\n'
    seen = read_counters(needed() + known + silent)
    assert seen is not None
    assert seen.kv_tokens is None


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf"])
def test_a_value_that_is_no_number_is_absent(value: str) -> None:
    """NaN differs from itself: taken as a value, a hung engine would seem to move."""
    assert read_counters(needed(generation_tokens_total=value)) is None
    seen = read_counters(needed(prompt_tokens_total=value))
    assert seen is not None
    assert seen.prompt == 0.0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<html>",
        "python_gc_objects_collected_total 5\n",
        'vllm:generation_tokens_created{engine="0"} 5\n',
        needed().replace("_total", "_total_created").replace("_waiting", "_waiting_by_reason"),
        needed().replace("vllm:", "sglang:"),
        needed() + "vllm:prompt_tokens_total{ 5\n",
        needed() + 'vllm:prompt_tokens_total{a="b"} five\n',
    ],
)
def test_what_is_no_vllm_is_unknown(text: str) -> None:
    """None, not zeros."""
    assert read_counters(text) is None


def test_a_flood_is_cut() -> None:
    """Neither a line without end nor lines without number are read to their end."""
    long = 'vllm:prompt_tokens_total{a="' + "b" * 5_000_000 + '"} 1\n'
    assert read_counters(needed() + long) == read_counters(needed())
    many = "vllm:prompt_tokens_total 1\n" * 200_000
    seen = read_counters(needed() + many)
    assert seen is not None
    assert seen.prompt < 5000


NAMES = st.sampled_from([name + after for name in _NAMES for after in ("{", " ", "")])
LINES = st.lists(st.tuples(NAMES, st.text()).map("".join))


@given(st.text() | LINES.map("\n".join))
def test_any_text_is_read(text: str) -> None:
    """Never an exception, and a share stays a share."""
    for seen in (read_counters(text), read_counters(needed() + text)):
        assert seen is None or 0.0 <= seen.kv_usage <= 1.0
