"""Where planted bugs of the toy provider are filed, with the checks that are there for them."""

from collections.abc import Callable

from tests.kit.toy import Toy

BUGS: list[tuple[type[Toy], str]] = []


def bug(*checks: str) -> Callable[[type[Toy]], type[Toy]]:
    """File a broken plugin under the checks that must fail on it."""

    def add(toy: type[Toy]) -> type[Toy]:
        BUGS.extend((toy, f"test_{check}") for check in checks)
        return toy

    return add
