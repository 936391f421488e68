"""What is taken for what, where a row of the decision table would show no difference."""

from typing import Any

from attrs import evolve

from llmao_core.actions import ActionKind
from llmao_core.classify import Aim, lacks_proof
from llmao_core.history import KeyHistory, Seen
from llmao_core.records import ItemKind, SignalKind
from llmao_core.scene import look
from llmao_core.testing.walk import Walk

BOX = "203.0.113.10"
SMALL = f"{BOX}:8001 small"


def listed(**more: Any) -> dict[str, Any]:
    return {"vast": {"4711": {"address": BOX, "ports": {8001: 40001}, **more}}}


def test_a_box_at_a_shared_address_has_all_ports_of_its_host() -> None:
    """Of two boxes behind one address the one that lacks a port is not the host."""
    both = {
        "4711": {"address": BOX, "ports": {8001: 40001}},
        "4712": {"address": BOX, "ports": {8001: 40011, 8002: 40012}},
    }
    it = Walk()
    hosts = {BOX: {8001: "small", 8002: "large"}}
    it.step(0, fleet={"hosts": hosts, "listings": {"vast": 60}}, listings={"vast": both})
    [host] = [one for one in it.view.hosts if one.name == BOX]
    assert "4712" == host.instance_id


def test_a_report_under_a_new_name_is_no_fetch() -> None:
    """Only what a box was handed changes its bearer; until then its route stays as it is."""
    it = Walk()
    fleet = {"hosts": {"c.4711": {8001: "small"}}, "was": {"c.4711": [BOX]}}
    it.step(
        0,
        fleet={**fleet, "listings": {"vast": 60}},
        listings=listed(label="C.4711"),
        servers={f"{BOX}:40001": {"host": f"{BOX}:8001"}},
        rows=[{"key": SMALL, "at": f"{BOX}:40001"}],
    )
    it.step(60, applied={"c.4711": "r1-abc"})
    it.step(90)
    assert [SMALL] == [str(one.key) for one in it.view.records]
    assert () == it.plan.actions


def test_after_a_drain_a_server_proves_itself_again() -> None:
    """Nobody knows what was done to the box meanwhile."""
    it = Walk()
    it.step(0, servers={f"{BOX}:8001": "serves"}, writes="work")
    assert 1 == len(it.rows)
    it.step(60, fleet={"drained": [BOX]})
    assert 0 == len(it.rows)
    it.step(102)
    it.step(108, fleet={"drained": []}, probes=False)
    assert 0 == len(it.rows)
    it.step(114, probes=True)
    assert 1 == len(it.rows)


def test_what_nobody_looked_at_is_not_closed() -> None:
    """A server that must be closed is not added before its paths were tried."""
    it = Walk()
    it.step(0, fleet={"require_closed": True}, servers={f"{BOX}:8001": "serves"}, probes=False)
    scene = look(it.snapshots, it.now)
    assert scene is not None
    [deployment] = scene.intended.deployments
    seen = Seen(it.now, SignalKind.OK, identity=True, proven_at=it.now)
    for looked, paths, lacks in ((None, (), True), (it.now, (), False), (it.now, ("/x",), True)):
        aim = Aim(deployment, None, evolve(seen, open_at=looked, open_paths=paths), stale=False)
        assert lacks == bool(lacks_proof(KeyHistory(), aim, scene))


def test_the_derived_id_stays_whatever_the_other_is_called() -> None:
    """Were it removed it would be made again, and again be one of two."""
    for other in ("a-copy", "zz-copy"):
        it = Walk()
        rows = [{"key": SMALL}, {"key": SMALL, "id": other}]
        it.step(0, servers={f"{BOX}:8001": "serves"}, rows=rows)
        [action] = it.plan.actions
        assert (ActionKind.DELETE_DUPLICATE, other) == (action.kind, action.litellm_id)


def test_a_pool_promises_what_each_of_its_members_can() -> None:
    """A request may come to the one with the shortest context."""
    boxes = {BOX: 8192, "203.0.113.11": 4096}
    it = Walk()
    it.step(
        0,
        fleet={"hosts": {box: {8001: "small"} for box in boxes}},
        servers={f"{box}:8001": {"max_model_len": length} for box, length in boxes.items()},
        rows=[{"key": f"{box}:8001 small"} for box in boxes],
    )
    [model] = [one for one in it.view.models if one.name == "small"]
    assert (2, 4096) == (model.healthy, model.context)


def test_a_dead_server_serves_nobody_though_it_has_a_row() -> None:
    """Its removal waits for a witness, and what the box costs is told all the same."""
    it = Walk()
    it.step(
        0,
        fleet={"listings": {"vast": 60}},
        listings=listed(price=0.45),
        rows=[{"key": SMALL, "at": f"{BOX}:40001"}],
    )
    it.now += 3600
    it.look()
    assert 1 == len(it.rows)
    assert ItemKind.SERVES_NOTHING in {each.kind for each in it.view.items}
