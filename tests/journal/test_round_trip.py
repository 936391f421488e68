"""What is written comes back: everything but secrets, and decisions are the same without them."""

import json
from typing import Any

import attrs
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from tests.core.plain import plain

from llmao_core import snapshots as shapes
from llmao_core.actions import ActionKind, Order
from llmao_core.history import History
from llmao_core.intended import build
from llmao_core.keys import box_key
from llmao_core.plan import Action, Plan, Policy
from llmao_core.probes import Probes
from llmao_core.reconcile import reconcile
from llmao_core.records import View
from llmao_core.secret import Secret
from llmao_core.snapshots import Deployments, Reading, Row, Snapshot, Snapshots
from llmao_core.testing.fleets import SECRETS
from llmao_core.testing.strategies import Case, cases, deployments_of
from llmao_web.shell.journal_codec import Codec, JournalError
from llmao_web.shell.journal_columns import columns, rows
from llmao_web.shell.journal_mask import Mask
from llmao_web.shell.journal_record import Reader, Recorder, decided

from .recording import a_pass


def written(case: Case) -> bytes:
    content, keyframe = Recorder().record(a_pass(case), keyframe=True)
    assert keyframe
    return content


@given(cases())
def test_decisions_over_the_masked_world_are_the_same(case: Case) -> None:
    """What is read back has other secrets, and still the same view and the same plan."""
    view, plan, _ = case.run()
    read = Reader().read(case.now, written(case), keyframe=True)
    assert read.history is not None
    again, planned, _ = reconcile(read.snapshots, read.history, read.policy, read.at)
    assert read.decided == decided(planned, Codec())
    assert len(plan.actions) == len(planned.actions)
    assert _told(view) == _told(again)
    assert read.lives.keys() == {record.key for record in view.records}


def _told(view: View) -> Any:
    records = [
        (one.key, one.kind, one.lifecycle, one.rule, one.because, one.signal, one.badges)
        for one in view.records
    ]
    return records, view.items, view.hosts, view.models, view.sources, view.placed


@given(cases())
def test_all_but_secrets_comes_back(case: Case) -> None:
    """Every part that no secret goes into is equal, to the letter; of the rest, the shape is."""
    read = Reader().read(case.now, written(case), keyframe=True)
    assert case.policy == read.policy
    assert _open(case.snapshots) == _open(read.snapshots)
    assert (case.snapshots.intended is None) == (read.snapshots.intended is None)


def _open(snapshots: Snapshots) -> Any:
    probes, rows_read = snapshots.probes, snapshots.deployments.snapshot
    told = [
        sorted((target.base, plain(report)) for target, report in table.items())
        for table in (probes.reports, probes.canaries, probes.open_paths)
    ]
    writes = {target: evolve(each, hash="") for target, each in snapshots.writes.items()}
    listed = [(row.id, row.base, row.model_name) for row in rows_read.body.rows] if rows_read else 0
    rest = evolve(snapshots, intended=None, probes=Probes(), writes={}, deployments=Reading(60.0))
    return told, writes, listed, rest


@given(st.lists(cases(), min_size=2, max_size=3))
def test_a_change_leads_to_what_a_keyframe_holds(several: list[Case]) -> None:
    """Records of changes and a keyframe of the same pass read the same, whatever changed."""
    recorder, reader, history = Recorder(), Reader(), History()
    for place, drawn in enumerate(several):
        case = evolve(drawn, history=history)
        one = a_pass(case)
        history = one.after
        content, keyframe = recorder.record(one, keyframe=False)
        read = reader.read(case.now, content, keyframe=keyframe)
        whole, _ = recorder.record(one, keyframe=True)
        other = Reader().read(case.now, whole, keyframe=True)
        assert place or keyframe
        assert other.snapshots == read.snapshots
        assert (other.policy, other.decided, other.lives) == (
            read.policy, read.decided, read.lives,
        )  # fmt: skip


@given(cases())
def test_no_secret_is_written(case: Case) -> None:
    """Neither a configured secret nor a bearer made from one stands in a record."""
    text = written(case).decode()
    secrets = set(SECRETS.values())
    for one in deployments_of(case.snapshots.intended):
        several = [each for each in (one, one.previous, *one.former) if each and each.bearer]
        secrets |= {each.bearer.reveal() for each in several if each.bearer}
    assert [] == [secret for secret in secrets if secret and secret in text]


_ROW = Row(
    "of-somebody", "gpt", "https://x.example",
    params={
        "api_key": "PLANTED-1", "extra_headers": {"X-Any": ["PLANTED-2"]},
        "nested": {"aws_secret_access_key": "PLANTED-3"}, "max_tokens": 7, "model": "gpt-5",
    },
)  # fmt: skip


def test_parameters_that_are_secret_by_their_name_are_not_written() -> None:
    """LiteLLM shows some secrets in other rows: they stay out, and what is no secret stays in."""
    read = Reading(60.0, Snapshot(1.0, Deployments((_ROW, evolve(_ROW, id="another")))))
    case = Case(Snapshots(deployments=read), History(), Policy(), 2.0)
    content = written(case).decode()
    assert "PLANTED" not in content
    back = Reader().read(2.0, content.encode(), keyframe=True).snapshots.deployments.snapshot
    assert back is not None
    first, second = (row.params for row in back.body.rows)
    assert (7, "gpt-5") == (first["max_tokens"], first["model"])
    assert first == second
    assert first["api_key"] != first["extra_headers"]["X-Any"][0]


@given(cases())
def test_a_secret_somebody_echoes_is_taken_out(case: Case) -> None:
    """Even where no secret belongs, a configured one or the shape of a bearer is not written."""
    if case.snapshots.intended is None:
        return
    said = f"who sent {SECRETS['salt']} and sk-vllm-{'A1b2' * 11}?"
    row = Row("echo", said, "https://x.example")
    read = Reading(60.0, Snapshot(case.now, Deployments((row,))))
    fleet = case.snapshots.intended.config.fleet
    salted = evolve(fleet, vllm_api_salt=(Secret(SECRETS["salt"]),))
    intended = build(evolve(case.snapshots.intended.config, fleet=salted))
    case = evolve(case, snapshots=evolve(case.snapshots, deployments=read, intended=intended))
    text = written(case).decode()
    assert "who sent (secret) and (secret)?" in text
    assert "PLANTED" not in text


_KNOWN = {
    "Snapshots": "intended protocol inventories probes deployments health writes requests placed"
    " revisions troubles",
    "BoxProtocol": "hosts unknown wrong_keys",
    "Probes": "reports canaries open_paths",
    "Reading": "interval_s snapshot trouble reboots",
    "Snapshot": "taken_at body",
    "Deployments": "rows",
    "Health": "opinions asked",
    "Listing": "instances complete",
}


@pytest.mark.parametrize("name", _KNOWN)
def test_every_part_has_its_place(name: str) -> None:
    """A field that is new in a snapshot is lost until journal_parts knows of it."""
    found = [field.name for field in attrs.fields(getattr(shapes, name))]
    assert _KNOWN[name].split() == found


def test_equal_secrets_have_equal_placeholders() -> None:
    """Whether two secrets are one can be told from their placeholders; empty stays empty."""
    mask = Mask()
    one, other = mask.secret(Secret("one")), mask.secret(Secret("other"))
    assert one != other
    assert one == mask.secret(Secret("one"))
    assert "" == mask.secret(Secret(""))


def test_a_plan_differs_by_its_sentences_only_in_its_digest() -> None:
    """Decisions leave out the wording, the digest has it."""
    key = box_key("203.0.113.1", 8001, "m0")
    action = Action(Order(ActionKind.DELETE_LITELLM, "litellm", key, "x"), "rule", "because")
    one, other = (
        decided(Plan((evolve(action, reason=reason),)), Codec()) for reason in ("this", "that")
    )
    assert one.decisions == other.decisions
    assert one.digest != other.digest


# ---- hostile records

_GOOD: dict[str, Any] = {"parts": {}, "policy": {}, "history": {}, "decided": {}}


@pytest.mark.parametrize(
    "content",
    [
        b"", b"[]", b"7", b'{"parts": 7}', b"\xff", b'{"parts": {"nobody": 1}}',
        json.dumps(_GOOD).encode(),
        b'{"parts": {"probes": [[[["a", "b"]], []], []]}}',
        b'{"parts": {"probes": [[[["a", "b"]], {"probed_at": [true]}], []]}}',
        b'{"parts": {"probes": [[[7], {"probed_at": [1.0]}], []]}}',
        b'{"parts": {"writes": [[["x", {"kind": "format_disk"}]], []]}}',
        b'{"parts": {"deployments.rows": [["0", "1"]]}}',
        b'{"parts": {"deployments.rows": [{"id": 7}]}}',
        b'{"parts": {"intended": {"config": {}}}}',
        b'{"parts": {"intended": {"config": {"fleet": 7}, "approvals": [], "labels": {}}}}',
        b'{"parts": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"parts": {"probes": [[[], ' + b'{"a":' * 900 + b"[]" + b"}" * 900 + b"], []]}}",
    ],
)  # fmt: skip
def test_a_record_that_makes_no_sense_is_an_error(content: bytes) -> None:
    """Whatever a record holds, there is a sentence about it and nothing else happens."""
    with pytest.raises(JournalError):
        Reader().read(1.0, content, keyframe=True)


def test_a_change_without_its_keyframe_is_an_error() -> None:
    """Nothing is guessed from a record of changes alone."""
    with pytest.raises(JournalError, match="keyframe"):
        Reader().read(1.0, b'{"parts": {}}', keyframe=False)


_VALUES = st.none() | st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2)
_INNER = st.fixed_dictionaries({"d": st.integers()}, optional={"e": st.text(max_size=2)})
_OBJECTS = st.fixed_dictionaries(
    {"a": st.integers()}, optional={"b": _VALUES.filter(lambda one: one is not None), "c": _INNER}
)


@given(st.lists(st.none() | _OBJECTS, max_size=5))
def test_columns_are_rows_again(told: list[Any]) -> None:
    """Objects come back from their columns, also where there are none."""
    assert told == rows(columns(told), len(told))


def test_columns_of_different_length_are_an_error() -> None:
    """A column that is too short loses no row silently."""
    with pytest.raises(JournalError):
        rows({"a": [1, 2], "b": [1]}, 2)
