"""`kill -9` of llmao at any moment: nothing acknowledged is lost, and no key gets two rows.

Rule of this file: what was acknowledged is what an admin or a box was told over HTTP; whether it
is kept is read from the store, by a process that was not killed.
"""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random  # noqa: TID251 - seeded, so that the same moments are chosen again
from typing import Any

import httpx
import pytest
from attrs import define, field
from tests.real.lab.install import install_litellm
from tests.real.lab.postgres import Postgres

from llmao_web.shell.clock import SystemClock
from llmao_web.shell.ledger import Entry, EntryKind, Kept, Numbered
from llmao_web.shell.opening import looked_into
from llmao_web.shell.store import Store, Wanted

from .conftest import Figures
from .llmao import Llmao
from .stage import Stage, Visitor, staged
from .timing import now

pytestmark = pytest.mark.real

# Chosen anew for every run, and printed: LLMAO_SEED lives one of them again.
KILLS = int(os.environ.get("LLMAO_KILLS", "40"))
SEED = int(os.environ.get("LLMAO_SEED", "0")) or int(SystemClock().now())
SERVERS = ("127.0.0.2", "127.0.0.3")
# Hosts that an admin approves anew, and again, each with somebody who does one thing at a time.
APPROVED = ("127.0.9.1", "127.0.9.2", "127.0.9.3")
# Hosts that are drained and retired, and taken back, in any order.
LEAVING = ("127.0.8.1", "127.0.8.2")
DRAINS = {"drain": EntryKind.DRAINED, "undrain": EntryKind.UNDRAINED}
RETIREMENTS = {"retire": EntryKind.RETIRED, "unretire": EntryKind.UNRETIRED}
WRITE_S = 0.2
ANSWER_S = 0.2
# Every other row appears only when the llmao after the killed one has looked, and wants it itself.
OUTLIVES_S = 8.0
LONGEST_LIFE_S = 1.0
# Between two deeds, which take about as long: what was decided is read whole in every life.
PAUSE_S = 0.02
WRITES_S = 20
ROUTED_S = 60


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Give the URL of an empty store."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'llmao.db'}"
        return
    with Postgres(install_litellm()) as server:
        yield server.url


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """Give servers and a LiteLLM whose writes take their time, and whose answers take more."""
    chance = Random(SEED)
    held_s = lambda: chance.choice((WRITE_S, OUTLIVES_S))  # noqa: E731
    async with staged(tmp_path, SERVERS, held_s=held_s, answer_s=ANSWER_S) as stage:
        yield stage


@define
class Told:
    """What one host's admin was told: numbers, which grow over all lives.

    asked: the newest number that was sent. approved, labelled: the acknowledged ones.
    """

    host: str
    asked: int = 0
    approved: list[int] = field(factory=list)
    labelled: list[int] = field(factory=list)

    @property
    def acknowledged(self) -> Counter[tuple[EntryKind, str, int]]:
        """Return every deed that was acknowledged, each once."""
        approvals = [(EntryKind.APPROVED, self.host, number) for number in self.approved]
        labels = [(EntryKind.LABELLED, self.host, number) for number in self.labelled]
        return Counter([*approvals, *labels])

    def may_be(self, newest: list[int], found: int) -> bool:
        """Tell whether a number is the newest acknowledged one, or one sent after it."""
        return max(newest, default=0) <= found <= self.asked


@define
class Leaving:
    """What one host's admin may rely on. drained, retired: what each may be now.

    done: deeds that were acknowledged.
    """

    host: str
    drained: set[bool] = field(factory=lambda: {False})
    retired: set[bool] = field(factory=lambda: {False})
    done: int = 0

    async def does(self, deed: str, visitor: Visitor) -> None:
        """Do one thing: from when it is sent it may be so, from its answer on it is."""
        may_be = self.drained if deed in DRAINS else self.retired
        after = deed in ("drain", "retire")
        may_be.add(after)
        await visitor.does(deed, host=self.host)
        may_be.discard(not after)
        self.done += 1

    def look(self, kept: Kept, entries: Sequence[Entry]) -> None:
        """Compare what is kept; entries: all of them, oldest first."""
        drained, retired = kept.labels.drained_hosts, kept.labels.retired_hosts
        assert (self.host in drained) in self.drained, self
        assert (self.host in retired) in self.retired, self
        self.drained, self.retired = {self.host in drained}, {self.host in retired}
        for kinds in (tuple(DRAINS.values()), tuple(RETIREMENTS.values())):
            told = [one.kind for one in entries if one.host == self.host and one.kind in kinds]
            assert [kinds[number % 2] for number in range(len(told))] == told, "nothing twice"


@define
class Lives:
    """One llmao that lives, is killed and lives again, and all that it was asked."""

    stage: Stage
    store: str
    llmao: Llmao
    chance: Random
    told: tuple[Told, ...] = field(factory=lambda: tuple(map(Told, APPROVED)))
    leaving: tuple[Leaving, ...] = field(factory=lambda: tuple(map(Leaving, LEAVING)))
    read: dict[int, Entry] = field(factory=dict)
    in_a_write: int = 0
    fetched: int = 0

    # ---- a life

    async def live(self, *, in_a_write: bool) -> None:
        """Start it, look at what is kept, put it under load, and kill it at a moment."""
        began = now()
        await asyncio.to_thread(self.llmao.start)
        await self.look()
        async with AsyncExitStack() as stack:
            visitors = [
                await stack.enter_async_context(self.stage.visitor(self.llmao))
                for _ in (*self.told, *self.leaving)
            ]
            async with asyncio.TaskGroup() as group:
                for told, visitor in zip(self.told, visitors, strict=False):
                    group.create_task(_until_killed(self._decide(told, visitor)))
                    group.create_task(_until_killed(self._fetch(told, visitor)))
                # Each has a session of its own.
                others = visitors[len(self.told) :]
                for leaving, visitor in zip(self.leaving, others, strict=True):
                    group.create_task(_until_killed(self._leave(leaving, visitor)))
                await asyncio.sleep(self.chance.uniform(0.0, LONGEST_LIFE_S))
                if in_a_write:
                    await self._in_a_write(began)
                self.in_a_write += self._writes_since(began)
                await asyncio.to_thread(self.llmao.kill)
        assert set() == self.stage.litellm.twice

    def _writes_since(self, began: float) -> bool:
        writes = self.stage.litellm.begun_since(began)
        return any(each.ended is None for each in writes)

    async def _in_a_write(self, began: float) -> None:
        """Take a row away, so that it is written again, and wait for some moment of that."""
        litellm = self.stage.litellm
        async with asyncio.timeout(WRITES_S):
            while not self._writes_since(began):
                # One that was taken may come back by a write of an earlier life.
                if len(rows := sorted(litellm.db)) == len(SERVERS):
                    litellm.remove(self.chance.choice(rows))
                await asyncio.sleep(0.01)
        await asyncio.sleep(self.chance.uniform(0.0, WRITE_S + ANSWER_S))

    async def _decide(self, told: Told, visitor: Visitor) -> None:
        while True:
            told.asked += 1
            number = told.asked
            if not told.approved or self.chance.random() < 0.5:
                await visitor.approve(told.host, f"s{number}", self.stage.servers[0].port)
                told.approved.append(number)
            else:
                await visitor.does("label", host=told.host, label=str(number), note=f"n{number}")
                told.labelled.append(number)
            await asyncio.sleep(PAUSE_S)

    async def _leave(self, leaving: Leaving, visitor: Visitor) -> None:
        if not leaving.done:
            # Its question makes it known, and its label keeps it so.
            await visitor.fetch(leaving.host)
            await visitor.does("label", host=leaving.host, label="leaves", note="")
        while True:
            await leaving.does(self.chance.choice((*DRAINS, *RETIREMENTS)), visitor)
            await asyncio.sleep(PAUSE_S)

    async def _fetch(self, told: Told, visitor: Visitor) -> None:
        """Ask as the box of a host: from its approval on it is answered, in every life."""
        while True:
            known = max(told.approved, default=0)
            answer = await visitor.fetch(told.host)
            if known:
                assert 200 == answer.status_code, answer.text
                [server] = answer.json()["servers"]
                assert known <= int(server["name"].removeprefix("s")) <= told.asked
                self.fetched += 1
            await asyncio.sleep(PAUSE_S)

    # ---- what is kept

    async def look(self) -> None:
        """Read the store: all that was acknowledged is in it once, and has its effect."""
        async with looked_into(self.store, Path(), SystemClock()) as store:
            assert store is not None
            kept, entries = await store.kept(), await _entries(store)
        read = {each.number: each.entry for each in reversed(entries)}
        assert self.read.items() <= read.items(), "what was read once is there for good"
        self.read = read
        for leaving in self.leaving:
            leaving.look(kept, tuple(read.values()))
        found = Counter(known for each in read.values() if (known := _known(each)))
        for told in self.told:
            assert Counter() == told.acknowledged - found
            assert told.may_be(told.approved, _approved(kept, told.host)), (told, kept)
            assert told.may_be(told.labelled, _labelled(kept, told.host)), (told, kept)
        assert {1} >= set(found.values()), "nothing is kept twice"


async def _until_killed(work: Any) -> None:
    """Do something until the connection ends as that of a killed process does."""
    try:
        await work
    except httpx.TransportError:
        return


async def _entries(store: Store) -> Sequence[Numbered]:
    """Return every entry there is."""
    read: list[Numbered] = []
    while more := await store.entries(Wanted(before=read[-1].number if read else 0, limit=1000)):
        read += more
    return read


def _known(entry: Entry) -> tuple[EntryKind, str, int] | None:
    """Return which deed of an admin at one of APPROVED an entry is of, None for another entry."""
    if entry.kind is EntryKind.APPROVED:
        [row] = entry.detail["rows"]
        return entry.kind, entry.host, int(row["name"].removeprefix("s"))
    if entry.kind is EntryKind.LABELLED and entry.host in APPROVED:
        assert entry.detail["note"] == f"n{entry.detail['label']}"
        return entry.kind, entry.host, int(entry.detail["label"])
    return None


def _approved(kept: Kept, host: str) -> int:
    names = [each.rows[0].name for each in kept.approvals if each.host == host]
    return int(names[0].removeprefix("s")) if names else 0


def _labelled(kept: Kept, host: str) -> int:
    return int(kept.notes[host].label) if host in kept.notes else 0


async def test_a_kill_at_any_moment_loses_nothing_that_was_acknowledged(
    stage: Stage, store: str, figures: Figures
) -> None:
    """Killed under load, between two writes and in the middle of one, it starts again by itself:
    each approval, label, note, drain and retirement that was acknowledged is kept once and in
    force, every entry that was ever read stays as it was, what llmao did included, boxes are
    answered by it, no key ever has two rows, and at the end each server has its one."""
    print(f"LLMAO_SEED={SEED}")
    lives = Lives(stage, store, stage.llmao(store), Random(SEED))
    for number in range(KILLS):
        await lives.live(in_a_write=number % 2 == 1)
    await asyncio.to_thread(lives.llmao.start)
    await lives.look()
    figures("routed at last", await stage.routed(ROUTED_S))
    left = sum(leaving.done for leaving in lives.leaving)
    deeds = sum(told.acknowledged.total() for told in lives.told) + left
    figures(f"{KILLS} kills, seed {SEED}", f"{lives.in_a_write} of them in the middle of a write")
    figures("meanwhile", f"{deeds} deeds acknowledged, {lives.fetched} boxes answered")
    assert lives.in_a_write > KILLS // 4
    assert deeds > KILLS
    assert left > KILLS // 4
