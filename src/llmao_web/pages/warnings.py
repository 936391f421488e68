"""What a press on a box or a deployment does, said before it counts.

Rule of this file: each sentence is about what callers, routes or money lose, or how it is undone;
who else serves a model is read from the records of the newest pass.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from llmao_core.prices import per_hour
from llmao_core.reboot import WAIT_S
from llmao_core.records import HostView, Record
from llmao_core.verdicts import UP

# What a pass says while it adds a route, and before it has read it back.
_ADDED = ("serving-absent", "discovered-serving", "pending")
_RUNNING = "requests that run now are not cut off"


def serving(records: Iterable[Record]) -> Mapping[str, int]:
    """Return how many deployments serve callers now, by model."""
    return Counter(record.key.model for record in records if serves(record))


def serves(record: Record) -> bool:
    """Tell whether callers get it."""
    return record.row is not None and (record.lifecycle in UP or record.reached)


def drains_one(record: Record, host: HostView | None, now: Mapping[str, int]) -> tuple[str, ...]:
    """Return what draining one deployment does. now: from `serving`, and so below."""
    return (
        f"Its route leaves LiteLLM and stays out until you undrain it; {_RUNNING}.",
        callers([record], now),
        f"The box runs on{_rent(host, ', and its rent of {} goes on')}.",
    )


def drains_box(
    served: Sequence[Record], host: HostView | None, now: Mapping[str, int]
) -> tuple[str, ...]:
    """Return what draining a box does."""
    return (
        f"Its routes leave LiteLLM and stay out until you undrain it; {_RUNNING}.",
        callers(served, now),
        f"The box runs on{_rent(host, ', and its rent of {} goes on')}.",
    )


def reboots(served: Sequence[Record], host: HostView, now: Mapping[str, int]) -> tuple[str, ...]:
    """Return what rebooting a box does."""
    return (
        (
            f"Its routes leave LiteLLM. Once no request runs, after {WAIT_S / 60:.0f} min in any "
            f"case, {host.provider} is asked to reboot it, and that cuts off what still runs."
        ),
        callers(served, now),
        (
            "The routes come back by themselves as its servers prove themselves again. Cancel is "
            f"on its page until {host.provider} is asked; then it cannot be called back"
            f"{_rent(host, '. The rent of {} goes on meanwhile')}."
        ),
    )


def withdraws(served: Sequence[Record], host: HostView | None) -> tuple[str, ...]:
    """Return what withdrawing an approval does."""
    routed = ", ".join(sorted({one.key.model for one in served if one.row is not None}))
    keeps = (
        f"Nothing is removed at once: what serves now ({routed}) keeps its route for as long as "
        "its server answers."
        if routed
        else "Nothing of it is routed now, so callers lose nothing."
    )
    return (
        "Nothing intends it any more: the next time it asks for its configuration it is refused.",
        keeps,
        f"To undo it, approve the box again.{_end(host)}",
    )


def retires(
    served: Sequence[Record],
    host: HostView | None,
    now: Mapping[str, int],
    *,
    approved: bool,
    configured: bool,
) -> tuple[str, ...]:
    """Return what retiring a host does.

    approved: by an admin alone. configured: fleet.hosts names it.
    """
    approval = " and its approval is withdrawn" if approved else ""
    again = ", and approve it again" if approved else ""
    lines = " Its lines in fleet.hosts stay until you delete them." if configured else ""
    return (
        (
            f"Its routes leave LiteLLM{approval}; {_RUNNING}. It is hidden from the list of boxes, "
            f"and what is known of it is kept.{lines}"
        ),
        callers(served, now),
        f"To undo it, take it back from retirement on its page{again}.{_end(host)}",
    )


def callers(leaving: Sequence[Record], now: Mapping[str, int]) -> str:
    """Return what callers lose when these leave LiteLLM."""
    gone = Counter(record.key.model for record in leaving if serves(record))
    if not gone and any(record.row is None and record.action_rule in _ADDED for record in leaving):
        return "It is being added to LiteLLM just now: that is undone."
    if not gone:
        return "It serves no callers now, so they lose nothing."
    lost = sorted(model for model, count in gone.items() if now.get(model, 0) <= count)
    kept = sorted(gone.keys() - set(lost))
    found = []
    if lost:
        models = _all(lost)
        found.append(f"Nothing else serves {models}: callers get errors until something does.")
    if kept:
        found.append(f"Other deployments go on serving {_all(kept)}.")
    return " ".join(found)


def _all(models: Sequence[str]) -> str:
    *most, last = models
    return f"{', '.join(most)} and {last}" if most else last


def _rent(host: HostView | None, words: str) -> str:
    """Return words about the price of a rented box, "" for a machine of our own."""
    if host is None or not host.instance_id:
        return ""
    price = host.price_per_hour
    return words.replace(" of {}", f" of {per_hour(price)}" if price else "")


def _end(host: HostView | None) -> str:
    """Return where the rental is to be ended, "" for a machine of our own."""
    if host is None or not host.instance_id:
        return ""
    price = f" of {per_hour(host.price_per_hour)}" if host.price_per_hour else ""
    return f" The rent{price} goes on until you end it at {host.provider}."
