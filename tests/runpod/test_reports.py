"""Trouble that others had with RunPod's API in public, and that must not be ours."""

import pytest
from tests.runpod.helpers import Hands, fetch, one, runtime

from llmao_core.errors import Garbled, Unauthorized
from llmao_core.snapshots import BoxStatus
from llmao_core.testing.fake_provider import Life
from llmao_runpod.fake import FakeRunPod


def test_ports_of_an_exited_pod_are_dropped() -> None:
    """runpodctl PR 315: exited pods kept their old ports, and the command line handed them out."""
    assert {} == one(status="EXITED").endpoints


async def test_a_pod_whose_ports_come_late_is_up_without_them(fake: FakeRunPod) -> None:
    """runpodctl#39 and k8s-runpod-kubelet#8: address and ports show up after it runs."""
    fake.plant("box-a", mapped_after=1)
    [first] = (await fetch(fake)).instances
    [then] = (await fetch(fake)).instances
    assert [(BoxStatus.UP, 0), (BoxStatus.UP, 1)] == [
        (seen.status, len(seen.endpoints)) for seen in (first, then)
    ]


async def test_missing_auth_is_no_empty_account(fake: FakeRunPod) -> None:
    """runpodctl#46: `myself: null` looks like an account without pods."""
    fake.go_wrong("graphql_no_auth")
    with pytest.raises(Unauthorized):
        await fetch(fake)


@pytest.mark.parametrize("value", [None, runtime(), {"uptime": 1}, {"uptime": 1, "ports": None}])
def test_ports_are_null_until_the_pod_runs(value: object) -> None:
    """dstack#1145 and #1141: no address before the image is there, and a runtime is no proof."""
    assert ({}, ()) == (one(runtime=value).endpoints, one(runtime=value).addresses)


async def test_a_new_pod_may_not_be_listed_yet(fake: FakeRunPod) -> None:
    """transformerlab PR 2305, horizon PR 372: a pod ran and was billed before the list had it."""
    pod = fake.plant("box-a", listed_after=2)
    seen = [len((await fetch(fake)).instances) for _ in range(3)]
    assert [0, 0, 1] == seen
    assert pod in fake.truth()


def test_a_pod_that_never_maps_a_port_stays_visible() -> None:
    """docling-testing#66: running for ten minutes and no port, because of its start command."""
    box = one(runtime=None)
    assert (BoxStatus.UP, frozenset({22, 8001, 8002})) == (box.status, box.declared)


@pytest.mark.parametrize("name", ["version_1", "graphql"])
async def test_an_old_api_is_named_as_what_it_is(fake: FakeRunPod, name: str) -> None:
    """dstack#4167: version 1 and GraphQL go away; a client of one that reads the other finds
    no pods and no error."""
    fake.go_wrong(name)
    with pytest.raises(Garbled, match="base_url"):
        await fetch(fake)


async def test_a_lost_spot_pod_is_down_at_the_next_read(fake: FakeRunPod, hands: Hands) -> None:
    """dstack#2732: lost spot pods looked like slow ones for 20 minutes."""
    pod = fake.plant("box-a")
    fake.turn(pod, Life.OUTBID)
    hands.at += 600
    [seen] = (await fetch(fake)).instances
    assert (BoxStatus.DOWN, {}) == (seen.status, seen.endpoints)
