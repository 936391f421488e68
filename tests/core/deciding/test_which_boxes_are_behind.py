"""Which boxes run another revision than they would get now, and how long that is remembered."""

import pytest
from tests.core.deciding.scenes import BOX, scene

from llmao_core.behind import fold_behind
from llmao_core.history import Behind
from llmao_core.snapshots import BoxFetches, BoxProtocol

OTHER = "203.0.113.11"


def folded(
    revisions: dict[str, str], *, old: dict[str, Behind] | None = None, **applied: str
) -> dict[str, Behind]:
    hosts = {BOX: applied.get("box", ""), OTHER: applied.get("other", "")}
    protocol = BoxProtocol({host: BoxFetches(applied=one) for host, one in hosts.items()})
    return dict(fold_behind(old or {}, revisions, scene(protocol=protocol)))


@pytest.mark.parametrize(
    ("applied", "revisions"),
    [("", {BOX: "new"}), ("old", {}), ("old", {BOX: ""}), ("new", {BOX: "new"}), ("", {})],
)
def test_a_box_is_behind_when_both_revisions_are_known(
    applied: str, revisions: dict[str, str]
) -> None:
    """And differ; a box that is not says nothing of the next."""
    behind = {OTHER: Behind("old", "new")}
    assert behind == folded({**revisions, OTHER: "new"}, box=applied, other="old")


def test_what_moved_is_worded_once() -> None:
    """While both revisions stay; a newer one is worded anew."""
    known = {BOX: Behind("old", "new", ("port 8001 → 8002",))}
    assert known == folded({BOX: "new"}, old=known, box="old")
    assert {BOX: Behind("old", "newer")} == folded({BOX: "newer"}, old=known, box="old")
    assert {BOX: Behind("older", "new")} == folded({BOX: "new"}, old=known, box="older")
    assert {} == folded({BOX: "new"}, old=known, box="new")


def test_the_same_is_the_same() -> None:
    """Whoever compares has nothing to do."""
    known = {BOX: Behind("old", "new", ("port 8001 → 8002",))}
    protocol = BoxProtocol({BOX: BoxFetches(applied="old")})
    assert known is fold_behind(known, {BOX: "new"}, scene(protocol=protocol))
