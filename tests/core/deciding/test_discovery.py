"""Spare instances: what is tried on them, and what becomes a deployment that nobody intended."""

from typing import Any

import pytest
from attrs import evolve
from tests.core.deciding.reports import WELL, said
from tests.core.deciding.scenes import NOW, fleet, row, scene

from llmao_core.history import History, KeyHistory
from llmao_core.intended import Intended
from llmao_core.join import Exploration, Joined, Joint, join
from llmao_core.placement import Found, Place, Places
from llmao_core.probes import Identity, ProbeReport, Probes, Reply, ServedModel, Target
from llmao_core.records import Kind
from llmao_core.snapshots import (
    BoxFetches,
    BoxProtocol,
    BoxStatus,
    Endpoint,
    Instance,
    UnknownHost,
)
from llmao_core.testing.situation import deployment_of

HERE = "203.0.113.50"
URL = f"http://{HERE}:40001"
NONE = fleet(hosts={})
SPARE = Instance(
    "Pod7", BoxStatus.UP, addresses=(HERE,), endpoints={8001: Endpoint("http", HERE, 40001)}
)
FOUND = Found("runpod", SPARE)


def explored(
    *spare: Found, intended: Intended = NONE, history: History | None = None, **usable: Any
) -> Joint:
    places = Places(spare=spare or (FOUND,))
    return join(scene(intended, **usable), places, {}, history or History())


def tried(joint: Joint) -> list[tuple[str, int]]:
    return [(one.host, one.listen_port) for one in joint.explore]


def called(**changes: Any) -> Found:
    return evolve(FOUND, instance=evolve(SPARE, **changes))


# ---- what is tried


def test_a_spare_instance_is_tried_by_its_id() -> None:
    """With the bearer it would have under that name, at the port its listing maps."""
    (one,) = explored().explore
    deployment = deployment_of(NONE, "pod7:8001 small")
    named = evolve(deployment, name="small")
    assert Exploration(FOUND, "pod7", 8001, URL, named) == one


def test_a_spare_instance_is_tried_by_each_name_it_may_go_by() -> None:
    """Labels first, then the id; an address only where it fetched a configuration under it."""
    one = called(names=("c.4711", "pod7"))
    assert [("c.4711", 8001), ("pod7", 8001)] == tried(explored(one))
    expected = [*tried(explored(one)), (HERE, 8001)]
    asked = UnknownHost(HERE, NOW, NOW, 1)
    for protocol in (BoxProtocol({HERE: BoxFetches()}), BoxProtocol(unknown=(asked,))):
        assert expected == tried(explored(one, protocol=protocol))


def test_every_port_that_servers_listen_on_is_tried() -> None:
    """In order; not others, and not what leads nowhere."""
    ports = {port: Endpoint("http", HERE, 40_000 + port) for port in (8002, 22, 8001)}
    assert [("pod7", 8001), ("pod7", 8002)] == tried(explored(called(endpoints=ports)))
    nowhere = {8001: Endpoint("http", "not a host", 1), 8002: ports[8002]}
    assert [("pod7", 8002)] == tried(explored(called(endpoints=nowhere)))


@pytest.mark.parametrize("status", list(BoxStatus))
def test_only_what_is_up_is_tried(status: BoxStatus) -> None:
    """The next one is tried all the same."""
    other = Found("runpod", evolve(SPARE, id="pod8"))
    expected = [("pod7", 8001)] if status is BoxStatus.UP else []
    assert [*expected, ("pod8", 8001)] == tried(explored(called(status=status), other))


def test_who_was_intended_or_retired_is_not_tried() -> None:
    """By that name: by another it may still be spare."""
    one = called(names=("c.4711",))
    history = History(intended_hosts=frozenset({"c.4711"}))
    assert [("pod7", 8001)] == tried(explored(one, history=history))
    retired = fleet(hosts={}, retired=["c.4711"])
    assert [("pod7", 8001)] == tried(explored(one, intended=retired))


def test_without_a_salt_or_a_recipe_nothing_is_tried() -> None:
    """There is no bearer to try with, or nothing that could be served."""
    assert () == explored(intended=fleet(hosts={}, salts=0)).explore
    config = evolve(NONE.config, models=())
    assert () == explored(intended=evolve(NONE, config=config)).explore


def test_one_model_is_enough_to_try_with() -> None:
    """A bearer is of a port and not of a model: the first with a recipe serves."""
    sold = fleet(hosts={}, commercial=["gpt"]).config.models[-1]
    for models in ((sold, NONE.config.models[0]), NONE.config.models[:1]):
        config = evolve(NONE.config, models=models)
        (one,) = explored(intended=evolve(NONE, config=config)).explore
        assert NONE.config.models[0].model_name == one.deployment.model


# ---- what is found


BEARER_ID = deployment_of(NONE, "pod7:8001 small").bearer_id


def answers(*served: str, url: str = URL, bearer_id: str = BEARER_ID) -> Probes:
    models = tuple(ServedModel(name) for name in served)
    report = ProbeReport(NOW, 0.1, WELL, Identity(said(401), Reply(WELL.kind, 200), models))
    return Probes(reports={Target(url, bearer_id): report})


def keys(joint: Joint) -> list[str]:
    return [str(one.key) for one in joint.entries]


def test_what_serves_a_model_of_ours_is_discovered() -> None:
    """It has the place of its instance, and a deployment as if it had been intended."""
    (one,) = explored(probes=answers("small", "unknown")).entries
    deployment = evolve(deployment_of(NONE, "pod7:8001 small"), name="small")
    place = Place(found=FOUND, named=True)
    expected = Joined(deployment.key, Kind.DISCOVERED, deployment, place=place)
    assert expected == one
    assert URL == one.place.url(8001)


def test_its_rows_are_its_own() -> None:
    """As with any key of ours."""
    stamped = row(NONE, key="pod7:8001 small")
    (one,) = explored(probes=answers("small"), rows=(stamped,)).entries
    assert (stamped,) == one.rows


def test_each_model_it_lists_is_a_key() -> None:
    """In the order of their names."""
    found = explored(probes=answers("small", "large"))
    assert ["pod7:8001 large", "pod7:8001 small"] == keys(found)


@pytest.mark.parametrize(
    "probes",
    [
        Probes(),
        answers(),
        answers("unknown"),
        answers("small", url="http://203.0.113.51:40001"),
        answers("small", bearer_id="another"),
        Probes(reports={Target(URL, BEARER_ID): ProbeReport(NOW, 0.1, WELL)}),
    ],
    ids=["unprobed", "nothing", "another model", "elsewhere", "another bearer", "not asked"],
)
def test_what_has_not_said_what_it_serves_is_none(probes: Probes) -> None:
    """It is tried on, and was never one of ours."""
    found = explored(probes=probes)
    assert ([], [("pod7", 8001)]) == (keys(found), tried(found))
    unproven = History(keys={deployment_of(NONE, "pod7:8001 small").key: KeyHistory()})
    assert [] == keys(explored(probes=probes, history=unproven))


def test_what_was_discovered_once_stays_so() -> None:
    """Also while it says nothing: its failures must be seen as failures of a key."""
    key = deployment_of(NONE, "pod7:8001 small").key
    history = History(keys={key: KeyHistory(discovered="runpod")})
    assert ["pod7:8001 small"] == keys(explored(history=history))
    assert ["pod7:8001 large", "pod7:8001 small"] == keys(
        explored(history=history, probes=answers("large"))
    )


def test_of_two_that_are_one_key_the_first_is_it() -> None:
    """Two instances with one label: it is found once, where it was found first."""
    two = called(names=("c.4711",)), Found("vast", evolve(SPARE, id="9", names=("c.4711",)))
    bearer_id = deployment_of(NONE, "c.4711:8001 small").bearer_id
    (one,) = explored(*two, probes=answers("small", bearer_id=bearer_id)).entries
    assert two[0] == one.place.found
