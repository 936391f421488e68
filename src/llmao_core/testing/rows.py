"""Hypothesis strategies for LiteLLM's rows: ours in any state, other people's, and nonsense.

Rule of this file: a row of ours is made from the body llmao would write, then damaged.
"""

from typing import Any

from attrs import evolve
from hypothesis import strategies as st

from llmao_core.draft import row_body
from llmao_core.intended import Deployment, Intended
from llmao_core.keys import normalise_base
from llmao_core.records import View
from llmao_core.snapshots import Row

from .fleets import FLEET, pick

_BASES = ("http://203.0.113.1:40001", "http://203.0.113.2:40001", "http://203.0.113.1:8001")
_GARBAGE: tuple[Any, ...] = (None, [], {"a": 1}, 17, "x", True, float("inf"))
_STATES = (
    "right", "right", "right", "right", "none", "none", "elsewhere", "unstamped", "other fleet",
    "of a file", "twice", "blocked", "not live", "edited", "older", "garbage", "older salt",
)  # fmt: skip


def written(deployment: Deployment, url: str) -> Row:
    """Return the row that reads back after llmao wrote this deployment at this address."""
    body = row_body(deployment, deployment.body, url, deployment.litellm_id)
    info = dict(body.model_info)
    return Row(
        id=deployment.litellm_id,
        model_name=body.model_name,
        base=normalise_base(body.api_base),
        params={**body.litellm_params, "api_base": body.api_base},
        info=info,
        stamped_base=normalise_base(info["asf_api_base"]),
        llmao_key=info["llmao_key"],
        fleet=info["llmao_fleet"],
        hash=info["llmao_hash"],
    )


def _without_stamp(row: Row, new_id: str) -> Row:
    return evolve(row, id=new_id, info={}, llmao_key="", fleet="", hash="", stamped_base="")


@st.composite
def _rows(draw: st.DrawFn, deployment: Deployment, url: str) -> tuple[Row, ...]:
    state = pick(draw, _STATES)
    row = written(deployment, url)
    if state == "none":
        return ()
    if state == "elsewhere":
        return (written(deployment, pick(draw, _BASES)),)
    if state == "older salt":
        return (written(deployment.previous or deployment, url),)
    if state == "twice":
        return (row, evolve(row, id="a-copy"), _without_stamp(row, "unstamped-copy"))
    other = pick(draw, _GARBAGE)
    odd = {
        "unstamped": lambda: _without_stamp(row, "by-hand"),
        "other fleet": lambda: evolve(row, id="theirs", fleet="other"),
        "of a file": lambda: evolve(row, id="from-file", in_db=False),
        "blocked": lambda: evolve(row, blocked=True),
        "not live": lambda: evolve(row, live=False),
        "edited": lambda: evolve(row, params={**row.params, "timeout": 1}),
        "older": lambda: evolve(
            row, hash="0", info={**row.info, "llmao_fields": ["model_info.gone"]}
        ),
        "garbage": lambda: evolve(
            row,
            info={**row.info, "llmao_fields": other, "self_hosted": other},
            params={**row.params, "api_base": other, "model": other},
        ),
    }
    return (odd[state](),) if state in odd else (row,)


@st.composite
def rows_of(draw: st.DrawFn, intended: Intended, view: View | None) -> tuple[Row, ...]:
    """Rows for the deployments of a configuration, at the right address or at another."""
    urls = {record.key: record.dialable for record in view.records} if view else {}
    found: list[Row] = []
    for one in intended.deployments:
        deployment = pick(draw, (one, one, one, *one.former))
        url = urls.get(one.key) or pick(draw, _BASES)
        found += draw(_rows(deployment, url))
    return tuple({row.id: row for row in found}.values())


_ORPHAN = Row(
    "llmao-orphan", "m0", "http://203.0.113.2:40001",
    {"model": "hosted_vllm/m0", "api_base": "http://203.0.113.2:40001/v1"},
    {"self_hosted": True, "llmao_fields": []}, "http://203.0.113.2:40001",
    "http://203.0.113.9:8001", FLEET, "1",
)  # fmt: skip
_LOOSE = (
    _ORPHAN,
    evolve(_ORPHAN, id="llmao-displaced", model_name="m9", llmao_key="http://203.0.113.1:8001"),
    evolve(_ORPHAN, id="llmao-bad", llmao_key="http://:0", base="", params={"model": 5}),
    evolve(_ORPHAN, id="llmao-not-a-box", llmao_key="https://px.example", info={}),
    evolve(_ORPHAN, id="llmao-same-key", base="http://203.0.113.1:40001"),
    evolve(_ORPHAN, id="stranger-fleet", fleet="other"),
    Row("stranger", "gpt-4", "https://api.example"),
    Row("stranger-beside", "m0", "http://203.0.113.1:40001"),
    Row("stranger-in-file", "m0", "http://203.0.113.1:8001", in_db=False),
    Row("", "", ""),
)


@st.composite
def loose_rows(draw: st.DrawFn) -> tuple[Row, ...]:
    """Rows that belong to no deployment: orphans of ours, other people's, nonsense."""
    return tuple(draw(st.lists(st.sampled_from(_LOOSE), max_size=2, unique_by=lambda row: row.id)))
