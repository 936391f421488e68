"""How a row in LiteLLM differs from what llmao writes.

Rule of this file: only fields llmao wrote are compared, and only those LiteLLM shows in clear;
the rest is covered by the hash of what was written.
"""

from attrs import frozen

from .facts import Drift
from .intended import Body, Deployment
from .records import Badge
from .snapshots import Row

_SECRET_WORDS = ("key", "secret", "token", "password", "credential", "authorization", "headers")
NOT_LIVE_TRIES = 2


@frozen
class Difference:
    """drift: how it differs. fields: their names. badges: what it is called."""

    drift: Drift = Drift.NONE
    fields: tuple[str, ...] = ()
    badges: tuple[Badge, ...] = ()


EQUAL = Difference()


def compare(row: Row, deployment: Deployment, body: Body, kept_wrong: int) -> Difference:
    """Return how a row differs from a body, its address left aside.

    kept_wrong: confirmed writes that read back different; a row that is still not live after
    NOT_LIVE_TRIES of them is made anew.
    """
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
    anew = bool(gone) or (not row.live and kept_wrong >= NOT_LIVE_TRIES)
    drift = Drift.MUST_GO if anew else Drift.DIFFERS
    return Difference(drift, tuple(gone or fields), tuple(badges))


def _differing(row: Row, body: Body) -> list[str]:
    wrong = []
    params = row.params
    for name, value in body.litellm_params.items():
        if params.get(name) != value and value is not None and not _hidden(name):
            wrong.append(name)
    info = row.info
    for name, value in body.model_info.items():
        if info.get(name) != value and value is not None and name not in _NOT_COMPARED:
            wrong.append(name)
    return wrong


# The id is the row's own where a row was adopted; the hash has its own comparison.
_NOT_COMPARED = frozenset({"id", "llmao_hash", "llmao_key", "llmao_fleet"})


def _hidden(name: str) -> bool:
    """Tell whether LiteLLM hides or masks a parameter because of its name."""
    return any(word in name.lower() for word in _SECRET_WORDS)


def _must_go(row: Row, body: Body) -> list[str]:
    """Return fields that an earlier llmao wrote and this one does not: no update removes them."""
    written = row.info.get("llmao_fields")
    if not isinstance(written, list):
        return []
    return sorted(str(name) for name in written if name not in body.fields)
