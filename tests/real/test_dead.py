"""A vLLM that dies or hangs leaves LiteLLM, and comes back when it serves again."""

import pytest

from .conftest import POLL_S, Figures, Lab, NewLlmao
from .proxy import Proxy
from .timing import holds_for, seconds_until

pytestmark = pytest.mark.real

ROUTED_S = 60
# A row just written is left alone until a read that began `poll_interval_s` later.
CONFIRMED_S = 2 * POLL_S
LOADED_S = 240
KILLED_S = 12
# No other server answers llmao: LiteLLM's own check decides.
KILLED_ALONE_S = 60
# Three time-outs of 3 s at an interval of 6 s, then LiteLLM's check of 10 s; idle about 30 s.
HUNG_S = 45


def test_a_hung_server_is_removed_and_comes_back(
    lab: Lab, proxy: Proxy, new_llmao: NewLlmao, figures: Figures
) -> None:
    """Halted by SIGSTOP it takes connections and answers nothing: its deployment goes, that of
    the other stays; when it goes on, it is routed and answers."""
    lab.serve(lab.first, lab.second)
    llmao = new_llmao(lab.first, lab.second)
    llmao.start()
    both = {lab.first.url, lab.second.url}
    seconds_until(lambda: proxy.bases() == both, ROUTED_S, "both routed")
    holds_for(CONFIRMED_S, lambda: proxy.bases() == both, "both routed")

    lab.first.freeze()
    try:
        gone = seconds_until(lambda: lab.first.url not in proxy.bases(), HUNG_S, "gone")
        figures("hung → gone", gone)
        assert {lab.second.url} == proxy.bases()
        assert proxy.answers()
    finally:
        lab.first.thaw()
    back = seconds_until(lambda: proxy.bases() == both, ROUTED_S, "back")
    figures("goes on → routed", back)
    assert proxy.answers(_id_of(proxy, lab.first.url))


def test_a_killed_server_is_removed_and_comes_back(
    lab: Lab, proxy: Proxy, new_llmao: NewLlmao, figures: Figures
) -> None:
    """Killed while another serves, its deployment is gone within 12 s; started again it is
    routed and answers."""
    lab.serve(lab.first, lab.second)
    llmao = new_llmao(lab.first, lab.second)
    llmao.start()
    both = {lab.first.url, lab.second.url}
    seconds_until(lambda: proxy.bases() == both, ROUTED_S, "both routed")
    holds_for(CONFIRMED_S, lambda: proxy.bases() == both, "both routed")

    lab.first.kill()
    gone = seconds_until(lambda: lab.first.url not in proxy.bases(), KILLED_S, "gone")
    figures("killed → gone", gone)
    assert {lab.second.url} == proxy.bases()

    lab.first.start()
    lab.first.wait_ready(LOADED_S)
    back = seconds_until(lambda: proxy.bases() == both, ROUTED_S, "back")
    figures("ready → routed", back)
    assert proxy.answers(_id_of(proxy, lab.first.url))


def test_the_only_server_goes_on_litellms_word(
    lab: Lab, proxy: Proxy, new_llmao: NewLlmao, figures: Figures
) -> None:
    """Nothing else answers llmao, so it could be its own network: the deployment goes when
    LiteLLM's own check fails, too."""
    lab.serve(lab.first)
    llmao = new_llmao(lab.first)
    llmao.start()
    seconds_until(proxy.bases, ROUTED_S, "routed")
    row_id = proxy.row()["model_info"]["id"]
    holds_for(CONFIRMED_S, lambda: bool(proxy.bases()), "routed")

    lab.first.kill()
    gone = seconds_until(lambda: not proxy.bases(), KILLED_ALONE_S, "gone")
    figures("only server killed → gone", gone)
    checks = proxy.request("GET", "/health/latest").json()["latest_health_checks"]
    assert "unhealthy" == checks[row_id]["status"]
    assert ["dead-row"] == [each["rule"] for each in llmao.actions("delete_litellm")]


def _id_of(proxy: Proxy, url: str) -> str:
    [row] = [row for row in proxy.rows() if row["litellm_params"]["api_base"] == f"{url}/v1"]
    row_id: str = row["model_info"]["id"]
    return row_id
