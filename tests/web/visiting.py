"""Pages as an admin or a caller gets them, and what a reader sees of them."""

from html.parser import HTMLParser
from typing import Any

import httpx
from attrs import evolve

from llmao_core.config import AuthConfig, ProxyConfig
from llmao_web.app import create_app
from llmao_web.desk import Records

from .worlds import FakeDesk, a_plan, a_view, desk_of, fleet

MARKUP = '<script>alert("x")</script>&\'{{ 7 * 7 }}'
ADMIN, CALLER = "ada", "carl"
PROXY = ProxyConfig(addresses=("127.0.0.0/8",), admins=(ADMIN,))


def full() -> FakeDesk:
    """Return a desk with one of nearly everything."""
    desk = desk_of(fleet())
    desk.seen, desk.planned = a_view(), a_plan()
    return desk


def app_of(desk: FakeDesk, records: Records | None = None) -> Any:
    """Return the application; who asks says so in a header."""
    config = evolve(fleet(), auth=AuthConfig(mode="proxy", proxy=PROXY))
    return create_app(desk, config, desk.clock, records=records)


def visitor(app: Any, name: str = ADMIN) -> httpx.AsyncClient:
    """Return a browser of somebody signed in."""
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(app),
        base_url="http://llmao.test",
        headers={"x-forwarded-user": name, "accept": "text/html"},
    )


async def visit(
    desk: FakeDesk, path: str = "/models", name: str = ADMIN, records: Records | None = None
) -> httpx.Response:
    """Return one page as somebody gets it."""
    async with visitor(app_of(desk, records), name) as client:
        return await client.get(path)


class Text(HTMLParser):
    """The words of a page, and its tags."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.words = ""
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_data(self, data: str) -> None:
        self.words += f" {data.strip()}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
