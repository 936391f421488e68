"""What fits a box: as the installer divides it, and in words."""

import pytest
from box.install_set import Card, Server, divide, option
from hypothesis import given
from hypothesis import strategies as st

from llmao_core.config import Model, Recipe, Source
from llmao_core.fit import Fit, Room, fit, need, suggest

ONE = Room(1, 24.0, 100.0)


def recipe(gb: float | None = 9, *args: str, disk: float | None = 10, **more: object) -> Recipe:
    return Recipe("org/model", args=args, vram_gb=gb, disk_gb=disk, **more)  # type: ignore[arg-type]


def together(room: Room, *recipes: Recipe) -> Fit:
    return fit([(f"s{number}", each) for number, each in enumerate(recipes)], room)


_GB = st.none() | st.integers(0, 30)
_RECIPES = st.lists(
    st.builds(
        lambda gb, cards, share: recipe(
            gb, f"--tensor-parallel-size={cards}", gpu_memory_utilization=share
        ),
        _GB,
        st.sampled_from((1, 1, 1, 2, 4)),
        st.none() | st.sampled_from((0.3, 0.5, 0.92, 0.97)),
    ),
    max_size=6,
)


@given(_RECIPES, st.integers(1, 4), st.sampled_from((8.0, 24.0, 48.0)))
def test_what_fits_is_what_the_installer_finds_room_for(
    recipes: list[Recipe], cards: int, gb: float
) -> None:
    """An admin must not be shown another answer than the box will give."""
    servers = [
        Server(
            f"s{number}",
            "org/model",
            f"s{number}",
            8001 + number,
            vram_gb=each.vram_gb,
            fraction=each.gpu_memory_utilization,
            cards=need(each).cards,
        )
        for number, each in enumerate(recipes)
    ]
    _, reasons = divide(servers, [Card(index, gb) for index in range(cards)])
    found = together(Room(cards, gb, 1000.0), *recipes)
    assert len(reasons) == len(found.misfits)
    assert sorted(reasons) == sorted(each.partition(" ")[0] for each in found.misfits)


@pytest.mark.parametrize(
    ("args", "cards"),
    [
        ((), 1),
        (("--tensor-parallel-size", "2"), 2),
        (("-tp", "4"), 4),
        (("--tensor_parallel_size=2", "--pipeline-parallel-size", "2"), 4),
        (("--tensor-parallel", "2"), 2),
        (("--tensor-parallel-size", "many"), 1),
        (("--tensor-parallel-size",), 1),
    ],
)
def test_the_cards_a_server_takes_stand_in_its_arguments(args: tuple[str, ...], cards: int) -> None:
    """In any spelling that vLLM takes; nonsense is one card, the box refuses it."""
    assert cards == need(recipe(9, *args)).cards
    if args and args[-1] not in ("many", "--tensor-parallel-size"):
        assert option(args, "--tensor-parallel-size", "-tp")


def test_a_server_needs_its_weights_and_its_cache() -> None:
    """vram_gb and the cache of one full context, in 10^9 bytes."""
    made = recipe(18, kv_bytes_per_token=100_000, max_model_len=40_000)
    assert 22.0 == need(made).gb
    assert need(recipe(None, kv_bytes_per_token=1, max_model_len=1)).gb is None


def test_what_is_left_is_said() -> None:
    """Of the card what servers may share, of the disk all of it."""
    found = together(ONE, recipe(9))
    assert (13.0,) == pytest.approx(found.card_left_gb, abs=0.1)
    assert 90.0 == found.disk_left_gb
    assert found.good


def test_weights_of_one_model_count_once_on_the_disk() -> None:
    """Two servers of it pull them once; weights that are there are not pulled."""
    twice = together(ONE, recipe(1, disk=80), recipe(1, disk=80))
    assert 20.0 == twice.disk_left_gb
    there = together(ONE, recipe(1, disk=800, source=Source("local")))
    assert 100.0 == there.disk_left_gb
    too_much = together(ONE, recipe(1, disk=120))
    assert ("The weights need 120.0 GB of disk; the box has 100.0 GB.",) == too_much.misfits


@pytest.mark.parametrize(
    ("recipes", "said"),
    [
        ([recipe(30)], "s0 needs 30.0 GB; 22.1 GB are left on a card: 7.9 GB are missing."),
        (
            [recipe(9, gpu_memory_utilization=0.5), recipe(9, gpu_memory_utilization=0.75)],
            "s0 needs 12.0 GB, 0.5 of a card; 4.1 GB are left on a card: 7.9 GB are missing.",
        ),
        (
            [recipe(20, gpu_memory_utilization=0.5)],
            "s0 needs 20.0 GB; its recipe gives it 0.5 of a card, 12.0 GB: 8.0 GB are missing.",
        ),
    ],
)
def test_what_is_missing_is_said_in_gb(recipes: list[Recipe], said: str) -> None:
    """Whoever looks for a smaller variant knows how much smaller; a share is no size."""
    assert (said,) == together(ONE, *recipes).misfits


def test_what_is_not_known_is_said_and_is_no_misfit() -> None:
    """A box that no listing names, a recipe that says nothing."""
    blind = together(Room(), recipe(9))
    assert blind.good
    assert 2 == len(blind.unknown)
    assert () == blind.card_left_gb
    silent = together(ONE, recipe(None, disk=None))
    assert silent.good
    assert 2 == len(silent.unknown)
    assert Fit() == fit([], Room())


def test_a_listing_with_a_million_cards_is_not_believed() -> None:
    """It is a stranger's figure."""
    assert 64 == len(together(Room(10**9, 24.0, 1.0)).card_left_gb)


def models(*sizes: float | None) -> list[Model]:
    return [Model(f"m{place}", recipe=recipe(gb)) for place, gb in enumerate(sizes)]


@pytest.mark.parametrize(
    ("sizes", "room", "names"),
    [
        ((9, 9, 9), ONE, ["m0", "m1"]),
        ((30, 9), ONE, ["m1"]),
        ((9,), Room(), []),
        ((None, 9), ONE, ["m1"]),
        ((1, 1, 1, 1), ONE, ["m0", "m1", "m2"]),
        ((), ONE, []),
    ],
)
def test_rows_are_suggested_while_they_fit(
    sizes: tuple[float | None, ...], room: Room, names: list[str]
) -> None:
    """In the order given, at the first ports that are free, and never a guess."""
    rows = suggest(models(*sizes), (8001, 8002, 8003), room)
    assert names == [row.model for row in rows]
    assert list(range(8001, 8001 + len(names))) == [row.port for row in rows]
    assert fit([(row.name, recipe(1)) for row in rows], room).good
