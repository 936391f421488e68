"""Reboots of an instance: done once, refused for a reason, or not known."""

import json

import httpx
import pytest
from tests.litellm.helpers import failing, saying
from tests.vast.helpers import NOW, Hands, fetch, order, reached, request

from llmao_core.actions import Outcome, OutcomeKind
from llmao_core.errors import LlmaoError, NotYet, OutcomeUnknown, Refused
from llmao_core.snapshots import BoxStatus
from llmao_vast import plugin
from llmao_vast.fake import KEY, FakeVast


async def reboot(fake: FakeVast, target: str) -> Outcome:
    async with reached(fake) as http:
        return await plugin.llmao_execute(order(target), request(), http, NOW)


async def test_a_box_is_rebooted_once(fake: FakeVast, hands: Hands) -> None:
    """A second order while it reboots finds it so; afterwards its ports are what they were."""
    box = fake.plant("box-a", ports={8001: 41233})
    assert OutcomeKind.DONE is (await reboot(fake, box)).kind
    hands.at += 2
    assert OutcomeKind.ALREADY is (await reboot(fake, box)).kind
    assert 1 == fake.boxes[box].reboots
    hands.at += 60
    [seen] = (await fetch(fake)).instances
    assert (BoxStatus.UP, 41233) == (seen.status, seen.endpoints[8001].port)


async def test_a_list_that_cannot_be_read_does_not_stop_a_reboot(fake: FakeVast) -> None:
    box = fake.plant("box-a")
    fake.go_wrong("busy_text", page=1)
    assert OutcomeKind.DONE is (await reboot(fake, box)).kind


async def test_a_box_that_is_not_there_is_refused(fake: FakeVast) -> None:
    with pytest.raises(Refused, match="no instance 4711"):
        await reboot(fake, "4711")


@pytest.mark.parametrize("target", ["", "../users", "1/2", "c.1", "-1", "１", "9" * 40])
async def test_what_is_no_id_is_never_sent(fake: FakeVast, target: str) -> None:
    with pytest.raises(Refused):
        await reboot(fake, target)
    assert [] == list(fake.log)


@pytest.mark.parametrize(
    ("kind", "status", "content"),
    [
        (Refused, 401, b"{}"),
        (Refused, 403, b"{}"),
        (Refused, 404, b'{"error": "auth_error"}'),
        (Refused, 404, b"Not Found"),
        (Refused, 410, b"{}"),
        (Refused, 400, b"{}"),
        (Refused, 302, b""),
        (Refused, 200, b'{"success": false, "msg": "no"}'),
        (NotYet, 429, b"too frequent"),
        (OutcomeUnknown, 500, b"{}"),
        (OutcomeUnknown, 504, b"<html>"),
        (OutcomeUnknown, 408, b""),
        (OutcomeUnknown, 200, b"<html>"),
        (OutcomeUnknown, 200, b""),
    ],
)
async def test_every_answer_has_its_outcome(
    kind: type[LlmaoError], status: int, content: bytes
) -> None:
    async with saying(status, content) as http:
        with pytest.raises(kind):
            await plugin.llmao_execute(order("1"), request(), http, NOW)


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        (NotYet, httpx.ConnectError),
        (NotYet, httpx.ConnectTimeout),
        (OutcomeUnknown, httpx.ReadTimeout),
        (OutcomeUnknown, httpx.RemoteProtocolError),
        (OutcomeUnknown, httpx.WriteError),
    ],
)
async def test_a_lost_answer_may_have_happened(
    kind: type[LlmaoError], error: type[httpx.TransportError]
) -> None:
    """Only a request that never left is one that may simply be made again."""
    async with failing(error, KEY) as http:
        with pytest.raises(kind) as caught:
            await plugin.llmao_execute(order("1"), request(), http, NOW)
    assert KEY not in repr(caught.value)


async def test_a_reboot_whose_answer_is_lost_is_not_repeated(fake: FakeVast) -> None:
    box = fake.plant("box-a")
    fake.go_wrong("lost", page=1)
    fake.go_wrong("lost", page=0)
    with pytest.raises(OutcomeUnknown):
        await reboot(fake, box)
    assert ["GET", "PUT"] == [call.method for call in fake.log]


async def test_how_a_reboot_is_asked_for(fake: FakeVast) -> None:
    box = fake.plant("box-a")
    await reboot(fake, box)
    look, write = fake.log
    assert {"id": {"eq": int(box)}} == json.loads(look.query["select_filters"])
    assert ("PUT", f"/api/v0/instances/reboot/{box}/") == (write.method, write.path)
