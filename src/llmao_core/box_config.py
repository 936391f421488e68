"""What a box is told: intended becomes the answer to `GET /vllm/config`, and its revision.

Rule of this file: the answer is a function of `Intended` alone. Bearers stay `Secret` until
`BoxAnswer.body` is asked for; what is hashed, compared or kept has their fingerprints.
"""

import hashlib
import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from attrs import frozen

from .config import Host, Json, Recipe
from .intended import Deployment, Intended
from .secret import Secret

_OPTIONAL = ("gpu_memory_utilization", "max_model_len", "vram_gb", "disk_gb", "kv_bytes_per_token")
_SHOWN_CHARACTERS = 80


@frozen
class Server:
    """One server of an answer.

    shown: its JSON in the order sent, `api_key` as 16 hex digits. api_key: the bearer itself.
    """

    shown: Json
    api_key: Secret


@frozen
class BoxAnswer:
    """Everything one host is told, under the name it asked with."""

    host: str
    servers: tuple[Server, ...] = ()

    @cached_property
    def revision(self) -> str:
        """Return `r1-` and 32 hex digits over the answer; safe to show."""
        content = {"host": self.host, "servers": [server.shown for server in self.servers]}
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return "r1-" + hashlib.sha256(text.encode()).hexdigest()[:32]

    @cached_property
    def names(self) -> frozenset[str]:
        """Return the process names of its servers."""
        return frozenset(server.shown["name"] for server in self.servers)

    @cached_property
    def keyless(self) -> bool:
        """Tell whether a server would get an empty bearer, because no salt is configured."""
        return not all(server.api_key for server in self.servers)

    @property
    def assignment(self) -> Json:
        """Return the answer without bearers, to keep and to compare."""
        servers = [server.shown for server in self.servers]
        return {"host": self.host, "revision": self.revision, "servers": servers}

    @property
    def body(self) -> bytes:
        """Return the JSON to send; it holds the bearers in clear."""
        return self._encoded.reveal().encode()

    @cached_property
    def _encoded(self) -> Secret:
        told = [{**server.shown, "api_key": server.api_key.reveal()} for server in self.servers]
        return Secret(json.dumps({**self.assignment, "servers": told}))


def answer(intended: Intended, host: str) -> BoxAnswer | None:
    """Return what a normalised host name is told; None for an unknown host.

    A former name of a host is answered under that name, with the bearers it had.
    """
    named = intended.hosts.get(host) or next(
        (each for each in intended.hosts.values() if host in each.was), None
    )
    return _answer(intended, named, host) if named else None


def answers(intended: Intended) -> Mapping[str, BoxAnswer]:
    """Return the answer for every name a host has or had; made once per Intended.

    JSON and revision are made when first asked for, and kept.
    """
    former = {
        name: _answer(intended, host, name) for host in intended.hosts.values() for name in host.was
    }
    return former | {name: _answer(intended, host, name) for name, host in intended.hosts.items()}


def _answer(intended: Intended, host: Host, name: str) -> BoxAnswer:
    found = (intended.ports.get((name, row.port)) for row in host.rows)
    return BoxAnswer(name, tuple(_server(deployment) for deployment in found if deployment))


def _server(deployment: Deployment) -> Server:
    recipe = deployment.recipe or Recipe(deployment.model)
    shown = {
        "name": deployment.name,
        "model": recipe.model,
        "served_model_name": deployment.served,
        "host": deployment.host,
        "port": deployment.listen_port,
        "api_key": deployment.bearer_id,
        "args": list(recipe.args),
        **{
            name: _plain(value)
            for name in _OPTIONAL
            if (value := getattr(recipe, name)) is not None
        },
    }
    if recipe.source:
        shown["source"] = {"kind": recipe.source.kind}
    return Server(shown, deployment.bearer or Secret(""))


def _plain(number: Any) -> Any:
    """Return 18.0 as 18, so that how a file spells a number moves no revision."""
    return int(number) if isinstance(number, float) and number.is_integer() else number


# ---- the difference in words


def difference(old: Json, new: Json) -> tuple[str, ...]:
    """Say in words what moved between two assignments of one host, both without bearers.

    A setting is preceded by its server's name where there is more than one. What is not in the
    shape of an assignment, as an old store may hold, is compared as empty.
    """
    before, after = _by_name(old), _by_name(new)
    gone = [f"server {name} removed" for name in before if name not in after]
    come = [f"server {name} added" for name in after if name not in before]
    several = len(before.keys() | after.keys()) > 1
    both = [name for name in after if name in before]
    moved = [
        f"{name}: {words}" if several else words
        for name in both
        for words in _settings(before[name], after[name])
    ]
    swapped = both != [name for name in before if name in after]
    return (*gone, *come, *moved, *(["order of servers changed"] if swapped else []))


def _by_name(assignment: Json) -> Mapping[str, Json]:
    servers = assignment.get("servers")
    if not isinstance(servers, Sequence):
        return {}
    return {str(each.get("name")): each for each in servers if isinstance(each, Mapping)}


def _settings(before: Json, after: Json) -> Iterator[str]:
    for name in dict.fromkeys((*before, *after)):
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        if name == "api_key":
            # A store keeps none, and says nothing of it.
            if old is not None and new is not None:
                yield "bearer changed"
        elif old is None:
            yield f"{name} {_said(new)} added"
        elif new is None:
            yield f"{name} {_said(old)} removed"
        else:
            yield f"{name} {_said(old)} → {_said(new)}"


def _said(value: Any) -> str:
    if isinstance(value, Mapping):
        text = ", ".join(f"{name} {_said(each)}" for name, each in value.items())
    elif isinstance(value, list | tuple):
        text = shlex.join(map(str, value)) or "(none)"
    else:
        text = str(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"
