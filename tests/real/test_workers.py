"""A LiteLLM of two workers, of which one knows of a write only some seconds later."""

from collections.abc import Iterator

import pytest
from tests.real.lab.litellm import LiteLLM

from .conftest import Figures, Lab, NewLlmao
from .proxy import Proxy
from .timing import holds_for, now, pause, seconds_until

pytestmark = pytest.mark.real

# How often the workers read the database, and what llmao is told: a read takes time, and on a
# busy machine one is left out.
RELOAD_S = 6
POLL_S = 20
ROUTED_S = 60
# The only server there is: LiteLLM's own check decides, and it may have to ask twice.
GONE_S = 60


@pytest.fixture(scope="module")
def workers() -> Iterator[LiteLLM]:
    """A proxy whose workers read the database every 6 s."""
    env = {"PROXY_CONFIG_RELOAD_INTERVAL_SECONDS": str(RELOAD_S)}
    with LiteLLM(workers=2, env=env) as litellm:
        yield litellm


def test_a_write_is_not_repeated_while_the_other_worker_lags(
    lab: Lab, workers: LiteLLM, new_llmao: NewLlmao, figures: Figures
) -> None:
    """One add and one delete are sent, whatever the other worker still says about them."""
    lab.serve(lab.first)
    proxy = Proxy(workers)
    llmao = new_llmao(lab.first, on=workers, poll_s=POLL_S)
    llmao.start()
    seconds_until(proxy.stored, ROUTED_S, "stored")
    [(row_id, _)] = stored = proxy.stored()
    figures("add stored → told by both workers", _settled_s(proxy, {lab.first.url}))
    holds_for(POLL_S, lambda: proxy.stored() == stored, "that one row")
    assert 1 == proxy.served("POST /model/new"), llmao.actions()
    assert proxy.answers(row_id)

    lab.first.kill()
    seconds_until(lambda: not proxy.stored(), GONE_S, "removed")
    figures("delete stored → told by both workers", _settled_s(proxy, set()))
    holds_for(POLL_S, lambda: not proxy.stored(), "no row")
    assert 1 == proxy.served("POST /model/delete"), llmao.actions()
    assert ["add_litellm", "delete_litellm"] == [each["kind"] for each in llmao.actions()]


def _settled_s(proxy: Proxy, bases: set[str]) -> float:
    """Return how long some worker said otherwise; watched until llmao, too, trusts a read."""
    began = last = now()
    while now() - began < POLL_S:
        if proxy.bases() != bases:
            last = now()
        pause(0.1)
    return last - began
