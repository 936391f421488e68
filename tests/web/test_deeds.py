"""The forms `/do-…`: who may send them, from where, and that what they ask for is done."""

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from attrs import evolve
from structlog.testing import capture_logs
from tests.shell.office_world import BOX, STRANGER, Rig, config, rig

from llmao_core.config import Config, ServerConfig
from llmao_core.protocol import Unknown
from llmao_web.app import LARGEST_BODY_BYTES, create_app
from llmao_web.pages.deeds import DEEDS
from llmao_web.pages.flash import COOKIE
from llmao_web.shell.archive import digest_of

from .signing import BY_PROXY, PROXY, Browser

HERE = "http://127.0.0.1:8080"
PUBLIC = "https://llm.example.org"
FORM = {"host": STRANGER, "model": "qwen", "port": "8001", "name": ""}
KEY = {"authorization": "Bearer fleet-key", "x-llmao-host": STRANGER}


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with capture_logs():
        yield


def browser(world: Rig, **given: Any) -> Browser:
    service = world.service
    app = create_app(
        service.board, service.config, world.clock, records=world.store, office=service.office
    )
    return Browser(app, **{"peer": "127.0.0.1", "url": HERE, **given})


@asynccontextmanager
async def opened(given: Config | None = None) -> AsyncIterator[tuple[Rig, Browser]]:
    """Run llmao and open a browser on its machine, which is an admin's."""
    async with rig(given) as world:
        yield world, browser(world)


async def sent(
    one: Browser, deed: str, form: dict[str, Any], page: str = "/admin", **headers: str
) -> httpx.Response:
    """Send a form as a page of ours does."""
    form = {"csrf": await one.csrf(page), **form}
    given = {"referer": one.url + page, "sec-fetch-site": "same-origin", **headers}
    return await one.post(f"/do-{deed}", form, headers=given)


async def told(one: Browser, answer: httpx.Response) -> str:
    """Follow a deed's answer to the page it leads to; return what is said there."""
    assert 303 == answer.status_code
    html = (await one.get(answer.headers["location"])).text
    found = re.search(r'<p class="flash (good|bad)" role="status">([^<]*)</p>', html)
    return f"{found[1]}: {found[2]}" if found else ""


def by_proxy(name: str, **more: Any) -> tuple[Config, dict[str, Any], dict[str, str]]:
    """Return a configuration, a browser's place and its headers, where a proxy says who asks."""
    server = ServerConfig(public_url=PUBLIC)
    header = BY_PROXY.proxy.user_header if BY_PROXY.proxy else ""
    return (
        config(auth=BY_PROXY, server=server, **more),
        {"peer": PROXY, "url": PUBLIC},
        {header: name},
    )


# ---- what is done


async def test_who_approves_a_box_sees_it_served_at_once() -> None:
    """From an unknown host to 200 at `/vllm/config`, with one form."""
    async with opened() as (world, one):
        assert 404 == (await one.get("/vllm/config", headers=KEY)).status_code
        world.service.board.note(Unknown(STRANGER))
        answer = await sent(one, "approve", FORM)
        assert "/admin" == answer.headers["location"]
        assert "good: c.9000 is approved: qwen at 8001" in await told(one, answer)
        handed = await one.get("/vllm/config", headers=KEY)
        assert (200, "qwen") == (handed.status_code, handed.json()["servers"][0]["name"])
        assert ["approved"] == world.kinds()
        entry = world.store.log[-1].entry
        assert ("operator", STRANGER) == (entry.actor, entry.host)


async def test_each_deed_is_done_and_said_and_in_the_log() -> None:
    """One form after the other, with a real service behind them."""
    deeds: list[tuple[str, dict[str, Any], str]] = [
        ("approve", FORM, "is approved"),
        ("label", {"host": BOX, "label": "A", "note": "b"}, "is labelled"),
        ("drain", {"host": BOX}, "being drained"),
        ("undrain", {"host": BOX}, "no longer drained"),
        ("retire", {"host": BOX}, "is retired"),
        ("unretire", {"host": BOX}, "no longer retired"),
        ("withdraw", {"host": STRANGER}, "withdrawn"),
        ("reload", {}, "in force"),
        ("check-config", {}, "are good"),
        ("reboot", {"host": BOX}, "c.4711 was asked for"),
        ("cancel-reboot", {"host": BOX}, "is called off"),
    ]
    async with opened() as (world, one):
        for deed, form, said in deeds:
            answer = await told(one, await sent(one, deed, form))
            assert answer.startswith("good: "), (deed, answer)
            assert said in answer
        made = ["approved", "labelled", "drained", "undrained", "retired", "unretired"]
        made += ["withdrawn", "reloaded", "configuration checked", "pressed", "pressed"]
        assert made == world.kinds()


async def test_the_buttons_of_a_deployment_do_what_they_say() -> None:
    """Run, drain and undrain by its id, check."""
    async with opened(config(policy={"add_litellm": "needs_human"})) as (world, one):
        plan = world.service.board.plan()
        assert plan is not None
        action = plan.actions[0]
        form = {"id": action.litellm_id, "kind": action.kind.value, "digest": action.digest}
        assert "is released" in await told(one, await sent(one, "run", form))
        await world.until(lambda: world.proxy.rows)
        await world.clock.advance(60)
        by_id = {"id": action.litellm_id}
        assert "is checking" in await told(one, await sent(one, "check", by_id))
        assert "costs tokens" in await told(one, await sent(one, "check", by_id))
        assert "being drained" in await told(one, await sent(one, "drain", by_id))
        assert "no longer drained" in await told(one, await sent(one, "undrain", by_id))
        assert "bad: The brake holds nothing" in await told(one, await sent(one, "release", {}))


async def test_several_actions_are_released_with_one_press() -> None:
    """Those that have moved on are counted."""
    async with opened(config(policy={"add_litellm": "needs_human"})) as (world, one):
        plan = world.service.board.plan()
        assert plan is not None
        form = {"digest": [plan.actions[0].digest, "0000", "1111"]}
        said = await told(one, await sent(one, "run", form))
        assert "1 actions are released. 2 had moved on" in said


async def test_a_pending_reload_is_confirmed_from_the_page() -> None:
    """The form repeats what it shows."""
    hosts = tuple(evolve(config().fleet.hosts[0], name=f"c.{number}") for number in range(4))
    full = evolve(config(), fleet=evolve(config().fleet, hosts=hosts))
    async with opened(full) as (world, one):
        world.file[0] = evolve(full, fleet=evolve(full.fleet, hosts=()))
        assert "bad: The changed configuration drops" in await told(
            one, await sent(one, "reload", {})
        )
        html = (await one.get("/admin")).text
        assert "c.0, c.1, c.2, c.3" in html
        shown = digest_of(world.service.office.dropped())
        assert f'name="shown" value="{shown}"' in html
        said = await told(one, await sent(one, "confirm-reload", {"shown": shown}))
        assert "4 hosts were dropped" in said


async def test_what_was_said_is_said_once_and_as_text() -> None:
    """A cookie that no script reads, and that is gone after one page."""
    async with opened() as (_, one):
        answer = await sent(one, "drain", {"host": "<b>x</b>"})
        cookie = answer.headers["set-cookie"]
        assert COOKIE in cookie
        assert "HttpOnly" in cookie
        assert "SameSite=lax" in cookie
        html = (await one.get("/admin")).text
        assert "This cannot name a host" in html
        assert "<b>x</b>" not in html
        assert "This cannot name a host" not in (await one.get("/admin")).text


@pytest.mark.parametrize(
    "value",
    [
        "nonsense",
        "W10",
        "WyJnb29kIl0",
        "bnVsbA",
        "WyJ4IiwieCJd",
        "WyJnb29kIiw1XQ",
        "é",
        "A" * 20_000,
    ],
)
async def test_a_flash_that_llmao_did_not_make_is_nothing(value: str) -> None:
    """No error, no words."""
    async with opened() as (_, one):
        await one.get("/admin")
        cookie = "; ".join(
            [*(f"{k}={v}" for k, v in one.client.cookies.items()), f"{COOKIE}={value}"]
        )
        answer = await one.get("/admin", headers={"cookie": cookie.encode()})
        assert 200 == answer.status_code
        assert 'role="status"' not in answer.text.partition("<h1")[0].replace("hidden", "")


# ---- who may


@pytest.mark.parametrize("deed", DEEDS)
async def test_who_is_no_admin_is_turned_away_and_in_the_log(deed: str) -> None:
    """Before the form is read; the log has the name and what it was."""
    given, place, headers = by_proxy("carol")
    async with rig(given) as world:
        one = browser(world, **place)
        csrf = {"csrf": await _token(one, headers)}
        answer = await one.post(f"/do-{deed}", {**FORM, **csrf}, headers=headers)
        assert 403 == answer.status_code
        assert ["refused"] == world.kinds()
        entry = world.store.log[-1].entry
        assert ("carol", f"/do-{deed}: not an admin") == (entry.actor, entry.detail["what"])


async def _token(one: Browser, headers: dict[str, str]) -> str:
    html = (await one.get("/admin", headers=headers)).text
    found = re.search(r'name="csrf" value="([^"]*)"', html)
    return found[1] if found else ""


async def test_who_is_turned_away_gets_a_page_or_json() -> None:
    """As they ask for it."""
    given, place, headers = by_proxy("carol")
    async with rig(given) as world:
        one = browser(world, **place)
        page = await one.post("/do-drain", {"host": BOX}, headers=headers)
        assert "Only an admin may do this." in page.text
        assert "text/html" in page.headers["content-type"]
        asked = {**headers, "accept": "application/json"}
        answer = await one.post("/do-drain", {"host": BOX}, headers=asked)
        assert "Only an admin may do this." == answer.json()["error"]["message"]


async def test_an_admin_of_a_proxy_may() -> None:
    """The name is in the log."""
    given, place, headers = by_proxy("alice")
    async with rig(given) as world:
        one = browser(world, **place)
        form = {"host": BOX, "csrf": await _token(one, headers)}
        answer = await one.post("/do-drain", form, headers={**headers, "origin": PUBLIC})
        assert 303 == answer.status_code
        assert "Secure" in answer.headers["set-cookie"]
        assert "alice" == world.store.log[-1].entry.actor


@pytest.mark.parametrize("path", ["/boxes", f"/boxes/{BOX}", "/admin", "/admin/log"])
async def test_pages_of_admins_are_for_admins(path: str) -> None:
    """Callers see the models."""
    given, place, headers = by_proxy("carol")
    async with rig(given) as world:
        one = browser(world, **place)
        answer = await one.get(path, headers=headers)
        assert 403 == answer.status_code
        assert BOX not in answer.text.replace(path, "")


# ---- from where

ELSEWHERE: dict[str, dict[str, str]] = {
    "another site": {"sec-fetch-site": "cross-site"},
    "a sibling": {"sec-fetch-site": "same-site"},
    "nobody's page": {"sec-fetch-site": "none"},
    "another origin": {"origin": "https://evil.example"},
    "no origin": {"origin": "null"},
    "our name with another port": {"origin": "http://127.0.0.1:9999"},
    "our name in another": {"origin": "http://127.0.0.1:8080.evil.example"},
    "nonsense": {"origin": "http://[x"},
}


@pytest.mark.parametrize("case", ELSEWHERE)
async def test_a_form_from_elsewhere_is_refused_though_it_has_the_token(case: str) -> None:
    """And is in the log, unless the gatehouse had it first."""
    async with opened() as (world, one):
        form = {"host": BOX, "csrf": await one.csrf("/admin")}
        answer = await one.post("/do-drain", form, headers=ELSEWHERE[case])
        assert 403 == answer.status_code
        assert "drained" not in world.kinds()
        first = ELSEWHERE[case].get("sec-fetch-site") in ("cross-site", "same-site")
        assert ([] if first else ["refused"]) == world.kinds()


@pytest.mark.parametrize("token", ["", "x", "é", None, ["a", "b"], "twice"])
async def test_a_form_without_the_visitors_token_is_refused(token: Any) -> None:
    """None, a wrong one, several."""
    async with opened() as (world, one):
        good = await one.csrf("/admin")
        given = [good, good] if token == "twice" else token
        form: Any = {"host": BOX} if given is None else {"host": BOX, "csrf": given}
        answer = await one.post("/do-drain", form, headers={"sec-fetch-site": "same-origin"})
        assert 403 == answer.status_code
        assert ["refused"] == world.kinds()


async def test_a_token_of_another_visit_is_refused() -> None:
    """It belongs to one browser."""
    async with rig() as world:
        app = browser(world).app
        mine, theirs = Browser(app, "127.0.0.1", HERE), Browser(app, "127.0.0.1", HERE)
        await theirs.get("/admin")
        form = {"host": BOX, "csrf": await mine.csrf("/admin")}
        assert 403 == (await theirs.post("/do-drain", form)).status_code


async def test_nothing_is_done_by_following_a_link() -> None:
    """A deed is a POST."""
    async with opened() as (world, one):
        for deed in DEEDS:
            assert 405 == (await one.get(f"/do-{deed}?host={BOX}")).status_code
        assert [] == world.kinds()


# ---- back to where

BACK = {
    "/boxes?retired=1": "/boxes?retired=1",
    "/deployments/llmao-1": "/deployments/llmao-1",
    "//evil.example": "/admin",
    "/\\evil.example": "/admin",
    "/\t/evil.example": "/admin",
    "/\n/evil.example": "/admin",
    "https://evil.example": "/admin",
    "javascript:alert(1)": "/admin",
    "evil.example": "/admin",
    "": "/admin",
    "/boxes\r\nset-cookie: a=b": "/admin",
    "/" + "x" * 600: "/admin",
    "/é": "/admin",
}


@pytest.mark.parametrize("asked", BACK)
async def test_a_deed_leads_back_to_a_page_of_ours_only(asked: str) -> None:
    """Whatever the form says."""
    async with opened() as (_, one):
        answer = await sent(one, "drain", {"host": BOX, "back": asked})
        assert BACK[asked] == answer.headers["location"]


@pytest.mark.parametrize(
    ("referer", "place"),
    [
        (f"{HERE}/boxes/{BOX}?a=1", f"/boxes/{BOX}?a=1"),
        ("https://evil.example/boxes", "/admin"),
        ("http://127.0.0.1:8080@evil.example/boxes", "/admin"),
        (f"{HERE}//evil.example", "/admin"),
        ("nonsense", "/admin"),
        ("http://[x", "/admin"),
        ("", "/admin"),
    ],
)
async def test_without_a_word_in_the_form_the_referer_counts_if_it_is_ours(
    referer: str, place: str
) -> None:
    """And another site's never."""
    async with opened() as (_, one):
        answer = await sent(one, "drain", {"host": BOX}, referer=referer)
        assert place == answer.headers["location"]


# ---- nonsense

NONSENSE: dict[str, tuple[str, dict[str, Any], str]] = {
    "no host": ("drain", {}, "cannot name a host"),
    "a host twice": ("drain", {"host": [BOX, BOX]}, "sent 2 times"),
    "a port that is a word": ("approve", {**FORM, "port": "eight"}, "`eight` is no port"),
    "no port": ("approve", {**FORM, "port": ""}, "no port"),
    "a negative port": ("approve", {**FORM, "port": "-1"}, "`-1` is no port"),
    "a huge port": ("approve", {**FORM, "port": "1" * 4000}, "is no port"),
    "a port of other digits": ("approve", {**FORM, "port": "８００１"}, "is no port"),
    "no model": ("approve", {**FORM, "model": ""}, "at least one"),
    "too many rows": ("approve", {**FORM, "model": ["qwen"] * 17}, "17 rows"),
    "a label that is long": ("label", {"host": BOX, "label": "x" * 5000}, "60 are the most"),
    "too many actions": ("run", {"digest": [str(n) for n in range(60)]}, "60 actions"),
    "an unknown id": ("check", {"id": "' OR 1=1"}, "no such deployment"),
}


@pytest.mark.parametrize("case", NONSENSE)
async def test_a_form_with_nonsense_is_answered_with_a_sentence(case: str) -> None:
    """And nothing is done; a field that nobody knows is not looked at."""
    deed, form, said = NONSENSE[case]
    async with opened() as (world, one):
        answer = await told(one, await sent(one, deed, {**form, "unheard_of": "x"}))
        assert answer.startswith("bad: ")
        assert said in answer.replace("&#39;", "'")
        assert [] == world.kinds()


async def test_a_body_that_is_no_form_is_refused() -> None:
    """JSON, files, too many fields, too many bytes."""
    async with opened() as (world, one):
        token = await one.csrf("/admin")
        client, path = one.client, "/do-drain"
        assert 415 == (await client.post(path, json={"host": BOX, "csrf": token})).status_code
        files = {"host": b"x"}
        assert 415 == (await client.post(path, data={"csrf": token}, files=files)).status_code
        many = urlencode({"csrf": token, **{f"f{number}": "" for number in range(500)}})
        kind = {"content-type": "application/x-www-form-urlencoded"}
        assert 400 == (await client.post(path, content=many, headers=kind)).status_code
        huge = f"csrf={token}&host={'x' * LARGEST_BODY_BYTES}"
        assert 413 == (await client.post(path, content=huge, headers=kind)).status_code
        junk = await client.post(path, content=b"\xff\xfe=%%%&&=&csrf", headers=kind)
        assert 403 == junk.status_code
        assert "drained" not in world.kinds()
