"""How a row in LiteLLM differs from what llmao writes.

Rule of this file: only fields llmao wrote are compared, and only those LiteLLM shows in clear;
the rest is covered by the hash of what was written.
"""

from attrs import evolve, frozen

from .config import Json
from .facts import Drift
from .intended import Body, Deployment
from .records import Badge
from .remembered import Remembered
from .snapshots import Row

_SECRET_WORDS = (
    "key", "secret", "token", "password", "credential", "auth", "access", "certificate", "cookie",
    "fingerprint", "private", "tenancy", "headers",
)  # fmt: skip
NOT_LIVE_TRIES = 2


@frozen
class Difference:
    """drift: how it differs. fields: their names. badges: what it is called."""

    drift: Drift = Drift.NONE
    fields: tuple[str, ...] = ()
    badges: tuple[Badge, ...] = ()


EQUAL = Difference()


def compare(row: Row, deployment: Deployment, body: Body) -> Difference:
    """Return how a row differs from a body, its address left aside."""
    return _COMPARED(row.id, row, deployment, body)


def _compare(_id: str, row: Row, deployment: Deployment, body: Body) -> Difference:
    fields, badges = [], []
    if not row.fleet or row.llmao_key != deployment.key.base or row.model_name != body.model_name:
        fields.append("stamp" if row.model_name == body.model_name else "model_name")
        badges.append(Badge.UNSTAMPED)
    if row.blocked:
        fields.append("blocked")
        badges.append(Badge.BLOCKED)
    wrong = _differing(row, body)
    if row.hash != body.hash and not badges:
        wrong = wrong or ["llmao_hash"]
    if wrong:
        fields += wrong
        badges.append(Badge.BODY_MISMATCH)
    if not row.live:
        fields.append("not live")
        badges.append(Badge.NOT_LIVE)
    if not fields:
        return EQUAL
    gone = _must_go(row, body)
    drift = Drift.MUST_GO if gone else Drift.DIFFERS
    return Difference(drift, tuple(gone or fields), tuple(badges))


# Between two reads of LiteLLM every pass compares the same objects.
_COMPARED = Remembered(_compare, most=10_000)


def tried(difference: Difference, row: Row, kept_wrong: int) -> Difference:
    """Return the difference after so many confirmed writes that read back different.

    A row that is still not live after NOT_LIVE_TRIES of them must be made anew.
    """
    if row.live or kept_wrong < NOT_LIVE_TRIES:
        return difference
    return evolve(difference, drift=Drift.MUST_GO)


def _differing(row: Row, body: Body) -> list[str]:
    params = row.params
    # Nearly always all is as it was written; a subset of items is told at the speed of C.
    if body.litellm_params.items() <= params.items() and (
        body.model_info.items() <= row.info.items()
    ):
        return []
    wrong = []
    for name, value in body.litellm_params.items():
        if params.get(name) != value and value is not None and not _hidden(name, params):
            wrong.append(name)
    info = row.info
    for name, value in body.model_info.items():
        if info.get(name) == value or value is None or name in _NOT_COMPARED:
            continue
        if not _hidden(name, info):
            wrong.append(name)
    return wrong


# The id is the row's own where a row was adopted; the hash has its own comparison.
_NOT_COMPARED = frozenset({"id", "llmao_hash", "llmao_key", "llmao_fleet", "llmao_fields"})


def _hidden(name: str, read: Json) -> bool:
    """Tell whether a field may be missing because LiteLLM hides it for its name."""
    return name not in read and any(word in name.lower() for word in _SECRET_WORDS)


def _must_go(row: Row, body: Body) -> list[str]:
    """Return fields that an earlier llmao wrote and this one does not: no update removes them."""
    written = row.info.get("llmao_fields")
    if not isinstance(written, list):
        return []
    return sorted(str(name) for name in written if name not in body.fields)
