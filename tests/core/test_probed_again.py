"""A new instance is probed anew: what the one before it answered is not an answer of its own."""

from llmao_core.testing.walk import Walk

BOX = "203.0.113.10"


def listed(instance: str) -> dict[str, object]:
    return {"vast": {instance: {"address": BOX, "ports": {8001: 40001}}}}


def test_another_instance_at_the_same_address_is_probed_again() -> None:
    """The prober has answered for this URL already, and is asked once more."""
    it = Walk()
    fleet = {"listings": {"vast": 60}}
    serves = {f"{BOX}:40001": "serves"}
    it.step(0, fleet=fleet, listings=listed("4711"), servers=serves, fetches=[BOX])
    it.step(60, listings=listed("4712"), probes=False)
    (spec,) = it.view.targets
    assert spec.due_at > it.snapshots.probes.reports[spec.target].probed_at
