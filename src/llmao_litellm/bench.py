"""LiteLLM's fake as a bench of the plugin kit.

Rule of this file: an adapter and nothing more; what LiteLLM does is in fake.py.
"""

from collections.abc import Mapping
from typing import ClassVar

import httpx

from llmao_core.testing.kit import NOW, DeploymentsBench
from llmao_core.testing.kit_wire import Mishap

from . import plugin
from .fake import MASTER_KEY, FakeLiteLLM


class LiteLLMBench(DeploymentsBench):
    """A fake proxy with one worker."""

    plugin = plugin
    card = plugin.DEPLOYMENTS
    key = MASTER_KEY
    cannot: ClassVar = {
        Mishap.HALF_A_PAGE: "/model/info has no pages and does not say how many rows it has"
    }
    live_key = "LITELLM_MASTER_KEY"
    live_url = "http://127.0.0.1:4000"

    def __init__(self) -> None:
        self.fake = FakeLiteLLM(lambda: NOW)
        super().__init__()

    def transport(self) -> httpx.AsyncBaseTransport:
        """Reach the fake in the process."""
        return self.fake.transport()

    def truth(self) -> Mapping[str, object]:
        """Return the rows of the database."""
        return {
            row.id: (row.model_name, dict(row.params), dict(row.info), row.blocked)
            for row in self.fake.truth().values()
        }

    def plant_foreign(self, name: str) -> str:
        """Add a row as somebody else does, with a secret in it."""
        params = {"model": f"openai/{name}", "api_base": "http://203.0.113.99:1/v1"}
        return self.fake.plant(name, params | {"api_key": "sk-of-somebody-else"}, {"team": "them"})
