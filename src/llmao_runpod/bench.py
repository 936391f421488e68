"""RunPod's fake as a bench of the plugin kit.

Rule of this file: an adapter and nothing more; what RunPod does is in fake.py.
"""

from typing import ClassVar

from llmao_core.testing.kit import NOW
from llmao_core.testing.kit_rented import RentedBench
from llmao_core.testing.kit_wire import Mishap

from . import plugin
from .client import BASE_URL
from .fake import KEY, FakeRunPod


class RunPodBench(RentedBench):
    """An account at a fake RunPod that shows 25 pods on a page."""

    plugin = plugin
    card = plugin.NAME
    key = KEY
    live_key = "RUNPOD_API_KEY"
    live_url = BASE_URL
    word = "status"
    optional = (
        "name", "image", "args", "ports", "env", "gpu", "dataCenterId", "cost", "ssh",
        "runtime", "createdAt", "startedAt", "registry", "actions", "status",
    )  # fmt: skip
    own: ClassVar = {
        Mishap.UNAUTHORIZED: "no_key",
        Mishap.BUSY: "busy_mute",
        Mishap.DOWN: "gateway",
        Mishap.ERROR_IN_200: "graphql_errors",
        Mishap.HALF_A_PAGE: "no_cursor",
    }

    def __init__(self) -> None:
        self.fake = FakeRunPod(lambda: NOW, page_size=25, a_minute=100_000)
        super().__init__()
