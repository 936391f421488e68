"""The kit itself: nothing is overridden in silence, and a live run only reads, with a real key."""

from pathlib import Path
from typing import Any, ClassVar

import pytest

from llmao_core.testing.kit import ListingBench
from llmao_core.testing.kit_listing import ListingProviderTests
from llmao_core.testing.kit_wire import RAISES, Mishap
from llmao_vast.bench import VastBench

pytest_plugins = ["pytester"]

CHECK = "test_a_failure_is_never_an_answer"
QUIET = ("-q", "-p", "no:cacheprovider", "-p", "no:asyncio")
LIVE_BENCH = '''
import httpx
from llmao_core.testing.kit import NOW
from llmao_vast.bench import VastBench
from llmao_vast.fake import FakeVast

class Bench(VastBench):
    """Vast's fake, standing in for the real API."""
    live_key, live_url = "KIT_LIVE_KEY", "http://127.0.0.1:4999"
    def go_live(self, key):
        super().go_live(key)
        self.fake = FakeVast(lambda: NOW, key="the-real-key", interval_s=0)
        self.fake.plant("mine", address="203.0.113.7")
        self.wire._inner = self.fake.transport()
    def plant(self, box):
        assert not self.live, "a live run plants nothing"
        return super().plant(box)
'''


# ---- overriding


def _known_failure() -> Any:
    def check(self: object, bench: object) -> None:  # pytest marks no lambda
        pytest.fail("as known")

    return check


def _subclass(**members: Any) -> type:
    return type("TestMine", (ListingProviderTests,), members)


@pytest.mark.parametrize("instead", [lambda self, bench: None, None, 1])
def test_a_check_is_not_overridden_in_silence(instead: object) -> None:
    """Whatever takes the place of a check, the class is refused and told which check."""
    with pytest.raises(TypeError, match=f"{CHECK} overrides"):
        _subclass(**{CHECK: instead})


def test_a_base_in_between_overrides_nothing_either() -> None:
    """Nor does a class that stands before the suite."""
    between = type("Between", (), {CHECK: lambda self, bench: None})
    with pytest.raises(TypeError, match=f"{CHECK} overrides"):
        type("TestMine", (between, ListingProviderTests), {})


@pytest.mark.parametrize("reason", ["", "  "])
def test_an_xfail_without_a_reason_is_no_excuse(reason: str) -> None:
    """A known failure says why."""
    excused = pytest.mark.xfail(reason=reason)(_known_failure())
    with pytest.raises(TypeError, match="reason"):
        _subclass(**{CHECK: excused})


def test_an_xfail_with_a_reason_is_allowed() -> None:
    """What a plugin cannot do yet may be said, where everybody sees it."""
    excused = pytest.mark.xfail(reason="the API has no pages")(_known_failure())
    assert excused is getattr(_subclass(**{CHECK: excused}), CHECK)


def test_a_suite_may_have_more_checks() -> None:
    """What a plugin's author adds is nobody's business."""
    assert hasattr(_subclass(test_mine=lambda self, bench: None), "test_mine")


def test_every_mishap_of_a_read_is_checked() -> None:
    """None is left out but the one that is for writes."""
    assert set(Mishap) - {Mishap.UNANSWERED} == set(RAISES)


def test_a_mishap_left_out_has_a_reason() -> None:
    """A bench that cannot do something says why, or the check fails."""
    from llmao_core.testing.kit_suite import skip_if_it_cannot

    class Silent(VastBench):
        cannot: ClassVar = {Mishap.HALF_A_PAGE: " "}

    with pytest.raises(AssertionError, match="no reason"):
        skip_if_it_cannot(Silent(), Mishap.HALF_A_PAGE)


def test_a_bench_with_gaps_names_them_all() -> None:
    """Who writes a bench learns at once what is missing, not one method at a time."""
    with pytest.raises(TypeError, match="plant, show, show_status, transport, truth"):
        type("Mine", (ListingBench,), {})()


# ---- by name, and live


@pytest.fixture
def installed(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Install a bench named `mine`, as a package would."""
    home = Path(pytester.path)
    (home / "my_bench.py").write_text(LIVE_BENCH)
    about = home / "mine-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[llmao.bench]\nmine = my_bench:Bench\n")
    monkeypatch.setenv("PYTHONPATH", str(home))
    monkeypatch.syspath_prepend(str(home))
    for name in ("CI", "KIT_LIVE_KEY"):
        monkeypatch.delenv(name, raising=False)
    return pytester


def _run(pytester: pytest.Pytester, *more: str) -> pytest.RunResult:
    return pytester.runpytest_inprocess("--pyargs", "llmao_core.testing", *QUIET, *more)


def test_a_provider_is_checked_by_its_name(installed: pytest.Pytester) -> None:
    """All checks of a listing, of one bench, and no other's."""
    ran = _run(installed, "--llmao-provider", "mine", "-k", "ids_are_text or key_goes")

    assert {"passed": 2} == {k: v for k, v in ran.parseoutcomes().items() if k != "deselected"}


def test_a_provider_without_a_bench_is_said(installed: pytest.Pytester) -> None:
    """Who misspells a name is told which there are."""
    ran = _run(installed, "--llmao-provider", "mien")

    ran.stderr.fnmatch_lines(["*no bench named mien is installed; there are: *mine*"])
    assert 0 != ran.ret


def test_live_only_reads(installed: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the reading checks run, with the real key, and nothing is planted."""
    monkeypatch.setenv("KIT_LIVE_KEY", "the-real-key")
    ran = _run(installed, "--llmao-provider", "mine", "--llmao-live")
    made = ran.parseoutcomes()

    assert (True, 0) == (made["passed"] > 5, made.get("failed", 0)), ran.stdout.str()
    assert made["deselected"] > made["passed"]


@pytest.mark.parametrize(
    ("environment", "arguments", "said"),
    [
        ({}, ("--llmao-provider", "mine"), "key from $KIT_LIVE_KEY"),
        ({"KIT_LIVE_KEY": "k", "CI": "1"}, ("--llmao-provider", "mine"), "not for CI"),
        ({"KIT_LIVE_KEY": "k"}, (), "needs --llmao-provider"),
    ],
)
def test_live_is_refused(
    installed: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str],
    arguments: tuple[str, ...],
    said: str,
) -> None:
    """Without a key, in CI, or for nobody in particular."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    ran = _run(installed, "--llmao-live", *arguments)

    ran.stderr.fnmatch_lines([f"*{said}*"])
    assert 0 != ran.ret
