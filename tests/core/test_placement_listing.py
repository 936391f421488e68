"""From a provider's answers to a plan: sixty Vast instances, two of them behind one address."""

from collections.abc import Iterable

import pytest
from attrs import evolve
from tests.litellm.helpers import Hands
from tests.vast.helpers import fetch

from llmao_core.actions import ActionKind
from llmao_core.config import Config, FleetConfig, GpuProvider, Host, HostRow, Model, Recipe
from llmao_core.draft import row_body
from llmao_core.errors import Garbled
from llmao_core.history import History
from llmao_core.intended import Intended, build
from llmao_core.item_kinds import ItemKind
from llmao_core.keys import normalise_base
from llmao_core.plan import Plan, Policy
from llmao_core.reconcile import reconcile
from llmao_core.records import Record, View
from llmao_core.secret import Secret
from llmao_core.snapshots import Deployments, Health, Listing, Reading, Row, Snapshot, Snapshots
from llmao_core.testing import answers
from llmao_core.testing.situation import Server
from llmao_core.verdicts import Badge
from llmao_vast import plugin
from llmao_vast.fake import FakeVast

SHARED = "203.0.113.200"
LEFT, RIGHT = "http://203.0.113.200:41200", "http://203.0.113.200:41201"
OTHERS = [f"203.0.113.{number}" for number in range(1, 59)]
SERVES = Server("serves")


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> FakeVast:
    """Return an account with 58 boxes of their own address and two that share one."""
    hands = Hands()
    monkeypatch.setattr(plugin, "sleep", hands.sleep)
    fake = FakeVast(hands)
    for at in OTHERS:
        fake.plant(address=at)
    fake.plant("left", address=SHARED)
    fake.plant("Right ", address=SHARED)
    return fake


def intend(hosts: Iterable[str]) -> Intended:
    """Return a fleet in which each of these hosts serves one model on port 8001."""
    fleet = FleetConfig(
        vllm_api_salt=(Secret("a salt of this test"),),
        hosts=tuple(Host(host, (HostRow("small", 8001, "small"),)) for host in hosts),
    )
    vast = GpuProvider("vast", Secret("a key"))
    models = (Model("small", recipe=Recipe("org/small", max_model_len=8192)),)
    return build(Config(fleet=fleet, gpu_providers=(vast,), models=models))


def passes(
    intended: Intended, listing: Listing, rows: tuple[Row, ...] = ()
) -> tuple[View, list[Plan]]:
    """Return the last view and all plans of some passes in a world where everything serves."""
    now, history, plans = 1_800_000_000.0, History(), []
    snapshots = Snapshots(intended=intended)
    view = View(now)
    for _ in range(6):
        now += 6
        snapshots = evolve(
            snapshots,
            inventories={"vast": Reading(60.0, Snapshot(now, listing))},
            deployments=Reading(60.0, Snapshot(now, Deployments(rows))),
            health=Reading(60.0, Snapshot(now, Health())),
            probes=evolve(
                snapshots.probes,
                reports={one.target: answers.probe(SERVES, one, now) for one in view.targets},
                canaries={
                    **snapshots.probes.canaries,
                    **{
                        one.target: answers.canary(SERVES, one, now)
                        for one in view.targets
                        if one.canary_due is not None
                    },
                },
                open_paths={one.target: answers.open_paths(SERVES, now) for one in view.targets},
            ),
        )
        view, plan, history = reconcile(snapshots, history, Policy(), now)
        plans.append(plan)
    return view, plans


def record(view: View, host: str) -> Record:
    return next(one for one in view.records if one.host == host)


def bases(plan: Plan) -> dict[str, str]:
    """Return where each host's deployment is to be written to."""
    return {
        action.key.shown.partition(":")[0]: action.order.body.api_base
        for action in plan.actions
        if action.kind is ActionKind.ADD_LITELLM and action.order.body
    }


async def test_two_boxes_behind_one_address_are_told_apart_by_label(account: FakeVast) -> None:
    """All sixty are added, each of the two at its own public port."""
    view, plans = passes(intend([*OTHERS, "left", "right"]), await fetch(account))
    wanted = bases(plans[-1])
    assert {*OTHERS, "left", "right"} == set(wanted)
    assert (f"{LEFT}/v1", f"{RIGHT}/v1") == (wanted["left"], wanted["right"])
    assert ItemKind.AMBIGUOUS not in {item.kind for item in view.items}


async def test_two_boxes_behind_one_address_are_told_apart_by_contract(account: FakeVast) -> None:
    """`c.NUMBER` and the bare number name a box, too, whatever its label."""
    left, right = [one.id for one in account.truth().values() if one.address == SHARED]
    _, plans = passes(intend([*OTHERS, f"c.{left}", right]), await fetch(account))
    wanted = bases(plans[-1])
    assert (f"{LEFT}/v1", f"{RIGHT}/v1") == (wanted[f"c.{left}"], wanted[right])


async def test_by_address_alone_it_is_ambiguous_and_nothing_is_planned(account: FakeVast) -> None:
    """The item names both instances; the other 58 are added as if nothing were."""
    view, plans = passes(intend([*OTHERS, SHARED]), await fetch(account))
    seen = record(view, SHARED)
    assert ("", True) == (seen.dialable, Badge.AMBIGUOUS in seen.badges)
    assert [] == [one for plan in plans for one in plan.actions if one.key == seen.key]
    assert set(OTHERS) == set(bases(plans[-1]))
    [item] = [one for one in view.items if one.kind is ItemKind.AMBIGUOUS]
    ids = [one.id for one in account.truth().values() if one.address == SHARED]
    assert all(any(one in line for line in item.evidence) for one in ids)


async def test_a_route_to_an_ambiguous_host_is_left_as_it_is(account: FakeVast) -> None:
    """It serves where it was written to: an open question is no reason to take it away."""
    intended = intend([*OTHERS, SHARED])
    one = next(one for one in intended.deployments if one.host == SHARED)
    body = row_body(one, one.body, RIGHT, one.litellm_id)
    info = dict(body.model_info)
    params = {**body.litellm_params, "api_base": body.api_base}
    row = Row(
        one.litellm_id, one.model, normalise_base(body.api_base), params, info, RIGHT,
        info["llmao_key"], info["llmao_fleet"], info["llmao_hash"],
    )  # fmt: skip
    view, plans = passes(intended, await fetch(account), (row,))
    assert Badge.AMBIGUOUS in record(view, SHARED).badges
    assert [] == [action for plan in plans for action in plan.actions if action.key == one.key]


async def test_a_label_on_one_of_them_settles_the_other(account: FakeVast) -> None:
    """A box that a host names by label is no candidate for the address."""
    _, plans = passes(intend([*OTHERS, SHARED, "left"]), await fetch(account))
    wanted = bases(plans[-1])
    assert (f"{LEFT}/v1", f"{RIGHT}/v1") == (wanted["left"], wanted[SHARED])


async def test_a_remap_is_followed_when_a_whole_read_shows_it(account: FakeVast) -> None:
    """A read of which one page is missing shows nothing at all."""
    intended = intend([*OTHERS, "left", "right"])
    listing = await fetch(account)
    account.remap(next(one.id for one in account.truth().values() if one.label == "left"))
    account.interval_s = 0
    account.go_wrong("half_page", page=3)
    with pytest.raises(Garbled):
        listing = await fetch(account)
    assert f"{LEFT}/v1" == bases(passes(intended, listing)[1][-1])["left"]
    listing = await fetch(account)
    assert "http://203.0.113.200:41202/v1" == bases(passes(intended, listing)[1][-1])["left"]
