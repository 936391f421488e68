"""A page as parts, so that an open one can be told only what changed.

Rule of this file: a part is one element with an id, rendered once per pass and kept by everybody
who looks at it. It knows no visitor: ages and the visitor's token are filled in on the way out.
"""

from collections.abc import Iterable, Mapping

from attrs import field, frozen
from markupsafe import Markup

from .render import ageless, ages_of


@frozen
class Sheet:
    """All that changes on one page.

    parts: the HTML of each element, by its id. lists: for an element whose children come and
    go, the ids of its children in order.
    """

    parts: Mapping[str, str]
    lists: Mapping[str, tuple[str, ...]] = field(factory=dict)

    def __getitem__(self, part: str) -> Markup:
        """Return a part for its place in a template."""
        return Markup(self.parts[part])  # noqa: S704 rendered by a template that escapes

    def of(self, container: str) -> Markup:
        """Return the children of a list, for their place in a template."""
        return Markup("\n".join(self.parts[part] for part in self.lists[container]))  # noqa: S704

    def fixed(self) -> frozenset[str]:
        """Return what the rest of the page stands on: lists, and parts that are in none."""
        listed = {part for parts in self.lists.values() for part in parts}
        return frozenset(self.parts.keys() - listed) | {f"list {name}" for name in self.lists}


@frozen
class Change:
    """What turns one sheet into another.

    parts: new HTML by id. ages: epoch seconds in the order of their places, for parts in which
    nothing else moved. lists: children of the lists that changed.
    """

    parts: Mapping[str, str] = field(factory=dict)
    ages: Mapping[str, tuple[int, ...]] = field(factory=dict)
    lists: Mapping[str, tuple[str, ...]] = field(factory=dict)

    def __bool__(self) -> bool:
        return bool(self.parts or self.ages or self.lists)


def change(before: Sheet, after: Sheet) -> Change | None:
    """Return what turns one sheet into the other; None when the page must be read anew."""
    if before.fixed() != after.fixed():
        return None
    parts: dict[str, str] = {}
    ages: dict[str, tuple[int, ...]] = {}
    for name, html in _moved(before.parts, after.parts):
        if name in before.parts and ageless(before.parts[name]) == ageless(html):
            ages[name] = ages_of(html)
        else:
            parts[name] = html
    lists = {
        name: children for name, children in after.lists.items() if before.lists[name] != children
    }
    return Change(parts, ages, lists)


def _moved(before: Mapping[str, str], after: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    return [(name, html) for name, html in after.items() if before.get(name) != html]
