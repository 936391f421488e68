"""Under which name a key goes, and where it can be reached."""

import pytest
from attrs import evolve
from tests.core.deciding.scenes import AT_LISTEN, AT_PUBLIC, BOX, entry, fleet, row, scene

from llmao_core.history import History
from llmao_core.intended import Deployment
from llmao_core.join import Joined, dialable, join
from llmao_core.placement import Found, Place, Places
from llmao_core.snapshots import BoxFetches, BoxProtocol, BoxStatus, Endpoint, Instance, Row

OURS = fleet().deployments[0]
SHOWN = Instance("4711", BoxStatus.UP, endpoints={8001: Endpoint("http", BOX, 40001)})


# ---- renamed hosts


@pytest.mark.parametrize(
    ("fetches", "rows", "new"),
    [
        (None, (), False),
        (BoxFetches(), (), False),
        (BoxFetches(last_handout=1.0), (), True),
        (None, ("new",), True),
        (None, ("old",), False),
    ],
)
def test_a_host_goes_by_its_former_name_until_it_fetches(
    fetches: BoxFetches | None, rows: tuple[str, ...], new: bool
) -> None:
    """Or until LiteLLM has a row under the new one."""
    intended = fleet(hosts={"c.4711": {8001: "small"}}, was={"c.4711": [BOX]})
    current = intended.deployments[0]
    (former,) = current.former
    ids = {"new": current, "old": former}
    protocol = BoxProtocol({"c.4711": fetches} if fetches else {})
    there = tuple(Row(ids[one].litellm_id, "small", AT_LISTEN) for one in rows)
    found = scene(intended, rows=there, protocol=protocol)
    first = join(found, Places(), {}, History()).entries[0]
    assert (current if new else former) == first.deployment


# ---- where it is reached


LISTED = Place(found=Found("vast", SHOWN), named=True)
STAMPED = row(at=AT_PUBLIC.removeprefix("http://"))


def pinned(port: int | None) -> Deployment:
    return evolve(OURS, public_port=port)


@pytest.mark.parametrize(
    ("one", "known", "reset", "no_listing", "expected"),
    [
        (entry(place=LISTED), "http://known:1", False, False, AT_PUBLIC),
        (entry(None, STAMPED), "http://known:1", False, False, "http://known:1"),
        (entry(None, STAMPED), "", False, False, AT_PUBLIC),
        (entry(None, STAMPED), "", True, False, ""),
        (entry(None, STAMPED), "", True, True, AT_LISTEN),
        (entry(None, evolve(STAMPED, stamped_base="")), "", False, False, ""),
        (entry(deployment=pinned(40002)), "", False, False, f"http://{BOX}:40002"),
        (entry(deployment=evolve(pinned(40002), host="c.4711")), "", False, True, ""),
        (entry(deployment=evolve(OURS, own=True)), "", False, False, AT_LISTEN),
        (entry(deployment=evolve(OURS, own=True, host="c.4711")), "", False, False, AT_LISTEN),
        (entry(), "", False, True, AT_LISTEN),
        (entry(), "", False, False, ""),
        (entry(deployment=evolve(OURS, host="")), "", False, True, ""),
        (entry(deployment=None, rows=(STAMPED,)), "", False, True, AT_PUBLIC),
        (entry(deployment=None), "http://known:1", False, True, ""),
        (entry(deployment=evolve(OURS, provider="acme"), place=LISTED), "x", True, True, AT_LISTEN),
    ],
)
def test_where_a_key_is_reached(
    one: Joined, known: str, reset: bool, no_listing: bool, expected: str
) -> None:
    """The listing, else the last URL, the stamp, a pin; a host's own name only where none lists."""
    assert expected == dialable(one, known, reset=reset, no_listing=no_listing)
