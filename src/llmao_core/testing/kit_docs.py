"""Fills the printed parts of docs/writing-a-provider.md, hooks.md and operating.md from the code.

Rule of this file: what stands between two marks is read from the code; the rest is a person's.
`python -m llmao_core.testing.kit_docs` writes the pages anew; a test compares them.
"""

import ast
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from llmao_core import hooks
from llmao_core.errors import LlmaoError, OutcomeUnknown
from llmao_core.item_kinds import ItemKind
from llmao_core.verdicts import Badge

from .kit_deployments import DeploymentsPluginTests
from .kit_host import HostTests
from .kit_listing import ListingProviderTests
from .kit_orders import WRITES, OrderTests
from .kit_reading import ReadingTests
from .kit_suite import Suite
from .kit_wire import RAISES, Mishap

ROOT = Path(__file__).parents[3]
PAGES = tuple(
    ROOT / "docs" / name for name in ("writing-a-provider.md", "hooks.md", "operating.md")
)
EXAMPLE = ROOT / "examples" / "llmao-static"
_BLOCK = re.compile(r"<!-- begin ([\w.-]+) -->\n.*?<!-- end \1 -->", re.DOTALL)
_SUITES: Mapping[str, type[Suite]] = {
    "Every plugin": ReadingTests,
    "Plugins that list boxes": ListingProviderTests,
    "Plugins that keep deployments": DeploymentsPluginTests,
    "Plugins that carry out orders": OrderTests,
    "In llmao's own plugin host": HostTests,
}


def filled(page: str) -> str:
    """Return a page with every block between marks printed anew; KeyError for an unknown one."""
    return _BLOCK.sub(
        lambda found: f"<!-- begin {found[1]} -->\n{_block(found[1])}\n<!-- end {found[1]} -->",
        page,
    )


def _block(name: str) -> str:
    if name in _PRINTED:
        return _PRINTED[name]()
    code = (EXAMPLE / name).read_text().rstrip()
    return f"```{'toml' if name.endswith('.toml') else 'python'}\n{code}\n```"


def _checks() -> str:
    parts = []
    for title, suite in _SUITES.items():
        own = [(name, one) for name, one in vars(suite).items() if name.startswith("test_")]
        rows = [(f"`{name.removeprefix('test_')}`", _sentence(one)) for name, one in own]
        parts.append(f"**{title}** (`{suite.__name__}`)\n\n{_table(('check', 'means'), rows)}")
    return "\n\n".join(parts)


def _sentence(check: object) -> str:
    return " ".join((inspect.getdoc(check) or "").split())


def _mishaps() -> str:
    rows = [
        (kind.value, _names((RAISES[kind],)) if kind in RAISES else "", _names(_raised(kind)))
        for kind in Mishap
    ]
    return _table(("mishap", "a read raises", "a write raises"), rows)


def _raised(kind: Mishap) -> tuple[type[LlmaoError], ...]:
    return (OutcomeUnknown,) if kind is Mishap.UNANSWERED else WRITES.get(kind, ())


def _names(errors: Iterable[type[LlmaoError]]) -> str:
    return " or ".join(f"`{error.__name__}`" for error in errors)


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    names = list(head)
    return "\n".join(_line(row) for row in (names, ["---"] * len(names), *rows))


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _hooks() -> str:
    tree = ast.parse(inspect.getsource(hooks))
    parts = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            word = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
            returns = ast.unparse(node.returns) if node.returns else "None"
            signature = f"{word} {node.name}({ast.unparse(node.args)}) -> {returns}"
            says = ast.get_docstring(node) or ""
            parts.append(f"### {node.name}\n\n```python\n{signature}\n```\n\n{says}")
    return "\n\n".join(parts)


def _records() -> str:
    found = []
    for record in (hooks.SourceCard, hooks.FetchRequest, hooks.Message, hooks.Notice):
        source = inspect.getsource(record).rstrip()
        found.append(f"```python\n{source}\n```")
    return "\n\n".join(found)


def _items() -> str:
    rows = ((f"`{kind.value}`", kind.meaning, kind.remedy) for kind in ItemKind)
    return _table(("", "what it says", "what to do"), rows)


def _badges() -> str:
    rows = ((f"`{each.value}`", each.label, each.meaning, each.remedy) for each in Badge)
    return _table(("", "on pages", "what it says", "what to do"), rows)


_PRINTED: Mapping[str, Callable[[], str]] = {
    "badges": _badges,
    "items": _items,
    "checks": _checks,
    "mishaps": _mishaps,
    "hooks": _hooks,
    "records": _records,
}


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(filled(path.read_text()))
