"""The story of `llmao demo` shows what it is there to show."""

import math
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.web.demo_run import Demo, running

from llmao_core.item_kinds import ItemKind
from llmao_core.verdicts import Badge, Lifecycle
from llmao_web.demo.story import MENDED, PROVING

pytestmark = pytest.mark.sim

LOOP_S = 190.0
LOOK_S = 0.2
SHOWN_S = "9"
# What no visitor of one loop sees, and why.
NOT_SHOWN = {
    ItemKind.WITNESS_MISSING: "needs two minutes without any other server or listing answering",
}


# What stands from the start, or is told for a while: "What is left waits for a person."
LEFT = {
    ItemKind.MODEL_UNAVAILABLE,
    ItemKind.DOWN,
    ItemKind.SATURATED,
    ItemKind.ROWS_VANISHED,
    ItemKind.UNKNOWN_HOST,
    ItemKind.WRONG_KEY,
    ItemKind.NO_INSTANCE,
    ItemKind.RETIRED_AND_BILLED,
    ItemKind.DOWN_AND_BILLED,
    ItemKind.SERVES_NOTHING,
    ItemKind.UNNAMED_BOX,
    ItemKind.DISCOVERED,
    ItemKind.YAML_ROW,
}


def seen_in(view: Any) -> set[str]:
    """Return every lifecycle, badge and kind of item that a view has."""
    found = {f"item {item['kind']}" for item in view["items"]}
    for each in view["deployments"]:
        found.add(f"life {each['lifecycle']}")
        found |= {f"badge {badge['badge']}" for badge in each["badges"]}
    return found


def all_kinds() -> set[str]:
    """Return the names of all there are, without those that are not shown."""
    return {
        *(f"life {each.value}" for each in Lifecycle),
        *(f"badge {each.value}" for each in Badge),
        *(f"item {each.value}" for each in ItemKind if each not in NOT_SHOWN),
    }


def test_within_its_first_loop_a_demo_shows_every_kind_of_trouble(tmp_path: Path) -> None:
    """Whoever watches one loop has seen each lifecycle, badge and attention item.

    Played a little faster than for people, whose eyes are slower than llmao.
    """
    until = time.monotonic() + LOOP_S  # noqa: TID251 the demo runs on the machine's clock
    with running(tmp_path, "--seconds", SHOWN_S) as demo, httpx.Client(trust_env=False) as http:
        missing, left = watched(demo, http, until)
        demo.stop()
    assert set() == missing
    assert set() == left - {each.value for each in LEFT}


def watched(demo: Demo, http: httpx.Client, until: float) -> tuple[set[str], set[str]]:
    """Return what was never seen, and the kinds of items left at the end of the first rest.

    What the next loop breaks while something is still missing is not what the rest left.
    """
    missing, left, rest_ends = all_kinds(), {"none was seen"}, math.inf
    while (missing or time.monotonic() < rest_ends) and time.monotonic() < until:  # noqa: TID251
        now = time.monotonic()  # noqa: TID251
        told = demo.said.read_text()
        if rest_ends == math.inf and (MENDED.said in told or PROVING.said in told):
            rest_ends = now + float(SHOWN_S) - 1
        if view := demo.view(http):
            missing -= seen_in(view)
            resting = now < rest_ends < math.inf
            left = {item["kind"] for item in view["items"]} if resting else left
        time.sleep(LOOK_S)
    return missing, left
