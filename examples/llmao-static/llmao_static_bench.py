"""A web server with one file on it, as a bench of llmao's plugin kit."""

import json
from collections.abc import Mapping
from typing import Any

import httpx
import llmao_static

from llmao_core.testing.kit import Box, ListingBench
from llmao_core.testing.kit_wire import Mishap


class StaticBench(ListingBench):
    """A file of boxes that only the right key can read."""

    plugin = llmao_static
    card = llmao_static.NAME
    base_url = "http://127.0.0.1:4999/fleet/boxes.yaml"
    pages = False
    optional = ("label", "address", "ports", "status", "gpu", "price_per_hour", "note")

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        super().__init__()

    def transport(self) -> httpx.AsyncBaseTransport:
        """Serve the file."""
        return httpx.MockTransport(self._answer)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        if request.headers.get("authorization") != f"Bearer {self.key}":
            return httpx.Response(401)
        file = {"total": len(self.rows), "boxes": list(self.rows.values())}
        return httpx.Response(200, content=json.dumps(file))

    def plant(self, box: Box) -> str:
        """Write a box into the file, with a secret in a field that the plugin does not read."""
        box_id = f"box-{len(self.rows)}"
        self.rows[box_id] = {
            "id": box_id,
            "label": box.label,
            "address": box.address,
            "ports": {str(listen): public for listen, public in box.ports.items()},
            "env": {"HF_TOKEN": box.secret},
        }
        return box_id

    def show(self, box_id: str, **fields: object) -> None:
        """Change fields of a box."""
        self.rows[box_id] |= fields

    def show_status(self, box_id: str, word: str) -> None:
        """Let its status be this word."""
        self.show(box_id, status=word)

    def truth(self) -> Mapping[str, object]:
        """Return the boxes of the file."""
        return {box_id: dict(row) for box_id, row in self.rows.items()}

    def mishap(self, kind: Mishap, *, nth: int = 1, writes: bool = False) -> None:
        """Half a page is a file whose last boxes were never written."""
        if kind is Mishap.HALF_A_PAGE:
            self.rows["lost"] = {"id": "box-0"}
        else:
            super().mishap(kind, nth=nth, writes=writes)
