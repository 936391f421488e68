"""What a new box fetches before it can ask anything: `/box/install_set.py`, `/box/provision.sh`.

Rule of this file: the files are read once, at start, and served from memory. They hold no secret
and need no key; the hash of the installer is what a box's template pins.
"""

import hashlib
from pathlib import Path
from typing import Any

from attrs import field, frozen
from litestar import HttpMethod, Request, Response, route
from litestar.exceptions import NotFoundException
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath

_INSTALLED = Path(__file__).parent / "box"
_CHECKOUT = Path(__file__).parents[2] / "box"
_PLACES = {"install_set.py": "install_set.py", "provision.sh": "vast/provision.sh"}


@frozen
class BoxFile:
    """One file. sha256: 64 hex digits."""

    name: str
    content: bytes = field(repr=False)

    @property
    def sha256(self) -> str:
        """Return the hash that a template pins."""
        return hashlib.sha256(self.content).hexdigest()


def read_box_file(name: str) -> BoxFile:
    """Return one of the two files, from the installed package or else from the checkout."""
    installed = _INSTALLED / name
    path = installed if installed.is_file() else _CHECKOUT / _PLACES[name]
    return BoxFile(name, path.read_bytes())


def box_files() -> HTTPRouteHandler:
    """Return the handler of `/box/NAME`, with the hash in `X-LLMAO-SHA256`."""
    files = {name: read_box_file(name) for name in _PLACES}

    @route("/box/{name:str}", http_method=[HttpMethod.GET, HttpMethod.HEAD])
    async def box_file(name: FromPath[str], request: Request[Any, Any, Any]) -> Response[bytes]:
        if name not in files:
            raise NotFoundException
        file = files[name]
        headers = {
            "cache-control": "no-cache",
            "etag": f'"{file.sha256}"',
            "x-llmao-sha256": file.sha256,
        }
        content = b"" if request.method == "HEAD" else file.content
        return Response(content, media_type="text/plain; charset=utf-8", headers=headers)

    return box_file
