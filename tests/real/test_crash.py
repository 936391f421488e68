"""llmao killed in the middle of a write: never a second row, and none is lost."""

from collections.abc import Callable

import pytest

from .conftest import Figures, Lab, NewLlmao
from .llmao import Llmao
from .proxy import Proxy
from .timing import holds_for, pause, seconds_until

pytestmark = pytest.mark.real

ROUTED_S = 60
# Between one pass and the next read of the deployments, and some more.
STEADY_S = 8

# What is waited for before the kill, and for how much longer.
MOMENTS = (
    ("planned", 0.0),
    ("planned", 0.1),
    ("planned", 0.25),
    ("stored", 0.0),
    ("logged", 0.0),
    ("logged", 0.5),
)


def test_a_kill_at_any_moment_of_an_add_leaves_one_row(
    lab: Lab, proxy: Proxy, new_llmao: NewLlmao, figures: Figures
) -> None:
    """Killed when the add is planned, under way, stored or just answered, and started again:
    there is never a second row, a row that was stored is the one that stays, and nothing is
    removed."""
    lab.serve(lab.first)
    for moment, further_s in MOMENTS:
        llmao = new_llmao(lab.first)
        llmao.start()
        seconds_until(_reached(moment, llmao, proxy), ROUTED_S, moment)
        pause(further_s)
        llmao.kill()
        stored = proxy.stored()
        figures(f"killed {further_s} s after {moment}", f"{len(stored)} stored")
        assert len(stored) <= 1
        written = len(llmao.actions())

        llmao.start()
        took_s = seconds_until(lambda: len(proxy.bases()) == 1, ROUTED_S, "routed")
        figures("started again → routed", took_s)
        holds_for(STEADY_S, lambda: len(proxy.stored()) == 1, "one row")
        assert stored in ([], proxy.stored())
        assert proxy.answers()
        later = llmao.actions()[written:]
        assert {"add_litellm"} >= {each["kind"] for each in later}, later
        llmao.kill()
        proxy.clear()


def _reached(moment: str, llmao: Llmao, proxy: Proxy) -> Callable[[], object]:
    if moment == "planned":
        return lambda: any(each["runs"] for each in llmao.passes())
    return proxy.stored if moment == "stored" else llmao.actions
