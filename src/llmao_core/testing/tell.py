"""The steps of a case as sentences, for people who read the decision table.

Rule of this file: one function per word of a step; it words what is given and adds nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from llmao_core.prices import per_hour
from llmao_core.testing.situation import ONE_BOX, known
from llmao_core.testing.world import STEP_WORDS

_DOES = {
    "serves": "serves",
    "busy": "answers /health late while its counters move",
    "late": "answers /health late and /v1/models promptly, while its counters move",
    "silent": "does not answer any more",
    "closed": "refuses connections",
    "unrouted": "has no route",
    "failing": "answers 503 to /health",
    "locked": "refuses every bearer with 401",
    "keyless": "answers without a key",
    "garbled": "answers what makes no sense",
    "stuck": "answers /health while requests run and nothing moves",
    "quiet": "answers /health and a completion while its counters stand still",
    "shy": "answers /health, and not /v1/models",
}


def told(steps: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield one line per step: when, and what is the case from then on."""
    for number, step in enumerate(steps):
        lines = list(_lines(step, first=number == 0))
        yield f"at {step['at']:g} s: " + ("; ".join(lines) if lines else "nothing has changed")


def _lines(step: Mapping[str, Any], *, first: bool) -> Iterator[str]:
    known(step, STEP_WORDS, "step")
    if step.get("restart"):
        yield "llmao is restarted"
    fleet = step.get("fleet", {})
    if fleet or first:
        yield from _fleet({**ONE_BOX, **fleet} if first else fleet)
    for name, words in step.items():
        if name in _WORDS:
            yield from _WORDS[name](words)


def _fleet(words: Mapping[str, Any]) -> Iterator[str]:
    for name, value in words.items():
        yield _FLEET[name](value)


def _hosts(hosts: Mapping[str, Mapping[int, str]]) -> str:
    if not hosts:
        return "fleet.hosts is empty"
    rows = (f"{host} with {_join(f'{model} on {port}' for port, model in ports.items())}"
            for host, ports in hosts.items())  # fmt: skip
    return "fleet.hosts has " + _join(rows)


_FLEET: Mapping[str, Callable[[Any], str]] = {
    "hosts": _hosts,
    "listings": lambda given: (
        "listings configured: " + _join(f"{name} every {every} s" for name, every in given.items())
    ),
    "commercial": lambda given: f"models at acme: {_join(given) or 'none'}",
    "models": lambda given: (
        "models.yaml changed: "
        + _join(f"{name} has {_pairs(params)}" for name, params in given.items())
    ),
    "provider_key": lambda given: f"the provider's key is the {given} one",
    "salts": lambda given: (
        "the salt is yesterday's"
        if given == "old"
        else "a new salt is set, yesterday's is the previous one"
    ),
    "require_closed": lambda given: f"require_closed is {str(given).lower()}",
    "legacy": lambda given: f"legacy servers: {_join(given)}",
    "own": lambda given: f"our own machines: {_join(given)}",
    "was": lambda given: _join(f"{name} was {_join(old)}" for name, old in given.items()),
    "pins": lambda given: _join(f"{row} is pinned to {port}" for row, port in given.items()),
    "approved": lambda given: f"approved by an admin, not in fleet.hosts: {_join(given)}",
    "drained": lambda given: f"drained: {_join(given)}",
    "drained_keys": lambda given: f"drained: {_join(given)}",
    "retired": lambda given: f"retired: {_join(given)}",
}


def _servers(servers: Mapping[str, Any]) -> Iterator[str]:
    for where, what in servers.items():
        words = {"does": what} if isinstance(what, str) else what
        yield f"{where} {_server(words)}"


def _server(words: Mapping[str, Any]) -> str:
    parts = [_DOES[words.get("does", "serves")]]
    if "models" in words:
        parts[0] += " " + _join(words["models"])
    if "host" in words:
        salt = words.get("salt", "today")
        whose = "the shared bearer" if salt == "legacy" else f"{salt}'s bearer of {words['host']}"
        parts.append(f"takes only {whose}")
    wording = {
        "max_model_len": "context {}",
        "kv_tokens": "KV cache for {} tokens",
        "canary": "a completion gets HTTP {}",
        "waiting": "{} requests wait in its queue",
    }
    parts += [text.format(words[name]) for name, text in wording.items() if name in words]
    if "open_paths" in words:
        parts.append(f"{_join(words['open_paths'])} works without a bearer")
    if words.get("prefill"):
        parts.append("all of them in prefill")
    return ", ".join(parts)


def _rows(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    yield "LiteLLM has " + (_join(map(_row, rows)) or "no deployments")


def _row(words: Mapping[str, Any]) -> str:
    if "foreign" in words:
        where = "of its own file " if words.get("yaml") else ""
        return f"a row {where}`{words['foreign']}` for {words['model']} at {words['at']}"
    parts = [f"our row of {words['key']}"]
    if "other_fleet" in words:
        parts = [f"a row of the llmao `{words['other_fleet']}` for {words['key']}"]
    wording = {
        "id": "under the id `{}`",
        "at": "at {}",
        "older_field": "with a parameter {} that is no longer written",
    }
    parts += [text.format(words[name]) for name, text in wording.items() if name in words]
    if "edit" in words:
        parts.append(f"edited by hand ({_pairs(words['edit'])})")
    if words.get("unstamped"):
        parts.append("without our mark")
    if words.get("blocked"):
        parts.append("blocked")
    if words.get("live") is False:
        parts.append("saved but not live")
    return " ".join(parts)


def _listings(listings: Mapping[str, Any]) -> Iterator[str]:
    for name, boxes in listings.items():
        if boxes == "silent":
            yield f"{name} cannot be read"
        elif not boxes:
            yield f"{name} lists nothing"
        else:
            yield f"{name} lists " + _join(_instance(one, what) for one, what in boxes.items())


def _instance(name: str, words: Mapping[str, Any]) -> str:
    label = f" labelled {words['label']}" if "label" in words else ""
    ports = _join(f"{listen} → {public}" for listen, public in words.get("ports", {}).items())
    where = f" at {words['address']}" if "address" in words else ""
    said = words.get("says") or words.get("status")
    does = f", {said}" if said else ""
    price = f", {per_hour(words['price'])}" if "price" in words else ""
    return f"instance {name}{label}{where} ({ports or 'no ports mapped'}{does}{price})"


def _says(text: str) -> Callable[[Any], Iterator[str]]:
    """Return a wording of a mapping of names to words, one sentence for each."""

    def say(given: Mapping[str, Any]) -> Iterator[str]:
        for name, word in given.items():
            yield text.format(name=name, word=word)

    return say


def _each(text: str) -> Callable[[Any], Iterator[str]]:
    """Return a wording of a list of names."""
    return lambda given: iter([text.format(_join(given))])


def _pick(**texts: str) -> Callable[[Any], Iterator[str]]:
    """Return a wording of a closed choice."""
    return lambda given: iter([texts[str(given).lower().replace(" ", "_")]])


def _trouble(given: Mapping[str, str | None]) -> Iterator[str]:
    for name, word in given.items():
        yield f"{name} cannot be read ({word})" if word else f"{name} can be read again"


def _press(given: Mapping[str, str]) -> Iterator[str]:
    if "release" in given:
        yield "an admin releases the brake"
    elif "reboot" in given:
        yield f"an admin asks for a reboot of {given['reboot']}"
    else:
        yield f"an admin presses the button of {given['run']}"


_WORDS: Mapping[str, Callable[[Any], Iterator[str]]] = {
    "servers": _servers,
    "rows": _rows,
    "listings": _listings,
    "probes": _pick(false="llmao does not probe", true="llmao probes again"),
    "litellm": _pick(silent="LiteLLM's deployments are not read", answers="they are read again"),
    "checks": _says("LiteLLM's own check of {name} says {word}"),
    "litellm_answers": _says("asked about {name}, LiteLLM says {word}"),
    "fetches": _each("{} fetches its configuration"),
    "restarting": _says("{name} announces that it restarts {word}"),
    "applied": _says("{name} reports revision {word}"),
    "revisions": _says("the current revision of {name} is {word}"),
    "unknown": _each("{} asks with the fleet key and is in no configuration"),
    "wrong_key": _each("{} asks with a wrong fleet key"),
    "writes": _pick(
        none="planned actions are not carried out",
        work="actions are carried out",
        lost="actions are carried out, and LiteLLM's answers are lost",
        not_kept="actions are carried out, and LiteLLM does not keep parameters",
        not_live="actions are carried out, and LiteLLM saves without serving",
        fail="actions are carried out, and LiteLLM answers 500",
    ),
    "press": _press,
    "policy": _says("the policy of {name} is {word}"),
    "trouble": _trouble,
}


def _pairs(given: Mapping[str, Any]) -> str:
    return _join(f"{name}: {value}" for name, value in given.items())


def _join(parts: Iterable[str]) -> str:
    return ", ".join(parts)
