"""What pytest learns from llmao: the options of the plugin kit.

Rule of this file: light, because every pytest run beside llmao imports it; the kit itself is
imported when it is asked for.
"""

import os
from importlib.metadata import EntryPoint, entry_points

import pytest

GROUP = "llmao.bench"

# Before they are imported, so that a check that fails shows the values it compared.
pytest.register_assert_rewrite(
    *(
        f"llmao_core.testing.kit_{part}"
        for part in ("reading", "listing", "deployments", "orders", "host")
    )
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the two options."""
    group = parser.getgroup("llmao", "llmao's plugin kit")
    group.addoption(
        "--llmao-provider",
        action="append",
        default=[],
        metavar="NAME",
        help="check this plugin only, with its bench of the entry-point group llmao.bench",
    )
    group.addoption(
        "--llmao-live",
        action="store_true",
        help="make the reading checks against the real API, with a real key from the environment",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Announce the marker, and refuse a provider without a bench and a live run without a key."""
    config.addinivalue_line("markers", "llmao_reading: a check of the plugin kit that only reads")
    names: list[str] = config.getoption("llmao_provider")
    known = benches()
    for name in names:
        if name not in known:
            have = ", ".join(sorted(known)) or "none"
            raise pytest.UsageError(f"no bench named {name} is installed; there are: {have}")
    if not config.getoption("llmao_live"):
        return
    if os.environ.get("CI"):
        raise pytest.UsageError("--llmao-live is for a person with a key, not for CI")
    if not names:
        raise pytest.UsageError("--llmao-live needs --llmao-provider NAME")
    for name in names:
        bench = known[name].load()
        if not bench.live_key:
            raise pytest.UsageError(f"the bench of {name} names no variable for a real key")
        if not os.environ.get(bench.live_key):
            raise pytest.UsageError(f"--llmao-live reads {name}'s key from ${bench.live_key}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Drop suites without a bench, and all but the reading checks when the API is the real one."""
    live = config.getoption("llmao_live")
    dropped = [one for one in items if _has_no_bench(one) or (live and not _only_reads(one))]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = [item for item in items if item not in dropped]


def _only_reads(item: pytest.Item) -> bool:
    return item.get_closest_marker("llmao_reading") is not None


def _has_no_bench(item: pytest.Item) -> bool:
    call = getattr(item, "callspec", None)
    return call is not None and "named" in call.params and not callable(call.params["named"])


def benches() -> dict[str, EntryPoint]:
    """Return the installed benches by name."""
    return {entry.name: entry for entry in entry_points(group=GROUP)}
