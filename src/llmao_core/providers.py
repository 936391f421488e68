"""What every GPU provider's plugin needs: foreign values made plain, and its own section checked.

Rule of this file: nothing of a provider's answer is trusted, and none of it gets into an error.
A value that makes no sense is left empty; only what would make a box look gone is Garbled.
"""

import ipaddress
import json
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from .config import Config, GpuProvider
from .errors import Garbled, Problem
from .keys import host_name, is_address
from .places import is_word, shown
from .shapes import meant
from .snapshots import Instance
from .urls import is_loopback, url_trouble

MOST_PAGES = 100
LONGEST_RETRY_AFTER_S = 86_400.0
_MOST_BYTES = 64 * 1024 * 1024
_TEXT_CHARS = 160
_SHORTEST_HIDDEN = 4
_SHORTEST_WORD = 8
_BREAKS = re.compile(r"[\s=\"',;]+")
_MOST_NUMBER = 1e15
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_TOKEN = re.compile(r"[A-Za-z0-9+/_-]{32,}=*")
_CONTRACT_LABEL = re.compile(r"c\.\d+")
# Nobody outside can dial these: 100.64/10 is the carrier's own side of its NAT.
_NOT_PUBLIC = tuple(
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "169.254.0.0/16", "172.16.0.0/12",
        "192.168.0.0/16", "224.0.0.0/3", "::/128", "fc00::/7", "fe80::/10", "ff00::/8",
    )
)  # fmt: skip


def parse(content: bytes, who: str) -> Any:
    """Return the JSON of an answer; Garbled says what it is instead, not what it holds."""
    if len(content) > _MOST_BYTES:
        raise Garbled(f"{who} answered more than {_MOST_BYTES // 2**20} MB")
    if content.lstrip()[:1] == b"<":
        raise Garbled(f"{who} answered with a web page: check base_url and what is in between")
    try:
        return json.loads(content, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        raise Garbled(f"{who} answered no JSON, or only half of it came") from None


def place_of(base_url: str) -> str:
    """Return `host:port` of a base URL, for people; never what stands before an `@`."""
    try:
        return text(urlsplit(base_url.strip()).netloc.rpartition("@")[2]) or "(no host)"
    except ValueError:
        return "(unreadable address)"


def is_local(base_url: str) -> bool:
    """Tell whether a base URL is this machine's: a fake's, whose boxes are on loopback, too."""
    try:
        host = urlsplit(base_url.strip()).hostname or ""
    except ValueError:
        return False
    return is_loopback(host)


# ---- values


def text(value: object, hidden: Iterable[str] = ()) -> str:
    """Return one short printable line without any of `hidden`; "" for what is no text."""
    if not isinstance(value, str):
        return ""
    for secret in hidden:
        value = value.replace(secret, "***")
    line = " ".join("".join(c if c.isprintable() else " " for c in value[:4096]).split())
    line = _TOKEN.sub("***", line)
    return line if len(line) <= _TEXT_CHARS else line[: _TEXT_CHARS - 1] + "…"


def hidden_in(*values: object) -> tuple[str, ...]:
    """Return every text inside values that are secret, and its longer words, the longest first."""
    found: set[str] = set()
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            words = {word for word in _BREAKS.split(value) if len(word) >= _SHORTEST_WORD}
            found |= words | ({value.strip()} if len(value.strip()) >= _SHORTEST_HIDDEN else set())
        elif isinstance(value, Mapping):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return tuple(sorted(found, key=_by_length))


def _by_length(value: str) -> tuple[int, str]:
    return (-len(value), value)


def number(value: object) -> float | None:
    """Return a finite number that is not negative; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= _MOST_NUMBER and math.isfinite(value) else None


def count(value: object) -> int:
    """Return a whole number that is not negative; 0 for anything else."""
    found = number(value)
    return int(found) if found is not None and found == int(found) else 0


def identifier(value: object) -> str:
    """Return an id as text, "" for what is none."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value) if 0 <= value < _MOST_NUMBER else ""
    found = value.strip() if isinstance(value, str) else ""
    return found if _ID.fullmatch(found) else ""


def port(value: object) -> int | None:
    """Return a port from 1 to 65535, given as a number or as its digits."""
    if isinstance(value, str) and value.isascii() and (digits := value.strip()).isdigit():
        value = int(digits[:12])
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 1 <= value <= 65535 else None


def address(value: object, *, local: bool = False) -> str:
    """Return an IP address in its one spelling, "" for what nobody outside can dial.

    local: loopback is allowed, because the provider itself is a fake on this machine.
    """
    if not isinstance(value, str) or "%" in value:
        return ""
    try:
        found = ipaddress.ip_address(host_name(value))
    except ValueError:
        return ""
    if found.is_loopback:
        return str(found) if local else ""
    return "" if any(found in network for network in _NOT_PUBLIC) else str(found)


def epoch(value: object) -> float | None:
    """Return a time given in ISO 8601, UTC unless it says otherwise, in epoch seconds."""
    if not isinstance(value, str):
        return None
    try:
        at = datetime.fromisoformat(value.strip())
        return number((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError):
        return None


def retry_after_s(value: object, now: float) -> float | None:
    """Return a `Retry-After` in seconds from now; it is given in seconds or as a date."""
    found = value.strip() if isinstance(value, str) else ""
    try:
        seconds = float(found)
    except ValueError:
        seconds = _until(found, now)
    return min(seconds, LONGEST_RETRY_AFTER_S) if seconds >= 0 else None


def _until(date: str, now: float) -> float:
    try:
        return max(parsedate_to_datetime(date).timestamp() - now, 0.0)
    except (ValueError, OverflowError, TypeError):
        return math.nan


# ---- whole listings


def unrepeated(instances: Iterable[Instance], who: str) -> tuple[Instance, ...]:
    """Return the instances of all pages; Garbled if one is there twice, for then one is missing."""
    found = tuple(instances)
    if len({one.id for one in found}) < len(found):
        raise Garbled(f"{who} lists an instance twice: the list changed while it was read")
    return found


def unique_labels(given: Mapping[str, object], taken: Collection[str]) -> dict[str, str]:
    """Return by id the labels that name one instance only, normalised.

    given: what people wrote, by id. taken: names that belong to instances already. An address or
    what looks like a contract label is no label: it would speak for another box.
    """
    plain = {one: _label(label) for one, label in given.items()}
    times = Counter(plain.values())
    return {
        one: label
        for one, label in plain.items()
        if label and times[label] == 1 and label not in taken
    }


def _label(value: object) -> str:
    try:
        label = host_name(value) if isinstance(value, str) else ""
    except ValueError:
        return ""
    return "" if is_address(label) or _CONTRACT_LABEL.fullmatch(label) else label


# ---- a provider's section


def section_problems(
    config: Config, name: str, *, shortest_s: float, switches: Collection[str] = ()
) -> tuple[Problem, ...]:
    """Return what is wrong in `providers.NAME`.

    shortest_s: the least time between reads that the provider's limits allow. switches: the keys
    of the section that its plugin understands; each is true or false.
    """
    section = next((each for each in config.gpu_providers if each.name == name), None)
    if section is None:
        return ()
    return (
        *_key_problems(section),
        *_url_problems(section),
        *_interval_problems(section, shortest_s),
        *_unknown_problems(section, switches),
    )


def _problem(
    section: GpuProvider, key: str, what: str, remedy: str, *, warning: bool = False
) -> Problem:
    return Problem(what, remedy, path=shown(("providers", section.name, key)), warning=warning)


def _key_problems(section: GpuProvider) -> Iterable[Problem]:
    # A key that still says CHANGE_ME has become none by the time the section gets here.
    key = section.api_key.reveal() if section.api_key else ""
    if not key or key.startswith("CHANGE_ME"):
        remedy = "Set it, or remove the section to do without this listing."
        yield _problem(
            section, "api_key", "The key is not set: no listing is read.", remedy, warning=True
        )
    elif not key.isascii() or not key.isprintable() or " " in key:
        yield _problem(
            section,
            "api_key",
            "The key holds letters that cannot stand in a header.",
            "Look for a blank, a line break or a quotation mark around it.",
        )


def _url_problems(section: GpuProvider) -> Iterable[Problem]:
    if section.base_url is None:
        return
    if trouble := url_trouble(section.base_url):
        yield _problem(section, "base_url", trouble, "Write it like https://api.example.org.")
    elif section.base_url.strip().lower().startswith("http://") and not is_local(section.base_url):
        yield _problem(
            section,
            "base_url",
            "The key is sent over this, and http is in clear.",
            "Write https://.",
            warning=True,
        )


def _interval_problems(section: GpuProvider, shortest_s: float) -> Iterable[Problem]:
    if section.interval_s is not None and section.interval_s < shortest_s:
        yield _problem(
            section,
            "interval_s",
            f"The provider refuses reads that follow each other within {shortest_s:g} s.",
            f"Write {shortest_s:g} or more.",
        )


def _unknown_problems(section: GpuProvider, switches: Collection[str]) -> Iterable[Problem]:
    known = {"api_key", "base_url", "interval_s", *switches}
    for key, value in section.section.items():
        if key in switches:
            if not isinstance(value, bool):
                yield _problem(section, key, "true or false is expected here.", "Write one.")
        else:
            shown_key = f" `{key}`" if is_word(key) else ""
            remedy = meant(key, known) or f"Known are {', '.join(sorted(known))}."
            yield _problem(section, key, f"The key{shown_key} is unknown here.", remedy)
