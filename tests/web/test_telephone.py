"""Long pages on a telephone: what is fine takes one line, and every entry of the log a few."""

import re

import pytest
from attrs import evolve

from llmao_core.records import Badge, Lifecycle, Record
from llmao_web.pages.names import is_fine
from llmao_web.pages.render import STATIC

from .visiting import Text, full, visit
from .worlds import a_view


def healthy() -> Record:
    return next(one for one in a_view().records if is_fine(one))


async def page_with(record: Record) -> str:
    """Return the admins' page of one deployment and its model."""
    desk, view = full(), a_view()
    desk.seen = evolve(view, records=(record,))
    return (await visit(desk)).text


async def test_what_is_fine_can_be_unfolded() -> None:
    """By a word of its own, without a script, which those who hear the page are told, too."""
    html = await page_with(healthy())
    (row,) = re.findall(r'<tr role="row" id="d-[0-9a-f]+" class="fine">.*?</tr>', html, re.DOTALL)
    assert '<summary><span class="unseen">Details</span></summary></details>' in row
    assert healthy().key.shown in Text(row).words


@pytest.mark.parametrize(
    "change",
    [
        {"lifecycle": Lifecycle.LOADING},
        {"lifecycle": Lifecycle.UNHEALTHY},
        {"fresh": False},
        {"held": True},
        {"drained": True},
        {"restarting": True},
        {"unlisted": True},
        {"write_trouble": "LiteLLM refused it."},
    ],
)
async def test_what_asks_for_a_look_says_why_before_it_is_unfolded(
    change: dict[str, object],
) -> None:
    """Nor does it hide its buttons; so does what an admin or llmao has taken off for a while."""
    html = await page_with(healthy()._replace(**change))  # type: ignore[arg-type]
    assert 'class="fine"' not in html
    css = (STATIC / "llmao.css").read_text()
    folded = re.findall(
        r"\.deployments tbody tr:not\(:has\(\.unfold\[open\]\)\) :is\((.*)\) \{ display: none", css
    )
    assert ["td:nth-child(n + 3):not(:last-child), th .why:not(.model-name)"] == folded


@pytest.mark.parametrize(
    ("badge", "tone"), [(Badge.BODY_MISMATCH, "plain"), (Badge.OPEN_PATHS, "fair")]
)
async def test_a_folded_line_keeps_the_badges_that_need_somebody(badge: Badge, tone: str) -> None:
    """What llmao puts right by itself folds with the rest; the style sheet goes by the tone."""
    html = await page_with(healthy()._replace(badges=(badge,)))
    assert 'class="fine"' in html
    assert f'<details class="badge {tone}">' in html
    css = (STATIC / "llmao.css").read_text()
    (folded,) = re.findall(r"\.fine:not\(:has\(\.unfold\[open\]\)\) :is\((.*?)\) \{ display", css)
    assert {".badge.plain"} == {one for one in folded.split(", ") if "badge" in one}
