"""What `fleet` may say: ports, secrets, hosts and their rows.

Rule of this file: pure, findings with their paths, as in check.py.
"""

import re
from collections.abc import Iterator
from itertools import chain

from .check_models import names, row_model
from .config import Config, FleetConfig, Host, HostRow
from .keys import is_dialable
from .places import Finding, Path, Written, quoted

_PROCESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_RESERVED_PROCESS = "llmao-install"
# Too short for what `openssl rand` or `llmao init` makes, so that those never look like one.
_PLACEHOLDER = re.compile(
    r"(change|replace|fill|put|your|my|example|some|todo|insert)[-_. ]?[a-z][-_. a-z]{0,24}"
    r"|<.*>|x{3,}|\.{3}|…",
    re.IGNORECASE,
)
SHORTEST_SECRET = 16
_FLEET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


def findings(config: Config, written: Written) -> Iterator[Finding]:
    """Yield everything wrong with the fleet."""
    yield from chain(
        _fleet(config),
        _ports(config),
        _secrets(config, written),
        _guessable(config.fleet),
        _names(config, written),
        _rows(config, written),
    )


def _fleet(config: Config) -> Iterator[Finding]:
    if not _FLEET.fullmatch(config.fleet.name):
        yield Finding(
            ("fleet", "name"),
            "This is no name for a fleet.",
            "Letters, digits, `.`, `_` and `-`, at most 63.",
        )


def _ports(config: Config) -> Iterator[Finding]:
    fleet, path = config.fleet, ("fleet", "listen_ports")
    if not fleet.listen_ports:
        yield Finding(path, "There is no listen port.", "Write [8001, 8002, 8003].")
    for index, port in enumerate(fleet.listen_ports):
        if not 1 <= port <= 65535:
            yield Finding((*path, index), "A port is from 1 to 65535.")
        elif port in fleet.listen_ports[:index]:
            yield Finding((*path, index), f"Port {port} stands twice.", "Remove one.")
    known = {(host.name, row.port) for host in fleet.hosts for row in host.rows}
    for host, port in sorted(fleet.legacy_servers - known):
        yield Finding(
            ("fleet", "legacy_servers"),
            f"No row of fleet.hosts is {quoted(host)} port {port}.",
            "Remove the pair once that server is gone.",
            warning=True,
        )


def _secrets(config: Config, written: Written) -> Iterator[Finding]:
    fleet = config.fleet
    if fleet.legacy_servers and not fleet.selfhost_api_key:
        yield Finding(
            ("fleet", "selfhost_api_key"),
            "There are legacy_servers and this shared bearer of theirs is not set.",
            "Set it, or empty legacy_servers.",
        )
    derived = any(
        (host.name, row.port) not in fleet.legacy_servers
        for host in fleet.hosts
        for row in host.rows
    )
    if not fleet.vllm_api_salt:
        yield Finding(
            ("fleet", "vllm_api_salt"),
            "The salt is not set: no server can be given its bearer.",
            "Set it to a long random text and keep it.",
            warning=not derived or written.broken.touches("fleet", "legacy_servers"),
        )
    if not fleet.key:
        yield Finding(
            ("fleet", "key"),
            "The fleet key is not set: no box can fetch its configuration.",
            "Set it to a long random text, the same on every box.",
            warning=True,
        )


def _guessable(fleet: FleetConfig) -> Iterator[Finding]:
    """What everybody's box and bearer rest on is not a word of somebody's example."""
    for name, secrets in (("key", fleet.key), ("vllm_api_salt", fleet.vllm_api_salt)):
        for secret in secrets:
            text = secret.reveal()
            if _PLACEHOLDER.fullmatch(text):
                what = "This looks like the placeholder of an example, which anybody can guess."
            elif 0 < len(text) < SHORTEST_SECRET:
                what = f"This is shorter than {SHORTEST_SECRET} characters and can be guessed."
            else:
                continue
            remedy = "Make one: openssl rand -base64 32. To change it while boxes run: [NEW, OLD]."
            yield Finding(("fleet", name), what, remedy, warning=True)


# ---- hosts


def _names(config: Config, written: Written) -> Iterator[Finding]:
    """Host names, former ones included, are unique; a machine of our own can be dialled."""
    first: dict[str, int] = {}
    for index, host in enumerate(config.fleet.hosts):
        path = written.host(index, host)
        if host.own and host.name and not is_dialable(host.name):
            yield Finding(
                path,
                "A host marked `own` is dialled by its name, and this is none that can be.",
                "Name it by its address or DNS name.",
            )
        for number, name in enumerate((host.name, *host.was)):
            here: Path = (*path, "was", number - 1) if number else path
            if name and name in first:
                other = config.fleet.hosts[first[name]].name
                yield Finding(
                    here,
                    f"{quoted(name)} already names the host {quoted(other)}.",
                    "Names of hosts are compared in lower case, IPv6 in one form; keep one.",
                )
            first.setdefault(name, index)


def _rows(config: Config, written: Written) -> Iterator[Finding]:
    known = names(config, written)
    for index, host in enumerate(config.fleet.hosts):
        ports: dict[int, HostRow] = {}
        processes: dict[str, HostRow] = {}
        for number, row in enumerate(host.rows):
            path = written.row(index, host, number)
            if written.broken.touches(*path):
                continue
            if known is not None:
                yield from row_model(known, row, path)
            yield from _row_port(config, host, row, path, written)
            yield from _row_name(row, path)
            if row.port in ports:
                yield Finding(path, f"Port {row.port} stands twice on this host.", "Change one.")
            if row.name.casefold() in processes:
                yield Finding(
                    path,
                    f"The process name {quoted(row.name)} stands twice on this host.",
                    "Give a third element: [MODEL, PORT, NAME].",
                )
            ports[row.port] = processes[row.name.casefold()] = row


def _row_port(
    config: Config, host: Host, row: HostRow, path: Path, written: Written
) -> Iterator[Finding]:
    fleet = config.fleet
    unsure = any(
        written.broken.touches("fleet", each) for each in ("listen_ports", "legacy_servers")
    )
    allowed = row.port in fleet.listen_ports or (host.name, row.port) in fleet.legacy_servers
    if not 1 <= row.port <= 65535:
        yield Finding(path, "A port is from 1 to 65535.")
    elif not (unsure or allowed):
        ports = ", ".join(map(str, fleet.listen_ports))
        yield Finding(
            path, f"Port {row.port} is not in fleet.listen_ports.", f"Use one of {ports}."
        )
    if row.public_port is not None:
        if not 1 <= row.public_port <= 65535:
            yield Finding(path, "A public port is from 1 to 65535.")
        yield Finding(
            path,
            "A public port in a row is deprecated: it serves only until a listing names the box.",
            "Remove the fourth element.",
            warning=True,
        )


def _row_name(row: HostRow, path: Path) -> Iterator[Finding]:
    if not _PROCESS.fullmatch(row.name) or row.name.casefold() == _RESERVED_PROCESS:
        yield Finding(
            path,
            f"{quoted(row.name)} cannot name a process.",
            "Give a third element of letters, digits, `.`, `_` and `-`: [MODEL, PORT, NAME].",
        )
