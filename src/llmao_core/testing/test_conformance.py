"""The kit, run on installed plugins: `pytest --pyargs llmao_core.testing --llmao-provider NAME`.

Rule of this file: it finds benches; what is checked is in the suites.
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from llmao_core.testing.kit import Bench, DeploymentsBench, ListingBench
from llmao_core.testing.kit_deployments import DeploymentsPluginTests
from llmao_core.testing.kit_listing import ListingProviderTests
from llmao_core.testing.pytest_plugin import benches


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each suite the benches of its kind: all that are installed, or those asked for."""
    if "named" not in metafunc.fixturenames or metafunc.cls is None:
        return
    wanted = metafunc.config.getoption("llmao_provider")
    kind = metafunc.cls.benches
    made = [
        pytest.param(made, id=name)
        for name, entry in sorted(benches().items())
        if (not wanted or name in wanted) and issubclass(made := entry.load(), kind)
    ]
    metafunc.parametrize("named", made)


class _Installed:
    """Makes the bench that an entry point names; the real API's when that was asked for."""

    @pytest.fixture
    def bench(self, named: Any, request: pytest.FixtureRequest) -> Iterator[Bench]:
        bench: Bench = named()
        if request.config.getoption("llmao_live"):
            bench.go_live(os.environ[bench.live_key])
            yield bench
            return
        with bench.at_work():
            yield bench


class TestListing(_Installed, ListingProviderTests):
    """Providers of boxes."""

    benches = ListingBench


class TestDeployments(_Installed, DeploymentsPluginTests):
    """Keepers of deployments."""

    benches = DeploymentsBench
