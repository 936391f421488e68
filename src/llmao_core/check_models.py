"""What `models.yaml` may say.

Rule of this file: pure, findings with their paths, as in check.py. llmao owns some of what is
written to LiteLLM and some of a server's arguments; a person's value for those is refused, not
overwritten in silence.
"""

from collections.abc import Iterator, Mapping

from attrs import evolve

from .config import Config, HostRow, Json, Model, Recipe
from .keys import normalise_base
from .places import Finding, Path, Written, quoted
from .recipe_args import caller_visible, option, owned
from .shapes import is_secret_name, meant

_OWNED_PARAMS = ("api_base", "api_key")
_OWNED_INFO = (
    "id",
    "llmao_key",
    "llmao_fleet",
    "llmao_hash",
    "llmao_fields",
    "asf_api_base",
    "self_hosted",
    "db_model",
    "blocked",
)
_MOST = {
    "max_model_len": 100_000_000,
    "vram_gb": 100_000,
    "disk_gb": 1_000_000,
    "gpu_memory_utilization": 1,
    "kv_bytes_per_token": 1_000_000_000,
}


def findings(config: Config, written: Written) -> Iterator[Finding]:
    """Yield everything wrong with the models."""
    rows: dict[tuple[str, str], int] = {}
    commercial: dict[tuple[str, str], int] = {}
    bases = {each.name: normalise_base(each.api_base) for each in config.commercial}
    for index, model in enumerate(config.models):
        path = ("models", index)
        yield from _named(model, path)
        yield from _tier(config, model, path, written)
        yield from _written_to_litellm(model, path)
        if model.recipe:
            yield from _recipe(model, model.recipe, (*path, "model_info", "vllm"))
            for name, variant in model.recipes.items():
                yield from _variant(model, model.recipe, variant, (*path, "recipes", name))
        first = rows.setdefault((model.model_name, model.provider or ""), index)
        if first != index:
            yield _twice(model, path, f"models[{first}]")
        elif base := bases.get(model.provider or ""):
            first = commercial.setdefault((model.model_name, base), index)
            if first != index:
                yield _twice(model, path, f"models[{first}], at the same api_base")


def _twice(model: Model, path: Path, other: str) -> Finding:
    return Finding(
        (*path, "model_name"),
        f"{quoted(model.model_name)} already stands as {other}.",
        "A name may stand once with a recipe and once per commercial provider.",
    )


def _named(model: Model, path: Path) -> Iterator[Finding]:
    name = model.model_name
    if not name or name != name.strip() or not name.isprintable() or len(name) > 200:
        yield Finding(
            (*path, "model_name"), "This is no name of a model.", "One line of text, at most 200."
        )


def _tier(config: Config, model: Model, path: Path, written: Written) -> Iterator[Finding]:
    if model.recipe and model.provider:
        yield Finding(
            (*path, "provider"),
            "A model has a recipe or a provider, not both.",
            "Make it two rows with the same model_name.",
        )
    elif not model.recipe and not model.provider:
        if not any(written.broken.touches(*path, each) for each in ("model_info", "provider")):
            yield Finding(
                path,
                "This model has neither a recipe nor a provider.",
                "Add model_info.vllm to serve it on boxes, or provider for a commercial one.",
            )
    elif model.provider and not written.broken.touches("providers"):
        yield from _provider(config, model, path)
    if model.provider and not model.recipe and not _is_text(model.litellm_params.get("model")):
        yield Finding(
            (*path, "litellm_params", "model"),
            "A commercial model needs litellm_params.model, the provider's name for it.",
            "Write it like openrouter/anthropic/claude-x.",
        )
    if model.recipes and not model.recipe:
        yield Finding(
            (*path, "recipes"), "There are variants and no recipe.", "Add model_info.vllm."
        )


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _provider(config: Config, model: Model, path: Path) -> Iterator[Finding]:
    known = [each.name for each in config.commercial]
    name = model.provider or ""
    if name in known:
        return
    rented = name in [each.name for each in config.gpu_providers]
    yield Finding(
        (*path, "provider"),
        f"{quoted(name)} is a provider of boxes, not of models."
        if rented
        else f"config.yaml has no provider {quoted(name)}.",
        meant(name, known) or "Add it under providers with commercial: true and its api_base.",
    )


def names(config: Config, written: Written) -> Mapping[str, Model] | None:
    """Return what a host row may name, a row with a recipe before others; None when not known."""
    paths = [("models",), *(("models", at, "model_name") for at in range(len(config.models)))]
    if any(written.broken.covers(path) for path in paths):
        return None
    found: dict[str, Model] = {}
    for model in config.models:
        if model.recipe or model.model_name not in found:
            found[model.model_name] = model
    return found


def row_model(known: Mapping[str, Model], row: HostRow, path: Path) -> Iterator[Finding]:
    """Yield what is wrong with the model, and the variant, that a host row names."""
    model = known.get(row.model)
    if model is None:
        yield Finding(
            path, f"There is no model {quoted(row.model)} in models.yaml.", meant(row.model, known)
        )
    elif not model.recipe:
        yield Finding(
            path,
            f"The model {quoted(row.model)} has no recipe, so no box can serve it.",
            "Add model_info.vllm to it in models.yaml.",
        )
    elif row.recipe is not None and row.recipe not in model.recipes:
        yield Finding(
            path,
            f"The model {quoted(row.model)} has no variant {quoted(row.recipe)}.",
            meant(row.recipe, model.recipes) or "Add it under `recipes` of the model.",
        )


# ---- what LiteLLM gets


def _written_to_litellm(model: Model, path: Path) -> Iterator[Finding]:
    params, info = (*path, "litellm_params"), (*path, "model_info")
    yield from owned_params(model.litellm_params, params)
    if model.recipe and "model" in model.litellm_params:
        yield Finding(
            (*params, "model"),
            "llmao writes this itself for a model with a recipe.",
            "Remove it; served_model_name in the recipe is what it follows.",
        )
    yield from owned_info(model.model_info, info)
    for name in model.model_info:
        if name not in _OWNED_INFO and is_secret_name(name):
            yield Finding(
                (*info, name),
                "LiteLLM shows model_info to everybody who may list models.",
                "Remove it if it is a secret.",
                warning=True,
            )


def owned_params(params: Json, path: Path) -> Iterator[Finding]:
    """Yield what must not stand in litellm_params: what llmao writes, secrets, nothing at all."""
    for name, value in params.items():
        here = (*path, name)
        if name in _OWNED_PARAMS:
            yield Finding(
                here,
                "llmao writes this itself.",
                "Remove it; the address and key come from the box or from providers.",
            )
        elif is_secret_name(name):
            yield Finding(
                here,
                "A secret does not belong here: LiteLLM hides it when read, so it cannot be kept.",
                "Put it into api_key of the provider in config.yaml.",
            )
        elif value is None:
            yield _nothing(here)


def owned_info(info: Json, path: Path) -> Iterator[Finding]:
    """Yield what must not stand in model_info: what llmao stamps, nothing at all."""
    for name, value in info.items():
        if name in _OWNED_INFO:
            yield Finding((*path, name), "llmao stamps this itself.", "Remove it.")
        elif value is None and name != "vllm":
            yield _nothing((*path, name))


def _nothing(path: Path) -> Finding:
    return Finding(path, "LiteLLM keeps no empty value.", "Give a value, or remove the line.")


# ---- recipes


def _recipe(model: Model, recipe: Recipe, path: Path) -> Iterator[Finding]:
    yield from _numbers(recipe, path)
    for name in ("model", "served_model_name"):
        value = getattr(recipe, name)
        if value is not None and (not value or not value.isprintable() or " " in value):
            yield Finding((*path, name), "This is no name vLLM can take.", "No spaces, one line.")
        elif value and value.startswith("-"):
            yield Finding((*path, name), "vLLM would take this for an option.", "Change it.")
    if recipe.source and recipe.source.kind in ("url", "registry"):
        yield Finding(
            (*path, "source", "kind"),
            "Boxes cannot fetch weights this way yet: they will refuse the assignment.",
            "Use hf or local.",
            warning=True,
        )
    asks = model.model_info.get("mode", "chat")
    if recipe.mode not in ("none", asks):
        yield Finding(
            (*path, "mode"),
            f"LiteLLM's own check will ask this model as {quoted(str(asks))}.",
            f"Set model_info.mode to {recipe.mode}.",
            warning=True,
        )
    yield from _args(recipe.args, (*path, "args"))


def _numbers(recipe: Recipe, path: Path) -> Iterator[Finding]:
    for name, most in _MOST.items():
        value = getattr(recipe, name)
        if value is not None and not 0 < value <= most:
            yield Finding((*path, name), f"This must be more than 0 and at most {most}.")


def _args(args: tuple[str, ...], path: Path) -> Iterator[Finding]:
    for arg in args:
        if name := owned(arg):
            yield Finding(
                path,
                f"llmao gives `{name}` itself; {quoted(option(arg))} would be taken for it.",
                "Remove it.",
            )
        elif not arg or not arg.isprintable():
            yield Finding(path, "An argument is empty or has a line break.", "Remove it.")
        elif option(arg) == "--max-model-len":
            yield Finding(
                path,
                "llmao cannot see the context length here.",
                "Set max_model_len of the recipe instead.",
                warning=True,
            )
        elif option(arg) and is_secret_name(option(arg)[2:].replace("-", "_")):
            yield Finding(
                path,
                "LiteLLM shows a recipe to everybody who may list models.",
                "Set a secret in the box's environment instead.",
                warning=True,
            )


def _variant(model: Model, base: Recipe, variant: Recipe, path: Path) -> Iterator[Finding]:
    own = variant if variant.args != base.args else evolve(variant, args=())
    yield from _recipe(model, own, path)
    theirs, ours = _contract(model, base), _contract(model, variant)
    for name in theirs:
        if theirs[name] != ours[name]:
            yield Finding(
                (*path, name),
                f"A variant must not differ in what callers see: {name}.",
                "Make it equal, or give the variant a model_name of its own.",
            )


def _contract(model: Model, recipe: Recipe) -> Mapping[str, object]:
    return {
        "max_model_len": recipe.max_model_len,
        "mode": recipe.mode,
        "served_model_name": recipe.served_model_name or model.model_name,
        "args": caller_visible(recipe.args),
    }
