"""Rows of LiteLLM that are not ours: at our addresses, and those that vanish after our writes.

Rule of this file: it only watches. One read that does not show a row proves nothing, since each
of LiteLLM's workers has its own list; a read that began a poll interval later does.
"""

from collections.abc import Iterable, Iterator

from .actions import ActionKind, Write
from .classify import copy_of
from .draft import Draft
from .facts import Route
from .history import Foreign, Vanished
from .records import AttentionItem, ItemKind
from .scene import Scene
from .waiting import VERBS, item

KEPT_S = 86400.0


def fold_foreign(old: Foreign, scene: Scene, drafts: Iterable[Draft]) -> Foreign:
    """Return what is remembered of foreign rows after this pass's read of the deployments.

    Rows beside ours at one address are left out: their items ask a person to remove them, and
    callers lose no server with them.
    """
    read = scene.deployments
    if read is None or read.taken_at == old.read_at:
        return old
    fleet = scene.fleet.name
    # A row of ours may have been somebody else's before llmao put its mark on it.
    every = {row.id for row in read.body.rows}
    beside = {row.id for one in drafts if one.entry.rows for row in one.entry.copies}
    rows = {
        row.id: row.model_name
        for row in read.body.rows
        if row.id not in beside
        and not (row.in_db and (row.fleet == fleet or row.id in scene.writes))
    }
    gone = {one: was for one, was in old.gone.items() if one not in every and _young(was, scene)}
    for one, model in old.rows.items():
        write = None if one in every or one in gone else _before(one, old, read.taken_at, scene)
        if write is not None:
            gone[one] = Vanished(model, read.taken_at, f"{VERBS[write.kind].lower()} {write.key}")
    return Foreign(read.taken_at, rows, gone)


def _young(was: Vanished, scene: Scene) -> bool:
    return scene.now - was.at <= KEPT_S


def _before(one: str, old: Foreign, taken_at: float, scene: Scene) -> Write | None:
    """Return the write of ours after which a row was gone, None if there was none or we meant it.

    A write counts from a poll interval before the last read that showed the row.
    """
    if one in scene.writes or old.read_at is None:
        return None
    since = old.read_at - scene.poll_s
    found = [write for write in scene.writes.values() if _between(write, since, taken_at)]
    return max(found, key=lambda write: (write.began, str(write.key)), default=None)


def _between(write: Write, since: float, until: float) -> bool:
    if write.kind is ActionKind.REBOOT_BOX or write.began > until:
        return False
    return write.answered is None or write.answered >= since


def foreign_vanished(known: Foreign, scene: Scene) -> Iterator[AttentionItem]:
    """Yield an item for each foreign row that a later read did not show either."""
    for one, was in sorted(known.gone.items()):
        if known.read_at is None or known.read_at < was.at + scene.poll_s:
            continue
        yield item(
            ItemKind.FOREIGN_VANISHED,
            f"LiteLLM's row {one} ({was.model}) is not llmao's and vanished right after a write of "
            f"llmao's ({was.write}). Callers of {was.model} have one server less; llmao does not "
            "put it back.",
            one,
            remedy="Look in LiteLLM's log for who deleted it. Add it again in LiteLLM if it is "
            "needed.",
        )


def foreign_items(drafts: Iterable[Draft]) -> Iterator[AttentionItem]:
    """Yield an item for each row that is not ours at an address of ours: a file's, or a copy."""
    for draft in drafts:
        entry = draft.entry
        if not entry.copies:
            continue
        if draft.facts.route is Route.BESIDE:
            yield _copied(draft)
        if any(not row.in_db for row in entry.copies):
            yield item(
                ItemKind.YAML_ROW,
                f"LiteLLM's own config file has {entry.key}, too: llmao cannot manage that row, "
                "and callers are sent there also when the server is dead.",
                str(entry.key),
                key=entry.key,
                remedy="Remove the row from that file and restart LiteLLM; llmao's own row stays.",
            )


def _copied(draft: Draft) -> AttentionItem:
    key, copy = draft.entry.key, copy_of(draft.entry)
    asked = draft.rule.by_person
    return item(
        ItemKind.UNSTAMPED_COPY,
        f"LiteLLM has a second row for {key}, {copy.id if copy else ''}, that llmao did not make: "
        "callers are sent there, too, also when the server is dead.",
        str(key),
        key=key,
        remedy="Ask who made it; press the button unless somebody needs it."
        if asked
        else "Ask who made it; its button comes here unless the server goes.",
        button="run" if asked else "",
        action=ActionKind.DELETE_DUPLICATE if asked else None,
    )
