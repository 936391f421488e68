"""The third provider, `examples/llmao-static`: it passes the kit, here and installed elsewhere."""

import importlib.util
import shutil
import site
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from types import ModuleType

import pytest

from llmao_core.testing.kit import ListingBench
from llmao_core.testing.kit_listing import ListingProviderTests

EXAMPLE = Path(__file__).parents[2] / "examples" / "llmao-static"
MOST_LINES = 150


def _loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


PLUGIN, BENCH = _loaded("llmao_static"), _loaded("llmao_static_bench")


class TestStatic(ListingProviderTests):
    def make_bench(self) -> ListingBench:
        bench = BENCH.StaticBench()
        assert isinstance(bench, ListingBench)
        return bench


def test_the_plugin_is_one_small_file() -> None:
    """A provider is one file that fits in the head."""
    assert MOST_LINES >= (EXAMPLE / "llmao_static.py").read_text().count("\n")


def test_the_file_in_its_docstring_is_a_listing() -> None:
    """What the module shows of the file is a file that it reads."""
    shown = "\n".join(line for line in str(PLUGIN.__doc__).splitlines() if line.startswith("    "))

    [box] = PLUGIN.listing("here", shown.replace("total: 2", "total: 1").encode()).instances

    assert ("rack-1", ("gpu-a",), {8001, 8002}) == (box.id, box.names, set(box.endpoints))
    assert 18002 == box.endpoints[8002].port


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of an environment with llmao and, installed into it, the example."""
    home = tmp_path_factory.mktemp("static")
    source = shutil.copytree(EXAMPLE, home / "source")
    venv.create(home / "env", with_pip=False)
    python = home / "env" / "bin" / "python"
    # What is installed here is seen there, so that nothing is downloaded.
    here = [path for path in site.getsitepackages() if Path(path).is_dir()]
    lines = [f"import site; site.addsitedir({path!r})" for path in here]
    version = f"python{sysconfig.get_python_version()}"
    (home / "env" / "lib" / version / "site-packages" / "beside.pth").write_text("\n".join(lines))
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q"]
    flags = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    _run([*pip, *flags, str(source)], home)
    return python


def _run(command: list[str], home: Path) -> str:
    ran = subprocess.run(
        command, cwd=home, capture_output=True, text=True, check=False, timeout=120
    )
    assert 0 == ran.returncode, ran.stdout + ran.stderr
    return ran.stdout


def test_llmao_sees_the_installed_plugin(elsewhere: Path, tmp_path: Path) -> None:
    """A package that announces a plugin is listed by `llmao providers`, and reads listings."""
    command = "from llmao_web.cli import main; main()"
    said = _run([str(elsewhere), "-c", command, "providers", "--json"], tmp_path)

    assert '"plugin": "static"' in said
    assert '"source": "static"' in said


def test_the_installed_plugin_passes_the_kit_by_name(elsewhere: Path, tmp_path: Path) -> None:
    """`pytest --pyargs llmao_core.testing --llmao-provider static` finds its bench.

    Some of its checks do: all of them are made above.
    """
    command = ["-m", "pytest", "--pyargs", "llmao_core.testing", "--llmao-provider", "static"]
    some = ["-k", "never_an_answer or host_takes", "-q", "-p", "no:cacheprovider"]
    said = _run([str(elsewhere), *command, *some], tmp_path)

    assert " passed" in said
    assert "failed" not in said
