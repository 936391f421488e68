"""What is kept from pass to pass saves a look, and anything new or grown old makes one.

Rule of this file: a draft that was kept is the same object; that it decides as a new one would is
compared with a pass that keeps nothing.
"""

from collections.abc import Callable

import pytest
from attrs import evolve

from llmao_core.actions import ActionKind, Write
from llmao_core.draft import Draft
from llmao_core.probes import CanaryReport, OpenPathsReport, Reply, ReplyKind
from llmao_core.reconcile import judge, reconcile
from llmao_core.snapshots import (
    BoxFetches,
    BoxProtocol,
    Deployments,
    Health,
    Opinion,
    Reading,
    Snapshot,
    Snapshots,
)
from llmao_core.testing.anew import reconcile_anew
from llmao_core.testing.situation import intend
from llmao_core.testing.walk import Walk

ONE = "203.0.113.10"
HOURS = 3600.0


def settled_walk() -> Walk:
    """Return a walk whose only server is Healthy and routed, and was looked at once since."""
    it = Walk()
    it.step(
        0,
        fleet={"hosts": {ONE: {8001: "small"}}},
        servers={f"{ONE}:8001": "serves"},
        writes="work",
    )
    it.step(900)
    # its last write is as good as forgotten: LiteLLM was read long after
    it.now += 1
    it.look()
    again(it)
    return it


def again(it: Walk, snapshots: Snapshots | None = None, later_s: float = 0.0) -> Draft:
    """Pass once more, look at everything beside it, and return the draft of the key."""
    it.snapshots = snapshots or it.snapshots
    it.now += later_s
    given = (it.snapshots, it.history, it.policy, it.now)
    expected = reconcile_anew(*given)
    (draft,) = judge(*given).drafts
    assert reconcile(*given) == expected
    it.view, it.plan, it.history = reconcile(*given)
    return draft


def test_a_key_of_which_nothing_is_new_is_not_looked_at() -> None:
    """The draft of the pass before is taken again, a second later too."""
    it = settled_walk()
    first = again(it)
    assert again(it) is first
    assert again(it, later_s=1.0) is first


def probed(it: Walk, ok: bool) -> Snapshots:
    probes = it.snapshots.probes
    reply = Reply(ReplyKind.ANSWERED, 200) if ok else Reply(ReplyKind.REFUSED)
    reports = {
        target: evolve(one, probed_at=it.now, health=reply, identity=None)
        for target, one in probes.reports.items()
    }
    return evolve(it.snapshots, probes=evolve(probes, reports=reports))


def beside(it: Walk, status: int) -> Snapshots:
    probes = it.snapshots.probes
    said = CanaryReport(it.now, it.now, (Reply(ReplyKind.ANSWERED, status),), status == 200)
    return evolve(
        it.snapshots,
        probes=evolve(probes, canaries=dict.fromkeys(probes.reports, said)),
    )


def opened(it: Walk) -> Snapshots:
    probes = it.snapshots.probes
    found = OpenPathsReport(it.now, ("/v1/completions",))
    return evolve(
        it.snapshots,
        probes=evolve(probes, open_paths=dict.fromkeys(probes.reports, found)),
    )


def fetched(it: Walk, restarting: str = "") -> Snapshots:
    told = {restarting: it.now} if restarting else {}
    fetches = BoxFetches(it.now, it.now, last_seen=it.now, restarting=told)
    return evolve(it.snapshots, protocol=BoxProtocol({ONE: fetches}))


def written(it: Walk) -> Snapshots:
    (row,) = it.rows.values()
    (record,) = it.view.records
    write = Write(ActionKind.UPDATE_LITELLM, record.key, it.now, None)
    return evolve(it.snapshots, writes={row.id: write})


def opined(it: Walk) -> Snapshots:
    (row,) = it.rows.values()
    said = Health({row.id: Opinion(False, it.now)}, {})
    return evolve(it.snapshots, health=Reading(60.0, Snapshot(it.now, said)))


def read(it: Walk, *, gone: bool) -> Snapshots:
    rows = () if gone else tuple(evolve(row, hash="another") for row in it.rows.values())
    return evolve(it.snapshots, deployments=Reading(60.0, Snapshot(it.now, Deployments(rows))))


def unread(it: Walk) -> Snapshots:
    return evolve(it.snapshots, deployments=Reading(60.0, None))


def drained(it: Walk) -> Snapshots:
    return evolve(it.snapshots, intended=intend({**it.words, "drained": [ONE]}))


NEWS: dict[str, Callable[[Walk], Snapshots]] = {
    "a good probe": lambda it: probed(it, ok=True),
    "a failed probe": lambda it: probed(it, ok=False),
    "a canary that fails": lambda it: beside(it, 500),
    "a refused canary": lambda it: beside(it, 401),
    "open paths": opened,
    "a fetch": fetched,
    "an announced restart": lambda it: fetched(it, "llm-8001-small"),
    "a write": written,
    "an opinion": opined,
    "another body": lambda it: read(it, gone=False),
    "no row": lambda it: read(it, gone=True),
    "LiteLLM is unread": unread,
    "a drain": drained,
}


@pytest.mark.parametrize("news", NEWS)
def test_whatever_is_new_is_looked_at(news: str) -> None:
    """Any news of a key, or of what all keys rest on, makes its draft anew."""
    it = settled_walk()
    first = again(it)
    it.now += 1
    assert again(it, NEWS[news](it)) is not first


def test_what_grows_old_is_looked_at() -> None:
    """A draft holds no longer than the probes that it rests on; nothing new need be read."""
    it = settled_walk()
    first = again(it)
    assert again(it, later_s=HOURS) is not first


def test_an_old_opinion_or_a_lapsed_grace_is_looked_at() -> None:
    """With probes that go on, an opinion and a hand-out still grow old by themselves."""
    for news in (opined, fetched):
        it = settled_walk()
        again(it, news(it))
        for _ in range(40):
            it.now += 300
            again(it, probed(it, ok=True))
            again(it)
            again(it, later_s=60.0)
