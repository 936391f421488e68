"""Reads of an account through the plugin, against the fake and against broken answers."""

from typing import Any

import httpx
import pytest
from tests.litellm.helpers import failing, saying
from tests.runpod.helpers import LOCAL, NOW, Hands, fetch, reached, request

from llmao_core.config import Config, GpuProvider
from llmao_core.errors import Busy, FetchError, Garbled, Unauthorized, Unreachable
from llmao_core.hooks import FetchRequest, SourceKind
from llmao_core.secret import Secret
from llmao_core.snapshots import BoxStatus, Endpoint, Listing, Snapshot
from llmao_core.testing.clock import VirtualClock
from llmao_core.testing.fake_provider import Life
from llmao_runpod import plugin
from llmao_runpod.fake import FakeRunPod
from llmao_web.shell.host import PluginHost


def test_one_card_that_also_reboots() -> None:
    [card] = plugin.llmao_source()
    assert ("runpod", SourceKind.LISTING, 600) == (card.name, card.kind, card.interval_s)
    assert ["reboot_box"] == [kind.value for kind in card.executes]


# ---- whole reads


async def test_an_empty_account_is_an_empty_listing(fake: FakeRunPod) -> None:
    assert () == (await fetch(fake)).instances


@pytest.mark.parametrize("page_size", [None, 1, 7, 20, 1000])
async def test_every_pod_of_every_page_is_read_once(hands: Hands, page_size: int | None) -> None:
    """The first version had no paging; how long a page is now is not known."""
    fake = FakeRunPod(hands, page_size=page_size)
    planted = {fake.plant(f"box-{number}") for number in range(20)}
    listing = await fetch(fake)
    assert planted == {one.id for one in listing.instances}
    assert listing.complete


async def test_members_of_clusters_are_listed(fake: FakeRunPod) -> None:
    """They are left out unless asked for."""
    pod = fake.plant("box-a", cluster=True)
    assert [pod] == [one.id for one in (await fetch(fake)).instances]


@pytest.mark.parametrize("page", [1, 2, 3])
@pytest.mark.parametrize(
    "name", sorted({*FakeRunPod.replies, *FakeRunPod.twists} - {"empty", "endless", "same_cursor"})
)
async def test_whatever_goes_wrong_on_a_page_there_is_no_listing(
    hands: Hands, name: str, page: int
) -> None:
    fake = FakeRunPod(hands, page_size=7)
    for number in range(20):
        fake.plant(f"box-{number}")
    fake.go_wrong(name, page=page)
    with pytest.raises(FetchError) as caught:
        await fetch(fake)
    assert str(caught.value)


@pytest.mark.parametrize(("most", "name"), [(3, "same_cursor"), (100, "endless")])
async def test_paging_in_a_circle_or_without_end_is_bounded(
    hands: Hands, name: str, most: int
) -> None:
    fake = FakeRunPod(hands, a_minute=10_000)
    fake.plant("box-a")
    fake.go_wrong(name, times=1000)
    with pytest.raises(Garbled, match="end"):
        await fetch(fake)
    assert len(fake.log) <= most


@pytest.mark.parametrize(
    ("wanted", "base_url"),
    [
        ("https://api.runpod.io/v2/pods", ""),
        ("https://api.runpod.io/v2/pods", "https://api.runpod.io/v2/"),
        ("https://gate.example.org/runpod/v2/pods", "https://gate.example.org/runpod"),
    ],
)
async def test_where_the_list_is_asked_for(wanted: str, base_url: str) -> None:
    asked: list[httpx.Request] = []

    def answer(sent: httpx.Request) -> httpx.Response:
        asked.append(sent)
        return httpx.Response(200, json={"pods": []})

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http:
        await plugin.llmao_fetch(FetchRequest("runpod", base_url, Secret("k")), http, NOW)
    [sent] = asked
    assert wanted == str(sent.url.copy_with(query=None))
    assert {"includeClusterPods": "true", "limit": "1000"} == dict(sent.url.params)
    assert "Bearer k" == sent.headers["authorization"]


async def test_the_host_says_what_llmao_is(fake: FakeRunPod) -> None:
    """raft PR 14: Cloudflare turns away a client without a User-Agent (403, error 1010)."""
    fake.plant("box-a")
    host = PluginHost(VirtualClock(NOW), {"runpod": plugin})
    async with fake.serve() as url:
        read = await host.fetch("runpod", FetchRequest("runpod", url, Secret(fake.key)), NOW)
        await host.aclose()
    assert isinstance(read, Snapshot)
    assert isinstance(read.body, Listing)
    assert fake.log[0].headers["user-agent"].startswith("llmao/")


async def test_it_is_not_the_key_that_cloudflare_refuses(fake: FakeRunPod) -> None:
    """raft PR 14: the 403 of a missing User-Agent looked like one of a wrong key."""
    async with httpx.AsyncClient(transport=fake.transport(), headers={"user-agent": ""}) as http:
        with pytest.raises(Unreachable, match="not about the key"):
            await plugin.llmao_fetch(request(), http, NOW)


# ---- errors


@pytest.mark.parametrize(
    ("kind", "words", "name"),
    [
        (Unauthorized, "api_key", "no_key"),
        (Unauthorized, "api_key", "no_access"),
        (Unauthorized, "update llmao", "withdrawn"),
        (Unauthorized, "api_key", "graphql_no_auth"),
        (Unreachable, "in front", "cloudflare"),
        (Busy, "interval_s", "busy"),
        (Unreachable, "500", "down"),
        (Unreachable, "502", "gateway"),
        (Unreachable, "failed", "lost"),
        (Garbled, "base_url", "not_found"),
        (Garbled, "base_url", "redirect"),
        (Garbled, "base_url", "version_1"),
        (Garbled, "GraphQL", "graphql"),
        (Garbled, "no list", "graphql_errors"),
        (Garbled, "no list", "null_list"),
        (Garbled, "no list", "no_list"),
        (Garbled, "no list", "dict_list"),
        (Garbled, "web page", "web_page"),
        (Garbled, "no JSON", "half_json"),
        (Garbled, "no JSON", "empty_body"),
        (Garbled, "does not say where", "no_cursor"),
        (Garbled, "no pod", "null_pod"),
    ],
)
async def test_every_failure_has_its_kind_and_its_remedy(
    fake: FakeRunPod, kind: type[FetchError], words: str, name: str
) -> None:
    fake.go_wrong(name)
    with pytest.raises(kind, match=words):
        await fetch(fake)


@pytest.mark.parametrize(
    ("seconds", "name"),
    [(17.0, "busy"), (30.0, "busy_date"), (23.0, "busy_windows"), (None, "busy_mute")],
)
async def test_when_to_come_again_is_what_runpod_says(
    fake: FakeRunPod, seconds: float | None, name: str
) -> None:
    fake.go_wrong(name)
    with pytest.raises(Busy) as caught:
        await fetch(fake)
    assert seconds == caught.value.retry_after_s


async def test_too_many_reads_a_minute_are_refused_until_the_window_ends(hands: Hands) -> None:
    fake = FakeRunPod(hands, a_minute=2)
    await fetch(fake)
    await fetch(fake)
    hands.at += 20
    with pytest.raises(Busy) as caught:
        await fetch(fake)
    assert 41.0 == caught.value.retry_after_s
    hands.at += 41
    await fetch(fake)


@pytest.mark.parametrize("error", [httpx.ConnectError, httpx.ReadTimeout, httpx.ReadError])
async def test_no_answer_is_unreachable(error: type[httpx.TransportError]) -> None:
    async with failing(error, "Bearer rpa_fake_key") as http:
        with pytest.raises(Unreachable) as caught:
            await plugin.llmao_fetch(request(), http, NOW)
    assert "rpa_fake_key" not in str(caught.value)


async def test_a_key_is_never_repeated(fake: FakeRunPod) -> None:
    async with reached(fake) as http:
        with pytest.raises(Unauthorized) as caught:
            await plugin.llmao_fetch(request("wrong-key"), http, NOW)
        with pytest.raises(Unauthorized):
            await plugin.llmao_fetch(FetchRequest("runpod", LOCAL), http, NOW)
    assert "wrong-key" not in repr(caught.value)
    async with saying(200, b'{"pods": []}') as http:
        await plugin.llmao_fetch(request("schlüssel"), http, NOW)


# ---- how pods come and go


async def test_a_pod_is_mapped_some_reads_after_it_runs(fake: FakeRunPod) -> None:
    pod = fake.plant("box-a", life=Life.LOADING, mapped_after=1)
    assert BoxStatus.STARTING is (await fetch(fake)).instances[0].status
    fake.turn(pod, Life.RUNNING)
    [seen] = (await fetch(fake)).instances
    assert Endpoint("http", "127.0.0.2", 41200) == seen.endpoints[8001]


async def test_a_pod_with_an_http_port_is_reached_through_the_proxy(fake: FakeRunPod) -> None:
    pod = fake.plant("box-a", ports=[], http_ports=[8001])
    [direct] = (await fetch(fake)).instances
    [proxied] = (await fetch(fake, http_proxy=True)).instances
    assert {} == direct.endpoints
    assert f"{pod}-8001.proxy.runpod.net" == proxied.endpoints[8001].host


# ---- configuration


def problems(**section: Any) -> list[tuple[str, str, bool]]:
    given = GpuProvider("runpod", Secret(section.pop("api_key", "k")), **{
        name: section.pop(name, None) for name in ("interval_s", "base_url")
    }, section=section)  # fmt: skip
    found = plugin.llmao_check(Config(gpu_providers=(given,)))
    return [(one.path, one.remedy, one.warning) for one in found]


def test_a_good_section_has_no_problem() -> None:
    assert [] == problems(interval_s=600, http_proxy=True, base_url="https://api.runpod.io/v2")
    assert () == plugin.llmao_check(Config())


@pytest.mark.parametrize(
    ("path", "remedy", "section"),
    [
        ("providers.runpod.api_key", "Set it", {"api_key": "CHANGE_ME"}),
        ("providers.runpod.base_url", "https://", {"base_url": "api.runpod.io"}),
        ("providers.runpod.interval_s", "5 or more", {"interval_s": 1}),
        ("providers.runpod.http_proxy", "Write one", {"http_proxy": "yes"}),
        ("providers.runpod.http_prox", "Did you mean `http_proxy`?", {"http_prox": True}),
    ],
)
def test_what_is_wrong_is_named_with_what_is_right(
    path: str, remedy: str, section: dict[str, Any]
) -> None:
    [(found, said, _)] = problems(**section)
    assert path == found
    assert remedy in said
