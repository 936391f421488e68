"""How an order becomes true in LiteLLM, however its answers go astray.

Rule of this file: an answer that proves nothing (5xx, none, or one that is not LiteLLM's) is
followed by a look at the row itself, and never by the same write again. Ids are llmao's own, so
that a create that is repeated cannot make a second row; removals may be repeated as they are.
"""

from urllib.parse import quote

from llmao_core.actions import ActionKind, Order, Outcome, OutcomeKind, RowBody
from llmao_core.errors import FetchError, Garbled, NotYet, OutcomeUnknown, Refused
from llmao_core.hooks import FetchRequest, Http
from llmao_core.snapshots import Row

from . import translate
from .client import Heard, LiteLLM, LostError, update_path

ROW_GONE = "row_gone"
NOT_LIVE = "saved_not_live"

EXECUTES = frozenset(
    {
        ActionKind.ADD_LITELLM,
        ActionKind.UPDATE_LITELLM,
        ActionKind.REPLACE_LITELLM,
        ActionKind.DELETE_LITELLM,
        ActionKind.DELETE_DUPLICATE,
        ActionKind.PRUNE_ORPHAN,
    }
)


async def execute(order: Order, request: FetchRequest, http: Http) -> Outcome:
    """Carry out one order; raises Refused, NotYet or OutcomeUnknown.

    `said` begins with `row_gone:` when the row to update does not exist, and with
    `saved_not_live:` when it was stored and LiteLLM does not serve it.
    """
    assert order.kind in EXECUTES
    key = order.body.api_key if order.body else None
    proxy = LiteLLM(request, http, (key,) if key else ())
    if order.kind.removes:
        return await _delete(proxy, order.target)
    assert order.body is not None
    if order.kind is ActionKind.UPDATE_LITELLM:
        return await _update(proxy, order.target, order.body)
    if order.kind is ActionKind.REPLACE_LITELLM:
        await _delete(proxy, order.target)
    return await _add(proxy, order.body)


# ---- add


async def _add(proxy: LiteLLM, body: RowBody) -> Outcome:
    row_id = body.model_info["id"]
    try:
        heard = await proxy.write("POST", "/model/new", translate.create_body(body))
    except LostError as error:
        return await _look(proxy, row_id, body, f"the answer was lost: {error}")
    if heard.status == 200 and (stored := _stored_id(heard)):
        if stored != row_id:
            raise Refused(
                f"LiteLLM stored the deployment under another id ({proxy.mask(stored)}): "
                "remove that row, and use a LiteLLM that keeps model_info.id"
            )
        return Outcome(OutcomeKind.DONE)
    return await _unless_refused(proxy, row_id, body, heard)


def _stored_id(heard: Heard) -> str:
    """Return the id in the answer to a write, "" when it is no answer of LiteLLM's."""
    try:
        data = translate.parse(heard.content)
    except Garbled:
        return ""
    found = data.get("model_id") if isinstance(data, dict) else None
    return found if isinstance(found, str) else ""


async def _unless_refused(proxy: LiteLLM, row_id: str, body: RowBody, heard: Heard) -> Outcome:
    """Return how a write ended that LiteLLM did not confirm; raise Refused if it says no."""
    if 400 <= heard.status < 500 and heard.status != 408 and not heard.database_is_down:
        raise Refused(f"LiteLLM refused the deployment ({heard.status}): {_said(heard)}")
    why = f"LiteLLM answered {heard.status}: {_said(heard)}"
    return await _look(proxy, row_id, body, why, heard)


def _said(heard: Heard) -> str:
    return heard.said or "no reason given; check litellm.base_url"


# ---- the look that follows an answer which proves nothing


async def _look(
    proxy: LiteLLM, row_id: str, body: RowBody, why: str, heard: Heard | None = None
) -> Outcome:
    try:
        row = await proxy.look_up(row_id)
    except FetchError as error:
        raise OutcomeUnknown(f"{why}; and the row cannot be looked up: {error}") from None
    if row is not None and translate.holds(row, body):
        return _found(row, why, heard)
    # LiteLLM's own words mean that it has finished; a gateway's or none mean that it may not have.
    if heard is not None and heard.said:
        there = "holds another body" if row else "is not there"
        raise NotYet(f"{why}; the row {there}")
    raise OutcomeUnknown(f"{why}; the row does not show it yet")


def _found(row: Row, why: str, heard: Heard | None) -> Outcome:
    said_so = heard is not None and "not live" in translate.error_text(heard.content)
    if said_so or (heard is not None and not row.live):
        return Outcome(OutcomeKind.FAILED, f"{NOT_LIVE}: {why}")
    return Outcome(OutcomeKind.DONE, f"{why}; yet the row is there as written")


# ---- update


async def _update(proxy: LiteLLM, row_id: str, body: RowBody) -> Outcome:
    if "/" in row_id:
        raise Refused("LiteLLM cannot update a row whose id holds a “/”: remove that row there")
    current = await _current(proxy, row_id)
    changed = translate.update_body(body, row_id, current)
    try:
        heard = await proxy.write("PATCH", update_path(row_id), changed)
    except LostError as error:
        return await _look(proxy, row_id, body, f"the answer was lost: {error}")
    if heard.status == 200 and _stored_id(heard) == row_id:
        return Outcome(OutcomeKind.DONE)
    if heard.status == 404 and "not found on proxy" in translate.error_text(heard.content):
        raise Refused(_gone(row_id))
    return await _unless_refused(proxy, row_id, body, heard)


async def _current(proxy: LiteLLM, row_id: str) -> Row:
    """Return the row before it is changed, for the flags that an update must repeat."""
    try:
        row = await proxy.look_up(row_id)
    except FetchError as error:
        raise NotYet(f"the row cannot be read before its update: {error}") from None
    if row is None:
        raise Refused(_gone(row_id))
    if not row.in_db:
        raise Refused("the row stands in LiteLLM's own YAML file: change it there")
    return row


def _gone(row_id: str) -> str:
    return f"{ROW_GONE}: LiteLLM has no row {quote(row_id, safe='')}"


# ---- delete


async def _delete(proxy: LiteLLM, row_id: str) -> Outcome:
    try:
        heard = await proxy.write("POST", "/model/delete", {"id": row_id})
    except LostError as error:
        return await _look_gone(proxy, row_id, f"the answer was lost: {error}")
    words = translate.error_text(heard.content)
    if heard.status == 200 and "deleted successfully" in words:
        return Outcome(OutcomeKind.DONE)
    if heard.status == 400 and "not found in db" in words:
        return Outcome(OutcomeKind.ALREADY, "LiteLLM has no such row")
    why = f"LiteLLM answered {heard.status}: {_said(heard)}"
    if 400 <= heard.status < 500:
        # A bare 400 is what a dead database looks like here: nothing is gone.
        raise NotYet(f"not removed: {why}")
    return await _look_gone(proxy, row_id, why)


async def _look_gone(proxy: LiteLLM, row_id: str, why: str) -> Outcome:
    try:
        row = await proxy.look_up(row_id)
    except FetchError as error:
        raise OutcomeUnknown(f"{why}; and the row cannot be looked up: {error}") from None
    if row is not None:
        raise OutcomeUnknown(f"{why}; the row is still there")
    return Outcome(OutcomeKind.DONE, f"{why}; yet the row is gone")
