"""The page of admins: who wants in, what would fit, what waits, what is in force, what was done."""

import re
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
import yaml
from attrs import evolve
from structlog.testing import capture_logs
from tests.shell.office_world import BOX, STRANGER, config, instance, rig

from llmao_core.actions import ActionKind
from llmao_core.config import HostRow, Model, Recipe
from llmao_core.errors import Problem
from llmao_core.intended import Approval
from llmao_core.protocol import Unknown
from llmao_core.records import ItemKind
from llmao_core.verdicts import Lifecycle
from llmao_web.box_files import read_box_file
from llmao_web.pages.admin import AdminPages
from llmao_web.pages.approving import approving
from llmao_web.pages.forms import fields_of
from llmao_web.pages.hosts_lines import hosts_lines
from llmao_web.pages.log import PAGE, line
from llmao_web.pages.names import capital
from llmao_web.pages.render import Renderer
from llmao_web.pages.said import said
from llmao_web.pages.sheet import change
from llmao_web.shell.asking import Refusal
from llmao_web.shell.leader import Leadership
from llmao_web.shell.ledger import Entry, EntryKind, Numbered

from .test_boxes_page import html, relisted, words


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with capture_logs():
        yield


# ---- approving


def chosen(page: str) -> list[str]:
    """Return the models that are chosen in a form."""
    return re.findall(r'<option value="([^"]+)" selected', page)


async def test_an_unknown_host_waits_with_a_link_to_its_form() -> None:
    """How often and when it asked."""
    async with rig() as world:
        world.service.board.note(Unknown(STRANGER))
        world.service.board.note(Unknown(STRANGER))
        page = await html(world, "/admin")
        assert 'href="/admin?host=c.9000#approve"' in page
        assert "asked 2 times" in await words(world, "/admin")


async def test_rows_are_suggested_that_fit_the_listed_box() -> None:
    """Chosen in the form already, with what is left; nothing happens before it is sent."""
    async with rig() as world:
        page = await html(world, f"/admin?host={STRANGER}")
        assert ["qwen"] == chosen(page)
        told = await words(world, f"/admin?host={STRANGER}")
        assert "1 × RTX 4090 with 24 GB, 100 GB of disk" in told
        assert "fits" in told
        assert "By its recipe it needs 9.0 GB of GPU memory." in told
        assert "Left then: 13.1 GB of GPU memory, 80 GB of disk" in told
        assert [] == world.kinds()


async def test_what_has_no_server_yet_is_suggested_first() -> None:
    """One on its way counts, so boxes approved one after the other get different models."""
    async with rig(config(fleet=evolve(config().fleet, hosts=()))) as world:
        path = f"/admin?host={STRANGER}"
        assert ["gemma"] == chosen(await html(world, path))
        await world.service.office.approve("c.9001", (HostRow("gemma", 8001, "gemma"),), "alice")
        await world.clock.advance(1)
        assert ["qwen"] == chosen(await html(world, path))


@pytest.mark.parametrize(("reached", "first"), [(True, "qwen"), (False, "gemma")])
async def test_a_server_that_only_litellm_reaches_counts_when_rows_are_suggested(
    reached: bool, first: str
) -> None:
    """Callers are served by it, though llmao's own probes fail."""
    async with rig(config(fleet=evolve(config().fleet, hosts=()))) as world:
        office = world.service.office
        await office.approve("c.9001", (HostRow("gemma", 8001, "gemma"),), "alice")
        await world.clock.advance(1)
        intended, view = world.service.board.intended(), world.service.board.view()
        assert intended is not None
        assert view is not None
        one = view.records[0]._replace(lifecycle=Lifecycle.UNHEALTHY, reached=reached)
        form = fields_of(f"host={STRANGER}")
        made = await approving(intended, evolve(view, records=(one,)), office, form)
        assert [first] == [row.model for row in made.rows]


async def test_a_listing_without_memory_is_said_to_be_one() -> None:
    """What it means for the choice, and what the chosen models need by their recipes."""
    async with rig() as world:
        bare = instance(STRANGER, gpu_memory_gb=None, disk_gb=None)
        await relisted(world, instance(BOX), bare)
        path = f"/admin?host={STRANGER}"
        told = await words(world, path)
        assert "1 × RTX 4090, memory not listed, disk not listed" in told
        assert "vast does not list how much memory a card has" in told
        assert [] == chosen(await html(world, path))
        told = await words(world, f"{path}&model=qwen&port=8001&name=")
        assert "not known whether it fits" in told
        assert "By its recipe it needs 9.0 GB of GPU memory." in told
        assert "memory unknown" not in told


async def test_an_open_form_goes_once_somebody_approved_the_host() -> None:
    """Two admins look at the same box; the second must not approve it again unawares."""
    async with rig() as world:
        world.service.board.note(Unknown(STRANGER))
        await world.clock.advance(1)
        board, office = world.service.board, world.service.office
        pages = AdminPages(board, office, Renderer("main", world.clock), "main")
        source = pages.sources()["admin"].sheet
        before = await source(f"choosing:{STRANGER}")
        other = await source("choosing:c.9001")
        await office.approve(STRANGER, (HostRow("qwen", 8001, "qwen"),), "alice")
        await world.clock.advance(1)
        assert change(before, await source(f"choosing:{STRANGER}")) is None
        assert change(other, await source("choosing:c.9001")) is not None
        told = await words(world, f"/admin?host={STRANGER}")
        assert "approved qwen at 8001, by alice" in told
        assert "Choose other models" in told
        view = board.view()
        assert view
        assert [] == [one for one in view.items if one.kind is ItemKind.UNKNOWN_HOST]
        assert "No unknown host has asked" in await words(world, "/admin")


async def test_a_suggested_process_name_can_be_one() -> None:
    """Whatever the model is called."""
    model = Model("org/model 1", recipe=Recipe("org/m", vram_gb=1, disk_gb=1))
    async with rig(config(models=(model,), commercial=())) as world:
        page = await html(world, f"/admin?host={STRANGER}")
        assert 'name="name" value="org-model-1"' in page
        assert 'action="/do-approve"' in page


async def test_nothing_is_suggested_for_a_box_that_no_listing_names() -> None:
    """A guess would be loaded."""
    async with rig() as world:
        page = await html(world, "/admin?host=203.0.113.9")
        assert " selected" not in page
        assert "No listing names it" in page
        assert "Choose at least one model" in page
        assert 'action="/do-approve"' not in page


async def test_fit_is_shown_for_what_was_chosen() -> None:
    """Too much for the card: what is needed and what there is; it may be approved all the same."""
    async with rig() as world:
        chosen = [("host", STRANGER)]
        for model, port in (("gemma", "8001"), ("qwen", "8002"), ("", "8003")):
            chosen += [("model", model), ("port", port), ("name", "")]
        path = f"/admin?{urlencode(chosen)}"
        told = await words(world, path)
        assert "does not fit" in told
        assert "qwen needs 9.0 GB; 4.1 GB are left on a card: 4.9 GB are missing." in told
        assert 'action="/do-approve"' in await html(world, path)
        assert "with 2 models though it does not fit: gemma, qwen" in told
        assert "Left then" not in told


async def test_a_process_name_follows_its_model_unless_somebody_wrote_one() -> None:
    """Another model in the same row must not go by the name of the one before."""
    async with rig() as world:
        for given, stands in (("", ""), ("qwen", ""), ("mine", "mine")):
            chosen = [("host", STRANGER), ("model", "qwen"), ("port", "8001"), ("name", given)]
            form = (await html(world, f"/admin?{urlencode(chosen)}")).split('id="fit"')[0]
            assert f'name="name" size="16" maxlength="64" value="{stands}"' in form


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("host=two words", "cannot name a host"),
        ("host=", "cannot name a host"),
        (f"host={BOX}&model=qwen&port=8001", "fleet.hosts"),
        ("host=c.9&model=nope&port=8001", "no model `nope`"),
        ("host=c.9&model=qwen&port=9999", "Port 9999"),
        ("host=c.9&model=qwen&port=x", "no port"),
        ("host=c.9&" + "&".join(["model=qwen"] * 20), "20 rows"),
    ],
)
async def test_a_choice_that_cannot_stand_says_why_before_it_is_sent(query: str, why: str) -> None:
    """And has no button."""
    async with rig() as world:
        page = await html(world, f"/admin?{query}")
        assert why in page
        assert 'action="/do-approve"' not in page


async def test_a_variant_of_a_recipe_can_be_chosen() -> None:
    """It is a row of its own in the list, with its own need."""
    big = Recipe("org/big", vram_gb=40, disk_gb=10)
    model = Model("big", recipe=big, recipes={"fp8": evolve(big, vram_gb=20)})
    async with rig(config(models=(model,), commercial=())) as world:
        path = f"/admin?host={STRANGER}&" + urlencode({"model": "big\tfp8", "port": 8001})
        told = await words(world, path)
        assert "big (fp8) at 8001" in told
        assert "big (40 GB, does not fit)" in told
        assert "big, fp8 (20 GB)" in told


async def test_what_is_approved_and_not_in_the_file_is_there_to_paste() -> None:
    """In the form of the file."""
    async with rig() as world:
        rows = (HostRow("qwen", 8001, "qwen"),)
        await world.service.office.approve(STRANGER, rows, "alice")
        assert "    c.9000:\n      - [qwen, 8001]\n" in await html(world, "/admin")
        told = await words(world, f"/admin?host={STRANGER}")
        assert "approved already, by alice" in told


@pytest.mark.parametrize(
    "host", ["c.9000", "203.0.113.9", "2001:db8::1", "123", "1e5", "null", "yes", "0x1f"]
)
def test_the_lines_to_paste_read_back_as_the_same_rows(host: str) -> None:
    """Whatever YAML would make of a name."""
    rows = (
        HostRow("a", 8001, "a"),
        HostRow("on", 8002, "b"),
        HostRow("x: y", 8003, "c", "fp8"),
    )
    read = yaml.safe_load("hosts:\n" + hosts_lines([Approval(host, rows, "alice", 0.0)]))
    variant = {"model": "x: y", "port": 8003, "name": "c", "recipe": "fp8"}
    assert {"hosts": {host: [["a", 8001], ["on", 8002, "b"], variant]}} == read
    assert "" == hosts_lines([])


# ---- plan, policy, sources, configuration


async def test_the_plan_has_its_buttons_and_the_policy_stands_beside() -> None:
    """What is held can be run, with the digest it was shown with."""
    async with rig(config(policy={"add_litellm": "needs_human"})) as world:
        plan = world.service.board.plan()
        assert plan is not None
        page, told = await html(world, "/admin"), await words(world, "/admin")
        assert f'name="digest" value="{plan.actions[0].digest}"' in page
        assert 'action="/do-run"' in page
        assert "needs_human by config.yaml" in told
        assert "reboot_box" in told
        assert "more than 50 % of ours within 10 min" in told


async def test_the_page_says_who_writes() -> None:
    """This process, another one, or nobody that is known."""
    async with rig() as world:
        office = world.service.office
        assert "This llmao writes to LiteLLM." in await words(world, "/admin")
        office.leadership = lambda: Leadership("east:8080", here=False, known=True)
        assert "east:8080 writes to LiteLLM" in await words(world, "/admin")
        office.leadership = lambda: Leadership("", here=False, known=False)
        assert "Nobody is known to write" in await words(world, "/admin")


async def test_sources_say_how_they_are() -> None:
    """Every one, with its interval."""
    async with rig() as world:
        told = await words(world, "/admin")
        for name in ("litellm", "litellm_health", "vast"):
            assert name in told
        assert "every 1 min" in told


async def test_what_is_wrong_with_the_files_is_on_the_page() -> None:
    """After a look, and after a reload that was not taken."""
    async with rig() as world:
        world.file[0] = Problem("This is no YAML.", "Mind the colon.", file="config.yaml", line=3)
        with pytest.raises(Refusal):
            await world.service.office.check_config("alice")
        told = await words(world, "/admin")
        assert "Checked by alice" in told
        assert "config.yaml:3: This is no YAML. Mind the colon." in told
        assert "was not taken" not in told
        with pytest.raises(Refusal):
            await world.service.office.reload("alice")
        await world.clock.advance(1)
        assert "was not taken" in await words(world, "/admin")


async def test_the_hash_of_the_installer_is_that_of_the_file_served() -> None:
    """It is what a box's template pins."""
    async with rig() as world:
        assert read_box_file("install_set.py").sha256 in await html(world, "/admin")


async def test_what_litellm_has_can_be_checked() -> None:
    """Only that."""
    async with rig() as world:
        assert "LiteLLM has no deployments yet" not in await words(world, "/admin")
        await world.until(lambda: world.proxy.rows)
        await world.clock.advance(60)
        page = await html(world, "/admin")
        (one,) = world.proxy.rows
        assert f'name="id" value="{one}"' in page
        assert 'action="/do-check"' in page


# ---- the log


async def test_the_log_is_filtered_and_paged_by_number() -> None:
    """By kind, host and person; what comes meanwhile moves nothing."""
    async with rig() as world:
        office = world.service.office
        await world.store.append(
            *(Entry(float(n), "llmao", EntryKind.CHECKED, f"c.{n}") for n in range(80))
        )
        await office.label(BOX, "one", "", "alice")
        first = await html(world, "/admin/log?kind=checked")
        assert PAGE == first.count('<span class="pill plain">checked</span>')
        older = re.search(r'href="(/admin/log\?[^"]*before=\d+)"', first)
        assert older is not None
        await world.store.append(Entry(1.0, "llmao", EntryKind.CHECKED, "c.new"))
        second = await html(world, older[1].replace("&amp;", "&"))
        assert 80 - PAGE == second.count('<span class="pill plain">checked</span>')
        assert "c.new" not in second
        assert "labelled" in await words(world, "/admin/log?actor=alice")
        assert "Nothing like that" in await words(world, "/admin/log?actor=alice&kind=checked")
        only = await html(world, f"/admin/log?host={BOX}")
        assert "“one”" in only
        assert "c.79" not in only


@pytest.mark.parametrize(
    "query",
    [
        "kind=<script>",
        "before=-1",
        "before=1e99",
        "before=" + "9" * 400,
        "host=" + "x" * 5000,
        "kind=action&kind=checked",
        "actor=%00%ff",
        "&&==",
    ],
)
async def test_a_filter_with_nonsense_is_no_error(query: str) -> None:
    """It finds nothing, or is not looked at."""
    async with rig() as world:
        assert "<script>" not in await html(world, f"/admin/log?{query}")


async def test_transitions_are_below_the_log() -> None:
    """From what to what."""
    async with rig() as world:
        await relisted(world, instance(BOX))
        await world.service.office.approve(STRANGER, (HostRow("qwen", 8001, "qwen"),), "alice")
        await world.clock.advance(5)
        assert "c.9000:8001 qwen new Awaiting" in await words(world, "/admin/log")
        of_host = await words(world, f"/admin/log?host={STRANGER}")
        assert "c.9000:8001 qwen new Awaiting" in of_host
        assert "Transitions 1" in of_host
        assert "Transitions" not in await words(world, "/admin/log?host=c.9999")
        assert "Transitions" not in await words(world, "/admin/log?actor=alice")


@pytest.mark.parametrize("kind", EntryKind)
@pytest.mark.parametrize(
    "detail",
    [{}, {"rows": 5, "said": {"a": 1}, "dropped": 1, "what": None}, {"rows": [1, {"model": 2}]}],
)
def test_any_entry_can_be_said(kind: EntryKind, detail: dict[str, object]) -> None:
    """However old, and whatever it holds."""
    assert said(Entry(0.0, "x", kind, detail=detail))


def test_a_line_of_the_log_says_its_kind_once() -> None:
    """The kind stands in front as a pill; the words go on from there."""
    named = Entry(1.0, "alice", EntryKind.LABELLED, BOX, detail={"label": "gpu"})
    gone = Entry(1.0, "alice", EntryKind.RETIRED, BOX)
    assert [("labelled", "“gpu”"), ("retired", "")] == [
        (shown.kind, shown.said) for shown in (line(Numbered(1, named)), line(Numbered(2, gone)))
    ]


REASON = "Three probes in a row were refused, and LiteLLM's own check says the same of it. " * 2


@pytest.mark.parametrize(
    ("outcome", "tone", "at_once"),
    [("done", "good", ""), ("already so", "good", ""), ("refused", "bad", "It is locked.")],
)
def test_an_action_is_told_in_a_few_words(outcome: str, tone: str, at_once: str) -> None:
    """What and how it ended, in words of people; why is on demand, what went wrong is not."""
    detail = {
        "action": "delete_litellm",
        "outcome": outcome,
        "reason": REASON,
        "rule": "remove_unhealthy",
        "said": "It is locked.",
        "evidence": ["fails 3"],
    }
    shown = line(Numbered(1, Entry(1.0, "llmao", EntryKind.ACTION, detail=detail)))
    assert (f"remove from LiteLLM: {outcome}", tone, at_once) == (
        shown.kind,
        shown.tone,
        shown.said,
    )
    assert (REASON, "It is locked.", "rule: remove_unhealthy", "fails 3") == shown.more


def test_a_long_text_is_cut_and_told_in_full_on_demand() -> None:
    """A note of a thousand words is no line."""
    noted = Entry(1.0, "alice", EntryKind.LABELLED, BOX, detail={"label": "x", "note": "w " * 90})
    shown = line(Numbered(1, noted))
    assert len(shown.said) <= 100 < len(shown.more[0])
    assert shown.said.endswith("…")


async def test_the_policy_is_said_in_words_and_by_its_code() -> None:
    """Words to read, and the code that config.yaml knows."""
    async with rig() as world:
        text = await words(world, "/admin")
    for kind in ActionKind:
        assert capital(kind.words) in text
        assert kind.value in text
