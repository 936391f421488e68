"""Why a deployment is kept out of LiteLLM: what an admin drained or retired, who, and when."""

from llmao_core.intended import Labels
from llmao_web.pages.kept_out import Out, kept_out
from llmao_web.shell.ledger import Entry, EntryKind, Numbered

from .worlds import NOW, a_view

RECORD = a_view().records[0]._replace(drained=True)
HOST, KEY = RECORD.host, RECORD.key
BY_HOST = Numbered(1, Entry(NOW - 60, "ada", EntryKind.DRAINED, HOST))
BY_KEY = Numbered(2, Entry(NOW - 30, "bob", EntryKind.DRAINED, key=KEY))
RETIRED = Numbered(3, Entry(NOW - 10, "eve", EntryKind.RETIRED, HOST))


def test_what_nobody_drained_is_not_kept_out() -> None:
    """Whatever the ledger has of earlier days."""
    assert kept_out(RECORD._replace(drained=False), Labels(), (BY_KEY,)) is None


def test_a_port_that_is_drained_alone_is_not_called_its_host() -> None:
    """And it is undrained where it is shown."""
    out = kept_out(RECORD, Labels(drained_keys=frozenset({KEY})), (BY_KEY, BY_HOST))
    assert Out(f"{KEY.shown} alone is drained", "Undrain", "bob", NOW - 30) == out


def test_a_host_that_is_drained_or_retired_is_undone_on_its_page() -> None:
    """Undraining what is retired does nothing."""
    drained = kept_out(RECORD, Labels(drained_hosts=frozenset({HOST})), (BY_KEY, BY_HOST))
    there = f"on the page of {HOST}"
    assert Out(f"{HOST} is drained as a whole", f"Undrain {there}", "ada", NOW - 60) == drained
    labels = Labels(drained_hosts=frozenset({HOST}), retired_hosts=frozenset({HOST}))
    retired = kept_out(RECORD, labels, (RETIRED, BY_KEY, BY_HOST))
    back = f"Take back from retirement {there}"
    assert Out(f"{HOST} is retired", back, "eve", NOW - 10) == retired


def test_what_the_ledger_does_not_tell_is_left_out() -> None:
    """That it is drained is known all the same."""
    out = kept_out(RECORD, Labels(drained_hosts=frozenset({HOST})), ())
    assert out is not None
    assert ("", None) == (out.by, out.at)
