"""What must hold of every store, whatever it keeps things in.

Rule of this file: a class of tests takes these over and gives the fixture `store`; one that
survives its process takes those of `Durable` over, too, and gives `reopen`.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llmao_core.config import HostRow, Json
from llmao_core.keys import Key, box_key
from llmao_core.protocol import ASSIGNMENTS_KEPT, Fetch, Unknown, WrongKey
from llmao_web.shell.ledger import Entry, EntryKind, Kept, fold, row_detail
from llmao_web.shell.store import Fetches, Sample, Store, StoreError, Transition, Wanted

DAY_S = 86_400.0
NOW = 1_800_000_000.0
BOX = "127.0.0.2"
KEY = box_key(BOX, 8001, "tiny")
OTHER = box_key("127.0.0.3", 8001, "tiny")
HOSTILE = ("", "'; DROP TABLE entries; --", "nul\0inside", "half \ud800 surrogate", "%s :name $1 ?")
ROW = row_detail(HostRow("tiny", 8001, "vllm"))


def assignment(number: int, **more: Any) -> Json:
    """Return what a box is told, with the fingerprint of a bearer as a process has it."""
    server = {"name": "vllm", "max_model_len": 1024 * number, "api_key": "0123456789abcdef"}
    return {"host": BOX, "revision": f"r1-{number}", "servers": [server], **more}


def lengths(told: Mapping[str, Json]) -> list[int]:
    """Return the lengths in what a box was told, oldest first; no bearer is in any."""
    servers = [server for each in told.values() for server in each["servers"]]
    assert [] == [one for one in servers if "api_key" in one]
    return [one["max_model_len"] // 1024 for one in servers]


Reopen = Callable[[], Awaitable[Store]]


def approved(host: str = BOX, at: float = NOW) -> Entry:
    return Entry(at, "admin", EntryKind.APPROVED, host, detail={"rows": [ROW]})


def action(at: float = NOW, key: Key = KEY) -> Entry:
    return Entry(at, "llmao", EntryKind.ACTION, key=key, detail={"action": "add_litellm"})


def _entry(kind: EntryKind, host: str, key: Key | None, detail: Any, at: float) -> Entry:
    return Entry(at, "admin", kind, host, key, detail)


DETAILS = st.sampled_from(
    (
        {},
        {"rows": [ROW]},
        {"label": "mine", "note": ""},
        {"label": "", "note": ""},
        {"provider": "vast"},
        {"provider": ""},
        {"rows": "nonsense", "label": None, "provider": 4},
    )
)
ENTRIES = st.builds(
    _entry,
    st.sampled_from(EntryKind),
    st.sampled_from((BOX, "c.4711", *HOSTILE)),
    st.sampled_from((None, KEY, OTHER, Key("http://\0", "m\ud800", "s"))),
    DETAILS,
    st.floats(0, 2 * NOW),
)
# A database is opened for each example.
EXAMPLES = settings(
    max_examples=25, suppress_health_check=[*HealthCheck], deadline=None, derandomize=True
)


class AnyStore:
    """What holds of every store."""

    async def test_is_empty_at_first(self, store: Store) -> None:
        """Nothing is kept, and that is no error."""
        assert Kept() == await store.kept()
        assert 0 == await store.newest()
        assert [] == list(await store.entries(Wanted()))
        assert [] == list(await store.transitions())
        assert {} == dict(await store.fetches())

    async def test_entries_come_back_newest_first(self, store: Store) -> None:
        """Each as it was, with numbers that grow."""
        kept = [approved(), action(), Entry(NOW, "admin", EntryKind.DRAINED, key=KEY)]
        await store.append(*kept)
        found = await store.entries(Wanted())
        assert kept == [each.entry for each in reversed(found)]
        assert sorted(each.number for each in found) == [each.number for each in reversed(found)]

    async def test_entries_are_found_by_what_they_are_about(self, store: Store) -> None:
        """By kind, host and key, and page by page."""
        await store.append(approved(), action(), action(key=OTHER), approved("127.0.0.3"))
        newest, third, second, first = await store.entries(Wanted())
        assert [newest, first] == list(
            await store.entries(Wanted(kinds=frozenset({EntryKind.APPROVED})))
        )
        assert [first] == list(await store.entries(Wanted(host=BOX)))
        assert [second] == list(await store.entries(Wanted(key=KEY)))
        assert [newest, third] == list(await store.entries(Wanted(limit=2)))
        assert [second, first] == list(await store.entries(Wanted(before=third.number, limit=2)))

    async def test_hostile_text_is_kept_as_it_is(self, store: Store) -> None:
        """Whatever a name holds, it comes back the same, and is found by it."""
        for index, text in enumerate(HOSTILE):
            key = Key(f"http://{text}", text, text)
            entry = Entry(NOW, text, EntryKind.RETIRED, f"{text}{index}", key, {text: [text]})
            await store.append(entry)
            await store.moved([Transition(NOW, key, text, text)])
            assert entry == (await store.entries(Wanted(host=f"{text}{index}")))[0].entry
            assert entry == (await store.entries(Wanted(key=key)))[0].entry
            assert text == (await store.transitions(key))[0].after

    async def test_newest_grows_with_what_changes_what_is_kept(self, store: Store) -> None:
        """An action changes nothing that is kept; an approval does."""
        await store.append(approved())
        before = await store.newest()
        await store.append(action())
        assert before == await store.newest()
        await store.append(Entry(NOW, "admin", EntryKind.WITHDRAWN, BOX))
        assert before < await store.newest()

    async def test_a_proof_leaves_nothing(self, store: Store) -> None:
        """That there is room is shown, and nothing more is kept than before."""
        await store.append(approved())
        before = await store.newest()
        await store.prove()
        assert [approved()] == [each.entry for each in await store.entries(Wanted())]
        assert before == await store.newest()

    async def test_transitions_come_back_newest_first(self, store: Store) -> None:
        """All, or those of one key."""
        moves = [Transition(NOW, KEY, "", "Loading"), Transition(NOW, OTHER, "Loading", "Healthy")]
        await store.moved(moves)
        await store.moved([])
        assert moves[::-1] == list(await store.transitions())
        assert moves[:1] == list(await store.transitions(KEY))
        assert moves[1:] == list(await store.transitions(limit=1))

    async def test_every_key_is_known_of_which_something_is_kept(self, store: Store) -> None:
        """Of a change or an entry, each once."""
        assert [] == list(await store.keys())
        moves = [Transition(NOW, KEY, "", "Loading"), Transition(NOW, KEY, "Loading", "")]
        await store.moved(moves)
        await store.append(approved(), action(key=OTHER), action(key=OTHER))
        assert {KEY, OTHER} == set(await store.keys())
        assert 2 == len(await store.keys())

    async def test_capacity_comes_back_oldest_first(self, store: Store) -> None:
        """The samples of one server since a time; what vLLM did not say stays unknown."""
        samples = [Sample(NOW + 60 * each, KEY, float(each), kv_used=0.5) for each in range(5)]
        await store.sample([*samples, Sample(NOW, OTHER)])
        assert samples[2:] == list(await store.capacity(KEY, NOW + 120))
        assert [Sample(NOW, OTHER)] == list(await store.capacity(OTHER, 0))

    async def test_fetches_add_up(self, store: Store) -> None:
        """First and last of each host, and the revisions last handed out and applied."""
        await store.tell([(Fetch(BOX, "r1"), NOW), (Fetch(BOX, applied="r0"), NOW + 1)])
        await store.tell([(Fetch(BOX), NOW + 2), (Fetch("c.1", "r2"), NOW + 3)])
        await store.tell([(Unknown("who"), NOW), (WrongKey("127.0.0.9"), NOW)])
        expected = {BOX: Fetches(NOW, NOW + 2, "r1", "r0"), "c.1": Fetches(NOW + 3, NOW + 3, "r2")}
        assert expected == dict(await store.fetches())

    async def test_the_newest_assignments_come_back_without_bearers(self, store: Store) -> None:
        """The last few of each host, each once, what was told last at the end."""
        assert {} == dict(await store.assignments())
        told = [*range(1, 3 + ASSIGNMENTS_KEPT), 4]
        for at, number in enumerate(told):
            await store.tell([(Fetch(BOX, assignment=assignment(number)), NOW + at)])
        both = (Fetch("c.1", assignment=assignment(9)), Fetch("c.2"))
        await store.tell([(each, NOW) for each in (*both, *both)])
        await store.tidy(NOW)
        found = await store.assignments()
        assert {BOX, "c.1"} == set(found)
        assert [3, 5, 6, 7, 4] == lengths(found[BOX])
        assert "r1-4" == list(found[BOX])[-1]
        assert [9] == lengths(found["c.1"])

    async def test_nobody_hears_himself(self, store: Store) -> None:
        """What a process tells is for the others."""
        await store.tell([(Fetch(BOX, "r1"), NOW)])
        assert [] == list(await store.told(0))

    async def test_tidying_keeps_what_is_decided(self, store: Store) -> None:
        """An approval of last year is an approval."""
        await store.append(approved(at=NOW - 400 * DAY_S))
        await store.tidy(NOW)
        assert [BOX] == [each.host for each in (await store.kept()).approvals]


class Durable(AnyStore):
    """What holds of a store that outlives its process."""

    @EXAMPLES
    @given(first=st.lists(ENTRIES, max_size=12), second=st.lists(ENTRIES, max_size=12))
    async def test_what_is_kept_is_the_fold(
        self, reopen: Reopen, first: list[Entry], second: list[Entry]
    ) -> None:
        """After any entries, reopened and tidied at any time, it is what they add up to."""
        store = await reopen()
        before = await store.kept()
        await store.append(*first)
        store = await reopen()
        await store.append(*second)
        expected = fold([*first, *second], before)
        assert expected == await store.kept()
        await store.tidy(2 * NOW)
        assert expected == await (await reopen()).kept()

    async def test_assignments_outlive_the_process(self, reopen: Reopen) -> None:
        """As hostile as a configuration may be; one too long to be kept is left out."""
        store = await reopen()
        hostile = assignment(1, note=list(HOSTILE))
        long = assignment(2, note="x" * 70_000)
        await store.tell([(Fetch(BOX, assignment=each), NOW) for each in (hostile, long)])
        store = await reopen()
        assert list(HOSTILE) == (await store.assignments())[BOX]["r1-1"]["note"]
        assert [1] == lengths((await store.assignments())[BOX])
        assert {BOX} == set(await store.fetches())

    async def test_numbers_are_not_used_twice(self, store: Store, reopen: Reopen) -> None:
        """Not even when the newest entry was dropped."""
        await store.append(action(at=NOW - 200 * DAY_S))
        (old,) = await store.entries(Wanted())
        await store.tidy(NOW)
        assert [] == list(await store.entries(Wanted()))
        store = await reopen()
        await store.append(action())
        assert old.number < (await store.entries(Wanted()))[0].number

    async def test_old_entries_go(self, store: Store) -> None:
        """After 180 days: what nothing rests on. Not before."""
        old, young = NOW - 181 * DAY_S, NOW - 179 * DAY_S
        withdrawn = Entry(old + 1, "admin", EntryKind.WITHDRAWN, "127.0.0.3")
        stays = [approved(at=old), approved("c.1", young), action(at=young)]
        await store.append(
            approved(at=old - 1),
            approved("127.0.0.3", old),
            withdrawn,
            Entry(old, "admin", EntryKind.UNDRAINED, key=KEY),
            action(at=old),
            *stays,
        )
        await store.moved([Transition(old, KEY, "", "a"), Transition(young, KEY, "a", "b")])
        await store.tidy(NOW)
        assert stays == [each.entry for each in reversed(await store.entries(Wanted()))]
        assert ["b"] == [each.after for each in await store.transitions()]

    async def test_something_taken_back_lately_stays_taken_back(self, store: Store) -> None:
        """The approval beneath a withdrawal never comes back, whenever it is tidied."""
        at = NOW - 181 * DAY_S
        await store.append(approved(at=at), Entry(at + DAY_S * 2, "a", EntryKind.WITHDRAWN, BOX))
        for days in range(5):
            await store.tidy(NOW + days * DAY_S)
            assert () == (await store.kept()).approvals
        assert [] == list(await store.entries(Wanted()))

    async def test_minutes_become_hours(self, store: Store) -> None:
        """After 7 days an hour is one sample, its mean; after 90 days it is gone."""
        hour = NOW - NOW % 3600
        await store.sample(
            Sample(hour + 60 * minute, key, float(minute), kv_used=0.5 if minute else None)
            for minute in range(60)
            for key in (KEY, OTHER)
        )
        await store.tidy(hour + 7 * DAY_S)
        assert 60 == len(await store.capacity(KEY, 0))
        await store.tidy(hour + 7 * DAY_S + 3600)
        expected = Sample(hour, KEY, 29.5, kv_used=0.5, over_s=3600.0)
        assert [expected] == list(await store.capacity(KEY, 0))
        assert 1 == len(await store.capacity(OTHER, 0))
        await store.tidy(hour + 91 * DAY_S)
        assert [] == list(await store.capacity(KEY, 0))

    async def test_a_second_sample_of_a_minute_replaces_the_first(self, store: Store) -> None:
        """Two leaders in one minute leave one sample."""
        await store.sample([Sample(NOW, KEY, 1.0), Sample(NOW, KEY, 2.0)])
        await store.sample([Sample(NOW, KEY, 3.0)])
        assert [Sample(NOW, KEY, 3.0)] == list(await store.capacity(KEY, 0))

    async def test_all_or_none(self, store: Store) -> None:
        """One entry that cannot be kept keeps the others out, with a clear error."""
        too_long = Entry(NOW, "admin", EntryKind.LABELLED, BOX, detail={"note": "x" * 70_000})
        no_time = Entry(float("nan"), "admin", EntryKind.ACTION)
        no_json = Entry(NOW, "admin", EntryKind.ACTION, detail={"a": object()})
        for bad in (too_long, no_time, no_json, approved("h" * 3_000)):
            with pytest.raises(StoreError, match="kept"):
                await store.append(approved(), bad)
        assert [] == list(await store.entries(Wanted()))

    async def test_figures_that_are_no_numbers_are_unknown(self, store: Store) -> None:
        """Infinity is not how busy a server is."""
        await store.sample([Sample(NOW, KEY, float("inf"), float("nan"))])
        assert [Sample(NOW, KEY)] == list(await store.capacity(KEY, 0))
