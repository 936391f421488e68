"""A scene with one box in it, for what is decided of one key: nothing is read but what is given.

Rule of this file: one moment and one fleet; a test changes what it is about.
"""

from typing import Any

from attrs import evolve

from llmao_core.intended import Deployment, Intended
from llmao_core.join import Joined
from llmao_core.records import Kind
from llmao_core.scene import Scene, look
from llmao_core.snapshots import Deployments, Reading, Row, Snapshot, Snapshots
from llmao_core.testing.situation import intend, row_of

NOW = 10_000.0
BOX = "203.0.113.10"
SMALL = f"{BOX}:8001 small"
AT_LISTEN = f"http://{BOX}:8001"
AT_PUBLIC = f"http://{BOX}:40001"


def fleet(**words: Any) -> Intended:
    """Return what a fleet of one box with one server intends, but for these words."""
    return intend({"hosts": {BOX: {8001: "small"}}, **words})


def scene(intended: Intended | None = None, *, rows: tuple[Row, ...] = (), **usable: Any) -> Scene:
    """Return what a pass at NOW rests on: LiteLLM's rows, just read, and whatever is given."""
    deployments = Reading[Deployments](60.0, Snapshot(NOW, Deployments(rows)))
    found = look(Snapshots(intended=intended or fleet(), deployments=deployments), NOW)
    assert found is not None
    return evolve(found, **usable)


def row(intended: Intended | None = None, **words: Any) -> Row:
    """Return the row that llmao wrote for the server, but for these words."""
    return row_of({"key": SMALL, **words}, intended or fleet())


def entry(intended: Intended | None = None, *rows: Row, **changes: Any) -> Joined:
    """Return the server's key with these rows, placed by no listing."""
    deployment: Deployment = (intended or fleet()).deployments[0]
    return evolve(Joined(deployment.key, Kind.INTENDED, deployment, rows), **changes)
