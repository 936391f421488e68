"""Which models fit a box, and what is left of it: asked before anybody approves a host.

Rule of this file: figures of recipes and of a listing, nothing else. It divides cards as the box's
own installer does, which looks again and has the last word.
"""

import math
from collections.abc import Iterable, Iterator, Sequence

from attrs import define, field, frozen

from .config import HostRow, Model, Recipe

# What servers on one card may have of it together; vLLM and the driver need the rest. And the
# least that any takes. In thousandths, as the installer has them.
_LIMIT, _LEAST = 920, 50
_MOST_CARDS = 64
_BYTES = 1e9
_SHARE = ("--gpu-memory-utilization", "--device-memory-utilization")
_PARALLEL = {
    "--tensor-parallel-size": ("-tp",),
    "--pipeline-parallel-size": ("-pp",),
    "--data-parallel-size": ("-dp",),
}


@frozen
class Room:
    """What a listing says of a box. None: it does not say. card_gb: of one card."""

    cards: int = 0
    card_gb: float | None = None
    disk_gb: float | None = None


@frozen
class Need:
    """What a server takes. None: its recipe does not say. gb: on all its cards together."""

    gb: float | None
    cards: int
    disk_gb: float | None
    share: float | None = None


@frozen
class Fit:
    """How servers fit a box together.

    card_left_gb: per card, to share; () when memory is not known. disk_left_gb: None when not
    known. misfits, unknown: one sentence each; unknown is what could not be judged.
    """

    card_left_gb: tuple[float, ...] = ()
    disk_left_gb: float | None = None
    misfits: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        """Tell whether nothing is known to be too large."""
        return not self.misfits


def need(recipe: Recipe) -> Need:
    """Return what one server with this recipe takes."""
    cards = 1
    for name, short in _PARALLEL.items():
        cards *= _whole(recipe.args, name, *short)
    gb = recipe.vram_gb
    if gb is not None:
        gb += (recipe.kv_bytes_per_token or 0) * (recipe.max_model_len or 0) / _BYTES
    pulled = recipe.source is None or recipe.source.kind != "local"
    disk = recipe.disk_gb if pulled else 0.0
    return Need(gb, cards, disk, _share(recipe))


def fit(recipes: Sequence[tuple[str, Recipe]], room: Room) -> Fit:
    """Return how servers, each with its name, fit a box together."""
    needs = [(name, need(recipe)) for name, recipe in recipes]
    packing = _packed(needs, room) if room.card_gb and room.cards else _Packing([])
    disk_left, disk_misfit = _disk(recipes, room)
    return Fit(
        tuple(card.left_gb for card in packing.cards),
        disk_left,
        (*packing.misfits, *disk_misfit),
        tuple(dict.fromkeys((*_unknown_memory(needs, packing), *_unknown_disk(needs, room)))),
    )


def suggest(models: Iterable[Model], ports: Sequence[int], room: Room) -> tuple[HostRow, ...]:
    """Return rows that fit a box together, one model after the other in the order given.

    Nothing is suggested where the listing tells no memory, or a recipe no need.
    """
    rows: list[HostRow] = []
    taken: list[tuple[str, Recipe]] = []
    for model in models:
        recipe = model.recipe
        if len(rows) == len(ports) or recipe is None or need(recipe).gb is None:
            continue
        if not room.card_gb or not fit([*taken, (model.model_name, recipe)], room).good:
            continue
        taken.append((model.model_name, recipe))
        rows.append(HostRow(model.model_name, ports[len(rows)], model.model_name))
    return tuple(rows)


# ---- cards


@define
class _Card:
    """One card and what its servers claim of it, in thousandths."""

    gb: float
    claimed: int = 0
    open_ended: int = 0

    @property
    def left(self) -> int:
        return max(0, _LIMIT - self.claimed)

    @property
    def left_gb(self) -> float:
        return self.gb * self.left / 1000

    def claim(self, each: Need) -> int | None:
        """Return what a server would take of this card, None when it cannot."""
        least = _thousandths((each.gb or 0.0) / self.gb)
        if each.share is None:
            claim = max(_LEAST, least)
            return claim if claim <= self.left else None
        claim = _thousandths(each.share)
        alone = claim > _LIMIT and not self.claimed
        return claim if claim >= least and (alone or claim <= self.left) else None

    def take(self, claim: int, each: Need) -> None:
        self.claimed += claim
        self.open_ended += each.share is None and each.gb is None


@define
class _Packing:
    """Cards with servers on them. misfits: a sentence for each that found no room."""

    cards: list[_Card]
    misfits: list[str] = field(factory=list)


def _packed(needs: Sequence[tuple[str, Need]], room: Room) -> _Packing:
    """Return how servers lie on the cards; spread out first, tightly where that fits more."""
    ordered = sorted(needs, key=lambda named: _hard_first(*named))
    return min(
        (_pack(ordered, room, tight) for tight in (False, True)),
        key=lambda packing: len(packing.misfits),
    )


def _pack(ordered: Sequence[tuple[str, Need]], room: Room, tight: bool) -> _Packing:
    packing = _Packing([_Card(room.card_gb or 0.0) for _ in range(min(room.cards, _MOST_CARDS))])
    for name, each in ordered:
        if each.cards > 1:
            _take_whole(packing, name, each)
            continue
        fits = [(card, claim) for card in packing.cards if (claim := card.claim(each)) is not None]
        if fits:
            card, claim = min(fits, key=lambda one: _preference(one[0], one[1], tight))
            card.take(claim, each)
            continue
        packing.misfits.append(_misfit(name, each, packing.cards))
    return packing


def _misfit(name: str, each: Need, cards: Sequence[_Card]) -> str:
    """Return why no card has room, and by how much: what a smaller choice would have to spare."""
    card = max(cards, key=lambda card: card.left_gb)
    wants = each.gb or 0.0
    if each.share is not None:
        given = each.share * card.gb
        if wants > given:
            said = f"its recipe gives it {each.share:g} of a card, {given:.1f} GB"
            return f"{name} needs {wants:.1f} GB; {said}: {wants - given:.1f} GB are missing."
        wants = given
    share = "" if each.share is None else f", {each.share:g} of a card"
    left = f"{card.left_gb:.1f} GB are left on a card"
    missing = max(0.1, wants - card.left_gb)
    return f"{name} needs {wants:.1f} GB{share}; {left}: {missing:.1f} GB are missing."


def _preference(card: _Card, claim: int, tight: bool) -> float:
    return card.left - claim if tight else -card.left / (1 + card.open_ended)


def _take_whole(packing: _Packing, name: str, each: Need) -> None:
    wants, share = (each.gb or 0.0) / each.cards, each.share or _LIMIT / 1000
    free = [card for card in packing.cards if not card.claimed and wants <= card.gb * share]
    if len(free) < each.cards:
        packing.misfits.append(
            f"{name} needs {each.cards} whole cards with {wants / share:.1f} GB each;"
            f" {len(free)} of {len(packing.cards)} are free and large enough."
        )
        return
    for card in free[: each.cards]:
        # also a card of which a server is told to use little is its own
        card.take(1000, each)


def _thousandths(share: float) -> int:
    # rounded up, but for what is only the imprecision of the number
    return math.ceil(1000 * share - 1e-6)


def _hard_first(name: str, each: Need) -> tuple[int, float, float, str]:
    return (-each.cards, -(each.share or 0.0), -(each.gb or 0.0), name)


def _whole(args: Sequence[str], name: str, *short: str) -> int:
    """Return the number an option has; 1 when it is absent or is no number of cards."""
    value = _value(args, name, *short)
    return int(value) if value.isascii() and value.isdigit() and 0 < int(value) <= 64 else 1


def _share(recipe: Recipe) -> float | None:
    """Return the share of a card that a server is told to take, None when it is left to us."""
    try:
        given = float(_value(recipe.args, *_SHARE))
    except ValueError:
        return recipe.gpu_memory_utilization
    return given if 0 < given <= 1 else recipe.gpu_memory_utilization


def _value(args: Sequence[str], name: str, *short: str) -> str:
    """Return the last value of an option in any spelling of vLLM's parser, "" when absent."""
    value = ""
    for index, arg in enumerate(args):
        head, equals, tail = arg.partition("=")
        named = head.replace("_", "-")
        if named in (name, *short) or (len(named) > 10 and name.startswith(named)):
            value = tail if equals else "".join(args[index + 1 : index + 2])
    return value


# ---- disk


def _disk(
    recipes: Sequence[tuple[str, Recipe]], room: Room
) -> tuple[float | None, tuple[str, ...]]:
    wanted: dict[str, float] = {}
    for _, recipe in recipes:
        gb = need(recipe).disk_gb or 0.0
        wanted[recipe.model] = max(gb, wanted.get(recipe.model, 0.0))
    total = sum(wanted.values())
    if room.disk_gb is None:
        return None, ()
    if total <= room.disk_gb:
        return room.disk_gb - total, ()
    said = f"The weights need {total:.1f} GB of disk; the box has {room.disk_gb:.1f} GB."
    return 0.0, (said,)


def _unknown_memory(needs: Sequence[tuple[str, Need]], packing: _Packing) -> Iterator[str]:
    if needs and not packing.cards:
        yield "No listing says how much memory the box's cards have."
    for name, each in needs:
        if each.gb is None:
            yield f"The recipe of {name} does not say how much memory it needs."


def _unknown_disk(needs: Sequence[tuple[str, Need]], room: Room) -> Iterator[str]:
    if room.disk_gb is None and needs:
        yield "No listing says how much disk the box has."
    for name, each in needs:
        if each.disk_gb is None:
            yield f"The recipe of {name} does not say how much disk it needs."
