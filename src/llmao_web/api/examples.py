"""What the description of the API shows as answers.

Rule of this file: made of the same records as the answers, so that an example cannot lie about
the shape.
"""

from collections.abc import Sequence

from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.spec import Example

from llmao_core.actions import ActionKind
from llmao_core.item_kinds import ItemKind
from llmao_core.plan import Hold
from llmao_core.snapshots import SourceState
from llmao_core.verdicts import (
    Availability,
    Badge,
    Kind,
    Lifecycle,
    LitellmSignal,
    SignalKind,
)

from . import shapes

_AT = 1_760_000_000.0
_ID = "llmao-0123456789abcdef0123456789abcdef"
_KEY = shapes.Key("203.0.113.10:8001", "gemma4-26b")
_MODEL = shapes.Model(
    name="gemma4-26b",
    display_name="Gemma 4 26B",
    availability=Availability.AVAILABLE,
    checked=True,
    private=True,
    context=32768,
    full_requests=5,
    capabilities=["Chat", "text + vision"],
    licence="Apache-2.0",
    details={"Languages": "140", "Weights": "google/gemma-4-26b-it"},
    replicas=shapes.Replicas(1, 1, "1 healthy", [_ID]),
)
_CALLERS_MODEL = shapes.Model(
    name="claude-x",
    display_name="Claude X",
    availability=Availability.AVAILABLE,
    checked=False,
    private=False,
    context=None,
    full_requests=None,
    capabilities=["Chat"],
    licence="",
    details={},
    replicas=None,
)
_DEPLOYMENT = shapes.Deployment(
    id=_ID,
    key=_KEY,
    kind=Kind.INTENDED,
    lifecycle=Lifecycle.HEALTHY,
    since=_AT - 7800,
    rule="answers",
    because="The newest probe was answered.",
    fresh=True,
    provider="vast",
    host="203.0.113.10",
    address="203.0.113.10:41022",
    signal=shapes.Signal(SignalKind.OK, _AT - 4, ""),
    litellm=shapes.LitellmSays(LitellmSignal.UP, _AT - 3000, "", _ID),
    badges=[shapes.BadgeSaid(Badge.OPEN_PATHS, Badge.OPEN_PATHS.meaning, Badge.OPEN_PATHS.remedy)],
    context=32768,
    kv_tokens=181000,
    running=2,
    waiting=0,
    last_ok=_AT - 4,
    fails=0,
    revision=shapes.Revision("r1-0123456789abcdef", "r1-0123456789abcdef"),
    drained=False,
    retired=False,
    restarting=False,
    unlisted=False,
    reached=False,
    action_rule="update-moved",
    write_trouble="",
)
_BOX = shapes.Box(
    name="203.0.113.10",
    provider="vast",
    instance_id="20443311",
    status="running",
    intended=True,
    approved=False,
    unlisted=False,
    placed_by="vast",
    last_fetch=_AT - 7900,
    price_per_hour=0.41,
    gpu="1 × RTX 4090",
    deployments=[_ID],
    rebooting="",
    reboot_since=None,
    reboot_until=None,
    stale=False,
    label="spare",
    note="Alice tries a new driver on it until Friday.",
    noted_by="alice",
    noted_at=_AT - 90_000,
    drained=False,
    retired=False,
)
_ITEM = shapes.Item(
    id="unknown_host 203.0.113.99",
    kind=ItemKind.UNKNOWN_HOST,
    sentence="203.0.113.99 asks for a configuration.",
    remedy="Press Approve, and choose its models.",
    evidence=["It has asked 4 times."],
    since=_AT - 4000,
    key=None,
    host="203.0.113.99",
)
_SOURCE = shapes.Source(
    name="runpod",
    state=SourceState.STALE,
    taken_at=_AT - 9000,
    interval_s=600,
    trouble=shapes.Trouble("Unauthorized", "RunPod refused the key.", _AT - 8400, 14),
)
_ACTION = shapes.Action(
    kind=ActionKind.DELETE_LITELLM,
    key=_KEY,
    litellm_id=_ID,
    rule="remove-failed",
    reason="3 probes in a row failed.",
    evidence=["fails 3"],
    policy="auto",
    runs=False,
    hold=Hold.WITNESS,
    until=None,
    released_by="",
)
_ENTRY = shapes.Entry(
    number=812,
    at=_AT - 60,
    actor="llmao",
    kind="action",
    host="",
    key=_KEY,
    detail={"action": "add_litellm", "rule": "add-healthy", "outcome": "done"},
)
_TRANSITION = shapes.Transition(_AT - 7800, _KEY, "Loading", "Healthy")

_ANSWERS: Sequence[object] = (
    shapes.Models(_AT, [_MODEL, _CALLERS_MODEL]),
    shapes.View(_AT, "main", [_MODEL], [_DEPLOYMENT], [_BOX], [_ITEM], [_SOURCE]),
    shapes.Plan(_AT, [_ACTION]),
    shapes.Boxes(_AT, [_BOX]),
    shapes.Items(_AT, [_ITEM]),
    shapes.Sources(_AT, [_SOURCE]),
    shapes.Explained(_AT, _DEPLOYMENT, _ACTION, [_TRANSITION]),
    shapes.Ledger([_ENTRY], 812),
    shapes.Transitions([_TRANSITION]),
)
_FAILURES = {
    400: ("bad_request", "The request makes no sense."),
    401: ("unauthorized", "Send an API token or sign in."),
    403: ("forbidden", "Only an admin may do or see this."),
    404: ("not_found", "There is nothing at this address."),
    429: ("too_many_requests", "Too many requests with a wrong token."),
    503: ("service_unavailable", "No pass has run yet; ask again."),
}


def answers(kind: type, description: str, *failures: int) -> dict[int, ResponseSpec]:
    """Return how an endpoint answers: one shape, and failures by status."""
    example = next(each for each in _ANSWERS if isinstance(each, kind))
    good = ResponseSpec(
        kind,
        generate_examples=False,
        description=description,
        examples=[Example(summary=description, value=example)],
    )
    return {200: good, **{status: _failure(status) for status in (401, 403, 429, *failures)}}


def _failure(status: int) -> ResponseSpec:
    code, message = _FAILURES[status]
    value = shapes.Failure(shapes.WhatFailed(code, message))
    return ResponseSpec(
        shapes.Failure,
        generate_examples=False,
        description=message,
        examples=[Example(summary=code, value=value)],
    )
