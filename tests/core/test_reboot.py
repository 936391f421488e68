"""Rebooting a box: one press is at most one order; the common cases are rows of 6-reboot.yaml."""

from typing import Any

from attrs import evolve

from llmao_core.actions import ActionKind, Outcome, OutcomeKind, Write
from llmao_core.plan import Action
from llmao_core.reboot import WAIT_S, ask, reboot_key, take_back
from llmao_core.records import HostView
from llmao_core.snapshots import Request
from llmao_core.testing.walk import Walk

BOX = "203.0.113.10"
LISTED = {"4711": {"address": BOX, "ports": {8001: 40001}}}
SERVES = {"203.0.113.10:40001": "serves"}


class Told(Walk):
    """A walk that counts the orders its provider gets, and may refuse them."""

    orders: list[Action]
    refuses: bool = False

    def _carry_out(self, action: Action) -> None:
        if action.kind is not ActionKind.REBOOT_BOX:
            super()._carry_out(action)
            return
        self.orders.append(action)
        kind = OutcomeKind.REFUSED if self.refuses else OutcomeKind.DONE
        failures = 1 if self.refuses else 0
        write = Write(
            action.kind, action.key, self.now, self.now, Outcome(kind, "no"), "", failures,
            self.now + 5 if failures else None,
        )  # fmt: skip
        self.snapshots = evolve(
            self.snapshots, writes={**self.snapshots.writes, action.order.target: write}
        )


def told(**fleet: Any) -> Told:
    """Return a walk in which the box serves and has its row, and plans are carried out."""
    it = Told()
    it.orders = []
    row = {"key": f"{BOX}:8001 small", "at": f"{BOX}:40001"}
    words = {"listings": {"vast": 60}, **fleet}
    it.step(0, fleet=words, listings={"vast": LISTED}, servers=SERVES, rows=[row], writes="work")
    return it


def press(it: Told, **changes: Any) -> None:
    view = next(one for one in it.view.hosts if one.name == BOX)
    made: Request = evolve(ask(view, "admin", it.now), **changes)
    it.snapshots = evolve(it.snapshots, requests=(*it.snapshots.requests, made))


def test_the_order_names_the_provider_and_the_instance() -> None:
    """The plugin that lists the box gets its instance id, and nothing has to be looked up."""
    it = told()
    press(it)
    it.step(120)

    [action] = it.orders
    assert "vast" == action.order.executor
    assert "4711" == action.order.target
    assert reboot_key(BOX) == action.order.key
    assert action.order.body is None
    assert "admin" == action.released_by
    assert "admin asked for a reboot of 203.0.113.10." == action.reason


def test_one_press_is_one_order() -> None:
    """Neither a second pass, nor a forgotten write, nor the end of the press gives another."""
    it = told()
    press(it)
    it.step(1900)

    assert 1 == len(it.orders)
    assert {} == it.history.reboots


def test_two_presses_before_the_order_are_one() -> None:
    """Who presses again while it is drained gets the same reboot."""
    it = told()
    press(it)
    it.step(12)
    press(it)
    it.step(1300)

    assert 1 == len(it.orders)


def test_a_press_after_the_order_is_another_reboot() -> None:
    """Who presses after the box was told to reboot wants it rebooted again."""
    it = told()
    press(it)
    it.step(120)
    assert 1 == len(it.orders)

    press(it)
    it.step(240)
    assert 2 == len(it.orders)


def test_a_refusal_ends_it() -> None:
    """A provider that refuses is not asked again, the routes come back, and an item says why."""
    it = told()
    it.refuses = True
    press(it)
    it.step(240)

    assert 1 == len(it.orders)
    assert {f"{BOX}:8001 small"} == {str(one.key) for one in it.view.records if one.row}
    [item] = [one for one in it.view.items if one.kind.value == "write_failed"]
    assert "Rebooting 203.0.113.10 (box) failed once: no. The box is as it was." == item.sentence
    assert "" == host(it).rebooting


def host(it: Walk) -> HostView:
    return next(one for one in it.view.hosts if one.name == BOX)


def test_a_press_on_other_evidence_does_nothing() -> None:
    """A press that was made for another instance, or has expired, drains and reboots nothing."""
    it = told()
    press(it, digest="vast 4712")
    press(it, expires_at=it.now)
    it.step(120)

    assert [] == it.orders
    assert "" == host(it).rebooting
    assert all(one.row for one in it.view.records)


def test_a_box_whose_provider_reboots_nothing_keeps_its_routes() -> None:
    """A press that came all the same drains nothing, and no order waits for anything."""
    it = told()
    cannot = {name: evolve(one, reboots=False) for name, one in it.snapshots.inventories.items()}
    it.snapshots = evolve(it.snapshots, inventories=cannot)
    it.step(12)
    assert not host(it).reboots
    press(it)
    for at in (24, 120, 700):
        it.step(at)
        assert all(one.row for one in it.view.records)
        assert "" == host(it).rebooting

    assert [] == it.orders
    assert {} == it.history.reboots


def test_every_route_of_the_box_goes_first() -> None:
    """A box with two servers waits for the one row there is, and is told a poll interval later."""
    it = Told()
    it.orders = []
    it.step(
        0,
        fleet={"hosts": {BOX: {8001: "small", 8002: "large"}}, "listings": {"vast": 60}},
        listings={"vast": {"4711": {"address": BOX, "ports": {8001: 40001, 8002: 40002}}}},
        servers={f"{BOX}:40001": "serves"},
        rows=[{"key": f"{BOX}:8001 small", "at": f"{BOX}:40001"}],
        writes="work",
    )
    it.step(60)
    press(it)
    it.step(84)
    assert {} == it.rows
    assert [] == it.orders

    it.step(120)
    assert 1 == len(it.orders)


def test_a_host_under_its_former_name_is_drained_too() -> None:
    """A host that was renamed, and whose box has not fetched since, goes by its old name."""
    it = Told()
    it.orders = []
    labelled = {"4711": {"label": "C.4711", "address": BOX, "ports": {8001: 40001}}}
    it.step(
        0,
        fleet={
            "hosts": {"c.4711": {8001: "small"}},
            "was": {"c.4711": [BOX]},
            "listings": {"vast": 60},
        },
        listings={"vast": labelled},
        servers={f"{BOX}:40001": {"host": f"{BOX}:8001"}},
        rows=[{"key": f"{BOX}:8001 small", "at": f"{BOX}:40001"}],
        writes="work",
    )
    it.snapshots = evolve(it.snapshots, requests=(ask(it.view.hosts[0], "admin", it.now),))
    it.step(6)
    assert {} == it.rows

    it.step(120)
    assert 1 == len(it.orders)


def test_a_reboot_is_no_flapping() -> None:
    """That its route was taken away for a reboot makes no longer proof necessary."""
    it = told()
    press(it)
    it.step(120, servers={f"{BOX}:40001": "closed"})
    it.step(180, fetches=[BOX], servers=SERVES)

    assert [()] == [one.removals for one in it.history.keys.values()]


def test_it_is_rebooting_from_the_order_until_it_fetches_again() -> None:
    """Neither while its requests end nor once it was seen again: then nothing is told any more."""
    it = told()
    press(it)
    it.step(12)
    assert host(it).reboot_since is None
    assert "admin asked for a reboot" in host(it).rebooting

    it.step(120, servers={f"{BOX}:40001": "closed"})
    assert it.orders
    assert it.now - 108 < (host(it).reboot_since or 0) < it.now
    assert "vast reboots it, as admin asked." == host(it).rebooting

    it.step(180, fetches=[BOX])
    assert host(it).reboot_since is None
    assert "" == host(it).rebooting


def test_a_box_that_never_fetches_is_back_when_all_of_it_serves_again() -> None:
    """Healthy from before the order says nothing: it may not have gone down yet."""
    it = told()
    press(it)
    it.step(108)
    assert it.orders
    assert host(it).reboot_since is not None

    it.step(180, servers={f"{BOX}:40001": "closed"})
    it.step(260, servers=SERVES)
    assert host(it).reboot_since is None


def test_a_box_that_fails_again_after_its_reboot_is_down_and_not_rebooting() -> None:
    """It served again, so what fails within the grace of the reboot is a failure like any other."""
    it = told()
    press(it)
    it.step(108)
    it.step(180, servers={f"{BOX}:40001": "closed"})
    it.step(260, servers=SERVES)
    assert "" == host(it).rebooting

    it.step(300, servers={f"{BOX}:40001": "closed"})
    it.step(380)
    assert it.history.reboots
    assert "" == host(it).rebooting
    assert host(it).reboot_since is None
    assert {"down", "model_unavailable"} <= {one.kind.value for one in it.view.items}


# ---- what it waits for


def test_it_says_what_it_waits_for_and_until_when() -> None:
    """First the routes, then so many requests, at most until five minutes after the press."""
    it = told()
    press(it)
    asked = it.now
    it.step(2, servers={f"{BOX}:40001": "busy"})
    assert "its routes leave LiteLLM first" in host(it).rebooting
    assert host(it).reboot_until is None

    it.step(90)
    assert "admin asked for a reboot, which waits for 8 requests that run." == host(it).rebooting
    assert asked + WAIT_S == host(it).reboot_until

    it.step(330)
    assert it.orders
    assert host(it).reboot_until is None


# ---- called off


def call_off(it: Told) -> None:
    made = take_back(BOX, "admin", it.now)
    it.snapshots = evolve(it.snapshots, requests=(*it.snapshots.requests, made))


def test_a_reboot_that_is_called_off_puts_the_routes_back() -> None:
    """Nothing is ordered, then or later, and what was drained for it serves again."""
    it = told()
    press(it)
    it.step(12)
    assert {} == it.rows

    call_off(it)
    it.step(300)
    assert [] == it.orders
    assert "" == host(it).rebooting
    assert all(one.row for one in it.view.records)


def test_who_presses_again_after_calling_off_gets_a_reboot() -> None:
    """What was called off is the press before it, and no later one."""
    it = told()
    press(it)
    it.step(12)
    call_off(it)
    it.step(24)
    press(it)
    it.step(180)

    assert 1 == len(it.orders)


def test_a_reboot_its_provider_was_told_of_cannot_be_called_off() -> None:
    """The box goes down all the same, and the page says so."""
    it = told()
    press(it)
    it.step(108)
    assert it.orders

    call_off(it)
    it.step(114)
    assert host(it).reboot_since is not None


def test_no_box_is_rebooted_while_it_is_not_known_what_leads_to_it() -> None:
    """Also one that is to serve nothing any more: LiteLLM, unread, may have a route there."""
    it = told(hosts={BOX: {}})
    it.step(60, rows=[])
    it.step(70, litellm="silent")
    it.step(600)
    press(it)
    it.step(660)
    assert [] == it.orders
    it.step(700, litellm="answers")
    assert 1 == len(it.orders)
