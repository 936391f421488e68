"""Vast's fake as a bench of the plugin kit.

Rule of this file: an adapter and nothing more; what Vast does is in fake.py.
"""

from contextlib import AbstractContextManager
from typing import ClassVar

from llmao_core.testing.kit import NOW, replaced
from llmao_core.testing.kit_rented import RentedBench
from llmao_core.testing.kit_wire import Mishap

from . import plugin
from .client import BASE_URL
from .fake import KEY, FakeVast


class VastBench(RentedBench):
    """An account at a fake Vast, whose clock moves when the plugin waits between pages."""

    plugin = plugin
    card = plugin.NAME
    key = KEY
    live_key = "VAST_API_KEY"
    live_url = BASE_URL
    word = "actual_status"
    optional = (
        "label", "machine_id", "status_msg", "public_ipaddr", "ports", "gpu_name", "num_gpus",
        "gpu_ram", "disk_space", "dph_total", "start_date", "geolocation", "actual_status",
        "extra_env", "cur_state", "next_state", "onstart",
    )  # fmt: skip
    own: ClassVar = {
        Mishap.UNAUTHORIZED: "bad_key_404",
        Mishap.BUSY: "busy_text",
        Mishap.DOWN: "gateway",
        Mishap.ERROR_IN_200: "not_successful",
        Mishap.HALF_A_PAGE: "half_page",
    }

    def __init__(self) -> None:
        self.at = NOW
        self.fake = FakeVast(lambda: self.at, interval_s=0)
        super().__init__()

    def at_work(self) -> AbstractContextManager[object]:
        """Let the waits between pages take no time but the fake's."""
        return replaced(plugin, "sleep", self._sleep)

    async def _sleep(self, seconds: float) -> None:
        self.at += seconds
