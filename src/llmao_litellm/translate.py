"""What LiteLLM's answers mean, and what a deployment looks like on its way there.

Rule of this file: bytes and records in, records out; nothing here waits, asks or keeps anything.
An answer that makes no sense is Garbled, and the message says which part of it, never what it held.

LiteLLM writes one row several times into a list: an alias of a model group repeats the row's id
under the alias, a wildcard row repeats it once per model it stands for. The first is the row.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from attrs import frozen

from llmao_core.actions import RowBody
from llmao_core.config import Json
from llmao_core.errors import Garbled
from llmao_core.keys import normalise_base
from llmao_core.secret import Secret
from llmao_core.snapshots import Opinion, Row

ID_PREFIX = "llmao-"
FLAGS = (
    "allow_client_keepalive_override",
    "merge_reasoning_content_in_choices",
    "use_in_pass_through",
    "use_litellm_proxy",
    "use_xai_oauth",
)
# A fleet of 10 000 is about 80 MB; more than this is not a list of deployments.
_MAX_BYTES = 256 * 1024 * 1024
_SAID_CHARS = 200
# LiteLLM masks a parameter when one part of its name is one of these.
_MASKED_PARTS = frozenset(
    ("access", "auth", "authorization", "certificate", "cookie", "credential", "credentials",
     "fingerprint", "key", "password", "private", "secret", "tenancy", "token")
)  # fmt: skip
_SECRET_ENDS = ("api_key", "access_key", "secret_key", "private_key", "password", "secret", "token",
                "credential", "credentials")  # fmt: skip
_SECRETS = (
    (re.compile(r"(?i)\b(bearer|basic)\s+[^\s\"',}]+"), r"\1 ***"),
    (re.compile(r"(?i)\b(sk|rpa|hf|key)[-_][\w\-.…*]{3,}"), r"\1-***"),
    (
        re.compile(
            r"(?i)((?:api[_ -]?key|token|password|secret|authorization)"
            r"[\"']?(?:\s*\([^)]*\))?\s*[=:]\s*)[^\s,}]+"
        ),
        r"\1***",
    ),
    (re.compile(r"(?<=://)[^/\s@]+@"), "***@"),
    (re.compile(r"(?<!llmao-)\b(?!llmao-)[A-Za-z0-9+/_=]{32,}"), "***"),
)


def masked(text: str, secrets: Iterable[Secret | None] = ()) -> str:
    """Return a short excerpt on one line in which no secret is left."""
    for secret in secrets:
        if secret:
            text = text.replace(secret.reveal(), "***")
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= _SAID_CHARS else line[: _SAID_CHARS - 1] + "…"


def parse(content: bytes) -> Any:
    """Return the JSON of an answer; Garbled says what it is instead.

    A number that is no number becomes null, half a character a question mark.
    """
    if len(content) > _MAX_BYTES:
        raise Garbled(f"LiteLLM's answer is larger than {_MAX_BYTES // 2**20} MB")
    if content.lstrip()[:1] == b"<":
        raise Garbled("LiteLLM answered with a web page; check that base_url is the proxy's own")
    try:
        data = json.loads(content, parse_constant=lambda _: None)
        if b"\\ud" in content.lower():
            whole = json.dumps(data, ensure_ascii=False).encode("utf-8", "replace")
            data = json.loads(whole)
    except (ValueError, RecursionError):
        raise Garbled("LiteLLM's answer is not JSON, or only half of it came") from None
    return data


def error_text(content: bytes) -> str:
    """Return the words of an error answer, unmasked; "" when there are none.

    LiteLLM puts them in `error.message` (often the repr of a dict), `error`, `detail` or
    `detail.error`.
    """
    try:
        data = parse(content)
    except Garbled:
        return ""
    return _words(data)


def error_type(content: bytes) -> str:
    """Return `error.type` of an error answer, "" when there is none."""
    try:
        data = parse(content)
    except Garbled:
        return ""
    error = data.get("error") if isinstance(data, dict) else None
    kind = error.get("type") if isinstance(error, dict) else None
    return kind if isinstance(kind, str) else ""


def _words(data: object, depth: int = 4) -> str:
    if isinstance(data, str):
        return data
    if isinstance(data, list) and data and depth:
        return _words(data[0], depth - 1)
    if isinstance(data, dict) and depth:
        for name in ("error", "detail", "message", "msg"):
            if found := _words(data.get(name), depth - 1):
                return found
    return ""


# ---- deployments


def entries(content: bytes) -> list[Any]:
    """Return the entries of a `/model/info` answer, unread."""
    data = parse(content)
    if not isinstance(data, dict):
        raise Garbled("LiteLLM's list of deployments is not an object")
    if "data" not in data and (words := _words(data)):
        raise Garbled(f"LiteLLM answered 200 with an error inside: {masked(words)}")
    listed = data.get("data")
    if not isinstance(listed, list):
        raise Garbled("LiteLLM's list of deployments has no list in `data`")
    return listed


def rows(content: bytes) -> tuple[Row, ...]:
    """Return every row of a `/model/info` answer, once each, or raise Garbled.

    A row that cannot be ours may hold nonsense: what cannot be read of it is left empty. In any
    other it is Garbled, because a row of ours that is left out looks like one that is gone.
    """
    found: dict[str, Row] = {}
    for place, entry in enumerate(entries(content)):
        row = read_row(entry, place)
        first = found.setdefault(row.id, row)
        if first is not row and first.model_name == row.model_name and first != row:
            _unless_foreign(row.id, {**first.info, **row.info}, place, "repeats an id differently")
    return tuple(found.values())


def read_row(entry: object, place: int = 0, *, live: bool = True) -> Row:
    """Return one entry of `/model/info` as a row; Garbled names its place, from 0."""
    if not isinstance(entry, dict):
        raise Garbled(f"LiteLLM's list of deployments: entry {place} is not an object")
    info = entry.get("model_info")
    if not isinstance(info, dict):
        raise Garbled(f"LiteLLM's list of deployments: entry {place} has no model_info")
    row_id = info.get("id")
    if not isinstance(row_id, str) or not row_id:
        raise Garbled(f"LiteLLM's list of deployments: entry {place} has no id")
    name, params = entry.get("model_name"), entry.get("litellm_params")
    if not isinstance(name, str):
        _unless_foreign(row_id, info, place, "has no model_name")
        name = ""
    if not isinstance(params, dict):
        _unless_foreign(row_id, info, place, "has no litellm_params")
        params = {}
    return Row(
        id=row_id,
        model_name=name,
        base=_base(params.get("api_base")),
        params={k: v for k, v in params.items() if v is not None and not _is_hidden(k, v)},
        info={k: v for k, v in info.items() if v is not None and not _is_secret(k)},
        stamped_base=_base(info.get("asf_api_base")),
        llmao_key=_text(info.get("llmao_key")),
        fleet=_text(info.get("llmao_fleet")),
        hash=_text(info.get("llmao_hash")),
        in_db=info.get("db_model") is not False,
        blocked=info.get("blocked") is True,
        live=live,
    )


def _unless_foreign(row_id: str, info: Json, place: int, what: str) -> None:
    if row_id.startswith(ID_PREFIX) or any(name.startswith("llmao_") for name in info):
        raise Garbled(f"LiteLLM's list of deployments: entry {place}, which may be llmao's, {what}")


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _base(value: object) -> str:
    return normalise_base(value) if isinstance(value, str) else ""


def _is_hidden(name: str, value: object) -> bool:
    """Tell whether LiteLLM masks a parameter or a part of it, so that it cannot be compared."""
    parts = name.lower().replace("-", "_").split("_")
    if "cost" not in parts and _MASKED_PARTS.intersection(parts):
        return True
    if isinstance(value, Mapping):
        return any(_is_hidden(str(inner), within) for inner, within in value.items())
    if isinstance(value, list):
        return any(isinstance(each, Mapping) and _is_hidden("", each) for each in value)
    return False


def _is_secret(name: str) -> bool:
    """Tell whether a model_info field is named like a secret: LiteLLM shows those to anybody."""
    plain = name.lower().replace("-", "_")
    return plain.endswith(_SECRET_ENDS) and "cost" not in plain


# ---- health


@frozen
class Check:
    """One saved result of `/health/latest`.

    saved_at: as LiteLLM wrote it, to tell one from another. checked_at: when it began, as far as
    that can be told. background: made by LiteLLM's own schedule.
    """

    healthy: bool
    said: str
    saved_at: str
    checked_at: float
    background: bool


_BACKGROUND = "background_health_check"
# How long LiteLLM lets a check run: a background result does not say when it began.
_CHECK_TAKES_S = 60.0


_CLASS_NAMES = re.compile(r"^(?:[\w.]+(?:Error|Exception)(?::| -)\s*)+")


def latest_checks(content: bytes) -> dict[str, Check]:
    """Return the results of `/health/latest` that speak of one row each, by LiteLLM id.

    Left out: results by name, and those where some members of a pool are healthy and some are
    not (the background check counts them together under each).
    """
    data = parse(content)
    listed = data.get("latest_health_checks") if isinstance(data, dict) else None
    if not isinstance(listed, dict):
        raise Garbled("LiteLLM's latest health checks are not an object")
    return {key: check for key, entry in listed.items() if (check := _check(key, entry))}


def _check(key: str, entry: object) -> Check | None:
    if not isinstance(entry, dict) or entry.get("model_id") != key:
        return None
    status, saved = entry.get("status"), entry.get("checked_at")
    ended = _epoch(saved)
    if status not in ("healthy", "unhealthy") or ended is None:
        return None
    if entry.get("healthy_count") and entry.get("unhealthy_count"):
        return None
    background = entry.get("checked_by") == _BACKGROUND
    took = _CHECK_TAKES_S if background else _milliseconds(entry.get("response_time_ms"))
    said = "" if status == "healthy" else health_said(entry.get("error_message"))
    return Check(status == "healthy", said, str(saved), ended - took, background)


def _epoch(text: object) -> float | None:
    if not isinstance(text, str):
        return None
    try:
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def _milliseconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return 0.0
    return min(max(value / 1000, 0.0), 600.0)


def health_said(error: object) -> str:
    """Return the first line of a health error, masked, without LiteLLM's class names."""
    lines = error.strip().splitlines() if isinstance(error, str) else []
    return masked(_CLASS_NAMES.sub("", lines[0] if lines else ""))


def opinions(checks: Mapping[str, Check], now: float) -> dict[str, Opinion]:
    """Return saved results as opinions; one from the future is one from now."""
    return {
        key: Opinion(check.healthy, min(check.checked_at, now), check.said)
        for key, check in checks.items()
    }


def verdicts(content: bytes) -> dict[str, tuple[bool, str]]:
    """Return what a `/health` answer says of each row: healthy or not, and the words.

    A row in both lists, or in none, is unknown and left out.
    """
    data = parse(content)
    healthy = data.get("healthy_endpoints") if isinstance(data, dict) else None
    unhealthy = data.get("unhealthy_endpoints") if isinstance(data, dict) else None
    if not isinstance(healthy, list) or not isinstance(unhealthy, list):
        raise Garbled("LiteLLM's health answer does not hold two lists")
    up = {key: (True, "") for key, _ in _endpoints(healthy)}
    down = {key: (False, health_said(each.get("error"))) for key, each in _endpoints(unhealthy)}
    return {key: found for key, found in (up | down).items() if (key in up) != (key in down)}


def _endpoints(listed: list[Any]) -> list[tuple[str, Json]]:
    return [
        (each["model_id"], each)
        for each in listed
        if isinstance(each, dict) and isinstance(each.get("model_id"), str)
    ]


def connection_verdict(content: bytes) -> tuple[bool, str] | None:
    """Return what a `/health/test_connection` answer says; None when it says nothing."""
    data = parse(content)
    status = data.get("status") if isinstance(data, dict) else None
    if status == "success":
        return True, ""
    if status != "error":
        return None
    result = data.get("result")
    return False, health_said(result.get("error") if isinstance(result, dict) else None)


# ---- writes


def create_body(body: RowBody) -> dict[str, Any]:
    """Return what `POST /model/new` takes."""
    return {
        "model_name": body.model_name,
        "litellm_params": _params(body),
        "model_info": _given(body.model_info),
    }


def update_body(body: RowBody, row_id: str, current: Row) -> dict[str, Any]:
    """Return what `PATCH /model/{id}/update` takes.

    The id is repeated because LiteLLM makes one up otherwise; the flags of the current row are,
    because they are reset otherwise; and a row that somebody blocked is let through again.
    """
    flags = {name: True for name in FLAGS if current.params.get(name) is True}
    return {
        "model_name": body.model_name,
        "litellm_params": flags | _params(body),
        "model_info": _given(body.model_info) | {"id": row_id},
        "blocked": False,
    }


def _params(body: RowBody) -> dict[str, Any]:
    params = _given(body.litellm_params) | {"api_base": body.api_base}
    return params | ({"api_key": body.api_key.reveal()} if body.api_key else {})


def _given(fields: Json) -> dict[str, Any]:
    # LiteLLM takes a null for "leave it as it is".
    return {name: value for name, value in fields.items() if value is not None}


def holds(row: Row, body: RowBody) -> bool:
    """Tell whether a row is what was written: by its hash, its name and its address."""
    return (
        row.hash == _text(body.model_info.get("llmao_hash"))
        and row.model_name == body.model_name
        and row.base == normalise_base(body.api_base)
        and row.stamped_base == _base(body.model_info.get("asf_api_base"))
    )
