"""`llmao demo --litellm`: its simulated boxes behind a real proxy, and nothing of it afterwards."""

from pathlib import Path

import pytest
from tests.web.demo_run import running

from llmao_web.commands.demo import KEY_VARIABLE
from llmao_web.demo.fleet import CHAT, EMBEDDING, FLEET

from .conftest import Figures, Lab
from .proxy import Proxy
from .timing import now, seconds_until

pytestmark = pytest.mark.real

ROUTED_S = 60
THEIRS = "gpt-team"


def stored(proxy: Proxy) -> set[str]:
    """Return the model of every row in LiteLLM's database."""
    said = proxy.litellm.postgres.sql('SELECT model_name FROM "LiteLLM_ProxyModelTable"')
    return set(said.split())


def test_its_servers_are_routed_and_its_rows_go_with_it(
    lab: Lab, proxy: Proxy, tmp_path: Path, figures: Figures
) -> None:
    """A caller of the proxy is answered by a simulated server within a minute; Ctrl-C leaves the
    proxy with what others have there, and its key was nowhere to be read."""
    proxy.add(THEIRS, {"model": "openai/gpt", "api_base": "http://127.0.0.1:9/v1"})
    key = lab.litellm.master_key
    with running(tmp_path, "--litellm", lab.litellm.url, env={KEY_VARIABLE: key}) as demo:
        for model in (EMBEDDING, CHAT):
            routed = lambda model=model: model in stored(proxy)  # noqa: E731
            figures(f"start of the demo → {model} written", seconds_until(routed, ROUTED_S, model))
        figures("→ answered", seconds_until(lambda: proxy.answers(CHAT), ROUTED_S, "answered"))
        fleets = {row["model_info"].get("llmao_fleet") for row in proxy.rows()} - {None}
        began = now()
        said = demo.stop()
    figures("Ctrl-C → ended", now() - began)
    assert 0 == demo.process.returncode, said
    assert {True} == {fleet.startswith(f"{FLEET}-") for fleet in fleets}
    assert {THEIRS} == stored(proxy)
    assert [THEIRS] == [row["model_name"] for row in proxy.rows()]
    assert "Removed the demo's" in said
    assert key not in said
