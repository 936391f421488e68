"""What a plugin that reads must do, whatever it reads.

Rule of this file: as of kit_suite.py.
"""

import re
from urllib.parse import urlsplit

import pytest
from attrs import evolve

from llmao_core.actions import ActionKind
from llmao_core.config import Config
from llmao_core.errors import Busy, LlmaoError, Problem, Unauthorized
from llmao_core.hooks import SourceKind
from llmao_core.secret import Secret

from .kit import TIMEOUT_S, Bench, called, things
from .kit_suite import Suite, ends_when_cancelled, overheard, reading, secrets_of, skip_if_it_cannot
from .kit_wire import RAISES, RETRY_AFTER_S, Mishap

MISHAPS = pytest.mark.parametrize("kind", list(RAISES), ids=lambda kind: kind.value)


class ReadingTests(Suite, kit=True):
    """Checks of `llmao_source`, `llmao_check` and `llmao_fetch`."""

    wants: SourceKind

    # ---- at start

    @reading
    def test_the_card_is_one_that_llmao_can_file(self, bench: Bench) -> None:
        """The card has a lower-case name of its own, the right kind and an interval above 0."""
        card = bench.source_card()
        names = [one.name for one in bench.plugin.llmao_source()]
        assert re.fullmatch(r"[a-z][a-z0-9_]{0,63}", card.name), card.name
        assert names.count(card.name) == 1, f"two cards named {card.name}"
        assert card.kind is self.wants, f"the card says {card.kind}"
        assert card.interval_s > 0, f"the card says {card.interval_s} s"
        assert all(isinstance(kind, ActionKind) for kind in card.executes), card.executes

    @reading
    def test_a_good_section_has_no_problems(self, bench: Bench) -> None:
        """`llmao_check` says nothing of a good section."""
        assert _problems(bench, bench.good_config()) == ()

    def test_a_bad_section_is_reported_with_its_place(self, bench: Bench) -> None:
        """`llmao_check` finds each thing that is wrong, says what and where, and quotes no key."""
        for number, config in enumerate(bench.bad_configs()):
            found = _problems(bench, config)
            assert found, f"bad section {number} has no problem"
            for one in found:
                assert one.path.startswith(f"{bench.path()}."), f"no place: {one}"
                assert one.what, f"no sentence: {one.path}"
                assert bench.key not in f"{one!r}{one}", "a problem quotes the key"

    # ---- whole worlds

    def test_an_empty_world_is_an_empty_answer(self, bench: Bench) -> None:
        """Where there is nothing, the answer is empty and complete, and no error."""
        body = bench.fetch()
        assert things(body) == ()
        assert getattr(body, "complete", True) is True

    def test_everything_is_read_however_many_pages(self, bench: Bench) -> None:
        """All there is comes back, over more than one page where the API has pages."""
        planted = bench.plant_some(bench.many)
        found = [one.id for one in things(bench.fetch())]
        assert sorted(found) == sorted(planted)
        assert (len(bench.wire.log) > 1) is bench.pages, f"{len(bench.wire.log)} requests"

    def test_each_read_shows_the_world_as_it_is_now(self, bench: Bench) -> None:
        """What came since the last read is in the next one: nothing is remembered between them."""
        planted = bench.plant_some(2)
        bench.fetch()
        planted += bench.plant_some(2)
        assert sorted(one.id for one in things(bench.fetch())) == sorted(planted)

    @reading
    def test_ids_are_text_and_each_is_there_once(self, bench: Bench) -> None:
        """Every id is a text that is not empty, and no two are the same."""
        _plant(bench, 3)
        ids: list[object] = [one.id for one in things(bench.fetch())]
        assert all(isinstance(one, str) and one.strip() == one != "" for one in ids), ids
        assert len(set(ids)) == len(ids), ids

    @reading
    def test_two_reads_of_one_world_are_equal(self, bench: Bench) -> None:
        """Nothing of the read itself, such as its time or order, is in the answer."""
        _plant(bench, 3)
        assert bench.fetch() == bench.fetch()

    @reading
    def test_reading_changes_nothing(self, bench: Bench) -> None:
        """A fetch sends only requests that read, and the far end is as it was."""
        _plant(bench, 3)
        before = dict(_truth(bench))
        bench.fetch()
        assert [sent for sent in bench.wire.log if not bench.is_read(sent)] == []
        assert dict(_truth(bench)) == before

    # ---- failures

    @MISHAPS
    def test_a_failure_is_never_an_answer(self, bench: Bench, kind: Mishap) -> None:
        """A read that failed raises; it returns nothing empty, shorter or remembered."""
        skip_if_it_cannot(bench, kind)
        bench.plant_some(3)
        bench.fetch()
        bench.mishap(kind)
        try:
            body = bench.fetch()
        except Exception:
            return
        pytest.fail(f"{kind.value} came back as {body!r}")

    @MISHAPS
    def test_a_mishap_raises_its_own_error(self, bench: Bench, kind: Mishap) -> None:
        """Each mishap raises the FetchError that means it, and no other."""
        skip_if_it_cannot(bench, kind)
        bench.plant_some(3)
        bench.mishap(kind)
        error = _error(bench)
        assert type(error) is RAISES[kind], f"{kind.value} raised {error!r}"
        assert str(error).strip(), "the error says nothing"

    def test_a_later_page_that_fails_fails_the_read(self, bench: Bench) -> None:
        """A page that fails, whichever it is, fails the whole read; the next read is whole."""
        planted = bench.plant_some(bench.many)
        bench.fetch()
        for nth in range(1, len(bench.wire.log) + 1):
            bench.mishap(Mishap.CUT, nth=nth)
            error = _error(bench)
            assert type(error) is RAISES[Mishap.CUT], f"page {nth}: {error!r}"
        assert sorted(one.id for one in things(bench.fetch())) == sorted(planted)

    @reading
    def test_a_wrong_key_is_refused(self, bench: Bench) -> None:
        """With another key than the account's, or none, the read raises Unauthorized."""
        for key in (Secret("kit-no-key-of-this-account"), None):
            with pytest.raises(Unauthorized):
                bench.fetch(evolve(bench.request(), api_key=key))

    def test_busy_says_for_how_long(self, bench: Bench) -> None:
        """`Busy.retry_after_s` is what the far end asked for, and None when it did not say."""
        for kind, wanted in ((Mishap.BUSY_FOR_A_TIME, RETRY_AFTER_S), (Mishap.BUSY, None)):
            if kind in bench.cannot:
                continue
            bench.mishap(kind)
            error = _error(bench)
            assert isinstance(error, Busy), repr(error)
            assert error.retry_after_s == wanted

    # ---- secrets

    @MISHAPS
    def test_no_secret_gets_out_of_a_failure(self, bench: Bench, kind: Mishap) -> None:
        """The key is in no error and no log, even if the far end repeats it."""
        skip_if_it_cannot(bench, kind)
        bench.plant_some(3)
        bench.mishap(kind)
        with overheard() as ear:
            ear.note(_error(bench))
        assert ear.secrets(*secrets_of(bench)) == []

    @reading
    def test_no_secret_gets_out_of_an_answer(self, bench: Bench) -> None:
        """No secret of a box and no key is in what is returned, printed or logged."""
        _plant(bench, 3)
        with overheard() as ear:
            body = bench.fetch()
            ear.note(body)
            ear.note(bench.request())
        assert ear.secrets(*secrets_of(bench)) == []

    @reading
    def test_the_key_goes_to_the_far_end_and_into_no_url(self, bench: Bench) -> None:
        """Requests go to the address that was asked for, with the key in no URL."""
        _plant(bench, 1)
        bench.fetch()
        asked = urlsplit(bench.base_url)
        assert bench.wire.log, "nothing was asked"
        for sent in bench.wire.log:
            assert urlsplit(sent.url).netloc == asked.netloc, "asked somewhere else"
            assert bench.key not in sent.url, "the key is in the URL"

    def test_a_redirect_is_not_followed(self, bench: Bench) -> None:
        """A redirect takes the key nowhere."""
        bench.mishap(Mishap.REDIRECT)
        _error(bench)
        hosts = {urlsplit(sent.url).netloc for sent in bench.wire.log}
        assert hosts == {urlsplit(bench.base_url).netloc}

    # ---- time

    @reading
    def test_each_request_ends_in_time(self, bench: Bench) -> None:
        """Every request has the time limit of the fetch, or a shorter one."""
        _plant(bench, 1)
        bench.fetch()
        limits = [limit for sent in bench.wire.log for limit in sent.timeout.values()]
        assert limits, "the requests have no time limit"
        assert all(limit is not None and limit <= TIMEOUT_S for limit in limits), limits

    def test_a_read_that_is_cancelled_ends(self, bench: Bench) -> None:
        """Being cancelled ends a read at once and is not turned into anything else."""
        bench.plant_some(1)
        bench.wire.hang()
        assert ends_when_cancelled(bench, bench.afetch()), "the read swallowed its cancellation"


def _error(bench: Bench) -> Exception:
    try:
        body = bench.fetch()
    except LlmaoError as error:
        return error
    except Exception as error:
        return error
    pytest.fail(f"the read did not fail and returned {body!r}")


def _plant(bench: Bench, count: int) -> None:
    """Put something into the far end, unless that is the real one."""
    if not bench.live:
        bench.plant_some(count)


def _truth(bench: Bench) -> dict[str, object]:
    return {} if bench.live else dict(bench.truth())


def _problems(bench: Bench, config: Config) -> tuple[Problem, ...]:
    found: tuple[Problem, ...] = called(bench.plugin.llmao_check, config=config)
    return found
