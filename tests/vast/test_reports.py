"""Trouble that others had with Vast's API in public, and that must not be ours."""

import pytest
from tests.litellm.helpers import NOW, saying
from tests.vast.helpers import Hands, fetch, listed, one, request, row

from llmao_core.errors import Busy, FetchError, Garbled, Unauthorized
from llmao_core.snapshots import BoxStatus
from llmao_core.testing.fake_provider import Life
from llmao_vast import plugin, translate
from llmao_vast.fake import FakeVast


async def test_a_withdrawn_list_is_not_an_empty_account(fake: FakeVast) -> None:
    """skypilot#10517: the list of version 0 went away, was read as no instances at all, and paid
    replacements were started for boxes that were alive."""
    fake.plant("box-a")
    fake.go_wrong("withdrawn")
    with pytest.raises(FetchError):
        await fetch(fake)


async def test_only_the_list_of_version_1_is_asked_for(fake: FakeVast) -> None:
    """swm-gpu/swm#13: version 0 answers 410 to the list while its other paths go on working."""
    await fetch(fake)
    assert {"/api/v1/instances/"} == {call.path for call in fake.log}


async def test_a_withdrawn_list_is_not_a_wrong_key(fake: FakeVast) -> None:
    """dstack PR 3969: a 410 was shown to operators as invalid credentials."""
    fake.go_wrong("withdrawn")
    with pytest.raises(FetchError) as caught:
        await fetch(fake)
    assert "key" not in str(caught.value)
    assert "update llmao" in str(caught.value)


async def test_a_wrong_key_answered_with_404_is_a_wrong_key(fake: FakeVast) -> None:
    """AIonDemandCluster PR 1: a bad key gives 404 with an `auth_error` in it, not 401."""
    fake.key = "another"
    with pytest.raises(Unauthorized, match=r"providers\.vast\.api_key"):
        await fetch(fake)


async def test_the_26th_box_does_not_vanish(fake: FakeVast) -> None:
    """dstack PR 3938: a page ends at 25, and without the cursor later boxes are not there."""
    for number in range(26):
        fake.plant(f"box-{number}")
    assert 26 == len((await fetch(fake)).instances)


async def test_a_null_list_is_not_an_empty_one(fake: FakeVast) -> None:
    """vast-cli PR 405: a destroyed instance is answered 200 with `instances: null`; the official
    client crashed on it in one place and took it for an empty list in another."""
    fake.go_wrong("null_list")
    with pytest.raises(Garbled):
        await fetch(fake)


async def test_a_row_that_is_no_object_is_an_error_of_ours(fake: FakeVast) -> None:
    """easy-server#125: right after a destroy the payload is not an object, and a parser fell."""
    fake.plant("box-a")
    fake.go_wrong("null_row")
    with pytest.raises(Garbled):
        await fetch(fake)


def test_an_endpoint_is_never_guessed_from_the_ssh_port() -> None:
    """skypilot#10518: nobody listens beside the SSH proxy's port; only the map is real."""
    box = one(ports=None, direct_port_start=41200, direct_port_end=41263)
    assert {} == box.endpoints


def test_a_null_in_the_port_map_is_survived() -> None:
    """skypilot PR 9314: five shapes changed at once, among them a null for one port."""
    box = one(ports={"22/tcp": None, "8001/tcp": [{"HostIp": "0.0.0.0", "HostPort": "41233"}]})
    assert [8001] == list(box.endpoints)


@pytest.mark.parametrize("content", [b'"an error in words"', b'{"instances": "error"}', b"[1]"])
def test_text_where_an_object_was_expected(content: bytes) -> None:
    """skypilot#8817: a string came where a dict was expected."""
    with pytest.raises(Garbled):
        translate.page(content)


async def test_a_fleet_is_read_with_one_call_for_each_25(fake: FakeVast) -> None:
    """dstack PR 4031: one call per instance runs into the limits as a fleet grows."""
    for number in range(75):
        fake.plant(f"box-{number}")
    await fetch(fake)
    assert 3 == len(fake.log)


async def test_an_outbid_box_is_down_and_not_gone(fake: FakeVast, hands: Hands) -> None:
    """dstack PR 4036 and 4037: an interruption shows only in three states that say stopped; the
    container's own may still say running, and the box may come back by itself."""
    box = fake.plant("box-a", life=Life.OUTBID)
    [seen] = (await fetch(fake)).instances
    assert (BoxStatus.DOWN, {}) == (seen.status, seen.endpoints)
    fake.turn(box, Life.RUNNING)
    hands.at += 60
    [seen] = (await fetch(fake)).instances
    assert BoxStatus.UP is seen.status


def test_a_message_that_stands_still_says_nothing_of_the_status() -> None:
    """vast base-image PR 220: `status_msg` froze for ten minutes on a healthy host."""
    assert [BoxStatus.UP, BoxStatus.STARTING] == [
        box.status
        for box in listed(
            row(id=1, status_msg="Error response from daemon"),
            row(id=2, actual_status="loading", status_msg="success, running"),
        )
    ]


def test_a_map_makes_no_box_run() -> None:
    """vasttools#5: status null, ports mapped, and none of them ever answered."""
    assert BoxStatus.STARTING is one(actual_status=None).status


def test_the_public_port_is_taken_from_the_map() -> None:
    """vast-cli#112: the effective port stands in the raw rows only."""
    assert 41233 == one().endpoints[8001].port


async def test_plain_text_for_429_is_busy() -> None:
    """The limit's answer is often no JSON, and carries no time to wait."""
    async with saying(429, b"Too Many Requests") as http:
        with pytest.raises(Busy):
            await plugin.llmao_fetch(request(), http, NOW)
