"""Rows that are not ours and vanish; the common cases are rows of 3-litellm.yaml."""

from typing import Any

from llmao_core.records import ItemKind
from llmao_core.testing.walk import Walk

OURS = {"key": "203.0.113.10:8001 small"}
THEIRS = {"foreign": "their-1", "model": "small", "at": "198.51.100.7:9000"}
COPY = {"foreign": "their-2", "model": "small", "at": "203.0.113.10:8001"}


def vanish(gone: dict[str, Any], *, wrote_s: float) -> Walk:
    """Return a walk in which a row goes so long after llmao added its own."""
    it = Walk()
    it.step(0, servers={"203.0.113.10:8001": "serves"}, rows=[gone], writes="work")
    it.step(wrote_s, rows=[OURS])
    it.step(wrote_s + 60)
    return it


def sentences(it: Walk) -> list[str]:
    return [one.sentence for one in it.view.items if one.kind is ItemKind.FOREIGN_VANISHED]


def test_the_item_names_the_row_and_the_write() -> None:
    """A person reads which row it was, for what, and what llmao had just written."""
    [sentence] = sentences(vanish(THEIRS, wrote_s=6))

    assert "their-1 (small)" in sentence
    assert "adding 203.0.113.10:8001 small" in sentence


def test_a_write_of_long_ago_is_not_blamed() -> None:
    """Reads showed the row after the write, for longer than a worker may lag."""
    assert [] == sentences(vanish(THEIRS, wrote_s=120))


def test_a_copy_that_llmao_removed_is_not_missed() -> None:
    """What a person had llmao remove is no trouble."""
    it = Walk()
    it.step(0, servers={"203.0.113.10:8001": "serves"}, rows=[OURS, COPY], writes="work")
    it.step(60, press={"run": "203.0.113.10:8001 small"})
    it.step(180)

    assert [OURS["key"]] == [str(one.key) for one in it.view.records]
    assert [] == sentences(it)


def test_a_copy_that_somebody_removed_is_not_missed() -> None:
    """Its item asked for just that, and callers reach the server by llmao's own row."""
    edited = {**OURS, "edit": {"timeout": 5}}
    it = Walk()
    it.step(0, servers={"203.0.113.10:8001": "serves"}, rows=[edited, COPY], writes="work")
    it.step(6, rows=[OURS])
    it.step(66)

    assert [] == sentences(it)


def test_a_row_that_is_back_is_missed_no_more() -> None:
    """Whoever put it back reads of it no longer."""
    it = vanish(THEIRS, wrote_s=6)
    it.step(126, rows=[OURS, THEIRS])

    assert [] == sentences(it)


def test_it_is_told_for_a_day() -> None:
    """Who comes in the morning still reads it, and a day later nobody does."""
    it = vanish(THEIRS, wrote_s=6)
    it.now += 80_000
    it.look()
    assert 1 == len(sentences(it))

    it.now += 10_000
    it.look()
    assert [] == sentences(it)
