"""The text of `models.yaml` → models.

Rule of this file: shapes only; what a model may say is judged in check_models.py.
"""

import shlex

import attrs
from attrs import evolve, field, frozen

from .config import Json, Model, Recipe
from .places import Finding, Path
from .shapes import SecretRef, UnresolvedError, WrongError
from .source_file import File, SourceFile


def _no_secrets(_: SecretRef) -> str:
    raise UnresolvedError("Secrets do not belong into this file.", "Put them into config.yaml.")


@frozen
class _ModelRow:
    """A row of models.yaml as written."""

    model_name: str
    display_name: str | None = None
    provider: str | None = None
    litellm_params: Json = field(factory=dict)
    model_info: Json = field(factory=dict)
    recipes: Json = field(factory=dict)


class ModelsFile(SourceFile):
    """models.yaml. missing: it could not be opened at all."""

    def __init__(self, file: File) -> None:
        super().__init__(file, _no_secrets)
        self.missing = False

    def broken(self) -> list[Finding]:
        """Return what is wrong, the file as a whole as trouble with `models`."""
        whole = [Finding(("models",), "")] if self.missing or not self.usable else []
        return whole + [each for each in self.findings() if each.path]

    def models(self) -> tuple[Model, ...]:
        """Return every row, with placeholders for what could not be read."""
        self.refuse_unknown(("models",))
        rows = self.shaper.items(self.root.get("models"), ("models",))
        return tuple(self._model(row, ("models", index)) for index, row in enumerate(rows))

    def _model(self, data: object, path: Path) -> Model:
        row = self.shaper.record(data, _ModelRow, path)
        recipe = None
        if "vllm" in row.model_info:
            recipe = self._recipe(row.model_info["vllm"], (*path, "model_info", "vllm"))
        variants = {
            name: self._variant(recipe or Recipe(""), each, (*path, "recipes", name))
            for name, each in row.recipes.items()
        }
        return Model(
            model_name=row.model_name,
            display_name=row.display_name,
            provider=row.provider,
            litellm_params=row.litellm_params,
            model_info=row.model_info,
            recipe=recipe,
            recipes=variants,
        )

    def _recipe(self, data: object, path: Path) -> Recipe:
        given = dict(self.shaper.mapping(data, path))
        if "args" in given:
            given["args"] = self._args(given["args"], (*path, "args"))
        return self.shaper.record(given, Recipe, path)

    def _variant(self, base: Recipe, data: object, path: Path) -> Recipe:
        """Return the recipe with the fields that this variant overrides."""
        given = self.shaper.mapping(data, path)
        made = self._recipe({"model": base.model, **given}, path)
        known = {each.name for each in attrs.fields(Recipe)}
        return evolve(base, **{name: getattr(made, name) for name in given if name in known})

    def _args(self, data: object, path: Path) -> object:
        """Return arguments as a list of text: a string is split as a shell would."""
        if isinstance(data, list):
            return [str(each) if type(each) is int else each for each in data]
        if not isinstance(data, str):
            return data
        try:
            return shlex.split(data)
        except ValueError:
            wrong = WrongError("The quotes in this do not match.", "Write a list of arguments.")
        self.shaper.note(path, wrong)
        return []
