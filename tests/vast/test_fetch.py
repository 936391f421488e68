"""Reads of an account through the plugin, against the fake and against broken answers."""

import json

import httpx
import pytest
from tests.litellm.helpers import failing, saying
from tests.vast.helpers import LOCAL, NOW, Hands, fetch, reached, request

from llmao_core.config import Config, GpuProvider
from llmao_core.errors import Busy, FetchError, Garbled, Unauthorized, Unreachable
from llmao_core.hooks import FetchRequest, SourceKind
from llmao_core.secret import Secret
from llmao_core.snapshots import BoxStatus, Endpoint
from llmao_core.testing.fake_provider import STRANGER, Life
from llmao_vast import plugin
from llmao_vast.fake import FakeVast


def test_one_card_that_also_reboots() -> None:
    [card] = plugin.llmao_source()
    assert ("vast", SourceKind.LISTING, 60) == (card.name, card.kind, card.interval_s)
    assert ["reboot_box"] == [kind.value for kind in card.executes]


# ---- whole reads


async def test_an_empty_account_is_an_empty_listing(fake: FakeVast) -> None:
    assert () == (await fetch(fake)).instances


async def test_every_box_of_every_page_is_read_once(fake: FakeVast, hands: Hands) -> None:
    """Sixty instances come on three pages, and no two calls follow each other within a second."""
    planted = {fake.plant(f"box-{number}") for number in range(60)}
    listing = await fetch(fake)
    assert planted == {one.id for one in listing.instances}
    assert listing.complete
    assert 3 == len(fake.log)
    assert pytest.approx(2 * 1.2) == hands.at - NOW


async def test_one_failing_page_fails_the_whole_read(fake: FakeVast) -> None:
    """The second page of three fails once: no listing comes of it, and the next read is whole."""
    for number in range(60):
        fake.plant(f"box-{number}")
    fake.go_wrong("gateway", page=2)
    with pytest.raises(Unreachable):
        await fetch(fake)
    fake.interval_s = 0
    assert 60 == len((await fetch(fake)).instances)


@pytest.mark.parametrize("page", [1, 2, 3])
@pytest.mark.parametrize("name", sorted([*FakeVast.replies, "half_page", "null_row", "twice"]))
async def test_whatever_goes_wrong_on_a_page_there_is_no_listing(
    fake: FakeVast, name: str, page: int
) -> None:
    for number in range(60):
        fake.plant(f"box-{number}")
    fake.go_wrong(name, page=page)
    with pytest.raises(FetchError) as caught:
        await fetch(fake)
    assert str(caught.value)


async def test_a_box_rented_between_two_pages_is_read_with_the_last(
    fake: FakeVast, hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(30):
        fake.plant(f"box-{number}")

    async def rent_and_sleep(seconds: float) -> None:
        fake.plant("late", listed_after=-1)
        await hands.sleep(seconds)

    monkeypatch.setattr(plugin, "sleep", rent_and_sleep)
    assert 31 == len((await fetch(fake)).instances)


async def test_a_box_destroyed_between_two_pages_spoils_the_read(
    fake: FakeVast, hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The counts differ, and a moment later they do not: better than a box that was."""
    boxes = [fake.plant(f"box-{number}") for number in range(30)]

    async def destroy_and_sleep(seconds: float) -> None:
        fake.destroy(boxes[0], lingers=-1)
        await hands.sleep(seconds)

    monkeypatch.setattr(plugin, "sleep", destroy_and_sleep)
    with pytest.raises(Garbled, match="30 instances of 29"):
        await fetch(fake)


async def test_a_token_that_comes_twice_ends_the_read(fake: FakeVast) -> None:
    fake.plant("box-a")
    fake.go_wrong("same_token", times=50)
    with pytest.raises(Garbled, match="circle"):
        await fetch(fake)
    assert 2 == len(fake.log)


async def test_paging_without_end_is_bounded(fake: FakeVast) -> None:
    fake.plant("box-a")
    fake.go_wrong("endless", times=1000)
    with pytest.raises(Garbled, match="100 pages"):
        await fetch(fake)
    assert 100 == len(fake.log)


async def test_how_the_list_is_asked_for(fake: FakeVast) -> None:
    """Version 1, by ascending id, the key in the header only, all columns."""
    await fetch(fake)
    [call] = fake.log
    assert ("GET", "/api/v1/instances/") == (call.method, call.path)
    assert [{"col": "id", "dir": "asc"}] == json.loads(call.query["order_by"])
    assert {"limit", "order_by"} == set(call.query)
    assert f"Bearer {fake.key}" == call.authorization


@pytest.mark.parametrize(
    ("wanted", "base_url"),
    [
        ("https://console.vast.ai/api/v1/instances/", ""),
        ("https://console.vast.ai/api/v1/instances/", "https://console.vast.ai/"),
        ("https://console.vast.ai/api/v1/instances/", "https://console.vast.ai/api/v0"),
        ("https://gate.example.org/vast/api/v1/instances/", "https://gate.example.org/vast"),
    ],
)
async def test_where_the_list_is_asked_for(wanted: str, base_url: str) -> None:
    asked: list[str] = []

    def answer(sent: httpx.Request) -> httpx.Response:
        asked.append(str(sent.url.copy_with(query=None)))
        return httpx.Response(200, json={"instances": []})

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http:
        await plugin.llmao_fetch(FetchRequest("vast", base_url, Secret("k")), http, NOW)
    assert [wanted] == asked


async def test_it_is_served_on_loopback_as_in_the_process(fake: FakeVast) -> None:
    fake.plant("box-a", address="127.0.0.2", ports={8001: 41233})
    async with fake.serve() as url, httpx.AsyncClient() as http:
        given = FetchRequest("vast", url, Secret(fake.key))
        [box] = (await plugin.llmao_fetch(given, http, NOW)).instances
    assert Endpoint("http", "127.0.0.2", 41233) == box.endpoints[8001]


# ---- errors


@pytest.mark.parametrize(
    ("kind", "words", "name"),
    [
        (Unauthorized, "update llmao", "withdrawn"),
        (Unauthorized, "update llmao", "deprecated_200"),
        (Unauthorized, "providers.vast.api_key", "bad_key"),
        (Unauthorized, "providers.vast.api_key", "bad_key_404"),
        (Unauthorized, "instance_read", "no_scope"),
        (Busy, "interval_s", "busy_text"),
        (Busy, "interval_s", "busy_detail"),
        (Busy, "interval_s", "busy_code"),
        (Unreachable, "502", "gateway"),
        (Unreachable, "failed", "lost"),
        (Garbled, "base_url", "not_found"),
        (Garbled, "base_url", "redirect"),
        (Garbled, "400", "bad_request"),
        (Garbled, "web page", "web_page"),
        (Garbled, "no JSON", "plain_text"),
        (Garbled, "no JSON", "half_json"),
        (Garbled, "no JSON", "empty_body"),
        (Garbled, "did not succeed", "not_successful"),
        (Garbled, "no list", "null_list"),
        (Garbled, "no list", "no_list"),
        (Garbled, "no list", "dict_list"),
        (Garbled, "no list", "text_list"),
    ],
)
async def test_every_failure_has_its_kind_and_its_remedy(
    fake: FakeVast, kind: type[FetchError], words: str, name: str
) -> None:
    fake.go_wrong(name)
    with pytest.raises(kind, match=words):
        await fetch(fake)


async def test_a_call_that_comes_too_soon_is_busy_without_a_time(fake: FakeVast) -> None:
    """Vast sends no Retry-After: when to come again is the runner's own backoff."""
    await fetch(fake)
    with pytest.raises(Busy) as caught:
        await fetch(fake)
    assert caught.value.retry_after_s is None


async def test_a_wrong_key_is_never_repeated(fake: FakeVast) -> None:
    async with reached(fake) as http:
        with pytest.raises(Unauthorized) as caught:
            await plugin.llmao_fetch(request("wrong-key-of-somebody"), http, NOW)
    assert "wrong-key" not in repr(caught.value)


async def test_a_redirect_is_not_followed_with_the_key(fake: FakeVast) -> None:
    fake.go_wrong("redirect")
    async with httpx.AsyncClient(transport=fake.transport(), follow_redirects=True) as http:
        with pytest.raises(Garbled):
            await plugin.llmao_fetch(request(), http, NOW)
    assert 1 == len(fake.log)


@pytest.mark.parametrize(
    "error", [httpx.ConnectError, httpx.ReadTimeout, httpx.ReadError, httpx.RemoteProtocolError]
)
async def test_no_answer_is_unreachable(error: type[httpx.TransportError]) -> None:
    async with failing(error, "Bearer vast-fake-key") as http:
        with pytest.raises(Unreachable) as caught:
            await plugin.llmao_fetch(request(), http, NOW)
    assert "vast-fake-key" not in str(caught.value)


async def test_a_key_that_cannot_be_sent_is_not_repeated() -> None:
    """The HTTP library quotes a header that it cannot encode."""
    async with saying(200, b'{"instances": []}') as http:
        await plugin.llmao_fetch(request("schlüssel"), http, NOW)
        with pytest.raises(Unauthorized):
            await plugin.llmao_fetch(FetchRequest("vast", LOCAL), http, NOW)


# ---- how boxes come and go


async def test_a_new_box_shows_some_reads_later_and_its_ports_later_still(
    fake: FakeVast, hands: Hands
) -> None:
    fake.plant("box-a", listed_after=1, mapped_after=2)
    seen = []
    for _ in range(3):
        seen.append([dict(one.endpoints) for one in (await fetch(fake)).instances])
        hands.at += 60
    assert [[], [{}], [{8001: Endpoint("http", "127.0.0.2", 41200)}]] == seen


async def test_two_boxes_on_one_address_split_its_ports(fake: FakeVast) -> None:
    fake.plant("box-a", ports=[8001, 8002])
    fake.plant("box-b", ports=[8001])
    first, second = (await fetch(fake)).instances
    assert first.addresses == second.addresses
    assert [41200, 41201, 41202] == [
        one.port for box in (first, second) for one in box.endpoints.values()
    ]


async def test_a_remap_shows_with_the_next_read(fake: FakeVast) -> None:
    box = fake.plant("box-a")
    fake.remap(box)
    [seen] = (await fetch(fake)).instances
    assert 41201 == seen.endpoints[8001].port


@pytest.mark.parametrize(
    ("status", "life"),
    [
        (BoxStatus.STARTING, Life.WAITING),
        (BoxStatus.STARTING, Life.LOADING),
        (BoxStatus.STARTING, Life.REBOOTING),
        (BoxStatus.UP, Life.RUNNING),
        (BoxStatus.DOWN, Life.STOPPED),
        (BoxStatus.DOWN, Life.OUTBID),
        (BoxStatus.DOWN, Life.EXITED),
        (BoxStatus.UNKNOWN, Life.LOST),
    ],
)
async def test_what_a_box_does_is_what_is_read(
    fake: FakeVast, status: BoxStatus, life: Life
) -> None:
    fake.plant("box-a", life=life)
    [seen] = (await fetch(fake)).instances
    assert status is seen.status


async def test_a_box_that_exited_is_listed_and_billed(fake: FakeVast) -> None:
    """It stays in the listing, down and with its price, so that a person can give it back."""
    fake.turn(fake.plant("box-a", price_per_hour=1.5), Life.EXITED)
    [seen] = (await fetch(fake)).instances
    assert (BoxStatus.DOWN, 1.5, {}) == (seen.status, seen.price_per_hour, seen.endpoints)


async def test_a_box_that_is_being_given_back_is_gone(fake: FakeVast, hands: Hands) -> None:
    fake.destroy(fake.plant("box-a"), lingers=1)
    assert [BoxStatus.GONE] == [one.status for one in (await fetch(fake)).instances]
    hands.at += 60
    assert () == (await fetch(fake)).instances
    assert {} == fake.truth()


async def test_an_address_given_to_another_tenant_is_not_ours(fake: FakeVast) -> None:
    box = fake.plant("box-a", ports={8001: 41233})
    assert box == fake.holder("127.0.0.2", 41233)
    fake.hand_over(box)
    assert STRANGER == fake.holder("127.0.0.2", 41233)
    assert () == (await fetch(fake)).instances


async def test_an_empty_list_after_a_full_one_is_a_listing(fake: FakeVast, hands: Hands) -> None:
    """It is valid and says so; that three of them in a row are needed is for reconcile."""
    fake.plant("box-a")
    assert 1 == len((await fetch(fake)).instances)
    hands.at += 60
    fake.go_wrong("empty")
    assert () == (await fetch(fake)).instances


def test_an_unknown_mishap_says_what_is_known(fake: FakeVast) -> None:
    with pytest.raises(ValueError, match="half_page"):
        fake.go_wrong("earthquake")


# ---- configuration


def problems(**section: object) -> list[tuple[str, str, bool]]:
    key = section.pop("api_key", "k")
    given = GpuProvider(
        "vast",
        Secret(str(key)) if key is not None else None,
        section.pop("interval_s", None),  # type: ignore[arg-type]
        section.pop("base_url", None),  # type: ignore[arg-type]
        section,
    )
    found = plugin.llmao_check(Config(gpu_providers=(given,)))
    return [(one.path, one.remedy, one.warning) for one in found]


def test_a_good_section_has_no_problem() -> None:
    assert [] == problems(interval_s=60, base_url="https://console.vast.ai")
    assert () == plugin.llmao_check(Config())


@pytest.mark.parametrize("key", [None, "", "CHANGE_ME", "CHANGE_ME_TOO"])
def test_a_key_that_is_not_set_is_a_warning(key: str | None) -> None:
    """A section without a key is no source, which may be meant and is easily overlooked."""
    [(path, _, warning)] = problems(api_key=key)
    assert ("providers.vast.api_key", True) == (path, warning)


@pytest.mark.parametrize(
    ("path", "remedy", "section"),
    [
        ("providers.vast.api_key", "blank", {"api_key": "a b"}),
        ("providers.vast.api_key", "blank", {"api_key": "schlüssel"}),
        ("providers.vast.base_url", "https://", {"base_url": "console.vast.ai"}),
        ("providers.vast.base_url", "https://", {"base_url": "ftp://console.vast.ai"}),
        ("providers.vast.base_url", "https://", {"base_url": "http://console.vast.ai"}),
        ("providers.vast.interval_s", "2 or more", {"interval_s": 0.5}),
        ("providers.vast.intervall_s", "Did you mean `interval_s`?", {"intervall_s": 60}),
        ("providers.vast.colour", "Known are api_key", {"colour": "red"}),
    ],
)
def test_what_is_wrong_is_named_with_what_is_right(
    path: str, remedy: str, section: dict[str, object]
) -> None:
    [(found, said, _)] = problems(**section)
    assert path == found
    assert remedy in said


def test_a_fake_may_be_asked_over_http() -> None:
    assert [] == problems(base_url="http://127.0.0.1:4100")
