"""What a press does, in words: who still serves a model, what it costs, how it is undone."""

import pytest

from llmao_core.records import HostView, Lifecycle, Record
from llmao_web.pages.warnings import callers, drains_one, reboots, retires, serving, withdraws

from .worlds import a_view

RENTED = HostView("c.4711", "vast", "4711", "up", price_per_hour=0.09)
OWN = HostView("gpu.example.org")
GEMMA, QWEN = a_view().records[:2]
SPARE = GEMMA._replace(deployment=a_view().records[2].deployment)


@pytest.mark.parametrize(
    ("leaving", "all_of_them", "said"),
    [
        ([GEMMA], [GEMMA, QWEN], "Nothing else serves gemma4-26b: callers get errors until"),
        ([GEMMA], [GEMMA, SPARE], "Other deployments go on serving gemma4-26b."),
        ([GEMMA, SPARE], [GEMMA, SPARE], "Nothing else serves gemma4-26b"),
        ([QWEN], [GEMMA, QWEN], "It serves no callers now, so they lose nothing."),
        ([GEMMA._replace(row=None)], [GEMMA], "they lose nothing"),
        ([], [], "they lose nothing"),
        ([GEMMA], [GEMMA, SPARE._replace(row=None)], "Nothing else serves"),
        ([GEMMA], [GEMMA, SPARE._replace(lifecycle=Lifecycle.STALLED)], "Nothing else serves"),
    ],
)
def test_callers_lose_a_model_when_nothing_else_that_is_up_is_routed(
    leaving: list[Record], all_of_them: list[Record], said: str
) -> None:
    """A server that is down, or that LiteLLM does not have, serves nobody."""
    assert said in callers(leaving, serving(all_of_them))


def test_several_models_are_told_apart() -> None:
    """Those that are lost and those that go on."""
    qwen = QWEN._replace(lifecycle=Lifecycle.HEALTHY, row=GEMMA.row)
    now = serving([GEMMA, SPARE, qwen])
    assert (
        "Nothing else serves qwen3-8b: callers get errors until something does. "
        "Other deployments go on serving gemma4-26b."
    ) == callers([GEMMA, qwen], now)
    both = callers([GEMMA, qwen], serving([GEMMA, qwen]))
    assert "Nothing else serves gemma4-26b and qwen3-8b:" in both


def test_a_machine_of_our_own_costs_no_rent() -> None:
    """Rent is spoken of where something is rented, with its price where it is known."""
    now = serving([GEMMA])
    assert "its rent of $0.09/h goes on" in " ".join(drains_one(GEMMA, RENTED, now))
    unknown = RENTED._replace(price_per_hour=None)
    assert "its rent goes on" in " ".join(drains_one(GEMMA, unknown, now))
    for said in (
        drains_one(GEMMA, OWN, now),
        drains_one(GEMMA, None, now),
        withdraws([GEMMA], OWN),
        retires([GEMMA], OWN, now, approved=True, configured=False),
    ):
        assert "rent" not in " ".join(said)


def test_each_warning_says_how_it_is_undone_or_that_it_is_not() -> None:
    """A press that cannot be taken back says so."""
    now = serving([GEMMA])
    assert "until you undrain it" in drains_one(GEMMA, RENTED, now)[0]
    assert "cannot be called back" in reboots([GEMMA], RENTED, now)[-1]
    assert "To undo it, approve the box again." in withdraws([GEMMA], RENTED)[-1]
    retired = retires([GEMMA], RENTED, now, approved=True, configured=False)
    assert "take it back from retirement on its page, and approve it again." in retired[-1]


def test_a_withdrawal_takes_no_route_from_a_server_that_answers() -> None:
    """What serves is named; what does not serve has nothing to lose."""
    assert "what serves now (gemma4-26b) keeps its route" in withdraws([GEMMA, QWEN], RENTED)[1]
    assert "callers lose nothing" in withdraws([QWEN], RENTED)[1]


@pytest.mark.parametrize("rule", ["serving-absent", "pending"])
def test_what_is_being_added_is_not_said_to_serve_nobody(rule: str) -> None:
    """The timeline beside it may know already that the route was added."""
    record = a_view().records[0]._replace(row=None, action_rule=rule)
    assert "It is being added to LiteLLM just now: that is undone." == callers([record], {})


def test_what_only_litellm_reaches_serves_callers() -> None:
    """A drain of it takes them something."""
    record = next(one for one in a_view().records if one.row is not None)
    record = record._replace(lifecycle=Lifecycle.UNHEALTHY, reached=True)
    assert {record.key.model: 1} == dict(serving([record]))
