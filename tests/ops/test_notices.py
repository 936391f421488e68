"""What people are told of a trouble: that it began and that it is over, not each time it blinks."""

from llmao_core.hooks import Notice
from llmao_core.records import AttentionItem, ItemKind
from llmao_web.shell.notices import MOST_WITHIN, QUIET_S, SETTLE_S, Following, follow

DOWN = AttentionItem("down:a", ItemKind.DOWN, "a is down.", since=3.0, host="a")
BRAKE = AttentionItem("brake_on", ItemKind.BRAKE_ON, "The brake holds 4 removals.")


class Looks:
    """Looks at items again and again; `told` is everything people were told."""

    def __init__(self) -> None:
        self.now = 0.0
        self.following: Following = {}
        self.told: list[Notice] = []

    def see(self, *items: AttentionItem, for_s: float = SETTLE_S) -> list[Notice]:
        """Look every five seconds for so long, and return what people were told meanwhile."""
        before, until = len(self.told), self.now + for_s
        while self.now <= until:
            self.following, notices = follow(self.following, items, self.now)
            self.told += notices
            self.now += 5.0
        return self.told[before:]

    @property
    def states(self) -> list[bool]:
        return [notice.opened for notice in self.told]


def test_an_item_is_told_once_however_long_it_stands() -> None:
    """An hour of the same trouble is one notice."""
    looks = Looks()
    looks.see(DOWN, for_s=3600)
    remedy = ItemKind.DOWN.remedy
    expected = Notice("down:a", ItemKind.DOWN, True, "a is down.", 3.0, SETTLE_S, "a", 1, remedy)
    assert [expected] == looks.told


def test_what_is_over_is_told_in_its_last_words() -> None:
    """The sentence of a closed notice is the one that people know."""
    looks = Looks()
    looks.see(DOWN, BRAKE)
    over = looks.see(BRAKE)
    told = [(n.id, n.opened, n.sentence, n.remedy) for n in over]
    assert [("down:a", False, "a is down.", "")] == told


def test_what_is_over_at_once_is_not_told() -> None:
    """Neither that it began nor that it ended."""
    looks = Looks()
    looks.see(DOWN, for_s=0)
    looks.see(for_s=3600)
    assert [] == looks.told
    assert {} == looks.following


def test_a_flapping_item_is_bundled() -> None:
    """An hour of twenty seconds up, twenty down: few notices, and they say how often."""
    looks = Looks()
    for _ in range(90):
        looks.see(DOWN, for_s=15)
        looks.see(for_s=15)
    per_quiet_time = MOST_WITHIN * looks.now / QUIET_S
    assert 4 <= len(looks.told) <= per_quiet_time + MOST_WITHIN
    assert looks.told[2].times > 5


def test_where_a_flapping_item_comes_to_rest_is_told() -> None:
    """The last word is always what is so."""
    looks = Looks()
    for _ in range(5):
        looks.see(DOWN, for_s=15)
        looks.see(for_s=15)
    looks.see(DOWN, for_s=QUIET_S)
    assert [True, False, True] == looks.states
    looks.see(for_s=2 * QUIET_S)
    assert [True, False, True, False] == looks.states


def test_two_items_are_two_notices_of_one_look() -> None:
    """What is over comes first, then what began, the oldest first."""
    looks = Looks()
    looks.see(DOWN)
    later = AttentionItem("unknown_host:b", ItemKind.UNKNOWN_HOST, "b asks.", since=9.0)
    told = looks.see(BRAKE, later)
    assert [("down:a", False), ("brake_on", True), ("unknown_host:b", True)] == [
        (notice.id, notice.opened) for notice in told
    ]


def test_nothing_is_followed_for_ever() -> None:
    """Strangers make items without end; what is long over is forgotten."""
    looks = Looks()
    for number in range(50):
        looks.see(AttentionItem(f"wrong_key:{number}", ItemKind.WRONG_KEY, "."), for_s=15)
    looks.see(for_s=2 * QUIET_S)
    assert {} == looks.following
