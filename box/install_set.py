#!/usr/bin/env python3
"""Brings a box to what llmao wants it to serve: ask, check, divide the cards, write programs, exit.

Rule of this file: the standard library of Python 3.10 and nothing else, in one file, because it
runs in whatever image a provider has. A copy beside the programs starts each server (`run`) and
guards its paths (`RequireBearer`). No secret is printed, put into arguments or left readable.

Environment: FLEET_KEY, LLMAO_URL, LLMAO_HOST, DATA_DIRECTORY (/workspace). Exit codes: 0 done,
1 refused, with the reason; 3 the box is behind (`--check`).
"""

import argparse
import configparser
import contextlib
import fcntl
import hashlib
import hmac
import http.client
import ipaddress
import json
import math
import os
import re
import shlex
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.parse
import zlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, TypeVar

LIMIT = 920  # thousandths of a card that its servers may have together
LEAST_SHARE = 50  # thousandths below which no server can load anything
MARK = "; Written by llmao's install_set.py and rewritten by it: change the recipe instead."
GB = 1_000_000_000
NOTICE_WAIT_S = 10
STAGGER_S = 600
Sleep = Callable[[float], None]
Answered = TypeVar("Answered")


class RefusedError(Exception):
    """Why this box cannot go on: a sentence for a person, without a secret."""


class NotYetError(Exception):
    """Why to ask again. after_s: when llmao said so, else None; slow: nothing to hurry for."""

    def __init__(self, reason: str, after_s: float | None = None, *, slow: bool = False) -> None:
        super().__init__(reason)
        self.after_s = after_s
        self.slow = slow


# ---- what llmao answers


@dataclass(frozen=True)
class Server:
    """One server of the answer. fraction: explicit share of a card's memory; cards: how many."""

    name: str
    model: str
    served: str
    port: int
    api_key: str = field(default="", repr=False)
    args: tuple[str, ...] = ()
    source: str = "hf"
    max_model_len: int | None = None
    vram_gb: float | None = None
    disk_gb: float | None = None
    fraction: float | None = None
    kv_bytes_per_token: float | None = None
    cards: int = 1

    @property
    def need_gb(self) -> float | None:
        """Return the memory it needs on all its cards together, None when the recipe is silent."""
        if self.vram_gb is None:
            return None
        return self.vram_gb + (self.kv_bytes_per_token or 0) * (self.max_model_len or 0) / GB


@dataclass(frozen=True)
class Assignment:
    """What this box is to serve, and under which revision."""

    revision: str
    servers: tuple[Server, ...]


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_REVISION = re.compile(r"[A-Za-z0-9._-]{1,80}")
_FRACTION = ("--gpu-memory-utilization", "--device-memory-utilization")
_PARALLEL = (
    ("--tensor-parallel-size", "-tp"),
    ("--pipeline-parallel-size", "-pp"),
    ("--data-parallel-size", "-dp"),
)


def read_answer(body: bytes) -> Assignment:
    """Read llmao's answer; raises RefusedError for one that this installer cannot carry out."""
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        raise NotYetError("what answers is not llmao: its answer is no JSON") from None
    servers = said.get("servers") if isinstance(said, dict) else None
    revision = said.get("revision") if isinstance(said, dict) else None
    known = isinstance(revision, str) and _REVISION.fullmatch(revision)
    if not isinstance(servers, list) or not known:
        raise NotYetError("what answers is not llmao: no revision or no servers in its answer")
    read = tuple(_server(each if isinstance(each, dict) else {}) for each in servers)
    for what in ("name", "port"):
        seen = [str(getattr(each, what)).lower() for each in read]
        twice = sorted({each for each in seen if seen.count(each) > 1})
        if twice:
            raise RefusedError(f"two servers have the {what} {twice[0]}: correct fleet.hosts")
    return Assignment(str(revision), read)


def _server(said: Mapping[str, Any]) -> Server:
    name, port, source = said.get("name"), said.get("port"), said.get("source")
    kind = source.get("kind") if isinstance(source, dict) else None
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise RefusedError(f"{_cut(name)} cannot name a process: letters, digits, `.`, `_`, `-`")
    if not isinstance(port, int) or isinstance(port, bool) or not 0 < port < 65536:
        raise RefusedError(f"{name}: {_cut(port)} is no port")
    if kind not in (None, "hf", "local"):
        raise RefusedError(
            f"{name}: weights from {_cut(kind)} cannot be fetched yet; use hf or local"
        )
    args = _arguments(name, said.get("args") or [])
    fraction = _number(name, said, "gpu_memory_utilization")
    given = option(args, *_FRACTION)
    return Server(
        name=name,
        model=_word(name, "model", said.get("model")),
        served=_word(name, "served_model_name", said.get("served_model_name")),
        port=port,
        api_key=_bearer(name, said.get("api_key")),
        args=args,
        source=str(kind or "hf"),
        max_model_len=_whole(name, "max_model_len", _number(name, said, "max_model_len")),
        vram_gb=_number(name, said, "vram_gb"),
        disk_gb=_number(name, said, "disk_gb"),
        fraction=fraction if given is None else _given_fraction(name, given),
        kv_bytes_per_token=_number(name, said, "kv_bytes_per_token"),
        cards=math.prod(_parallel(name, args, *names) for names in _PARALLEL),
    )


def _arguments(name: str, said: object) -> tuple[str, ...]:
    try:
        words = shlex.split(said) if isinstance(said, str) else said
    except ValueError:
        raise RefusedError(f"{name}: its args have a quotation mark too few") from None
    if not isinstance(words, list):
        raise RefusedError(f"{name}: its args are no list")
    return tuple(_argument(name, word) for word in words)


def _argument(name: str, arg: object) -> str:
    if not isinstance(arg, str) or not arg or not arg.isprintable():
        raise RefusedError(f"{name}: an argument is empty, no text, or has a line break in it")
    return arg


def _word(name: str, what: str, said: object) -> str:
    word = _argument(name, said)
    if word.startswith("-"):
        raise RefusedError(f"{name}: vLLM would take its {what} for an option")
    return word


def _bearer(name: str, key: object) -> str:
    """Return a bearer that supervisor and HTTP leave as it is; some others are cut silently."""
    if not isinstance(key, str) or not key:
        raise RefusedError(f"{name}: llmao sent no bearer, and without one the server is open")
    if not (key.isascii() and key.isprintable()) or re.search(r"""["'\\]|\s[;#]|^\s|\s$""", key):
        raise RefusedError(
            f"{name}: its bearer has characters that supervisor or HTTP would change (quotes, "
            "backslash, ` ;`, ` #`, blanks at an end, not ASCII): change fleet.selfhost_api_key"
        )
    return key


def _number(name: str, said: Mapping[str, Any], what: str) -> float | None:
    value = said.get(what)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e12:
        raise RefusedError(f"{name}: {what} is {_cut(value)}, which is no number above 0")
    return value


def _whole(name: str, what: str, number: float | None) -> int | None:
    if number is not None and number != int(number):
        raise RefusedError(f"{name}: {what} is {number!r}, which is no whole number")
    return None if number is None else int(number)


def _cut(said: object) -> str:
    """Return what was said, short enough for a log."""
    shown = repr(said)
    return shown if len(shown) <= 80 else f"{shown[:80]}…"


def option(args: Sequence[str], *names: str) -> str | None:
    """Return the last value of an option, in any spelling of vLLM's parser; None when absent."""
    found = None
    for index, arg in enumerate(args):
        name, equals, value = arg.partition("=")
        name = name.replace("_", "-")
        if name in names or (len(name) > 10 and names[0].startswith(name)):
            found = value if equals else "".join(args[index + 1 : index + 2])
    return found


def _parallel(name: str, args: Sequence[str], *names: str) -> int:
    given = option(args, *names) or "1"
    if not given.isdecimal() or not 0 < int(given[:9]) <= 64:
        raise RefusedError(f"{name}: {names[0]} is {_cut(given)}, which is no number of cards")
    return int(given[:9])


def _given_fraction(name: str, given: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 < float(given) <= 1:
            return float(given)
    raise RefusedError(f"{name}: --gpu-memory-utilization is {given!r}, not between 0 and 1")


# ---- division of the cards


@dataclass(frozen=True)
class Card:
    """One card as nvidia-smi numbers it; gb is 10^9 bytes."""

    index: int
    gb: float


@dataclass(frozen=True)
class Place:
    """Where a server goes. fraction: "" leaves it to vLLM; after: who loads before it there."""

    cards: tuple[int, ...] = ()
    fraction: str = ""
    after: tuple[str, ...] = ()


def _thousandths(share: float) -> int:
    # rounded up, but for what is only the imprecision of the number
    return math.ceil(1000 * share - 1e-6)


@dataclass
class _Load:
    """A card and the servers that share it, with the thousandths each of them claims."""

    card: Card
    claims: dict[str, int] = field(default_factory=dict)
    open_ended: set[str] = field(default_factory=set)
    explicit: set[str] = field(default_factory=set)

    @property
    def left(self) -> int:
        return max(0, LIMIT - sum(self.claims.values()))

    def claim(self, server: Server) -> int | None:
        """Return the thousandths it would take here, None when it cannot."""
        need = server.need_gb
        least = _thousandths((need or 0) / self.card.gb)
        if server.fraction is not None:
            claim = _thousandths(server.fraction)
            alone = claim > LIMIT and not self.claims
            return claim if claim >= least and (alone or claim <= self.left) else None
        claim = max(LEAST_SHARE, least)
        return claim if claim <= self.left else None

    def take(self, server: Server, claim: int) -> None:
        self.claims[server.name] = claim
        if server.fraction is not None:
            self.explicit.add(server.name)
        elif server.need_gb is None:
            self.open_ended.add(server.name)

    def shares(self) -> dict[str, int]:
        """Return the thousandths of each, what is spare given to those that named no figure."""
        growing = self.open_ended or self.claims.keys() - self.explicit
        weights = {name: 1 if self.open_ended else self.claims[name] for name in growing}
        total = sum(weights.values()) or 1
        return {
            name: claim + self.left * weights.get(name, 0) // total
            for name, claim in self.claims.items()
        }


def divide(
    servers: Sequence[Server], cards: Sequence[Card] | None
) -> tuple[dict[str, Place], dict[str, str]]:
    """Return a place for each server by name, and a reason for each that has none.

    Servers over several cards get whole ones; the others share by what they need. A card's
    fractions sum to at most 0.92, unless one explicit fraction above that has it alone. cards:
    None when nobody knows. The order of servers and cards does not matter.
    """
    order = sorted(servers, key=_hard_first)
    if cards is None:
        return _divide_blind(order)
    places, reasons, free = _whole_cards(
        [each for each in order if each.cards > 1], sorted(cards, key=lambda card: card.index)
    )
    shared = [each for each in order if each.cards == 1]
    # spread first; a fleet that only fits when packed tightly is packed tightly
    packed = min((_pack(shared, free, tight) for tight in (False, True)), key=lambda pack: pack[1])
    for load in packed[0]:
        shares, earlier = load.shares(), list[str]()
        for server in (each for each in shared if each.name in shares):
            given = server.fraction
            said = f"{shares[server.name] / 1000:g}" if given is None else str(given)
            places[server.name] = Place((load.card.index,), said, tuple(earlier))
            earlier.append(server.name)
    return places, reasons | {
        each.name: _no_room(each, free) for each in shared if each.name not in places
    }


def _hard_first(server: Server) -> tuple[int, float, float, str]:
    return (-server.cards, -(server.fraction or 0), -(server.need_gb or 0), server.name)


def _whole_cards(
    servers: Sequence[Server], cards: Sequence[Card]
) -> tuple[dict[str, Place], dict[str, str], list[Card]]:
    places, reasons, free = dict[str, Place](), dict[str, str](), list(cards)
    for server in servers:
        share = server.fraction or LIMIT / 1000
        each_gb = (server.need_gb or 0) / server.cards
        fitting = sorted(
            (card for card in free if each_gb <= card.gb * share),
            key=lambda card: (card.gb, card.index),
        )
        sizes = [card.gb for card in fitting]
        # cards of one size where there are enough of them: the smallest one would set the pace
        even = next((size for size in sizes if sizes.count(size) >= server.cards), None)
        chosen = [card for card in fitting if even in (None, card.gb)][: server.cards]
        if len(chosen) < server.cards:
            reasons[server.name] = (
                f"needs {server.cards} free cards with {each_gb / share:.1f} GB each; "
                f"{len(fitting)} of {len(cards)} are"
            )
            continue
        places[server.name] = Place(tuple(sorted(card.index for card in chosen)), str(share))
        free = [card for card in free if card not in chosen]
    return places, reasons, free


def _pack(servers: Sequence[Server], cards: Sequence[Card], tight: bool) -> tuple[list[_Load], int]:
    """Return the loaded cards, and how many servers found no room."""
    loads, homeless = [_Load(card) for card in cards], 0
    for server in servers:
        fits = [(load, claim) for load in loads if (claim := load.claim(server)) is not None]
        if not fits:
            homeless += 1
            continue
        load, claim = min(fits, key=lambda fit: _preference(fit[0], fit[1], tight))
        load.take(server, claim)
    return loads, homeless


def _preference(load: _Load, claim: int, tight: bool) -> tuple[float, int]:
    if tight:
        return ((load.left - claim) * load.card.gb, load.card.index)
    return (-load.left * load.card.gb / (1 + len(load.open_ended)), load.card.index)


def _no_room(server: Server, free: Sequence[Card]) -> str:
    if not free:
        return "no card is left for it"
    largest = max(card.gb for card in free)
    wants = f"{server.fraction:g} of a card" if server.fraction is not None else ""
    need = f"{server.need_gb:.1f} GB" if server.need_gb is not None else ""
    said = " and ".join(filter(None, (wants, need))) or "a share"
    return f"needs {said}; the largest card has {0.92 * largest:.1f} GB to share, others counted"


def _divide_blind(order: Sequence[Server]) -> tuple[dict[str, Place], dict[str, str]]:
    """Divide one card of unknown size in proportion, since nvidia-smi told nothing."""
    if len(order) == 1:
        given = order[0].fraction
        return {order[0].name: Place((), "" if given is None else str(given))}, {}
    several = {each.name: "needs several cards, and which ones there are is not known" for each in
               order if each.cards > 1}  # fmt: skip
    order = [each for each in order if each.cards == 1]
    # the sum of all needs stands for the size; a server without a figure counts as the mean
    known = [each.need_gb for each in order if each.need_gb is not None]
    mean = sum(known) / len(known) if known else 1.0
    left = LIMIT - sum(_thousandths(each.fraction) for each in order if each.fraction)
    weights = {each.name: each.need_gb or mean for each in order if each.fraction is None}
    total = sum(weights.values())
    places = dict[str, Place]()
    reasons = dict(several)
    for server in order:
        share = math.floor(left * weights.get(server.name, 0) / (total or 1))
        if left < 0 or (server.fraction is None and share < LEAST_SHARE):
            reasons[server.name] = "the fractions of its card are used up"
            continue
        said = f"{share / 1000:g}" if server.fraction is None else str(server.fraction)
        places[server.name] = Place((), said, tuple(places))
    return places, reasons


# ---- supervisor programs


@dataclass(frozen=True)
class Layout:
    """Where things are on this box. python and vllm are programs with their whole path."""

    units: Path
    data: Path
    python: str
    vllm: str
    hf_home: str
    hf_token: str = field(default="", repr=False)

    @property
    def private(self) -> Path:
        """Return the folder of our own beside the programs."""
        return self.units / "llmao"

    @property
    def copy(self) -> Path:
        """Return where the copy of this file is that starts and guards the servers."""
        return self.private / "llmao_box.py"

    def log(self, name: str) -> Path:
        """Return the log of a server."""
        return self.data / "logs" / f"{name}.log"

    def unit(self, name: str) -> Path:
        """Return the file of a server's program."""
        return self.units / f"vllm-{name}.conf"


def quote_argument(arg: str) -> str:
    """Return an argument as `command=` must spell it; blank and `;` or `#` would be a comment."""
    quoted = shlex.quote(arg).replace("%", "%%")
    return re.sub(r"\s(?=[;#])", " ''", quoted)


def quote_value(value: str) -> str:
    """Return a value as `environment=` must spell it; raises RefusedError for what it cannot."""
    if not value.isprintable() or re.search(r"""["'\\]|\s[;#]""", value):
        raise RefusedError("a path or key has quotes, a backslash, ` ;` or ` #` in it")
    return '"' + value.replace("%", "%%") + '"'


def serve_command(server: Server, place: Place, vllm: str) -> list[str]:
    """Return the command line of a server; what a recipe says comes last and wins."""
    said = option(server.args, *_FRACTION)
    length = str(server.max_model_len) if server.max_model_len else ""
    ours = {
        "--host": "0.0.0.0",  # noqa: S104 - providers map the port of the container's own address
        "--port": str(server.port),
        "--served-model-name": server.served,
        "--shutdown-timeout": "30",
        "--middleware": "llmao_box.RequireBearer",
        "--max-model-len": length,
        "--gpu-memory-utilization": "" if said else place.fraction,
    }
    pairs = [word for name, value in ours.items() if value for word in (name, value)]
    return [vllm, "serve", server.model, *pairs, *server.args]


def program(server: Server, place: Place, layout: Layout, ports: Mapping[str, int]) -> str:
    """Return the text of a server's supervisor program; ports: of every server, by name."""
    run = [layout.python, "-I", str(layout.copy), "run", server.name, str(server.port)]
    waits = [f"{name}:{ports[name]}" for name in place.after]
    argv = [*run, *waits, "--", *serve_command(server, place, layout.vllm)]
    env = {"VLLM_API_KEY": server.api_key, "HF_HOME": layout.hf_home}
    env |= {"HF_TOKEN": layout.hf_token} if layout.hf_token else {}
    if place.cards:
        # by default CUDA numbers cards by speed, nvidia-smi by slot
        env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        env["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, place.cards))
    settings = {
        "command": " ".join(map(quote_argument, argv)),
        "environment": ",".join(f"{name}={quote_value(value)}" for name, value in env.items()),
        # an engine that dies exits 0, which `unexpected` would leave down
        "autorestart": "true",
        # longer than a load: only deaths before it count as retries
        "startsecs": "900",
        "startretries": "3",
        "stopsignal": "TERM",
        "stopwaitsecs": "45",
        # the workers must not be told to stop before their parent has drained
        "stopasgroup": "false",
        "killasgroup": "true",
        "redirect_stderr": "true",
        "stdout_logfile": str(layout.log(server.name)).replace("%", "%%"),
    }
    lines = [MARK, f"[program:vllm-{server.name}]", *(f"{k}={v}" for k, v in settings.items())]
    text = "\n".join(lines) + "\n"
    if read_program(text) != (argv, env):
        raise RefusedError(f"{server.name}: supervisor would read its program otherwise than meant")
    return text


def read_program(text: str) -> tuple[list[str], dict[str, str]] | None:
    """Read command line and environment as supervisor does; None for what it would refuse."""
    parser = configparser.RawConfigParser(inline_comment_prefixes=(";", "#"), strict=False)
    try:
        parser.read_string(text)
        [section] = parser.sections()
        argv = shlex.split(parser.get(section, "command") % {})
        lexer = shlex.shlex(parser.get(section, "environment") % {})
        lexer.wordchars += "/.+-():"
        words = list(lexer)
    except (configparser.Error, KeyError, TypeError, ValueError):
        return None
    groups = [words[at : at + 3] for at in range(0, len(words), 4)]
    if any(len(group) != 3 or group[1] != "=" for group in groups):
        return None
    return argv, {name: value.strip("'\"") for name, _, value in groups}


@dataclass(frozen=True)
class Changes:
    """What differs between the programs wanted and those found, by path."""

    write: Mapping[Path, str] = field(repr=False)
    remove: tuple[Path, ...]
    restarted: tuple[str, ...]

    def __bool__(self) -> bool:
        """Tell whether anything is to be done."""
        return bool(self.write or self.remove)


def compare(wanted: Mapping[Path, str], found: Mapping[Path, str]) -> Changes:
    """Return what must change; restarted: servers that are there and change."""
    write = {path: text for path, text in wanted.items() if found.get(path) != text}
    gone = tuple(sorted(path for path in found if path not in wanted))
    changed = sorted(path.stem.removeprefix("vllm-") for path in write if path in found)
    return Changes(write, gone, tuple(changed))


# ---- does it fit


def read_cards(say: Callable[[str], None]) -> list[Card] | None:
    """Ask nvidia-smi for the cards; None, with a warning, where it is absent or knows no memory."""
    query = ["nvidia-smi", "--query-gpu=index,memory.total", "--format=csv,noheader,nounits"]
    try:
        asked = subprocess.run(query, capture_output=True, text=True, timeout=60, check=False)
    except FileNotFoundError:
        say("warning: there is no nvidia-smi: cards are neither checked nor given out")
        return None
    except subprocess.TimeoutExpired:
        raise RefusedError("nvidia-smi does not answer: the cards or their driver hang") from None
    if asked.returncode or not asked.stdout.strip():
        told = " ".join((asked.stdout + asked.stderr).split())[:200] or "no cards"
        raise RefusedError(f"nvidia-smi failed: {told}. No vLLM can start here: rent another box")
    rows = [line.split(",") for line in asked.stdout.strip().splitlines()]
    try:
        # it counts in MiB
        return [Card(int(index), int(mib) * 1_048_576 / GB) for index, mib in rows]
    except ValueError:
        say("warning: nvidia-smi tells no memory: cards are neither checked nor given out")
        return None


def hub_cache(env: Mapping[str, str], hf_home: str) -> Path:
    """Return the folder in which Hugging Face's library keeps weights."""
    return Path(env.get("HF_HUB_CACHE") or Path(hf_home) / "hub")


def cached_gb(cache: Path, model: str) -> float:
    """Return what of a model is in the cache already, in 10^9 bytes."""
    blobs = cache / ("models--" + model.replace("/", "--")) / "blobs"
    sizes = [path.lstat().st_size for path in blobs.iterdir()] if blobs.is_dir() else []
    return sum(sizes) / GB


def disk_need_gb(servers: Sequence[Server], cached: Callable[[str], float]) -> float:
    """Return what is still to be pulled, in 10^9 bytes; one model of two servers counts once."""
    needs: dict[str, float] = {}
    for server in servers:
        if server.source != "local" and server.disk_gb:
            needs[server.model] = max(needs.get(server.model, 0), server.disk_gb)
    return sum(max(0.0, need - cached(model)) for model, need in needs.items())


def misfits(servers: Sequence[Server], reasons: Mapping[str, str], cache: Path) -> list[str]:
    """Return a line of need and have for everything that does not fit."""
    found = [f"{name:24} {reason}" for name, reason in sorted(reasons.items())]
    found += [
        f"{server.name:24} needs the folder {server.model}; it is not there"
        for server in servers
        if server.source == "local" and not Path(server.model).exists()
    ]
    there = next(path for path in (cache, *cache.absolute().parents) if path.exists())
    need = disk_need_gb(servers, lambda model: cached_gb(cache, model))
    free = shutil.disk_usage(there).free / GB
    if need > free:
        found.append(f"{'disk':24} needs {need:.1f} GB more; {free:.1f} GB are free in {there}")
    return found


def taken_ports(servers: Sequence[Server], ours: set[int]) -> list[str]:
    """Return a line for each port that a stranger holds; ours: held by programs of our own."""
    return [
        f"{server.name:24} needs port {server.port}; another program has it"
        for server in servers
        if server.port not in ours and not _is_free(server.port)
    ]


def _is_free(port: int) -> bool:
    # a vLLM that is loading has its port bound with SO_REUSEADDR, and does not listen yet
    if _can_bind(port, reuse=False):
        return True
    # connections that an earlier server closed are no obstacle, and listed
    states = [
        fields[3]
        for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
        if table.exists()
        for fields in map(str.split, table.read_text().splitlines()[1:])
        if int(fields[1].rpartition(":")[2], 16) == port
    ]
    return "06" in states and _can_bind(port, reuse=True)


def _can_bind(port: int, *, reuse: bool) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse)
        try:
            probe.bind(("0.0.0.0", port))  # noqa: S104 - as vLLM will
        except OSError:
            return False
    return True


# ---- llmao


@dataclass(frozen=True)
class Reply:
    """An answer of llmao that is no refusal."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Llmao:
    """llmao as this box asks it. applied: the revision that runs here, "" for none."""

    base: urllib.parse.SplitResult
    key: str = field(repr=False)
    host: str
    sleep: Sleep
    say: Callable[[str], None]
    applied: str = ""

    def ask(self, method: str, path: str, body: bytes | None = None) -> Reply:
        """Ask once; raises NotYetError to ask again, RefusedError to give up."""
        # not urllib: it would carry the key along to wherever a redirect points
        name, port = self.base.hostname or "", self.base.port
        secure = self.base.scheme == "https"
        line = (
            http.client.HTTPSConnection(
                name, port, timeout=30, context=ssl.create_default_context()
            )
            if secure
            else http.client.HTTPConnection(name, port, timeout=30)
        )
        headers: dict[str, str | bytes] = {"Authorization": b"Bearer " + self.key.encode()}
        headers |= {"X-LLMAO-Host": self.host.encode()} if self.host else {}
        headers |= {"X-LLMAO-Revision": self.applied} if self.applied else {}
        try:
            line.request(method, self.base.path.rstrip("/") + path, body, headers)
            answer = line.getresponse()
            told = {name.lower(): value for name, value in answer.headers.items()}
            reply = Reply(answer.status, told, answer.read(1 << 20))
        except ssl.SSLCertVerificationError as error:
            why = f"the certificate of {name} does not verify ({error.verify_message})"
            raise NotYetError(f"{why}: see to it, or to this box's clock") from None
        except (OSError, http.client.HTTPException) as error:
            why = str(error) or type(error).__name__
            place = f"{self.base.scheme}://{self.base.netloc.rpartition('@')[2]}"
            raise NotYetError(f"{place} cannot be reached ({why})") from None
        finally:
            line.close()
        return _judge(reply)

    def fetch_once(self) -> Assignment:
        """Ask for the assignment; raises NotYetError or RefusedError."""
        return read_answer(self.ask("GET", "/vllm/config").body)

    def fetch(self) -> Assignment:
        """Ask for the assignment until there is one; raises RefusedError."""
        tries = {True: 0, False: 0}
        while True:
            try:
                return self.fetch_once()
            except NotYetError as why:
                wait_s = backoff_s(why, tries[why.slow], self.host)
                tries[why.slow] += 1
                self.say(f"{why}; asking again in {wait_s:.0f} s")
                self.sleep(wait_s)

    def current(self) -> str:
        """Report the applied revision and return the current one."""
        tag = self.ask("HEAD", "/vllm/config").headers.get("etag", "")
        revision = tag.removeprefix("W/").strip('"')
        if not _REVISION.fullmatch(revision):
            raise NotYetError("what answers is not llmao: it tells no revision")
        return revision

    def announce(self, names: Sequence[str]) -> None:
        """Say that these servers restart, and leave the time in which their routes go."""
        try:
            self.ask("POST", "/vllm/notice", json.dumps({"restarting": list(names)}).encode())
        except (NotYetError, RefusedError) as why:
            self.say(f"warning: the restart could not be announced: {why}")
        self.say(f"{', '.join(names)}: restarting in {NOTICE_WAIT_S} s, when the routes are gone")
        self.sleep(NOTICE_WAIT_S)


def backoff_s(why: NotYetError, tries: int, host: str) -> float:
    """Return when to ask again: as told, else 5 s (30 s for who waits to be approved) to 5 min."""
    if why.after_s is not None:
        return min(why.after_s, 3600.0)
    wait_s: float = min(300, (30 if why.slow else 5) * 2 ** min(tries, 10))
    # boxes that were refused together do not come back together
    return wait_s * (1 + 0.2 * zlib.crc32(host.encode()) / 2**32)


def _judge(reply: Reply) -> Reply:
    status, said = reply.status, _said(reply)
    if status < 300 or status == 304:
        return reply
    if status == 404:
        raise NotYetError(f"404: {said or 'this is not the address of a llmao'}", slow=True)
    if status == 429 or status >= 500:
        after = reply.headers.get("retry-after", "")
        said = said or http.client.responses.get(status, "")
        raise NotYetError(f"{status}: {said}", float(after) if after.isdecimal() else None)
    if status < 400:
        raise RefusedError(f"{status}: LLMAO_URL leads elsewhere, and the key is not sent there")
    raise RefusedError(f"{status}: {said or 'llmao refuses this request'}")


def _said(reply: Reply) -> str:
    with contextlib.suppress(ValueError, TypeError, KeyError, RecursionError):
        message = str(json.loads(reply.body)["error"]["message"])
        return "".join(each if each.isprintable() else "?" for each in message)[:300]
    return ""


# ---- applying


def put(path: Path, text: str) -> None:
    """Write a file whole or not at all, readable by its owner alone."""
    aside = path.with_name(f".{path.name}.new")
    aside.unlink(missing_ok=True)
    private = os.open(aside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(private, "w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    aside.replace(path)


def found_programs(layout: Layout) -> dict[Path, str]:
    """Return the programs of ours that are there, by path."""
    texts = {
        path: path.read_text(encoding="utf-8", errors="replace")
        for path in sorted(layout.units.glob("vllm-*.conf"))
    }
    return {path: text for path, text in texts.items() if text.startswith(MARK)}


def ports_of(programs: Mapping[Path, str]) -> set[int]:
    """Return the ports that these programs listen on."""
    read = [known[0] for text in programs.values() if (known := read_program(text))]
    return {int(argv[argv.index("run") + 2]) for argv in read if "run" in argv}


def supervisorctl(*words: str) -> tuple[int, str]:
    """Ask supervisor; returns exit code and output."""
    try:
        asked = subprocess.run(
            ["supervisorctl", *words], capture_output=True, text=True, timeout=900, check=False
        )  # fmt: skip
    except FileNotFoundError:
        raise RefusedError("there is no supervisorctl on PATH: install supervisor") from None
    except subprocess.TimeoutExpired:
        raise RefusedError(f"supervisorctl {words[0]} does not come back") from None
    return asked.returncode, (asked.stdout + asked.stderr).strip()


def is_running() -> bool:
    """Tell whether a supervisord runs; raises RefusedError when it does and cannot be asked."""
    # not `reread`, which exits 1 for both
    code, said = supervisorctl("status")
    if code == 4 and said.endswith(("no such file", "refused connection")):
        return False
    if code not in (0, 3):
        raise RefusedError(f"supervisor cannot be asked: {said}")
    return True


def apply(
    changes: Changes, wanted: Sequence[str], announce: Callable[[Sequence[str]], None]
) -> bool:
    """Write what changed and have supervisor take it over; False where no supervisord runs.

    wanted: the names of all servers. A program of somebody else is left as supervisor has it.

    What supervisor refuses is undone, since one bad file would keep every program from starting.
    """
    running = is_running()
    code, said = supervisorctl("reread") if running else (0, "")
    if code:
        raise RefusedError(f"supervisor cannot read its own configuration, ours apart: {said}")
    kept = {
        path: path.read_text(encoding="utf-8") if path.exists() else None
        for path in (*changes.write, *changes.remove)
    }
    try:
        for path, text in changes.write.items():
            put(path, text)
        for path in changes.remove:
            path.unlink()
        said = _accepted() if running else ""
    except BaseException:
        for path, old in kept.items():
            path.unlink(missing_ok=True) if old is None else put(path, old)
        raise
    # from its answer and not from the files: an earlier run may have ended in between
    told = re.findall(r"^vllm-(\S+): (changed|available|disappeared)$", said, re.MULTILINE)
    moved = {name: how for name, how in told if name in wanted or how == "disappeared"}
    if restarting := sorted(name for name, how in moved.items() if how == "changed"):
        announce(restarting)
    if moved:
        code, said = supervisorctl("update", *(f"vllm-{name}" for name in sorted(moved)))
        if code:
            raise RefusedError(f"supervisor could not take the programs over: {said}")
    return running


def _accepted() -> str:
    code, said = supervisorctl("reread")
    if code:
        raise RefusedError(f"supervisor refuses the new programs; they are undone: {said}")
    return said


def second_chance(names: Sequence[str], layout: Layout, say: Callable[[str], None]) -> None:
    """Start what supervisor has given up; raises RefusedError if it knows a program not at all."""
    listed = dict(re.findall(r"^vllm-(\S+)\s+([A-Z]+)", supervisorctl("status")[1], re.MULTILINE))
    for name in names:
        if name not in listed:
            raise RefusedError(f"supervisor does not read {layout.units}: see --units")
        if listed[name] == "FATAL":
            say(f"{name}: supervisor had given it up; it is started again")
            # `start` would wait for startsecs
            supervisorctl("remove", f"vllm-{name}")
            supervisorctl("add", f"vllm-{name}")


# ---- the command


@dataclass
class Box:
    """This box: where things are, whom to ask, and what must never be seen."""

    layout: Layout
    llmao: Llmao
    cache: Path
    secrets: list[str] = field(repr=False)

    @property
    def revision_file(self) -> Path:
        """Return where the applied revision is recorded."""
        return self.layout.data / "llmao-revision"

    def say(self, text: str) -> None:
        """Print for the log, without a secret."""
        print(f"llmao-install: {self.mask(text)}", flush=True)

    def mask(self, text: str) -> str:
        """Return a text without secrets; `%` stands twice in a program."""
        for secret in self.secrets:
            for spelt in (secret, secret.replace("%", "%%")):
                text = text.replace(spelt, "***")
        return text

    def applied(self) -> str:
        """Return the revision that runs here, "" for none: a new disk may lack its programs."""
        there = self.revision_file.is_file() and found_programs(self.layout)
        said = self.revision_file.read_text(encoding="utf-8").strip() if there else ""
        return said if _REVISION.fullmatch(said) else ""

    def check(self) -> int:
        """Say whether this box is behind; 3 if so."""
        current = self._asked(self.llmao.current)
        mine = self.llmao.applied
        self.say(f"applied {mine or 'none'}, current {current}")
        return 0 if mine == current else 3

    def _asked(self, ask: Callable[[], Answered]) -> Answered:
        """Ask once: a person waits for the answer."""
        try:
            return ask()
        except NotYetError as why:
            raise RefusedError(str(why)) from None

    def install(self, dry: bool) -> int:
        """Fetch, check and apply; returns 0 or raises RefusedError before anything is changed."""
        given = self._asked(self.llmao.fetch_once) if dry else self.llmao.fetch()
        self.secrets += [server.api_key for server in given.servers]
        self.say(f"revision {given.revision}: {len(given.servers)} servers")
        places, reasons = divide(given.servers, read_cards(self.say))
        found = found_programs(self.layout)
        trouble = misfits(given.servers, reasons, self.cache)
        trouble += taken_ports(given.servers, ports_of(found))
        if trouble:
            raise RefusedError("\n  ".join(["this does not fit here:", *trouble]))
        ports = {server.name: server.port for server in given.servers}
        wanted = {
            self.layout.unit(server.name): program(server, places[server.name], self.layout, ports)
            for server in given.servers
        }
        for server in given.servers:
            self.say(_placed(server, places[server.name]))
        changes = compare(wanted, found)
        if dry:
            for path, text in wanted.items():
                self.say(f"{path}\n{text}")
            self.say(f"would restart: {', '.join(changes.restarted) or 'nothing'}")
            return 0
        self._apply(given, changes, wanted)
        return 0

    def _apply(self, given: Assignment, changes: Changes, wanted: Mapping[Path, str]) -> None:
        layout = self.layout
        for folder in (layout.units, layout.private, layout.log("x").parent):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        layout.units.chmod(0o700)
        ours = found_programs(layout)
        if taken := [str(path) for path in changes.write if path not in ours and path.exists()]:
            raise RefusedError(f"{', '.join(taken)} is not llmao's: move it away")
        with (layout.private / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            put(layout.copy, Path(__file__).read_text(encoding="utf-8"))
            names = [server.name for server in given.servers]
            running = apply(changes, names, self.llmao.announce)
            for path in wanted:
                path.chmod(0o600)
            put(self.revision_file, given.revision + "\n")
        if running:
            second_chance(names, layout, self.say)
        else:
            self.say("supervisord does not run yet; it will find the programs")
        self._report(given.revision)

    def _report(self, revision: str) -> None:
        self.llmao.applied = revision
        try:
            moved = self.llmao.current() != revision
        except (NotYetError, RefusedError) as why:
            self.say(f"warning: applied, but not reported: {why}")
            return
        self.say("applied" + ("; it has moved meanwhile: run this again" if moved else ""))


def _placed(server: Server, place: Place) -> str:
    card = f"card {','.join(map(str, place.cards))}" if place.cards else "no card given"
    need = f"needs {server.need_gb:.1f} GB" if server.need_gb else "no vram_gb in its recipe"
    return f"{server.name:24} port {server.port}  {card}  {place.fraction or '-':6} {need}"


def _base(url: str) -> urllib.parse.SplitResult:
    try:
        base = urllib.parse.urlsplit(url)
        name, _ = base.hostname, base.port
    except ValueError:
        raise RefusedError("LLMAO_URL is no address") from None
    local = name == "localhost"
    with contextlib.suppress(ValueError):
        local = local or ipaddress.ip_address(name or "").is_loopback
    if not name or base.username or base.scheme not in ("https", "http"):
        raise RefusedError("LLMAO_URL must be like https://llm.example.org")
    if base.scheme == "http" and not local:
        raise RefusedError("LLMAO_URL must be https: the answer holds secrets")
    return base


def find_box(env: Mapping[str, str], units: Path, sleep: Sleep) -> Box:
    """Return this box as its environment describes it; raises RefusedError."""
    key, host = env.get("FLEET_KEY", "").strip(), env.get("LLMAO_HOST", "").strip()
    vllm = shutil.which("vllm", path=env.get("PATH"))
    base, problems = None, []
    try:
        base = _base(env.get("LLMAO_URL") or env.get("ASFQUART_URL") or "")
    except RefusedError as problem:
        problems.append(str(problem))
    if not key or key.startswith("CHANGE_ME") or not key.isprintable():
        problems.append("FLEET_KEY is not set: put it into the template of this box")
    if not host.isprintable():
        problems.append("LLMAO_HOST is no name of a box")
    if vllm is None:
        problems.append("there is no vllm on PATH: use an image that has it")
    if base is None or vllm is None or problems:
        raise RefusedError("; ".join(problems))
    data = Path(env.get("DATA_DIRECTORY") or "/workspace").absolute()
    hf_home = env.get("HF_HOME") or str(data / "huggingface")
    token = env.get("HF_TOKEN", "").strip()
    layout = Layout(units, data, sys.executable, vllm, hf_home, token)
    box = Box(layout, Llmao(base, key, host, sleep, print), hub_cache(env, hf_home), [key])
    box.secrets += [token] if token else []
    box.llmao.say = box.say
    box.llmao.applied = box.applied()
    return box


_SETTINGS = """settings, from the environment:
  LLMAO_URL       address of llmao, https (or ASFQUART_URL, its older name)
  FLEET_KEY       fleet.key of llmao's config.yaml
  LLMAO_HOST      the name of this box in fleet.hosts
  DATA_DIRECTORY  where logs and the applied revision are kept (/workspace)
  HF_HOME         where weights are kept ($DATA_DIRECTORY/huggingface)
  HF_TOKEN        for gated weights

exit codes: 0 done, 1 refused or failed, 2 bad usage, 3 (--check) this box is behind"""


def main(
    given: Sequence[str], env: Mapping[str, str] = os.environ, sleep: Sleep = time.sleep
) -> int:
    """Run the command and return its exit code."""
    if given[:1] == ["run"]:
        run_server(given[1:], sleep)
    parser = argparse.ArgumentParser(
        prog="install_set.py", description=__doc__.split("\n")[0], epilog=_SETTINGS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--dry-run", action="store_true", help="print programs and division only")
    what.add_argument("--check", action="store_true", help="exit 3 if this box is behind")
    parser.add_argument("--units", type=Path, default=Path("/etc/supervisor/conf.d"),
                        help="folder of supervisor's programs (%(default)s)")  # fmt: skip
    options = parser.parse_args(given)
    masked: Callable[[str], str] = str
    try:
        box = find_box(env, options.units.absolute(), sleep)
        masked = box.mask
        return box.check() if options.check else box.install(options.dry_run)
    except RefusedError as refusal:
        print(f"llmao-install: refused: {masked(str(refusal))}", flush=True)
    except OSError as error:
        print(f"llmao-install: failed: {masked(str(error))}", flush=True)
    return 1


# ---- what starts a server: `llmao_box.py run NAME PORT [NAME:PORT …] -- COMMAND`

NOT_FOR_VLLM = ("FLEET_KEY", "CONTAINER_API_KEY", "RUNPOD_API_KEY")


def run_server(given: Sequence[str], sleep: Sleep) -> NoReturn:
    """Become the server, after ending what a killed parent left and waiting for its turn."""
    (name, port, *before), command = _halves(given)
    folder = Path(__file__).parent
    if not os.environ.get("VLLM_API_KEY"):
        sys.exit(f"{name}: VLLM_API_KEY is empty, and without it the server would be open")
    end_leftovers(folder / f"{name}.run", sleep)
    put(folder / f"{name}.run", _self())
    for each in before:
        other, _, its_port = each.rpartition(":")
        _await(folder / f"{other}.run", int(its_port), sleep)
    _await_port(int(port), sleep)
    env = {key: value for key, value in os.environ.items() if key not in NOT_FOR_VLLM}
    # beside vLLM is what it compiles with, in an image that keeps it apart
    env["PATH"] = f"{Path(command[0]).parent}:{env.get('PATH', os.defpath)}"
    env["PYTHONPATH"] = ":".join(filter(None, (str(folder), env.get("PYTHONPATH"))))
    os.execve(command[0], command, env)  # noqa: S606 - no shell: that is the point


def _halves(given: Sequence[str]) -> tuple[list[str], list[str]]:
    at = list(given).index("--")
    return list(given[:at]), list(given[at + 1 :])


def _stat(pid: int) -> tuple[str, int, str] | None:
    """Return state, process group and start of a process, None if there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return fields[0], int(fields[2]), fields[19]


def _boot() -> str:
    """Return what changes when machine or container starts anew, and numbers start over."""
    first = _stat(1)
    machine = ""
    with contextlib.suppress(OSError):
        machine = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{machine}/{first and first[2]}"


def _self() -> str:
    mine = _stat(os.getpid())
    return f"{os.getpgrp()} {mine and mine[2]} {_boot()}"


def _recorded(record: Path) -> tuple[int, str] | None:
    """Return group and start of an earlier run, None if it was before this boot."""
    try:
        group, started, boot = record.read_text(encoding="utf-8").split()
        return (int(group), started) if boot == _boot() else None
    except (OSError, ValueError):
        return None


def leftovers(record: Path) -> list[int]:
    """Return what still runs of the process group of an earlier run."""
    known = _recorded(record)
    if known is None:
        return []
    group, started = known
    leader = _stat(group)
    # another start under its number: the number was given out again, and this is a stranger
    if group == os.getpgrp() or (leader and leader[2] != started):
        return []
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]
    stats = {pid: stat for pid in pids if (stat := _stat(pid))}
    return [pid for pid, (state, pgrp, _) in stats.items() if pgrp == group and state != "Z"]


def end_leftovers(record: Path, sleep: Sleep) -> None:
    """Kill what an earlier run left, and wait until its memory on the card is free again."""
    for _ in range(100):
        left = leftovers(record)
        if not left:
            return
        print(f"llmao-run: ending leftovers of the last run: {left}", flush=True)
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        sleep(0.2)


def _serves(port: int) -> bool:
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        line.request("GET", "/health")
        return line.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        line.close()


def _await(record: Path, port: int, sleep: Sleep) -> None:
    """Wait while an earlier server of the same card loads: two at once miscount its memory."""
    for waited_s in range(0, STAGGER_S, 2):
        gone = waited_s > 10 and not leftovers(record)
        if gone or _serves(port):
            return
        sleep(2)


def _await_port(port: int, sleep: Sleep) -> None:
    """Wait while another has the port: two vLLM on one port both start, and one is deaf."""
    for _ in range(120):
        if _can_bind(port, reuse=True):
            return
        print(f"llmao-run: port {port} is taken; waiting", flush=True)
        sleep(1)
    sys.exit(f"port {port} stays taken by another program")


# ---- what guards a server: `vllm serve --middleware llmao_box.RequireBearer`

App = Callable[[Any, Any, Any], Awaitable[None]]


class RequireBearer:
    """Asks for the bearer on every path but `/health`, since vLLM's own key guards only some."""

    def __init__(self, app: App) -> None:
        """Wrap an application; raises RuntimeError if there is no bearer to ask for."""
        key = os.environ.get("VLLM_API_KEY", "")
        if not key:
            raise RuntimeError("VLLM_API_KEY is empty: this server would be open to everybody")
        self._app = app
        self._wanted = hashlib.sha256(key.encode()).digest()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on, or answer 401."""
        health = scope["type"] == "http" and scope["path"] == "/health"
        if scope["type"] == "lifespan" or health or self._knows(scope["headers"]):
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            headers = [(b"content-type", b"application/json"), (b"content-length", b"24")]
            await send({"type": "http.response.start", "status": 401, "headers": headers})
            await send({"type": "http.response.body", "body": b'{"error":"Unauthorized"}'})
        else:
            await send({"type": "websocket.close", "code": 1008})

    def _knows(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        given = [value for name, value in headers if name.lower() == b"authorization"]
        scheme, _, token = given[0].partition(b" ") if len(given) == 1 else (b"", b"", b"")
        same = hmac.compare_digest(hashlib.sha256(token).digest(), self._wanted)
        return same and scheme.lower() == b"bearer"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
