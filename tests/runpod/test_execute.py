"""Restarts of a pod: done once, refused for a reason, or not known."""

import httpx
import pytest
from tests.litellm.helpers import failing, saying
from tests.runpod.helpers import NOW, Hands, fetch, order, reached, request

from llmao_core.actions import Outcome, OutcomeKind
from llmao_core.errors import LlmaoError, NotYet, OutcomeUnknown, Refused
from llmao_core.testing.fake_provider import Life
from llmao_runpod import plugin
from llmao_runpod.fake import KEY, FakeRunPod


async def restart(fake: FakeRunPod, target: str) -> Outcome:
    async with reached(fake) as http:
        return await plugin.llmao_execute(order(target), request(), http, NOW)


async def test_a_pod_is_restarted_once_and_its_ports_change(fake: FakeRunPod, hands: Hands) -> None:
    pod = fake.plant("box-a")
    before = (await fetch(fake)).instances[0].endpoints[8001]
    assert OutcomeKind.DONE is (await restart(fake, pod)).kind
    assert OutcomeKind.ALREADY is (await restart(fake, pod)).kind
    assert 1 == fake.boxes[pod].reboots
    hands.at += 60
    assert before != (await fetch(fake)).instances[0].endpoints[8001]


async def test_how_a_restart_is_asked_for(fake: FakeRunPod) -> None:
    pod = fake.plant("box-a")
    await restart(fake, pod)
    [call] = fake.log
    assert ("POST", f"/v2/pods/{pod}/action") == (call.method, call.path)
    assert {"action": "restart"} == call.json()


async def test_a_pod_that_exited_is_refused_with_its_status(fake: FakeRunPod) -> None:
    pod = fake.plant("box-a", life=Life.EXITED)
    with pytest.raises(Refused, match="down"):
        await restart(fake, pod)


async def test_a_pod_that_is_not_there_is_refused(fake: FakeRunPod) -> None:
    with pytest.raises(Refused, match="no pod nobody"):
        await restart(fake, "nobody")


@pytest.mark.parametrize("target", ["", "../users", "a/b", "a b", "x" * 99])
async def test_what_is_no_id_is_never_sent(fake: FakeRunPod, target: str) -> None:
    with pytest.raises(Refused):
        await restart(fake, target)
    assert [] == list(fake.log)


@pytest.mark.parametrize(
    ("kind", "status", "content"),
    [
        (Refused, 400, b"{}"),
        (Refused, 401, b"{}"),
        (Refused, 403, b"{}"),
        (Refused, 404, b"{}"),
        (Refused, 302, b""),
        (NotYet, 403, b"error code: 1010"),
        (NotYet, 409, b"{}"),
        (NotYet, 429, b"{}"),
        (OutcomeUnknown, 500, b"{}"),
        (OutcomeUnknown, 504, b"<html>"),
        (OutcomeUnknown, 408, b""),
    ],
)
async def test_every_answer_has_its_outcome(
    kind: type[LlmaoError], status: int, content: bytes
) -> None:
    async with saying(status, content) as http:
        with pytest.raises(kind):
            await plugin.llmao_execute(order("k3v9"), request(), http, NOW)


async def test_when_to_come_again_is_handed_on(fake: FakeRunPod) -> None:
    pod = fake.plant("box-a")
    fake.go_wrong("busy")
    with pytest.raises(NotYet) as caught:
        await restart(fake, pod)
    assert 17.0 == caught.value.retry_after_s


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        (NotYet, httpx.ConnectError),
        (NotYet, httpx.ConnectTimeout),
        (OutcomeUnknown, httpx.ReadTimeout),
        (OutcomeUnknown, httpx.RemoteProtocolError),
    ],
)
async def test_a_lost_answer_may_have_happened(
    kind: type[LlmaoError], error: type[httpx.TransportError]
) -> None:
    async with failing(error, KEY) as http:
        with pytest.raises(kind) as caught:
            await plugin.llmao_execute(order("k3v9"), request(), http, NOW)
    assert KEY not in repr(caught.value)
