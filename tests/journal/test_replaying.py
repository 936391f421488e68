"""A recorded life is lived again: the same plans, views and histories from whatever keyframe."""

from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from llmao_core.actions import ActionKind
from llmao_core.history import History
from llmao_core.plan import Hold, Policy
from llmao_core.reconcile import Judged, judge
from llmao_core.records import View
from llmao_core.snapshots import Snapshots
from llmao_core.testing.fleets import SECRETS
from llmao_web.shell import journal
from llmao_web.shell.journal_codec import Decision, JournalError
from llmao_web.shell.journal_reader import passes, starts
from llmao_web.shell.journal_record import Pass
from llmao_web.shell.replaying import compare, replay, stretches, view_at

from .recording import contents, good, keep, lived, passes_of, troubled


@pytest.fixture(name="life", scope="module")
def _life() -> list[Pass]:
    """Six minutes of a troubled life, once for all tests."""
    with pytest.MonkeyPatch.context() as patched, lived(patched) as (world, made):
        troubled(world)
    return made


def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "KEYFRAME_S", 30.0)


def told(view: View) -> Any:
    """Return what people see of a view; bearers and hashes are others in a replay."""
    lives = [
        (one.key, one.kind, one.lifecycle, one.rule, one.because, one.signal, one.badges, one.fails)
        for one in view.records
    ]
    return view.at, lives, view.items, view.hosts, view.models, view.sources, view.placed


def test_replayed_plans_and_views_are_the_recorded_ones(life: list[Pass], tmp_path: Path) -> None:
    """Pass by pass: the digest of the whole plan, every decision, and all that people see."""
    keep(tmp_path, life)
    again = good(replay(passes(tmp_path)))
    assert len(life) == len(again)
    assert any(one.plan.actions for one in life)
    for one, other in zip(life, again, strict=True):
        assert other.identical
        assert [each.reason for each in one.plan.actions] == [
            each.reason for each in other.plan.actions
        ]
        assert told(one.view) == told(other.view)


def test_a_keyframe_holds_what_was_remembered(
    life: list[Pass], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The history that a replay has carried to a keyframe is the one recorded there."""
    often(monkeypatch)
    keep(tmp_path, life)
    carried, met = None, 0
    for place, one in enumerate(good(replay(passes(tmp_path)))):
        recorded = one.recorded.history
        if recorded is not None and recorded != History() and carried is not None:
            met += 1
            assert carried == recorded, f"pass {place}"
        carried = one.history
    assert met > 5


def test_reading_begins_at_any_keyframe(
    life: list[Pass], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From each keyframe on the rest is replayed as from the first."""
    often(monkeypatch)
    keep(tmp_path, life)
    whole = [one.decided for one in good(replay(passes(tmp_path)))]
    begins = starts(tmp_path)
    assert len(begins) > 5
    for at, _ in begins[:: len(begins) // 4]:
        rest = [one.decided for one in good(replay(passes(tmp_path, at)))]
        assert whole[len(whole) - len(rest) :] == rest
        assert at == passes_of(passes(tmp_path, at))[0].at


def test_stretches_together_are_the_whole(
    life: list[Pass], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replayed apart, as several processors do it, no pass is missing and none differs."""
    often(monkeypatch)
    keep(tmp_path, life)
    parts = [compare(each) for each in stretches(tmp_path)]
    assert len(parts) > 5
    assert len(life) == sum(each.passes for each in parts)
    assert not any(each.differing or each.worded or each.damages for each in parts)


def test_a_moment_is_the_pass_before_it(life: list[Pass], tmp_path: Path) -> None:
    """The newest pass at or before the time; without a time the newest of all."""
    keep(tmp_path, life)
    wanted = life[len(life) // 2]
    assert told(wanted.view) == told(view_at(tmp_path, wanted.at + 0.5).view)
    assert told(life[-1].view) == told(view_at(tmp_path, None).view)
    with pytest.raises(JournalError, match="before that time"):
        view_at(tmp_path, life[0].at - 1)


def test_no_secret_of_a_life_is_in_the_files(life: list[Pass], tmp_path: Path) -> None:
    """No bearer any box ever had, no salt, no key: neither packed nor unpacked."""
    keep(tmp_path, life)
    secrets = {text.encode() for text in SECRETS.values()}
    for one in life:
        if one.snapshots.intended is not None:
            bearers = (each.bearer for each in one.snapshots.intended.deployments)
            secrets |= {each.reveal().encode() for each in bearers if each}
        secrets |= {spec.bearer.reveal().encode() for spec in one.view.targets}
    everything = b"".join([*contents(tmp_path), *(each.read_bytes() for each in _files(tmp_path))])
    assert len(secrets) > len(SECRETS)
    assert [] == [secret for secret in secrets if secret in everything]


def _files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


# ---- today's code


def _never_deletes(snapshots: Snapshots, history: History, policy: Policy, now: float) -> Judged:
    """A rule somebody changed: dead rows stay."""
    judged = judge(snapshots, history, policy, now)
    actions = judged.plan.actions
    kept = tuple(one for one in actions if one.kind is not ActionKind.DELETE_LITELLM)
    return evolve(judged, plan=evolve(judged.plan, actions=kept))


def _reworded(snapshots: Snapshots, history: History, policy: Policy, now: float) -> Judged:
    """A sentence somebody corrected."""
    judged = judge(snapshots, history, policy, now)
    actions = tuple(evolve(one, reason=one.reason + "!") for one in judged.plan.actions)
    return evolve(judged, plan=evolve(judged.plan, actions=actions))


def test_a_changed_rule_is_reported(life: list[Pass], tmp_path: Path) -> None:
    """Each pass whose plan had a removal is told, with what it was and that nothing is now."""
    keep(tmp_path, life)
    expected = [
        one.at
        for one in life
        if any(each.kind is ActionKind.DELETE_LITELLM for each in one.plan.actions)
    ]
    parts = [compare(each, _never_deletes) for each in stretches(tmp_path)]
    found = [passed for part in parts for passed in part.differing]
    assert expected
    assert expected == [passed[0].at for passed in found]
    was, now = found[0][0].was, found[0][0].now
    assert isinstance(was, Decision)
    assert (ActionKind.DELETE_LITELLM, None) == (was.kind, now)


def test_a_changed_sentence_is_no_other_decision(life: list[Pass], tmp_path: Path) -> None:
    """Passes that are only worded otherwise are counted, and nothing else is said of them."""
    keep(tmp_path, life)
    parts = [compare(each, _reworded) for each in stretches(tmp_path)]
    acting = [one for one in life if one.plan.actions]
    assert len(acting) == sum(each.worded for each in parts)
    assert not any(each.differing for each in parts)


def test_a_changed_lifecycle_is_reported(life: list[Pass], tmp_path: Path) -> None:
    """A key that is judged otherwise is told, though the plan is the same."""
    keep(tmp_path, life)

    def renamed(*given: Any) -> Any:
        judged = judge(*given)
        first, *rest = judged.drafts
        another = evolve(first, life_rule=evolve(first.life_rule, name="another"))
        return evolve(judged, drafts=[another, *rest])

    parts = [compare(each, renamed) for each in stretches(tmp_path)]
    assert len(life) == sum(len(each.differing) for each in parts)


def test_code_that_fails_on_a_journal_says_so(life: list[Pass], tmp_path: Path) -> None:
    """An assertion in today's code is a sentence, not a traceback."""
    keep(tmp_path, life)

    def broken(*_: Any) -> Any:
        raise AssertionError("hush")

    with pytest.raises(JournalError, match="AssertionError") as raised:
        list(replay(passes(tmp_path), broken))
    assert "hush" not in str(raised.value)


def test_holds_are_recorded(life: list[Pass], tmp_path: Path) -> None:
    """Whether an action was held, and why, is part of the decision."""
    keep(tmp_path, life)
    holds = {each.hold for one in passes_of(passes(tmp_path)) for each in one.decided.decisions}
    assert {one.hold for each in life for one in each.plan.actions} == holds
    assert Hold.NOT_HELD in holds
