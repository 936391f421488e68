"""Sign-in with an OpenID provider: what is believed of what it says."""

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
import pytest_asyncio
from attrs import define, evolve

from llmao_core.config import AuthConfig, OidcConfig
from llmao_core.secret import Secret

from .fake_openid import (
    CLIENT_ID,
    CLIENT_SECRET,
    OTHER_KEY,
    FakeOpenID,
    serving,
    signed_with_the_public_key,
    unsigned,
)
from .signing import Browser, app_of, config_of
from .worlds import FakeClock, FakeDesk


@define
class Lab:
    """A provider, llmao, and a browser in front of both."""

    provider: FakeOpenID
    clock: FakeClock
    desk: FakeDesk
    visitor: Browser
    auth: AuthConfig

    async def leave(self, place: str = "/models") -> str:
        """Return where llmao sends the browser."""
        answer = await self.visitor.get("/signin/provider", params={"next": place})
        assert 303 == answer.status_code, answer.text
        return answer.headers["location"]

    async def round_trip(self, place: str = "/models") -> httpx.Response:
        """Go to the provider and come back."""
        return await self.come_back(self.provider.visit(await self.leave(place)))

    async def come_back(self, address: str, **changes: str) -> httpx.Response:
        parts = urlsplit(address)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        return await self.visitor.get(parts.path, params={**query, **changes})

    async def is_in(self, visitor: Browser | None = None) -> bool:
        return 200 == (await (visitor or self.visitor).get("/models")).status_code

    async def is_admin(self) -> bool:
        return 200 == (await self.visitor.get("/api/v1/view")).status_code


@pytest_asyncio.fixture
async def lab() -> AsyncIterator[Lab]:
    clock = FakeClock()
    async with serving(clock.now) as provider:
        oidc = OidcConfig(provider.url, CLIENT_ID, Secret(CLIENT_SECRET), ("ops",))
        auth = AuthConfig("oidc", oidc=oidc)
        app, desk = app_of(config_of(auth), FakeDesk(clock))
        yield Lab(provider, clock, desk, Browser(app), auth)


async def test_who_the_provider_names_is_signed_in(lab: Lab) -> None:
    """And goes where they were going; an admin by the group claim."""
    answer = await lab.round_trip("/models?as=caller")
    assert (303, "/models?as=caller") == (answer.status_code, answer.headers["location"])
    assert "carol" in (await lab.visitor.get("/models")).text
    assert await lab.is_admin()


@pytest.mark.parametrize(
    ("groups", "admin"),
    [(["dev", "ops"], True), ("ops", True), (["dev"], False), ([], False), ("", False), (3, False)],
)
async def test_admins_are_members_of_a_group(lab: Lab, groups: Any, admin: bool) -> None:
    """Everybody else is a caller."""
    lab.provider.claims["groups"] = groups
    lab.provider.userinfo = {"sub": "42"}
    await lab.round_trip()
    assert (True, admin) == (await lab.is_in(), await lab.is_admin())


async def test_the_way_there_carries_state_nonce_and_a_challenge(lab: Lab) -> None:
    """New ones each time, and no verifier."""
    asked = [parse_qs(urlsplit(await lab.leave()).query) for _ in range(2)]
    for one in asked:
        assert ("code", "S256") == (one["response_type"][0], one["code_challenge_method"][0])
        assert ["https://llm.example.org/signin/callback"] == one["redirect_uri"]
        assert "openid" in one["scope"][0].split()
    for name in ("state", "nonce", "code_challenge"):
        assert asked[0][name] != asked[1][name]


@pytest.mark.parametrize(
    "claims",
    [
        {"nonce": "another"},
        {"nonce": ""},
        {"iss": "http://127.0.0.1:1"},
        {"iss": ""},
        {"aud": "another-client"},
        {"aud": ["another-client"]},
        {"aud": ""},
        {"aud": [CLIENT_ID, "other"], "azp": "other"},
        {"exp": 1_759_999_000},
        {"exp": ""},
        {"exp": True},
        {"iat": 1_760_001_000},
        {"nbf": 1_760_001_000},
        {"sub": ""},
        {"preferred_username": 7},
        {"preferred_username": " carol"},
        {"preferred_username": "a" * 129},
        {"preferred_username": "a\nb"},
    ],
)
async def test_a_token_that_is_not_for_us_now_signs_nobody_in(
    lab: Lab, claims: dict[str, Any]
) -> None:
    """Wrong nonce, issuer, audience or time, or no name to call somebody by."""
    lab.provider.claims = claims
    answer = await lab.round_trip()
    assert 403 == answer.status_code
    assert 'role="alert"' in answer.text
    assert not await lab.is_in()


@pytest.mark.parametrize("kid", ["k1", "unheard-of"])
async def test_a_token_of_another_key_signs_nobody_in(lab: Lab, kid: str) -> None:
    """Whatever key it says it has."""
    lab.provider.signs, lab.provider.header = OTHER_KEY, {"kid": kid}
    assert 403 == (await lab.round_trip()).status_code
    assert not await lab.is_in()


@pytest.mark.parametrize("forged", [unsigned, signed_with_the_public_key])
async def test_a_token_that_anybody_could_make_signs_nobody_in(lab: Lab, forged: Any) -> None:
    """Neither without a signature, nor with the public key taken for a shared one."""
    lab.provider.forged = forged
    assert 403 == (await lab.round_trip()).status_code
    assert not await lab.is_in()


async def test_new_keys_of_the_provider_are_fetched(lab: Lab) -> None:
    """When a token names one that was not there before."""
    await lab.round_trip()
    lab.visitor.client.cookies.clear()
    lab.provider.signs, lab.provider.shows = OTHER_KEY, [OTHER_KEY]
    await lab.round_trip()
    assert await lab.is_in()


async def test_only_the_browser_that_left_can_come_back(lab: Lab) -> None:
    """A link with somebody else's code signs nobody in as that somebody (login CSRF)."""
    back = lab.provider.visit(await lab.leave())
    victim = Browser(lab.visitor.app)
    await victim.get("/signin")
    answer = await victim.get(back)
    assert 403 == answer.status_code
    assert not await lab.is_in(victim)


@pytest.mark.parametrize("state", ["", "x", "a.b.c"])
async def test_a_state_of_nobody_is_refused(lab: Lab, state: str) -> None:
    """The provider is not even asked."""
    back = lab.provider.visit(await lab.leave())
    lab.provider.asked.clear()
    assert 403 == (await lab.come_back(back, state=state)).status_code
    assert [] == lab.provider.asked


async def test_a_state_ends_with_ten_minutes(lab: Lab) -> None:
    """Whoever stayed away longer begins again."""
    back = lab.provider.visit(await lab.leave())
    lab.clock.at += 601
    assert 403 == (await lab.come_back(back)).status_code


async def test_a_state_of_another_attempt_does_not_fit_the_code(lab: Lab) -> None:
    """The verifier follows from the state, so the provider refuses the code."""
    first = lab.provider.visit(await lab.leave())
    other = parse_qs(urlsplit(await lab.leave()).query)["state"][0]
    assert 403 == (await lab.come_back(first, state=other)).status_code
    assert not await lab.is_in()


async def test_a_way_back_works_once(lab: Lab) -> None:
    """The session it was bound to is another one afterwards."""
    back = lab.provider.visit(await lab.leave())
    assert 303 == (await lab.come_back(back)).status_code
    assert 403 == (await lab.come_back(back)).status_code


async def test_the_provider_may_say_no(lab: Lab) -> None:
    """A sentence of ours, and nothing of what the address said."""
    back = lab.provider.visit(await lab.leave())
    answer = await lab.come_back(back, error="<b>access_denied")
    assert (403, False) == (answer.status_code, "access_denied" in answer.text)


@pytest.mark.parametrize(
    "path", ["/.well-known/openid-configuration", "/keys", "/token", "/userinfo"]
)
@pytest.mark.parametrize("status", [500, 302])
async def test_a_provider_that_fails_is_said(lab: Lab, path: str, status: int) -> None:
    """No traceback, no redirect followed, nobody signed in."""
    lab.provider.status[path] = status
    lab.provider.claims["groups"] = ""
    answer = await lab.visitor.get("/signin/provider")
    if answer.status_code == 303:
        answer = await lab.come_back(lab.provider.visit(answer.headers["location"]))
    assert answer.status_code in (403, 502)
    assert "cannot be used now" in answer.text
    assert not await lab.is_in()


@pytest.mark.parametrize(
    "described",
    [
        {"issuer": "https://other.example"},
        {"token_endpoint": "http://elsewhere.example/token"},
        {"jwks_uri": 3},
        {"authorization_endpoint": "javascript:alert(1)"},
    ],
)
async def test_a_description_that_is_not_the_issuers_is_refused(
    lab: Lab, described: dict[str, Any]
) -> None:
    """The client's secret goes to nobody else, and never in clear."""
    lab.provider.described = described
    assert 502 == (await lab.visitor.get("/signin/provider")).status_code


async def test_groups_may_stand_in_the_userinfo(lab: Lab) -> None:
    """When the ID token has none; of the same subject only."""
    lab.provider.claims["groups"] = ""
    lab.provider.userinfo = {"sub": "42", "groups": ["ops"]}
    await lab.round_trip()
    assert await lab.is_admin()
    lab.provider.userinfo = {"sub": "43", "groups": ["ops"]}
    lab.visitor.client.cookies.clear()
    assert 403 == (await lab.round_trip()).status_code


async def test_a_client_secret_may_go_in_the_form(lab: Lab) -> None:
    """Where the provider wants it there."""
    lab.provider.described = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    await lab.round_trip()
    assert await lab.is_in()


async def test_next_leads_nowhere_else(lab: Lab) -> None:
    """Not on the way back from the provider either."""
    assert "/models" == (await lab.round_trip("//evil.example")).headers["location"]


async def test_another_group_of_admins_ends_the_sessions(lab: Lab) -> None:
    """What an admin was at sign-in is not believed under another rule."""
    auth = evolve(lab.auth, session_key=Secret("k" * 40))
    first, _ = app_of(config_of(auth), lab.desk)
    assert auth.oidc
    stricter = evolve(auth, oidc=evolve(auth.oidc, admin_groups=("board",)))
    second, _ = app_of(config_of(stricter), lab.desk)
    lab.visitor.client._transport = Browser(first).client._transport
    await lab.round_trip()
    assert await lab.is_admin()
    lab.visitor.client._transport = Browser(second).client._transport
    assert not await lab.is_in()
