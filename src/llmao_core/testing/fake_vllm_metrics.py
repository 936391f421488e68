"""What a vLLM counts, and the text of its `/metrics`.

Rule of this file: names, labels and buckets are vLLM's own; every counter has its `_created`
gauge, the trap for whoever matches names by their beginning.
"""

from collections.abc import Iterator, Sequence

from attrs import evolve, frozen

_BLOCK_TOKENS = 128
_TTFT_BUCKETS = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
)  # fmt: skip
_LATENCY_BUCKETS = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 7680.0,
)  # fmt: skip
_REASONS = ("stop", "length", "abort", "error", "repetition")


@frozen
class Load:
    """What an engine is doing: how much at once, and how fast its counters move."""

    running: int = 0
    waiting: int = 0
    kv_usage: float = 0.0
    generated_per_s: float = 0.0
    prompt_per_s: float = 0.0
    finished_per_s: float = 0.0


@frozen
class Tally:
    """What has been counted since it started, as of `at`. created: when it started."""

    created: float
    at: float | None = None
    generated: float = 0.0
    prompt: float = 0.0
    finished: float = 0.0

    def after(self, load: Load, now: float) -> "Tally":
        """Return it as it stands at `now`, after this load since `at`."""
        spent_s = max(now - (self.created if self.at is None else self.at), 0.0)
        return evolve(
            self,
            at=now,
            generated=self.generated + load.generated_per_s * spent_s,
            prompt=self.prompt + load.prompt_per_s * spent_s,
            finished=self.finished + load.finished_per_s * spent_s,
        )

    def served(self, prompt: int, generated: int) -> "Tally":
        """Return it with one more request done."""
        return evolve(
            self,
            generated=self.generated + generated,
            prompt=self.prompt + prompt,
            finished=self.finished + 1,
        )


def metrics_text(model: str, load: Load, tally: Tally, kv_tokens: int) -> str:
    """Return the answer to GET /metrics."""
    labels = f'engine="0",model_name="{model}"'
    finished = float(int(tally.finished))
    return "".join(
        (
            *_gauge("num_requests_running", labels, float(load.running)),
            *_gauge("num_requests_waiting", labels, float(load.waiting)),
            *_gauge("kv_cache_usage_perc", labels, load.kv_usage),
            *_counter("num_preemptions", labels, 0.0, tally.created),
            *_counter("prompt_tokens", labels, float(int(tally.prompt)), tally.created),
            *_counter("generation_tokens", labels, float(int(tally.generated)), tally.created),
            *_successes(labels, finished, tally.created),
            *_histogram(
                "time_to_first_token_seconds", labels, _TTFT_BUCKETS, finished + load.running
            ),
            *_histogram("e2e_request_latency_seconds", labels, _LATENCY_BUCKETS, finished),
            *_histogram("request_queue_time_seconds", labels, _LATENCY_BUCKETS, finished),
            *_cache_config(kv_tokens),
        )
    )


def _head(name: str, kind: str) -> str:
    return f"# HELP vllm:{name} What vLLM says about it.\n# TYPE vllm:{name} {kind}\n"


def _gauge(name: str, labels: str, value: float) -> Iterator[str]:
    yield _head(name, "gauge")
    yield f"vllm:{name}{{{labels}}} {value}\n"


def _counter(name: str, labels: str, value: float, created: float) -> Iterator[str]:
    yield _head(f"{name}_total", "counter")
    yield f"vllm:{name}_total{{{labels}}} {value}\n"
    yield _head(f"{name}_created", "gauge")
    yield f"vllm:{name}_created{{{labels}}} {created}\n"


def _successes(labels: str, finished: float, created: float) -> Iterator[str]:
    yield _head("request_success_total", "counter")
    for reason in _REASONS:
        value = finished if reason == "length" else 0.0
        with_reason = labels.replace(",", f',finished_reason="{reason}",', 1)
        yield f"vllm:request_success_total{{{with_reason}}} {value}\n"
        yield f"vllm:request_success_created{{{with_reason}}} {created}\n"


def _histogram(name: str, labels: str, buckets: Sequence[float], count: float) -> Iterator[str]:
    """Yield it as if every observation had taken half a second."""
    yield _head(name, "histogram")
    for bound in buckets:
        within = count if bound >= 0.5 else 0.0
        yield f'vllm:{name}_bucket{{le="{bound}",{labels}}} {within}\n'
    yield f'vllm:{name}_bucket{{le="+Inf",{labels}}} {count}\n'
    yield f"vllm:{name}_count{{{labels}}} {count}\n"
    yield f"vllm:{name}_sum{{{labels}}} {count * 0.5}\n"


def _cache_config(kv_tokens: int) -> Iterator[str]:
    blocks = kv_tokens // _BLOCK_TOKENS
    yield _head("cache_config_info", "gauge")
    yield (
        f'vllm:cache_config_info{{block_size="{_BLOCK_TOKENS}",cache_dtype="auto",engine="0",'
        f'gpu_memory_utilization="0.92",kv_cache_size_tokens="{kv_tokens}",'
        f'num_gpu_blocks="{blocks}"}} 1.0\n'
    )
