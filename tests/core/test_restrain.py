"""What a removal waits for, where the order of events is what matters."""

from attrs import evolve

from llmao_core.actions import ActionKind, Outcome, OutcomeKind, Write
from llmao_core.plan import Hold
from llmao_core.records import LitellmSignal
from llmao_core.scene import look
from llmao_core.testing.walk import Walk

BOX = "203.0.113.10"
SMALL = f"{BOX}:8001 small"


def listed(port: int = 40001) -> dict[str, object]:
    return {"vast": {"4711": {"address": BOX, "ports": {8001: port}}}}


def test_the_brake_counts_what_went_before() -> None:
    """A fleet that goes row by row goes as surely as one that goes at once."""
    boxes = [f"203.0.113.{number}" for number in (10, 11, 12)]
    rows = [{"key": f"{box}:8001 small"} for box in boxes]
    servers = {f"{box}:8001": "keyless" for box in boxes}
    last = f"{boxes[2]}:8001"
    it = Walk()
    it.step(
        0,
        fleet={"hosts": {box: {8001: "small"} for box in boxes}},
        servers={**servers, last: "serves"},
        rows=rows,
        writes="work",
    )
    it.step(18)
    assert 1 == len(it.rows)
    it.step(24, servers=servers)
    it.step(150)
    assert 1 == len(it.rows)
    assert [Hold.BRAKE] == [action.hold for action in it.plan.actions]


def test_an_opinion_from_an_outage_of_ours_is_no_witness() -> None:
    """While nothing answered llmao, LiteLLM may have shared its trouble: it is asked again."""
    it = Walk()
    row = {"key": SMALL, "at": f"{BOX}:40001"}
    serves = {f"{BOX}:40001": "serves"}
    fleet = {"listings": {"vast": 60}}
    it.step(0, fleet=fleet, listings=listed(), servers=serves, rows=[row])
    it.step(60, servers={f"{BOX}:40001": "silent"}, trouble={"vast": "Unreachable: no answer"})
    it.step(90, checks={SMALL: "down"})
    it.step(120, listings=listed(), trouble={})
    it.step(132)
    [removal] = it.plan.actions
    assert (ActionKind.DELETE_LITELLM, Hold.WITNESS) == (removal.kind, removal.hold)
    it.step(138, checks={SMALL: "down"})
    [removal] = it.plan.actions
    assert Hold.NOT_HELD is removal.hold


def test_an_opinion_of_the_row_before_its_rewrite_is_none() -> None:
    """What LiteLLM found at the old address says nothing of the new one."""
    it = Walk()
    it.step(0, rows=[{"key": SMALL}], checks={SMALL: "down"})
    [row] = it.rows.values()
    [record] = it.view.records
    assert LitellmSignal.DOWN is record.litellm
    done, kind = Outcome(OutcomeKind.DONE), ActionKind.UPDATE_LITELLM
    for began, counts in ((it.now, False), (it.now - 1.0, True)):
        write = Write(kind, record.key, began, began, done, hash="new")
        scene = look(evolve(it.snapshots, writes={row.id: write}), it.now)
        assert scene is not None
        assert counts == (scene.opinion(row.id) is not None)
