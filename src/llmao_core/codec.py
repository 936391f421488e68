"""The text of `config.yaml` and `models.yaml` → one Config, or every problem there is.

Rule of this file: it reads no file and no environment; whoever calls says how a secret that
stands elsewhere is looked up. What cannot be read has a placeholder and is marked as broken, so
that the rest is still checked; a Config with an error in it never leaves this file.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

import attrs
from attrs import evolve, frozen

from . import check
from .config import (
    ApiToken,
    AuthConfig,
    BrakeConfig,
    CommercialProvider,
    Config,
    FleetConfig,
    GpuProvider,
    Host,
    HostRow,
    JournalConfig,
    Json,
    LitellmConfig,
    Model,
    NotifyConfig,
    PolicyName,
    ServerConfig,
)
from .errors import ConfigError, Problem
from .keys import host_name
from .models_file import ModelsFile
from .places import Broken, Path, Written
from .secret import Secret
from .shapes import Resolve, WrongError, as_reference, expected
from .source_file import File, SourceFile

MAX_PROBLEMS = 200

R = TypeVar("R")

_CELLS = {"model": 0, "port": 1, "name": 2, "public_port": 3}
_SECTIONS = {
    "server": ServerConfig,
    "auth": AuthConfig,
    "litellm": LitellmConfig,
    "brake": BrakeConfig,
    "journal": JournalConfig,
}
_MADE_OF_OTHERS = {"gpu_providers", "commercial", "models"}


@frozen
class Loaded:
    """A Config that can be used, and what is worth saying about it.

    inline_secrets: a secret stands in config.yaml itself, so who may read that file matters.
    """

    config: Config
    warnings: tuple[Problem, ...] = ()
    inline_secrets: bool = False


def no_plugins(_: Config) -> tuple[Problem, ...]:
    """Find nothing: the `plugin_check` of a caller without plugins."""
    return ()


def load(
    config_file: File,
    open_models: Callable[[str], File],
    resolve: Resolve,
    installed: Collection[str] = (),
    plugin_check: Callable[[Config], tuple[Problem, ...]] = no_plugins,
) -> Loaded:
    """Return both files as one checked Config, or raise a ConfigError with all that is wrong.

    open_models: returns the file at `models_path`, or raises a ConfigError. resolve: returns the
    text a SecretRef stands for, or raises UnresolvedError. installed: names of listing plugins.
    plugin_check: problems in plugins' own sections, paths as in `providers.vast.interval_s`.
    """
    reader = _ConfigFile(config_file, resolve)
    if not reader.usable:
        raise ConfigError(reader.problems())
    problems: list[Problem] = []
    models = ModelsFile(File("", b""))
    try:
        models = ModelsFile(open_models(reader.models_path()))
    except ConfigError as error:
        models.missing = True
        problems += error.problems
    config = reader.config(models.models())
    written = reader.written(models)
    problems += [*reader.problems(), *models.problems()]
    problems += [written.problem(each) for each in check.findings(config, written, installed)]
    known = {each.path for each in problems}
    problems += (each for each in written.put(plugin_check(config)) if each.path not in known)
    problems.sort(key=lambda each: (each.file != config_file.name, each.line, each.column))
    if any(not each.warning for each in problems):
        raise ConfigError(_capped(problems))
    return Loaded(config, tuple(problems), reader.shaper.inline_secrets)


def load_parts(config_file: File, resolve: Resolve, parts: Collection[Path]) -> Config:
    """Return what config.yaml alone says, or raise a ConfigError with what is wrong in `parts`.

    parts: paths of what the caller needs, as in `("fleet", "vllm_api_salt")`. Whatever is wrong
    elsewhere is passed over, and has its default or a placeholder.
    """
    reader = _ConfigFile(config_file, resolve)
    if not reader.usable:
        raise ConfigError(reader.problems())
    models = ModelsFile(File("", b""))
    models.missing = True
    config = reader.config(())
    written = reader.written(models)
    found = [*reader.findings(), *check.findings(config, written)]
    problems = [written.problem(each) for each in found if _concerns(each.path, parts)]
    if any(not each.warning for each in problems):
        raise ConfigError(_capped(problems))
    return config


def _concerns(path: Path, parts: Collection[Path]) -> bool:
    """Tell whether something at a path is in or around one of the parts."""
    return any(path[: len(part)] == part[: len(path)] for part in parts)


def _capped(problems: list[Problem]) -> list[Problem]:
    if (more := len(problems) - MAX_PROBLEMS) <= 0:
        return problems
    return [*problems[:MAX_PROBLEMS], Problem(f"… and {more} more problems.")]


class _ConfigFile(SourceFile):
    """config.yaml."""

    def __init__(self, file: File, resolve: Resolve) -> None:
        super().__init__(file, resolve)
        self._hosts: list[Path] = []
        self._rows: list[tuple[Path, ...]] = []

    def models_path(self) -> str:
        """Return `models_path`, which is needed before anything else."""
        given = self.root.get("models_path")
        return given if isinstance(given, str) and given else Config().models_path

    def written(self, models: ModelsFile) -> Written:
        """Return where everything stands; after `config`."""
        return Written(
            self.document.places,
            models.document.places,
            tuple(self._hosts),
            tuple(self._rows),
            Broken.by([*self.findings(), *models.broken()]),
        )

    def config(self, models: tuple[Model, ...]) -> Config:
        """Return the Config, with placeholders for what could not be read."""
        own = {each.name for each in attrs.fields(Config)} - _MADE_OF_OTHERS
        self.refuse_unknown(own | {"providers"})
        gpu, commercial = self._providers()
        sections: dict[str, Any] = {
            name: self.shaper.record(self.root[name], kind, (name,))
            for name, kind in _SECTIONS.items()
            if name in self.root
        }
        return Config(
            **sections,
            fleet=self._fleet(),
            gpu_providers=gpu,
            commercial=commercial,
            models=models,
            policy=self._policy(),
            api_tokens=self._records("api_tokens", ApiToken),
            notify=self._records("notify", NotifyConfig),
            store=self._store(),
            models_path=self._text("models_path"),
        )

    def _text(self, name: str) -> str:
        default: str = getattr(Config(), name)
        return self.shaper.value(self.root.get(name, default), str, (name,), default)

    def _store(self) -> str:
        if not as_reference(self.root.get("store")):
            return self._text("store")
        return self.shaper.value(self.root["store"], Secret, ("store",), Secret("")).reveal()

    def _policy(self) -> Mapping[str, PolicyName]:
        given = self.shaper.mapping(self.root.get("policy"), ("policy",))
        return {
            name: self.shaper.value(each, PolicyName, ("policy", name), "observe")
            for name, each in given.items()
        }

    def _records(self, name: str, kind: type[R]) -> tuple[R, ...]:
        items = enumerate(self.shaper.items(self.root.get(name), (name,)))
        return tuple(self.shaper.record(each, kind, (name, index)) for index, each in items)

    # ---- fleet

    def _fleet(self) -> FleetConfig:
        given = dict(self.shaper.mapping(self.root.get("fleet"), ("fleet",)))
        hosts, legacy = given.pop("hosts", None), given.pop("legacy_servers", None)
        return evolve(
            self.shaper.record(given, FleetConfig, ("fleet",)),
            hosts=self._all_hosts(hosts),
            legacy_servers=frozenset(self._legacy(legacy)),
        )

    def _legacy(self, data: object) -> Iterable[tuple[str, int]]:
        path = ("fleet", "legacy_servers")
        for index, pair in enumerate(self.shaper.items(data, path)):
            here = (*path, index)
            if not isinstance(pair, list) or len(pair) != 2:
                self.shaper.note(here, WrongError("A legacy server is [host, port]."))
                continue
            port = self.shaper.value(pair[1], int, (*here, 1), 0)
            yield self._host_name(pair[0], (*here, 0)), port

    def _host_name(self, data: object, path: Path) -> str:
        given = self.shaper.value(data, str, path, "")
        try:
            return host_name(given) if given else ""
        except ValueError as error:
            wrong = WrongError("This is no name of a host.", f"{str(error).capitalize()}.")
        self.shaper.note(path, wrong)
        return ""

    def _all_hosts(self, data: object) -> tuple[Host, ...]:
        path = ("fleet", "hosts")
        return tuple(
            self._host(written, given, (*path, written))
            for written, given in self.shaper.mapping(data, path).items()
        )

    def _host(self, written: str, data: object, path: Path) -> Host:
        name = self._host_name(written, path)
        own, at, rows = False, path, data
        was: tuple[str, ...] = ()
        if isinstance(data, dict):
            for key in data.keys() - {"rows", "own", "was"}:
                self.shaper.unknown((*path, key), ("rows", "own", "was"))
            own = self.shaper.value(data.get("own", False), bool, (*path, "own"), False)
            names = self.shaper.items(data.get("was"), (*path, "was"))
            was = tuple(
                self._host_name(each, (*path, "was", index)) for index, each in enumerate(names)
            )
            at, rows = (*path, "rows"), data.get("rows")
        if rows is None or not isinstance(rows, list):
            self.shaper.note(at, expected("a list of rows", rows, "Write [[MODEL, PORT]]."))
            rows = []
        self._hosts.append(path)
        self._rows.append(tuple((*at, index) for index in range(len(rows))))
        made = tuple(self._row(row, (*at, index)) for index, row in enumerate(rows))
        return Host(name, made, own, was)

    def _row(self, data: object, path: Path) -> HostRow:
        steps: Mapping[str, int] = {}
        if isinstance(data, list):
            data, steps = (
                dict(zip(_CELLS, data, strict=False)) if 2 <= len(data) <= 4 else 0,
                _CELLS,
            )
        if not isinstance(data, dict):
            remedy = "Write [MODEL, PORT], [MODEL, PORT, NAME] or {model, port, name, recipe}."
            self.shaper.note(path, WrongError("This is no row of a host.", remedy))
            return HostRow("", 0, "")
        row = self.shaper.record(data, _Row, path, steps)
        name = row.model if row.name is None else row.name
        return HostRow(row.model, row.port, name, row.recipe, row.public_port)

    # ---- providers

    def _providers(self) -> tuple[tuple[GpuProvider, ...], tuple[CommercialProvider, ...]]:
        gpu, commercial = [], []
        for name, data in self.shaper.mapping(self.root.get("providers"), ("providers",)).items():
            path: Path = ("providers", name)
            given = self.shaper.mapping(data, path)
            if self.shaper.value(
                given.get("commercial", False), bool, (*path, "commercial"), False
            ):
                section = self.shaper.record(given, _Commercial, path)
                commercial.append(CommercialProvider(name, section.api_base, section.api_key))
            else:
                gpu.append(self._gpu(name, given, path))
        return tuple(gpu), tuple(commercial)

    def _gpu(self, name: str, given: Json, path: Path) -> GpuProvider:
        known = {each.name for each in attrs.fields(_Gpu)}
        ours = {key: each for key, each in given.items() if key in known}
        section = self.shaper.record(ours, _Gpu, path)
        rest = {
            key: self.shaper.loose(each, (*path, key), key)
            for key, each in given.items()
            if key not in known | {"commercial"}
        }
        return GpuProvider(name, section.api_key, section.interval_s, section.base_url, rest)


@frozen
class _Row:
    """A host row as written, in any form."""

    model: str
    port: int
    name: str | None = None
    recipe: str | None = None
    public_port: int | None = None


@frozen
class _Gpu:
    """What every GPU provider's section may hold."""

    api_key: Secret | None = None
    interval_s: float | None = None
    base_url: str | None = None


@frozen
class _Commercial:
    """A commercial provider's section."""

    api_base: str
    commercial: bool = True
    api_key: Secret | None = None
