"""Renders docs/decision-table.md from the rules and the rows that test them.

Rule of this file: everything in the page is read from the code or from a walk that was just run.
`python -m llmao_core.testing.render --check` fails when the page is stale, `--write` writes it.
"""

import argparse
import difflib
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from attrs import fields

from llmao_core.plan import Hold
from llmao_core.records import Badge, ItemKind, Lifecycle
from llmao_core.rules import ACTIONS, LIFECYCLES, ActionRule, LifeRule
from llmao_core.testing.cases import NOTHING, Case, read, walked
from llmao_core.testing.tell import told
from llmao_core.testing.walk import Walk

PAGE = Path(__file__).parents[3] / "docs" / "decision-table.md"
COMMAND = "python -m llmao_core.testing.render --write"

_INTRO = f"""\
# The decision table

Generated from `src/llmao_core/rules.py` and `tests/decision_table/*.yaml` by
`{COMMAND}`; do not edit.

Each pass turns what was seen of a deployment into facts, and looks them up in two tables: one
gives its lifecycle, one gives the action. In both the first row that applies wins. Cells that
do not matter are left out. The situations below are tests: each is walked through the real
`reconcile`, and everything that is not mentioned does not happen.

Unless a situation says otherwise, between two moments every target is probed every 6 seconds,
sources are read when they are due and when they change, planned actions are not carried out, and an
address where no server is described refuses connections.
"""

_NOT_FACTS = ("name", "because", "lifecycle", "held", "action", "witness", "by_person")


def page(walks: Sequence[tuple[Case, Walk]]) -> str:
    """Return the whole page from cases and their walks."""
    parts = [_INTRO, *_lifecycles(), *_actions(), *_words(walks), *_situations(walks)]
    return "\n".join(line.rstrip() for line in "\n".join(parts).splitlines()) + "\n"


# ---- the two tables


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    names = list(head)
    yield "| " + " | ".join(names) + " |"
    yield "|" + "---|" * len(names)
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"
    yield ""


def _lifecycles() -> Iterator[str]:
    yield "## Rules: lifecycle\n"
    yield from _table(
        ("rule", "given", "lifecycle", "because"),
        ((f"`{one.name}`", _given(one), _lifecycle(one), one.because) for one in LIFECYCLES),
    )


def _lifecycle(rule: LifeRule) -> str:
    if rule.lifecycle is None:
        return "the last one stands"
    return f"{rule.lifecycle.value}{' (held)' if rule.held else ''}"


def _actions() -> Iterator[str]:
    yield "## Rules: action\n"
    yield from _table(
        ("rule", "given", "action", "because"),
        ((f"`{one.name}`", _given(one), _action(one), _plain(one.because)) for one in ACTIONS),
    )


def _action(rule: ActionRule) -> str:
    if rule.action is None:
        return NOTHING
    witness = ", with a witness" if rule.witness else ""
    person = ", when a person asks" if rule.by_person else ""
    return f"**{rule.action.value}**{witness}{person}"


def _plain(sentence: str) -> str:
    return sentence.replace("{", "*").replace("}", "*")


def _given(rule: LifeRule | ActionRule) -> str:
    cells = [
        f"{one.name.replace('_', ' ')}: {_cell(getattr(rule, one.name))}"
        for one in fields(type(rule))
        if one.name not in _NOT_FACTS and getattr(rule, one.name) is not None
    ]
    return "; ".join(cells) or "anything else"


def _cell(cell: Any) -> str:
    values = cell if isinstance(cell, tuple) else (cell,)
    return " *or* ".join(value.value for value in values)


# ---- the closed lists


def _words(walks: Sequence[tuple[Case, Walk]]) -> Iterator[str]:
    yield "## Words\n\n### Lifecycles\n"
    yield ", ".join(life.value for life in Lifecycle) + ".\n"
    yield "### Badges\n"
    yield from _table(
        ("badge", "on pages", "meaning", "remedy"),
        ((f"`{badge.value}`", badge.label, badge.meaning, badge.remedy) for badge in Badge),
    )
    yield "### Attention items\n"
    yield from _table(("item", "for example", "what to do"), _examples(walks))
    yield "### Why an action waits\n"
    yield from (f"- {hold.value}" for hold in Hold if hold.value)
    yield ""


def _examples(walks: Sequence[tuple[Case, Walk]]) -> Iterator[tuple[str, str, str]]:
    found = {item.kind: item for _, walk in reversed(walks) for item in walk.view.items}
    for kind in ItemKind:
        one = found.get(kind)
        yield f"`{kind.value}`", one.sentence if one else "–", one.remedy if one else kind.remedy


# ---- the situations


def _situations(walks: Sequence[tuple[Case, Walk]]) -> Iterator[str]:
    yield "## Situations\n"
    for theme, group in groupby(walks, key=lambda one: one[0].theme):
        yield f"### {theme}\n"
        for case, walk in group:
            yield from _situation(case, walk)


def _situation(case: Case, walk: Walk) -> Iterator[str]:
    yield f"#### {case.name}\n"
    yield f"{case.title}.{f' (Seen in the field: {case.report}.)' if case.report else ''}\n"
    yield from (f"- {line}" for line in told(case.steps))
    yield ""
    happened = case.happened(walk)
    yield from _verdicts(happened["then"])
    if happened["unlisted"]:
        yield f"Unlisted: {', '.join(happened['unlisted'])}.\n"
    for host, planned in happened["boxes"].items():
        yield f"For {host}: {planned}.\n"
    if case.asks:
        yield f"LiteLLM is asked about: {', '.join(happened['asks'])}.\n"
    if happened["models"]:
        rolled = (f"{name} is {value}" for name, value in happened["models"].items())
        yield f"Callers are told: {', '.join(rolled)}.\n"
    if happened["earlier"]:
        yield f"Before: {'; '.join(happened['earlier'])}.\n"
    if walk.view.items:
        yield "Items:\n"
        yield from (f"- `{item.kind.value}`: {item.sentence}" for item in walk.view.items)
        yield ""


def _verdicts(then: dict[str, dict[str, Any]]) -> Iterator[str]:
    if not then:
        yield "No deployment.\n"
        return
    yield from _table(
        ("deployment", "lifecycle", "badges", "action"),
        (
            (key, one["life"], ", ".join(one["badges"]) or "–", one["plan"])
            for key, one in then.items()
        ),
    )


# ---- the command


def stale(text: str, path: Path = PAGE) -> str:
    """Return how the page on disk differs from a text, "" if it does not."""
    old = path.read_text() if path.exists() else ""
    lines = difflib.unified_diff(
        old.splitlines(), text.splitlines(), str(path), "what the code says", lineterm=""
    )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Write the page, or tell whether it is stale."""
    parser = argparse.ArgumentParser(prog="llmao_core.testing.render", description=__doc__)
    choice = parser.add_mutually_exclusive_group(required=True)
    choice.add_argument("--check", action="store_true", help="fail when the page is stale")
    choice.add_argument("--write", action="store_true", help="write the page")
    chosen = parser.parse_args(arguments)
    text = page([(case, walked(case)) for case in read()])
    if chosen.write:
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(text)
        return 0
    if difference := stale(text):
        sys.stderr.write(f"{difference}\n\n{PAGE.name} is stale: run `{COMMAND}`\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
