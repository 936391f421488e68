"""What an admin asks for, checked before any of it is kept.

Rule of this file: what cannot stand is a Refusal with a sentence, and the rules are those of the
configuration file, so that an approval can be pasted into it.
"""

import re
from collections.abc import Collection, Sequence

from attrs import evolve

from llmao_core import check_fleet
from llmao_core.config import Config, Host, HostRow
from llmao_core.errors import LlmaoError
from llmao_core.keys import host_name
from llmao_core.places import Path, Written

LONGEST_LABEL = 60
LONGEST_NOTE = 2000
_SALT: Path = ("fleet", "vllm_api_salt")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


class Refusal(LlmaoError):
    """What was asked for is not done; the message says why and, where it helps, what to do."""


def checked_host(given: str) -> str:
    """Return a host name in its one spelling."""
    try:
        return host_name(given)
    except ValueError as error:
        raise Refusal(f"This cannot name a host: {error}.") from None


def checked_rows(config: Config, host: str, rows: Sequence[HostRow]) -> tuple[HostRow, ...]:
    """Return the rows of an approval if they could stand in fleet.hosts; all that is wrong at once.

    host: normalised.
    """
    if not rows:
        raise Refusal("Give at least one model and port.")
    for each in config.fleet.hosts:
        if host in (each.name, *each.was):
            raise Refusal(f"{host} stands in fleet.hosts of config.yaml: change it there.")
    alone = evolve(config, fleet=evolve(config.fleet, hosts=(Host(host, tuple(rows)),)))
    found = [
        finding.what
        for finding in check_fleet.findings(alone, Written())
        if not finding.warning and (finding.path[:2] == ("fleet", "hosts") or finding.path == _SALT)
    ]
    if found:
        raise Refusal(" ".join(dict.fromkeys(found)))
    return tuple(rows)


def checked_text(given: str, what: str, most: int, *, lines: bool = False) -> str:
    """Return a text somebody wrote, trimmed. lines: it may have several."""
    text = given.replace("\r\n", "\n").strip()
    if len(text) > most:
        raise Refusal(f"{what} has {len(text)} characters; {most} are the most.")
    plain = text.replace("\n", " ").replace("\t", " ") if lines else text
    if not plain.isprintable():
        raise Refusal(f"{what} has characters that cannot be shown.")
    return text


def process_name(model: str, taken: Collection[str]) -> str:
    """Return a name for the process of a model, safe for a file and not taken on its host."""
    safe = _UNSAFE.sub("-", model).strip("._-")[:60] or "server"
    names = {each.casefold() for each in taken}
    if safe.casefold() not in names:
        return safe
    return next(
        name for number in range(2, 1000) if (name := f"{safe}-{number}").casefold() not in names
    )
