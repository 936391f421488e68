"""What the callers of a pool notice when one of its members dies."""

import pytest

from .conftest import POLL_S, Figures, Lab, NewLlmao
from .proxy import MODEL, Caller, Proxy
from .timing import holds_for, now, pause, seconds_until

pytestmark = pytest.mark.real

ROUTED_S = 60
GONE_S = 20
BY_HAND = "by-hand"
# LiteLLM alone keeps asking the dead member: how much that costs is measured for so long.
WATCHED_S = 45
# LiteLLM picks by chance for each of ten tries, at most sixteen times: see docs/decisions/0005.
BY_CHANCE = 1


def test_a_pool_goes_on_when_a_member_dies(
    lab: Lab, proxy: Proxy, new_llmao: NewLlmao, figures: Figures
) -> None:
    """A caller asks every 0.2 s while one of two members is killed, and sees no error but for one
    kill in sixty, and none once the route is gone. Beside it another caller asks the same two
    servers through deployments made by hand with LiteLLM's own defaults, which nobody takes out:
    what that costs is a figure."""
    lab.serve(lab.first, lab.second)
    llmao = new_llmao(lab.first, lab.second)
    llmao.start()
    for each in (lab.first, lab.second):
        params = {"model": f"hosted_vllm/{MODEL}", "api_base": f"{each.url}/v1"}
        proxy.add(BY_HAND, {**params, "api_key": each.bearer})
    seconds_until(lambda: len(proxy.bases()) == 2, ROUTED_S, "both routed")
    for row in proxy.rows():
        assert proxy.answers(row["model_info"]["id"])

    with Caller(proxy) as caller, Caller(proxy, BY_HAND) as other:
        holds_for(2 * POLL_S, lambda: len(proxy.bases()) == 2, "both routed")
        seconds_until(lambda: min(len(caller.asked), len(other.asked)) > 20, 60, "asking")
        assert [] == caller.errors + other.errors
        lab.second.kill()
        gone = seconds_until(lambda: lab.second.url not in proxy.bases(), GONE_S, "gone")
        removed = now()
        figures("member killed under load → gone", gone)
        pause(WATCHED_S - gone)
    figures("as llmao writes it", caller.says())
    figures("LiteLLM's defaults, by hand", other.says())
    assert [] == [each for each in caller.errors if each.at > removed]
    assert BY_CHANCE >= len(caller.errors), caller.errors
    assert 2 == sum(row["model_name"] == BY_HAND for row in proxy.rows()), "not ours: untouched"
