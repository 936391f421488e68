"""The division of the cards: a table of cases, and what holds for every fleet."""

from typing import Any

import pytest
from box.install_set import LIMIT, Card, Place, Server, divide
from hypothesis import given
from hypothesis import strategies as st

SMALL, BIG, HUGE = 24.0, 48.0, 80.0


def server(name: str, vram: float | None = None, **more: Any) -> Server:
    return Server(name, "org/model", name, 8001, vram_gb=vram, **more)


def cards(*sizes: float) -> list[Card]:
    return [Card(index, gb) for index, gb in enumerate(sizes)]


def at(*indexes: int, is_: str, after: str = "") -> Place:
    return Place(indexes, is_, tuple(after.split()))


A, B, C, D = "a", "b", "c", "d"
NO = None
CASES: list[tuple[str, list[Server], list[Card] | None, dict[str, Place | None]]] = [
    ("nothing to serve", [], cards(SMALL), {}),
    ("one that names its need has the card", [server(A, 18)], cards(SMALL), {A: at(0, is_="0.92")}),
    ("one that names nothing has the card", [server(A)], cards(SMALL), {A: at(0, is_="0.92")}),
    ("an explicit fraction is as given", [server(A, fraction=0.5)], cards(SMALL),
     {A: at(0, is_="0.5")}),
    ("an explicit fraction above the limit has its card alone", [server(A, fraction=0.97)],
     cards(SMALL), {A: at(0, is_="0.97")}),
    ("and is not joined by another", [server(A, fraction=0.97), server(B, 1)], cards(SMALL),
     {A: at(0, is_="0.97"), B: NO}),
    ("two that each want a card alone", [server(A, fraction=0.97), server(B, fraction=0.95)],
     cards(SMALL), {A: at(0, is_="0.97"), B: NO}),
    ("two equals share evenly", [server(A, 9), server(B, 9)], cards(SMALL),
     {A: at(0, is_="0.46"), B: at(0, is_="0.46", after="a")}),
    ("two share by need", [server(A, 6), server(B, 12)], cards(SMALL),
     {B: at(0, is_="0.613"), A: at(0, is_="0.306", after="b")}),
    ("three share by need", [server(A, 4), server(B, 4), server(C, 8)], cards(SMALL),
     {C: at(0, is_="0.46"), A: at(0, is_="0.23", after="c"), B: at(0, is_="0.23", after="c a")}),
    ("the key-value cache counts", [server(A, 6, kv_bytes_per_token=100_000, max_model_len=60_000),
                                    server(B, 6)], cards(SMALL),
     {A: at(0, is_="0.613"), B: at(0, is_="0.306", after="a")}),
    ("a cache without a length does not", [server(A, 6, kv_bytes_per_token=10**6), server(B, 6)],
     cards(SMALL), {A: at(0, is_="0.46"), B: at(0, is_="0.46", after="a")}),
    ("explicit first, the others have the rest", [server(A, 6), server(B, fraction=0.4)],
     cards(SMALL), {B: at(0, is_="0.4"), A: at(0, is_="0.52", after="b")}),
    ("one without a figure has what the others leave", [server(A), server(B, 12)], cards(SMALL),
     {B: at(0, is_="0.5"), A: at(0, is_="0.42", after="b")}),
    ("two without a figure halve it", [server(A), server(B)], cards(SMALL),
     {A: at(0, is_="0.46"), B: at(0, is_="0.46", after="a")}),
    ("too large for the card", [server(A, 23)], cards(SMALL), {A: NO}),
    ("exactly the limit", [server(A, 0.92 * SMALL)], cards(SMALL), {A: at(0, is_="0.92")}),
    ("together too large: the larger has it", [server(A, 10), server(B, 15)], cards(SMALL),
     {B: at(0, is_="0.92"), A: NO}),
    ("explicit fractions too large together", [server(A, fraction=0.5), server(B, fraction=0.6)],
     cards(SMALL), {B: at(0, is_="0.6"), A: NO}),
    ("an explicit fraction smaller than the need", [server(A, 18, fraction=0.3)], cards(SMALL),
     {A: NO}),
    ("and large enough on another card", [server(A, 18, fraction=0.3)], cards(SMALL, HUGE),
     {A: at(1, is_="0.3")}),
    ("two cards: each has one", [server(A, 10), server(B, 10)], cards(SMALL, SMALL),
     {A: at(0, is_="0.92"), B: at(1, is_="0.92")}),
    ("three on two cards", [server(A, 10), server(B, 10), server(C, 10)], cards(SMALL, SMALL),
     {A: at(0, is_="0.46"), B: at(1, is_="0.92"), C: at(0, is_="0.46", after="a")}),
    ("the large one has the large card", [server(A, 10), server(B, 30)], cards(SMALL, BIG),
     {B: at(1, is_="0.92"), A: at(0, is_="0.92")}),
    ("cards of other sizes, by what is free", [server(A, 10), server(B, 10)], cards(SMALL, HUGE),
     {A: at(1, is_="0.46"), B: at(1, is_="0.46", after="a")}),
    ("four on three cards",
     [server(A, 20), server(B, 10), server(C, 10), server(D, 40)], cards(SMALL, BIG, SMALL),
     {D: at(1, is_="0.92"), A: at(0, is_="0.92"), B: at(2, is_="0.46"),
      C: at(2, is_="0.46", after="b")}),
    ("spread, the third would find no room", [server(A, 27), server(B, 18), server(C, 18)],
     cards(30, 40), {A: at(0, is_="0.92"), B: at(1, is_="0.46"), C: at(1, is_="0.46", after="b")}),
    ("two cards for one", [server(A, 40, cards=2)], cards(SMALL, SMALL), {A: at(0, 1, is_="0.92")}),
    ("two cards, and one for another", [server(A, 40, cards=2), server(B, 9)],
     cards(SMALL, SMALL, SMALL), {A: at(0, 1, is_="0.92"), B: at(2, is_="0.92")}),
    ("two cards for one leave none", [server(A, 40, cards=2), server(B, 1)], cards(SMALL, SMALL),
     {A: at(0, 1, is_="0.92"), B: NO}),
    ("more cards than there are", [server(A, cards=4)], cards(SMALL, SMALL), {A: NO}),
    ("two pairs", [server(A, 40, cards=2), server(B, 40, cards=2)], cards(*[SMALL] * 4),
     {A: at(0, 1, is_="0.92"), B: at(2, 3, is_="0.92")}),
    ("a pair has cards of one size", [server(A, 30, cards=2)], cards(SMALL, BIG, BIG),
     {A: at(1, 2, is_="0.92")}),
    ("else the smallest that do", [server(A, 30, cards=2)], cards(HUGE, SMALL, BIG),
     {A: at(1, 2, is_="0.92")}),
    ("a pair too large for small cards", [server(A, 80, cards=2)], cards(SMALL, SMALL), {A: NO}),
    ("an explicit fraction over several cards", [server(A, cards=2, fraction=0.8)],
     cards(SMALL, SMALL), {A: at(0, 1, is_="0.8")}),
    ("the wider one goes first", [server(A, cards=2), server(B, cards=4)], cards(*[SMALL] * 4),
     {B: at(0, 1, 2, 3, is_="0.92"), A: NO}),
    ("no card at all", [server(A)], [], {A: NO}),
    ("cards not known, one server: vLLM decides", [server(A, 18)], None, {A: at(is_="")}),
    ("cards not known, explicit", [server(A, fraction=0.5)], None, {A: at(is_="0.5")}),
    ("cards not known, several cards, alone", [server(A, cards=2)], None, {A: at(is_="")}),
    ("cards not known, two", [server(A, 5), server(B, 15)], None,
     {B: at(is_="0.69"), A: at(is_="0.23", after="b")}),
    ("cards not known, one without a figure", [server(A, 10), server(B)], None,
     {A: at(is_="0.46"), B: at(is_="0.46", after="a")}),
    ("cards not known, an explicit one and the rest", [server(A, fraction=0.5), server(B)], None,
     {A: at(is_="0.5"), B: at(is_="0.42", after="a")}),
    ("cards not known, several cards beside another", [server(A, cards=2), server(B)], None,
     {A: NO, B: at(is_="0.92")}),
    ("cards not known, and used up", [server(A, fraction=0.9), server(B)], None,
     {A: at(is_="0.9"), B: NO}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("servers", "there", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_the_table(
    servers: list[Server], there: list[Card] | None, expected: dict[str, Place | None]
) -> None:
    """Each has its place, or a reason why it has none."""
    places, reasons = divide(servers, there)

    assert expected == places | dict.fromkeys(reasons)
    assert all(reasons.values())


sizes = st.sampled_from([8.0, 16.0, SMALL, 25.757220864, BIG, HUGE, 141.0])
needs = st.none() | st.floats(0.1, 200)


@st.composite
def fleets(draw: st.DrawFn) -> list[Server]:
    names = draw(st.lists(st.sampled_from("abcdefghij"), unique=True, max_size=8))
    return [
        server(
            name,
            draw(needs),
            fraction=draw(st.none() | st.floats(0.01, 1)),
            kv_bytes_per_token=draw(st.none() | st.integers(1, 10**6)),
            max_model_len=draw(st.none() | st.integers(1, 200_000)),
            cards=draw(st.sampled_from([1, 1, 1, 1, 2, 4, 8])),
        )
        for name in names
    ]


boxes = st.none() | st.lists(sizes, max_size=8).map(lambda found: cards(*found))


@given(fleets(), boxes, st.randoms(use_true_random=False))
def test_what_holds_for_every_fleet(
    servers: list[Server], there: list[Card] | None, random: Any
) -> None:
    """No card is promised twice, everybody has a place or a reason, and order does not matter."""
    places, reasons = divide(servers, there)

    assert {each.name for each in servers} == places.keys() | reasons.keys()
    assert not places.keys() & reasons.keys()
    shuffled, other = list(servers), None if there is None else list(there)
    random.shuffle(shuffled)
    random.shuffle(other or [])
    assert (places, reasons) == divide(shuffled, other)
    by_name = {each.name: each for each in servers}
    on: dict[int, list[str]] = {}
    for name, place in places.items():
        for card in place.cards or (-1,):
            on.setdefault(card, []).append(name)
    for names in on.values():
        total = sum(float(places[name].fraction or 0) for name in names)
        alone = len(names) == 1 and by_name[names[0]].fraction is not None
        assert total <= LIMIT / 1000 + 1e-9 or alone
        assert len(names) == 1 or all(by_name[name].cards == 1 for name in names)


@given(fleets(), st.lists(sizes, min_size=1, max_size=8).map(lambda found: cards(*found)))
def test_who_has_a_place_has_what_it_needs(servers: list[Server], there: list[Card]) -> None:
    """Its fraction of its cards is no less than its recipe says, and those are its own cards."""
    places, _ = divide(servers, there)
    by_name = {each.name: each for each in servers}

    for name, place in places.items():
        one = by_name[name]
        least = min(there[index].gb for index in place.cards)
        assert one.cards == len(set(place.cards))
        assert (one.need_gb or 0) / one.cards <= float(place.fraction) * least + 1e-6
        if one.fraction is not None:
            assert str(one.fraction) == place.fraction
        assert all(places[other].cards == place.cards for other in place.after)
