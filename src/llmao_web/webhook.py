"""Webhooks as plugins: `json` posts what happened as it is, `slack` as text for a channel.

Rule of this file: a message holds sentences and names, never evidence, addresses of ours or a
secret; and no word of the receiver, whose URL is one, gets into an outcome.
"""

from collections.abc import Callable, Mapping
from typing import Any

import httpx
from attrs import frozen

from llmao_core.actions import Outcome, OutcomeKind
from llmao_core.errors import NotYet, OutcomeUnknown, Refused
from llmao_core.hooks import Http, Message, Notice, hookimpl

TIMEOUT_S = 10.0
_LATER = (408, 425, 429)
# The request never left, so nothing was delivered.
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


@frozen
class Webhook:
    """One kind of webhook. body: what is posted for a message."""

    body: Callable[[Message], Mapping[str, Any]]

    @hookimpl
    async def llmao_notify(self, message: Message, http: Http) -> Outcome:
        """Post one message; Refused when the receiver will never take it."""
        try:
            answer = await http.request(
                "POST", message.url.reveal(), json=self.body(message), timeout=TIMEOUT_S
            )
        except _NOT_SENT as error:
            raise NotYet(f"The receiver cannot be reached ({type(error).__name__}).") from None
        except httpx.HTTPError as error:
            raise OutcomeUnknown(f"No answer came ({type(error).__name__}).") from None
        except (httpx.InvalidURL, ValueError):
            raise Refused("The receiver's address cannot be called: correct its url.") from None
        return _outcome(int(answer.status_code), answer.headers.get("retry-after"))


def _outcome(status: int, retry_after: str | None) -> Outcome:
    if 200 <= status < 300:
        return Outcome(OutcomeKind.DONE)
    said = f"The receiver answered {status}"
    if status in _LATER or status >= 500:
        raise NotYet(f"{said}.", _seconds(retry_after))
    raise Refused(f"{said}: check its url, and what it wants to be sent.")


def _seconds(text: str | None) -> float | None:
    """Return a Retry-After in seconds; a date or nonsense is None."""
    return float(text) if text and text.isascii() and text.isdecimal() and len(text) < 6 else None


# ---- json


def as_json(message: Message) -> Mapping[str, Any]:
    """Return a message as programs read it; times are epoch seconds."""
    return {
        "fleet": message.fleet,
        "link": message.link,
        "lost": message.lost,
        "notices": [_notice(notice) for notice in message.notices],
    }


def _notice(notice: Notice) -> Mapping[str, Any]:
    return {
        "id": notice.id,
        "kind": notice.kind.value,
        "state": "open" if notice.opened else "closed",
        "sentence": notice.sentence,
        "remedy": notice.remedy,
        "host": notice.host,
        "since": notice.since,
        "at": notice.at,
        "times": notice.times,
    }


# ---- slack


def as_slack(message: Message) -> Mapping[str, Any]:
    """Return a message as Slack and those like it show it, one line for each notice."""
    lines = [f"*llmao {_escaped(message.fleet)}*", *map(_line, message.notices)]
    if message.lost:
        lines.append(f"… and {message.lost} older notices that could not be delivered.")
    if message.link:
        lines.append(f"<{message.link}|Open llmao>")
    return {"text": "\n".join(lines)}


def _line(notice: Notice) -> str:
    mark = ":red_circle:" if notice.opened else ":large_green_circle: Over:"
    often = f" ({notice.times} times)" if notice.times > 1 else ""
    remedy = f" *What to do:* {_escaped(notice.remedy)}" if notice.remedy else ""
    return f"{mark} {_escaped(notice.sentence)}{often}{remedy}"


def _escaped(text: str) -> str:
    """Return text that Slack shows as it is: a host's name must not call a whole channel."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


JSON = Webhook(as_json)
SLACK = Webhook(as_slack)
