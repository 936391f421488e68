"""What llmao counts of its own work, for whoever scrapes it.

Rule of this file: labels come from closed lists, so that no stranger and no fleet makes them many.
Counting never fails and never waits.
"""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from llmao_core.actions import ActionKind, OutcomeKind
from llmao_core.protocol import BoxEvent, Fetch, Restarting, Unknown, WrongKey

_PASS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Counts:
    """The counters of one process, all in one registry."""

    def __init__(self) -> None:
        made = self.registry = CollectorRegistry()
        self.passes = Histogram(
            "llmao_pass_seconds", "How long a pass took.", buckets=_PASS_S, registry=made
        )
        self.actions = Counter(
            "llmao_actions", "Actions carried out, by how they ended.", ("kind", "outcome"),
            registry=made,
        )  # fmt: skip
        self.fetches = Counter(
            "llmao_box_fetches", "What boxes asked, by what they were answered.", ("answer",),
            registry=made,
        )  # fmt: skip
        self.messages = Counter(
            "llmao_messages", "Messages to receivers, by how they ended.", ("kind", "outcome"),
            registry=made,
        )  # fmt: skip
        self.store_failures = Counter(
            "llmao_store_failures", "Times that the store did not do as asked.", registry=made
        )
        self.journal_dropped = Gauge(
            "llmao_journal_dropped_passes", "Passes since start that are not in the journal.",
            registry=made,
        )  # fmt: skip
        self.leader = Gauge(
            "llmao_leader", "1 where this replica may write to LiteLLM, else 0.", registry=made
        )

    def acted(self, kind: ActionKind, outcome: OutcomeKind) -> None:
        """Count one action that ended."""
        self.actions.labels(kind.value, _word(outcome)).inc()

    def noted(self, event: BoxEvent) -> None:
        """Count what one box was answered."""
        self.fetches.labels(_answer(event)).inc()

    def told(self, kind: str, outcome: OutcomeKind) -> None:
        """Count one message to a receiver."""
        self.messages.labels(kind, _word(outcome)).inc()


def _word(outcome: OutcomeKind) -> str:
    return outcome.name.lower()


def _answer(event: BoxEvent) -> str:
    match event:
        case Fetch():
            return "handed_out" if event.handed_out else "unchanged"
        case Unknown():
            return "unknown_host"
        case WrongKey():
            return "wrong_key"
        case Restarting():
            return "notice_taken"
