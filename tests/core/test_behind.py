"""What moved between the revision a box runs and the one it would get, in words."""

from attrs import evolve

from llmao_core.box_config import BoxAnswer, answer
from llmao_core.config import Config, FleetConfig, Host, HostRow, Model, Recipe
from llmao_core.history import History
from llmao_core.intended import Intended, build
from llmao_core.plan import Policy
from llmao_core.protocol import ASSIGNMENTS_KEPT, Fetch, fetched, recall
from llmao_core.reconcile import reconcile
from llmao_core.records import Badge, Record
from llmao_core.secret import Secret
from llmao_core.snapshots import BoxProtocol, Snapshots

HOST = "203.0.113.10"
SALT = Secret("salt-of-the-day-4711")


def intended(length: int) -> Intended:
    model = Model("small", recipe=Recipe("org/small", max_model_len=length))
    host = Host(HOST, (HostRow("small", 8001, "small"),))
    return build(Config(fleet=FleetConfig(vllm_api_salt=(SALT,), hosts=(host,)), models=(model,)))


def told(length: int) -> BoxAnswer:
    found = answer(intended(length), HOST)
    assert found is not None
    return found


def record(protocol: BoxProtocol, length: int, history: History) -> tuple[Record, History]:
    snapshots = Snapshots(intended(length), protocol, revisions={HOST: told(length).revision})
    view, _, after = reconcile(snapshots, history, Policy(), 1000.0)
    return view.records[0], after


def runs(length: int, *, known: bool = True) -> BoxProtocol:
    """Return what is seen of a box that runs the answer with this length."""
    old = told(length)
    fetch = Fetch(HOST, old.revision, old.revision, old.assignment if known else None)
    return fetched(BoxProtocol(), fetch, 900.0)


def test_the_record_says_what_moved() -> None:
    """A box behind has the badge, and the setting with its old and its new value."""
    found, _ = record(runs(16384), 32768, History())

    assert (Badge.REVISION_BEHIND,) == tuple(
        badge for badge in found.badges if badge is Badge.REVISION_BEHIND
    )
    assert ("max_model_len 16384 → 32768",) == found.behind


def test_a_box_that_is_not_behind_has_no_words() -> None:
    """A box that runs what it would get differs in nothing."""
    found, _ = record(runs(16384), 16384, History())

    assert () == found.behind
    assert Badge.REVISION_BEHIND not in found.badges


def test_an_unknown_revision_is_behind_without_words() -> None:
    """What was handed out before llmao started cannot be compared."""
    found, _ = record(runs(16384, known=False), 32768, History())

    assert () == found.behind
    assert Badge.REVISION_BEHIND in found.badges


def test_words_follow_the_current_revision() -> None:
    """When the answer changes again the words do, whatever history says."""
    _, history = record(runs(16384), 32768, History())
    found, _ = record(runs(16384), 8192, history)

    assert ("max_model_len 16384 → 8192",) == found.behind


def test_no_bearer_is_kept() -> None:
    """What is remembered of an answer has the fingerprint of its bearer only."""
    old = told(16384)
    bearer = old.servers[0].api_key.reveal()
    protocol = runs(16384)

    assert bearer.encode() in old.body
    assert bearer not in repr(protocol)
    assert bearer not in repr(record(protocol, 32768, History()))


def test_what_was_told_before_a_restart_gives_words() -> None:
    """The store has it without bearers, of which nothing is said then; a new box has no part."""
    old = told(16384)
    servers = [{**each.shown} for each in old.servers]
    for each in servers:
        del each["api_key"]
    before = {old.revision: {**old.assignment, "servers": servers}}
    protocol = recall(runs(16384, known=False), HOST, before)
    found, _ = record(protocol, 32768, History())

    assert ("max_model_len 16384 → 32768",) == found.behind
    assert BoxProtocol() == recall(BoxProtocol(), HOST, before)
    assert before.keys() == recall(runs(16384), HOST, before).hosts[HOST].assignments.keys()
    assert old.assignment == recall(runs(16384), HOST, before).hosts[HOST].assignments[old.revision]


def test_the_newest_assignments_are_kept() -> None:
    """A box whose answer changes for ever is remembered by the last few."""
    protocol = BoxProtocol()
    for length in range(1024, 1024 + 2 * ASSIGNMENTS_KEPT):
        old = told(length)
        fetch = Fetch(HOST, old.revision, assignment=old.assignment)
        protocol = fetched(protocol, fetch, 900.0)

    kept = protocol.hosts[HOST].assignments
    assert ASSIGNMENTS_KEPT == len(kept)
    assert old.revision == list(kept)[-1]
    again = fetched(protocol, evolve(fetch, applied=old.revision), 901.0)
    assert kept == again.hosts[HOST].assignments
