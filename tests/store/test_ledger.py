"""What the store takes from the ledger: what each entry has the last word on."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from llmao_core.config import HostRow
from llmao_core.intended import Approval, Labels
from llmao_core.keys import Key
from llmao_web.shell.ledger import (
    FOLDED,
    Entry,
    EntryKind,
    Kept,
    Note,
    fold,
    leaves_nothing,
    row_detail,
    slot,
)

from .contract import BOX, ENTRIES, KEY, NOW


@given(st.lists(ENTRIES, max_size=30))
def test_the_newest_of_each_slot_folds_the_same(entries: list[Entry]) -> None:
    """So a store may drop what another entry of its slot came after."""
    newest = {slot(each): place for place, each in enumerate(entries) if slot(each)}
    assert fold(entries) == fold(entries[place] for place in sorted(newest.values()))


@given(ENTRIES)
def test_what_is_not_folded_has_no_slot(entry: Entry) -> None:
    """And changes nothing that is kept."""
    assert (entry.kind in FOLDED) == bool(slot(entry))
    assert entry.kind in FOLDED or fold((entry,)) == Kept()


@given(st.lists(ENTRIES, max_size=10), ENTRIES)
def test_what_leaves_nothing_may_go_when_it_is_alone(entries: list[Entry], last: Entry) -> None:
    """Without an older entry of its slot it makes no difference."""
    others = [each for each in entries if slot(each) != slot(last)]
    if leaves_nothing(last):
        assert fold(others) == fold([*others, last])


@given(st.lists(ENTRIES, max_size=20), st.integers(0, 20))
def test_folding_in_two_parts_is_folding_once(entries: list[Entry], cut: int) -> None:
    """What was kept before stands until an entry says otherwise."""
    assert fold(entries) == fold(entries[cut:], fold(entries[:cut]))


def _said(kind: EntryKind, *, key: Key | None = None, **detail: Any) -> Entry:
    return Entry(NOW, "admin", kind, "" if key else BOX, key, detail)


def test_what_each_kind_says() -> None:
    """And what takes it back; the newest word counts."""
    rows = (HostRow("tiny", 8001, "vllm"),)
    for said, taken_back, kept in (
        (
            _said(EntryKind.APPROVED, rows=[row_detail(rows[0])]),
            _said(EntryKind.WITHDRAWN),
            Kept(approvals=(Approval(BOX, rows, "admin", NOW),)),
        ),
        (
            _said(EntryKind.LABELLED, label="mine", note="for tests"),
            _said(EntryKind.LABELLED, label="", note=""),
            Kept(notes={BOX: Note("mine", "for tests", "admin", NOW)}),
        ),
        (
            _said(EntryKind.DRAINED),
            _said(EntryKind.UNDRAINED),
            Kept(labels=Labels(drained_hosts=frozenset({BOX}))),
        ),
        (
            _said(EntryKind.DRAINED, key=KEY),
            _said(EntryKind.UNDRAINED, key=KEY),
            Kept(labels=Labels(drained_keys=frozenset({KEY}))),
        ),
        (
            _said(EntryKind.RETIRED),
            _said(EntryKind.UNRETIRED),
            Kept(labels=Labels(retired_hosts=frozenset({BOX}))),
        ),
        (
            _said(EntryKind.PLACED, provider="vast"),
            _said(EntryKind.PLACED, provider=""),
            Kept(placed={BOX: "vast"}),
        ),
    ):
        assert kept == fold((said,)) == fold((said, taken_back, said))
        assert Kept() == fold((said, taken_back))
        assert leaves_nothing(taken_back)
        assert not leaves_nothing(said)
