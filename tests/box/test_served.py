"""llmao serves the installer to boxes, so that a boot depends on no third party."""

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import httpx
import pytest
from tests.web.test_app import ask

from llmao_web.box_files import read_box_file

from .lab import INSTALLER, ROOT

FILES = {"install_set.py": INSTALLER, "provision.sh": ROOT / "box/vast/provision.sh"}


@pytest.mark.parametrize("name", FILES)
async def test_a_file_is_served_with_its_hash(name: str) -> None:
    """To anybody: it holds no secret, and the hash in the template is what protects the box."""
    answer = await ask(f"/box/{name}")
    content = FILES[name].read_bytes()
    sha256 = hashlib.sha256(content).hexdigest()
    assert (200, content) == (answer.status_code, answer.content)
    assert sha256 == answer.headers["x-llmao-sha256"] == read_box_file(name).sha256
    assert f'"{sha256}"' == answer.headers["etag"]
    assert answer.headers["content-type"].startswith("text/plain")


@pytest.mark.parametrize("name", FILES)
async def test_head_tells_the_hash_alone(name: str) -> None:
    """What an operator asks for to fill in a template."""
    answer = await ask(f"/box/{name}", method="HEAD")
    assert (200, b"") == (answer.status_code, answer.content)
    assert 64 == len(answer.headers["x-llmao-sha256"])


@pytest.mark.parametrize(
    "path", ["/box/", "/box/nothing", "/box/Dockerfile", "/box/..%2fapp.py", "/box/../app.py"]
)
async def test_nothing_else_is_served(path: str) -> None:
    """A name is looked up among two, and no path is made of it."""
    url = httpx.URL(scheme="http", host="llmao.test", raw_path=path.encode())
    assert 404 == (await ask(url)).status_code


async def test_a_file_takes_no_other_method() -> None:
    """It is read."""
    assert 405 == (await ask("/box/install_set.py", method="POST")).status_code


def test_the_wheel_has_both(tmp_path: Path) -> None:
    """An installed llmao has no checkout beside it."""
    from hatchling.builders.wheel import WheelBuilder

    wheel = next(iter(WheelBuilder(str(ROOT)).build(directory=str(tmp_path))))
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(tmp_path / "site")
    code = "import sys, llmao_web.box_files as b; print(b.read_box_file(sys.argv[1]).sha256)"
    for name, path in FILES.items():
        # isolated, so that nothing of the checkout is on the path
        insert = f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r}); {code}"
        asked = [sys.executable, "-I", "-c", insert, name]
        told = subprocess.run(asked, capture_output=True, text=True, check=True, cwd=tmp_path)
        assert hashlib.sha256(path.read_bytes()).hexdigest() == told.stdout.strip()
        assert (tmp_path / "site/llmao_web/box" / name).is_file()
