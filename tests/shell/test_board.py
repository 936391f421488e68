"""The board remembers the newest of everything, and forgets what must not pile up."""

from llmao_core.actions import ActionKind, Outcome, OutcomeKind, Write
from llmao_core.config import Config, FleetConfig, Host, HostRow, Model, Recipe
from llmao_core.errors import Trouble
from llmao_core.hooks import SourceKind
from llmao_core.intended import build
from llmao_core.keys import box_key
from llmao_core.protocol import Fetch, WrongKey
from llmao_core.secret import Secret
from llmao_core.snapshots import (
    Deployments,
    Listing,
    Request,
    RequestKind,
    Row,
    Snapshot,
    SourceState,
)
from llmao_core.testing.clock import VirtualClock
from llmao_web.desk import Desk
from llmao_web.shell.board import NOTED_AT_ONCE, Board

KEY = box_key("127.0.0.2", 8001, "tiny")
CONFIG = Config(
    fleet=FleetConfig(
        key=(Secret("fleet"),),
        vllm_api_salt=(Secret("salt"),),
        hosts=(Host("127.0.0.2", (HostRow("tiny", 8001, "tiny"),)),),
    ),
    models=(Model("tiny", recipe=Recipe("org/tiny")),),
)
LOST = Outcome(OutcomeKind.UNKNOWN, "no answer")


def board() -> tuple[Board, VirtualClock]:
    clock = VirtualClock(start=1000.0)
    return Board(clock), clock


def test_it_is_what_the_web_needs() -> None:
    """The board fits the web's Desk, and answers a host of the configuration and no other."""
    desk: Desk
    desk = ours = board()[0]
    assert desk.intended() is None
    ours.intend(build(CONFIG))
    answer = desk.answer("127.0.0.2")
    assert answer is not None
    assert frozenset({"tiny"}) == answer.names
    assert desk.answer("127.0.0.3") is None


def test_a_failed_read_leaves_the_snapshot() -> None:
    """Trouble is counted from its first failure, the last good snapshot stays, success ends it."""
    ours, _ = board()
    ours.configure("vast", SourceKind.LISTING, 60.0)
    good = Snapshot(900.0, Listing())
    ours.publish("vast", good)
    ours.miss("vast", Trouble("Unreachable", "no", 960.0))
    ours.miss("vast", Trouble("Busy", "slow down", 970.0))
    reading = ours.snapshots().inventories["vast"]
    assert good == reading.snapshot
    assert Trouble("Busy", "slow down", 960.0, count=2) == reading.trouble
    ours.publish("vast", good)
    assert ours.snapshots().inventories["vast"].trouble is None


def test_a_source_never_read_is_unread_and_not_configured_is_absent() -> None:
    """A configured listing has a reading without a snapshot; a forgotten one has none at all."""
    ours, _ = board()
    ours.configure("vast", SourceKind.LISTING, 60.0)
    assert SourceState.UNREAD is ours.snapshots().inventories["vast"].state(1000.0, 3)
    ours.forget("vast")
    assert {} == ours.snapshots().inventories


def test_ready_when_every_source_was_tried() -> None:
    """A source that failed counts as tried: a provider's outage takes llmao out of nothing."""
    ours, _ = board()
    ours.configure("vast", SourceKind.LISTING, 60.0)
    assert (False, ("configuration", "vast")) == ours.ready()
    ours.intend(build(CONFIG))
    ours.miss("vast", Trouble("Unreachable", "no", 1000.0))
    assert (True, ()) == ours.ready()


def test_not_ready_before_it_is_known_who_leads() -> None:
    """It comes last, and is missing on its own once every source was tried."""
    ours, _ = board()
    ours.led = lambda: False
    ours.configure("vast", SourceKind.LISTING, 60.0)
    ours.intend(build(CONFIG))
    assert (False, ("vast", "leadership")) == ours.ready()
    ours.miss("vast", Trouble("Unreachable", "no", 1000.0))
    assert (False, ("leadership",)) == ours.ready()
    ours.led = lambda: True
    assert (True, ()) == ours.ready()


def test_wrong_keys_wake_nobody() -> None:
    """A flood of wrong keys is remembered without a pass for each; a fetch wakes the loop."""
    ours, _ = board()
    ours.note(WrongKey("127.0.0.9"))
    assert not ours.wake.is_set()
    protocol = ours.snapshots().protocol
    assert protocol is not None
    assert 1 == len(protocol.wrong_keys)
    ours.note(Fetch("127.0.0.2", handed_out="r1-1"))
    assert ours.wake.is_set()


def test_what_boxes_did_has_the_time_at_which_they_did_it() -> None:
    """Folding waits for the pass, many events or few; the times do not."""
    ours, clock = board()
    ours.note(Fetch("127.0.0.2", handed_out="r1-1"))
    clock._now = 1005.0
    for _ in range(NOTED_AT_ONCE):
        ours.note(Fetch("127.0.0.2", handed_out="r1-2"))
    clock._now = 1010.0
    protocol = ours.snapshots().protocol
    assert protocol is not None
    seen = protocol.hosts["127.0.0.2"]
    assert (1000.0, 1005.0, "r1-2") == (seen.first_handout, seen.last_handout, seen.handed_out)


def test_snapshots_do_not_change_afterwards() -> None:
    """What a pass was given stays as it was while the world goes on."""
    ours, _ = board()
    ours.configure("vast", SourceKind.LISTING, 60.0)
    before = ours.snapshots()
    ours.publish("vast", Snapshot(1000.0, Listing()))
    ours.wrote("llmao-1", Write(ActionKind.ADD_LITELLM, KEY, 1000.0))
    assert before.inventories["vast"].snapshot is None
    assert {} == before.writes


def test_old_writes_are_forgotten_and_running_ones_are_not() -> None:
    """A write is kept ten minutes after its answer; one without an answer stays."""
    ours, clock = board()
    ours.wrote("llmao-1", Write(ActionKind.ADD_LITELLM, KEY, 1000.0, 1001.0, LOST))
    ours.wrote("llmao-2", Write(ActionKind.ADD_LITELLM, KEY, 1000.0))
    clock._now = 1601.0
    assert {"llmao-1", "llmao-2"} == set(ours.snapshots().writes)
    clock._now = 1602.0
    assert {"llmao-2"} == set(ours.snapshots().writes)


def test_a_row_is_looked_up_until_a_read_settles_it() -> None:
    """Settled is a read that began a poll interval after the answer; what is not live stays."""
    ours, _ = board()
    ours.configure("litellm", SourceKind.DEPLOYMENTS, 60.0)
    ours.wrote("llmao-1", Write(ActionKind.ADD_LITELLM, KEY, 1000.0, 1001.0, LOST))
    assert ("llmao-1",) == ours.pending(30.0)
    ours.publish("litellm", Snapshot(1030.0, Deployments()))
    assert ("llmao-1",) == ours.pending(30.0)
    dead = Row("llmao-2", "tiny", "http://127.0.0.2:8001", live=False)
    ours.publish("litellm", Snapshot(1031.0, Deployments((dead,))))
    assert ("llmao-2",) == ours.pending(30.0)


def test_requests_lapse() -> None:
    """What an admin pressed is gone when it expires."""
    ours, clock = board()
    ours.request(Request(RequestKind.RUN, "ada", 1000.0, 1600.0, KEY, ActionKind.PRUNE_ORPHAN))
    assert 1 == len(ours.snapshots().requests)
    clock._now = 1600.0
    assert () == ours.snapshots().requests


def test_a_warning_ends() -> None:
    """A trouble that is no source's is shown until it is over."""
    ours, _ = board()
    ours.warn("config", Trouble("ConfigError", "line 3", 1000.0))
    assert {"config"} == set(ours.snapshots().troubles)
    ours.warn("config", None)
    assert {} == ours.snapshots().troubles
