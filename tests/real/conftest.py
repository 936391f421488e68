"""One LiteLLM and two vLLM for all of these tests, and a llmao for each.

Rule of this file: starts are what costs, so the real parts live as long as the session; a part
that was killed is started again by the test that needs it next. What cannot run on a machine is
skipped with the reason, and a failure where CI=true.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen
from tests.real.lab.litellm import LiteLLM
from tests.real.lab.process import LabError, free_port
from tests.real.lab.vllm import VLLM

from .browsing import browser as browser
from .browsing import chromium as chromium
from .browsing import fleet as fleet
from .llmao import Llmao, Secrets
from .proxy import Proxy

# LiteLLM's own default is 30 s; llmao is told the same figure.
POLL_S = 5

Figures = Callable[[str, object], None]
NewLlmao = Callable[..., Llmao]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Iterator[None]:  # pytest takes what the generator returns
    """Skip what cannot run here; with CI=true a skip is a failure."""
    report: pytest.TestReport = yield  # type: ignore[assignment]
    path, line, _ = item.location
    if call.when == "setup" and call.excinfo and call.excinfo.errisinstance(LabError):
        report.outcome = "skipped"
        report.longrepr = (path, (line or 0) + 1, f"Skipped: {call.excinfo.value}")
    if report.skipped and os.environ.get("CI") == "true":
        said = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
        report.outcome = "failed"
        report.longrepr = f"with CI=true nothing may be skipped. {said}"
    return report  # type: ignore[return-value]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print what was measured, here or by other workers."""
    stats = terminalreporter.stats
    told = [one for kind in ("passed", "failed") for one in stats.get(kind, ())]
    if measured := [one for one in told if one.when == "call" and one.user_properties]:
        terminalreporter.section("measured")
    for one in measured:
        for name, value in one.user_properties:
            terminalreporter.write_line(f"{one.location[2]}: {name}: {value}")


@pytest.fixture
def figures(record_property: Callable[[str, object], None]) -> Figures:
    """Give a function that notes a figure: seconds as a number, or a sentence."""

    def note(name: str, value: object) -> None:
        record_property(name, f"{value:.1f} s" if isinstance(value, float) else str(value))

    return note


@frozen
class Lab:
    """The real parts. first, second: on addresses and ports of their own, serving one model."""

    litellm: LiteLLM
    first: VLLM
    second: VLLM
    hidden: Secrets

    def serve(self, *servers: VLLM) -> None:
        """Have these serve, killed or not."""
        ended = [each for each in servers if each.exit_code() is not None or not each.ready()]
        for each in ended:
            each.start()
        for each in ended:
            each.wait_ready()


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """Start everything once; the servers load while LiteLLM starts."""
    hidden = Secrets()
    with contextlib.ExitStack() as stack:
        first, second = (_server(host, hidden) for host in ("127.0.0.2", "127.0.0.3"))
        for each in (first, second):
            stack.callback(each.close)
            each.start()
        env = {"PROXY_CONFIG_RELOAD_INTERVAL_SECONDS": str(POLL_S)}
        litellm = stack.enter_context(LiteLLM(env=env))
        for each in (first, second):
            each.wait_ready()
        yield Lab(litellm, first, second, hidden)


def _server(host: str, hidden: Secrets) -> VLLM:
    port = free_port(host)
    return VLLM(port, hidden.bearer(host, port), host)


@pytest.fixture
def proxy(lab: Lab) -> Iterator[Proxy]:
    """Give the proxy without a deployment in it."""
    proxy = Proxy(lab.litellm)
    proxy.clear()
    yield proxy
    proxy.clear()


@pytest.fixture
def new_llmao(lab: Lab, tmp_path: Path) -> Iterator[NewLlmao]:
    """Give a function that configures a llmao for some servers; each is ended with the test.

    No log of any test may hold a secret.
    """
    made: list[Llmao] = []

    def new(
        *servers: VLLM,
        on: LiteLLM = lab.litellm,
        poll_s: float = POLL_S,
        more: Mapping[str, Any] | None = None,
    ) -> Llmao:
        folder = tmp_path / f"llmao-{len(made)}"
        made.append(Llmao(folder, on, servers, lab.hidden, poll_s, more))
        return made[-1]

    yield new
    for each in made:
        each.kill()
    assert [] == [found for each in made for found in each.leaks(each.log.read_text())]
