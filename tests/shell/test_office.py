"""The office: each deed is kept, applied at once, and the same once or twice."""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from attrs import evolve
from structlog.testing import capture_logs

from llmao_core.actions import ActionKind
from llmao_core.config import FleetConfig, Host, HostRow, LitellmConfig
from llmao_core.errors import Problem
from llmao_core.intended import deployment_id
from llmao_core.plan import Action, Hold, Plan
from llmao_core.protocol import Fetch, Unknown
from llmao_core.snapshots import RequestKind, SourceState
from llmao_web.shell.archive import digest_of
from llmao_web.shell.asking import Refusal, process_name
from llmao_web.shell.board import REQUESTS_KEPT, Concluded
from llmao_web.shell.ledger import Entry, EntryKind
from llmao_web.shell.office import REFUSALS_KEPT_PER_HOUR, Office
from llmao_web.shell.store import StoreError, Wanted

from .office_world import BOX, STRANGER, Rig, config, instance, rig

ROWS = (HostRow("qwen", 8001, "qwen"),)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with capture_logs():
        yield


def claude(world: Rig) -> str:
    """Return the LiteLLM id of the commercial deployment."""
    view = world.service.board.view()
    assert view is not None
    (key,) = [each.key for each in view.records if each.key.model == "claude"]
    return deployment_id("main", key)


# ---- approvals


async def test_an_approval_is_answered_at_once_and_outlives_a_restart() -> None:
    """The box that asks next gets its configuration, from this process and from the next."""
    async with rig() as world:
        board = world.service.board
        board.note(Unknown(STRANGER))
        assert [STRANGER] == [each.host for each in world.service.office.unknown()]
        said = await world.service.office.approve(STRANGER, ROWS, "alice")
        assert "c.9000 is approved: qwen at 8001" in said
        answer = board.answer(STRANGER)
        assert answer is not None
        assert frozenset({"qwen"}) == answer.names
    async with rig(store=world.store) as again:
        assert again.service.board.answer(STRANGER)


async def test_an_approval_repeated_is_one() -> None:
    """A double press leaves one entry; other rows replace it."""
    async with rig() as world:
        office = world.service.office
        await office.approve(STRANGER, ROWS, "alice")
        assert "already" in await office.approve(STRANGER, ROWS, "alice")
        assert ["approved"] == world.kinds()
        await office.approve(STRANGER, (HostRow("gemma", 8002, "gemma"),), "bob")
        answer = world.service.board.answer(STRANGER)
        assert answer is not None
        assert frozenset({"gemma"}) == answer.names


BAD_ROWS: dict[str, tuple[tuple[HostRow, ...], str]] = {
    "none": ((), "at least one"),
    "unknown model": ((HostRow("nope", 8001, "nope"),), "no model `nope`"),
    "a model without a recipe": ((HostRow("claude", 8001, "claude"),), "no recipe"),
    "no such variant": ((HostRow("qwen", 8001, "qwen", "fp8"),), "no variant"),
    "a port that is not listened at": ((HostRow("qwen", 9000, "qwen"),), "Port 9000"),
    "a port that is none": ((HostRow("qwen", 0, "qwen"),), "from 1 to 65535"),
    "one port twice": (
        (HostRow("qwen", 8001, "a"), HostRow("gemma", 8001, "b")),
        "Port 8001 stands twice",
    ),
    "one name twice": (
        (HostRow("qwen", 8001, "a"), HostRow("gemma", 8002, "A")),
        "stands twice",
    ),
    "a name that leads elsewhere": ((HostRow("qwen", 8001, "../x"),), "cannot name a process"),
    "the installer's name": ((HostRow("qwen", 8001, "llmao-install"),), "cannot name a process"),
}


@pytest.mark.parametrize("case", BAD_ROWS)
async def test_rows_that_could_not_stand_in_the_file_are_refused(case: str) -> None:
    """With all that is wrong, and nothing is kept."""
    rows, why = BAD_ROWS[case]
    async with rig() as world:
        with pytest.raises(Refusal, match=why):
            await world.service.office.approve(STRANGER, rows, "alice")
        assert [] == world.kinds()
        assert world.service.board.answer(STRANGER) is None


@pytest.mark.parametrize(("host", "why"), [("bad name!", "cannot name"), (BOX, "fleet.hosts")])
async def test_a_host_that_cannot_be_approved_is_refused(host: str, why: str) -> None:
    """One that is no name, and one that the file has."""
    async with rig() as world:
        with pytest.raises(Refusal, match=why):
            await world.service.office.approve(host, ROWS, "alice")


async def test_without_a_salt_nobody_is_approved() -> None:
    """A box would get no bearer."""
    fleet = FleetConfig(hosts=())
    async with rig(config(fleet=fleet)) as world:
        with pytest.raises(Refusal, match="salt"):
            await world.service.office.approve(STRANGER, ROWS, "alice")


async def test_an_approval_is_withdrawn() -> None:
    """The box is unknown again; one of the file is not withdrawn."""
    async with rig() as world:
        office = world.service.office
        await office.approve(STRANGER, ROWS, "alice")
        await office.withdraw(STRANGER, "alice")
        assert world.service.board.answer(STRANGER) is None
        assert "not approved" in await office.withdraw(STRANGER, "alice")
        assert ["approved", "withdrawn"] == world.kinds()
        with pytest.raises(Refusal, match=r"fleet\.hosts"):
            await office.withdraw(BOX, "alice")


async def test_what_cannot_be_kept_is_not_applied() -> None:
    """A full disk: the admin is told, and the box stays unknown."""

    async def full(*entries: Entry) -> None:
        raise StoreError("The disk is full.")

    async with rig() as world:
        world.store.append = full  # type: ignore[method-assign]
        with pytest.raises(StoreError, match="full"):
            await world.service.office.approve(STRANGER, ROWS, "alice")
        assert world.service.board.answer(STRANGER) is None
        del world.store.append


# ---- labels, drains, retirement


async def test_a_label_and_a_note_are_kept() -> None:
    """Trimmed, with who and when; empty ones forget."""
    async with rig() as world:
        office = world.service.office
        await office.label(BOX, " A ", "two\r\nlines ", "alice")
        note = office.notes()[BOX]
        assert ("A", "two\nlines", "alice") == (note.label, note.note, note.by)
        assert "already" in await office.label(BOX, "A", "two\nlines", "alice")
        await office.label(BOX, "", "", "bob")
        assert {} == office.notes()
        assert ["labelled", "labelled"] == world.kinds()


@pytest.mark.parametrize(
    ("label", "note"), [("x" * 61, ""), ("", "x" * 2001), ("a\nb", ""), ("", "a\x00b")]
)
async def test_a_text_that_is_none_is_refused(label: str, note: str) -> None:
    """Too long, or with what cannot be shown."""
    async with rig() as world:
        with pytest.raises(Refusal):
            await world.service.office.label(BOX, label, note, "alice")


DEEDS: dict[str, Callable[[Office, str], Awaitable[str]]] = {
    "label": lambda office, host: office.label(host, "a", "", "alice"),
    "drain": lambda office, host: office.drain(host, "alice"),
    "retire": lambda office, host: office.retire(host, "alice"),
    "reboot": lambda office, host: office.reboot(host, "alice"),
    "cancel-reboot": lambda office, host: office.cancel_reboot(host, "alice"),
}


@pytest.mark.parametrize("deed", DEEDS)
@pytest.mark.parametrize("host", ["c.1", "", "two words"])
async def test_nothing_is_done_to_a_host_nobody_knows(deed: str, host: str) -> None:
    """It may be a slip, or a page that is old."""
    async with rig() as world:
        with pytest.raises(Refusal):
            await DEEDS[deed](world.service.office, host)
        assert [] == world.kinds()


async def test_a_drained_deployment_loses_its_route_until_it_is_undrained() -> None:
    """By its id; each said twice is one."""
    async with rig() as world:
        office, one = world.service.office, claude(world)
        await world.until(lambda: world.proxy.rows)
        await office.drain_key(one, "alice")
        assert "already" in await office.drain_key(one, "alice")
        await world.until(lambda: not world.proxy.rows)
        await office.undrain_key(one, "alice")
        assert "not drained" in await office.undrain_key(one, "alice")
        await world.until(lambda: world.proxy.rows)
        assert ["drained", "undrained"] == world.kinds()


async def test_a_drained_host_is_one_for_all_its_servers() -> None:
    """And no longer, when it is undrained."""
    async with rig() as world:
        office, board = world.service.office, world.service.board
        await office.drain(BOX, "alice")
        assert "already" in await office.drain(BOX, "alice")

        def drained() -> list[bool]:
            view = board.view()
            return [each.drained for each in view.records if each.host == BOX] if view else []

        await world.until(lambda: drained() == [True])
        await office.undrain(BOX, "alice")
        assert "not drained" in await office.undrain(BOX, "alice")
        await world.until(lambda: drained() == [False])


async def test_what_is_drained_with_its_whole_host_says_so() -> None:
    """Nothing is undone, and the host is named that is to be undrained or taken back."""
    async with rig() as world:
        office = world.service.office
        intended = world.service.board.intended()
        assert intended is not None
        one = next(each.litellm_id for each in intended.deployments if each.host == BOX)
        await office.drain(BOX, "alice")
        with pytest.raises(Refusal, match="is drained as a whole; press Undrain on the page"):
            await office.undrain_key(one, "alice")
        await office.drain_key(one, "alice")
        said = await office.undrain_key(one, "alice")
        assert "no longer drained alone, and stays out: c.4711 is drained as a whole" in said
        await office.retire(BOX, "alice")
        with pytest.raises(Refusal, match="is retired as a whole; take it back"):
            await office.undrain_key(one, "alice")
        assert ["drained", "drained", "undrained", "retired"] == world.kinds()


async def test_a_retired_host_is_remembered() -> None:
    """What it was, what it cost, what it served; an approval goes with it."""
    async with rig() as world:
        office = world.service.office
        began = world.clock.now() - 7200
        world.provider.instances = (instance(BOX), instance(STRANGER, started_at=began))
        await office.approve(STRANGER, ROWS, "alice")
        await world.clock.advance(120)
        said = await office.retire(STRANGER, "alice")
        assert "it is hidden. It is still rented: end that at vast." in said
        assert "already" in await office.retire(STRANGER, "alice")
        assert ["approved", "retired", "withdrawn"] == world.kinds()
        assert world.service.board.answer(STRANGER) is None
        (kept,) = await office.entries(Wanted(frozenset({EntryKind.RETIRED})))
        told = kept.entry.detail
        assert ("vast", "9000", 0.5) == (
            told["provider"],
            told["instance"],
            told["price_per_hour"],
        )
        assert 1.02 == pytest.approx(told["cost"], abs=0.01)
        assert ["c.9000:8001 qwen"] == told["served"]


async def test_a_listed_box_is_retired_while_its_listing_cannot_be_read() -> None:
    """It was listed, so it is known; of a name that was not the listing has to be read again."""

    def stale() -> bool:
        view = world.service.board.view()
        states = {one.name: one.state for one in view.sources} if view else {}
        return states.get("vast") is SourceState.STALE

    async with rig() as world:
        office, world.provider.reads = world.service.office, False
        await world.until(stale)
        with pytest.raises(Refusal, match="vast cannot be read now, so llmao cannot tell"):
            await office.retire("c.1", "alice")
        assert "is retired" in await office.retire(STRANGER, "alice")
        assert "no longer retired" in await office.unretire(STRANGER, "alice")


async def test_who_retires_a_host_of_the_file_is_told_to_delete_its_lines() -> None:
    """llmao writes no file."""
    async with rig() as world:
        office = world.service.office
        assert "delete its lines" in await office.retire(BOX, "alice")
        assert "no longer retired" in await office.unretire(BOX, "alice")
        assert "not retired" in await office.unretire(BOX, "alice")


async def test_approving_a_retired_host_takes_it_back() -> None:
    """Or it would be drained for ever without a word."""
    async with rig() as world:
        office = world.service.office
        await office.approve(STRANGER, ROWS, "alice")
        await office.retire(STRANGER, "alice")
        await office.approve(STRANGER, ROWS, "alice")
        intended = world.service.board.intended()
        assert intended is not None
        assert frozenset() == intended.labels.retired_hosts
        assert STRANGER in intended.approved


# ---- the plan


async def test_a_press_lets_one_action_run() -> None:
    """It waits for a person, is pressed, and is written; pressed twice it is asked for once."""
    async with rig(config(policy={"add_litellm": "needs_human"})) as world:
        office, board = world.service.office, world.service.board
        await world.clock.advance(30)
        plan = board.plan()
        assert plan is not None
        assert [] == world.proxy.orders
        (action,) = plan.actions
        assert "released" in await office.press(action.digest, "alice")
        assert "already" in await office.press(action.digest, "alice")
        await world.until(lambda: world.proxy.orders)
        (order,) = world.proxy.orders
        assert (ActionKind.ADD_LITELLM, "claude") == (order.kind, order.key.model)
        assert ["pressed", "action"] == world.kinds()


@pytest.mark.parametrize("digest", ["", "0123456789abcdef"])
async def test_a_press_on_what_has_moved_on_is_refused(digest: str) -> None:
    """The plan is another by now."""
    async with rig() as world:
        with pytest.raises(Refusal, match="moved on"):
            await world.service.office.press(digest, "alice")
        assert [] == world.kinds()


async def test_what_is_only_observed_cannot_be_pressed() -> None:
    """It would be a press without an effect."""
    async with rig(config(policy={"add_litellm": "observe"})) as world:
        plan = world.service.board.plan()
        assert plan is not None
        with pytest.raises(Refusal, match="observe"):
            await world.service.office.press(plan.actions[0].digest, "alice")


async def test_too_many_requests_are_refused_before_anything_is_kept() -> None:
    """What is in the log was asked for."""
    async with rig(config(policy={"add_litellm": "needs_human"})) as world:
        office, board = world.service.office, world.service.board
        plan = board.plan()
        assert plan is not None
        await office.press(plan.actions[0].digest, "alice")
        (request,) = board.requests()
        for number in range(REQUESTS_KEPT - 1):
            board.request(evolve(request, digest=f"{number:x}"))
        _braked(world)
        with pytest.raises(Refusal, match="Too many"):
            await office.release_brake("alice")
        assert ["pressed"] == world.kinds()


def _braked(world: Rig) -> Action:
    """Have the board say that the brake holds an action; return it."""
    board = world.service.board
    view, plan = board.view(), board.plan()
    assert view is not None
    assert plan is not None
    held = evolve(plan.actions[0], hold=Hold.BRAKE)
    board.conclude(Concluded(view, Plan((held,)), board.revision), board.history)
    return held


async def test_the_brake_is_released_when_it_holds_something() -> None:
    """For ten minutes; twice is once, and nothing held is a refusal."""
    async with rig(config(policy={"add_litellm": "needs_human"})) as world:
        office, board = world.service.office, world.service.board
        with pytest.raises(Refusal, match="holds nothing"):
            await office.release_brake("alice")
        _braked(world)
        assert "1 removals" in await office.release_brake("alice")
        assert "already" in await office.release_brake("alice")
        (request,) = board.requests()
        assert RequestKind.RELEASE_BRAKE is request.request
        assert 600 == request.expires_at - request.at
        assert ["pressed"] == world.kinds()


# ---- configuration


async def test_a_reload_is_in_the_log_with_what_came_of_it() -> None:
    """Taken, not taken, and why."""
    async with rig() as world:
        office, kept = world.service.office, config()
        more = Host("c.77", ROWS)
        world.file[0] = evolve(kept, fleet=evolve(kept.fleet, hosts=(*kept.fleet.hosts, more)))
        assert "in force" in await office.reload("alice")
        assert world.service.board.answer("c.77")
        world.file[0] = Problem("This is no YAML.", file="config.yaml")
        with pytest.raises(Refusal, match="not taken"):
            await office.reload("alice")
        assert world.service.board.answer("c.77")
        outcomes = [
            each.entry.detail["outcome"]
            for each in world.store.log
            if each.entry.kind is EntryKind.RELOADED
        ]
        assert ["taken", "not taken"] == outcomes


async def test_a_reload_that_drops_hosts_is_confirmed_as_it_was_shown() -> None:
    """A confirmation of other hosts than those that wait is refused."""
    hosts = tuple(Host(f"c.{number}", ROWS) for number in range(4))
    full = config()
    full = evolve(full, fleet=evolve(full.fleet, hosts=hosts))
    async with rig(full) as world:
        office = world.service.office
        with pytest.raises(Refusal, match="No configuration waits"):
            await office.confirm_reload("", "alice")
        world.file[0] = evolve(full, fleet=evolve(full.fleet, hosts=()))
        with pytest.raises(Refusal, match="waits"):
            await office.reload("alice")
        assert ["c.0", "c.1", "c.2", "c.3"] == list(office.dropped())
        with pytest.raises(Refusal, match="read again"):
            await office.confirm_reload(digest_of(["c.0"]), "alice")
        assert world.service.board.answer("c.0")
        await office.confirm_reload(digest_of(office.dropped()), "alice")
        assert world.service.board.answer("c.0") is None
        assert ["reloaded", "reloaded"] == world.kinds()


async def test_a_check_of_the_files_puts_nothing_in_force() -> None:
    """It says what a reload would."""
    async with rig() as world:
        office, kept = world.service.office, config()
        assert "good" in await office.check_config("alice")
        world.file[0] = evolve(kept, store="sqlite:///other.db", models=kept.models[:2])
        with pytest.raises(Refusal):
            await office.check_config("alice")
        checked = office.checked()
        assert checked is not None
        assert "`store`" in checked.said[0]
        assert 3 == len(world.service.config.models)


# ---- LiteLLM


async def test_litellm_is_asked_once_in_five_minutes() -> None:
    """Each check costs tokens, whoever asks; the ledger knows when the last was."""
    async with rig() as world:
        office, one = world.service.office, claude(world)
        await world.until(lambda: world.proxy.rows)
        await world.clock.advance(60)
        assert "checking" in await office.check_now(one, "alice")
        with pytest.raises(Refusal, match="again in 300 s"):
            await office.check_now(one, "bob")
        await world.until(lambda: world.proxy.asked)
        await world.clock.advance(301)
        await office.check_now(one, "bob")
        await world.clock.settle()
        assert [one, one] == world.proxy.asked
        assert ["checked", "checked"] == world.kinds()


async def test_what_is_not_in_litellm_is_not_checked() -> None:
    """And neither is what nobody knows."""
    async with rig(config(policy={"add_litellm": "observe"})) as world:
        for one in (claude(world), "llmao-0", ""):
            with pytest.raises(Refusal):
                await world.service.office.check_now(one, "alice")
        assert [] == world.proxy.asked


# ---- reboots


async def test_a_reboot_takes_the_routes_out_and_asks_the_provider_once() -> None:
    """Its routes are gone for a poll interval before its provider is asked, once."""
    async with rig(config(litellm=LitellmConfig(poll_interval_s=30))) as world:
        office = world.service.office
        began = world.clock.now()
        assert "was asked for" in await office.reboot(BOX, "alice")
        assert "already" in await office.reboot(BOX, "alice")
        await world.until(lambda: world.provider.reboots)
        assert world.clock.now() - began >= 30
        assert "already" in await office.reboot(BOX, "alice")
        await world.clock.advance(60)
        assert ["4711"] == world.provider.reboots
        assert "alice" in office.reboots()[BOX]
        intended = world.service.board.intended()
        assert intended is not None
        assert frozenset() == intended.labels.drained_hosts


async def test_a_box_that_is_back_can_be_rebooted_again_at_once() -> None:
    """The press of before lasts ten minutes, and its reboot is over."""
    async with rig(config(litellm=LitellmConfig(poll_interval_s=30))) as world:
        office = world.service.office
        await office.reboot(BOX, "alice")
        await world.until(lambda: world.provider.reboots)
        await world.clock.advance(5)
        world.service.board.note(Fetch(BOX, "r1-x"))
        await world.clock.advance(5)
        assert {} == office.reboots()
        assert "was asked for" in await office.reboot(BOX, "alice")
        await world.until(lambda: len(world.provider.reboots) == 2)


async def test_a_provider_that_reboots_nothing_is_not_asked() -> None:
    """It is said where to do it and what else to press; nothing is kept, and no route leaves."""
    async with rig(executes=frozenset()) as world:
        with pytest.raises(Refusal, match="drain it, reboot it in vast's console, and undrain it"):
            await world.service.office.reboot(BOX, "alice")
        assert [] == world.kinds()
        assert () == world.service.board.requests()
        await world.clock.advance(60)
        assert [] == world.provider.reboots


async def test_what_the_policy_only_observes_is_not_rebooted() -> None:
    """Read-only is read-only."""
    async with rig(config(policy={"reboot_box": "observe"})) as world:
        with pytest.raises(Refusal, match="observe"):
            await world.service.office.reboot(BOX, "alice")
        assert [] == world.kinds()


async def test_a_reboot_is_called_off_as_long_as_its_provider_was_not_told() -> None:
    """It is not told then, who did it is in the log, and a press after that is another reboot."""
    async with rig(config(litellm=LitellmConfig(poll_interval_s=30))) as world:
        office = world.service.office
        assert "is not being rebooted" in await office.cancel_reboot(BOX, "alice")
        await office.reboot(BOX, "alice")
        await world.clock.advance(5)
        assert "alice asked for a reboot" in office.reboots()[BOX]
        assert "is called off" in await office.cancel_reboot(BOX, "bob")
        await world.clock.advance(5)
        assert {} == office.reboots()
        assert "is not being rebooted" in await office.cancel_reboot(BOX, "bob")
        await world.clock.advance(660)
        assert [] == world.provider.reboots
        assert [("alice", "reboot_box"), ("bob", "cancel_reboot")] == [
            (each.entry.actor, each.entry.detail["what"])
            for each in world.store.log
            if each.entry.kind is EntryKind.PRESSED
        ]
        assert "was asked for" in await office.reboot(BOX, "alice")
        await world.until(lambda: world.provider.reboots)


async def test_a_reboot_its_provider_was_told_of_cannot_be_called_off() -> None:
    """Who tries is told that it is too late, and nothing is kept."""
    async with rig(config(litellm=LitellmConfig(poll_interval_s=30))) as world:
        office = world.service.office
        await office.reboot(BOX, "alice")
        await world.until(lambda: world.provider.reboots)
        await world.clock.advance(5)
        with pytest.raises(Refusal, match="Too late: vast was told"):
            await office.cancel_reboot(BOX, "alice")
        assert 1 == world.kinds().count("pressed")


# ---- the log


async def test_entries_of_one_person_are_found_among_many() -> None:
    """However many others there are before them."""
    async with rig() as world:
        office = world.service.office
        made = [Entry(1.0, "llmao", EntryKind.CHECKED) for _ in range(1500)]
        await world.store.append(Entry(0.0, "alice", EntryKind.CHECKED), *made)
        found = await office.entries(Wanted(limit=10), actor="alice")
        assert ["alice"] == [each.entry.actor for each in found]


async def test_a_flood_of_refusals_does_not_fill_the_log() -> None:
    """What people decided must not be pushed out by strangers."""
    async with rig() as world:
        for _ in range(3 * REFUSALS_KEPT_PER_HOUR):
            await world.service.office.refused("", "/do-approve")
        assert REFUSALS_KEPT_PER_HOUR == len(world.kinds())
        await world.clock.advance(3601)
        await world.service.office.refused("mallory", "/do-approve")
        assert REFUSALS_KEPT_PER_HOUR + 1 == len(world.kinds())


@pytest.mark.parametrize(
    ("model", "taken", "name"),
    [
        ("qwen", (), "qwen"),
        ("qwen", ("QWEN",), "qwen-2"),
        ("org/qwen 3", (), "org-qwen-3"),
        ("../..", (), "server"),
        ("模型", (), "server"),
    ],
)
def test_a_process_name_is_safe_and_free(model: str, taken: Any, name: str) -> None:
    """It becomes the name of a file on the box."""
    assert name == process_name(model, taken)
