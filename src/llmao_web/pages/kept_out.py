"""Why an admin keeps a deployment out of LiteLLM: what was drained or retired, by whom, since when.

Rule of this file: that it is kept out is the record's; who said so is read from the ledger, and
left out where the ledger does not tell.
"""

from collections.abc import Iterable

from attrs import frozen

from llmao_core.intended import Labels
from llmao_core.keys import Key
from llmao_core.records import Record
from llmao_web.shell.ledger import EntryKind, Numbered


@frozen
class Out:
    """What keeps a deployment out, and what undoes it, as parts of sentences.

    by, at: who said so, and when; "" and None where nothing tells.
    """

    what: str
    undo: str
    by: str = ""
    at: float | None = None


def kept_out(record: Record, labels: Labels, entries: Iterable[Numbered]) -> Out | None:
    """Return why a deployment is kept out, None where no admin does. entries: newest first."""
    if not record.drained:
        return None
    host, there = record.host, f"on the page of {record.host}"
    if host in labels.retired_hosts:
        said = _said(entries, EntryKind.RETIRED, host)
        return Out(f"{host} is retired", f"Take back from retirement {there}", *said)
    if host in labels.drained_hosts:
        said = _said(entries, EntryKind.DRAINED, host)
        return Out(f"{host} is drained as a whole", f"Undrain {there}", *said)
    said = _said(entries, EntryKind.DRAINED, key=record.key)
    return Out(f"{record.key.shown} alone is drained", "Undrain", *said)


def _said(
    entries: Iterable[Numbered], kind: EntryKind, host: str = "", key: Key | None = None
) -> tuple[str, float | None]:
    for one in entries:
        entry = one.entry
        if entry.kind is kind and (entry.key == key if key else entry.host == host):
            return entry.actor, entry.at
    return "", None
