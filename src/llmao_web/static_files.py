"""The files pages need, served from memory.

Rule of this file: a request is looked up by name among the files of the package and never
becomes a path, so that no request can reach the file system.
"""

import mimetypes

from litestar import Response, get
from litestar.exceptions import NotFoundException
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath

from .pages.render import STATIC

_KEPT = "public, max-age=31536000, immutable"


def static_files() -> HTTPRouteHandler:
    """Return the handler of `/static/NAME`; pages name a file with its hash, so it may be kept."""
    files = {path.name: (path.read_bytes(), _media_type(path.name)) for path in STATIC.iterdir()}

    @get("/static/{name:str}")
    async def static(name: FromPath[str]) -> Response[bytes]:
        if name not in files:
            raise NotFoundException
        content, media_type = files[name]
        return Response(content, media_type=media_type, headers={"cache-control": _KEPT})

    return static


def _media_type(name: str) -> str:
    return mimetypes.guess_type(name)[0] or "application/octet-stream"
