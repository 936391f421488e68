"""llmao puts a serving vLLM into LiteLLM and keeps its deployment as configured."""

import json
import subprocess
from typing import Any

import pytest

from .conftest import POLL_S, Figures, Lab, NewLlmao
from .proxy import Caller, Proxy
from .timing import holds_for, now, seconds_until

pytestmark = pytest.mark.real

ROUTED_S = 60
# One read of the deployments (5 s), and a write of up to a second on a busy machine.
PUT_BACK_S = 30


def test_a_serving_vllm_is_planned_added_and_asked(
    lab: Lab, proxy: Proxy, new_llmao: NewLlmao, figures: Figures
) -> None:
    """`plan` wants one add and writes nothing; `serve` makes it, a caller is answered through
    LiteLLM, the row carries llmao's stamp, and then `plan` wants nothing."""
    lab.serve(lab.first)
    llmao = new_llmao(lab.first)
    before = llmao.run("plan", "--json")
    assert 2 == before.returncode, before.stderr
    [action] = json.loads(before.stdout)["actions"]
    assert ("add_litellm", "serving-absent", True) == (
        action["kind"], action["rule"], action["runs"],
    )  # fmt: skip
    assert [] == proxy.rows()
    assert [] == proxy.stored()

    llmao.start()
    figures("start of llmao → routed", seconds_until(proxy.bases, ROUTED_S, "routed"))
    assert proxy.answers()
    row = proxy.row()
    info, params = row["model_info"], row["litellm_params"]
    assert f"{lab.first.url}/v1" == params["api_base"]
    assert (lab.first.url, "real", lab.first.url, True) == (
        info["llmao_key"], info["llmao_fleet"], info["asf_api_base"], info["self_hosted"],
    )  # fmt: skip
    assert info["id"].startswith("llmao-")
    assert info["llmao_hash"]
    assert action["litellm_id"] in ("", None, info["id"])

    after = llmao.run("plan")
    assert 0 == after.returncode, after.stdout + after.stderr
    assert 0 == llmao.stop()
    assert 1 == len(llmao.actions()), "one add is all that was written"


def test_a_deployment_deleted_or_edited_by_hand_is_put_back(
    lab: Lab, proxy: Proxy, new_llmao: NewLlmao, figures: Figures
) -> None:
    """Deleted, sent elsewhere, given another time-out, blocked: each is undone, the row keeps
    its id, and the log says by which rule and why."""
    lab.serve(lab.first)
    llmao = new_llmao(lab.first)
    llmao.start()
    seconds_until(proxy.bases, ROUTED_S, "routed")
    row_id = proxy.row()["model_info"]["id"]
    edits: dict[str, dict[str, Any]] = {
        "api_base": {"litellm_params": {"api_base": f"{lab.second.url}/v1"}},
        "timeout": {"litellm_params": {"timeout": 7}},
        "blocked": {"blocked": True},
    }

    def as_configured() -> bool:
        rows = [row for row in proxy.rows() if row["model_info"]["id"] == row_id]
        return [(f"{lab.first.url}/v1", 600, False)] == [
            (each["litellm_params"]["api_base"], each["litellm_params"]["timeout"],
             each["model_info"]["blocked"])
            for each in rows
        ]  # fmt: skip

    for number, (field, edit) in enumerate(edits.items(), 1):
        holds_for(2 * POLL_S, as_configured, "as configured")
        began = now()
        proxy.edit(row_id, **{"model_info": {"id": row_id}, **edit})
        action = llmao.wait_for_action(number, PUT_BACK_S)
        assert ("update_litellm", "done") == (action["kind"], action["outcome"])
        assert action["rule"] in ("body-differs", "moved")
        assert action["reason"]
        seconds_until(as_configured, 5, "as configured")
        figures(f"{field} edited → put back", now() - began)

    proxy.delete(row_id)
    took_s = seconds_until(as_configured, PUT_BACK_S, "put back")
    figures("deleted → put back", took_s)
    action = llmao.wait_for_action(len(edits) + 1, 5)
    assert ("add_litellm", "serving-absent") == (action["kind"], action["rule"])
    assert action["reason"]
    assert proxy.answers()


def test_a_changed_model_is_taken_up_in_place(
    lab: Lab, proxy: Proxy, new_llmao: NewLlmao, figures: Figures
) -> None:
    """models.yaml changes and SIGHUP comes: the same row has the new values, and who asks
    meanwhile is answered."""
    lab.serve(lab.first)
    llmao = new_llmao(lab.first)
    llmao.start()
    seconds_until(proxy.bases, ROUTED_S, "routed")
    stored = proxy.stored()

    def changed() -> bool:
        row = proxy.row()
        order, recipe = row["litellm_params"].get("order"), row["model_info"]["vllm"]
        return (3, 512) == (order, recipe["max_model_len"])

    with Caller(proxy) as caller:
        llmao.write_model({"max_model_len": 512}, order=3)
        llmao.reload()
        figures("SIGHUP → row changed", seconds_until(changed, PUT_BACK_S, "changed"))
        seconds_until(lambda: len(caller.asked) > 20, 60, "asked 20 times")
    llmao.stop()
    assert [] == caller.errors
    assert stored == proxy.stored(), "the same row, created when it was"
    assert ["add_litellm", "update_litellm"] == [each["kind"] for each in llmao.actions()]


def test_no_secret_is_shown(lab: Lab, proxy: Proxy, new_llmao: NewLlmao) -> None:
    """Neither fleet key, salt, bearers nor master key stand on a page, in what `plan` and
    `explain` print, or in the log, before and after a server is routed."""
    lab.serve(lab.first, lab.second)
    llmao = new_llmao(lab.first, lab.second)
    shown = [_printed(llmao.run(*command)) for command in _commands(lab)]
    llmao.start()
    seconds_until(lambda: len(proxy.bases()) == 2, ROUTED_S, "both routed")
    page = llmao.page("/models")
    assert 200 == page.status_code
    assert lab.first.host in page.text
    shown += [page.text, llmao.page("/readyz").text, llmao.page("/vllm/config").text]
    shown += [_printed(llmao.run(*command)) for command in _commands(lab)]
    llmao.stop()
    assert [] == llmao.leaks("\n".join((*shown, llmao.log.read_text())))


def _commands(lab: Lab) -> list[tuple[str, ...]]:
    host = lab.first.host
    return [("plan",), ("plan", "--json"), ("explain", host), ("explain", host, "--json")]


def _printed(ended: subprocess.CompletedProcess[str]) -> str:
    return ended.stdout + ended.stderr
