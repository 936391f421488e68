"""A browser in front of llmao, for the tests of sign-in: it keeps cookies as a browser does."""

import re
from typing import Any

import httpx
from argon2 import PasswordHasher
from attrs import define, evolve, field

from llmao_core.config import AdminConfig, ApiToken, AuthConfig, Config, ProxyConfig, ServerConfig
from llmao_core.secret import Secret
from llmao_web.app import create_app

from .worlds import FakeDesk, a_plan, a_view, desk_of, fleet

PASSWORD = "correct horse battery"
OTHER_PASSWORD = "another horse, another battery"
PROXY = "10.9.8.7"
READ_TOKEN = "caller-token-0123456789abcdef"
ADMIN_TOKEN = "admin-token-0123456789abcdef"
SESSION_KEY = "session-key-of-32-letters-or-more"
PAGE = {"accept": "text/html,application/xhtml+xml"}
# as cheap as argon2 can be: the tests are about who may pass
_CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
_CSRF = re.compile(r'name="csrf" value="([^"]*)"')


def admin(name: str = "alice", password: str = PASSWORD) -> AdminConfig:
    """Return an admin of `auth.admins`."""
    return AdminConfig(name, Secret(_CHEAP.hash(password)))


BY_PASSWORD = AuthConfig(
    "password",
    session_key=Secret(SESSION_KEY),
    admins=(admin(), admin("bob", OTHER_PASSWORD)),
)
BY_PROXY = AuthConfig(
    "proxy", proxy=ProxyConfig((f"{PROXY}/32",), admins=("alice",), admin_groups=("ops",))
)
TOKENS = (
    ApiToken("portal", Secret(READ_TOKEN)),
    ApiToken("grafana", Secret(ADMIN_TOKEN), role="admin"),
)


def config_of(auth: AuthConfig | None = None, **changes: Any) -> Config:
    """Return a small fleet's configuration; changes go into its section `server`."""
    server = ServerConfig(**{"public_url": "https://llm.example.org", **changes})
    return evolve(fleet(server=server), auth=auth or BY_PASSWORD, api_tokens=TOKENS)


def app_of(config: Config, desk: FakeDesk | None = None) -> tuple[Any, FakeDesk]:
    """Return the application and its desk, which has a view and a plan."""
    desk = desk or desk_of(config)
    desk.seen, desk.planned = desk.seen or a_view(), desk.planned or a_plan()
    return create_app(desk, config, desk.clock), desk


@define
class Browser:
    """One browser at one address. peer: the TCP peer llmao sees."""

    app: Any
    peer: str = "198.51.100.20"
    url: str = "https://llm.example.org"
    client: httpx.AsyncClient = field(init=False)

    def __attrs_post_init__(self) -> None:
        transport = httpx.ASGITransport(self.app, client=(self.peer, 50_000))
        self.client = httpx.AsyncClient(transport=transport, base_url=self.url, headers=PAGE)

    async def get(self, path: str, **given: Any) -> httpx.Response:
        return await self.client.get(path, **given)

    async def post(self, path: str, form: dict[str, str], **given: Any) -> httpx.Response:
        return await self.client.post(path, data=form, **given)

    async def csrf(self, path: str = "/signin") -> str:
        """Return the token in the first form of a page, "" when it has none."""
        found = _CSRF.search((await self.get(path)).text)
        return found[1] if found else ""

    async def sign_in(
        self, name: str = "alice", password: str = PASSWORD, place: str = "/models"
    ) -> httpx.Response:
        """Fill in the form and send it."""
        form = {"name": name, "password": password, "next": place, "csrf": await self.csrf()}
        return await self.post("/do-sign-in", form)

    @property
    def cookie(self) -> str:
        """Return the value of llmao's cookie, "" without one."""
        return next(iter(self.client.cookies.values()), "")
