"""The form that approves a host: what is known of it, what would fit, what was chosen.

Rule of this file: a choice is read back from the address of the page, so that fit can be seen
before anything is sent; a choice that is nonsense is shown as chosen and refused when sent.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from attrs import evolve, frozen

from llmao_core.config import HostRow, Model, Recipe
from llmao_core.fit import Fit, Need, Room, fit, need, suggest
from llmao_core.intended import Approval, Intended
from llmao_core.records import HostView, View
from llmao_core.snapshots import Instance, UnknownHost
from llmao_core.verdicts import DOWN
from llmao_web.desk import Office
from llmao_web.shell.asking import Refusal, checked_host, checked_rows, process_name
from llmao_web.shell.store import Fetches

from .boxes import fetched_by, fetches_of, listed_as
from .forms import BETWEEN, Form, rows_of


@frozen
class Option:
    """One model, or one of its variants, that a row may name."""

    value: str
    label: str
    need: Need
    alone: Fit


@frozen
class Slot:
    """One row of the form. port, name: as they stand in it."""

    chosen: str
    port: str
    name: str


@frozen
class Approving:
    """The form of one host. trouble: why it cannot be approved as chosen, "" for nothing.

    asked: how it asks and is refused. fetched: when it asked and was answered. unread: why that
    is not known.
    suggested: the choice is llmao's own. together: how the chosen rows fit. need_gb: GPU memory
    they take together, None when a recipe does not say. settled: it is approved, and nothing else
    was chosen since.
    """

    host: str
    trouble: str
    asked: UnknownHost | None
    fetched: Fetches | None
    unread: str
    instance: Instance | None
    provider: str
    room: Room
    options: tuple[Option, ...]
    slots: tuple[Slot, ...]
    rows: tuple[HostRow, ...]
    together: Fit
    need_gb: float | None
    suggested: bool
    approved: Approval | None
    settled: bool


async def approving(
    intended: Intended, view: View | None, office: Office, asked: Form
) -> Approving:
    """Return the form for a host, with the rows chosen so far or suggested."""
    fetches, unread = await fetches_of(office)
    host, trouble = _host(asked.all("host")[-1])
    instance, provider = listed_as(office.listings(), host)
    room = _room(instance)
    models = [model for model in intended.config.models if model.recipe]
    ports = intended.config.fleet.listen_ports
    approved = next((each for each in office.approvals() if each.host == host), None)
    suggested = False
    rows, bad = _chosen(asked)
    if not asked.all("model"):
        rows = approved.rows if approved else _named(suggest(_wanting(models, view), ports, room))
        suggested = approved is None and bool(rows)
    trouble = trouble or bad
    if not trouble and rows:
        trouble = _refused(intended, host, rows)
    recipes = _recipes(models, rows)
    return Approving(
        host=host,
        trouble=trouble,
        asked=next((each for each in office.unknown() if each.host == host), None),
        fetched=fetched_by(host, _seen(view, host, instance, provider), fetches),
        unread=unread,
        instance=instance,
        provider=provider,
        room=room,
        options=tuple(_options(models, room)),
        slots=tuple(_slots(rows, ports)),
        rows=rows,
        together=fit(recipes, room),
        need_gb=_sum(need(recipe).gb for _, recipe in recipes),
        suggested=suggested,
        approved=approved,
        settled=approved is not None and not asked.all("model"),
    )


def _seen(
    view: View | None, host: str, instance: Instance | None, provider: str
) -> HostView | None:
    """Return a host as the newest pass saw it, under any name of its instance."""
    box = (provider, instance.id) if instance else None
    hosts = view.hosts if view else ()
    return next(
        (each for each in hosts if each.name == host or (each.provider, each.instance_id) == box),
        None,
    )


def state_of(office: Office, host: str) -> str:
    """Return what changes when somebody approves a host or takes that back."""
    return next((f"{each.by} {each.at}" for each in office.approvals() if each.host == host), "")


def _sum(figures: Iterable[float | None]) -> float | None:
    total = 0.0
    for each in figures:
        if each is None:
            return None
        total += each
    return total


def _host(given: str) -> tuple[str, str]:
    try:
        return checked_host(given), ""
    except Refusal as refusal:
        return given[:253], str(refusal)


def _chosen(asked: Form) -> tuple[tuple[HostRow, ...], str]:
    try:
        return rows_of(asked), ""
    except Refusal as refusal:
        return (), str(refusal)


def _named(rows: Iterable[HostRow]) -> tuple[HostRow, ...]:
    """Return rows whose process names can be: a name of a model may hold anything."""
    made: list[HostRow] = []
    for row in rows:
        name = process_name(row.model, [each.name for each in made])
        made.append(evolve(row, name=name))
    return tuple(made)


def _refused(intended: Intended, host: str, rows: Sequence[HostRow]) -> str:
    try:
        checked_rows(intended.config, host, rows)
    except Refusal as refusal:
        return str(refusal)
    return ""


def _room(instance: Instance | None) -> Room:
    if instance is None:
        return Room()
    return Room(max(instance.gpu_count, 1), instance.gpu_memory_gb, instance.disk_gb)


def _wanting(models: Iterable[Model], view: View | None) -> list[Model]:
    """Return models, those with the fewest servers first, of these the largest.

    A server counts that callers reach or that is on its way: boxes approved one after the other
    differ.
    """
    records = view.records if view else ()
    served = Counter(one.key.model for one in records if one.reached or one.lifecycle not in DOWN)
    return sorted(
        models,
        key=lambda model: (
            served[model.model_name],
            -((model.recipe and need(model.recipe).gb) or 0.0),
            model.model_name,
        ),
    )


def _options(models: Iterable[Model], room: Room) -> Iterable[Option]:
    for model in models:
        assert model.recipe is not None
        yield _option(model.model_name, model.model_name, model.recipe, room)
        for variant, recipe in model.recipes.items():
            value = f"{model.model_name}{BETWEEN}{variant}"
            yield _option(value, f"{model.model_name}, {variant}", recipe, room)


def _option(value: str, label: str, recipe: Recipe, room: Room) -> Option:
    return Option(value, label, need(recipe), fit([(label, recipe)], room))


def _slots(rows: Sequence[HostRow], ports: Sequence[int]) -> Iterable[Slot]:
    """Return a slot for every row, then one for every listen port that is free.

    A process name that comes from the model is left out, so that it follows another choice.
    """
    names: list[str] = []
    for row in rows:
        chosen = f"{row.model}{BETWEEN}{row.recipe}" if row.recipe else row.model
        own = row.name != process_name(row.model, names)
        names.append(row.name)
        yield Slot(chosen, str(row.port), row.name if own else "")
    taken = {row.port for row in rows}
    for port in ports:
        if port not in taken:
            yield Slot("", str(port), "")


def _recipes(models: Iterable[Model], rows: Iterable[HostRow]) -> list[tuple[str, Recipe]]:
    by_name = {model.model_name: model for model in models}
    found: list[tuple[str, Recipe]] = []
    for row in rows:
        model = by_name.get(row.model)
        recipe = model.recipes.get(row.recipe) if model and row.recipe else None
        recipe = recipe or (model.recipe if model else None)
        if recipe is not None:
            found.append((row.name, recipe))
    return found
