"""What a Config may say: the rules that need more than one value to see.

Rule of this file: pure, and each rule is a generator of findings with the path they belong to.
What rests on a value that could not be read is not judged again. Models are in check_models.py.
"""

import ipaddress
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from . import check_auth, check_fleet, check_models, check_notify
from .actions import ActionKind
from .config import BrakeConfig, Config, ServerConfig
from .errors import Problem
from .places import Finding, Path, Written
from .secret import Secret
from .shapes import meant
from .urls import is_loopback, url_trouble

NOT_RELOADED = ("server", "store", "journal", "auth")

_YEAR_S = 31_536_000
_PROVIDER = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")

_MORE_THAN_ZERO: tuple[Path, ...] = (
    ("litellm", "request_timeout_s"),
    ("litellm", "poll_interval_s"),
    ("fleet", "health_interval_s"),
    ("fleet", "health_timeout_s"),
    ("fleet", "skew_interval_s"),
    ("fleet", "canary", "silent_s"),
    ("fleet", "canary", "timeout_s"),
    ("brake", "window_s"),
)
_RANGES: Mapping[Path, tuple[float, float]] = {
    ("server", "port"): (0, 65535),
    ("fleet", "health_fail_threshold"): (2, 1000),
    ("fleet", "health_grace_s"): (0, _YEAR_S),
    ("fleet", "litellm_health_interval_s"): (0, _YEAR_S),
    ("brake", "fraction"): (0, 1),
    ("brake", "at_least"): (1, 1_000_000),
    ("journal", "keep_days"): (1, 36_500),
    ("journal", "max_mb"): (1, 1_000_000_000),
}


def findings(
    config: Config, written: Written, installed: Collection[str] = ()
) -> Iterator[Finding]:
    """Yield everything that cannot stand, or is worth a warning.

    installed: names of the listing plugins, one of which a GPU provider's section must name.
    """
    rules: tuple[Iterable[Finding], ...] = (
        _numbers(config),
        _server(config.server),
        check_auth.findings(config, written),
        _policy(config),
        _store(config),
        _litellm(config),
        check_fleet.findings(config, written),
        _sent_in_headers(config),
        _providers(config, installed),
        check_models.findings(config, written),
        check_notify.findings(config),
    )
    for rule in rules:
        for each in rule:
            if not written.broken.covers(each.path):
                yield each


# ---- one value


def _numbers(config: Config) -> Iterator[Finding]:
    for path in _MORE_THAN_ZERO:
        if not 0 < _at(config, path) <= _YEAR_S:
            yield Finding(path, "This must be more than 0 and at most a year.", "In seconds.")
    for path, (least, most) in _RANGES.items():
        if not least <= _at(config, path) <= most:
            yield Finding(path, f"This must be from {least} to {most}.")


def _at(config: Config, path: Path) -> Any:
    value: Any = config
    for step in path:
        value = getattr(value, str(step))
    return value


def _url(path: Path, url: str, example: str) -> Iterator[Finding]:
    if trouble := url_trouble(url):
        yield Finding(path, trouble, f"Write it like {example}.")


# ---- server, policy, store, LiteLLM


def _server(server: ServerConfig) -> Iterator[Finding]:
    path = ("server", "public_url")
    if server.public_url:
        yield from _url(path, server.public_url, "https://llm.example.org")
        if not url_trouble(server.public_url):
            yield from _in_clear(path, server.public_url)
    if not server.host or not server.host.isprintable() or " " in server.host:
        yield Finding(("server", "host"), "This is no address to bind to.", "Write 127.0.0.1.")
    for index, each in enumerate(server.trusted_proxies):
        try:
            ipaddress.ip_network(each)
        except ValueError:
            yield Finding(
                ("server", "trusted_proxies", index),
                "This is no network.",
                "Write an address or a CIDR such as 10.0.0.0/8, host bits zero.",
            )


def _in_clear(path: Path, url: str) -> Iterator[Finding]:
    parts = urlsplit(url)
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        yield Finding(
            path,
            "Boxes fetch their bearers over this, and http is in clear.",
            "Put llmao behind TLS and write https://.",
            warning=True,
        )


def _policy(config: Config) -> Iterator[Finding]:
    known = [kind.value for kind in ActionKind]
    for name, value in config.policy.items():
        path = ("policy", name)
        if name not in known:
            remedy = meant(name, known) or f"Known: {', '.join(known)}."
            yield Finding(path, "There is no such kind of action.", remedy)
        elif name == ActionKind.REBOOT_BOX.value and value == "auto":
            yield Finding(
                path, "A box is never rebooted without a person.", "Write needs_human or observe."
            )


def _store_trouble(url: str) -> str:
    """Return what is wrong with the URL of a store, "" for nothing; it may hold a password."""
    if url.startswith("sqlite:///"):
        path = url.removeprefix("sqlite:///")
        return "" if path.isprintable() and path.strip("/. ") else "This names no file."
    if not url.startswith("postgresql://"):
        return "This is no store llmao knows."
    try:
        parts = urlsplit(url)
        # several hosts, of which PostgreSQL takes the one that answers, are no port
        _ = None if "," in parts.netloc else parts.port
    except ValueError:
        return "This is no URL: an @, : or / in a password is written %40, %3A or %2F."
    return "" if parts.path.strip("/") else "This names no database."


def _store(config: Config) -> Iterator[Finding]:
    if trouble := _store_trouble(config.store):
        remedy = "Write sqlite:///llmao.db or postgresql://USER@HOST/DATABASE."
        yield Finding(("store",), trouble, remedy)
    for path in (("journal", "path"), ("models_path",)):
        value = _at(config, path)
        if not value or "\0" in value:
            yield Finding(path, "This is no path.", "Give the place of a file or folder.")


def _litellm(config: Config) -> Iterator[Finding]:
    yield from _url(("litellm", "base_url"), config.litellm.base_url, "http://127.0.0.1:4000")
    path = ("litellm", "deployment_defaults")
    yield from check_models.owned_params(config.litellm.deployment_defaults, path)
    yield from check_models.owned_info(config.litellm.deployment_defaults, path)


def _sent_in_headers(config: Config) -> Iterator[Finding]:
    sent: list[tuple[Path, Secret | None]] = [
        (("litellm", "master_key"), config.litellm.master_key),
        (("fleet", "selfhost_api_key"), config.fleet.selfhost_api_key),
        *((("fleet", "key"), key) for key in config.fleet.key),
        *((("providers", each.name, "api_key"), each.api_key) for each in config.gpu_providers),
        *((("providers", each.name, "api_key"), each.api_key) for each in config.commercial),
    ]
    for path, secret in sent:
        if secret and not secret.reveal().isascii():
            yield Finding(path, "This secret cannot be sent: it is not plain ASCII.")


# ---- providers


def _providers(config: Config, installed: Collection[str]) -> Iterator[Finding]:
    for gpu in config.gpu_providers:
        path = ("providers", gpu.name)
        if gpu.name not in installed:
            have = ", ".join(sorted(installed)) or "none"
            yield Finding(
                path,
                "No installed plugin reads the listing of a provider of this name.",
                meant(gpu.name, installed)
                or f"Installed: {have}. A provider of models needs `commercial: true`.",
            )
        if gpu.interval_s is not None and not 0 < gpu.interval_s <= _YEAR_S:
            yield Finding((*path, "interval_s"), "This must be more than 0 and at most a year.")
        if gpu.base_url is not None:
            yield from _url((*path, "base_url"), gpu.base_url, "https://api.example.org")
    for commercial in config.commercial:
        path = ("providers", commercial.name)
        if not _PROVIDER.fullmatch(commercial.name):
            yield Finding(
                path, "This is no name for a provider.", "Small letters, digits, `_`, `-`."
            )
        yield from _url((*path, "api_base"), commercial.api_base, "https://openrouter.ai/api/v1")


# ---- reload


def reload_refusals(old: Config, new: Config) -> tuple[Problem, ...]:
    """Return what differs and cannot change without a restart: server, store, journal, auth."""
    return tuple(
        Problem(
            what=f"`{name}` cannot change without a restart.",
            remedy="Restart llmao, or put the old value back.",
            path=name,
        )
        for name in NOT_RELOADED
        if getattr(old, name) != getattr(new, name)
    )


def dropped_hosts(old: Config, new: Config, brake: BrakeConfig) -> tuple[str, ...]:
    """Return the hosts a reload would drop, when they are so many that it needs a confirmation.

    So many is what the brake says, and the last ones of a fleet, however small. A host that keeps
    none of its rows is dropped too; one that is renamed (`was`) is not.
    """
    kept = {name for host in new.fleet.hosts if host.rows for name in (host.name, *host.was)}
    had = [host.name for host in old.fleet.hosts if host.rows]
    dropped = tuple(name for name in had if name not in kept)
    many = len(dropped) >= brake.at_least and len(dropped) > brake.fraction * len(had)
    return dropped if many or not kept else ()
